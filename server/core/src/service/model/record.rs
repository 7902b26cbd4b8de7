//! A model of the registry with its line, its privacy cost and its quality, read from the records of jobs.
//!
//! A model continues another one if its job began with that file. The certificate lists the earlier jobs of the line and
//! their charges. The figures of quality are the lead's measurements on public test sets, and the results of evaluation
//! jobs that named the digest of the file. Nothing is computed from private data, so a record is no release.

use std::collections::HashMap;

use sea_orm::{ColumnTrait as _, EntityTrait as _, QueryFilter as _, QueryOrder as _, QuerySelect as _};
use undertone_api::id::{ArtifactId, DatasetId, JobId};
use undertone_api::job::evaluation::MetricEstimate;
use undertone_api::job::{JobKind as _, JobState, Report, Spec, dp_sgd, evaluation};
use undertone_api::model::record::{ModelDesign, ModelQuality, ModelRecord, ModelVersion, QualityOrigin};
use undertone_api::model::{Artifact, ModelSource};
use undertone_api::problem::Code;
use undertone_api::report::{DatasetUsed, ReportFile};
use undertone_api::signed::Certificate;

use super::{classifier, deletion, of_jobs};
use crate::auth::Actor;
use crate::ctx::Ctx;
use crate::error::Error;
use crate::model::column::ColumnEnum as _;
use crate::model::{artifact, job};
use crate::rule::job::load_readable_job;
use crate::service::{audit, certificate, report};

/// The most jobs that a record reads for the continuations, and for the evaluations.
const MOST_JOBS: u64 = ModelRecord::MOST_CONTINUATIONS as u64;

/// Returns the record of a model of a finished job.
///
/// # Errors
/// 404 when there is none that the caller may know, or the file is no model; `wrong_state` while the job has not
/// finished, `withheld` while it has not passed a promised audit.
pub async fn get(ctx: &Ctx, actor: &Actor, id: ArtifactId) -> Result<ModelRecord, Error> {
    Ok(read(ctx, actor, id).await?.0)
}

/// Returns the record of a model and the spec of the job that made it.
pub(super) async fn read(ctx: &Ctx, actor: &Actor, id: ArtifactId) -> Result<(ModelRecord, Spec), Error> {
    let row = artifact::Entity::find_by_id(id.0).one(ctx.db.read()).await?;
    let row = row.ok_or_else(|| Error::not_found("model"))?;
    let job = load_readable_job(ctx, actor, row.job_id.into()).await?;
    audit::releasable(&job)?;
    let (name, title) = (&row.name, &job.title);
    let (Some(source), Some(design)) = (job.spec.model_source(name), find_design(&job.spec)) else {
        let text = format!("{name:?} of the job {title:?} is no model: choose one of the Models page");
        return Err(Error::problem(Code::NotFound, text));
    };
    if *job.state != JobState::Finished {
        return Err(Error::wrong_state(format!("the job {title:?} has not finished: wait for its end")));
    }
    let report = report::get(ctx, actor, JobId(job.id)).await?;
    let files = of_jobs(ctx.db.read(), [job.id]).await?.remove(&job.id);
    let file = files.into_iter().flatten().find(|file| file.id == id).ok_or_else(|| Error::not_found("model"))?;
    let certificate = certificate::issue(ctx, JobId(job.id)).await?;
    let certificate = certificate.map(|row| row.certificate()).transpose()?;
    let line = load_line(ctx, &job, &file, source, certificate.as_ref()).await?;
    let version = line.len() as u32;
    let continued_by = load_continuations(ctx, &job, &file, version + 1).await?;
    let mut quality = match &*job.spec {
        Spec::DpSgd(spec) => training_quality(spec, &report, &file.name),
        Spec::ActiveLearning(spec) => classifier::quality(spec, &report),
        _ => Vec::new(),
    };
    quality.extend(load_evaluations(ctx, &job, &file, &report.datasets).await?);
    let privacy = match certificate {
        Some(certificate) => certificate::sum_lineage(ctx, certificate, source).await?,
        None => Vec::new(),
    };
    let record = ModelRecord {
        file,
        consortium: report.consortium,
        job: report.job,
        version,
        line,
        continued_by,
        design,
        datasets: report.datasets,
        certificate: report.certificate,
        privacy,
        quality,
    };
    Ok((record, (*job.spec).clone()))
}

