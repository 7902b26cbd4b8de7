//! `approval-keys`: manages the keys from which this site accepts stewards' approvals. Keys are pinned only here: the
//! server cannot add one.

use std::io::Write;

use clap::Subcommand;
use time::OffsetDateTime;
use undertone_api::signed::ApprovalKey;

use super::CommandFailure;
use super::table::format_table;
use crate::config::Config;
use crate::site::consent::{pin_key, pinned_keys, remove_key};
use crate::site::folder::Folder;
use crate::site::store::Store;

/// Manage the keys with which stewards approve jobs.
#[derive(Debug, Subcommand)]
pub(super) enum ApprovalKeyAction {
    /// Pin a key. The steward finds its line on the page "Approval keys", or `steward-key make` prints it.
    ///
    /// Without --fingerprint, the command only shows the key's fingerprint. Compare it with the fingerprint that the steward
    /// reads to you from their own screen, by telephone or in person, then repeat the command with it: the sender of the
    /// line may have replaced the key.
    Add {
        /// The line, which begins with `uak1.`.
        line: String,
        /// The fingerprint that the steward has read to you.
        #[arg(long)]
        fingerprint: Option<String>,
        /// A name for the key in your own lists.
        #[arg(long, default_value = "")]
        label: String,
    },
    /// Show the pinned keys.
    List,
    /// Stop accepting a key. Running jobs continue: `hold` stops a job.
    Remove {
        /// The key's fingerprint.
        fingerprint: String,
    },
}

pub(super) fn run(
    folder: &Folder,
    action: &ApprovalKeyAction,
    now: OffsetDateTime,
    out: &mut dyn Write,
) -> Result<(), CommandFailure> {
    Config::load(folder)?;
    let store = Store::open(&folder.ledger())?;
    match action {
        ApprovalKeyAction::Add { line, fingerprint, label } => {
            add(&store, line, fingerprint.as_deref(), label, now, out)
        }
        ApprovalKeyAction::List => list(&store, out),
        ApprovalKeyAction::Remove { fingerprint } => match remove_key(&store, &normalize(fingerprint), now)? {
            Some(removed) => {
                writeln!(
                    out,
                    "Removed: {} {}. This site no longer accepts its approvals.",
                    removed.key.label(),
                    removed.label
                )?;
                Ok(())
            }
            None => Err(format!(
                "no pinned key has the fingerprint {fingerprint}: see `undertone-worker approval-keys list`"
            )
            .into()),
        },
    }
}

fn add(
    store: &Store,
    line: &str,
    expected: Option<&str>,
    label: &str,
    now: OffsetDateTime,
    out: &mut dyn Write,
) -> Result<(), CommandFailure> {
    if label.chars().count() > 100 || label.chars().any(char::is_control) {
        return Err("--label: at most 100 characters".into());
    }
    let key = ApprovalKey::parse_line(line)?;
    let fingerprint = key.fingerprint();
    let origin = match &key {
        ApprovalKey::Ed25519 { .. } => String::new(),
        ApprovalKey::Passkey { origin, .. } => format!(" for {origin}"),
    };
    writeln!(out, "A {}{origin} with the fingerprint\n\n  {fingerprint}\n", key.label())?;
    match expected.map(normalize) {
        None => {
            Err("no key was pinned: compare the fingerprint with the one on the steward's own screen, then repeat the \
                     command with --fingerprint"
                .into())
        }
        Some(expected) if expected != fingerprint.as_str() => Err(format!(
            "the line contains another key than the one with the fingerprint {expected}, so no key was pinned: ask the \
             steward for the line through another channel"
        )
        .into()),
        Some(_) => {
            let is_new = pin_key(store, &key, label.trim(), now)?;
            writeln!(out, "{}", if is_new { "Pinned." } else { "The key is already pinned." })?;
            Ok(())
        }
    }
}

fn list(store: &Store, out: &mut dyn Write) -> Result<(), CommandFailure> {
    let pinned = pinned_keys(store)?;
    if pinned.is_empty() {
        writeln!(out, "No approval key is pinned: jobs that require a steward's signature wait.")?;
        return Ok(());
    }
    let rows: Vec<Vec<String>> = pinned
        .iter()
        .map(|pinned| {
            let origin = match &pinned.key {
                ApprovalKey::Ed25519 { .. } => "-".to_owned(),
                ApprovalKey::Passkey { origin, .. } => origin.clone(),
            };
            let since = pinned.at.get(..10).unwrap_or(&pinned.at).to_owned();
            let label = if pinned.label.is_empty() { "-".to_owned() } else { pinned.label.clone() };
            vec![pinned.key.fingerprint().to_string(), pinned.key.label().to_owned(), origin, since, label]
        })
        .collect();
    write!(out, "{}", format_table(&["FINGERPRINT", "KIND", "ORIGIN", "SINCE", "LABEL"], &rows))?;
    Ok(())
}

/// Normalizes a typed fingerprint: no surrounding blanks, lower case.
fn normalize(text: &str) -> String {
    text.trim().to_lowercase()
}
