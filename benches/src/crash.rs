//! Crashes: a worker crashes at every point between payment and sending, then the server; both ledgers afterwards are
//! compared with those of a run without crashes.

use std::time::{Duration, Instant};

use serde_json::json;
use support::stage::{ArmRounds, JobPlan, SiteDataset, SpeechCorpus, TestConsortium, TestDatabase, TestResult};
use undertone_api::budget::{EntryKind, NewBudget};
use undertone_privacy::{Delta, Epsilon, PrivacyUnit};

use crate::report::{Outcome, Report};

const ROUNDS: u32 = 8;
const PATIENCE: Duration = Duration::from_mins(10);

/// The worker's crash points: see `worker/site/src/fault.rs`.
const POINTS: [Option<&str>; 7] = [
    None,
    Some("after-store"),
    Some("before-commit"),
    Some("after-commit"),
    Some("after-countersign"),
    Some("before-send"),
    Some("after-send"),
];

pub(crate) fn run(report: &mut Report) -> Outcome {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(measure(report)).map_err(|error| -> Box<dyn std::error::Error> { error })
}

async fn measure(report: &mut Report) -> TestResult<()> {
    let mut undisturbed = None;
    for point in POINTS {
        let started = Instant::now();
        let (commits, receipts, epsilon) = disturbed(point).await?;
        let least = *undisturbed.get_or_insert(epsilon);
        let line = json!({
            "killed": point.map_or("nobody".to_owned(), |point| format!("worker at {point}, then the server")),
            "rounds": ROUNDS, "commits": commits, "receipts": receipts, "epsilon": epsilon,
            "never_less": epsilon >= least, "seconds": started.elapsed().as_secs_f64(),
        });
        report.line(line).map_err(|error| error.to_string())?;
        if epsilon < least {
            return Err(format!("epsilon {epsilon} is below {least}, what an undisturbed run costs").into());
        }
    }
    Ok(())
}

/// Runs one job of a public and a private site. The private worker crashes when it reaches `point` for the third time,
/// the server a round later.
async fn disturbed(point: Option<&str>) -> TestResult<(usize, String, f64)> {
    let corpus = SpeechCorpus::small()?;
    let mut stage = TestConsortium::set(TestDatabase::Sqlite, &["Library", "One"]).await?;
    let classes = undertone_worker::speech::synthesize::CLASSES.to_string();
    let holding = |name: &str, visibility, more: &[&str]| {
        let mut choice = vec!["--subset", name, "--classes", &classes];
        choice.extend(more);
        SiteDataset::new(name, visibility, &choice)
    };
    stage.sites[0].prepare(&corpus, holding("public", "public", &[]))?;
    stage.sites[0].prepare(&corpus, holding("test", "public", &["--hold-out", "1"]))?;
    stage.sites[1].prepare(&corpus, holding("one", "private", &[]))?;
    stage.open().await?;

    let budget =
        NewBudget { unit: PrivacyUnit::Record, epsilon: Epsilon::new(8.0)?, delta: Delta::new(1e-6)?, filter: None };
    let dataset = stage.dataset("one").await?.id;
    stage.sites[1].client.set_budget(dataset, &budget).await?;
    let lead = stage.dataset("public").await?;
    let job = JobPlan::new("Crash", PrivacyUnit::Record, 16, &lead, 2)?
        .test("common", stage.dataset("test").await?.id)
        .party(dataset, 0.25, 4.0, 1.0)?
        .private(ArmRounds { rounds: ROUNDS, learning_rate: 1e-3, evaluate_every: 4, deadline_seconds: 600, quorum: 2 })
        .job();
    if let Some(point) = point {
        stage.sites[1].kill();
        stage.sites[1].start(&[("UNDERTONE_FAULT", &format!("{point}:3"))])?;
    }
    let job = stage.sites[0].client.propose(stage.consortium, &job).await?.summary.id;
    stage.sites[1].client.approve(job, dataset).await?;
    if point.is_some() {
        stage.sites[1].wait_for_end(PATIENCE)?;
        stage.sites[1].start(&[])?;
        stage.wait_until(job, PATIENCE, |job| job.summary.rounds_done >= 3).await?;
        stage.kill_server();
        stage.start_server()?;
    }
    stage.finish(job, PATIENCE).await?;
    let entries = stage.operator.ledger(dataset).await?.items;
    let commits = entries.iter().filter(|entry| entry.kind == EntryKind::Commit).count();
    let account = stage.dataset("one").await?.accounts.into_iter().next().ok_or("an account")?;
    let verified = stage.sites[1].command(&["ledger", "verify"])?;
    Ok((commits, verified.lines().next().unwrap_or_default().to_owned(), account.spent))
}
