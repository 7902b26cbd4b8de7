//! Frozen lineages: nothing new is reserved on them in any consortium until a steward of the owner clears the freeze.
//!
//! A freeze follows from an audit that disproved a claim ([`audit`](crate::service::audit)); there is no manual freeze.
//! Releases under older reservations are still counted: they have left the site.

use std::collections::{HashMap, HashSet};

use sea_orm::{ActiveModelTrait as _, ColumnTrait as _, ConnectionTrait, EntityTrait as _, IntoActiveModel as _};
use sea_orm::{QueryFilter as _, QueryOrder as _};
use serde_json::json;
use undertone_api::freeze::{ClearFreeze, Freeze};
use undertone_api::id::{ConsortiumId, DatasetId, LineageId, OrganizationId};
use undertone_api::problem::Code;
use uuid::Uuid;

use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::service::audit_log::{self, AuditAction, AuditAuthor, NewAuditEntry};
use crate::service::dataset;
use crate::service::entity::{dataset as dataset_row, freeze, job, participant};
use crate::service::ledger::ChargeRequest;
use crate::service::notification::{self, MemberNotice};

/// The author of a freeze in the table.
const AUDIT: &str = "audit";

/// Returns the freezes of a dataset's lineage and their ends, the last first.
///
/// # Errors
/// 404 when the caller may not know the dataset.
pub async fn list(ctx: &Ctx, actor: &Actor, id: DatasetId) -> Result<Vec<Freeze>, Error> {
    let dataset = dataset::get(ctx, actor, id).await?;
    let rows = rows(ctx.db.read(), dataset.organization, dataset.lineage).await?;
    Ok(rows.into_iter().map(to_freeze).collect())
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
    let stand = stand(rows);
    let frozen = |row: &dataset_row::Model| {
        let stands = stand.get(&(row.organization_id, row.lineage_id))?;
        Some((DatasetId(row.id), to_freeze(stands.clone())))
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
            let last = last(tx, dataset.organization, dataset.lineage).await?.filter(|row| row.frozen);
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
    Ok(to_freeze(row))
}

/// Freezes a participant's lineage, unless it is frozen already.
///
/// # Errors
/// When the database fails, or a stored value cannot be read.
pub async fn freeze(ctx: &Ctx, tx: &Tx, part: &participant::Model, reason: &str) -> Result<(), Error> {
    let last = last(tx, part.organization_id.into(), part.lineage_id.into()).await?;
    if last.as_ref().is_some_and(|row| row.frozen) {
        return Ok(());
    }
    let row = freeze::Model {
        organization_id: part.organization_id,
        lineage_id: part.lineage_id,
        number: last.map_or(1, |row| row.number + 1),
        dataset_id: part.dataset_id,
        job_id: part.job_id,
        frozen: true,
        reason: reason.to_owned(),
        by: AUDIT.to_owned(),
        at: ctx.now(),
    };
    let number = row.number;
    row.into_active_model().insert(tx).await?;
    if let Some(job) = job::Entity::find_by_id(part.job_id).one(tx).await? {
        let notice = MemberNotice::DatasetFrozen { consortium: job.consortium_id, part, number, reason };
        notification::tell(ctx, tx, notice).await?;
    }
    let act = NewAuditEntry {
        by: AuditAuthor::System,
        what: AuditAction::DatasetFrozen,
        place: Place::Organization(part.organization_id.into()),
        subject: Some(("dataset", part.dataset_id.to_string())),
        detail: json!({ "job": part.job_id, "reason": reason }),
    };
    audit_log::record(ctx, tx, act).await?;
    Ok(())
}

/// Checks that none of a job's lineages is frozen.
///
/// # Errors
/// `account_frozen` with the names of the frozen ones.
pub async fn refuse(connection: &impl ConnectionTrait, asks: &[ChargeRequest]) -> Result<(), Error> {
    let rows = freeze::Entity::find()
        .filter(freeze::Column::OrganizationId.is_in(asks.iter().map(|ask| ask.organization.0)))
        .filter(freeze::Column::LineageId.is_in(asks.iter().map(|ask| ask.lineage.0)))
        .order_by_asc(freeze::Column::Number)
        .all(connection)
        .await?;
    let stand = stand(rows);
    let mut frozen = Vec::new();
    for ask in asks {
        if let Some(row) = stand.get(&(ask.organization.0, ask.lineage.0)) {
            frozen.push(format!("`{}` is frozen: {}", ask.dataset_name, row.reason));
        }
    }
    if frozen.is_empty() {
        return Ok(());
    }
    frozen.push("a steward of its owner clears it when it is mended, here and at the site".to_owned());
    Err(Error::problem(Code::AccountFrozen, frozen.join("; ")))
}

/// Returns the freezes in force, by lineage. `rows` are in the order of their numbers: the last of a lineage decides.
fn stand(rows: Vec<freeze::Model>) -> HashMap<(Uuid, Uuid), freeze::Model> {
    let mut last: HashMap<_, _> = rows.into_iter().map(|row| ((row.organization_id, row.lineage_id), row)).collect();
    last.retain(|_, row| row.frozen);
    last
}

async fn last(
    connection: &impl ConnectionTrait,
    organization: OrganizationId,
    lineage: LineageId,
) -> Result<Option<freeze::Model>, Error> {
    Ok(rows(connection, organization, lineage).await?.into_iter().next())
}

async fn rows(
    connection: &impl ConnectionTrait,
    organization: OrganizationId,
    lineage: LineageId,
) -> Result<Vec<freeze::Model>, Error> {
    Ok(freeze::Entity::find()
        .filter(freeze::Column::OrganizationId.eq(organization.0))
        .filter(freeze::Column::LineageId.eq(lineage.0))
        .order_by_desc(freeze::Column::Number)
        .all(connection)
        .await?)
}

fn to_freeze(row: freeze::Model) -> Freeze {
    Freeze {
        dataset: row.dataset_id.into(),
        number: row.number as u32,
        frozen: row.frozen,
        job: row.job_id.into(),
        reason: row.reason,
        by: row.by,
        at: row.at,
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

    use undertone_api::freeze::ClearFreeze;
    use undertone_api::problem::Code;

    use super::{clear, freeze, list, standing};
    use crate::service::dataset;
    use crate::service::job::state;
    use crate::service::world::TestConsortium;
    use crate::testing::on_both;

    on_both! {
        async fn consortium_freezes_equal_those_of_each_dataset(app: &TestApp) {
            let (ctx, world) = (&app.ctx, TestConsortium::new(&app.ctx, 3, 8.0).await);
            let job = world.propose(world.spec(1)).await.unwrap();
            let parts = state::participants(ctx.db.read(), job.summary.id).await.unwrap();
            for site in &world.sites[1..3] {
                let part = parts.iter().find(|part| part.dataset_id == site.dataset.0).unwrap();
                ctx.db.write("test", async |tx| freeze(ctx, tx, part, "broken").await).await.unwrap();
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
