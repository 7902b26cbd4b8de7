//! The registry model with which a job begins: found by its digest among the files of the consortium's finished jobs,
//! and classified by the arm that made it.
//!
//! The signed manifest holds the origin. Participants fetch the file under [`INITIAL_MODEL`]; its bytes stay with the
//! job that made it. The model may follow from public data, or from charged releases: reading it is post-processing,
//! and the certificate of the new job adds up the charges of all. A model of exact gradients of open data is refused,
//! because no ε of the new job would cover these data.

mod misread;

use std::cmp::Reverse;
use std::collections::BTreeSet;

use object_store::ObjectStoreExt as _;
use sea_orm::{
    ColumnTrait as _, ConnectionTrait, EntityTrait as _, QueryFilter as _, QueryOrder as _, QuerySelect as _,
};
use undertone_api::dataset::Dataset;
use undertone_api::id::{ConsortiumId, JobId};
use undertone_api::job::{INITIAL_MODEL, JobKind as _, JobState, NewJob, Spec, dp_sgd};
use undertone_api::model::{InitialModelChoice, ModelSource};
use undertone_api::problem::{Code, Violation};
use undertone_api::signed::ModelOrigin;
use undertone_api::signed::certificate::MOST_EARLIER_JOBS;

use super::{StoredArtifact, deletion, find, stored};
use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::exchange::artifact as files;
use crate::exchange::object;
use crate::model::column::ColumnEnum as _;
use crate::model::{artifact, consortium, job};
use crate::rule::job::load_job;
use crate::service::{audit, certificate};

/// The most jobs whose models are offered.
const MOST_CHOICES: u64 = 100;
/// The field of a spec that names the model.
const FIELD: &str = "spec.initial_model";

/// A proposal with the values of its initial model.
#[derive(Debug, Clone)]
pub(crate) struct ResolvedProposal {
    /// The proposal. Values that it left open are those of the model.
    pub(crate) job: NewJob,
    /// The origin of the model; `None` for a job that begins with none, or with violations.
    pub(crate) origin: Option<ModelOrigin>,
    /// Every reason why the job cannot begin with the model.
    pub(crate) violations: Vec<Violation>,
}

/// Finds the model with which a proposed job begins, and checks that the job can begin with it; of another job, checks
/// that the model that it evaluates was not deleted.
///
/// # Errors
/// When the database or the object store fails. Every defect of the proposal is a violation.
pub(crate) async fn resolve(
    ctx: &Ctx,
    actor: &Actor,
    consortium: ConsortiumId,
    job: NewJob,
    datasets: &[Dataset],
) -> Result<ResolvedProposal, Error> {
    if job.spec.initial_file().is_none() {
        let mut violations = deletion::violations(ctx.db.read(), consortium, &job.spec).await?;
        violations.extend(Box::pin(misread::find_misread_model(ctx.db.read(), consortium, &job.spec, datasets)).await?);
        return Ok(ResolvedProposal { job, origin: None, violations });
    }
    let digest = job.spec.initial_file().filter(|digest| object::is_digest(digest)).map(str::to_owned);
    // A text that is no digest is a violation of the spec itself.
    let Some(digest) = digest else { return Ok(ResolvedProposal { job, origin: None, violations: Vec::new() }) };
    let candidate = match find_candidate(ctx, actor, consortium, &digest).await? {
        Ok(candidate) => candidate,
        Err(text) => {
            let violations = vec![Violation::new(FIELD, text)];
            return Ok(ResolvedProposal { job, origin: None, violations });
        }
    };
    let manifest = candidate.row.manifest()?;
    let job = NewJob { spec: job.spec.adopt_initial_model(&manifest), ..job };
    let violations = job.spec.check_initial_model(&manifest, datasets);
    let origin = ModelOrigin {
        digest,
        job: JobId(candidate.row.id),
        title: candidate.row.title,
        file: candidate.file,
        source: candidate.source,
    };
    Ok(ResolvedProposal { job, origin: violations.is_empty().then_some(origin), violations })
}

