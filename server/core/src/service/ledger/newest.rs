//! The newest rows of a whole consortium that a caller may read.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use sea_orm::sea_query::{Expr, Query};
use sea_orm::{
    ColumnTrait as _, ConnectionTrait, EntityTrait as _, ExprTrait as _, QueryFilter as _, QueryOrder as _,
    QuerySelect as _, Select,
};
use undertone_api::budget::LedgerEntry;
use undertone_api::dataset::Visibility;
use undertone_api::id::{ConsortiumId, DatasetId};
use undertone_api::ledger::EntryFilter;
use uuid::Uuid;

use super::read::condition;
use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::model::{account, dataset as dataset_row, ledger_entry};
use crate::service::dataset;

/// The highest number of rows that are sorted; among more, the last are found by their time.
const FEW: i64 = 20_000;
/// The highest number of accounts in a statement. SQLite takes 32,766 values in one.
const NAMED: usize = 5000;

/// The newest rows of a consortium.
#[derive(Debug, Clone, PartialEq)]
pub struct NewestEntries {
    /// The rows, each with the dataset that was charged.
    pub rows: Vec<(DatasetId, LedgerEntry)>,
    /// The number of datasets that are not public and whose rows the caller may not read.
    pub closed: usize,
}

/// Returns the newest `most` matching rows of all of a consortium's datasets whose rows the caller may read, the last
/// first: by time, and at equal times by their place in the chain. If the limit cuts through several rows of one
/// second, the choice among them is unspecified.
///
/// # Errors
/// 404 when the caller may not know the consortium.
pub async fn newest(
    ctx: &Ctx,
    actor: &Actor,
    consortium: ConsortiumId,
    wanted: &EntryFilter,
    most: u64,
) -> Result<NewestEntries, Error> {
    policy::check(actor, Operation::ReadDataset, Place::Consortium(consortium))?;
    let datasets = dataset::rows(ctx.db.read(), consortium).await?;
    let reads = |id: &Uuid| policy::allows(actor, Operation::ReadLedger, Place::Organization((*id).into()));
    let owners: BTreeSet<Uuid> = datasets.iter().map(|row| row.organization_id).collect();
    let open: BTreeSet<Uuid> = owners.into_iter().filter(reads).collect();
    let closed =
        |row: &&dataset_row::Model| row.visibility != Visibility::Public && !open.contains(&row.organization_id);
    let readable = readable(ctx.db.read(), &open, FEW, NAMED).await?;
    let mut rows = last(readable, wanted, most)?.all(ctx.db.read()).await?;
    // SQLite compares texts, in which the fraction of a second has no fixed length.
    rows.sort_by_key(|row| Reverse((row.at, row.sequence, row.account_id)));
    let rows = rows
        .into_iter()
        .map(|row| Ok((DatasetId(row.dataset_id), LedgerEntry::try_from(row)?)))
        .collect::<Result<_, Error>>()?;
    Ok(NewestEntries { rows, closed: datasets.iter().filter(closed).count() })
}

/// Returns the condition that a row belongs to these organizations' accounts. With at most `few` rows in at most
/// `named` accounts, it lists the accounts: the database selects these rows and sorts them. With more, it is evaluated
/// row by row, so that the database follows the time index and stops early; with few, that would scan the ledgers of
/// all organizations.
async fn readable(
    connection: &impl ConnectionTrait,
    owners: &BTreeSet<Uuid>,
    few: i64,
    named: usize,
) -> Result<Expr, Error> {
    let of_owners = account::Column::OrganizationId.is_in(owners.iter().copied());
    let own: Vec<(Uuid, i64)> = account::Entity::find()
        .select_only()
        .columns([account::Column::Id, account::Column::Entries])
        .filter(of_owners.clone())
        .limit(named as u64 + 1)
        .into_tuple()
        .all(connection)
        .await?;
    if own.len() <= named && own.iter().map(|(_, rows)| rows).sum::<i64>() <= few {
        return Ok(ledger_entry::Column::AccountId.is_in(own.into_iter().map(|(id, _)| id)));
    }
    let of_row = Expr::col((account::Entity, account::Column::Id))
        .equals((ledger_entry::Entity, ledger_entry::Column::AccountId));
    let theirs =
        Query::select().column(account::Column::Id).from(account::Entity).and_where(of_row).and_where(of_owners).take();
    Ok(Expr::exists(theirs))
}

