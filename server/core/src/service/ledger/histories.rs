//! The histories of several datasets at once, with as many statements as for one.

use sea_orm::ConnectionTrait;
use undertone_api::id::{ConsortiumId, DatasetId};
use undertone_api::ledger::AccountHistory;
use uuid::Uuid;

use super::account;
use super::history::{MOST_ROWS, POINTS, build_history, steps};
use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::model::{account as account_row, dataset as dataset_row};
use crate::service::dataset;

/// Returns the histories of the accounts of some of a consortium's datasets, in the given order, for datasets whose
/// rows the caller may read. Together they have at most 50,000 rows, the limit of one history. Datasets above the limit
/// are omitted.
///
/// # Errors
/// 404 when the caller may not know the consortium.
pub async fn histories(
    ctx: &Ctx,
    actor: &Actor,
    consortium: ConsortiumId,
    ids: &[DatasetId],
) -> Result<Vec<(DatasetId, Vec<AccountHistory>)>, Error> {
    policy::check(actor, Operation::ReadDataset, Place::Consortium(consortium))?;
    let tx = ctx.db.snapshot().await?;
    let mut rows = dataset::rows(&tx, consortium).await?;
    let place = |row: &dataset_row::Model| ids.iter().position(|id| id.0 == row.id);
    let reads = |id: Uuid| policy::allows(actor, Operation::ReadLedger, Place::Organization(id.into()));
    rows.retain(|row| place(row).is_some() && reads(row.organization_id));
    rows.sort_by_key(place);
    let all = load_histories(&tx, &rows, MOST_ROWS).await?;
    tx.rollback().await?;
    Ok(all)
}

/// Returns the histories of datasets whose accounts have up to `most` rows together.
pub(super) async fn load_histories(
    connection: &impl ConnectionTrait,
    datasets: &[dataset_row::Model],
    mut most: i64,
) -> Result<Vec<(DatasetId, Vec<AccountHistory>)>, Error> {
    let accounts = account::of_lineages(connection, datasets.iter().map(|row| row.lineage_id).collect()).await?;
    let mut selection = Vec::new();
    for row in datasets {
        let is_own = |account: &&account_row::Model| {
            (account.organization_id, account.lineage_id) == (row.organization_id, row.lineage_id)
        };
        let own: Vec<_> = accounts.iter().filter(is_own).collect();
        let rows: i64 = own.iter().map(|account| account.entries).sum();
        if rows <= most {
            most -= rows;
            selection.push((DatasetId(row.id), own));
        }
    }
    let ids = selection.iter().flat_map(|(_, own)| own).map(|account| account.id).collect();
    let steps = steps(connection, ids).await?;
    let none = Vec::new();
    let mut all = Vec::with_capacity(selection.len());
    for (id, own) in selection {
        let histories = own.into_iter().map(|row| build_history(row, steps.get(&row.id).unwrap_or(&none), POINTS));
        all.push((id, histories.collect::<Result<Vec<_>, _>>()?));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

    use undertone_api::problem::Code;

    use super::{histories, load_histories};
    use crate::service::dataset;
    use crate::service::ledger::history;
    use crate::service::world::TestConsortium;
    use crate::testing::on_both;

    on_both! {
        async fn several_histories_are_those_that_are_the_readers_each_as_it_is_told_alone(app: &TestApp) {
            let mut world = TestConsortium::new(&app.ctx, 3, 50.0).await;
            let job = world.queued(2).await;
            let lease = world.lease(1).await;
            world.submit(&job, 1, &lease, 1, &[1.0]).await.unwrap();
            world.set_budget(&world.sites[2], 60.0).await.unwrap();
            let ids: Vec<_> = [3, 1, 2].map(|site: usize| world.sites[site].dataset).into();

            let mut both = world.sites[1].steward.clone();
            both.member.grants.extend(world.sites[2].steward.member.grants.iter().copied());
            let all = histories(&app.ctx, &both, world.consortium, &ids).await.unwrap();
            assert_eq!(all.iter().map(|(id, _)| *id).collect::<Vec<_>>(), ids[1..], "the third is not theirs to read");
            for (id, accounts) in &all {
                assert_eq!(*accounts, history(&app.ctx, &both, *id).await.unwrap());
            }

            // Reserved and paid: two rows for one, and one for the other.
            let mut rows = dataset::rows(app.ctx.db.read(), world.consortium).await.unwrap();
            rows.retain(|row| ids[1..].iter().any(|id| id.0 == row.id));
            rows.sort_by_key(|row| row.id != ids[1].0);
            for (most, left) in [(3, vec![ids[1], ids[2]]), (2, vec![ids[1]]), (1, vec![ids[2]]), (0, Vec::new())] {
                let selection = load_histories(app.ctx.db.read(), &rows, most).await.unwrap();
                assert_eq!(selection.into_iter().map(|(id, _)| id).collect::<Vec<_>>(), left, "up to {most} rows");
            }

            let stranger = TestConsortium::new(&app.ctx, 1, 8.0).await.sites.remove(1).steward;
            let hidden = histories(&app.ctx, &stranger, world.consortium, &ids).await.unwrap_err();
            assert_eq!(hidden.code(), Code::NotFound);
        }
    }
}
