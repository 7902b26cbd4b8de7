//! Limits within which a job passes without being asked about: a steward's standing word for one dataset, kept by the
//! server. It answers in that steward's name, and only as long as they are one. The site's own policy and ledger judge the
//! job all the same.

use sea_orm::{
    ActiveModelTrait as _, ColumnTrait as _, ConnectionTrait, EntityTrait as _, IntoActiveModel as _, QueryFilter as _,
    QueryOrder as _,
};
use serde_json::json;
use undertone_api::id::{ApprovalLimitId, DatasetId, JobId, OrganizationId};
use undertone_api::job::{ApprovalLimit, Charge, NewApprovalLimit};
use undertone_api::member::Role;
use undertone_privacy::{Delta, Epsilon, Event};

use super::record as decide;
use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::service::audit_log::{Act, By, What, record};
use crate::service::code::{from_json, to_json, word};
use crate::service::entity::{approval_limit, job, participant, role};
use crate::service::job::series::Planned;
use crate::service::job::state;
use crate::service::version::Expected;
use crate::service::{budget, dataset, ledger};

/// The limits of a dataset, the newest first: at most one is in force.
///
/// # Errors
/// 404 and 403 as usual: they are for those who answer for the dataset only.
pub async fn limits(ctx: &Ctx, actor: &Actor, id: DatasetId) -> Result<Vec<ApprovalLimit>, Error> {
    let dataset = dataset::get(ctx, actor, id).await?;
    policy::check(actor, Operation::ReadApprovalLimit, Place::Organization(dataset.organization))?;
    all(ctx, ctx.db.read(), id).await
}

/// Sets the limit of a dataset; it stands in the place of the one before.
///
/// # Errors
/// 404 and 403 as usual, `validation_failed` with every violation, `precondition_failed` when the limits are not what the
/// caller believes.
pub async fn limit_set(
    ctx: &Ctx,
    actor: &Actor,
    id: DatasetId,
    new: &NewApprovalLimit,
    expected: &Expected,
) -> Result<ApprovalLimit, Error> {
    let dataset = dataset::get(ctx, actor, id).await?;
    let place = Place::Organization(dataset.organization);
    policy::check(actor, Operation::SetApprovalLimit, place)?;
    let violations = new.check(ctx.now());
    if !violations.is_empty() {
        return Err(Error::validation(violations));
    }
    let row = approval_limit::Model {
        id: ctx.id::<ApprovalLimitId>().0,
        dataset_id: id.0,
        epsilon: new.epsilon.get(),
        kinds: to_json(&new.kinds)?,
        until: new.until,
        member_id: actor.id().0,
        set_by: actor.member.name.clone(),
        set_at: ctx.now(),
        withdrawn_at: None,
        withdrawn_by: None,
    };
    let row = ctx
        .db
        .write("set approval limit", async |tx| {
            expected.check(&all(ctx, tx, id).await?)?;
            withdraw(ctx, tx, id, &actor.member.name).await?;
            let row = row.clone().into_active_model().insert(tx).await?;
            let detail = json!({ "epsilon": row.epsilon, "kinds": new.kinds, "until": row.until.unix_timestamp() });
            let subject = Some(("dataset", id.to_string()));
            record(ctx, tx, Act { by: actor.into(), what: What::AutoApprovalSet, place, subject, detail }).await?;
            Ok(row)
        })
        .await?;
    shown(ctx, row)
}

/// Withdraws the limit of a dataset: from now on every job is asked about. What passed stays approved.
///
/// # Errors
/// 404 and 403 as usual, `wrong_state` when none is in force.
pub async fn limit_withdraw(ctx: &Ctx, actor: &Actor, id: DatasetId) -> Result<Vec<ApprovalLimit>, Error> {
    let dataset = dataset::get(ctx, actor, id).await?;
    let place = Place::Organization(dataset.organization);
    policy::check(actor, Operation::SetApprovalLimit, place)?;
    ctx.db
        .write("withdraw approval limit", async |tx| {
            if !withdraw(ctx, tx, id, &actor.member.name).await? {
                return Err(Error::wrong_state("no limit is in force for this dataset: every job is asked about"));
            }
            let (what, subject) = (What::AutoApprovalEnded, Some(("dataset", id.to_string())));
            record(ctx, tx, Act { by: actor.into(), what, place, subject, detail: serde_json::Value::Null }).await
        })
        .await?;
    all(ctx, ctx.db.read(), id).await
}

