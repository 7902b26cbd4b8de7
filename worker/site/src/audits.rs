//! Signed statements about audits of this site's releases, and the accounts that a finding has frozen.
//!
//! A finding that disproves its claim means that a release at this site costs more than its charge. Statement and
//! freeze are written in one transaction. Afterwards the ledger admits and pays nothing on that lineage, for any job,
//! until a person at the site's terminal clears it. Both tables are append-only; the last row of a lineage is its
//! state.

pub(crate) mod freeze;

use rusqlite::{Connection, OptionalExtension as _, params};
use time::OffsetDateTime;
use undertone_api::id::{DatasetId, JobId, WorkerId};
use undertone_api::job::audit::{AssessError, Assessment, AuditFinding, AuditPlan, AuditVerdict};
use undertone_api::signed::{AuditStatement, Receipt, Signed, SignedError};
use undertone_privacy::Delta;
use undertone_privacy::mechanism::EVALUATOR_VERSION;

use super::admission::ExaminedManifest;
use super::keys::SiteKey;
use super::ledger::release_context::ReleaseContext;
use super::store::{Store, StoreError};

pub use self::freeze::{AccountFreeze, clear, current_freeze};

/// Reasons why a finding cannot become a statement.
#[derive(Debug, thiserror::Error)]
pub enum AuditsError {
    /// The manifest promises no audit of this dataset.
    #[error("the manifest promises no audit of this dataset's releases")]
    NotPromised,
    /// The finding belongs to another audit than the promised one.
    #[error("the finding is not one of the audit that the manifest promises")]
    OtherAudit,
    /// The finding cannot be assessed.
    #[error("the finding cannot be held against a claim")]
    Assess(#[from] AssessError),
    /// The statement could not be signed.
    #[error("a statement could not be signed")]
    Signing(#[from] SignedError),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The basis of an assessment: the promised audit, the charge, and the δ of the claim.
#[derive(Debug, Clone)]
pub struct AssessmentBasis {
    audited: AuditPlan,
    under: ReleaseContext,
    worker: WorkerId,
    delta: Delta,
}

impl AssessmentBasis {
    /// Returns the ground of an admitted part, with its account at δ.
    ///
    /// # Errors
    /// [`AuditsError::NotPromised`] when the manifest promises no audit.
    pub fn new(examined: &ExaminedManifest, delta: Delta) -> Result<Self, AuditsError> {
        let audited = examined.manifest.spec.audit_plan(&examined.dataset).ok_or(AuditsError::NotPromised)?;
        let under = examined.release_context().ok_or(AuditsError::NotPromised)?;
        Ok(Self { audited, under, worker: examined.own().worker, delta })
    }
}

/// Assesses a finding against the paid releases, signs and stores the statement, and freezes the account when the claim
/// is disproved. Everything is on disk when this returns. An earlier statement of the same part is returned unchanged.
///
/// # Errors
/// [`AuditsError`]. In that case nothing has changed.
pub fn state(
    store: &Store,
    key: &SiteKey,
    ground: &AssessmentBasis,
    finding: &AuditFinding,
    at: OffsetDateTime,
) -> Result<(Signed, AuditVerdict), AuditsError> {
    let AssessmentBasis { audited, under, worker, delta } = ground;
    if let Some(before) = statement(store, under.job, under.dataset)? {
        let stated: AuditStatement = serde_json::from_str(&before.payload).map_err(StoreError::row)?;
        return Ok((before, stated.assessment.verdict));
    }
    if !finding.answers(audited) {
        return Err(AuditsError::OtherAudit);
    }
    let charge = &under.charge;
    let releases = store.read(|db| count_paid(db, under, &audited.series))?;
    let assessment = Assessment::assess(&finding.trials, &charge.event, charge.adjacency, releases, *delta)?;
    let document = AuditStatement {
        worker: *worker,
        job: under.job,
        dataset: under.dataset,
        lineage: under.lineage,
        manifest: under.manifest.clone(),
        series: audited.series.clone(),
        unit: charge.unit,
        adjacency: charge.adjacency,
        event: charge.event.clone(),
        releases,
        finding: finding.clone(),
        assessment,
        evaluator: EVALUATOR_VERSION.to_owned(),
        at,
    };
    let signed = key.sign(&document)?;
    let (job, dataset) = (under.job.to_string(), under.dataset.to_string());
    store.write(|tx| {
        tx.execute(
            "INSERT INTO statement (job, dataset, payload, signature) VALUES (?1, ?2, ?3, ?4)",
            params![job, dataset, signed.payload, signed.signature],
        )
        .map_err(StoreError::sqlite("keep a statement"))?;
        if assessment.verdict == AuditVerdict::Disproved {
            freeze::note(tx, under.lineage, true, &job, &describe_disproof(&assessment), "audit", at)?;
        }
        Ok::<_, StoreError>(())
    })?;
    if assessment.verdict == AuditVerdict::Disproved {
        tracing::error!(
            job.id = %under.job, dataset.id = %under.dataset, claim = assessment.tight, measured = assessment.blocking,
            "AN AUDIT DISPROVES WHAT THIS SITE CLAIMS: its account is frozen; find out what is broken before you clear it"
        );
    }
    Ok((signed, assessment.verdict))
}

/// Formats a disproof as a sentence.
fn describe_disproof(assessment: &Assessment) -> String {
    format!(
        "an audit measured at least ε {:.3} where at most {:.3} was claimed, at δ {:e}: noise, clip or sampling is not what is paid for",
        assessment.blocking,
        assessment.tight,
        assessment.delta.get()
    )
}

/// Returns the number of paid releases of a part in a series.
fn count_paid(db: &Connection, under: &ReleaseContext, series: &str) -> Result<u64, StoreError> {
    let mut statement = db
        .prepare("SELECT payload FROM receipt WHERE job = ?1 AND dataset = ?2 AND series = ?3")
        .map_err(StoreError::sqlite("read receipts"))?;
    let rows = statement
        .query_map(params![under.job.to_string(), under.dataset.to_string(), series], |row| row.get::<_, String>(0))
        .map_err(StoreError::sqlite("read receipts"))?;
    let mut count = 0;
    for row in rows {
        let payload = row.map_err(StoreError::sqlite("read receipts"))?;
        let receipt: Receipt = serde_json::from_str(&payload).map_err(StoreError::row)?;
        count += u64::from(receipt.event == under.charge.event);
    }
    Ok(count)
}

/// Returns the statement about the audit of a part.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn statement(store: &Store, job: JobId, dataset: DatasetId) -> Result<Option<Signed>, StoreError> {
    store.read(|db| {
        db.query_row(
            "SELECT payload, signature FROM statement WHERE job = ?1 AND dataset = ?2",
            params![job.to_string(), dataset.to_string()],
            |row| Ok(Signed { payload: row.get(0)?, signature: row.get(1)? }),
        )
        .optional()
        .map_err(StoreError::sqlite("look for a statement"))
    })
}

#[cfg(test)]
mod tests;
