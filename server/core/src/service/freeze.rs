//! Frozen lineages: nothing new is reserved on them in any consortium until a steward of the owner clears the freeze.
//!
//! A freeze follows from an audit that disproved a claim ([`audit`](crate::service::audit)); there is no manual freeze.
//! Releases under older reservations are still counted: they have left the site.

use std::collections::HashSet;

use sea_orm::{ActiveModelTrait as _, ColumnTrait as _, EntityTrait as _, IntoActiveModel as _};
use sea_orm::{QueryFilter as _, QueryOrder as _};
use serde_json::json;
use undertone_api::freeze::{ClearFreeze, Freeze};
use undertone_api::id::{ConsortiumId, DatasetId};
use uuid::Uuid;

use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::model::{dataset as dataset_row, freeze};
use crate::service::audit_log::{self, AuditAction, AuditAuthor, NewAuditEntry};
use crate::service::dataset;
use crate::service::ledger::frozen::{find_frozen, load_last, load_rows};

/// Returns the freezes of a dataset's lineage and their ends, the last first.
///
/// # Errors
/// 404 when the caller may not know the dataset.
pub async fn list(ctx: &Ctx, actor: &Actor, id: DatasetId) -> Result<Vec<Freeze>, Error> {
    let dataset = dataset::get(ctx, actor, id).await?;
    let rows = load_rows(ctx.db.read(), dataset.organization, dataset.lineage).await?;
    Ok(rows.into_iter().map(Into::into).collect())
}

/// Returns the frozen datasets of a consortium, by organization and name, each with its present freeze.
///
/// # Errors
/// 404 when the caller may not know the consortium.
pub async fn standing(ctx: &Ctx, actor: &Actor, consortium: ConsortiumId) -> Result<Vec<(DatasetId, Freeze)>, Error> {
    policy::check(actor, Operation::ReadDataset, Place::Consortium(consortium))?;
    let datasets = dataset::rows(ctx.db.read(), consortium).await?;
    let owners: HashSet<Uuid> = datasets.iter().map(|row| row.organization_id).collect();
    let rows = freeze::Entity::find()
        .filter(freeze::Column::OrganizationId.is_in(owners))
        .order_by_asc(freeze::Column::Number)
        .all(ctx.db.read())
        .await?;
    let frozen_lineages = find_frozen(rows);
    let frozen = |row: &dataset_row::Model| {
        let stands = frozen_lineages.get(&(row.organization_id, row.lineage_id))?;
        Some((DatasetId(row.id), stands.clone().into()))
    };
    Ok(datasets.iter().filter_map(frozen).collect())
}

/// Clears the freeze of a lineage, on a steward's statement that the fault is repaired. The site's own freeze is
/// cleared at the site's terminal.
///
/// # Errors
/// 404 and 403 as usual, `validation_failed` without a reason, `wrong_state` when the lineage is not frozen.
pub async fn clear(ctx: &Ctx, actor: &Actor, id: DatasetId, word: &ClearFreeze) -> Result<Freeze, Error> {
    let dataset = dataset::get(ctx, actor, id).await?;
    policy::check(actor, Operation::ClearFreeze, Place::Organization(dataset.organization))?;
    let violations = word.check();
    if !violations.is_empty() {
        return Err(Error::validation(violations));
    }
    let row = ctx
        .db
        .write("clear freeze", async |tx| {
            let last = load_last(tx, dataset.organization, dataset.lineage).await?.filter(|row| row.frozen);
            let last = last.ok_or_else(|| Error::wrong_state("this dataset is not frozen"))?;
            let row = freeze::Model {
                number: last.number + 1,
                frozen: false,
                reason: word.reason.trim().to_owned(),
                by: actor.member.name.clone(),
                at: ctx.now(),
                ..last
            };
            let act = NewAuditEntry {
                by: AuditAuthor::from(actor),
                what: AuditAction::FreezeCleared,
                place: Place::Organization(dataset.organization),
                subject: Some(("dataset", id.to_string())),
                detail: json!({ "name": dataset.name, "reason": row.reason }),
            };
            audit_log::record(ctx, tx, act).await?;
            Ok(row.into_active_model().insert(tx).await?)
        })
        .await?;
    tracing::warn!(dataset.id = %id, by = %actor.id(), "a frozen account was cleared");
    ctx.changes().notify();
    Ok(row.into())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

    use undertone_api::freeze::ClearFreeze;
    use undertone_api::problem::Code;

    use super::{clear, list, standing};
    use crate::rule::job::load_participants;
    use crate::service::dataset;
    use crate::service::world::TestConsortium;
    use crate::testing::on_both;

    on_both! {
        async fn consortium_freezes_equal_those_of_each_dataset(app: &TestApp) {
            let (ctx, world) = (&app.ctx, TestConsortium::new(&app.ctx, 3, 8.0).await);
            let job = world.propose(world.spec(1)).await.unwrap();
            let parts = load_participants(ctx.db.read(), job.summary.id).await.unwrap();
            for site in &world.sites[1..3] {
                let part = parts.iter().find(|part| part.dataset_id == site.dataset.0).unwrap();
                ctx.db.write("test", async |tx| crate::service::ledger::frozen::freeze_lineage(ctx, tx, part, "broken").await).await.unwrap();
            }
            let word = ClearFreeze { reason: "the sampler is mended".to_owned() };
            clear(ctx, &world.sites[1].steward, world.sites[1].dataset, &word).await.unwrap();
            for site in &world.sites {
                let mut each = Vec::new();
                for dataset in dataset::list(ctx, &site.steward, world.consortium).await.unwrap() {
                    let last = list(ctx, &site.steward, dataset.id).await.unwrap().into_iter().next();
                    each.extend(last.filter(|last| last.frozen).map(|last| (dataset.id, last)));
                }
                let [(frozen, _)] = &each[..] else { panic!("one was cleared, one stands") };
                assert_eq!(*frozen, world.sites[2].dataset);
                assert_eq!(standing(ctx, &site.steward, world.consortium).await.unwrap(), each);
            }
            let other = TestConsortium::new(ctx, 1, 8.0).await;
            let stranger = &other.sites[0].steward;
            assert!(standing(ctx, stranger, other.consortium).await.unwrap().is_empty(), "of others it tells nothing");
            let hidden = standing(ctx, stranger, world.consortium).await.unwrap_err();
            assert_eq!(hidden.code(), Code::NotFound);
        }
    }
}
