//! A dataset's ledger, row by row, for its readers.

use sea_orm::{ColumnTrait as _, Condition, EntityTrait as _, QueryFilter as _, QueryOrder as _, QuerySelect as _};
use undertone_api::budget::{EntryKind, LedgerEntry};
use undertone_api::id::DatasetId;
use undertone_api::ledger::EntryFilter;
use undertone_api::page::{Page, PageQuery};
use undertone_api::problem::Violation;

use super::account;
use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::model::column::ColumnEnum as _;
use crate::model::ledger_entry;
use crate::service::dataset;

/// Returns the rows of all accounts of a dataset's lineage, the last first.
///
/// # Errors
/// As [`search`].
pub async fn entries(ctx: &Ctx, actor: &Actor, id: DatasetId, page: &PageQuery) -> Result<Page<LedgerEntry>, Error> {
    search(ctx, actor, id, &EntryFilter::default(), page).await
}

/// Returns the matching rows of all accounts of a dataset's lineage, the last first: each account's in the order of its
/// chain, independent of the clock.
///
/// # Errors
/// 404 and 403 as usual, `validation_failed` for an invalid cursor.
pub async fn search(
    ctx: &Ctx,
    actor: &Actor,
    id: DatasetId,
    wanted: &EntryFilter,
    page: &PageQuery,
) -> Result<Page<LedgerEntry>, Error> {
    let dataset = dataset::get(ctx, actor, id).await?;
    policy::check(actor, Operation::ReadLedger, Place::Organization(dataset.organization))?;
    let skip: u64 = match &page.cursor {
        Some(cursor) => cursor
            .parse()
            .map_err(|_| Error::validation(vec![Violation::new("cursor", "give the `next` of the page before")]))?,
        None => 0,
    };
    let accounts = account::of_lineages(ctx.db.read(), vec![dataset.lineage.0]).await?;
    let own = accounts.iter().filter(|account| account.organization_id == dataset.organization.0);
    let size = u64::from(page.size());
    let mut rows = ledger_entry::Entity::find()
        .filter(ledger_entry::Column::AccountId.is_in(own.map(|account| account.id)))
        .filter(condition(wanted)?)
        .order_by_desc(ledger_entry::Column::Sequence)
        .order_by_desc(ledger_entry::Column::AccountId)
        .offset(skip)
        .limit(size + 1)
        .all(ctx.db.read())
        .await?;
    let next = (rows.len() as u64 > size).then(|| (skip + size).to_string());
    rows.truncate(size as usize);
    Ok(Page { items: rows.into_iter().map(LedgerEntry::try_from).collect::<Result<_, _>>()?, next })
}

pub(super) fn condition(wanted: &EntryFilter) -> Result<Condition, Error> {
    let kind = wanted.kind.map(EntryKind::to_text);
    Ok(Condition::all()
        .add_option(kind.map(|kind| ledger_entry::Column::Kind.eq(kind)))
        .add_option(wanted.job.map(|job| ledger_entry::Column::JobId.eq(job.0)))
        .add_option(wanted.since.map(|since| ledger_entry::Column::At.gte(since)))
        .add_option(wanted.until.map(|until| ledger_entry::Column::At.lt(until))))
}
