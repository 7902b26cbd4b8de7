//! The consortium's server: three interfaces (REST, gRPC, dashboard) over one service layer.
//!
//! [`build`] makes the server from a configuration; `main`, the demo and the tests all use it. Interfaces translate.
//! Rules are in `undertone_server_core::service`, which checks the policy first.

pub mod backup;
mod caller_address;
mod connections;
pub mod dashboard;
pub mod doctor;
pub mod grpc;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod matrix;
pub mod metrics;
mod rate;
pub mod rest;
mod scope;
pub mod serving;
pub mod telemetry;
pub mod terminal;
#[cfg(test)]
pub(crate) mod testing;

mod app;

pub use app::{App, build, stop_on_signal};
pub use undertone_app::{OfferedAccount, TourStop, offer_accounts, offer_tour};
