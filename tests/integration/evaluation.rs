//! A trained model, evaluated on the private test sets of three sites: one noisy vector and one charge of each.

use std::fs;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use support::scene;
use support::stage::{TestConsortium, TestDatabase, TestResult};
use undertone_api::budget::EntryKind;
use undertone_api::id::JobId;
use undertone_api::job::evaluation::{Party, ScoreBins, Spec};
use undertone_api::job::{JobState, NewJob, Report, Spec as AnySpec};
use undertone_api::model::Artifact;
use undertone_api::model::record::{ModelComparison, ModelRecord, QualityOrigin};
use undertone_api::signed::Certificate;
use undertone_certificate::{TrustedInputs, verify};
use undertone_privacy::{NoiseMultiplier, PrivacyUnit};

const JOB: Duration = Duration::from_secs(200);
/// The classes that the job evaluates.
const CLASSES: [u32; 2] = [0, 1];

#[tokio::test(flavor = "multi_thread")]
async fn model_of_a_job_is_evaluated_on_the_data_of_three_sites() -> TestResult<()> {
    let mut stage = scene::set(TestDatabase::Sqlite).await?;
    for site in &stage.sites {
        site.edit_policy("kinds = [\"dp_sgd\"]", "kinds = [\"dp_sgd\", \"evaluation\"]")?;
        site.edit_policy("release_period_seconds = { ", "release_period_seconds = { evaluation = 0.05, ")?;
    }
    stage.open().await?;
    scene::set_budgets(&stage, 60.0).await?;
    let trained = scene::run_small_job(&stage, 2).await?;
    let before = spent(&stage).await?;

    let artifacts = stage.sites[0].client.artifacts(trained).await?;
    let model = artifacts.iter().find(|artifact| artifact.name == "model.safetensors").ok_or("a model")?;
    let file = stage.sites[0].client.content(model.id).await?;
    let digest = hex::encode(Sha256::digest(&file));
    let job = stage.sites[0].client.propose(stage.consortium, &plan(&stage, &digest).await?).await?.summary.id;

    // The lead's site does not have the file: its part fails before anything is released.
    scene::approve(&stage, job).await?;
    let failed = stage.wait_until(job, JOB, |job| job.summary.state == JobState::Failed).await?;
    let reason = failed.reason.unwrap_or_default();
    assert!(reason.contains(&digest) && reason.contains("models"), "{reason}");
    assert_eq!(spent(&stage).await?, before, "a job that releases nothing costs nothing");

    let models = stage.sites[0].folder().join("models");
    fs::create_dir_all(&models)?;
    fs::write(models.join("trained.safetensors"), &file)?;
    let job = stage.sites[0].client.propose(stage.consortium, &plan(&stage, &digest).await?).await?.summary.id;
    scene::approve(&stage, job).await?;
    let done = stage.finish(job, JOB).await?;

    let Some(Report::Evaluation(report)) = &done.report else { return Err("a finished job has its report".into()) };
    assert_eq!((report.model.as_str(), report.sites), (digest.as_str(), 3));
    assert_eq!(report.classes.iter().map(|result| result.class).collect::<Vec<_>>(), CLASSES);
    let bins = ScoreBins::default().count as usize;
    for result in &report.classes {
        assert_eq!((result.positives.len(), result.negatives.len()), (bins, bins));
        assert!(
            result.metrics.is_some() != result.problem.is_some(),
            "metrics, or a reason for their absence: {result:?}"
        );
    }
    let accuracy = report.accuracy.ok_or("the accuracy was requested")?;
    // Noise may carry the estimate out of the range in which its interval lies.
    let value = accuracy.value.clamp(0.0, 1.0);
    assert!(accuracy.low <= value && value <= accuracy.high && accuracy.noise > 0.0, "{accuracy:?}");

    for (name, before) in scene::PRIVATE.into_iter().zip(before) {
        let dataset = stage.dataset(name).await?;
        let participant = done.participants.iter().find(|one| one.dataset == dataset.id).ok_or("a participant")?;
        assert_eq!(participant.releases, 1, "{name} releases one vector");
        let entries = stage.operator.ledger(dataset.id).await?.items;
        let commits = entries.iter().filter(|entry| entry.kind == EntryKind::Commit);
        assert_eq!(commits.map(|entry| entry.count).sum::<u64>(), 3, "{name}: two rounds and one evaluation");
        assert!(dataset.accounts.first().ok_or("an account")?.spent > before, "{name} is charged");
    }
    let continued = continue_training(&stage, trained, &digest).await?;
    check_registry(&stage, trained, continued).await?;
    scene::wait_for_proofs(&stage, 4).await?;

    // The site's own evaluation is exact, and needs no job.
    let path = models.join("trained.safetensors");
    let path = path.to_str().ok_or("a path in UTF-8")?;
    let exact = stage.sites[1].command(&["evaluate", path, "--dataset", scene::PRIVATE[0], "--json"])?;
    let exact: serde_json::Value = serde_json::from_str(&exact)?;
    assert!(exact["frames"].as_u64().is_some_and(|frames| frames > 0), "{exact}");
    Ok(())
}

