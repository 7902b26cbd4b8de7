//! `ledger peers`: lists the other sites with heads of the server's log that agree with this site's.

use std::io::Write;

use clap::Subcommand;
use time::OffsetDateTime;
use undertone_api::signed::key_id;

use super::super::Failure;
use super::super::table::table;
use super::day;
use crate::site::folder::Folder;
use crate::site::keys::SiteKey;
use crate::site::store::Store;
use crate::site::witness::peers::{self, KnownPeer};
use crate::site::witness::positions;

/// The comparison of the server's log with other sites.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Action {
    /// Show the peers, the fingerprints of their keys, and the newest head of each that agreed with this site's log.
    Show,
    /// Confirm a peer's key after you have compared its fingerprint with the peer's operator, by telephone for example.
    Confirm {
        /// The peer's worker name.
        worker: String,
        /// The fingerprint as the peer's operator reads it with `ledger peers show`: at least 16 characters.
        fingerprint: String,
    },
    /// Let the ledger go on although a peer has seen receipts of this site that it lacks, once you know that they are lost. What
    /// they paid for is not counted.
    Overrule {
        /// How they were lost; it is kept.
        #[arg(long)]
        reason: String,
    },
}

pub(super) fn run(folder: &Folder, action: &Action, now: OffsetDateTime, out: &mut dyn Write) -> Result<(), Failure> {
    let store = Store::open(&folder.ledger())?;
    match action {
        Action::Show => show(folder, &store, now, out),
        Action::Overrule { reason } => overrule(&store, reason.trim(), now, out),
        Action::Confirm { worker, fingerprint } => {
            if peers::confirm(&store, worker, fingerprint, now)? {
                writeln!(out, "The key of `{worker}` is confirmed.")?;
                return Ok(());
            }
            Err(Failure::from(format!(
                "no peer `{worker}` has a key with the fingerprint {fingerprint}: compare again, with at least 16 characters; `undertone-worker ledger peers show` lists the peers"
            )))
        }
    }
}

fn overrule(store: &Store, reason: &str, now: OffsetDateTime, out: &mut dyn Write) -> Result<(), Failure> {
    if reason.is_empty() {
        return Err("say with --reason how the receipts were lost: it is kept".into());
    }
    if positions::overrule(store, reason, now)? {
        writeln!(
            out,
            "The ledger goes on without the receipts that peers have seen. Lower its limits by what they may have spent."
        )?;
    } else {
        writeln!(out, "No peer has seen receipts that the ledger lacks; nothing was changed.")?;
    }
    Ok(())
}

fn show(folder: &Folder, store: &Store, now: OffsetDateTime, out: &mut dyn Write) -> Result<(), Failure> {
    let key = SiteKey::load(&folder.key())?;
    let fingerprint: String = key_id(&key.public()).chars().take(16).collect();
    writeln!(out, "This site's key has the fingerprint {fingerprint}.")?;
    let peers = store.read(peers::list_peers)?;
    if peers.is_empty() {
        writeln!(out, "No head of another site was compared yet.")?;
        return Ok(());
    }
    let rows: Vec<Vec<String>> = peers.iter().map(|peer| row(peer, now)).collect();
    let head = ["ORGANIZATION", "WORKER", "FINGERPRINT", "CONFIRMED", "LOG ENTRIES", "NEWEST", "STATE"];
    write!(out, "{}", table(&head, &rows))?;
    Ok(())
}

fn row(peer: &KnownPeer, now: OffsetDateTime) -> Vec<String> {
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
        day(peer.observed_at),
        state.to_owned(),
    ]
}
