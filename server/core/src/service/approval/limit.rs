//! Limits within which jobs are approved automatically: a steward's standing approval for one dataset, kept by the
//! server. It answers in that steward's name, and only while that member is a steward. `total` sums the jobs that it
//! approved. The steward decides about other jobs and reads the reason. The site's own policy and ledger judge every
//! job all the same.
//!
//! Jobs are proposed in the one writing transaction, one after the other: each approved job counts towards the total of
//! the next.

use sea_orm::{
    ActiveModelTrait as _, ColumnTrait as _, ConnectionTrait, EntityTrait as _, IntoActiveModel as _, QueryFilter as _,
    QueryOrder as _,
};
use serde_json::json;
use undertone_api::dataset::Dataset;
use undertone_api::id::{ApprovalLimitId, DatasetId, JobId, OrganizationId};
use undertone_api::job::{ApprovalLimit, NewApprovalLimit, PartyTerms};
use undertone_api::member::Role;
use undertone_api::signed::ApprovalRule;
use undertone_privacy::{Epsilon, Event};

use super::record as decide;
use super::total::ApprovedReleases;
use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::column::JsonColumn;
use crate::model::decision::DecisionSource;
use crate::model::participant::ApprovalState;
use crate::model::planned_series::PlannedSeries;
use crate::model::role::ScopeKind;
use crate::model::{approval_limit, job, participant, role};
use crate::rule::job::load_participants;
use crate::service::audit_log::{AuditAction, AuditAuthor, NewAuditEntry, record};
use crate::service::budget::usage::load_accounts;
use crate::service::version::{self, ExpectedVersion};
use crate::service::{dataset, ledger, terms};

/// Returns the limits of a dataset, the newest first; at most one is in force.
///
/// # Errors
/// 404 and 403 as usual: only members with responsibility for the dataset may read them.
pub async fn limits(ctx: &Ctx, actor: &Actor, id: DatasetId) -> Result<Vec<ApprovalLimit>, Error> {
    let dataset = dataset::get(ctx, actor, id).await?;
    policy::check(actor, Operation::ReadApprovalLimit, Place::Organization(dataset.organization))?;
    all(ctx, ctx.db.read(), &dataset).await
}

/// Returns the version of limits as they were read, without the jobs approved by them: an approved job does not change
/// the steward's decision.
///
/// # Errors
/// When they cannot be written as JSON.
pub fn limits_version(limits: &[ApprovalLimit]) -> Result<String, Error> {
    let bare = limits.iter().map(|limit| ApprovalLimit { approved: Vec::new(), ..limit.clone() });
    version::compute_version(&bare.collect::<Vec<_>>())
}

/// Sets the limit of a dataset. It replaces the previous limit and starts with no approved jobs.
///
/// # Errors
/// 404 and 403 as usual, `validation_failed` with every violation, `precondition_failed` when the limits have another
/// version than the caller expects.
pub async fn limit_set(
    ctx: &Ctx,
    actor: &Actor,
    id: DatasetId,
    new: &NewApprovalLimit,
    expected: &ExpectedVersion,
) -> Result<ApprovalLimit, Error> {
    let dataset = dataset::get(ctx, actor, id).await?;
    let place = Place::Organization(dataset.organization);
    policy::check(actor, Operation::SetApprovalLimit, place)?;
    if demands_signature(ctx.db.read(), id).await? {
        return Err(Error::wrong_state(UNSIGNED));
    }
    let violations = new.check(ctx.now());
    if !violations.is_empty() {
        return Err(Error::validation(violations));
    }
    let row = approval_limit::Model {
        id: ctx.id::<ApprovalLimitId>().0,
        dataset_id: id.0,
        epsilon: new.epsilon.get(),
        total_epsilon: new.total_epsilon.map(Epsilon::get),
        kinds: JsonColumn::new(new.kinds.clone())?,
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
            if *expected != ExpectedVersion::Anything {
                expected.check(&bare(ctx, tx, id).await?)?;
            }
            withdraw(ctx, tx, id, &actor.member.name).await?;
            let row = row.clone().into_active_model().insert(tx).await?;
            let detail = json!({
                "epsilon": row.epsilon,
                "total_epsilon": row.total_epsilon,
                "kinds": new.kinds,
                "until": row.until.unix_timestamp(),
            });
            let subject = Some(("dataset", id.to_string()));
            record(
                ctx,
                tx,
                NewAuditEntry { by: actor.into(), what: AuditAction::AutoApprovalSet, place, subject, detail },
            )
            .await?;
            Ok(row)
        })
        .await?;
    to_limit(ctx, row)
}

/// The reason why a dataset whose site verifies signatures cannot have a limit.
const UNSIGNED: &str = "the dataset's site verifies a steward's signature over each job, and a limit is this server's word: it \
                        would let nothing pass. The site's own `approval = \"automatic\"` lets jobs run up to \
                        `most_epsilon_automatic`; with `approval = \"server\"` it trusts this server";

