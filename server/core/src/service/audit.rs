//! Audits: the privacy measurement that a job promises, each site's statement, and the consequences.
//!
//! The server cannot check the counts in a statement. It recomputes all other figures and accepts a statement only if
//! both agree. A job with a promised audit succeeds when every audited participant's statement has arrived and none
//! disproves its claim; until then its files are withheld. A disproved claim ends the job and freezes the dataset's
//! lineage; the statement is kept as evidence.

#[cfg(test)]
mod tests;

use sea_orm::{ActiveModelTrait as _, ColumnTrait as _, ConnectionTrait, EntityTrait as _, IntoActiveModel as _};
use sea_orm::{QueryFilter as _, QueryOrder as _};
use undertone_api::id::{DatasetId, JobId, WorkerId};
use undertone_api::job::JobState;
use undertone_api::job::audit::{Assessment, AuditPlan, AuditVerdict, AuditView};
use undertone_api::plan::AccountKey;
use undertone_api::problem::{Code, Violation};
use undertone_api::signed::{self, AuditStatement, Signed};
use undertone_privacy::ledger::{Balance, Budget};
use undertone_privacy::{Delta, Event};

use crate::auth::Actor;
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::fairness::WorkOwner;
use crate::model::column::{ColumnEnum as _, JsonColumn, parse_json};
use crate::model::planned_series::PlannedSeries;
use crate::model::{audit, job, participant, worker};
use crate::rule::job::{load_job, load_participants, load_readable_job};
use crate::service::lease;
use crate::service::ledger::account as accounts;
use crate::service::ledger::frozen::freeze_lineage;

/// The largest δ at which a site may compare its finding with its claim.
const MOST_DELTA: f64 = 0.01;

/// Returns the statements of a job, by dataset.
///
/// # Errors
/// 404 when there is no job that the caller may know.
pub async fn list(ctx: &Ctx, actor: &Actor, id: JobId) -> Result<Vec<AuditView>, Error> {
    load_readable_job(ctx, actor, id).await?;
    let parts = load_participants(ctx.db.read(), id).await?;
    let rows = audit::Entity::find()
        .filter(audit::Column::JobId.eq(id.0))
        .order_by_asc(audit::Column::DatasetId)
        .all(ctx.db.read())
        .await?;
    let view = |row: audit::Model| {
        let part = parts.iter().find(|part| part.dataset_id == row.dataset_id);
        Ok(AuditView {
            dataset_name: part.map(|part| part.dataset_name.clone()).unwrap_or_default(),
            organization_name: part.map(|part| part.organization_name.clone()).unwrap_or_default(),
            statement: parse_json("reading the column audit.payload", &row.payload)?,
            assessment: *row.assessment,
            verdict: *row.verdict,
            signed: Signed { payload: row.payload, signature: row.signature },
            received_at: row.received_at,
        })
    };
    rows.into_iter().map(view).collect()
}

/// Returns the audit that a job promises for a dataset's releases.
pub(crate) fn find_plan(row: &job::Model, dataset: DatasetId) -> Option<AuditPlan> {
    let planned = &*row.series;
    planned.iter().find_map(|planned| planned.audited_of(dataset).cloned())
}

/// Checks that a job's files may be downloaded: at once without a promised audit, otherwise after the job has passed
/// it.
///
/// # Errors
/// `withheld` when not.
pub(crate) fn releasable(row: &job::Model) -> Result<(), Error> {
    let planned = &*row.series;
    if !planned.iter().any(PlannedSeries::is_audited) || row.state == JobState::Finished {
        return Ok(());
    }
    let why = row.reason.as_deref().filter(|_| row.state.is_over());
    let why =
        why.map_or_else(|| "it has not come yet".to_owned(), |reason| format!("the job ended without it ({reason})"));
    Err(Error::problem(Code::Withheld, format!("the job promises an audit, and its files wait for it: {why}")))
}

/// A statement with the server's assessment of its counts, computed before any transaction begins.
#[derive(Debug, Clone)]
pub struct JudgedStatement {
    statement: AuditStatement,
    signed: Signed,
    /// The assessment at the site's δ.
    theirs: Assessment,
    /// The assessment at the δ of the consortium's account.
    ours: Assessment,
}

