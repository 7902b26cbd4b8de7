//! Rules that run below the operations of [`service`](crate::service): functions that only read rows of the caller's connection.
//! They import no operation, no view and no reaction.

pub mod hold;
pub mod job;
