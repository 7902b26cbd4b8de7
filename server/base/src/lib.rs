//! What the rules of `undertone-server-core` stand on: authentication and the policy, keys and signatures, configuration,
//! the database's transactions, fair queues, metrics, transfers of vectors and files, verification of exported ledgers.
//!
//! Nothing here accesses a table of the consortium, and nothing decides about a job or a budget: that is the crate above,
//! which re-exports these modules. A module belongs here if it needs no operation, rule or view.

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
pub mod network;
pub mod nul_bytes;
pub mod outbound;
#[cfg(any(test, feature = "testing"))]
#[expect(clippy::missing_panics_doc, reason = "a fixture fails by panicking")]
pub mod testing;
pub mod tls;
pub mod verify;

pub use config::Config;
pub use ctx::Ctx;
