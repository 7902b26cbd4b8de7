//! The read side: what the operations of [`service`](crate::service) return, assembled from several rows.
//!
//! A view changes nothing. It imports `model` and the rules that it describes. Operations import views, because they return the
//! object that they changed. A rule that runs within a transaction imports none.

pub mod approval;
pub mod diagnosis;
pub mod job;
pub mod statistics;