/// Returns whether the site of a dataset accepts jobs only with a steward's signature over each.
async fn demands_signature(connection: &impl ConnectionTrait, id: DatasetId) -> Result<bool, Error> {
    let site = super::consent::load_rule(connection, id.0).await?;
    Ok(site.is_some_and(|site| site.rule == ApprovalRule::Steward))
}

/// Withdraws the limit of a dataset: every later job needs a steward's answer. Approved jobs stay approved.
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
            let (what, subject) = (AuditAction::AutoApprovalEnded, Some(("dataset", id.to_string())));
            record(ctx, tx, NewAuditEntry { by: actor.into(), what, place, subject, detail: serde_json::Value::Null })
                .await
        })
        .await?;
    all(ctx, ctx.db.read(), &dataset).await
}

/// Approves a newly proposed job for each dataset with a limit that permits it. For each other dataset with a limit,
/// stores the reason why the job needs a steward.
///
/// # Errors
/// When the database fails, or a stored value cannot be read.
pub(crate) async fn apply(ctx: &Ctx, tx: &Tx, row: &job::Model) -> Result<(), Error> {
    let series = &*row.series;
    for part in load_participants(tx, JobId(row.id)).await? {
        if part.approval != ApprovalState::Pending {
            continue;
        }
        let Some(limit) = in_force(ctx, tx, DatasetId(part.dataset_id)).await? else { continue };
        let together = match judge(tx, &limit, row, &part, series).await? {
            Ok(together) => together,
            Err(beyond) => {
                let part = participant::Model { approval_reason: Some(beyond.text().to_owned()), ..part };
                part.into_active_model().reset_all().update(tx).await?;
                continue;
            }
        };
        let by = format!("the limit that {} set", limit.set_by);
        let site = super::consent::load_rule(tx, part.dataset_id).await?;
        let consent = super::consent::rule_consent(site.as_ref());
        // The limit judged the proposal's own values, so it answers with them.
        let part = terms::accept_answer(ctx, tx, row, part, &PartyTerms::default(), &by).await?;
        decide(ctx, tx, &part, DecisionSource::Limit, &by, None, None).await?;
        let act = NewAuditEntry {
            by: AuditAuthor::System,
            what: AuditAction::JobApproved,
            place: Place::Organization(OrganizationId(part.organization_id)),
            subject: Some(("job", row.id.to_string())),
            detail: json!({
                "dataset": part.dataset_id,
                "manifest": row.digest,
                "limit": limit.id,
                "together_epsilon": together,
            }),
        };
        record(ctx, tx, act).await?;
        let part = participant::Model {
            approval: ApprovalState::Approved.into(),
            approval_by: Some(by),
            steward_approved: true,
            consent: Some(JsonColumn::new(consent)?),
            limit_id: Some(limit.id),
            ..part
        };
        part.into_active_model().reset_all().update(tx).await?;
    }
    Ok(())
}

/// The reason why a limit in force does not approve a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LimitObstacle {
    /// Its author is no longer a steward of the owner.
    Steward,
    /// The dataset's site verifies a signature over each job.
    Signature,
    /// The limit is for other kinds of job.
    Kind,
    /// Some output has no finite ε.
    Clear,
    /// The job charges nothing, or nothing that has a price at the account's δ.
    Price,
    /// The job by itself exceeds the limit.
    Job,
    /// All approved jobs and this job together exceed the total.
    Total,
}

impl LimitObstacle {
    /// Returns the reason in words. Every reader of the job sees it, so it contains no figure of the limit.
    const fn text(self) -> &'static str {
        match self {
            Self::Steward => "whoever set the limit within which jobs pass is no steward of the owner any more",
            Self::Signature => "the dataset's site verifies a steward's signature over each job, which no limit gives",
            Self::Kind => "the limit within which jobs pass does not name this kind of job",
            Self::Clear => "something of it leaves in the clear, and no limit lets that pass",
            Self::Price => "it charges nothing that a limit could bound",
            Self::Job => "it costs more than the limit lets a job cost by itself",
            Self::Total => "with what has passed by the limit before, it would come to more than the limit's total",
        }
    }
}

