//! Certificates: the cost of a job and of all its releases. Made once, when the job is over, and stored as signed.
//!
//! `draft` reads the facts, `lineage` those of the initial model. [`price`] computes every figure from them; verification runs the same code again. `evidence`
//! adds the signed documents for a download. [`undertone_certificate::verify()`] checks all of it on any machine: in the command
//! lines and in the page of the certificate. Nothing here decides about the admission of a job.

mod draft;
mod evidence;
mod lineage;
#[cfg(test)]
mod tests;

use sea_orm::{ActiveModelTrait as _, ConnectionTrait, EntityTrait as _, IntoActiveModel as _};
use undertone_api::id::JobId;
use undertone_api::model::ModelSource;
use undertone_api::problem::Code;
use undertone_api::signed::certificate::{CertificateParty, LineageSum};
use undertone_api::signed::{Certificate, CertificateFile, Manifest};
use undertone_certificate::price;

use crate::auth::Actor;
use crate::ctx::Ctx;
use crate::error::Error;
use crate::fairness::WorkOwner;
use crate::model::{certificate, job};
use crate::rule::job::{load_job, load_readable_job};
use crate::service::audit_log::{self, AuditAction};
use crate::service::notification;

pub(crate) use draft::describe_job;
pub use undertone_certificate::verify;

/// Returns a job's certificate, for reading.
///
/// # Errors
/// 404 when there is no job that the caller may know, `wrong_state` while there is nothing to certify.
pub async fn get(ctx: &Ctx, actor: &Actor, id: JobId) -> Result<Certificate, Error> {
    load_readable_job(ctx, actor, id).await?;
    require(ctx, id).await?.certificate()
}

/// Returns a job's certificate with its evidence, for a download.
///
/// # Errors
/// As [`get`].
pub async fn file(ctx: &Ctx, actor: &Actor, id: JobId) -> Result<CertificateFile, Error> {
    let job = load_readable_job(ctx, actor, id).await?;
    let row = require(ctx, id).await?;
    let evidence = evidence::load_evidence(ctx, job, &row.certificate()?).await?;
    Ok(CertificateFile { payload: row.payload, signature: row.signature, evidence })
}

/// Returns the certificate that a job has already, with its evidence. It makes none, and is for commands at the terminal.
///
/// # Errors
/// When the database fails, or a stored value cannot be read.
pub(crate) async fn existing_file(ctx: &Ctx, id: JobId) -> Result<Option<CertificateFile>, Error> {
    let Some(row) = find(ctx.db.read(), id).await? else { return Ok(None) };
    let job = load_job(ctx.db.read(), id).await?;
    let evidence = evidence::load_evidence(ctx, job, &row.certificate()?).await?;
    Ok(Some(CertificateFile { payload: row.payload, signature: row.signature, evidence }))
}

/// Returns a job's certificate as a downloaded file, which the audit log notes.
///
/// # Errors
/// As `file`.
pub async fn take(ctx: &Ctx, actor: &Actor, id: JobId) -> Result<CertificateFile, Error> {
    let row = load_readable_job(ctx, actor, id).await?;
    let file = file(ctx, actor, id).await?;
    audit_log::note_taken(ctx, actor, AuditAction::CertificateTaken, &row).await?;
    Ok(file)
}

/// Returns the certificate, and makes it if it is due and was not made when the job ended (the server crashed in
/// between).
async fn require(ctx: &Ctx, id: JobId) -> Result<certificate::Model, Error> {
    issue(ctx, id).await?.ok_or_else(|| {
        Error::problem(
            Code::WrongState,
            "there is no certificate: one is made when a job has finished, or has ended otherwise after releasing something \
             and every site has closed its part",
        )
    })
}

/// Makes a job's certificate when it is due, and returns the existing one.
///
/// The figures are computed outside of any transaction, because they take time. Their inputs can only improve in the
/// meantime: a settled part does not change, and for an open one the whole reservation counts.
pub(crate) async fn issue(ctx: &Ctx, id: JobId) -> Result<Option<certificate::Model>, Error> {
    if let Some(model) = find(ctx.db.read(), id).await? {
        return Ok(Some(model));
    }
    let job = load_job(ctx.db.read(), id).await?;
    let Some(draft) = draft::draft_certificate(ctx, &job).await? else { return Ok(None) };
    let certificate = ctx
        .compute()
        .run(WorkOwner::current(), "pricing a certificate", move || price::compute_figures(draft))
        .await?
        .map_err(|error| Error::internal("pricing a certificate", error))?;
    let signed =
        ctx.signer.sign(&certificate).await.map_err(|error| Error::internal("signing a certificate", error))?;
    let row = certificate::Model {
        job_id: id.0,
        digest: signed.digest(),
        payload: signed.payload,
        signature: signed.signature,
        issued_at: certificate.issued_at,
    };
    let model = ctx
        .db
        .write("issue certificate", async |tx| {
            // Another replica or request may have made it in the meantime.
            if let Some(model) = find(tx, id).await? {
                return Ok(model);
            }
            notification::job::certified(ctx, tx, &job).await?;
            Ok(row.clone().into_active_model().insert(tx).await?)
        })
        .await?;
    tracing::info!(job.id = %id, certificate.digest = model.digest, "a certificate was issued");
    Ok(Some(model))
}

/// Returns the cost to each account of all jobs from which a file of a certificate's job follows.
///
/// # Errors
/// When an event of the certificate has no price.
pub(crate) async fn sum_lineage(
    ctx: &Ctx,
    mut certificate: Certificate,
    source: ModelSource,
) -> Result<Vec<LineageSum>, Error> {
    if source == ModelSource::Public {
        certificate.parties.iter_mut().for_each(|party| party.charged = None);
    }
    ctx.compute()
        .run(WorkOwner::current(), "pricing a lineage", move || price::lineage_sums(&certificate))
        .await?
        .map_err(|error| Error::internal("pricing a lineage", error))
}

/// Makes the certificate as [`issue`] does, after the end of a job. A failure is logged and does not undo the end; the
/// certificate is then made at the first request.
pub(crate) async fn issue_if_due(ctx: &Ctx, id: JobId) {
    if let Err(error) = issue(ctx, id).await {
        tracing::error!(job.id = %id, %error, "a certificate was not issued");
    }
}

/// Returns every dataset of a job with its charges until now, the lead first, without figures.
///
/// # Errors
/// When the database fails, or a stored value cannot be read.
pub(crate) async fn parties(ctx: &Ctx, job: &job::Model, manifest: &Manifest) -> Result<Vec<CertificateParty>, Error> {
    draft::parties(ctx, job, manifest).await
}

/// Returns the certificate that a job has already, with the digest of its signed payload. It makes none.
///
/// # Errors
/// When the database fails, or a stored value cannot be read.
pub(crate) async fn existing(ctx: &Ctx, id: JobId) -> Result<Option<(String, Certificate)>, Error> {
    let row = find(ctx.db.read(), id).await?;
    row.map(|row| Ok((row.digest.clone(), row.certificate()?))).transpose()
}

async fn find(connection: &impl ConnectionTrait, id: JobId) -> Result<Option<certificate::Model>, Error> {
    Ok(certificate::Entity::find_by_id(id.0).one(connection).await?)
}
