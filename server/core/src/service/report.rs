//! Reports: all facts about a job, assembled from its own record on request; and a new proposal from a report.
//!
//! A report is not a record of its own: it contains only data that was stored or signed before. It decides nothing.
//! `levels` computes the guarantees of the releases at levels at which no ledger counts.

mod levels;
#[cfg(test)]
mod tests;

use sea_orm::{ColumnTrait as _, EntityTrait as _, QueryFilter as _, QueryOrder as _};
use undertone_api::dataset::{Dataset, SizeClass, Visibility};
use undertone_api::id::{ConsortiumId, JobId};
use undertone_api::job::{
    Job, JobState, Measurement, NewJob, Report, Spec, active_learning, analytics, dp_sgd, evaluation,
};
use undertone_api::problem::Violation;
use undertone_api::report::{
    ArmComparison, CertificateNamed, DatasetUsed, FORMAT, MissingFigure, PartyCost, ReportFile, ReportVersions,
};
use undertone_api::signed::Signed;
use undertone_api::signed::certificate::{ArtifactNamed, Certificate, CertificateParty, ConsortiumNamed};
use undertone_privacy::mechanism::EVALUATOR_VERSION;

use crate::auth::Actor;
use crate::ctx::Ctx;
use crate::error::Error;
use crate::fairness::WorkOwner;
use crate::model::{artifact, consortium, job, measurement};
use crate::rule::job::load_readable_job;
use crate::service::audit_log::{self, AuditAction};
use crate::service::{audit, certificate, dataset, job as jobs};

/// The size class of an unknown dataset: so large that no guarantee depends on its size.
const UNKNOWN: SizeClass = SizeClass(1_000_000_000);

/// Returns a job's report as a downloaded file, which the audit log notes.
///
/// # Errors
/// As [`get`].
pub async fn take(ctx: &Ctx, actor: &Actor, id: JobId) -> Result<ReportFile, Error> {
    let row = load_readable_job(ctx, actor, id).await?;
    let file = get(ctx, actor, id).await?;
    audit_log::note_taken(ctx, actor, AuditAction::ReportTaken, &row).await?;
    Ok(file)
}

/// Returns a job's report.
///
/// # Errors
/// 404 when there is no job that the caller may know.
pub async fn get(ctx: &Ctx, actor: &Actor, id: JobId) -> Result<ReportFile, Error> {
    let row = load_readable_job(ctx, actor, id).await?;
    let connection = ctx.db.read();
    let manifest = row.manifest()?;
    let parties = certificate::parties(ctx, &row, &manifest).await?;
    let datasets = dataset::in_consortium(connection, ConsortiumId(row.consortium_id)).await?;
    let audits = audit::list(ctx, actor, id).await?;
    let measurements = measurements(ctx, id).await?;
    let issued = certificate::existing(ctx, id).await?;
    let consortium = consortium::Entity::find_by_id(row.consortium_id).one(connection).await?;
    let consortium = consortium.ok_or_else(|| Error::not_found("consortium"))?;
    let outcome = row.report.as_deref();
    let tests = manifest.spec.allowed_measurements().tests;
    let files = artifact::Entity::find().filter(artifact::Column::JobId.eq(id.0));
    let files = files.order_by_asc(artifact::Column::Name).all(connection).await?;
    let state = *row.state;
    let mut report = ReportFile {
        format: FORMAT.to_owned(),
        made_at: ctx.now(),
        versions: ReportVersions {
            server: env!("CARGO_PKG_VERSION").to_owned(),
            evaluator: EVALUATOR_VERSION.to_owned(),
            address: ctx.addresses.http.clone(),
            public_key: hex::encode(ctx.signer.verifying_key().to_bytes()),
        },
        consortium: ConsortiumNamed { id: consortium.id.into(), name: consortium.name },
        job: certificate::describe_job(&row, state),
        reason: row.reason.clone(),
        datasets: parties.iter().map(|party| used(party, &datasets, outcome)).collect(),
        comparison: ArmComparison::compare_all(&tests, outcome, &measurements),
        outcome: outcome.cloned(),
        measurements,
        privacy: costs(ctx, actor, &parties, &datasets).await?,
        audits,
        artifacts: files
            .into_iter()
            .map(|file| ArtifactNamed { name: file.name, size: file.size as u64, digest: file.digest })
            .collect(),
        certificate: issued.as_ref().map(|(digest, issued)| name_certificate(id, digest, issued)),
        proposal: NewJob { title: manifest.title, spec: manifest.spec },
        manifest: signed(row),
        absent: Vec::new(),
    };
    report.absent = absent(&report, state);
    Ok(report)
}

