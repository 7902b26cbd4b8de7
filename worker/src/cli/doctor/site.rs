//! Checks of the site itself: its folder, policy, key and ledger, and that the worker runs.

use time::{Duration, OffsetDateTime};

use super::super::format_error;
use super::CheckResults;
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

pub(super) fn check_policy(folder: &Folder, results: &mut CheckResults) {
    match Policy::load(&folder.policy()) {
        Ok(policy) => results.ok("policy", format!("{} job kinds are allowed", policy.rules("").kinds.len())),
        Err(error) => {
            results.fail(
                "policy",
                format_error(&error),
                "no job runs until the policy is corrected: `undertone-worker policy show`",
            );
        }
    }
}

pub(super) fn check_folder(folder: &Folder, results: &mut CheckResults) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        match std::fs::metadata(folder.root()).map(|it| it.permissions().mode() & 0o777) {
            Ok(mode) if mode.trailing_zeros() >= 6 => results.ok("folder", format!("{}", folder.root().display())),
            Ok(mode) => results.warn(
                "folder",
                format!("{} is accessible to other users (mode {mode:o})", folder.root().display()),
                format!("chmod 700 {}", folder.root().display()),
            ),
            Err(error) => results.fail("folder", error.to_string(), "name the site's folder with --site"),
        }
    }
    #[cfg(not(unix))]
    results.ok("folder", format!("{}", folder.root().display()));
}

pub(super) fn check_key(
    folder: &Folder,
    config: Option<&Config>,
    now: OffsetDateTime,
    results: &mut CheckResults,
) -> Option<SiteKey> {
    let key = match SiteKey::load(&folder.key()) {
        Ok(key) => key,
        Err(error) => {
            let remedy = match &error {
                KeyError::Exposed { path, .. } => {
                    format!(
                        "chmod 600 {}; if it may have been copied, then run `undertone-worker rotate-key`",
                        path.display()
                    )
                }
                _ => "restore the key from a backup, or enrol a new worker".to_owned(),
            };
            results.fail("key", format_error(&error), remedy);
            return None;
        }
    };
    let public = key.public_hex();
    if rotation::is_pending(folder) {
        results.warn(
            "key",
            format!("a change from {public} to the next key is pending"),
            "start the worker, or repeat `rotate-key`",
        );
        return Some(key);
    }
    let days = config.map_or(0, |config| i64::from(config.rotate_key_days));
    let since = std::fs::metadata(folder.key()).and_then(|file| file.modified()).map(OffsetDateTime::from);
    match since {
        Ok(since) if days > 0 && now - since > Duration::days(days) => {
            let remedy = "a running worker replaces it between two jobs; `rotate-key` replaces it now";
            results.warn("key", format!("{public} is in force since {}", since.date()), remedy);
        }
        _ => results.ok("key", public),
    }
    Some(key)
}

pub(super) fn check_ledger(
    folder: &Folder,
    key: Option<&SiteKey>,
    config: Option<&Config>,
    results: &mut CheckResults,
) -> Option<Store> {
    if !folder.ledger().exists() {
        results.fail(
            "ledger",
            "there is no ledger.db",
            "restore the site from a backup: a ledger is never created twice",
        );
        return None;
    }
    match Store::is_older(&folder.ledger()) {
        Ok(false) => {}
        Ok(true) => {
            results.warn(
                "ledger",
                "its format is of an older version",
                "start the worker: it keeps a copy and updates the ledger",
            );
            return None;
        }
        Err(error) => {
            results.fail(
                "ledger",
                format_error(&error),
                "install the worker that wrote it, or restore the site from a backup",
            );
            return None;
        }
    }
    let store = match Store::open(&folder.ledger()) {
        Ok(store) => store,
        Err(error) => {
            results.fail(
                "ledger",
                format_error(&error),
                "check the disk; nothing is released while the ledger cannot be read",
            );
            return None;
        }
    };
    if let Some(key) = key {
        match store.read(|db| verify(db, &key.public())) {
            Ok(verified) => {
                results.ok("ledger", format!("{} rows and {} receipts are valid", verified.entries, verified.receipts));
            }
            Err(error) => {
                results.fail("ledger", format_error(&error), "nothing can be released: restore the site from a backup");
            }
        }
    }
    if let Some(config) = config {
        match store.read(|db| evidence::verify(db, &config.server_key)) {
            Ok(attested) if attested.open.is_empty() => {
                results.ok("receipts", format!("the server's log provably contains all {}", attested.proved));
            }
            Ok(attested) => results.warn(
                "receipts",
                format!("{} of them have no proof from the server's log", attested.open.len()),
                "the running worker requests the proofs; repeat this check after it has reached the server",
            ),
            Err(error) => {
                results.fail(
                    "receipts",
                    format_error(&error),
                    "restore the site from a backup, and find out who had access",
                );
            }
        }
    }
    if let Some(config) = config {
        check_anchor_file(config, &store, results);
    }
    match store.read(alarm::open) {
        Ok(None) => results.ok("alarm", "none is open"),
        Ok(Some(open)) => results.fail(
            "alarm",
            format!("alarm {} is open since {}: {}", open.id, open.at, open.problem),
            "nothing leaves: run `ledger alarm show`, ask the server's operator, then run `ledger alarm clear --reason ...`",
        ),
        Err(error) => results.fail("alarm", format_error(&error), "check the disk"),
    }
    report_restoration(&store, results);
    if let Ok(Some(backup_at)) = restore::pending_restore(&store) {
        results.warn(
            "restored",
            format!("the ledger was restored from a backup of {backup_at} and is not yet compared with the server"),
            "start the worker: nothing leaves until it has compared them",
        );
    }
    Some(store)
}

