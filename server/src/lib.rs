//! The consortium's server: three faces (REST, gRPC, dashboard) over one service layer.
//!
//! [`build`] makes the whole from a configuration; `main`, the demo and the tests all use it. A face translates, a rule
//! lives in `service` and asks the policy first, only `service` and `db` know tables.

mod address;
pub mod auth;
pub mod backup;
mod compute;
pub mod config;
mod connections;
pub mod ctx;
pub mod dashboard;
pub mod db;
pub mod demo;
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

pub use app::{App, StartError, build, open};
pub use config::Config;
pub use ctx::Ctx;
