//! The consortium's rules on the only database: accounts, budgets, jobs, rounds, receipts, the ledger and its log.
//!
//! [`open`] opens a consortium from a configuration; the server's interfaces (REST, gRPC, dashboard) translate requests and call
//! [`service`], whose operations check the policy first. `view` assembles what they return.
//! Only `service`, `view` and `db` access tables (`model`). To add an operation: a function in
//! the file of its subject in `service`, a row in `auth::policy`.

pub mod address;
pub mod auth;
pub mod compute;
pub mod config;
pub mod ctx;
pub mod db;
pub mod error;
pub mod exchange;
pub mod fairness;
pub mod fault;
pub mod keys;
pub mod metrics;
mod model;
pub mod network;
pub mod nul_bytes;
mod open;
pub mod outbound;
pub mod rule;
pub mod service;
#[cfg(any(test, feature = "testing"))]
#[expect(clippy::missing_panics_doc, clippy::new_without_default, reason = "a fixture fails by panicking")]
pub mod testing;
pub mod tls;
pub mod verify;
pub mod view;

pub use config::Config;
pub use ctx::Ctx;
pub use open::{StartError, data_folder, open, open_mode, open_tables};
