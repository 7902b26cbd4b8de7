//! The main job, end to end: proposed over REST, approved by three stewards, run by four workers, paid in two ledgers.

use std::time::Duration;

use support::stage::{TestConsortium, TestDatabase, TestResult};
use support::workspace;
use undertone_api::budget::EntryKind;
use undertone_api::job::dp_sgd::SettingMeasure;
use undertone_api::job::{JobState, NewJob, Report, Spec};
use undertone_api::signed::Certificate;
use undertone_privacy::PrivacyUnit;

use support::scene;

const JOB: Duration = Duration::from_secs(400);
const ROUNDS: u32 = 4;

#[tokio::test(flavor = "multi_thread")]
async fn four_sites_train_one_model_on_sqlite() -> TestResult<()> {
    train(TestDatabase::Sqlite).await
}

#[tokio::test(flavor = "multi_thread")]
async fn four_sites_train_one_model_on_postgresql() -> TestResult<()> {
    let Some(database) = TestDatabase::postgres()? else {
        eprintln!("no PostgreSQL: set UNDERTONE_TEST_DATABASE_URL, or run `make test`");
        return Ok(());
    };
    train(database).await
}

async fn train(database: TestDatabase) -> TestResult<()> {
    let mut stage = scene::set(database).await?;
    stage.open().await?;
    scene::set_budgets(&stage, 60.0).await?;
    let plan = scene::small_job(&stage, ROUNDS, 300).await?;
    the_lead_rehearses_alone(&stage, plan.clone().job()).await?;
    let job = stage.sites[0].client.propose(stage.consortium, &plan.job()).await?;
    assert_eq!(job.summary.state, JobState::Proposed, "private data: nothing runs before their owners agree");
    scene::approve(&stage, job.summary.id).await?;
    let job = stage.finish(job.summary.id, JOB).await?;

    let Some(Report::DpSgd(report)) = &job.report else { return Err("a finished job has its report".into()) };
    assert_eq!(report.arms.len(), 2, "public and private: {report:?}");
    assert!(report.arms.iter().all(|arm| arm.tests.len() == 1 && arm.tests[0].frames > 100), "{report:?}");
    both_ledgers_agree(&stage, &job).await?;
    the_model_can_be_taken_away(&stage, &job).await?;
    the_certificate_is_checked_offline_by_the_command(&stage, &job).await
}

