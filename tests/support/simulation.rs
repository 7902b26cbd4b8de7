//! A consortium with failures of every kind, drawn from one seeded generator. Messages are lost, repeated and delayed.
//! Processes crash at any point and are reopened from their disks. Disks fail, fill up and are restored from older
//! copies; clocks jump; two servers share a database. All components that decide about spending are real: the server's
//! service layer on its database, the worker's modules on their files. After every step independent auditors read the
//! disks and report violations.
//!
//! A schedule is determined by its seed: the same seed gives the same steps. All schedules start from a copy of
//! [`SimulationTemplate`].

mod audit;
mod broken;
mod dice;
mod ground;
mod message;
mod network;
mod server;
mod site;
mod trace;
mod world;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

pub use broken::BrokenRule;
pub use ground::SimulationTemplate;

use world::SimulationWorld;

/// The reason why a simulation could not be run: an error of the simulation itself, not a finding.
pub type Failed = Box<dyn std::error::Error + Send + Sync>;

/// The reason why a schedule stopped.
enum StopReason {
    /// The simulation itself failed.
    Failed(Failed),
    /// An invariant is violated.
    Wrong(String),
}

impl<E: Into<Failed>> From<E> for StopReason {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// The settings of a schedule.
#[derive(Debug, Clone, Copy)]
pub struct ScheduleSettings {
    /// The number of steps before the recovery.
    pub steps: u64,
    /// The number of servers on the one database: 1 or, on PostgreSQL, 2.
    pub servers: usize,
    /// A rule that is broken on purpose.
    pub broken: Option<BrokenRule>,
    /// Whether every step is printed.
    pub aloud: bool,
}

impl Default for ScheduleSettings {
    fn default() -> Self {
        Self { steps: 100, servers: 1, broken: None, aloud: false }
    }
}

/// The result of one schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimulationRun {
    /// Its seed.
    pub seed: u64,
    /// The number of steps, including the recovery.
    pub steps: u64,
    /// The digest of the trace.
    pub trace: u64,
    /// The counts of its events.
    pub tally: EventCounts,
    /// The violation, with the trace before it.
    pub wrong: Option<String>,
}

/// Counts of events: a simulation without events would prove nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventCounts {
    /// The number of releases paid by sites.
    pub releases: u64,
    /// The number of releases that the consortium counted.
    pub counted: u64,
    /// The number of proposed jobs.
    pub jobs: u64,
    /// The number of finished jobs.
    pub finished: u64,
    /// The number of crashed processes.
    pub deaths: u64,
    /// The number of sites restored from an older copy.
    pub restores: u64,
}

impl EventCounts {
    /// Returns the sum of both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            releases: self.releases + other.releases,
            counted: self.counted + other.counted,
            jobs: self.jobs + other.jobs,
            finished: self.finished + other.finished,
            deaths: self.deaths + other.deaths,
            restores: self.restores + other.restores,
        }
    }
}

/// Makes a runtime for one thread of schedules. The server's transactions block their own thread, so the runtime has
/// another one for timers and the databases' tasks.
///
/// # Errors
/// When no thread can be started.
pub fn runtime() -> Result<tokio::runtime::Runtime, Failed> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?)
}

/// Keeps the current thread, and those that it starts, on one processor. A schedule waits for the threads of its
/// databases at each statement, and to wake them on another processor takes a quarter of its time. Where the system
/// refuses, nothing changes.
pub fn stay_on_processor(number: usize) {
    let processors = core_affinity::get_core_ids().unwrap_or_default();
    if let Some(own) = processors.get(number % processors.len().max(1)) {
        core_affinity::set_for_current(*own);
    }
}

/// Runs the schedule of a seed.
///
/// # Errors
/// When the simulation itself fails.
pub async fn play(ground: &SimulationTemplate, seed: u64, setting: &ScheduleSettings) -> Result<SimulationRun, Failed> {
    let mut world = SimulationWorld::new(ground, seed, setting).await?;
    let wrong = match world.live(setting.steps).await {
        Ok(()) => None,
        Err(StopReason::Wrong(what)) => Some(world.story(&what)),
        Err(StopReason::Failed(error)) => return Err(format!("seed {seed}: {error}\n{}", world.story("")).into()),
    };
    let played = world.played(seed, wrong);
    world.end().await?;
    Ok(played)
}

/// Runs the schedules of some seeds on so many threads, until `until` when it is given; returns them in the order of
/// their seeds. Each thread stays on one processor.
///
/// # Errors
/// When the simulation itself fails.
pub fn play_all(
    ground: &SimulationTemplate,
    seeds: Range<u64>,
    threads: usize,
    setting: &ScheduleSettings,
    until: Option<Instant>,
) -> Result<Vec<SimulationRun>, Failed> {
    let (next, all) = (AtomicU64::new(seeds.start), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        let work = |thread: usize| -> Result<(), Failed> {
            stay_on_processor(thread);
            let runtime = runtime()?;
            loop {
                let seed = next.fetch_add(1, Ordering::SeqCst);
                if seed >= seeds.end || until.is_some_and(|until| now() >= until) {
                    return Ok(());
                }
                let played = runtime.block_on(play(ground, seed, setting))?;
                all.lock().unwrap_or_else(PoisonError::into_inner).push(played);
            }
        };
        let hands: Vec<_> = (0..threads.max(1)).map(|thread| scope.spawn(move || work(thread))).collect();
        hands.into_iter().try_for_each(|hand| hand.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })?;
    let mut all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    all.sort_by_key(|played| played.seed);
    Ok(all)
}

fn now() -> Instant {
    Instant::now()
}
