//! The contract: everything that two of Undertone's programs must agree on, and nothing else.
//!
//! Ids, the one table of problem codes, transfer objects, job kinds (specification and cost) and signed documents
//! (permissions and charges). No IO, no clock, no database, no framework. To add a job kind, see [`job`].

pub mod account;
pub mod api_key;
pub mod approval_key;
pub mod audit_log;
pub mod budget;
pub mod consortium;
pub mod dataset;
pub mod event;
pub mod freeze;
#[cfg(test)]
mod fuzz;
pub mod id;
pub mod job;
pub mod ledger;
pub mod log;
pub mod member;
pub mod model;
pub mod notification;
pub mod organization;
pub mod page;
pub mod passkey;
pub mod plan;
pub mod problem;
pub mod question;
pub mod report;
pub mod retirement;
#[cfg(feature = "openapi")]
pub mod schema;
pub mod session;
pub mod signed;
pub mod table;
#[cfg(test)]
mod vectors;
pub mod worker;