/// Returns what the models of a job compute; `None` for a kind that makes none.
fn find_design(spec: &Spec) -> Option<ModelDesign> {
    match spec {
        Spec::DpSgd(spec) => Some(ModelDesign::Network { settings: spec.model.clone() }),
        Spec::ActiveLearning(spec) => Some(ModelDesign::Classifier {
            classifier: spec.classifier,
            labels: spec.labels.iter().map(|label| label.name.clone()).collect(),
        }),
        _ => None,
    }
}

/// Returns the versions from the first to this file.
async fn load_line(
    ctx: &Ctx,
    job: &job::Model,
    file: &Artifact,
    source: ModelSource,
    certificate: Option<&Certificate>,
) -> Result<Vec<ModelVersion>, Error> {
    let earlier = certificate.and_then(|certificate| certificate.initial_model.as_ref());
    let mut jobs: Vec<_> = earlier.map(|model| model.jobs.clone()).unwrap_or_default();
    // The certificate lists the newest first.
    jobs.reverse();
    let digests = jobs.iter().map(|earlier| earlier.digest.clone());
    let rows = artifact::Entity::find()
        .filter(artifact::Column::Digest.is_in(digests))
        .filter(artifact::Column::JobId.is_in(jobs.iter().map(|earlier| earlier.job.0)))
        .all(ctx.db.read())
        .await?;
    let mut deletions = deletion::load_deletions(ctx.db.read(), &rows).await?;
    let mut line = Vec::new();
    for (earlier, version) in jobs.into_iter().zip(1..) {
        let row = rows.iter().find(|row| row.job_id == earlier.job.0 && row.name == earlier.file);
        line.push(ModelVersion {
            version,
            artifact: row.map(|row| ArtifactId(row.id)),
            name: earlier.file,
            digest: earlier.digest,
            job: earlier.job,
            title: earlier.title,
            source: earlier.source,
            deletion: row.and_then(|row| deletions.remove(&row.id)),
        });
    }
    line.push(to_version(file, source, &job.title, line.len() as u32 + 1));
    Ok(line)
}

fn to_version(file: &Artifact, source: ModelSource, title: &str, version: u32) -> ModelVersion {
    ModelVersion {
        version,
        artifact: Some(file.id),
        name: file.name.clone(),
        digest: file.digest.clone(),
        job: file.job,
        title: title.to_owned(),
        source,
        deletion: file.deletion.clone(),
    }
}

/// Returns the finished jobs of the consortium that read a file, newest first.
async fn load_readers(ctx: &Ctx, job: &job::Model, kind: &str, digest: &str) -> Result<Vec<job::Model>, Error> {
    let rows = job::Entity::find()
        .filter(job::Column::ConsortiumId.eq(job.consortium_id))
        .filter(job::Column::Kind.eq(kind))
        .filter(job::Column::State.eq(JobState::Finished.to_text()))
        .filter(job::Column::Manifest.contains(digest))
        .order_by_desc(job::Column::FinishedAt)
        .order_by_desc(job::Column::Id)
        .limit(MOST_JOBS)
        .all(ctx.db.read())
        .await?;
    Ok(rows.into_iter().filter(|row| row.spec.read_model() == Some(digest)).collect())
}

