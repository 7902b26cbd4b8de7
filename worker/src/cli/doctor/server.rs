//! Checks of the server: it answers, has the pinned identity, knows this site, and agrees on clock and receipts.

use std::time::Instant;

use time::OffsetDateTime;
use undertone_api::problem::Code;

use super::CheckResults;
use crate::config::Config;
use crate::gateway::{Gateway, GatewayError};
use crate::site::clock::Clock;
use crate::site::folder::Folder;
use crate::site::keys::SiteKey;
use crate::site::ledger::length;
use crate::site::store::Store;

/// The largest unremarkable difference of clocks, seconds.
pub(super) const SKEW: i64 = 5;
/// The largest difference of clocks, seconds, at which deadlines and dates have a meaning.
pub(super) const FAR: i64 = 120;

pub(super) async fn check_server(
    folder: &Folder,
    config: &Config,
    key: SiteKey,
    store: Option<&Store>,
    clock: &Clock,
    results: &mut CheckResults,
) {
    let address = config.server.address();
    let gateway = match Gateway::for_site(config, folder, key) {
        Ok(gateway) => gateway,
        Err(error) => return results.fail("server", error.to_string(), "`undertone-worker config check`"),
    };
    let start = Instant::now();
    match gateway.time().await {
        Ok(server_time) => {
            results.ok(
                "server",
                format!("{address} accepts this worker; it answered after {} ms", start.elapsed().as_millis()),
            );
            check_skew(server_time - clock().unix_timestamp(), results);
        }
        Err(error) => return report_unreachable(address, &error, results),
    }
    check_certificate(&gateway, config, clock(), results).await;
    if let Some(store) = store {
        check_receipts(&gateway, store, results).await;
    }
}

fn report_unreachable(address: &str, error: &GatewayError, results: &mut CheckResults) {
    let remedy = match error {
        GatewayError::Problem(problem) if problem.code == Code::Unauthenticated => {
            "the server rejects this site's key: check whether the site was restored from a backup older than `rotate-key`, or the worker was removed"
        }
        GatewayError::Later { .. } => "the server is overloaded: try again later",
        GatewayError::Problem(_) => "the server refuses the call: ask its operator",
        GatewayError::Protocol(_) => "another program or version answers at this address: ask the server's operator",
        _ => "check the address, the server, the outbound port and the server's certificate; `curl -v` shows details",
    };
    results.fail("server", format!("{address}: {error}"), remedy);
}

/// Judges a difference of clocks, in seconds.
pub(super) fn check_skew(seconds: i64, results: &mut CheckResults) {
    let message = match seconds {
        0 => "equals the server's clock to the second".to_owned(),
        behind if behind > 0 => format!("{behind} s behind the server's clock"),
        ahead => format!("{} s ahead of the server's clock", -ahead),
    };
    let remedy = "synchronize this machine's clock by NTP (`timedatectl set-ntp true`)";
    match seconds.abs() {
        0..=SKEW => results.ok("clock", message),
        _ if seconds.abs() <= FAR => results.warn("clock", message, remedy),
        _ => results.fail("clock", message, remedy),
    }
}

async fn check_certificate(gateway: &Gateway, config: &Config, now: OffsetDateTime, results: &mut CheckResults) {
    if config.server.certificate().is_none() {
        return results.ok("certificate", "none: the server is on this machine");
    }
    match gateway.pins().await {
        Ok(Some(pins)) => {
            let mut all = pins.certificates.iter();
            let Some(present) = all.next() else {
                return results.warn(
                    "certificate",
                    "the server announces none",
                    "ask the server's operator which program terminates TLS",
                );
            };
            let short = present.sha256.get(..16).unwrap_or_default();
            let until = present.until.map_or_else(String::new, |until| {
                format!(", until {} ({} days)", until.date(), (until - now).whole_days())
            });
            let next = all.next().map_or("the next one does not exist yet", |_| "the next one is known here");
            results.ok("certificate", format!("{short}… is pinned{until}; {next}"));
        }
        Ok(None) => results.warn(
            "certificate",
            "no key of the server can announce other certificates",
            "enrol again with a new token",
        ),
        Err(error) => results.warn("certificate", error.to_string(), "the running worker repeats this"),
    }
}

async fn check_receipts(gateway: &Gateway, store: &Store, results: &mut CheckResults) {
    let Ok(count) = length(store) else { return };
    match gateway.receipts(count).await {
        Ok(more) if more.is_empty() => results.ok("copy", "the server has no receipt that this ledger lacks"),
        Ok(more) => results.fail(
            "copy",
            format!(
                "the server has at least {} receipts that this ledger lacks: the ledger is an older copy",
                more.len()
            ),
            "start the worker: it imports them as spent before anything leaves; find out how the older copy came here",
        ),
        Err(error) => {
            results.warn("copy", error.to_string(), "the running worker compares them before anything leaves");
        }
    }
}
