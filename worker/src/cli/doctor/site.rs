//! Checks of the site itself: its folder, policy, key and ledger, and that the worker runs.

use time::{Duration, OffsetDateTime};

use super::super::chain;
use super::Findings;
use crate::cli::ledger::restoration_text;
use crate::config::Config;
use crate::site::folder::{Folder, FolderError};
use crate::site::keys::{KeyError, SiteKey};
use crate::site::ledger::{check_anchor, verify};
use crate::site::policy::{Policy, RequiredApproval};
use crate::site::store::Store;
use crate::site::witness::{alarm, evidence, restoration};
use crate::site::{consent, restore, rotation};

/// The period in which a change of a steward's credentials is reported.
const NEWS: Duration = Duration::days(7);

pub(super) fn policy(folder: &Folder, found: &mut Findings) {
    match Policy::load(&folder.policy()) {
        Ok(policy) => found.ok("policy", format!("{} kinds may run", policy.rules("").kinds.len())),
        Err(error) => {
            found.fail("policy", chain(&error), "nothing runs until it is mended: `undertone-worker policy show`");
        }
    }
}

pub(super) fn folder(folder: &Folder, found: &mut Findings) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        match std::fs::metadata(folder.root()).map(|it| it.permissions().mode() & 0o777) {
            Ok(mode) if mode.trailing_zeros() >= 6 => found.ok("folder", format!("{}", folder.root().display())),
            Ok(mode) => found.warn(
                "folder",
                format!("{} may be entered by others (mode {mode:o})", folder.root().display()),
                format!("chmod 700 {}", folder.root().display()),
            ),
            Err(error) => found.fail("folder", error.to_string(), "name the site's folder with --site"),
        }
    }
    #[cfg(not(unix))]
    found.ok("folder", format!("{}", folder.root().display()));
}

pub(super) fn key(
    folder: &Folder,
    config: Option<&Config>,
    now: OffsetDateTime,
    found: &mut Findings,
) -> Option<SiteKey> {
    let key = match SiteKey::load(&folder.key()) {
        Ok(key) => key,
        Err(error) => {
            let remedy = match &error {
                KeyError::Exposed { path, .. } => {
                    format!(
                        "chmod 600 {}; if it may have been copied, run `undertone-worker rotate-key` then",
                        path.display()
                    )
                }
                _ => "restore it from a backup, or enrol a new worker".to_owned(),
            };
            found.fail("key", chain(&error), remedy);
            return None;
        }
    };
    let public = key.public_hex();
    if rotation::is_pending(folder) {
        found.warn(
            "key",
            format!("{public} is to be followed by another"),
            "start the worker, or run `rotate-key` again",
        );
        return Some(key);
    }
    let days = config.map_or(0, |config| i64::from(config.rotate_key_days));
    let since = std::fs::metadata(folder.key()).and_then(|file| file.modified()).map(OffsetDateTime::from);
    match since {
        Ok(since) if days > 0 && now - since > Duration::days(days) => {
            let remedy = "it changes by itself between two jobs while the worker runs; `rotate-key` does it now";
            found.warn("key", format!("{public} is in force since {}", since.date()), remedy);
        }
        _ => found.ok("key", public),
    }
    Some(key)
}

pub(super) fn ledger(
    folder: &Folder,
    key: Option<&SiteKey>,
    config: Option<&Config>,
    found: &mut Findings,
) -> Option<Store> {
    if !folder.ledger().exists() {
        found.fail("ledger", "there is no ledger.db", "restore the site from a backup: a ledger is never made twice");
        return None;
    }
    match Store::is_older(&folder.ledger()) {
        Ok(false) => {}
        Ok(true) => {
            found.warn(
                "ledger",
                "it is of an older version",
                "start the worker: it keeps a copy and brings it up to date",
            );
            return None;
        }
        Err(error) => {
            found.fail("ledger", chain(&error), "install the worker that wrote it, or restore the site from a backup");
            return None;
        }
    }
    let store = match Store::open(&folder.ledger()) {
        Ok(store) => store,
        Err(error) => {
            found.fail(
                "ledger",
                chain(&error),
                "look at the disk; nothing is released while the ledger cannot be read",
            );
            return None;
        }
    };
    if let Some(key) = key {
        match store.read(|db| verify(db, &key.public())) {
            Ok(verified) => {
                found.ok("ledger", format!("{} rows and {} receipts hold", verified.entries, verified.receipts));
            }
            Err(error) => {
                found.fail("ledger", chain(&error), "nothing may be released: restore the site from a backup");
            }
        }
    }
    if let Some(config) = config {
        match store.read(|db| evidence::verify(db, &config.server_key)) {
            Ok(attested) if attested.open.is_empty() => {
                found.ok("receipts", format!("all {} are proved to be in the server's log", attested.proved));
            }
            Ok(attested) => found.warn(
                "receipts",
                format!("{} of them are not proved to be in the server's log", attested.open.len()),
                "the running worker asks for the proofs; look again when it has reached the server",
            ),
            Err(error) => {
                found.fail("receipts", chain(&error), "restore the site from a backup, and find out who was here");
            }
        }
    }
    if let Some(config) = config {
        anchor(config, &store, found);
    }
    match store.read(alarm::open) {
        Ok(None) => found.ok("alarm", "none is open"),
        Ok(Some(open)) => found.fail(
            "alarm",
            format!("alarm {} is open since {}: {}", open.id, open.at, open.problem),
            "nothing leaves: `ledger alarm show`, ask the server's operator, then `ledger alarm clear --reason ...`",
        ),
        Err(error) => found.fail("alarm", chain(&error), "look at the disk"),
    }
    restorations(&store, found);
    if let Ok(Some(backup_at)) = restore::pending_restore(&store) {
        found.warn(
            "restored",
            format!("the ledger came out of a backup of {backup_at} and was not compared with the server"),
            "start the worker: nothing leaves until it has compared them",
        );
    }
    Some(store)
}