/// Returns the models of the jobs that began with a file.
async fn load_continuations(
    ctx: &Ctx,
    job: &job::Model,
    file: &Artifact,
    version: u32,
) -> Result<Vec<ModelVersion>, Error> {
    let rows = load_readers(ctx, job, dp_sgd::Spec::NAME, &file.digest).await?;
    let files = of_jobs(ctx.db.read(), rows.iter().map(|row| row.id)).await?;
    let mut models = Vec::new();
    for row in rows.iter().filter(|row| audit::releasable(row).is_ok()) {
        let own = files.get(&row.id).into_iter().flatten();
        let model = own.filter_map(|file| Some((file, file.source?))).find(|(file, _)| file.name == MODEL);
        models.extend(model.map(|(file, source)| to_version(file, source, &row.title, version)));
    }
    Ok(models)
}

/// The name of the model that a training job ends with.
const MODEL: &str = "model.safetensors";

/// Returns the lead's measurements of a file on public test sets.
fn training_quality(spec: &dp_sgd::Spec, report: &ReportFile, file: &str) -> Vec<ModelQuality> {
    let Some(arm) = spec.arm_of_file(file) else { return Vec::new() };
    let dataset_of = |test: &str| spec.tests.iter().find(|known| known.name == test).map(|known| known.dataset);
    let of_arm = report.comparison.iter().filter(|one| one.arm == arm.series());
    let quality = of_arm.filter_map(|one| {
        let (low, high) = ModelQuality::wilson_interval(one.accuracy, one.frames);
        Some(ModelQuality {
            origin: QualityOrigin::Training,
            job: report.job.id,
            title: report.job.title.clone(),
            test: one.test.clone(),
            test_key: dataset_of(&one.test)?.to_string(),
            metric: "accuracy".to_owned(),
            value: one.accuracy,
            low,
            high,
            frames: Some(one.frames),
        })
    });
    quality.collect()
}

/// Returns the figures of the evaluation jobs that used a file, newest first.
async fn load_evaluations(
    ctx: &Ctx,
    job: &job::Model,
    file: &Artifact,
    known: &[DatasetUsed],
) -> Result<Vec<ModelQuality>, Error> {
    let rows = load_readers(ctx, job, evaluation::Spec::NAME, &file.digest).await?;
    let mut names: HashMap<DatasetId, String> = HashMap::new();
    names.extend(known.iter().map(|dataset| (dataset.dataset, dataset.name.clone())));
    let mut quality = Vec::new();
    for row in rows {
        let manifest = row.manifest()?;
        names.extend(
            manifest
                .participants
                .iter()
                .map(|party| (party.dataset, format!("{} of {}", party.dataset_name, party.organization_name))),
        );
        let (Spec::Evaluation(spec), Some(Report::Evaluation(report))) = (&*row.spec, row.report.as_deref()) else {
            continue;
        };
        let sites = spec.participants.iter().skip(1).map(|party| party.dataset);
        let mut sites: Vec<DatasetId> = sites.collect();
        sites.sort();
        let test: Vec<_> = sites.iter().filter_map(|site| names.get(site).cloned()).collect();
        let key: Vec<_> = sites.iter().map(ToString::to_string).collect();
        let unit = serde_json::to_value(spec.unit).map_err(|error| Error::internal("writing a unit", error))?;
        let figure = |metric: String, estimate: &MetricEstimate| ModelQuality {
            origin: QualityOrigin::Evaluation,
            job: JobId(row.id),
            title: row.title.clone(),
            test: test.join(", "),
            test_key: format!("{} by {}", key.join(" "), unit.as_str().unwrap_or_default()),
            metric,
            value: estimate.value,
            low: estimate.low,
            high: estimate.high,
            frames: None,
        };
        quality.extend(report.accuracy.iter().map(|estimate| figure("accuracy".to_owned(), estimate)));
        for class in &report.classes {
            let metrics = class.metrics.iter();
            quality.extend(metrics.map(|own| figure(format!("auroc of class {}", class.class), &own.auroc)));
        }
    }
    Ok(quality)
}

#[cfg(test)]
mod tests;