/// Proposes the job of a report again, exactly as it was signed then. Later changes of the consortium's datasets are
/// checked as for every proposal, and their owners must approve again.
///
/// # Errors
/// `validation_failed` when the file is not a report or contradicts itself, and as [`jobs::propose`].
pub async fn again(ctx: &Ctx, actor: &Actor, consortium: ConsortiumId, file: &ReportFile) -> Result<Job, Error> {
    let new =
        file.to_proposal().map_err(|error| Error::validation(vec![Violation::new("format", error.to_string())]))?;
    Box::pin(jobs::propose(ctx, actor, consortium, new)).await
}

fn signed(row: job::Model) -> Signed {
    Signed { payload: row.manifest, signature: row.signature }
}

async fn measurements(ctx: &Ctx, id: JobId) -> Result<Vec<Measurement>, Error> {
    let rows = measurement::Entity::find()
        .filter(measurement::Column::JobId.eq(id.0))
        .order_by_asc(measurement::Column::Series)
        .order_by_asc(measurement::Column::Test)
        .order_by_asc(measurement::Column::Round)
        .all(ctx.db.read())
        .await?;
    let figure = |row: measurement::Model| Measurement {
        series: row.series,
        round: row.round as u32,
        test: row.test,
        frames: row.frames as u64,
        accuracy: row.accuracy,
        loss: row.loss,
    };
    Ok(rows.into_iter().map(figure).collect())
}

fn used(party: &CertificateParty, known: &[Dataset], outcome: Option<&Report>) -> DatasetUsed {
    let facts = known.iter().find(|known| known.id == party.dataset);
    let public = party.visibility == Visibility::Public;
    let digest = outcome.filter(|_| public).and_then(|outcome| outcome.digest(party.dataset));
    DatasetUsed {
        dataset: party.dataset,
        name: party.dataset_name.clone(),
        lineage: party.lineage,
        organization_name: party.organization_name.clone(),
        visibility: party.visibility,
        purpose: party.purpose,
        units: party.units,
        records: facts.map_or(UNKNOWN, |facts| facts.records),
        speakers: facts.map_or(UNKNOWN, |facts| facts.speakers),
        digest,
    }
}

/// Returns the job's privacy cost for the people in each charged dataset.
async fn costs(
    ctx: &Ctx,
    actor: &Actor,
    parties: &[CertificateParty],
    known: &[Dataset],
) -> Result<Vec<PartyCost>, Error> {
    let mut costs = Vec::new();
    for party in parties {
        let Some(charged) = &party.charged else { continue };
        let facts = known.iter().find(|known| known.id == party.dataset);
        costs.push(PartyCost {
            dataset: party.dataset,
            dataset_name: party.dataset_name.clone(),
            organization_name: party.organization_name.clone(),
            adjacency: charged.adjacency,
            event: charged.mechanism.event.clone(),
            releases: charged.releases.counted,
            in_the_clear: charged.releases.in_the_clear,
            clip: charged.mechanism.clip,
            delta: charged.account.delta,
            levels: levels::compute_levels(ctx, WorkOwner::from(actor), charged, facts).await?,
        });
    }
    Ok(costs)
}

fn name_certificate(id: JobId, digest: &str, certificate: &Certificate) -> CertificateNamed {
    CertificateNamed {
        digest: digest.to_owned(),
        path: format!("/api/v1/jobs/{id}/certificate"),
        head: certificate.head.clone(),
    }
}

/// Returns the parts that a reader of this report may miss, with the reasons.
fn absent(report: &ReportFile, state: JobState) -> Vec<MissingFigure> {
    let mut absent = Vec::new();
    let mut say = |what: &str, why: String| absent.push(MissingFigure { what: what.to_owned(), why });
    let ended = match state {
        JobState::Finished => "the lead reported nothing of it".to_owned(),
        state if state.is_over() => format!("the job is {} before it was done", state.label()),
        _ => format!("the job is {}", state.label()),
    };
    if report.outcome.is_none() {
        say("The final result", ended);
    }
    match &report.proposal.spec {
        Spec::DpSgd(spec) => absent_of_training(spec, report, &mut say),
        Spec::ActiveLearning(spec) => absent_of_asking(spec, &mut say),
        Spec::Transcription(_) => absent_of_transcribing(report, &mut say),
        Spec::Evaluation(spec) => absent_of_evaluation(spec, &mut say),
        Spec::Analytics(spec) => absent_of_analytics(spec, &mut say),
    }
    if report.certificate.is_none() {
        say("The certificate", "it is made when the job is over and every site has closed its part".to_owned());
    }
    if report.datasets.iter().any(|dataset| dataset.visibility != Visibility::Public) {
        say(
            "Digests of private data",
            "they never leave a site: whoever has a guess at the data could check it with one. The datasets' lines of \
             versions and size classes say which data they were"
                .to_owned(),
        );
        say(
            "Seeds of sampling and noise",
            "they come from each site's operating system and are kept nowhere: whoever knew them could take the sampling and \
             the noise off. A repetition draws its own, so it repeats the job and not its numbers. The seed of what the lead does \
             with public data is in the spec"
                .to_owned(),
        );
    }
    absent
}