/// Opens a statement and compares its counts with its claim, at the site's δ and at the δ of the consortium's account.
///
/// # Errors
/// `bad_signature` when it is not signed by the worker, `validation_failed` when its figures are not those of an audit.
pub(crate) async fn judge(ctx: &Ctx, worker: WorkerId, token: &str, signed: &Signed) -> Result<JudgedStatement, Error> {
    let lease = lease::find_lease(ctx.db.read(), worker, token).await?;
    let row = worker::Entity::find_by_id(worker.0).one(ctx.db.read()).await?;
    let row = row.ok_or_else(|| Error::not_found("worker"))?;
    let key = signed::public_key(&row.public_key).map_err(|error| Error::internal("reading a worker's key", error))?;
    let statement: AuditStatement =
        signed.open(&key).map_err(|error| Error::problem(Code::BadSignature, error.to_string()))?;
    let part = participant::Entity::find_by_id((lease.job.0, lease.dataset.0)).one(ctx.db.read()).await?;
    let part = part.ok_or_else(|| Error::not_found("job"))?;
    // Checked before any computation, so that the server only prices the signed release.
    is_of(&load_job(ctx.db.read(), lease.job).await?, &part, &statement)?;
    let delta = delta(ctx.db.read(), &part).await?.unwrap_or(statement.assessment.delta);
    if !(statement.assessment.delta.get() > 0.0 && statement.assessment.delta.get() <= MOST_DELTA) {
        return Err(wrong(format!("delta: greater than 0 and at most {MOST_DELTA}")));
    }
    // The series of a sampled mechanism's losses would block a runtime thread.
    let (counts, theirs) = (statement.clone(), statement.assessment.delta);
    let assess = move || {
        let AuditStatement { finding, event, adjacency, releases, .. } = &counts;
        let at = |delta: Delta| Assessment::assess(&finding.trials, event, *adjacency, *releases, delta);
        Ok((at(theirs)?, at(delta)?))
    };
    let assessed: Result<_, undertone_api::job::audit::AssessError> =
        ctx.compute().run(WorkOwner::current(), "assessing an audit", assess).await?;
    let (theirs, ours) = assessed.map_err(|error| wrong(error.to_string()))?;
    Ok(JudgedStatement { statement, signed: signed.clone(), theirs, ours })
}

/// Returns δ of the account that a participant's charge goes to.
async fn delta(connection: &impl ConnectionTrait, part: &participant::Model) -> Result<Option<Delta>, Error> {
    let Some(charge) = part.charge.as_deref() else { return Ok(None) };
    let key = AccountKey::new(part.organization_id.into(), part.lineage_id.into(), charge.unit, charge.adjacency);
    let account = accounts::find(connection, key).await?;
    let balance: Option<Balance> = account.map(|account| account.balance()).transpose()?;
    Ok(balance.and_then(|balance| balance.budget().map(Budget::delta)))
}

