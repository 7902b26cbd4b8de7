//! The rules: one file per subject, one function per operation. The first line of an operation asks
//! [`policy`](crate::auth::policy); faces translate and call. Only here are tables read and written.

mod code;
mod entity;
