//! Counts of conditions that need an operator, for `doctor` at the server's terminal. They contain no names.

use std::collections::BTreeMap;

use sea_orm::{ColumnTrait as _, EntityTrait as _, PaginatorTrait as _, QueryFilter as _, QueryOrder as _};
use time::OffsetDateTime;

use crate::db::Db;
use crate::error::Error;
use crate::model::column::ColumnEnum as _;
use crate::model::{audit_log, freeze, head_observation, job, log_head, round};
use crate::service::audit_log::AuditAction;
use crate::service::operator;

/// The number of occurrences of each condition that needs an operator.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AlarmCounts {
    /// Sites that verified and signed a later head of the log than this database has: the database is an older copy.
    pub later_heads: u64,
    /// Lineages with frozen accounts.
    pub frozen_lineages: u64,
    /// Open rounds of running jobs past their deadline.
    pub late_rounds: u64,
    /// Operators.
    pub operators: u64,
    /// The time of the newest backup in the audit log.
    pub newest_backup: Option<OffsetDateTime>,
}

/// Counts the conditions at `now`.
///
/// # Errors
/// When the database does not answer.
pub async fn count_alarms(db: &Db, now: OffsetDateTime) -> Result<AlarmCounts, Error> {
    let newest = log_head::Entity::find().order_by_desc(log_head::Column::Size).one(db.read()).await?;
    let size = newest.map_or(0, |head| head.size);
    let later = head_observation::Entity::find().filter(head_observation::Column::Size.gt(size));
    let backup = audit_log::Entity::find()
        .filter(audit_log::Column::What.eq(AuditAction::BackupMade.word()))
        .order_by_desc(audit_log::Column::At)
        .one(db.read())
        .await?;
    Ok(AlarmCounts {
        later_heads: later.count(db.read()).await?,
        frozen_lineages: frozen_lineages(db).await?,
        late_rounds: late_rounds(db, now).await?,
        operators: operator::count(db.read()).await?,
        newest_backup: backup.map(|row| row.at),
    })
}

/// Returns the number of lineages whose last freeze row is set.
async fn frozen_lineages(db: &Db) -> Result<u64, Error> {
    let rows = freeze::Entity::find().order_by_asc(freeze::Column::Number).all(db.read()).await?;
    let last: BTreeMap<_, bool> =
        rows.into_iter().map(|row| ((row.organization_id, row.lineage_id), row.frozen)).collect();
    Ok(last.into_values().filter(|frozen| *frozen).count() as u64)
}

async fn late_rounds(db: &Db, now: OffsetDateTime) -> Result<u64, Error> {
    let running: Vec<_> = job::Entity::find()
        .filter(job::Column::State.eq(undertone_api::job::JobState::Running.to_text()))
        .all(db.read())
        .await?;
    let late = round::Entity::find()
        .filter(round::Column::ClosedAt.is_null())
        .filter(round::Column::Deadline.lt(now))
        .filter(round::Column::JobId.is_in(running.into_iter().map(|job| job.id)));
    Ok(late.count(db.read()).await?)
}
