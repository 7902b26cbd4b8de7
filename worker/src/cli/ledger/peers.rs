//! `ledger peers`: lists the other sites with heads of the server's log that agree with this site's.

use std::io::Write;

use clap::Subcommand;
use time::OffsetDateTime;
use undertone_api::signed::key_id;

use super::super::CommandFailure;
use super::super::table::format_table;
use super::format_minute;
use crate::site::folder::Folder;
use crate::site::keys::SiteKey;
use crate::site::store::Store;
use crate::site::witness::peers::{self, KnownPeer};
use crate::site::witness::positions;

/// Compare the server's log with other sites.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum PeersAction {
    /// Show the peers, the fingerprints of their keys, and their newest heads that agree with this site's log.
    Show,
    /// Confirm a peer's key after comparing its fingerprint with the peer's operator, for example by telephone.
    Confirm {
        /// The peer's worker name.
        worker: String,
        /// The whole fingerprint that `ledger peers show` prints at the peer, 64 hex digits; blanks and colons do not count.
        fingerprint: String,
    },
    /// Continue with a ledger that lacks receipts which a peer has seen, once you know that they are lost. The ledger does not
    /// count their releases.
    Overrule {
        /// The cause of the loss; the ledger stores this text.
        #[arg(long)]
        reason: String,
    },
}

pub(super) fn run(
    folder: &Folder,
    action: &PeersAction,
    now: OffsetDateTime,
    out: &mut dyn Write,
) -> Result<(), CommandFailure> {
    let store = Store::open(&folder.ledger())?;
    match action {
        PeersAction::Show => show(folder, &store, now, out),
        PeersAction::Overrule { reason } => overrule(&store, reason.trim(), now, out),
        PeersAction::Confirm { worker, fingerprint } => {
            if peers::confirm(&store, worker, fingerprint, now)? {
                writeln!(out, "The key of `{worker}` is confirmed.")?;
                return Ok(());
            }
            Err(CommandFailure::from(format!(
                "no peer `{worker}` has a key with the fingerprint {fingerprint}: compare it again; `undertone-worker ledger peers show` lists the peers"
            )))
        }
    }
}

fn overrule(store: &Store, reason: &str, now: OffsetDateTime, out: &mut dyn Write) -> Result<(), CommandFailure> {
    if reason.is_empty() {
        return Err("describe with --reason how the receipts were lost: the ledger stores this text".into());
    }
    if positions::overrule(store, reason, now)? {
        writeln!(
            out,
            "The ledger continues without the receipts that peers have seen. Lower its limits by the expenses that they may contain."
        )?;
    } else {
        writeln!(out, "No peer has seen receipts that the ledger lacks; nothing changed.")?;
    }
    Ok(())
}

fn show(folder: &Folder, store: &Store, now: OffsetDateTime, out: &mut dyn Write) -> Result<(), CommandFailure> {
    let key = SiteKey::load(&folder.key())?;
    writeln!(out, "This site's key has the fingerprint\n\n  {}\n", key_id(&key.public()))?;
    let peers = store.read(peers::list_peers)?;
    if peers.is_empty() {
        writeln!(out, "No head of another site has been compared yet.")?;
        return Ok(());
    }
    let rows: Vec<Vec<String>> = peers.iter().map(|peer| format_row(peer, now)).collect();
    let head = ["ORGANIZATION", "WORKER", "FINGERPRINT", "CONFIRMED", "LOG ENTRIES", "NEWEST", "STATE"];
    write!(out, "{}", format_table(&head, &rows))?;
    Ok(())
}

fn format_row(peer: &KnownPeer, now: OffsetDateTime) -> Vec<String> {
    let state = match (peer.has_conflict, peer.is_old(now)) {
        (true, _) => "ANOTHER KEY",
        (false, true) => "OLD",
        (false, false) => "agrees",
    };
    vec![
        peer.organization_name.clone(),
        peer.worker_name.clone(),
        peer.fingerprint.clone(),
        if peer.is_confirmed { "yes" } else { "no" }.to_owned(),
        peer.size.to_string(),
        format_minute(peer.observed_at),
        state.to_owned(),
    ]
}