/// Rehearses the job with one of its private parties, as the three public speakers allow.
async fn the_lead_rehearses_alone(stage: &TestConsortium, job: NewJob) -> TestResult<()> {
    let Spec::DpSgd(mut spec) = job.spec else { return Err("the job trains".into()) };
    spec.participants.truncate(2);
    spec.private.as_mut().ok_or("private rounds")?.quorum = 2;
    let own = scene::rehearse(stage, spec).await?;
    let (public, private) = own.means(SettingMeasure::Accuracy).ok_or("a measurement")?;
    assert!(public > 0.0 && private > 0.0, "{own:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn speaker_job_is_charged_to_speakers_and_to_their_records() -> TestResult<()> {
    let mut stage = scene::set(TestDatabase::Sqlite).await?;
    for site in stage.sites.iter().skip(1) {
        site.edit_policy("[budget.record]", "[budget.speaker]\nepsilon = 60.0\ndelta = 1e-6\n\n[budget.record]")?;
    }
    stage.open().await?;
    for unit in [PrivacyUnit::Record, PrivacyUnit::Speaker] {
        scene::set_budgets_of(&stage, unit, 60.0).await?;
    }
    let plan = scene::small_job_of(&stage, PrivacyUnit::Speaker, 2, 300).await?;
    let job = stage.sites[0].client.propose(stage.consortium, &plan.job()).await?.summary.id;
    scene::approve(&stage, job).await?;
    stage.finish(job, JOB).await?;
    for (site, name) in stage.sites.iter().skip(1).zip(scene::PRIVATE) {
        let accounts = stage.dataset(name).await?.accounts;
        let spent = |unit| accounts.iter().find(|account| account.unit == unit).map_or(0.0, |account| account.spent);
        let (record, speaker) = (spent(PrivacyUnit::Record), spent(PrivacyUnit::Speaker));
        assert!(speaker > 0.0 && record > speaker, "{name}: a record loses what two changes of its speaker lose");
        let ledger_text = site.command(&["ledger", "show"])?;
        assert!(
            ledger_text.contains("record") && ledger_text.contains("speaker") && !ledger_text.contains("NOT COVERED"),
            "{ledger_text}"
        );
        site.command(&["ledger", "verify"])?;
    }
    // A job that protects records has no price for speakers, which have a limit.
    let plan = scene::small_job(&stage, 2, 300).await?;
    let refused = stage.sites[0].client.propose(stage.consortium, &plan.job()).await;
    assert!(refused.is_err_and(|error| error.to_string().contains("lifetime limit for the unit `speaker`")));
    Ok(())
}

async fn both_ledgers_agree(stage: &TestConsortium, job: &undertone_api::job::Job) -> TestResult<()> {
    for (site, name) in stage.sites.iter().skip(1).zip(scene::PRIVATE) {
        let dataset = stage.dataset(name).await?;
        let entries = stage.operator.ledger(dataset.id).await?.items;
        let count = |kind| entries.iter().filter(|entry| entry.kind == kind).map(|entry| entry.count).sum::<u64>();
        assert_eq!(count(EntryKind::Commit), u64::from(ROUNDS), "{name}: a commit for every round");
        assert_eq!(count(EntryKind::Reserve), u64::from(ROUNDS) + 4, "{name}: the worst case was reserved");
        assert_eq!(count(EntryKind::Settle), 4, "{name}: what never left came back");
        let account = dataset.accounts.first().ok_or("an account")?;
        assert!(account.spent > 0.0 && account.spent <= account.epsilon.get(), "{name}: {account:?}");
        assert!(account.reserved_fraction.abs() < 1e-9, "{name}: nothing stays reserved: {account:?}");

        let participant = job.participants.iter().find(|p| p.dataset == dataset.id).ok_or("a participant")?;
        assert_eq!(participant.releases, u64::from(ROUNDS));
        assert!(participant.epsilon_spent < participant.epsilon_reserved, "{participant:?}");

        let verified = site.command(&["ledger", "verify"])?;
        assert!(verified.contains(&ROUNDS.to_string()), "{name}: every round has its receipt: {verified}");
        let ledger_text = site.command(&["ledger", "show"])?;
        assert!(ledger_text.contains(name), "{ledger_text}");
    }
    Ok(())
}

async fn the_model_can_be_taken_away(stage: &TestConsortium, job: &undertone_api::job::Job) -> TestResult<()> {
    let artifacts = stage.sites[1].client.artifacts(job.summary.id).await?;
    let model = artifacts.iter().find(|artifact| artifact.name == "model.safetensors").ok_or("a model")?;
    let content = stage.sites[1].client.content(model.id).await?;
    assert_eq!(content.len() as u64, model.size);
    let tensors = safetensors::SafeTensors::deserialize(&content)?;
    let parameters: usize = tensors.tensors().iter().map(|(_, tensor)| tensor.shape().iter().product::<usize>()).sum();
    let Some(Report::DpSgd(report)) = &job.report else { return Err("a finished job has its report".into()) };
    assert!(parameters as u64 >= report.parameters, "{parameters} in the file, {} reported", report.parameters);
    Ok(())
}

/// Runs the command with only the file: no server, no database, no network.
async fn the_certificate_is_checked_offline_by_the_command(
    stage: &TestConsortium,
    job: &undertone_api::job::Job,
) -> TestResult<()> {
    let file = stage.sites[1].client.certificate(job.summary.id).await?;
    let certificate: Certificate = serde_json::from_str(&file.payload)?;
    assert_eq!(file.evidence.receipts.len(), scene::PRIVATE.len() * ROUNDS as usize);
    let charges = certificate.parties.iter().filter_map(|party| party.charged.as_ref());
    for (charges, part) in charges.zip(job.participants.iter().filter(|part| part.charge.is_some())) {
        assert_eq!(
            charges.renyi.and_then(|figure| figure.epsilon),
            part.epsilon_reserved,
            "all planned releases are priced"
        );
    }
    let folder = tempfile::tempdir()?;
    let (path, model) = (folder.path().join("certificate.json"), folder.path().join("model.safetensors"));
    std::fs::write(&path, serde_json::to_vec(&file)?)?;
    let artifacts = stage.sites[1].client.artifacts(job.summary.id).await?;
    let artifact = artifacts.iter().find(|artifact| artifact.name == "model.safetensors").ok_or("a model")?;
    std::fs::write(&model, stage.sites[1].client.content(artifact.id).await?)?;
    let organizations = stage.operator.organizations(stage.consortium).await?.items;
    let workers = organizations.iter().flat_map(|organization| &organization.workers);
    let keys: Vec<&str> = workers.map(|worker| worker.public_key.as_str()).collect();
    let verify = |model: &std::path::Path| -> TestResult<(bool, String)> {
        let mut command = std::process::Command::new(workspace::program("undertone-server")?);
        command.args(["certificate", "verify"]).arg(&path).arg("--model").arg(model);
        command.args(["--server-key", &certificate.issuer.public_key]);
        command.args(keys.iter().flat_map(|key| ["--site-key", *key]));
        let output = command.current_dir(folder.path()).output()?;
        Ok((output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned()))
    };
    let (holds, text) = verify(&model)?;
    assert!(holds && !text.contains("FAILED") && !text.contains("not checked"), "{text}");
    assert!(text.contains("every receipt is charged in the server's log"), "{text}");
    let (holds, text) = verify(&path)?;
    assert!(!holds && text.contains("FAILED  model"), "another file passes for the model: {text}");
    let mut forged = file.clone();
    forged.evidence.receipts.pop();
    std::fs::write(&path, serde_json::to_vec(&forged)?)?;
    let (holds, text) = verify(&model)?;
    assert!(!holds && text.contains("FAILED  chain"), "a receipt is missing: {text}");
    Ok(())
}
