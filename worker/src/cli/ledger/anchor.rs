//! `ledger anchor`: the ledger's newest receipt in a file outside of the site's folder.

use std::io::Write;

use clap::Subcommand;
use undertone_worker_site::books::{ChainHead, LedgerBooks};
use undertone_worker_site::ledger::anchor::LedgerAnchor;

use crate::cli::CommandFailure;
use crate::config::Config;
use crate::site::folder::Folder;
use crate::site::store::Store;

/// Show or create the anchor that `anchor` in config.toml names.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum AnchorAction {
    /// Show the anchor beside the ledger's newest receipt.
    Show,
    /// Create the anchor from the present ledger. First make sure that this ledger is the newest copy.
    Begin,
}

pub(super) fn run(
    folder: &Folder,
    config: &Config,
    action: &AnchorAction,
    out: &mut dyn Write,
) -> Result<(), CommandFailure> {
    let Some(anchor) = config.ledger_anchor() else {
        return Err(CommandFailure::from("config.toml has no `anchor`: set it to the path of a file on another disk"));
    };
    let store = Store::open(&folder.ledger())?;
    let head = store.read(LedgerBooks::read)?.receipts;
    match action {
        AnchorAction::Show => show(&anchor, &head, out),
        AnchorAction::Begin => begin(&anchor, &head, out),
    }
}

fn show(anchor: &LedgerAnchor, head: &ChainHead, out: &mut dyn Write) -> Result<(), CommandFailure> {
    let anchored = anchor.read()?;
    writeln!(out, "Anchor {}: receipt {}.", anchor.path().display(), anchored.receipts)?;
    writeln!(out, "Ledger: receipt {}.", head.sequence)?;
    if anchored.receipts > head.sequence {
        writeln!(out, "The ledger is an older copy: nothing leaves until the missing receipts are restored.")?;
    }
    Ok(())
}

fn begin(anchor: &LedgerAnchor, head: &ChainHead, out: &mut dyn Write) -> Result<(), CommandFailure> {
    let folder = anchor.path().parent().filter(|folder| folder.is_dir());
    if folder.is_none() {
        let problem = format!("the folder of {} does not exist: mount its disk first", anchor.path().display());
        return Err(CommandFailure::from(problem));
    }
    let anchored = anchor.begin(head)?;
    writeln!(out, "The anchor {} begins at receipt {}.", anchor.path().display(), anchored.receipts)?;
    Ok(())
}
