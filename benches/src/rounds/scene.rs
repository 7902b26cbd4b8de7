//! A consortium whose sites all take part in one job: a lead with public data, and others with open data, whose exact
//! vectors are recorded in their ledgers.

use std::thread;
use std::time::Instant;

use support::stage::{ArmRounds, JobPlan, TestConsortium, TestDatabase, TestResult};
use tokio::runtime::Runtime;
use undertone_api::dataset::Visibility;
use undertone_privacy::PrivacyUnit;

use super::participant::{OpenSite, RoundParticipant, RoundResult, StepTimes};
use super::{HIDDEN, NUMBERS};

/// The time that a round waits for all participants: longer than any round lasts.
const DEADLINE_SECONDS: u32 = 3600;

/// The server, the sites, and their vector.
pub(super) struct RoundScene {
    participants: Vec<RoundParticipant>,
    vector: Vec<f32>,
    // Dropped after the participants, which use its folders and server.
    _stage: TestConsortium,
    runtime: Runtime,
}

/// The measurement of a round.
pub(super) struct RoundMeasurement {
    /// From the beginning until all participants have the mean.
    pub(super) seconds: f64,
    /// The mean of all participants' steps.
    pub(super) steps: StepTimes,
    /// The bytes that one of them sent, without receipts.
    pub(super) sent_bytes: usize,
}

impl RoundScene {
    /// Sets up so many participants on a job of so many rounds and one more, which stays open, because otherwise the
    /// job would end.
    ///
    /// # Errors
    /// Any step that does not work as documented.
    pub(super) fn set(participants: usize, rounds: usize) -> TestResult<Self> {
        let runtime = Runtime::new()?;
        let names: Vec<String> = (1..=participants).map(|number| format!("Site {number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (stage, participants) = runtime.block_on(async {
            let stage = TestConsortium::set(TestDatabase::Sqlite, &names).await?;
            let participants = Box::pin(start_participants(&stage, u32::try_from(rounds)? + 1)).await?;
            TestResult::Ok((stage, participants))
        })?;
        Ok(Self { participants, vector: noise(NUMBERS), _stage: stage, runtime })
    }

    /// Runs one round.
    ///
    /// # Errors
    /// When a participant fails, or the mean differs from the sent vectors' mean.
    pub(super) fn round(&mut self, number: u32) -> TestResult<RoundMeasurement> {
        self.runtime.block_on(async {
            for participant in &self.participants {
                participant.renew().await?;
            }
            TestResult::Ok(())
        })?;
        let vectors = vec![self.vector.clone(); self.participants.len()];
        let handle = self.runtime.handle();
        let began = Instant::now();
        let results = thread::scope(|scope| {
            let runs: Vec<_> = self
                .participants
                .iter_mut()
                .zip(vectors)
                .map(|(participant, vector)| scope.spawn(move || participant.round(handle, number, vector)))
                .collect();
            let ended = runs
                .into_iter()
                .map(|run| -> TestResult<RoundResult> { run.join().map_err(|_| "a participant died")? });
            ended.collect::<TestResult<Vec<_>>>()
        })?;
        let seconds = began.elapsed().as_secs_f64();
        for one in &results {
            self.check(one, results.len())?;
        }
        let mean =
            |of: fn(&StepTimes) -> f64| results.iter().map(|one| of(&one.steps)).sum::<f64>() / results.len() as f64;
        let steps = StepTimes {
            ask: mean(|steps| steps.ask),
            clear: mean(|steps| steps.clear),
            pay: mean(|steps| steps.pay),
            countersign: mean(|steps| steps.countersign),
            send: mean(|steps| steps.send),
            note: mean(|steps| steps.note),
            fetch: mean(|steps| steps.fetch),
        };
        let sent_bytes = results.first().map_or(0, |one| one.sent_bytes);
        Ok(RoundMeasurement { seconds, steps, sent_bytes })
    }

    /// Checks the mean: all have sent the same vector, so the mean equals it.
    fn check(&self, result: &RoundResult, participants: usize) -> TestResult<()> {
        let (mean, contributors) = (&result.average.mean, result.average.contributors);
        let near = |(mean, sent): (&f32, &f32)| (mean - sent).abs() <= 1e-5;
        if contributors as usize != participants || mean.len() != NUMBERS || !mean.iter().zip(&self.vector).all(near) {
            return Err(format!("the mean of {contributors} is not that of what {participants} sent").into());
        }
        Ok(())
    }
}

/// Opens every site, proposes the job, approves it, and takes it up everywhere.
async fn start_participants(stage: &TestConsortium, rounds: u32) -> TestResult<Vec<RoundParticipant>> {
    let mut opened = Vec::new();
    for (number, site) in stage.sites.iter().enumerate() {
        let (name, visibility) = match number {
            0 => ("lead".to_owned(), Visibility::Public),
            _ => (format!("open-{number}"), Visibility::Open),
        };
        opened.push(OpenSite::open(site, &name, visibility).await?);
    }
    let lead = stage.dataset("lead").await?;
    let mut plan = JobPlan::new("Rounds", PrivacyUnit::Record, u32::try_from(HIDDEN)?, &lead, 1)?.test("lead", lead.id);
    for site in opened.iter().skip(1) {
        plan = plan.public_party(site.dataset, 0.1)?;
    }
    let quorum = u32::try_from(opened.len())?;
    let rounds =
        ArmRounds { rounds, learning_rate: 1e-3, evaluate_every: 1, deadline_seconds: DEADLINE_SECONDS, quorum };
    let job = stage.operator.propose(stage.consortium, &plan.open(rounds).job()).await?.summary.id;
    for (site, opened) in stage.sites.iter().zip(&opened).skip(1) {
        site.client.approve(job, opened.dataset).await?;
    }
    let mut participants = Vec::new();
    for site in opened {
        participants.push(site.take_up(job).await?);
    }
    Ok(participants)
}

/// Returns a vector like a release: noise. Sums of twelve uniform numbers by SplitMix64.
fn noise(length: usize) -> Vec<f32> {
    let mut state = 7_u64;
    let mut uniform = move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 40) as f64 / f64::from(1 << 24) - 0.5
    };
    (0..length).map(|_| ((0..12).map(|_| uniform()).sum::<f64>() * 0.01) as f32).collect()
}
