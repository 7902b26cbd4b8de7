//! Parties with real workers that set their own part of a job: one site leaves between rounds at its terminal, and the
//! job ends without it.

use std::time::Duration;

use undertone_api::budget::EntryKind;
use undertone_api::job::{DepartureOrigin, JobState, ParticipantState};

use support::scene;
use support::stage::{ArmRounds, TestDatabase, TestResult};

const JOB: Duration = Duration::from_secs(400);
const ROUNDS: u32 = 8;
/// Releases reserved beyond the rounds, in every plan of the scene.
const SPARE: u64 = 4;

#[tokio::test(flavor = "multi_thread")]
async fn site_that_leaves_recovers_its_reservation() -> TestResult<()> {
    let mut stage = scene::set(TestDatabase::Sqlite).await?;
    stage.open().await?;
    scene::set_budgets(&stage, 60.0).await?;
    let rounds = ArmRounds { rounds: ROUNDS, learning_rate: 1e-3, evaluate_every: 2, deadline_seconds: 300, quorum: 3 };
    let plan = scene::small_job(&stage, ROUNDS, 300).await?.private(rounds);
    let id = stage.sites[0].client.propose(stage.consortium, &plan.job()).await?.summary.id;
    scene::approve(&stage, id).await?;
    stage.wait_until(id, JOB, |job| job.summary.rounds_done >= 2).await?;
    let site = &stage.sites[3];
    site.command(&["leave", &id.to_string(), "--reason", "the study has ended"])?;
    site.command(&["leave", &id.to_string(), "--reason", "again"]).expect_err("a site leaves once");
    let left = |job: &undertone_api::job::Job| job.participants[3].state == ParticipantState::Left;
    let job = stage.wait_until(id, JOB, left).await?;
    assert_eq!(job.summary.state, JobState::Running, "the others continue");
    let departure = job.participants[3].departure.as_ref().ok_or("the job states the departure")?;
    assert_eq!((departure.origin, departure.reason.as_str()), (DepartureOrigin::Site, "the study has ended"));
    stage.finish(id, JOB).await?;

    let dataset = stage.dataset(scene::PRIVATE[2]).await?;
    let entries = stage.operator.ledger(dataset.id).await?.items;
    let count = |kind| entries.iter().filter(|entry| entry.kind == kind).map(|entry| entry.count).sum::<u64>();
    let paid = count(EntryKind::Commit);
    assert!(paid >= 2 && paid < u64::from(ROUNDS), "{paid} releases were paid");
    assert_eq!(count(EntryKind::Settle), u64::from(ROUNDS) + SPARE - paid, "the rest is returned");
    site.command(&["ledger", "verify"])?;
    let certificate = stage.operator.certificate(id).await?;
    assert!(certificate.payload.contains("the study has ended"), "the certificate states the departure");
    Ok(())
}