/// Trains the evaluated model for another round, and verifies the certificate of both jobs together.
async fn continue_training(stage: &TestConsortium, trained: JobId, digest: &str) -> TestResult<JobId> {
    let plan = scene::small_job(stage, 1, 300).await?.begin_with(digest);
    let proposed = stage.sites[0].client.propose(stage.consortium, &plan.job()).await?;
    assert_eq!(proposed.initial_model.as_ref().map(|origin| origin.job), Some(trained));
    let job = proposed.summary.id;
    scene::approve(stage, job).await?;
    stage.finish(job, JOB).await?;
    let files = stage.sites[0].client.artifacts(job).await?;
    let start = files.iter().find(|file| file.name == "warm_start.safetensors").ok_or("a warm start")?;
    assert_eq!(start.digest, digest, "without epochs it is the model itself");
    let file = stage.sites[0].client.certificate(job).await?;
    let verdict = verify(&file, &TrustedInputs::default());
    assert!(verdict.holds(), "{verdict}");
    let certificate: Certificate = serde_json::from_str(&file.payload)?;
    let lineage = certificate.initial_model.as_ref().ok_or("a lineage")?;
    assert_eq!(lineage.jobs.iter().map(|job| job.job).collect::<Vec<_>>(), [trained]);
    assert_eq!(lineage.sums.iter().map(|sum| sum.jobs).collect::<Vec<_>>(), [2; 3], "each site paid for both jobs");
    for sum in &lineage.sums {
        let party = certificate.parties.iter().find(|party| party.lineage == sum.lineage).ok_or("a party")?;
        let alone = party.charged.as_ref().and_then(|charged| charged.renyi);
        assert!(sum.figure.and_then(|figure| figure.epsilon) > alone.and_then(|figure| figure.epsilon));
    }
    Ok(job)
}

/// Reads both versions in the registry, downloads the second in every form, and deletes it.
async fn check_registry(stage: &TestConsortium, trained: JobId, continued: JobId) -> TestResult<()> {
    let client = &stage.sites[0].client;
    let mut models = Vec::new();
    for job in [trained, continued] {
        let files = client.artifacts(job).await?;
        models.push(files.into_iter().find(|file| file.name == "model.safetensors").ok_or("a model")?);
    }
    let [first, second] = &models[..] else { return Err("two models".into()) };
    let record: ModelRecord = client.get(&format!("/artifacts/{}/model", first.id)).await?;
    assert_eq!((record.version, record.continued_by.len()), (1, 1));
    let evaluated = record.quality.iter().filter(|one| one.origin == QualityOrigin::Evaluation);
    assert!(evaluated.count() > 0 && record.quality.iter().any(|one| one.origin == QualityOrigin::Training));
    let record: ModelRecord = client.get(&format!("/artifacts/{}/model", second.id)).await?;
    assert_eq!((record.version, record.line.len()), (2, 2));
    assert_eq!(record.privacy.iter().map(|sum| sum.jobs).collect::<Vec<_>>(), [2; 3]);
    let address = format!("/artifacts/{}/model/comparison?with={}", first.id, second.id);
    let comparison: ModelComparison = client.get(&address).await?;
    assert!(comparison.quality.iter().all(|one| one.low <= one.difference && one.difference <= one.high));
    assert!(comparison.settings.iter().any(|one| one.field == "initial_model"));
    let card = String::from_utf8(client.download(&format!("/artifacts/{}/model/card", second.id)).await?)?;
    assert!(card.contains(&second.digest) && card.contains("any one record"), "{card}");
    let archive = client.download(&format!("/artifacts/{}/model/archive", second.id)).await?;
    let description = b"loader_module: mlflow.onnx";
    assert!(archive.windows(description.len()).any(|window| window == description));

    let reason = serde_json::json!({ "reason": "a speaker withdrew" });
    let deleted: Artifact = client.post(&format!("/artifacts/{}/deletion", second.id), &reason).await?;
    assert_eq!(deleted.deletion.map(|deletion| deletion.reason).as_deref(), Some("a speaker withdrew"));
    assert!(client.content(second.id).await.is_err());
    let plan = scene::small_job(stage, 1, 300).await?.begin_with(&second.digest);
    let refused = client.propose(stage.consortium, &plan.job()).await.err().ok_or("a deleted model begins no job")?;
    let refused = refused.problem().map(|problem| format!("{problem:?}")).unwrap_or_default();
    assert!(refused.contains("a speaker withdrew"), "{refused}");
    Ok(())
}

async fn plan(stage: &TestConsortium, model: &str) -> TestResult<NewJob> {
    let mut participants = vec![Party { dataset: stage.dataset("public").await?.id }];
    for name in scene::PRIVATE {
        participants.push(Party { dataset: stage.dataset(name).await?.id });
    }
    let spec = Spec {
        unit: PrivacyUnit::Record,
        model: model.to_owned(),
        columns: None,
        participants,
        classes: CLASSES.to_vec(),
        noise_multiplier: NoiseMultiplier::new(0.5)?,
        accuracy: true,
        bins: ScoreBins::default(),
        specificities: vec![0.8],
        quorum: 3,
        deadline_seconds: 100,
    };
    Ok(NewJob { title: "Evaluation".to_owned(), spec: AnySpec::Evaluation(spec) })
}

/// Returns the ε that each private dataset has spent.
async fn spent(stage: &TestConsortium) -> TestResult<Vec<f64>> {
    let mut all = Vec::new();
    for name in scene::PRIVATE {
        all.push(stage.dataset(name).await?.accounts.first().ok_or("an account")?.spent);
    }
    Ok(all)
}