/// Returns the last of the readable rows.
fn last(readable: Expr, wanted: &EntryFilter, most: u64) -> Result<Select<ledger_entry::Entity>, Error> {
    Ok(ledger_entry::Entity::find()
        .filter(readable)
        .filter(condition(wanted)?)
        .order_by_desc(ledger_entry::Column::At)
        .order_by_desc(ledger_entry::Column::Sequence)
        .order_by_desc(ledger_entry::Column::AccountId)
        .limit(most))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

    use std::cmp::Reverse;
    use std::collections::BTreeSet;

    use sea_orm::{
        ColumnTrait as _, ConnectionTrait as _, DbBackend, EntityTrait as _, QueryFilter as _, QueryTrait as _,
        Statement,
    };
    use undertone_api::budget::EntryKind;
    use undertone_api::dataset::Visibility;
    use undertone_api::ledger::EntryFilter;
    use undertone_api::member::{Role, RoleGrant, RoleScope};
    use undertone_api::page::PageQuery;
    use undertone_api::problem::Code;
    use uuid::Uuid;

    use super::{NewestEntries, last, newest, readable};
    use crate::auth::Actor;
    use crate::model::account;
    use crate::service::dataset;
    use crate::service::ledger::search;
    use crate::service::world::TestConsortium;
    use crate::testing::on_both;

    /// Queries the same from one dataset after the other.
    async fn one_by_one(world: &TestConsortium, actor: &Actor, wanted: &EntryFilter) -> NewestEntries {
        let mut all = NewestEntries { rows: Vec::new(), closed: 0 };
        for dataset in dataset::list(&world.ctx, actor, world.consortium).await.unwrap() {
            match search(&world.ctx, actor, dataset.id, wanted, &PageQuery::default()).await {
                Ok(page) => all.rows.extend(page.items.into_iter().map(|row| (dataset.id, row))),
                Err(error) => {
                    assert_eq!(error.code(), Code::Forbidden);
                    all.closed += usize::from(dataset.visibility != Visibility::Public);
                }
            }
        }
        all.rows.sort_by_key(|(_, row)| Reverse((row.at, row.sequence, row.account.0)));
        all
    }

    on_both! {
        async fn the_newest_rows_are_those_that_each_dataset_tells_its_reader(app: &TestApp) {
            let mut world = TestConsortium::new(&app.ctx, 3, 50.0).await;
            let first = world.queued(2).await;
            app.clock.advance(time::Duration::minutes(1));
            let between = app.ctx.now();
            let leases = [world.lease(0).await, world.lease(1).await, world.lease(2).await, world.lease(3).await];
            for site in [1, 2] {
                app.clock.advance(time::Duration::seconds(1));
                world.submit(&first, site, &leases[site], 1, &[1.0]).await.unwrap();
            }
            app.clock.advance(time::Duration::minutes(1));
            world.queued(1).await;

            let with = |grants: Vec<RoleGrant>| {
                let mut actor = world.sites[1].steward.clone();
                actor.member.grants = grants;
                actor
            };
            let over = RoleScope::Consortium(world.consortium);
            let admin = with(vec![RoleGrant { scope: over, role: Role::ConsortiumAdmin }]);
            let own = RoleScope::Organization(world.sites[1].steward.organizations()[0]);
            let researcher = with(vec![RoleGrant { scope: own, role: Role::Researcher }]);
            let filters = [
                EntryFilter::default(),
                EntryFilter { kind: Some(EntryKind::Commit), ..EntryFilter::default() },
                EntryFilter { job: Some(first.summary.id), ..EntryFilter::default() },
                EntryFilter { since: Some(between), ..EntryFilter::default() },
                EntryFilter { until: Some(between), ..EntryFilter::default() },
            ];
            let readers = [(&admin, 8, 0), (&world.sites[1].steward, 3, 2), (&world.sites[3].steward, 2, 2), (&researcher, 0, 3)];
            for (reader, rows, closed) in readers {
                for filter in &filters {
                    let answer = newest(&app.ctx, reader, world.consortium, filter, 50).await.unwrap();
                    assert_eq!(answer, one_by_one(&world, reader, filter).await, "{filter:?}");
                }
                let all = newest(&app.ctx, reader, world.consortium, &EntryFilter::default(), 50).await.unwrap();
                assert_eq!((all.rows.len(), all.closed), (rows, closed));
                let few = newest(&app.ctx, reader, world.consortium, &EntryFilter::default(), 2).await.unwrap();
                assert_eq!(few.rows, all.rows[..rows.min(2)]);
            }
            let other = TestConsortium::new(&app.ctx, 1, 8.0).await;
            let stranger = &other.sites[1].steward;
            let hidden = newest(&app.ctx, stranger, world.consortium, &EntryFilter::default(), 50).await.unwrap_err();
            assert_eq!(hidden.code(), Code::NotFound);
            let elsewhere = newest(&app.ctx, stranger, other.consortium, &EntryFilter::default(), 50).await.unwrap();
            assert!(elsewhere.rows.is_empty(), "the rows of another consortium");
            let annotator = with(vec![RoleGrant { scope: over, role: Role::Annotator }]);
            let refused = newest(&app.ctx, &annotator, world.consortium, &EntryFilter::default(), 50).await.unwrap_err();
            assert_eq!(refused.code(), Code::Forbidden);
        }

        /// PostgreSQL decides by the number of rows, and reads all of the few rows of a test.
        async fn few_rows_are_sorted_and_of_many_the_newest_are_found_by_their_time(app: &TestApp) {
            let connection = app.ctx.db.read();
            let world = TestConsortium::new(&app.ctx, 3, 50.0).await;
            world.queued(1).await;
            let owners: BTreeSet<Uuid> = world.sites[1..].iter().map(|site| site.steward.organizations()[0].0).collect();
            let of_owners = account::Entity::find().filter(account::Column::OrganizationId.is_in(owners.iter().copied()));
            let accounts = of_owners.all(connection).await.unwrap();
            assert_eq!(accounts.iter().map(|account| account.entries).collect::<Vec<_>>(), [1, 1, 1]);
            for (few, named, sorts) in [(3, 3, true), (2, 3, false), (3, 2, false)] {
                for kind in [None, Some(EntryKind::Reserve)] {
                    let filter = EntryFilter { kind, ..EntryFilter::default() };
                    let query = last(readable(connection, &owners, few, named).await.unwrap(), &filter, 50).unwrap();
                    let rows = query.clone().all(connection).await.unwrap();
                    assert_eq!(rows.len(), 3, "whichever way");
                    if connection.get_database_backend() != DbBackend::Sqlite {
                        continue;
                    }
                    let statement = query.build(DbBackend::Sqlite);
                    let plan = Statement { sql: format!("EXPLAIN QUERY PLAN {}", statement.sql), ..statement };
                    let steps = connection.query_all_raw(plan).await.unwrap();
                    let steps: Vec<String> = steps.iter().map(|step| step.try_get("", "detail").unwrap()).collect();
                    let says = |text: &str| steps.iter().any(|step| step.contains(text));
                    assert_eq!((says("(account_id=?"), says("TEMP B-TREE")), (sorts, sorts), "{few} {named}: {steps:?}");
                    assert_eq!(says("ledger_entry_at"), !sorts, "{few} {named}: {steps:?}");
                }
            }
        }
    }
}
