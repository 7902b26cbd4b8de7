//! The server's proofs for a site: its log continues the head that the site knows, and contains the site's receipts.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use sea_orm::{ColumnTrait as _, Condition, EntityTrait as _, QueryFilter as _, QueryOrder as _, QuerySelect as _};
use undertone_api::id::WorkerId;
use undertone_api::log::proof::{Subtree, assemble, consistency_path, inclusion_path};
use undertone_api::log::witness::{ChargeProof, MOST_RECEIPTS, WitnessAnswer};
use undertone_api::problem::{Code, Violation};
use undertone_api::signed::{LogHead, Signed};

use crate::ctx::Ctx;
use crate::error::Error;
use crate::model::{countersignature, ledger_entry, log_head, log_leaf, receipt};
use crate::service::{log, restoration, site_key};

/// The highest number of receipts returned to a site at once.
const MOST_GIVEN: u64 = 500;

/// Returns the newest head, the proof that it continues the head that the site stores (`known`), and the proofs of the
/// requested receipts that the server has. Everything is computed from the present database: a tampered one cannot
/// produce valid proofs. `restored` is the digest of the last restoration that the site has accepted.
///
/// # Errors
/// `validation_failed` for more than [`MOST_RECEIPTS`], `bad_signature` when `known` is not a head of this server.
pub async fn witness(
    ctx: &Ctx,
    worker: WorkerId,
    known: Option<&Signed>,
    receipts: &[u64],
    restored: Option<&str>,
) -> Result<WitnessAnswer, Error> {
    if receipts.len() > MOST_RECEIPTS {
        let violation = Violation::new("receipts", format!("ask for at most {MOST_RECEIPTS} at once"));
        return Err(Error::validation(vec![violation]));
    }
    let known_head: Option<LogHead> =
        known.map(|signed| signed.open(&ctx.signer.verifying_key())).transpose().map_err(|_| {
            Error::problem(Code::BadSignature, "the head that the site keeps was not signed by this server's key")
        })?;
    // All tables are append-only, so rows read after the head include everything that it covers.
    let newest = log::newest(ctx.db.read()).await?;
    let size = newest.as_ref().map_or(0, |head| head.size as u64);
    if let Some(known_head) = &known_head {
        notice(worker, known_head, newest.as_ref());
    }
    let rows = find_charged(ctx, worker, receipts, size).await?;
    let consistency = consistency_path(known_head.map_or(0, |known_head| known_head.size), size);
    let paths: Vec<_> = rows.iter().map(|(row, _)| inclusion_path(row.position as u64, size)).collect();
    let subtrees = paths.iter().flatten().chain(&consistency).flatten().copied().collect();
    let hashes = log::hashes(ctx.db.read(), subtrees).await?;
    let proof = |path: &[Vec<Subtree>]| {
        assemble(path, |subtree| hashes.get(&subtree).copied())
            .ok_or_else(|| Error::internal("proving the log", "a hash is missing"))
    };
    let mut proofs = Vec::with_capacity(rows.len());
    for ((row, leaf), path) in rows.into_iter().zip(&paths) {
        proofs.push(ChargeProof {
            sequence: row.sequence as u64,
            position: row.position as u64,
            countersignature: log::renewal::current_countersignature(ctx, row).await?,
            leaf,
            inclusion: proof(path)?,
        });
    }
    let head = match newest {
        Some(row) => Some(log::renewal::current_head(ctx, ctx.db.read(), row).await?),
        None => None,
    };
    let waiting = restoration::waiting(ctx.db.read(), [worker.0]).await?;
    let must_reconcile = waiting.contains(&worker.0);
    Ok(WitnessAnswer {
        must_reconcile,
        restorations: restoration::proofs(ctx, restored, size).await?,
        key: site_key::newest_key(ctx, worker, size).await?,
        receipts: proofs,
        consistency: proof(&consistency)?,
        head,
    })
}

/// Returns the worker's receipts with numbers after `after`, as its site has signed them, in their order: at most
/// `MOST_GIVEN`.
///
/// # Errors
/// When the database fails.
pub async fn receipts(ctx: &Ctx, worker: WorkerId, after: u64) -> Result<Vec<Signed>, Error> {
    let rows = receipt::Entity::find()
        .filter(receipt::Column::WorkerId.eq(worker.0))
        .filter(receipt::Column::Sequence.gt(i64::try_from(after).unwrap_or(i64::MAX)))
        .order_by_asc(receipt::Column::Sequence)
        .limit(MOST_GIVEN)
        .all(ctx.db.read())
        .await?;
    Ok(rows.into_iter().map(|row| Signed { payload: row.payload, signature: row.signature }).collect())
}

/// Returns the countersignatures of the receipts with the content of their leaves, by number.
///
/// # Errors
/// When the database fails, or a stored value cannot be read.
pub(crate) async fn find_charged(
    ctx: &Ctx,
    worker: WorkerId,
    receipts: &[u64],
    size: u64,
) -> Result<Vec<(countersignature::Model, String)>, Error> {
    if receipts.is_empty() {
        return Ok(Vec::new());
    }
    let mut rows = countersignature::Entity::find()
        .filter(countersignature::Column::WorkerId.eq(worker.0))
        .filter(countersignature::Column::Sequence.is_in(receipts.iter().filter_map(|n| i64::try_from(*n).ok())))
        .all(ctx.db.read())
        .await?;
    rows.retain(|row| (row.position as u64) < size);
    rows.sort_by_key(|row| row.sequence);
    let positions = rows.iter().map(|row| row.position);
    let leaves =
        log_leaf::Entity::find().filter(log_leaf::Column::Position.is_in(positions)).all(ctx.db.read()).await?;
    let entries = ledger_entry::Entity::find()
        .filter(leaves.iter().fold(Condition::any(), |any, leaf| {
            let this = Condition::all()
                .add(ledger_entry::Column::AccountId.eq(leaf.account_id))
                .add(ledger_entry::Column::Sequence.eq(leaf.sequence));
            any.add(this)
        }))
        .all(ctx.db.read())
        .await?;
    let entries: BTreeMap<_, _> =
        entries.iter().map(|row| ((row.account_id, Some(row.sequence)), log::leaf::of_entry(row).content())).collect();
    let contents: BTreeMap<_, _> =
        leaves.iter().map(|leaf| (leaf.position, entries.get(&(leaf.account_id, leaf.sequence)).cloned())).collect();
    // A missing entry has no content: the site finds no valid proof for the receipt.
    let content = |position: i64| contents.get(&position).cloned().flatten().unwrap_or_default();
    Ok(rows.into_iter().map(|row| (content(row.position), row)).map(|(leaf, row)| (row, leaf)).collect())
}

/// Logs an error for a site's head that this database does not know: it shows an honest server that its database is an
/// older copy, or was tampered with.
fn notice(worker: WorkerId, known: &LogHead, newest: Option<&log_head::Model>) {
    let now = newest.map_or(0, |head| head.size as u64);
    let other = newest.is_some_and(|head| now == known.size && head.root != known.root);
    if now < known.size || other {
        tracing::error!(
            worker.id = %worker,
            head.known = known.size,
            head.now = now,
            "a site holds a head that this database does not know: an older copy is in use, or its log was changed"
        );
    }
}