/// Compares the ledger with its anchor, or warns that there is none.
fn check_anchor_file(config: &Config, store: &Store, results: &mut CheckResults) {
    let Some(anchor) = config.ledger_anchor() else {
        return results.warn(
            "anchor",
            "no file outside of the site's folder holds the number of the newest receipt: only the server and the peers can detect that \
             the folder was replaced by an older copy",
            "set `anchor` in config.toml to a file on another disk, then `undertone-worker ledger anchor begin`",
        );
    };
    match check_anchor(store, &anchor) {
        Ok(anchored) => {
            results.ok("anchor", format!("{} holds receipt {}", anchor.path().display(), anchored.receipts));
        }
        Err(error) => {
            results.fail("anchor", format_error(&error), "nothing leaves until the ledger continues its anchor");
        }
    }
}

/// Reports the newest restoration of the server, if any.
fn report_restoration(store: &Store, results: &mut CheckResults) {
    match store.read(restoration::accepted_restorations) {
        Ok(accepted) => {
            let Some(newest) = accepted.last() else { return };
            let text = restoration_text(newest);
            if newest.finished_at.is_some() {
                results.ok("restoration", text);
            } else {
                results.warn(
                    "restoration",
                    text,
                    "start the worker: it returns the receipts, and until then the server offers this site no job",
                );
            }
        }
        Err(error) => results.fail("restoration", format_error(&error), "check the disk"),
    }
}

/// Checks that jobs can be approved here as the policy requires.
pub(super) fn check_approval(folder: &Folder, store: &Store, now: OffsetDateTime, results: &mut CheckResults) {
    match consent::notices_since(store, now - NEWS) {
        Ok(notices) => {
            for (day, text) in notices {
                results.warn(
                    "credentials",
                    format!("{day}: {text}"),
                    "ask the steward by telephone whether it was them; if not, `undertone-worker approval-keys list` and `remove`",
                );
            }
        }
        Err(error) => results.fail("credentials", format_error(&error), "check the disk"),
    }
    let Ok(policy) = Policy::load(&folder.policy()) else { return };
    let names = policy.dataset_names().chain([""]);
    let rules: Vec<RequiredApproval> = names.map(|name| policy.rules(name).approval).collect();
    let pinned = match consent::pinned_keys(store) {
        Ok(pinned) => pinned.len(),
        Err(error) => return results.fail("approval", format_error(&error), "check the disk"),
    };
    if rules.contains(&RequiredApproval::Steward) && pinned == 0 {
        results.warn(
            "approval",
            "the policy requires stewards' signatures, but no approval key is pinned: jobs wait",
            "pin a key with `undertone-worker approval-keys add`, or set `approval = \"server\"` in policy.toml to trust the \
             server's statement",
        );
    } else if rules.contains(&RequiredApproval::Steward) {
        results.ok("approval", format!("{pinned} approval keys are pinned"));
    } else if rules.contains(&RequiredApproval::Server) {
        results.ok("approval", "by the server's statement: this site verifies no steward's signature");
    } else {
        results.ok("approval", "by this site itself");
    }
}

pub(super) fn check_daemon(folder: &Folder, results: &mut CheckResults) {
    // Taking the lock would create the folder; a wrong path must not create one.
    if !folder.root().is_dir() {
        return;
    }
    match folder.lock() {
        Err(FolderError::Locked(_)) => results.ok("worker", "it is running"),
        Ok(_) => {
            results.warn("worker", "it is not running", "systemctl start undertone-worker, or `undertone-worker run`");
        }
        Err(error) => results.fail("worker", format_error(&error), "run this command as the worker's user"),
    }
}
