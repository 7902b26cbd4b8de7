//! `ledger anchor`: the ledger's newest receipt in a file outside of the site's folder.

use std::io::Write;

use clap::Subcommand;
use undertone_worker_site::books::{ChainHead, LedgerBooks};
use undertone_worker_site::ledger::anchor::LedgerAnchor;

use crate::cli::Failure;
use crate::config::Config;
use crate::site::folder::Folder;
use crate::site::store::Store;

/// The anchor that `anchor` in config.toml names.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Action {
    /// Show the anchor beside the ledger's newest receipt.
    Show,
    /// Write the anchor for the first time, from the ledger as it is. Look first whether this is the newest copy.
    Begin,
}

pub(super) fn run(folder: &Folder, config: &Config, action: &Action, out: &mut dyn Write) -> Result<(), Failure> {
    let Some(anchor) = config.ledger_anchor() else {
        return Err(Failure::from("config.toml names no `anchor`: write the path of a file on another disk there"));
    };
    let store = Store::open(&folder.ledger())?;
    let head = store.read(LedgerBooks::read)?.receipts;
    match action {
        Action::Show => show(&anchor, &head, out),
        Action::Begin => begin(&anchor, &head, out),
    }
}

fn show(anchor: &LedgerAnchor, head: &ChainHead, out: &mut dyn Write) -> Result<(), Failure> {
    let anchored = anchor.read()?;
    writeln!(out, "Anchor {}: receipt {}.", anchor.path().display(), anchored.receipts)?;
    writeln!(out, "Ledger: receipt {}.", head.sequence)?;
    if anchored.receipts > head.sequence {
        writeln!(out, "The ledger is an older copy: nothing leaves until the missing receipts are there.")?;
    }
    Ok(())
}

fn begin(anchor: &LedgerAnchor, head: &ChainHead, out: &mut dyn Write) -> Result<(), Failure> {
    let folder = anchor.path().parent().filter(|folder| folder.is_dir());
    if folder.is_none() {
        let problem = format!("{} lies in no folder: mount its disk first", anchor.path().display());
        return Err(Failure::from(problem));
    }
    let anchored = anchor.begin(head)?;
    writeln!(out, "The anchor {} begins at receipt {}.", anchor.path().display(), anchored.receipts)?;
    Ok(())
}