/// Compares the ledger with its anchor, or warns that there is none.
fn anchor(config: &Config, store: &Store, found: &mut Findings) {
    let Some(anchor) = config.ledger_anchor() else {
        return found.warn(
            "anchor",
            "no file outside of the site's folder holds the number of the newest receipt: a folder that was put back to an older copy \
             is detected by what the server and the peers show alone",
            "set `anchor` in config.toml to a file on another disk, then `undertone-worker ledger anchor begin`",
        );
    };
    match check_anchor(store, &anchor) {
        Ok(anchored) => {
            found.ok("anchor", format!("{} holds receipt {}", anchor.path().display(), anchored.receipts));
        }
        Err(error) => found.fail("anchor", chain(&error), "nothing leaves until the ledger continues its anchor"),
    }
}

/// Reports the newest restoration of the server, if any.
fn restorations(store: &Store, found: &mut Findings) {
    match store.read(restoration::accepted_restorations) {
        Ok(accepted) => {
            let Some(newest) = accepted.last() else { return };
            let text = restoration_text(newest);
            if newest.finished_at.is_some() {
                found.ok("restoration", text);
            } else {
                found.warn(
                    "restoration",
                    text,
                    "start the worker: it gives the receipts back, and until then the server offers this site nothing",
                );
            }
        }
        Err(error) => found.fail("restoration", chain(&error), "look at the disk"),
    }
}

/// Checks that jobs can be approved here as the policy demands.
pub(super) fn approval(folder: &Folder, store: &Store, now: OffsetDateTime, found: &mut Findings) {
    match consent::notices_since(store, now - NEWS) {
        Ok(notices) => {
            for (day, text) in notices {
                found.warn(
                    "credentials",
                    format!("{day}: {text}"),
                    "ask the steward by telephone whether it was them; if not, `undertone-worker approval-keys list` and `remove`",
                );
            }
        }
        Err(error) => found.fail("credentials", chain(&error), "look at the disk"),
    }
    let Ok(policy) = Policy::load(&folder.policy()) else { return };
    let names = policy.dataset_names().chain([""]);
    let rules: Vec<RequiredApproval> = names.map(|name| policy.rules(name).approval).collect();
    let pinned = match consent::pinned_keys(store) {
        Ok(pinned) => pinned.len(),
        Err(error) => return found.fail("approval", chain(&error), "look at the disk"),
    };
    if rules.contains(&RequiredApproval::Steward) && pinned == 0 {
        found.warn(
            "approval",
            "the policy asks for stewards' signatures, and no approval key is pinned: jobs wait",
            "pin a key with `undertone-worker approval-keys add`, or set `approval = \"server\"` in policy.toml to trust the \
             server's word",
        );
    } else if rules.contains(&RequiredApproval::Steward) {
        found.ok("approval", format!("{pinned} approval keys are pinned"));
    } else if rules.contains(&RequiredApproval::Server) {
        found.ok("approval", "by the server's word: this site verifies no steward's signature");
    } else {
        found.ok("approval", "by this site itself");
    }
}

pub(super) fn daemon(folder: &Folder, found: &mut Findings) {
    // Taking the lock would create the folder; a wrong path must not create one.
    if !folder.root().is_dir() {
        return;
    }
    match folder.lock() {
        Err(FolderError::Locked(_)) => found.ok("worker", "it is running"),
        Ok(_) => {
            found.warn("worker", "it is not running", "systemctl start undertone-worker, or `undertone-worker run`");
        }
        Err(error) => found.fail("worker", chain(&error), "run this as the worker's user"),
    }
}