/// Returns the models with which a training job on some of the datasets can begin, newest first, each once: those of
/// the last 100 finished training jobs that were made for data with as many coefficients in a frame.
///
/// # Errors
/// 404 and 403 as usual.
pub async fn list_choices(
    ctx: &Ctx,
    actor: &Actor,
    consortium: ConsortiumId,
    datasets: &[Dataset],
) -> Result<Vec<InitialModelChoice>, Error> {
    policy::check(actor, Operation::PlanJob, Place::Consortium(consortium))?;
    let connection = ctx.db.read();
    let jobs = job::Entity::find()
        .filter(job::Column::ConsortiumId.eq(consortium.0))
        .filter(job::Column::State.eq(JobState::Finished.to_text()))
        .filter(job::Column::Kind.eq(dp_sgd::Spec::NAME))
        .order_by_desc(job::Column::FinishedAt)
        .limit(MOST_CHOICES)
        .all(connection)
        .await?;
    let files = super::of_jobs(connection, jobs.iter().map(|job| job.id)).await?;
    let inputs: BTreeSet<u32> = datasets.iter().map(|dataset| dataset.inputs).collect();
    let mut choices: Vec<InitialModelChoice> = Vec::new();
    for job in jobs {
        let manifest = job.manifest()?;
        let Spec::DpSgd(spec) = &manifest.spec else { continue };
        let fits = |inputs: &u32| manifest.model.is_some() && manifest.spec.model(*inputs) == manifest.model;
        if !inputs.iter().any(fits) {
            continue;
        }
        let mut own: Vec<_> = files.get(&job.id).into_iter().flatten().collect();
        own.sort_by_key(|file| (Reverse(file.source), &file.name));
        for file in own {
            let is_known = choices.iter().any(|choice| choice.origin.digest == file.digest);
            if let Some(source) = file.source.filter(|_| !is_known && file.deletion.is_none()) {
                let origin = ModelOrigin {
                    digest: file.digest.clone(),
                    job: JobId(job.id),
                    title: job.title.clone(),
                    file: file.name.clone(),
                    source,
                };
                choices.push(InitialModelChoice { origin, model: spec.model.clone() });
            }
        }
    }
    choices.retain(|choice| choice.origin.source != ModelSource::Open);
    Ok(choices)
}

/// A registry model that a job can begin with.
struct ModelCandidate {
    row: job::Model,
    file: String,
    source: ModelSource,
}

/// Returns the model with a digest, or the reason why no job of the consortium can begin with it.
async fn find_candidate(
    ctx: &Ctx,
    actor: &Actor,
    consortium: ConsortiumId,
    digest: &str,
) -> Result<Result<ModelCandidate, String>, Error> {
    let connection = ctx.db.read();
    let rows = artifact::Entity::find()
        .filter(artifact::Column::Digest.eq(digest))
        .order_by_asc(artifact::Column::CreatedAt)
        .order_by_asc(artifact::Column::Name)
        .all(connection)
        .await?;
    let ids = rows.iter().map(|row| row.job_id);
    let jobs = job::Entity::find().filter(job::Column::Id.is_in(ids)).all(connection).await?;
    let of_row = |row: &artifact::Model| jobs.iter().find(|job| job.id == row.job_id);
    let is_own = |job: &&job::Model| job.consortium_id == consortium.0;
    let own: Vec<_> = rows.iter().filter_map(|row| Some((row, of_row(row).filter(is_own)?))).collect();
    let Some((row, _)) = own.first() else { return describe_stranger(ctx, actor, &jobs).await.map(Err) };
    // Later jobs may have copies of the file, as their warm start; the first job made it.
    let finished = own.iter().find(|(_, job)| job.state == JobState::Finished && audit::releasable(job).is_ok());
    let Some((_, made)) = finished else {
        let job = of_row(row).map_or("", |job| &job.title);
        return Ok(Err(format!(
            "the job {job:?} that made this file has not finished: choose a model of a finished job"
        )));
    };
    if let Some((row, made)) = own.iter().find(|(row, _)| row.deleted_at.is_some()) {
        return Ok(Err(deletion::describe(row, &made.title)));
    }
    let names = own.iter().filter(|(row, _)| row.job_id == made.id).map(|(row, _)| &row.name);
    let sources = names.filter_map(|name| Some((made.spec.model_source(name)?, name)));
    // Equal bytes under several names count as the least protected.
    let Some((source, file)) = sources.max() else {
        return Ok(Err(format!(
            "{:?} of the job {:?} is no model: choose one of the Models page",
            row.name, made.title
        )));
    };
    if !matches!(&*made.spec, Spec::DpSgd(_)) {
        return Ok(Err(format!(
            "{file:?} of the job {:?} is a classifier of queries, which no other job reads: choose a model of a dp_sgd job",
            made.title
        )));
    }
    if source == ModelSource::Open {
        return Ok(Err(format!(
            "{file:?} of the job {:?} was made of {}, which no ε covers: choose its public or private model",
            made.title,
            source.label()
        )));
    }
    match ctx.store.head(&files::path(JobId(made.id), digest)).await {
        Ok(_) => {}
        Err(object_store::Error::NotFound { .. }) => return Ok(Err(describe_deleted(file, &made.title))),
        Err(error) => return Err(Error::internal("looking for an initial model", error)),
    }
    // Now, not at the end of the new job: its certificate repeats the charges of this one.
    if certificate::issue(ctx, JobId(made.id)).await?.is_none() {
        return Ok(Err(format!(
            "the job {:?} that made this model has no certificate: choose another model",
            made.title
        )));
    }
    if let Err(text) = check_length(count_lineage(ctx, JobId(made.id)).await?) {
        return Ok(Err(text));
    }
    Ok(Ok(ModelCandidate { row: (*made).clone(), file: file.clone(), source }))
}

