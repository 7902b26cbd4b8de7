//! `undertone-server doctor`: checks each part of a server once, with a remedy for each fault.
//!
//! It runs next to a serving server and leaves no traces: it removes its probe file in the data folder and its probe
//! object in the store. It only reads the database. It takes the writer's turn once in a transaction that is rolled
//! back. To add a check: a function in `doctor/` that adds to an [`Examination`], and its call in [`examine`].

mod certificate;
mod database;
mod folder;
mod ledger;
mod listener;
mod notice;
mod provider;
mod report;
mod signer;
mod store;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::Duration;

use clap::Args;

use undertone_server_core::config::Config;
use undertone_server_core::ctx::Clock;

pub use report::{CheckResult, CheckState, Examination};

/// The longest time of one request to a database, a store, a provider or a listener.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// The options of `doctor`.
#[derive(Debug, Clone, Args)]
pub struct DoctorOptions {
    /// Print one JSON object instead of lines.
    #[arg(long)]
    pub json: bool,
}

/// Reads the configuration from `file` and the environment, and checks the server that it describes.
pub async fn run(file: Option<&Path>, clock: &Clock) -> Examination {
    match Config::read(file) {
        Ok(config) => examine(&config, clock).await,
        Err(error) => {
            let mut report = Examination::default();
            let remedy = "correct it; `undertone-server config --table` lists the keys with their ranges";
            report.fail("configuration", error.to_string(), remedy);
            report
        }
    }
}

/// Checks the server of a configuration.
pub async fn examine(config: &Config, clock: &Clock) -> Examination {
    // The process may already have a default provider, which is also ring.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut report = Examination::default();
    check_configuration(config, &mut report);
    folder::check_folder(config, &mut report);
    folder::check_room(config, &mut report);
    folder::check_files(config, &mut report);
    let tables = database::check(config, clock, &mut report).await;
    let keys = folder::check_keys(config, tables.as_ref(), &mut report);
    if let Some(tables) = tables {
        if tables.is_current {
            ledger::check(&tables.db, &keys, clock.now(), &mut report).await;
        }
        // An unclean close loses no data, because the process ends.
        let _ = tables.db.close().await;
    }
    certificate::check(config, clock.now(), &mut report);
    store::check(config, &mut report).await;
    signer::check(config, clock.now(), &mut report).await;
    provider::check(config, &mut report).await;
    notice::check(config, &mut report).await;
    listener::check(config, &mut report).await;
    report
}

fn check_configuration(config: &Config, report: &mut Examination) {
    const CHECK: &str = "configuration";
    for warning in config.warnings() {
        report.warn(CHECK, warning, "see the keys in OPERATION.md");
    }
    let listeners =
        [("public_url", config.http, &config.public_url), ("public_grpc", config.grpc, &config.public_grpc)];
    for (key, address, public) in listeners {
        if public.is_none() && address.ip().is_unspecified() {
            let detail = format!("`{key}` is not set, and {address} is not reachable from other machines");
            report.warn(CHECK, detail, format!("set `{key}` to the address by which the server is reached"));
        }
    }
    if config.dist.is_none() {
        report.warn(
            CHECK,
            "`dist` is not set: pages have neither style nor script",
            "set `dist` to the bundled dashboard",
        );
    }
    report.pass(CHECK, "every key has a value in its range");
}
