//! Checks of the log before the server serves: it is signed with the server's own key, and it covers a ledger that is
//! older than the log itself.

use std::collections::BTreeMap;

use sea_orm::{EntityTrait as _, QueryOrder as _};
use undertone_api::log::LogLeaf;
use undertone_api::problem::Code;
use undertone_api::signed::key_id;

use super::{append, leaf, newest};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::{account, budget, ledger_entry, receipt};
use crate::service::receipt::sign;

/// The number of leaves written in one statement.
const AT_ONCE: usize = 500;

/// Rejects a key that did not sign the log. Appends the rows of a ledger from before the log, with countersignatures
/// for its receipts. Does nothing to a log that has begun: `undertone-server verify` then reports rows that are not in
/// it.
///
/// # Errors
/// `wrong_state` when another key signed the log.
pub(crate) async fn adopt(ctx: &Ctx) -> Result<(), Error> {
    let ours = key_id(&ctx.signer.verifying_key());
    if let Some(head) = newest(ctx.db.read()).await? {
        if head.server == ours {
            return Ok(());
        }
        return Err(Error::problem(
            Code::WrongState,
            format!(
                "the ledger's log was signed with key {}, and signing.key in the data folder is {ours}: put the old key back; \
                 every site would take a new one for a forged ledger",
                head.server
            ),
        ));
    }
    if account::Entity::find().one(ctx.db.read()).await?.is_none() {
        return Ok(());
    }
    let adopted = ctx.db.write("adopt the ledger into the log", async |tx| whole(ctx, tx).await).await?;
    tracing::info!(leaves = adopted, "the ledger from before the log has its places in it");
    Ok(())
}

/// Appends all rows in chronological order. Returns the number of leaves.
async fn whole(ctx: &Ctx, tx: &Tx) -> Result<usize, Error> {
    // Another replica may have been faster.
    if newest(tx).await?.is_some() {
        return Ok(0);
    }
    let mut leaves: Vec<(_, u8, i64, LogLeaf)> = Vec::new();
    for row in account::Entity::find().all(tx).await? {
        leaves.push((row.created_at, 0, 0, leaf::of_account(&row)));
    }
    for row in budget::Entity::find().all(tx).await? {
        leaves.push((row.set_at, 1, 0, leaf::of_limit(&row)));
    }
    // All rows of a transaction have one time: within an account their own order decides.
    for row in ledger_entry::Entity::find().order_by_asc(ledger_entry::Column::Sequence).all(tx).await? {
        leaves.push((row.at, 2, row.sequence, LogLeaf::Entry(leaf::of_entry(&row))));
    }
    leaves.sort_by_key(|(at, kind, sequence, _)| (*at, *kind, *sequence));
    let leaves: Vec<LogLeaf> = leaves.into_iter().map(|(.., leaf)| leaf).collect();
    for some in leaves.chunks(AT_ONCE) {
        append(ctx, tx, some).await?;
    }
    let receipt_position = |(position, leaf): (u64, &LogLeaf)| match leaf {
        LogLeaf::Entry(entry) => Some((entry.receipt.clone()?, position)),
        _ => None,
    };
    let positions: BTreeMap<String, u64> = (0..).zip(&leaves).filter_map(receipt_position).collect();
    for row in receipt::Entity::find().all(tx).await? {
        if let Some(position) = positions.get(&row.digest) {
            sign(ctx, tx, (row.worker_id.into(), row.sequence as u64), &row.digest, *position).await?;
        }
    }
    Ok(leaves.len())
}
