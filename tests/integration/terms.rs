//! Parties with real workers that set their own terms: one answers with more noise and fewer rounds, one leaves between
//! rounds at its terminal, and the job ends with every ledger right.

use std::time::Duration;

use serde_json::json;
use undertone_api::budget::EntryKind;
use undertone_api::job::{DepartureOrigin, Job, JobState, OpenTerm, ParticipantState, Spec, TermName};

use support::scene;
use support::stage::{ArmRounds, TestDatabase, TestResult, wait_until_so};

const JOB: Duration = Duration::from_secs(400);
const ROUNDS: u32 = 8;
/// Rounds of the party that answers with its own terms.
const OWN_ROUNDS: u32 = 4;
/// Releases reserved beyond the rounds, in every plan of the scene.
const SPARE: u64 = 4;

#[tokio::test(flavor = "multi_thread")]
async fn one_party_adds_noise_and_another_leaves() -> TestResult<()> {
    let mut stage = scene::set(TestDatabase::Sqlite).await?;
    // The first private site answers at its own terminal.
    stage.sites[1].edit_policy("approval = \"steward\"", "approval = \"manual\"")?;
    stage.open().await?;
    scene::set_budgets(&stage, 60.0).await?;
    let rounds = ArmRounds { rounds: ROUNDS, learning_rate: 1e-3, evaluate_every: 2, deadline_seconds: 300, quorum: 2 };
    let mut new = scene::small_job(&stage, ROUNDS, 300).await?.private(rounds).job();
    let Spec::DpSgd(spec) = &mut new.spec else { return Err("a job of another kind".into()) };
    let open = |term, min, max| OpenTerm { dataset: None, term, min, max };
    spec.open_terms = vec![open(TermName::NoiseMultiplier, 2.0, 8.0), open(TermName::Rounds, 1.0, f64::from(ROUNDS))];
    let proposed = stage.sites[0].client.propose(stage.consortium, &new).await?;
    let id = proposed.summary.id;
    let own = stage.dataset(scene::PRIVATE[0]).await?.id;
    let site = &stage.sites[1];
    let job = id.to_string();
    let is_known = || site.command(&["jobs"]).is_ok_and(|table| table.contains(&job));
    wait_until_so("the site knows the proposal", is_known).await?;
    let beyond = site.command(&["approve", &job, "--term", "noise_multiplier=1"]);
    assert!(beyond.is_err_and(|error| error.to_string().contains("from 2 to 8")), "an answer outside the range");
    let own_rounds = format!("rounds={OWN_ROUNDS}");
    site.command(&["approve", &job, "--term", "noise_multiplier=6", "--term", &own_rounds])?;
    stage
        .wait_until(id, JOB, |job| job.participants[1].charge.as_ref().is_some_and(|charge| charge.releases == 8))
        .await?;
    let other = json!({ "terms": { "noise_multiplier": 3.0 } });
    let denied = site.client.post::<Job>(&format!("/jobs/{id}/datasets/{own}/approve"), &other).await;
    assert!(denied.is_err(), "the site has answered otherwise");
    for (site, name) in stage.sites.iter().skip(2).zip(&scene::PRIVATE[1..]) {
        site.client.approve(id, stage.dataset(name).await?.id).await?;
    }
    let running = stage.wait_until(id, JOB, |job| job.summary.rounds_done >= 2).await?;
    assert_ne!(running.manifest, proposed.manifest, "the final manifest holds the answers");
    let reserved = |party: usize| running.participants[party].epsilon_reserved.unwrap_or_default();
    assert!(reserved(1) < reserved(2) / 2.0, "more noise and fewer rounds cost less");

    // The third private site leaves.
    let site = &stage.sites[3];
    site.command(&["leave", &job, "--reason", "the study has ended"])?;
    site.command(&["leave", &job, "--reason", "again"]).expect_err("a site leaves once");
    let left = stage.wait_until(id, JOB, |job| job.participants[3].state == ParticipantState::Left).await?;
    assert!(matches!(left.summary.state, JobState::Running | JobState::Finished), "the others continue");
    let departure = left.participants[3].departure.as_ref().ok_or("the job states the departure")?;
    assert_eq!((departure.origin, departure.reason.as_str()), (DepartureOrigin::Site, "the study has ended"));
    stage.finish(id, JOB).await?;

    for (index, planned) in [(0, u64::from(OWN_ROUNDS)), (1, u64::from(ROUNDS)), (2, u64::from(ROUNDS))] {
        let name = scene::PRIVATE[index];
        let dataset = stage.dataset(name).await?;
        let entries = stage.operator.ledger(dataset.id).await?.items;
        let count = |kind| entries.iter().filter(|entry| entry.kind == kind).map(|entry| entry.count).sum::<u64>();
        let paid = count(EntryKind::Commit);
        assert_eq!(count(EntryKind::Reserve), planned + SPARE, "{name}");
        assert_eq!(paid + count(EntryKind::Settle), planned + SPARE, "{name}: what was never released is returned");
        assert_eq!(paid < planned, index == 2, "{name}: {paid} releases were paid");
        stage.sites[index + 1].command(&["ledger", "verify"])?;
    }
    let certificate = stage.operator.certificate(id).await?;
    assert!(certificate.payload.contains("the study has ended"), "the certificate states the departure");
    Ok(())
}
