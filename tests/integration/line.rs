//! A site behind an unreliable line: a job of local steps in eight bits, whose connections break in the middle of a
//! transfer, in both directions. All transfers resume, and both ledgers contain every step exactly once.

use std::time::Duration;

use support::line::{LineDirection, LineProxy, LineQuality};
use support::stage::{ArmRounds, JobPlan, TestDatabase, TestResult};
use undertone_api::budget::EntryKind;
use undertone_api::job::Report;
use undertone_api::job::dp_sgd::Precision;
use undertone_api::signed::Receipt;
use undertone_privacy::{Event, PrivacyUnit};

use support::scene;

const JOB: Duration = Duration::from_mins(10);
const ROUNDS: u32 = 2;
const STEPS: u32 = 3;
/// The size of a model with vectors of several chunks even in eight bits.
const HIDDEN: u32 = 320;

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_transfer_resumes_and_counts_each_step_once() -> TestResult<()> {
    let mut stage = scene::set(TestDatabase::Sqlite).await?;
    let line = LineProxy::lay(stage.gateway(), LineQuality::default()).await?;
    stage.sites[1].connect_over(&line)?;
    stage.open().await?;
    scene::set_budgets(&stage, 60.0).await?;
    let lead = stage.dataset("public").await?;
    let test = stage.dataset("test").await?.id;
    let mut plan = JobPlan::new("Far away", PrivacyUnit::Record, HIDDEN, &lead, 1)?.test("common", test);
    for name in scene::PRIVATE {
        plan = plan.party(stage.dataset(name).await?.id, 0.25, 2.0, 1.0)?;
    }
    let rounds = ArmRounds { rounds: ROUNDS, learning_rate: 1e-4, evaluate_every: 2, deadline_seconds: 300, quorum: 4 };
    let plan = plan.private(rounds).exchange(STEPS, Precision::Int8);

    // The first vector's upload breaks after more than a chunk, and so does the download of the shared model.
    let (up, down) = (line.carried(LineDirection::Up), line.carried(LineDirection::Down));
    line.schedule_cut(LineDirection::Up, up + 340_000);
    line.schedule_cut(LineDirection::Down, down + 900_000);
    let job = stage.sites[0].client.propose(stage.consortium, &plan.job()).await?.summary.id;
    scene::approve(&stage, job).await?;
    let job = stage.finish(job, JOB).await?;
    let (up, down) = (line.carried(LineDirection::Up) - up, line.carried(LineDirection::Down) - down);

    let Some(Report::DpSgd(report)) = &job.report else { return Err("a finished job has its report".into()) };
    let vector = report.parameters;
    assert!(vector > 400_000 && line.cuts() == 2, "{vector} bytes a vector, {} breaks", line.cuts());
    // Two vectors with a byte per number; less than a chunk of the interrupted transfer was sent again.
    assert!(up > vector * 19 / 10 && up < vector * 2 + 200_000, "{up} bytes up for two vectors of {vector}");
    // The model in 32 bits and two averages in eight.
    assert!(down > vector * 5 && down < vector * 6 + 400_000, "{down} bytes down for a model of {vector} numbers");
    every_step_is_counted_once(&stage, &job).await
}

/// Checks for one commit per round, with all its steps, in the server's ledger and in the site's signed receipts.
async fn every_step_is_counted_once(
    stage: &support::stage::TestConsortium,
    job: &undertone_api::job::Job,
) -> TestResult<()> {
    let steps = |event: &Event| match event {
        Event::Repeated { count, .. } => Ok(*count),
        other => Err(format!("a round is paid as its steps, not as {other:?}")),
    };
    let every = u64::from(ROUNDS * STEPS);
    let evidence = stage.sites[0].client.certificate(job.summary.id).await?.evidence;
    let receipts: Vec<Receipt> = evidence
        .receipts
        .iter()
        .map(|receipt| serde_json::from_str(&receipt.receipt.payload))
        .collect::<Result<_, _>>()?;
    for (site, name) in stage.sites.iter().skip(1).zip(scene::PRIVATE) {
        let dataset = stage.dataset(name).await?.id;
        let mut total = 0;
        for entry in stage.operator.ledger(dataset).await?.items {
            if entry.kind == EntryKind::Commit {
                total += entry.count * steps(&entry.event)?;
            }
        }
        assert_eq!(total, every, "{name}: the consortium's ledger");
        let own = receipts.iter().filter(|receipt| receipt.dataset == dataset);
        let signed = own.map(|receipt| steps(&receipt.event)).sum::<Result<u64, _>>()?;
        assert_eq!(signed, every, "{name}: the site's receipts");
        site.command(&["ledger", "verify"])?;
    }
    Ok(())
}
