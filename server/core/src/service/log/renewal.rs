//! New signatures of the log's statements in place of those that a revoked key has made.
//!
//! A site that has seen the revocation of a stolen key accepts nothing that the key has signed, whenever it did. The
//! newest head and the countersignatures that the server shows may be from before. So the server signs them anew, with
//! the present time, when it shows them; the stored ones stay. Nothing else of a statement changes, and the server first
//! compares it with the log: the thief may have written to the database as well.

use sea_orm::ConnectionTrait;
use undertone_api::signed::server_keys::claimed_serial;
use undertone_api::signed::{Countersignature, Document, LogHead, Signed};

use super::frontier;
use crate::ctx::Ctx;
use crate::error::Error;
use crate::model::{countersignature, log_head};

/// Returns a stored head for a site.
///
/// # Errors
/// When the database fails, a leaf is missing, or no key can sign.
pub(crate) async fn current_head(
    ctx: &Ctx,
    connection: &impl ConnectionTrait,
    row: log_head::Model,
) -> Result<Signed, Error> {
    let stored = Signed { payload: row.payload, signature: row.signature };
    let Some(head) = revoked_document::<LogHead>(ctx, &stored) else { return Ok(stored) };
    let root = hex::encode(frontier(connection, row.size as u64).await?.root());
    if head.size != row.size as u64 || head.root != root {
        return Ok(stored);
    }
    sign(ctx, &LogHead { at: ctx.now(), ..head }).await
}

/// Returns a stored countersignature for a site.
///
/// # Errors
/// When no key can sign.
pub(crate) async fn current_countersignature(ctx: &Ctx, row: countersignature::Model) -> Result<Signed, Error> {
    let stored = Signed { payload: row.payload, signature: row.signature };
    let Some(document) = revoked_document::<Countersignature>(ctx, &stored) else { return Ok(stored) };
    let is_of_row = (document.worker.0, document.sequence as i64) == (row.worker_id, row.sequence)
        && (&document.receipt, document.position as i64) == (&row.receipt, row.position);
    if !is_of_row {
        return Ok(stored);
    }
    sign(ctx, &Countersignature { at: ctx.now(), ..document }).await
}

/// Returns a document that a key of this server has signed which is revoked by now.
fn revoked_document<D: Document>(ctx: &Ctx, signed: &Signed) -> Option<D> {
    let least = ctx.signer.least_serial(ctx.now());
    let is_revoked = least > 0 && claimed_serial(&signed.signature).is_some_and(|serial| serial < least);
    // The first key alone verifies older certificates too.
    if is_revoked { signed.open(&ctx.signer.verifying_key()).ok() } else { None }
}

async fn sign<D: Document>(ctx: &Ctx, document: &D) -> Result<Signed, Error> {
    ctx.signer.sign(document).await.map_err(|error| Error::internal("signing the log anew", error))
}
