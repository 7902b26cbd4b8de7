//! Secure aggregation, end to end: three private sites pin each other's keys, train under masks, and one of them is killed
//! in the middle. Each release is charged once, and the certificate verifies offline.

use std::time::Duration;

use support::scene;
use support::stage::{TestConsortium, TestDatabase, TestResult, wait_until_so};
use support::workspace;
use undertone_api::budget::EntryKind;
use undertone_api::id::JobId;
use undertone_api::job::dp_sgd::SecureAggregation;
use undertone_api::job::{NewJob, Spec};
use undertone_api::signed::Certificate;
use undertone_privacy::Event;

const JOB: Duration = Duration::from_secs(400);
const ROUNDS: u32 = 5;

#[tokio::test(flavor = "multi_thread")]
async fn three_sites_train_under_masks_through_a_crash() -> TestResult<()> {
    let mut stage = scene::set(TestDatabase::Sqlite).await?;
    for site in scene::private_sites(&stage.sites) {
        site.edit_policy("[jobs]\n", "[jobs]\nsecure_aggregation = { allowed = true }\n")?;
    }
    stage.open().await?;
    scene::set_budgets(&stage, 60.0).await?;
    let NewJob { title, spec } = scene::small_job(&stage, ROUNDS, 300).await?.job();
    let Spec::DpSgd(mut spec) = spec else { return Err("the job trains".into()) };
    spec.secure_aggregation = Some(SecureAggregation::new(2, 0));
    let job = NewJob { title, spec: Spec::DpSgd(spec) };
    let job = stage.sites[0].client.propose(stage.consortium, &job).await?.summary.id;
    let id = job.to_string();
    let is_seen = || stage.sites[1].command(&["jobs"]).is_ok_and(|list| list.contains(&id));
    wait_until_so("the site has the proposal", is_seen).await?;
    let refusal = stage.sites[1].command(&["approve", &id]);
    assert!(refusal.is_err_and(|error| error.to_string().contains("undertone-worker peers pin")), "no key is pinned");
    scene::pin_peers(&stage.sites[1..], &scene::PRIVATE)?;
    scene::approve(&stage, job).await?;

    stage.wait_until(job, JOB, |job| job.summary.rounds_done >= 2).await?;
    stage.sites[1].kill();
    stage.sites[1].start(&[])?;
    stage.finish(job, JOB).await?;

    for (site, name) in scene::private_sites(&stage.sites).zip(scene::PRIVATE) {
        let entries = stage.operator.ledger(stage.dataset(name).await?.id).await?.items;
        let commits: Vec<_> = entries.iter().filter(|entry| entry.kind == EntryKind::Commit).collect();
        assert_eq!(commits.len(), ROUNDS as usize, "{name}: a crash costs no second charge");
        assert!(
            commits.iter().all(|entry| matches!(entry.event, Event::PoissonSampledDistributedDiscreteGaussian { .. })),
            "{name}: {commits:?}"
        );
        site.command(&["ledger", "verify"])?;
    }
    certificate_verifies_offline(&stage, job).await
}

/// Runs the command with the file and the keys: no server, no database, no network.
pub(crate) async fn certificate_verifies_offline(stage: &TestConsortium, job: JobId) -> TestResult<()> {
    let file = stage.sites[1].client.certificate(job).await?;
    let certificate: Certificate = serde_json::from_str(&file.payload)?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("certificate.json");
    std::fs::write(&path, serde_json::to_vec(&file)?)?;
    let organizations = stage.operator.organizations(stage.consortium).await?.items;
    let workers = organizations.iter().flat_map(|organization| &organization.workers);
    let mut command = std::process::Command::new(workspace::program("undertone-server")?);
    command.args(["certificate", "verify"]).arg(&path).args(["--server-key", &certificate.issuer.public_key]);
    command.args(workers.flat_map(|worker| ["--site-key", worker.public_key.as_str()]));
    let output = command.current_dir(folder.path()).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && !text.contains("FAILED"), "{text}");

    // A site knows the server's key from its enrolment.
    let verified = stage.sites[1].command(&["certificate", &path.display().to_string()])?;
    let key = format!("signed by the server's key {}", certificate.issuer.public_key);
    assert!(verified.contains(&key) && !verified.contains("FAILED"), "{verified}");
    Ok(())
}
