//! The rules: one file per subject, one function per operation. The first line of an operation asks
//! [`policy`](crate::auth::policy); faces translate and call. Only here are tables read and written.

mod code;
mod entity;
mod receipt;

pub mod approval;
pub mod audit;
pub mod budget;
pub mod bundle;
pub mod certificate;
pub mod consortium;
pub mod dataset;
pub mod finish;
pub mod freeze;
pub mod invitation;
pub mod job;
pub mod lease;
pub mod ledger;
pub mod log;
pub mod measurement;
pub mod member;
pub mod model;
pub mod offer;
pub mod organization;
pub mod plan;
pub mod presence;
pub mod question;
pub mod report;
pub mod round;
pub mod session;
pub mod setup;
pub mod witness;
pub mod worker;
#[cfg(test)]
pub(crate) mod world;