/// Answers for every dataset of a job that was just proposed whose limit lets it pass.
pub(crate) async fn apply(ctx: &Ctx, tx: &Tx, row: &job::Model) -> Result<(), Error> {
    let series: Vec<Planned> = from_json(&row.series)?;
    for part in state::participants(tx, JobId(row.id)).await? {
        if part.approval != "pending" {
            continue;
        }
        let Some(limit) = in_force(ctx, tx, DatasetId(part.dataset_id)).await? else { continue };
        if !passes(tx, &limit, row, &part, &series).await? || !is_steward(tx, &limit, &part).await? {
            continue;
        }
        let by = format!("the limit that {} set", limit.set_by);
        decide(ctx, tx, &part, "limit", &by, None, None).await?;
        let act = Act {
            by: By::System,
            what: What::JobApproved,
            place: Place::Organization(OrganizationId(part.organization_id)),
            subject: Some(("job", row.id.to_string())),
            detail: json!({ "dataset": part.dataset_id, "manifest": row.digest, "limit": limit.id }),
        };
        record(ctx, tx, act).await?;
        let part = participant::Model {
            approval: "approved".to_owned(),
            approval_by: Some(by),
            steward_approved: true,
            ..part
        };
        part.into_active_model().reset_all().update(tx).await?;
    }
    Ok(())
}

/// Whether a job stays within a limit. What leaves in the clear is within none.
async fn passes(
    connection: &impl ConnectionTrait,
    limit: &approval_limit::Model,
    row: &job::Model,
    part: &participant::Model,
    series: &[Planned],
) -> Result<bool, Error> {
    let kinds: Vec<String> = from_json(&limit.kinds)?;
    let exact = |planned: &Planned| planned.release_of(DatasetId(part.dataset_id)) == Some(&Event::NonPrivate);
    let charge: Option<Charge> = part.charge.as_deref().map(from_json).transpose()?;
    let Some(charge) = charge.filter(|charge| charge.event != Event::NonPrivate) else { return Ok(false) };
    if !kinds.contains(&row.kind) || series.iter().any(exact) {
        return Ok(false);
    }
    let (lineage, owner) = (part.lineage_id.into(), OrganizationId(part.organization_id));
    let accounts = budget::of_lineages(connection, vec![lineage]).await?.remove(&(owner, lineage)).unwrap_or_default();
    let delta = accounts
        .iter()
        .find(|account| account.unit == charge.unit && account.adjacency == charge.adjacency)
        .map(|account| account.delta)
        .filter(|delta: &Delta| delta.get() > 0.0);
    let epsilon = delta.and_then(|delta| ledger::epsilon_alone(&charge, charge.releases, delta.get()));
    Ok(epsilon.is_some_and(|epsilon| epsilon <= limit.epsilon))
}

/// Whether who set the limit still answers for the dataset.
async fn is_steward(
    connection: &impl ConnectionTrait,
    limit: &approval_limit::Model,
    part: &participant::Model,
) -> Result<bool, Error> {
    let key = (limit.member_id, "organization".to_owned(), part.organization_id, word(&Role::DataSteward)?);
    Ok(role::Entity::find_by_id(key).one(connection).await?.is_some())
}

async fn in_force(
    ctx: &Ctx,
    connection: &impl ConnectionTrait,
    id: DatasetId,
) -> Result<Option<approval_limit::Model>, Error> {
    Ok(approval_limit::Entity::find()
        .filter(approval_limit::Column::DatasetId.eq(id.0))
        .filter(approval_limit::Column::WithdrawnAt.is_null())
        .filter(approval_limit::Column::Until.gt(ctx.now()))
        .one(connection)
        .await?)
}

/// Withdraws what is in force; false when nothing was.
async fn withdraw(ctx: &Ctx, tx: &Tx, id: DatasetId, by: &str) -> Result<bool, Error> {
    let Some(row) = in_force(ctx, tx, id).await? else { return Ok(false) };
    let row = approval_limit::Model { withdrawn_at: Some(ctx.now()), withdrawn_by: Some(by.to_owned()), ..row };
    row.into_active_model().reset_all().update(tx).await?;
    Ok(true)
}

async fn all(ctx: &Ctx, connection: &impl ConnectionTrait, id: DatasetId) -> Result<Vec<ApprovalLimit>, Error> {
    let rows = approval_limit::Entity::find()
        .filter(approval_limit::Column::DatasetId.eq(id.0))
        .order_by_desc(approval_limit::Column::SetAt)
        .order_by_desc(approval_limit::Column::Id)
        .all(connection)
        .await?;
    rows.into_iter().map(|row| shown(ctx, row)).collect()
}

fn shown(ctx: &Ctx, row: approval_limit::Model) -> Result<ApprovalLimit, Error> {
    let epsilon = Epsilon::new(row.epsilon).map_err(|error| Error::internal("reading an approval limit", error))?;
    Ok(ApprovalLimit {
        id: row.id.into(),
        dataset: row.dataset_id.into(),
        content: NewApprovalLimit { epsilon, kinds: from_json(&row.kinds)?, until: row.until },
        set_by: row.set_by,
        set_at: row.set_at,
        in_force: row.withdrawn_at.is_none() && row.until > ctx.now(),
        withdrawn_by: row.withdrawn_by,
    })
}
