//! The jobs that run during the measurement: proposed and approved over REST, with enough rounds for its duration; and
//! the number of rounds that closed without a participant. Every participant is always present, so each such case is a
//! missed deadline.

use std::sync::Arc;

use support::stage::{ArmRounds, JobPlan, PATIENCE, TestConsortium, TestResult};
use undertone_api::budget::NewBudget;
use undertone_api::dataset::Dataset;
use undertone_api::id::{DatasetId, JobId};
use undertone_api::job::log::{LogEvent, LogLine};
use undertone_api::page::Page;
use undertone_privacy::{Delta, Epsilon, PrivacyUnit};

use super::worker::SimulatedWorker;

/// Participants of a job; the first is public and leads.
pub(super) const PARTIES: usize = 4;
/// The number of vectors that suffices after the deadline.
pub(super) const QUORUM: u32 = 3;
/// The time that a round waits for all participants, seconds.
pub(super) const DEADLINE_SECONDS: u32 = 15;
/// The number of coefficients of a frame, in every dataset.
pub(super) const INPUTS: u32 = 13;
/// The number of classes, in every dataset.
pub(super) const CLASSES: u32 = 40;
/// The number of the model's units.
const HIDDEN: u32 = 8;
/// Rounds beyond one for every measured second, because rounds continue during the setup.
const BEFORE: u32 = 900;
/// The parameters of each private participant, with which a thousand rounds cost little.
const SAMPLING_RATE: f64 = 0.05;
const NOISE_MULTIPLIER: f64 = 16.0;
/// The lifetime limits of each private dataset: those of a new site's own policy.
const EPSILON: f64 = 8.0;
const DELTA: f64 = 1e-6;

/// Returns the number of parameters in a vector.
pub(super) const fn parameters() -> usize {
    let (inputs, hidden, classes) = (INPUTS as usize, HIDDEN as usize, CLASSES as usize);
    4 * hidden * (inputs + hidden + 1) + classes * (hidden + 1)
}

/// Returns whether the worker with this number leads one of so many jobs.
pub(super) fn leads(number: usize, jobs: usize) -> bool {
    number < jobs * PARTIES && number.is_multiple_of(PARTIES)
}

/// The participants of one job.
pub(super) struct JobTeam(Vec<Arc<SimulatedWorker>>);

impl JobTeam {
    /// Returns the teams of the first workers, one for each job.
    pub(super) fn split_workers(workers: &[Arc<SimulatedWorker>], jobs: usize) -> Vec<Self> {
        workers.chunks_exact(PARTIES).take(jobs).map(|team| Self(team.to_vec())).collect()
    }
}

/// Sets budgets, proposes a job to a team, and has their stewards approve it; it is queued when this returns.
///
/// # Errors
/// When the server rejects a valid call.
pub(super) async fn launch(stage: &TestConsortium, number: usize, team: &JobTeam, seconds: u32) -> TestResult<JobId> {
    let [lead, others @ ..] = &*team.0 else { return Err("a job has participants".into()) };
    let budget = NewBudget {
        unit: PrivacyUnit::Record,
        epsilon: Epsilon::new(EPSILON)?,
        delta: Delta::new(DELTA)?,
        filter: None,
    };
    let rounds = ArmRounds {
        rounds: seconds.saturating_add(BEFORE),
        learning_rate: 1e-3,
        evaluate_every: 1,
        deadline_seconds: DEADLINE_SECONDS,
        quorum: QUORUM,
    };
    let first = dataset(stage, lead.dataset()).await?;
    let mut plan = JobPlan::new(&format!("Load {number}"), PrivacyUnit::Record, HIDDEN, &first, 1)?;
    for other in others {
        other.steward().set_budget(other.dataset(), &budget).await?;
        plan = plan.party(other.dataset(), SAMPLING_RATE, NOISE_MULTIPLIER, 1.0)?;
    }
    let plan = plan.test("held out", first.id).private(rounds);
    let job = stage.operator.propose(stage.consortium, &plan.job()).await?.summary.id;
    for other in others {
        other.steward().approve(job, other.dataset()).await?;
    }
    Ok(job)
}

/// Returns the dataset with this id, from all pages of the list.
async fn dataset(stage: &TestConsortium, id: DatasetId) -> TestResult<Dataset> {
    let mut cursor = String::new();
    loop {
        let path = format!("/consortia/{}/datasets?limit=200{cursor}", stage.consortium);
        let page: Page<Dataset> = stage.operator.get(&path).await?;
        if let Some(found) = page.items.into_iter().find(|dataset| dataset.id == id) {
            return Ok(found);
        }
        cursor = format!("&cursor={}", page.next.ok_or("a registered dataset is listed")?);
    }
}

/// Waits until every job has closed a round.
///
/// # Errors
/// When a job does not.
pub(super) async fn have_begun(stage: &TestConsortium, jobs: &[JobId]) -> TestResult<()> {
    for job in jobs {
        stage.wait_until(*job, PATIENCE, |job| job.summary.rounds_done > 0).await?;
    }
    Ok(())
}

/// Returns the number of rounds that all jobs together have closed.
///
/// # Errors
/// When the server does not answer.
pub(super) async fn rounds_done(stage: &TestConsortium, jobs: &[JobId]) -> TestResult<u32> {
    let mut rounds = 0;
    for job in jobs {
        rounds += stage.operator.job(*job).await?.summary.rounds_done;
    }
    Ok(rounds)
}

/// The outcomes of rounds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RoundOutcomes {
    /// The number of closed rounds.
    pub(super) rounds: u32,
    /// The number of participants missing at the close of a round.
    pub(super) missed: u32,
}

/// Returns the outcomes in the logs of all jobs, from their beginning.
///
/// # Errors
/// When the server does not answer.
pub(super) async fn deadlines(stage: &TestConsortium, jobs: &[JobId]) -> TestResult<RoundOutcomes> {
    let mut outcomes = RoundOutcomes::default();
    for job in jobs {
        let mut cursor = String::new();
        loop {
            let page: Page<LogLine> = stage.operator.get(&format!("/jobs/{job}/log?limit=200{cursor}")).await?;
            for line in &page.items {
                if let LogEvent::Closed { contributors, of, .. } = line.event {
                    outcomes.rounds += 1;
                    outcomes.missed += of.saturating_sub(contributors);
                }
            }
            let Some(next) = page.next else { break };
            cursor = format!("&cursor={next}");
        }
    }
    Ok(outcomes)
}
