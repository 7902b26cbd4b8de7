//! The open holds of a job.

use sea_orm::{ColumnTrait as _, ConnectionTrait, EntityTrait as _, QueryFilter as _, QueryOrder as _};
use undertone_api::id::{DatasetId, JobId};
use undertone_api::job::{Hold, Holder, JobState};
use uuid::Uuid;

use crate::error::Error;
use crate::model::{job, job_hold};
use crate::rule::job::load_participants;

/// Returns the holds in force on a job, oldest first; none unless it is paused.
///
/// # Errors
/// When the database fails, or a stored value cannot be read.
pub(crate) async fn list_holds(connection: &impl ConnectionTrait, row: &job::Model) -> Result<Vec<Hold>, Error> {
    if row.state != JobState::Paused {
        return Ok(Vec::new());
    }
    let parts = load_participants(connection, JobId(row.id)).await?;
    let name = |dataset: Option<Uuid>| {
        let part = parts.iter().find(|part| Some(part.dataset_id) == dataset);
        part.map_or_else(String::new, |part| part.dataset_name.clone())
    };
    let view = |hold: job_hold::Model| Hold {
        holder: *hold.holder,
        dataset: hold.dataset_id.map(DatasetId),
        dataset_name: name(hold.dataset_id),
        by: hold.by,
        reason: hold.reason,
        since: hold.since,
    };
    Ok(load_open_holds(connection, row.id).await?.into_iter().map(view).collect())
}

/// Returns the reasons of a pause, in words.
pub(crate) async fn describe_pause(connection: &impl ConnectionTrait, row: &job::Model) -> Result<String, Error> {
    let describe = |hold: &Hold| match hold.holder {
        Holder::Job => format!("paused by {}: {}", hold.by, hold.reason),
        Holder::Steward => format!("held for {} by {}: {}", hold.dataset_name, hold.by, hold.reason),
        Holder::Site => format!("held for {} at the site of {}: {}", hold.dataset_name, hold.by, hold.reason),
    };
    let reasons: Vec<_> = list_holds(connection, row).await?.iter().map(describe).collect();
    Ok(if reasons.is_empty() { JobState::Paused.label().to_owned() } else { reasons.join("; ") })
}

/// Returns the open holds of a job, oldest first.
pub(crate) async fn load_open_holds(
    connection: &impl ConnectionTrait,
    job: Uuid,
) -> Result<Vec<job_hold::Model>, Error> {
    Ok(job_hold::Entity::find()
        .filter(job_hold::Column::JobId.eq(job))
        .filter(job_hold::Column::EndedAt.is_null())
        .order_by_asc(job_hold::Column::Since)
        .order_by_asc(job_hold::Column::Id)
        .all(connection)
        .await?)
}
