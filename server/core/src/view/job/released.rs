//! The number of releases of each dataset in all jobs of a consortium.

use std::collections::BTreeMap;

use sea_orm::sea_query::Query;
use sea_orm::{ColumnTrait as _, EntityTrait as _, ExprTrait as _, QueryFilter as _, QuerySelect as _};
use undertone_api::id::{ConsortiumId, DatasetId};
use uuid::Uuid;

use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::model::{job, participant};

/// Returns the number of releases of each dataset with at least one, over all jobs of the consortium. The pages of its
/// jobs show the same numbers job by job.
///
/// # Errors
/// 404 when the caller may not know the consortium.
pub async fn count_releases(
    ctx: &Ctx,
    actor: &Actor,
    consortium: ConsortiumId,
) -> Result<BTreeMap<DatasetId, u64>, Error> {
    policy::check(actor, Operation::ReadJob, Place::Consortium(consortium))?;
    let jobs = Query::select()
        .column(job::Column::Id)
        .from(job::Entity)
        .and_where(job::Column::ConsortiumId.eq(consortium.0))
        .take();
    let sums: Vec<(Uuid, i64)> = participant::Entity::find()
        .select_only()
        .column(participant::Column::DatasetId)
        // The sum of 64-bit integers is a decimal on PostgreSQL.
        .column_as(participant::Column::Releases.sum().cast_as("bigint"), "released")
        .filter(participant::Column::JobId.in_subquery(jobs))
        .filter(participant::Column::Releases.gt(0))
        .group_by(participant::Column::DatasetId)
        .into_tuple()
        .all(ctx.db.read())
        .await?;
    Ok(sums
        .into_iter()
        .map(|(dataset, releases)| (dataset.into(), u64::try_from(releases).unwrap_or_default()))
        .collect())
}
