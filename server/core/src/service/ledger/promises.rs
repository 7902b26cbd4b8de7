//! The promised limits of an account: a limit becomes a promise when something is released before the next limit is
//! set.

use sea_orm::{
    ColumnTrait as _, ConnectionTrait, EntityTrait as _, PaginatorTrait as _, QueryFilter as _, QueryOrder as _,
};
use undertone_api::budget::{EntryKind, PromisedLimit};
use undertone_privacy::Event;
use undertone_privacy::ledger::{Budget, Promises};
use uuid::Uuid;

use super::history::HistoryStep;
use crate::error::Error;
use crate::model::column::{ColumnEnum as _, to_json};
use crate::model::{budget, ledger_entry, log_leaf};

/// Returns the promises of an account, in the order of the log: one pass over its limits, and one query between each
/// two of them for a release.
///
/// # Errors
/// When the database fails, or a stored value cannot be read.
pub(crate) async fn promises(connection: &impl ConnectionTrait, account: Uuid) -> Result<Vec<PromisedLimit>, Error> {
    let mut promises = Promises::default();
    let limits = budget::Entity::find().filter(budget::Column::AccountId.eq(account)).all(connection).await?;
    let leaves = log_leaf::Entity::find()
        .filter(log_leaf::Column::AccountId.eq(account))
        .filter(log_leaf::Column::BudgetId.is_not_null())
        .order_by_asc(log_leaf::Column::Position)
        .all(connection)
        .await?;
    for (index, leaf) in leaves.iter().enumerate() {
        let Some(limit) = limits.iter().find(|limit| Some(limit.id) == leaf.budget_id) else { continue };
        let limits: Budget = limit.limits()?;
        promises.set_limit(limits.epsilon(), limits.delta());
        if has_release(connection, account, leaf.position, leaves.get(index + 1).map(|next| next.position)).await? {
            promises.release();
        }
    }
    Ok(PromisedLimit::from_promises(&promises))
}

/// Returns the promises of an account from all its steps.
pub(super) fn of_steps(steps: &[HistoryStep]) -> Result<Vec<PromisedLimit>, Error> {
    let mut promises = Promises::default();
    for step in steps {
        match step {
            HistoryStep::Limit(_, limits) => promises.set_limit(limits.epsilon(), limits.delta()),
            HistoryStep::Entry(entry) if entry.kind == EntryKind::Commit.to_text() => {
                if entry.event()? != Event::NonPrivate {
                    promises.release();
                }
            }
            HistoryStep::Entry(_) => {}
        }
    }
    Ok(PromisedLimit::from_promises(&promises))
}

/// Returns whether there was a release with a price between two positions of the log.
async fn has_release(
    connection: &impl ConnectionTrait,
    account: Uuid,
    after: i64,
    before: Option<i64>,
) -> Result<bool, Error> {
    let mut rows = log_leaf::Entity::find()
        .filter(log_leaf::Column::AccountId.eq(account))
        .filter(log_leaf::Column::Sequence.is_not_null())
        .filter(log_leaf::Column::Position.gt(after));
    if let Some(before) = before {
        rows = rows.filter(log_leaf::Column::Position.lt(before));
    }
    let first = rows.clone().order_by_asc(log_leaf::Column::Position).one(connection).await?;
    let last = rows.order_by_desc(log_leaf::Column::Position).one(connection).await?;
    let ends = first.and_then(|row| row.sequence).zip(last.and_then(|row| row.sequence));
    let Some((first, last)) = ends else { return Ok(false) };
    let commits = ledger_entry::Entity::find()
        .filter(ledger_entry::Column::AccountId.eq(account))
        .filter(ledger_entry::Column::Sequence.between(first, last))
        .filter(ledger_entry::Column::Kind.eq(EntryKind::Commit.to_text()))
        .filter(ledger_entry::Column::Event.ne(to_json(&Event::NonPrivate)?));
    Ok(commits.count(connection).await? > 0)
}