/// Judges a job by a limit. Returns ε of all jobs approved by it, with this job's worst case included, or the reason
/// against approval.
async fn judge(
    connection: &impl ConnectionTrait,
    limit: &approval_limit::Model,
    row: &job::Model,
    part: &participant::Model,
    series: &[PlannedSeries],
) -> Result<Result<Option<f64>, LimitObstacle>, Error> {
    if !is_steward(connection, limit, part).await? {
        return Ok(Err(LimitObstacle::Steward));
    }
    if demands_signature(connection, DatasetId(part.dataset_id)).await? {
        return Ok(Err(LimitObstacle::Signature));
    }
    if !limit.kinds.contains(&row.kind) {
        return Ok(Err(LimitObstacle::Kind));
    }
    let exact = |planned: &PlannedSeries| planned.release_of(DatasetId(part.dataset_id)) == Some(&Event::NonPrivate);
    let charge = part.charge.as_deref();
    let Some(charge) = charge else { return Ok(Err(LimitObstacle::Price)) };
    if charge.event == Event::NonPrivate || series.iter().any(exact) {
        return Ok(Err(LimitObstacle::Clear));
    }
    let (lineage, owner) = (part.lineage_id.into(), OrganizationId(part.organization_id));
    let accounts = load_accounts(connection, vec![lineage]).await?.remove(&(owner, lineage)).unwrap_or_default();
    let limited: Vec<_> = accounts.iter().filter(|account| account.delta.get() > 0.0).collect();
    if !limited.iter().any(|account| charge.is_on(account.unit, account.adjacency)) {
        return Ok(Err(LimitObstacle::Price));
    }
    let passed = ApprovedReleases::load(connection, limit.id).await?;
    let mut own = None;
    // The limit and its total bound the loss of every limited unit, whichever of them a job protects.
    for account in limited {
        let Ok(asked) = charge.for_unit(account.unit) else { return Ok(Err(LimitObstacle::Price)) };
        let delta = account.delta.get();
        let Some(alone) = ledger::epsilon_alone(&asked, asked.releases, delta) else {
            return Ok(Err(LimitObstacle::Price));
        };
        if alone > limit.epsilon {
            return Ok(Err(LimitObstacle::Job));
        }
        let together = passed.with(&asked, delta);
        if limit.total_epsilon.is_some_and(|total| together.is_none_or(|together| together > total)) {
            return Ok(Err(LimitObstacle::Total));
        }
        if account.unit == charge.unit {
            own = together;
        }
    }
    Ok(Ok(own))
}

/// Returns whether the author of the limit is still a steward of the owner.
async fn is_steward(
    connection: &impl ConnectionTrait,
    limit: &approval_limit::Model,
    part: &participant::Model,
) -> Result<bool, Error> {
    let key = (limit.member_id, ScopeKind::Organization.into(), part.organization_id, Role::DataSteward.into());
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

/// Withdraws the limit in force; returns false when there was none.
async fn withdraw(ctx: &Ctx, tx: &Tx, id: DatasetId, by: &str) -> Result<bool, Error> {
    let Some(row) = in_force(ctx, tx, id).await? else { return Ok(false) };
    let row = approval_limit::Model { withdrawn_at: Some(ctx.now()), withdrawn_by: Some(by.to_owned()), ..row };
    row.into_active_model().reset_all().update(tx).await?;
    Ok(true)
}

/// Returns the limits of a dataset, with the totals of the jobs approved by each.
async fn all(ctx: &Ctx, connection: &impl ConnectionTrait, dataset: &Dataset) -> Result<Vec<ApprovalLimit>, Error> {
    let mut all = bare(ctx, connection, dataset.id).await?;
    let passed = ApprovedReleases::load_each(connection, dataset.id).await?;
    for limit in &mut all {
        limit.approved = passed.get(&limit.id.0).map(|passed| passed.to_totals(&dataset.accounts)).unwrap_or_default();
    }
    Ok(all)
}

/// Returns the limits of a dataset, without the totals of approved jobs.
async fn bare(ctx: &Ctx, connection: &impl ConnectionTrait, id: DatasetId) -> Result<Vec<ApprovalLimit>, Error> {
    let rows = approval_limit::Entity::find()
        .filter(approval_limit::Column::DatasetId.eq(id.0))
        .order_by_desc(approval_limit::Column::SetAt)
        .order_by_desc(approval_limit::Column::Id)
        .all(connection)
        .await?;
    rows.into_iter().map(|row| to_limit(ctx, row)).collect()
}

/// Converts a row into a limit without approved jobs.
fn to_limit(ctx: &Ctx, row: approval_limit::Model) -> Result<ApprovalLimit, Error> {
    let epsilon = |value: f64| Epsilon::new(value).map_err(|error| Error::internal("reading an approval limit", error));
    Ok(ApprovalLimit {
        id: row.id.into(),
        dataset: row.dataset_id.into(),
        content: NewApprovalLimit {
            epsilon: epsilon(row.epsilon)?,
            total_epsilon: row.total_epsilon.map(epsilon).transpose()?,
            kinds: row.kinds.into_value(),
            until: row.until,
        },
        set_by: row.set_by,
        set_at: row.set_at,
        in_force: row.withdrawn_at.is_none() && row.until > ctx.now(),
        withdrawn_by: row.withdrawn_by,
        approved: Vec::new(),
    })
}
