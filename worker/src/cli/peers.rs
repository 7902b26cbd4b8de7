//! `peers`: manages the identity keys of other sites that this site trusts in a group of secure aggregation. Keys are
//! pinned only here: the server cannot add one.

use std::io::Write;

use clap::Subcommand;
use time::OffsetDateTime;
use undertone_api::signed::key_id;

use super::CommandFailure;
use super::table::format_table;
use crate::config::Config;
use crate::site::folder::Folder;
use crate::site::keys::SiteKey;
use crate::site::peer_keys::{self, PeerKey};
use crate::site::store::Store;

/// Manage the keys of other sites that count in a group of secure aggregation.
#[derive(Debug, Subcommand)]
pub(super) enum PeerAction {
    /// Show this site's fingerprint, and the keys of other sites that this site knows.
    ///
    /// `jobs JOB` shows the keys of the group of a proposed job.
    List,
    /// Pin the key of another site.
    ///
    /// Compare the fingerprint with the one that the other site's operator reads to you from `peers list` on their own screen,
    /// by telephone or in person: the server may have named a key of its own.
    Pin {
        /// The key's whole fingerprint, 64 hex digits; blanks and colons do not count.
        fingerprint: String,
        /// A name for the key in your own lists.
        #[arg(long, default_value = "")]
        label: String,
    },
    /// Stop trusting a key. A job whose group has it stops at this site before its next round.
    Unpin {
        /// The key's whole fingerprint.
        fingerprint: String,
    },
}

pub(super) fn run(
    folder: &Folder,
    action: &PeerAction,
    now: OffsetDateTime,
    out: &mut dyn Write,
) -> Result<(), CommandFailure> {
    Config::load(folder)?;
    let store = Store::open(&folder.ledger())?;
    match action {
        PeerAction::List => list(folder, &store, out),
        PeerAction::Pin { fingerprint, label } => {
            let parsed = peer_keys::parse_fingerprint(fingerprint)?;
            if key_id(&SiteKey::load(&folder.key())?.public()) == parsed {
                return Err("this is the fingerprint of this site's own key: pin those of the other sites".into());
            }
            let is_new = peer_keys::pin(&store, &parsed, label.trim(), now)?;
            writeln!(out, "{}", if is_new { "Pinned." } else { "The key is already pinned." })?;
            Ok(())
        }
        PeerAction::Unpin { fingerprint } => {
            if peer_keys::unpin(&store, fingerprint, now)? {
                writeln!(out, "Removed. This site no longer accepts a group with this key.")?;
                return Ok(());
            }
            Err(format!("this site does not trust the key {fingerprint}: see `undertone-worker peers list`").into())
        }
    }
}

fn list(folder: &Folder, store: &Store, out: &mut dyn Write) -> Result<(), CommandFailure> {
    let key = SiteKey::load(&folder.key())?;
    writeln!(out, "This site's key has the fingerprint\n\n  {}\n", key_id(&key.public()))?;
    let keys = store.read(peer_keys::list)?;
    if keys.is_empty() {
        writeln!(out, "This site knows no key of another site.")?;
        return Ok(());
    }
    let rows: Vec<Vec<String>> = keys.iter().map(format_row).collect();
    write!(out, "{}", format_table(&["FINGERPRINT", "TRUSTED", "ORGANIZATION", "WORKER", "LABEL"], &rows))?;
    Ok(())
}

/// Returns the trust in a key, in words.
const fn describe_trust(key: &PeerKey) -> &'static str {
    match (&key.label, key.is_confirmed) {
        (Some(_), _) => "pinned",
        (None, true) => "confirmed",
        (None, false) => "no",
    }
}

fn format_row(key: &PeerKey) -> Vec<String> {
    let (organization, worker) = key.peer.clone().unwrap_or_else(|| ("-".to_owned(), "-".to_owned()));
    let label = key.label.clone().filter(|label| !label.is_empty()).unwrap_or_else(|| "-".to_owned());
    vec![key.fingerprint.clone(), describe_trust(key).to_owned(), organization, worker, label]
}