/// Describes a digest that no file of the consortium has. Only readers of another consortium learn that it has one.
async fn describe_stranger(ctx: &Ctx, actor: &Actor, jobs: &[job::Model]) -> Result<String, Error> {
    let may_know = |job: &&job::Model| {
        policy::allows(actor, Operation::ReadConsortium, Place::Consortium(job.consortium_id.into()))
    };
    if let Some(job) = jobs.iter().find(may_know) {
        let other = consortium::Entity::find_by_id(job.consortium_id).one(ctx.db.read()).await?;
        let name = other.map_or_else(String::new, |other| other.name);
        return Ok(format!(
            "this model is of the consortium {name:?}: a job begins with a model of its own consortium; choose one of the \
             Models page"
        ));
    }
    Ok("no model of this consortium has this SHA-256: choose one of the Models page".to_owned())
}

fn describe_deleted(file: &str, title: &str) -> String {
    format!("{file:?} of the job {title:?} was deleted: choose another model of the Models page")
}

/// Checks the number of jobs from which a model follows.
fn check_length(jobs: usize) -> Result<(), String> {
    if jobs <= MOST_EARLIER_JOBS {
        return Ok(());
    }
    Err(format!(
        "this model follows from {jobs} jobs, and a certificate lists at most {MOST_EARLIER_JOBS}: choose a model with a \
         shorter lineage"
    ))
}

/// Returns the number of jobs from which the models of a job with a certificate follow, the job included.
async fn count_lineage(ctx: &Ctx, id: JobId) -> Result<usize, Error> {
    let certificate = certificate::existing(ctx, id).await?;
    let earlier = certificate.and_then(|(_, certificate)| certificate.initial_model);
    Ok(earlier.map_or(0, |model| model.jobs.len()) + 1)
}

/// Returns the file of the model with which a job begins, if `name` is the name for it and the job begins with one.
///
/// # Errors
/// `not_found` when the file was deleted after the proposal.
pub(super) async fn find_file(
    connection: &impl ConnectionTrait,
    job: JobId,
    name: &str,
) -> Result<Option<StoredArtifact>, Error> {
    if name != INITIAL_MODEL {
        return Ok(None);
    }
    let manifest = load_job(connection, job).await?.manifest()?;
    let Some(origin) = manifest.initial_model else { return Ok(None) };
    let row = find(connection, origin.job, &origin.file).await?.filter(|row| row.digest == origin.digest);
    let row = row.filter(|row| row.deleted_at.is_none());
    let deleted = || Error::problem(Code::NotFound, describe_deleted(&origin.file, &origin.title));
    row.map(|row| Some(stored(row, Some(origin.source)))).ok_or_else(deleted)
}

#[cfg(test)]
mod tests;
