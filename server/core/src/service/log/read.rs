//! Views of the log: its heads, and the proof that one continues another.

use sea_orm::{ColumnTrait as _, EntityTrait as _, QueryFilter as _, QueryOrder as _, QuerySelect as _};
use undertone_api::log::proof::{assemble, consistency_path};
use undertone_api::log::view::{ConsistencyProof, ConsistencyQuery, SignedHead};
use undertone_api::page::{Page, PageQuery};
use undertone_api::problem::Violation;
use undertone_api::signed::Signed;

use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::model::column::parse_json;
use crate::model::log_head;

/// Returns the newest head.
///
/// # Errors
/// 404 while the log is empty.
pub async fn head(ctx: &Ctx, actor: &Actor) -> Result<SignedHead, Error> {
    policy::check(actor, Operation::ReadLog, Place::Server)?;
    to_signed_head(ctx, super::newest(ctx.db.read()).await?.ok_or_else(|| Error::not_found("head: the log is empty"))?)
}

/// Returns all heads, the newest first.
///
/// # Errors
/// `validation_failed` for an invalid cursor.
pub async fn heads(ctx: &Ctx, actor: &Actor, page: &PageQuery) -> Result<Page<SignedHead>, Error> {
    policy::check(actor, Operation::ReadLog, Place::Server)?;
    let mut rows = log_head::Entity::find().order_by_desc(log_head::Column::Size);
    if let Some(cursor) = &page.cursor {
        let before: i64 = cursor
            .parse()
            .map_err(|_| Error::validation(vec![Violation::new("cursor", "give the `next` of the page before")]))?;
        rows = rows.filter(log_head::Column::Size.lt(before));
    }
    let size = page.size() as usize;
    let mut rows = rows.limit(size as u64 + 1).all(ctx.db.read()).await?;
    let more = rows.len() > size;
    rows.truncate(size);
    let next = rows.last().filter(|_| more).map(|row| row.size.to_string());
    Ok(Page { items: rows.into_iter().map(|row| to_signed_head(ctx, row)).collect::<Result<_, _>>()?, next })
}

/// Returns the proof that the first `to` leaves continue the first `from`.
///
/// # Errors
/// `validation_failed` unless 1 ≤ `from` ≤ `to` ≤ the size of the newest head.
pub async fn consistency(ctx: &Ctx, actor: &Actor, asked: ConsistencyQuery) -> Result<ConsistencyProof, Error> {
    policy::check(actor, Operation::ReadLog, Place::Server)?;
    let size = super::newest(ctx.db.read()).await?.map_or(0, |head| head.size as u64);
    let mut violations = Vec::new();
    if asked.from == 0 || asked.from > asked.to {
        violations.push(Violation::new("from", "at least 1 and at most `to`"));
    }
    if asked.to > size {
        violations.push(Violation::new("to", format!("at most {size}, the size of the newest head")));
    }
    if !violations.is_empty() {
        return Err(Error::validation(violations));
    }
    let path = consistency_path(asked.from, asked.to);
    let hashes = super::hashes(ctx.db.read(), path.iter().flatten().copied().collect()).await?;
    let proof = assemble(&path, |subtree| hashes.get(&subtree).copied());
    let proof = proof.ok_or_else(|| Error::internal("proving the log", "a hash is missing"))?;
    Ok(ConsistencyProof::new(asked.from, asked.to, &proof))
}

fn to_signed_head(ctx: &Ctx, row: log_head::Model) -> Result<SignedHead, Error> {
    Ok(SignedHead {
        head: parse_json("reading the column log_head.payload", &row.payload)?,
        signed: Signed { payload: row.payload, signature: row.signature },
        server_key: hex::encode(ctx.signer.verifying_key().as_bytes()),
    })
}
