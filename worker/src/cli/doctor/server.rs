//! Checks of the server: it answers, has the pinned identity, knows this site, and agrees on clock and receipts.

use std::time::Instant;

use time::OffsetDateTime;
use undertone_api::problem::Code;

use super::Findings;
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

pub(super) async fn all(
    folder: &Folder,
    config: &Config,
    key: SiteKey,
    store: Option<&Store>,
    clock: &Clock,
    found: &mut Findings,
) {
    let address = config.server.address();
    let gateway = match Gateway::of(config, folder, key) {
        Ok(gateway) => gateway,
        Err(error) => return found.fail("server", error.to_string(), "`undertone-worker config check`"),
    };
    let begun = Instant::now();
    match gateway.time().await {
        Ok(theirs) => {
            found.ok(
                "server",
                format!("{address} knows this worker; it answered after {} ms", begun.elapsed().as_millis()),
            );
            skew(theirs - clock().unix_timestamp(), found);
        }
        Err(error) => return unreachable(address, &error, found),
    }
    certificate(&gateway, config, clock(), found).await;
    if let Some(store) = store {
        receipts(&gateway, store, found).await;
    }
}

fn unreachable(address: &str, error: &GatewayError, found: &mut Findings) {
    let remedy = match error {
        GatewayError::Problem(problem) if problem.code == Code::Unauthenticated => {
            "the server does not believe this site's key: was the site restored from before `rotate-key`, or the worker removed?"
        }
        GatewayError::Later { .. } => "the server has more to do than it takes: try again in a moment",
        GatewayError::Problem(_) => "the server says no: ask its operator",
        GatewayError::Protocol(_) => {
            "another program, or another version, answers at this address: ask the server's operator"
        }
        _ => {
            "is the address right, the server up, the port open outwards, the certificate the server's own? `curl -v` tells more"
        }
    };
    found.fail("server", format!("{address}: {error}"), remedy);
}

/// Judges a difference of clocks, in seconds.
pub(super) fn skew(seconds: i64, found: &mut Findings) {
    let said = match seconds {
        0 => "agrees with the server's to the second".to_owned(),
        behind if behind > 0 => format!("{behind} s behind the server's"),
        ahead => format!("{} s ahead of the server's", -ahead),
    };
    let remedy = "set this machine's clock by NTP (`timedatectl set-ntp true`)";
    match seconds.abs() {
        0..=SKEW => found.ok("clock", said),
        _ if seconds.abs() <= FAR => found.warn("clock", said, remedy),
        _ => found.fail("clock", said, remedy),
    }
}

async fn certificate(gateway: &Gateway, config: &Config, now: OffsetDateTime, found: &mut Findings) {
    if config.server.certificate().is_none() {
        return found.ok("certificate", "none: the server is on this machine, and nothing leaves it");
    }
    match gateway.pins().await {
        Ok(Some(pins)) => {
            let mut all = pins.certificates.iter();
            let Some(present) = all.next() else {
                return found.warn("certificate", "the server says none", "ask the server's operator who does its TLS");
            };
            let short = present.sha256.get(..16).unwrap_or_default();
            let until = present.until.map_or_else(String::new, |until| {
                format!(", until {} ({} days)", until.date(), (until - now).whole_days())
            });
            let next = all.next().map_or("the next is not made yet", |_| "the next is known here");
            found.ok("certificate", format!("{short}… is pinned{until}; {next}"));
        }
        Ok(None) => found.warn("certificate", "nobody may say others", "enrol again with a new token"),
        Err(error) => found.warn("certificate", error.to_string(), "the running worker asks again"),
    }
}

async fn receipts(gateway: &Gateway, store: &Store, found: &mut Findings) {
    let Ok(ours) = length(store) else { return };
    match gateway.receipts(ours).await {
        Ok(more) if more.is_empty() => found.ok("copy", "the server has no receipt that this ledger lacks"),
        Ok(more) => found.fail(
            "copy",
            format!("the server has {} receipts or more that this ledger lacks: it is an older copy", more.len()),
            "start the worker: it takes them in as spent before anything may leave; find out who put the copy here",
        ),
        Err(error) => found.warn("copy", error.to_string(), "the running worker compares them before anything leaves"),
    }
}
