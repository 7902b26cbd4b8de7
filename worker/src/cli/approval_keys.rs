//! `approval-keys`: manages the keys from which this site accepts stewards' approvals. Keys are pinned only here: the
//! server cannot add one.

use std::io::Write;

use clap::Subcommand;
use time::OffsetDateTime;
use undertone_api::signed::ApprovalKey;

use super::Failure;
use super::table::table;
use crate::config::Config;
use crate::site::consent::{pin_key, pinned_keys, remove_key};
use crate::site::folder::Folder;
use crate::site::store::Store;

/// The keys with which stewards approve jobs.
#[derive(Debug, Subcommand)]
pub(super) enum Action {
    /// Pin a key: the line is on the steward's page "Approval keys", or printed by `steward-key make`.
    ///
    /// Without --fingerprint only the key's fingerprint is shown. Compare it with the one that the steward reads to you from
    /// their own screen, by telephone or in person, then give it: whoever sent you the line may have exchanged the key.
    Add {
        /// The line, from `uak1.` on.
        line: String,
        /// The fingerprint that the steward has read to you.
        #[arg(long)]
        fingerprint: Option<String>,
        /// Whose key it is, for your own lists.
        #[arg(long, default_value = "")]
        label: String,
    },
    /// Show the pinned keys.
    List,
    /// Stop accepting a key. What runs already goes on: `hold` stops it.
    Remove {
        /// The key's fingerprint.
        fingerprint: String,
    },
}

pub(super) fn run(folder: &Folder, action: &Action, now: OffsetDateTime, out: &mut dyn Write) -> Result<(), Failure> {
    Config::load(folder)?;
    let store = Store::open(&folder.ledger())?;
    match action {
        Action::Add { line, fingerprint, label } => add(&store, line, fingerprint.as_deref(), label, now, out),
        Action::List => list(&store, out),
        Action::Remove { fingerprint } => match remove_key(&store, &normal(fingerprint), now)? {
            Some(removed) => {
                writeln!(out, "Removed: {} {}. Its approvals count no longer.", removed.key.label(), removed.label)?;
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
) -> Result<(), Failure> {
    if label.chars().count() > 100 || label.chars().any(char::is_control) {
        return Err("--label: at most 100 characters".into());
    }
    let key = ApprovalKey::parse_line(line)?;
    let fingerprint = key.fingerprint();
    let place = match &key {
        ApprovalKey::Ed25519 { .. } => String::new(),
        ApprovalKey::Passkey { origin, .. } => format!(" for {origin}"),
    };
    writeln!(out, "A {}{place} with the fingerprint\n\n  {fingerprint}\n", key.label())?;
    match expected.map(normal) {
        None => Err("nothing is pinned yet: compare the fingerprint with the one on the steward's own screen, then run this \
                     again with --fingerprint"
            .into()),
        Some(expected) if expected != fingerprint.as_str() => Err(format!(
            "the line is another key than the one with the fingerprint {expected}: nothing is pinned; ask the steward for \
             the line by another way"
        )
        .into()),
        Some(_) => {
            let is_new = pin_key(store, &key, label.trim(), now)?;
            writeln!(out, "{}", if is_new { "Pinned." } else { "It was pinned already." })?;
            Ok(())
        }
    }
}

fn list(store: &Store, out: &mut dyn Write) -> Result<(), Failure> {
    let pinned = pinned_keys(store)?;
    if pinned.is_empty() {
        writeln!(out, "No approval key is pinned: jobs that need a steward's signature wait.")?;
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
    write!(out, "{}", table(&["FINGERPRINT", "KIND", "ORIGIN", "SINCE", "LABEL"], &rows))?;
    Ok(())
}

/// Normalizes a typed fingerprint: no surrounding blanks, lower case.
fn normal(text: &str) -> String {
    text.trim().to_lowercase()
}
