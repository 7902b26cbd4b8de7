//! The consortium's server: three interfaces (REST, gRPC, dashboard) over one service layer.
//!
//! [`build`] makes the server from a configuration; `main`, the demo and the tests all use it. Interfaces translate.
//! Rules are in `service` and check the policy first. Only `service` and `db` access tables.

mod address;
pub mod auth;
pub mod backup;
mod compute;
pub mod config;
mod connections;
pub mod ctx;
pub mod dashboard;
pub mod db;
pub mod doctor;
pub mod error;
pub mod exchange;
mod fairness;
pub mod fault;
pub mod grpc;
pub mod keys;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod matrix;
pub mod metrics;
mod nul;
pub mod outbound;
mod rate;
pub mod rest;
pub mod service;
pub mod serving;
pub mod telemetry;
pub mod terminal;
#[cfg(test)]
pub(crate) mod testing;
pub mod tls;
pub mod verify;

mod app;

pub use app::{App, StartError, build, open, stop_on_signal};
pub use config::Config;
pub use ctx::Ctx;
