//! The rows of a job and of its participants.

use std::collections::HashMap;

use sea_orm::{ColumnTrait as _, ConnectionTrait, EntityTrait as _, QueryFilter as _, QueryOrder as _};
use undertone_api::id::{ConsortiumId, JobId};
use undertone_api::job::Departure;
use uuid::Uuid;

use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::model::{departure, job, participant};

/// Returns the job's row.
///
/// # Errors
/// When the database fails, or a stored value cannot be read.
pub(crate) async fn load_job(connection: &impl ConnectionTrait, id: JobId) -> Result<job::Model, Error> {
    job::Entity::find_by_id(id.0).one(connection).await?.ok_or_else(|| Error::not_found("job"))
}

/// Returns the row of a job that the caller may read.
///
/// # Errors
/// When the database fails, or a stored value cannot be read.
pub(crate) async fn load_readable_job(ctx: &Ctx, actor: &Actor, id: JobId) -> Result<job::Model, Error> {
    let row = load_job(ctx.db.read(), id).await?;
    let place = Place::Consortium(ConsortiumId(row.consortium_id));
    policy::check(actor, Operation::ReadJob, place).map_err(|_| Error::not_found("job"))?;
    Ok(row)
}

/// Returns the participants of a job, the lead first.
///
/// # Errors
/// When the database fails, or a stored value cannot be read.
pub(crate) async fn load_participants(
    connection: &impl ConnectionTrait,
    id: JobId,
) -> Result<Vec<participant::Model>, Error> {
    Ok(participant::Entity::find()
        .filter(participant::Column::JobId.eq(id.0))
        .order_by_asc(participant::Column::Position)
        .all(connection)
        .await?)
}

/// Returns the departures from a job, by dataset.
///
/// # Errors
/// When the database fails, or a stored value cannot be read.
pub(crate) async fn load_departures(
    connection: &impl ConnectionTrait,
    id: JobId,
) -> Result<HashMap<Uuid, Departure>, Error> {
    let rows = departure::Entity::find().filter(departure::Column::JobId.eq(id.0)).all(connection).await?;
    Ok(rows.into_iter().map(|row| (row.dataset_id, row.into())).collect())
}
