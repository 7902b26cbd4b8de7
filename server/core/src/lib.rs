//! The consortium's rules on the only database: accounts, budgets, jobs, rounds, receipts, the ledger and its log.
//!
//! [`open`] opens a consortium from a configuration; the server's interfaces (REST, gRPC, dashboard) translate requests and call
//! [`service`], whose operations check the policy first. `view` assembles what they return.
//! Only `rule`, `service`, `view` and `db` access tables: `model` is the crate `undertone-server-entity`. To add an operation: a function in
//! the file of its subject in `service`, a row in `auth::policy`.
//!
//! The modules of `undertone-server-base` are re-exported, so that a path such as `auth::policy` names them here too.

pub mod certificate_renewal;
pub mod metrics_text;
mod open;
pub mod rule;
pub mod service;
#[cfg(any(test, feature = "testing"))]
#[expect(clippy::missing_panics_doc, clippy::new_without_default, reason = "a fixture fails by panicking")]
pub mod testing;
#[cfg(test)]
mod tests;
pub mod view;

pub(crate) use undertone_server_entity as model;

pub use open::{StartError, data_folder, open, open_mode, open_tables};
#[cfg(any(test, feature = "testing"))]
pub use undertone_server_base::on_both_with;
pub use undertone_server_base::{
    Config, Ctx, address, auth, compute, config, ctx, db, error, exchange, fairness, fault, keys, metrics, network,
    nul_bytes, outbound, tls, verify,
};