/// Adds the parts that a report of a training job lacks.
fn absent_of_training(spec: &dp_sgd::Spec, report: &ReportFile, say: &mut impl FnMut(&str, String)) {
    if spec.rehearsal.is_some() {
        say("The arms", "the job rehearses another one on public data, and no private data took part".to_owned());
        return;
    }
    if spec.open.is_none() {
        say(
            "Open pooling",
            "the job has no open arm: it takes owners who open their data for exact gradients. Without it nobody knows what \
             pooling would have gained, nor which share of that the private arm recovers"
                .to_owned(),
        );
    }
    if spec.private.is_none() {
        say("The private arm", "the job does not have one".to_owned());
    }
    match spec.audit {
        None => say(
            "Audit and membership inference",
            "the job promises no audit. Attacks on people's own recordings are never made by the product: what they show \
             would be a release of those people's"
                .to_owned(),
        ),
        Some(audit) if audit.recordings == 0 => say(
            "Membership inference",
            "the audit puts in no made-up recordings, so there is nothing that an attack on the finished models could be \
             measured on without touching people's own"
                .to_owned(),
        ),
        Some(_) if report.audits.is_empty() => say("Audit and membership inference", "no site has handed in its statement".to_owned()),
        Some(_) => {}
    }
}

/// Adds the parts that a report of a transcription lacks.
fn absent_of_transcribing(report: &ReportFile, say: &mut impl FnMut(&str, String)) {
    say("The transcript", "it is at the site, in the job's own folder, and was never anywhere else".to_owned());
    if report.datasets.iter().any(|dataset| dataset.visibility != Visibility::Public) {
        say(
            "Word error rates, histograms, numbers of pieces, and the bill",
            "they are computed of recordings that are not public, and nothing was paid for telling them. The site keeps them in a \
             report of its own"
                .to_owned(),
        );
        say(
            "What the recognizers heard",
            "which pieces were true, and how many dummies of each word there were, is a secret of the site: whoever knew it could take \
             the noise off"
                .to_owned(),
        );
    }
}

/// Adds the parts that a report of an evaluation lacks.
fn absent_of_evaluation(spec: &evaluation::Spec, say: &mut impl FnMut(&str, String)) {
    say(
        "Metrics of single sites",
        "the server averages the sites' histograms before anything is computed from them; each site knows its own with \
         `undertone-worker evaluate`"
            .to_owned(),
    );
    if !spec.accuracy {
        say(
            "The share of units that the model classifies correctly among all classes",
            "the job does not ask for it: `accuracy` in its spec".to_owned(),
        );
    }
}

/// Adds the parts that a report of queries on tables lacks.
fn absent_of_analytics(spec: &analytics::Spec, say: &mut impl FnMut(&str, String)) {
    let together: Vec<&str> =
        spec.queries.iter().filter(|query| !query.by_site).map(|query| query.name.as_str()).collect();
    if !together.is_empty() {
        say(
            "Numbers of single sites",
            format!(
                "the server averages the sites' vectors before anything is computed from them ({})",
                together.join(", ")
            ),
        );
    }
}

/// Adds the parts that a report of a job with questions lacks.
fn absent_of_asking(spec: &active_learning::Spec, say: &mut impl FnMut(&str, String)) {
    say(
        "What was not asked often enough",
        "what fewer than the threshold of sampled rows asked never left its site; not even how much of it there is"
            .to_owned(),
    );
    if spec.rehearsal.is_none() {
        say(
            "Accuracy against the sampling rate and the threshold",
            "the job has no rehearsal: it takes a public, labelled log of the lead's".to_owned(),
        );
    }
    if spec.private_test.is_some() {
        say(
            "Exact figures on the private test set",
            "its site releases noisy histograms of scores, and nothing else of these rows".to_owned(),
        );
    }
    if spec.annotators < 2 {
        say("Agreement of the annotators", "each question was asked of one person".to_owned());
    }
}
