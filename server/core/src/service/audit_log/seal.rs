//! Leaves of audit entries in the signed log: after a sealed entry was rewritten or dropped, the server cannot prove
//! its log to the next site.
//!
//! A leaf contains a salted digest of an entry, not the entry, so that an entry can be erased: without the salt, the
//! leaf does not reveal the content. The scheduler seals entries in batches ([`seal`]). Until then, at most 15 seconds
//! while the server runs, only the chain of their own log protects them.

use sea_orm::{EntityTrait as _, IntoActiveModel as _, ModelTrait as _, QueryOrder as _, QuerySelect as _};
use undertone_api::log::LogLeaf;
use undertone_api::log::leaf::AuditRecord;

use super::read::content_of;
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::{audit_log, audit_pending, audit_seal};
use crate::service::log;

/// The highest number of entries sealed in one transaction.
pub const AT_ONCE: u64 = 500;

/// Seals the pending entries in the signed log. Returns their number.
///
/// # Errors
/// When the database fails, or the log does not lead to its last head.
pub async fn seal(ctx: &Ctx) -> Result<u64, Error> {
    let mut sealed = 0;
    while audit_pending::Entity::find().one(ctx.db.read()).await?.is_some() {
        let batch = ctx.db.write("seal audit entries", async |tx| seal_batch(ctx, tx).await).await?;
        sealed += batch;
        if batch < AT_ONCE || ctx.shutdown.is_cancelled() {
            break;
        }
    }
    Ok(sealed)
}

async fn seal_batch(ctx: &Ctx, tx: &Tx) -> Result<u64, Error> {
    let pending = audit_pending::Entity::find()
        .order_by_asc(audit_pending::Column::Place)
        .order_by_asc(audit_pending::Column::PlaceId)
        .order_by_asc(audit_pending::Column::Number)
        .limit(AT_ONCE)
        .all(tx)
        .await?;
    let count = pending.len() as u64;
    let (mut leaves, mut seals) = (Vec::new(), Vec::new());
    for waiting in pending {
        let key = (waiting.place.clone(), waiting.place_id, waiting.number);
        let entry = audit_log::Entity::find_by_id(key).one(tx).await?;
        let entry = entry.ok_or_else(|| {
            Error::internal(
                "sealing the audit log",
                format!("entry {} of {} is missing", waiting.number, waiting.place),
            )
        })?;
        let salt: [u8; 32] = ctx.random.bytes();
        let digest = AuditRecord::commit(&salt, &content_of(entry)?);
        leaves.push(LogLeaf::Audit(AuditRecord::new(&waiting.place, waiting.place_id, waiting.number, &digest)));
        seals.push(audit_seal::Model {
            position: 0,
            place: waiting.place.clone(),
            place_id: waiting.place_id,
            number: waiting.number,
            salt: hex::encode(salt),
        });
        waiting.delete(tx).await?;
    }
    let first = log::append(ctx, tx, &leaves).await? as i64;
    let rows = (first..).zip(seals).map(|(position, seal)| audit_seal::Model { position, ..seal }.into_active_model());
    let rows: Vec<_> = rows.collect();
    if !rows.is_empty() {
        audit_seal::Entity::insert_many(rows).exec_without_returning(tx).await?;
    }
    Ok(count)
}
