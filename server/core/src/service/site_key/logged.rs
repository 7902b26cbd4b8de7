//! Workers' keys in the signed log. The start and the end of each key is a leaf. So a site, and a reader of a bundle,
//! notices a key that the site never had.

#[cfg(test)]
mod tests;

use sea_orm::sea_query::Query;
use sea_orm::{
    ColumnTrait as _, ConnectionTrait, EntityTrait as _, IntoActiveModel as _, PaginatorTrait as _, QueryFilter as _,
    QueryOrder as _, QuerySelect as _,
};
use undertone_api::id::WorkerId;
use undertone_api::log::LogLeaf;
use undertone_api::log::leaf::KeyEvent;
use undertone_api::log::proof::{assemble, inclusion_path};
use undertone_api::log::witness::KeyProof;

use super::rotations;
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::column::ColumnEnum as _;
use crate::model::{key_event, worker};
use crate::service::log::{self, leaf};

/// The highest number of workers whose keys are logged in one transaction.
pub const AT_ONCE: u64 = 100;

/// Appends an event of a worker's key, which is the key in `row`.
///
/// # Errors
/// When the database fails.
pub(crate) async fn log_key_event(ctx: &Ctx, tx: &Tx, row: &worker::Model, event: KeyEvent) -> Result<(), Error> {
    append_event(ctx, tx, row, &row.public_key, event).await
}

async fn append_event(ctx: &Ctx, tx: &Tx, row: &worker::Model, public_key: &str, event: KeyEvent) -> Result<(), Error> {
    let now = ctx.now();
    let count = key_event::Entity::find().filter(key_event::Column::WorkerId.eq(row.id)).count(tx).await?;
    let mut logged = key_event::Model {
        position: 0,
        worker_id: row.id,
        organization_id: row.organization_id,
        number: count as i64 + 1,
        event: event.to_text(),
        public_key: public_key.to_owned(),
        at: now.replace_millisecond(now.millisecond()).unwrap_or(now),
    };
    let leaf = leaf::of_key_event(&logged)
        .ok_or_else(|| Error::internal("logging a worker's key", "the event has no word"))?;
    logged.position = log::append(ctx, tx, &[leaf]).await? as i64;
    key_event::Entity::insert(logged.into_active_model()).exec_without_returning(tx).await?;
    Ok(())
}

/// Appends the keys of workers that enrolled before keys were logged. Returns the number of workers.
///
/// # Errors
/// When the database fails, or a stored change of a key is invalid.
pub(crate) async fn adopt_keys(ctx: &Ctx) -> Result<u64, Error> {
    let mut adopted = 0;
    while !unlogged(ctx.db.read()).await?.is_empty() {
        adopted += ctx
            .db
            .write("log workers' keys", async |tx| {
                let rows = unlogged(tx).await?;
                for row in &rows {
                    adopt_worker(ctx, tx, row).await?;
                }
                Ok(rows.len() as u64)
            })
            .await?;
    }
    Ok(adopted)
}

async fn unlogged(connection: &impl ConnectionTrait) -> Result<Vec<worker::Model>, Error> {
    let subquery = Query::select().column(key_event::Column::WorkerId).from(key_event::Entity).to_owned();
    let rows = worker::Entity::find()
        .filter(worker::Column::Id.not_in_subquery(subquery))
        .order_by_asc(worker::Column::Id)
        .limit(AT_ONCE);
    Ok(rows.all(connection).await?)
}

async fn adopt_worker(ctx: &Ctx, tx: &Tx, row: &worker::Model) -> Result<(), Error> {
    let mut changes = Vec::new();
    for rotation in rotations(tx, row.id).await? {
        changes.push(rotation.open().map_err(|error| Error::internal("reading the changes of a site's key", error))?);
    }
    let first = changes.first().map_or(&row.public_key, |change| &change.old);
    append_event(ctx, tx, row, first, KeyEvent::Enrolled).await?;
    for change in &changes {
        append_event(ctx, tx, row, &change.new, KeyEvent::Rotated).await?;
    }
    if row.retired_at.is_some() {
        append_event(ctx, tx, row, &row.public_key, KeyEvent::Retired).await?;
    }
    Ok(())
}

/// Returns the newest event of a worker's key in the log of `size` leaves, with its proof.
///
/// # Errors
/// When the database fails, or a leaf is missing.
pub(crate) async fn newest_key(ctx: &Ctx, worker: WorkerId, size: u64) -> Result<Option<KeyProof>, Error> {
    let newest = key_event::Entity::find()
        .filter(key_event::Column::WorkerId.eq(worker.0))
        .filter(key_event::Column::Position.lt(size as i64))
        .order_by_desc(key_event::Column::Number)
        .one(ctx.db.read())
        .await?;
    let Some(row) = newest else { return Ok(None) };
    let path = inclusion_path(row.position as u64, size);
    let hashes = log::hashes(ctx.db.read(), path.iter().flatten().copied().collect()).await?;
    let inclusion = assemble(&path, |subtree| hashes.get(&subtree).copied())
        .ok_or_else(|| Error::internal("proving the log", "a hash is missing"))?;
    // An altered event has no leaf: the site notices.
    let leaf = leaf::of_key_event(&row).as_ref().map(LogLeaf::content).unwrap_or_default();
    Ok(Some(KeyProof { position: row.position as u64, leaf, inclusion }))
}
