//! `rotate-key`: changes the site's key now instead of on its date.

use std::io::Write;

use time::OffsetDateTime;

use super::CommandFailure;
use crate::config::Config;
use crate::gateway;
use crate::site::folder::Folder;
use crate::site::rotation;
use crate::site::store::Store;

pub(super) fn run(folder: &Folder, now: OffsetDateTime, out: &mut dyn Write) -> Result<(), CommandFailure> {
    let config = Config::load(folder)?;
    let _lock = folder.lock()?;
    let store = Store::open(&folder.ledger())?;
    let rotation = rotation::prepare(folder, &store, config.worker, now)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if let Err(error) = runtime.block_on(gateway::rotate_key(&config, folder, &rotation)) {
        if error.is_transient() {
            let remedy =
                "the signed change is stored, but the server does not know it: repeat the command, or start the worker";
            return Err(format!("{error}: {remedy}").into());
        }
        rotation::discard(folder)?;
        return Err(format!("{error}: the present key stays in force").into());
    }
    let change = rotation::finish(folder, &store, &rotation)?;
    writeln!(
        out,
        "Change {} of this site's key is in force. Receipts up to {} are verified with {}, later ones with {}.\n\
         Make a new backup: a site that is restored from an older one cannot sign in.",
        change.number, change.receipts, change.old, change.new
    )?;
    Ok(())
}