/// Stores a statement that matches this participant's audit, and freezes the lineage when it disproves the claim.
/// Returns the reason for which the job then ends. A second statement of the same part changes nothing.
///
/// # Errors
/// `validation_failed` when it is about another part, or its counts differ from the receipts or its figures from the
/// server's.
pub async fn accept(
    ctx: &Ctx,
    tx: &Tx,
    row: &job::Model,
    part: &participant::Model,
    judged: &JudgedStatement,
) -> Result<Option<String>, Error> {
    let JudgedStatement { statement, signed, theirs, ours } = judged;
    is_of(row, part, statement)?;
    if statement.releases != part.releases as u64 {
        return Err(wrong(format!(
            "the statement counts {} releases, the receipts {}",
            statement.releases, part.releases
        )));
    }
    if !statement.assessment.agrees(theirs) {
        return Err(wrong(format!(
            "the counts come to a claim of ε {} and a measured {}, not to {} and {}",
            theirs.tight, theirs.blocking, statement.assessment.tight, statement.assessment.blocking
        )));
    }
    let disproved = [theirs, ours].into_iter().find(|assessment| assessment.verdict == AuditVerdict::Disproved);
    let verdict = if disproved.is_some() { AuditVerdict::Disproved } else { ours.verdict };
    if audit::Entity::find_by_id((part.job_id, part.dataset_id)).one(tx).await?.is_none() {
        let model = audit::Model {
            job_id: part.job_id,
            dataset_id: part.dataset_id,
            digest: signed.digest(),
            payload: signed.payload.clone(),
            signature: signed.signature.clone(),
            assessment: JsonColumn::new(*ours)?,
            verdict: verdict.into(),
            received_at: ctx.now(),
        };
        model.into_active_model().insert(tx).await?;
    }
    let Some(disproved) = disproved else { return Ok(None) };
    let reason = format!(
        "the audit of `{}` measured at least ε {:.3} where at most {:.3} was claimed, at δ {:e}: what was released is not \
         what was paid for",
        part.dataset_name,
        disproved.blocking,
        disproved.tight,
        disproved.delta.get()
    );
    freeze_lineage(ctx, tx, part, &reason).await?;
    tracing::error!(
        job.id = %part.job_id, dataset.id = %part.dataset_id, claim = disproved.tight, measured = disproved.blocking,
        "AN AUDIT DISPROVES A CLAIM: the job fails, its files are withheld, the account is frozen"
    );
    Ok(Some(reason))
}

/// Checks that a statement is about this part and answers its promised audit.
fn is_of(row: &job::Model, part: &participant::Model, statement: &AuditStatement) -> Result<(), Error> {
    let audited = find_plan(row, part.dataset_id.into());
    let audited = audited.ok_or_else(|| wrong("the manifest promises no audit of this dataset"))?;
    let charge = part.charge.as_deref();
    let charge = charge.ok_or_else(|| wrong("the manifest charges nothing for this dataset"))?;
    let matches_part = (statement.worker.0, statement.job.0, statement.dataset.0, statement.lineage.0)
        == (part.worker_id, part.job_id, part.dataset_id, part.lineage_id);
    if !matches_part || statement.manifest != row.digest {
        return Err(wrong("the statement is about another part than the one it ends"));
    }
    let same =
        (statement.unit, statement.adjacency, &statement.event) == (charge.unit, charge.adjacency, &charge.event);
    if !same || statement.series != audited.series || statement.event == Event::NonPrivate {
        return Err(wrong("the statement is about other releases than those the manifest charges"));
    }
    if statement.releases > charge.releases {
        return Err(wrong("the statement counts more releases than were ever reserved"));
    }
    if !statement.finding.answers(&audited) {
        return Err(wrong("the finding is not one of the audit that the manifest promises"));
    }
    Ok(())
}

/// Returns whether a participant's promised statement is missing.
pub(crate) async fn is_missing(
    connection: &impl ConnectionTrait,
    row: &job::Model,
    part: &participant::Model,
) -> Result<bool, Error> {
    if find_plan(row, part.dataset_id.into()).is_none() {
        return Ok(false);
    }
    Ok(audit::Entity::find_by_id((part.job_id, part.dataset_id)).one(connection).await?.is_none())
}

/// Returns the reason why an otherwise finished job fails: a missing statement, or one that disproves its claim.
pub(crate) async fn flaw(connection: &impl ConnectionTrait, row: &job::Model) -> Result<Option<String>, Error> {
    for part in load_participants(connection, JobId(row.id)).await? {
        if is_missing(connection, row, &part).await? {
            return Ok(Some(format!("{} brought no audit of `{}`", part.organization_name, part.dataset_name)));
        }
    }
    let disproved = audit::Entity::find()
        .filter(audit::Column::JobId.eq(row.id))
        .filter(audit::Column::Verdict.eq(AuditVerdict::Disproved.to_text()))
        .one(connection)
        .await?;
    Ok(disproved.map(|_| "an audit disproves what was claimed".to_owned()))
}

fn wrong(message: impl Into<String>) -> Error {
    Error::validation(vec![Violation::new("done.audit", message)])
}
