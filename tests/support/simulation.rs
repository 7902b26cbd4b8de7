//! A consortium in which everything goes wrong, by the throw of one seeded die: messages are lost, repeated and late,
//! processes die at any point and are opened again from their disks, disks fail and fill and are restored from older copies,
//! clocks jump, two servers share a
//! database. All parts that decide about money are the real ones: the server's service layer on its database, the worker's
//! rooms on their files. After every step auditors with eyes of their own read the disks and say what must never be.
//!
//! A schedule is its seed: the same seed is the same story, step by step. [`Ground`] is what all start from.

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

pub use broken::Broken;
pub use ground::Ground;

use world::World;

/// Why a simulation could not be carried out: no finding, but a fault of its own.
pub type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Why a schedule stopped.
enum Stop {
    /// The simulation itself is at fault.
    Failed(Failed),
    /// Something is as it must never be.
    Wrong(String),
}

impl<E: Into<Failed>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// How schedules are played.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// Steps of disorder in a schedule.
    pub steps: u64,
    /// Servers on the one database: 1 or, on PostgreSQL, 2.
    pub servers: usize,
    /// A rule that is broken on purpose.
    pub broken: Option<Broken>,
    /// Whether every step is printed.
    pub aloud: bool,
}

impl Default for Setting {
    fn default() -> Self {
        Self { steps: 100, servers: 1, broken: None, aloud: false }
    }
}

/// One schedule, played.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Played {
    /// Its seed.
    pub seed: u64,
    /// Steps taken, those of the recovery included.
    pub steps: u64,
    /// Digest of what happened.
    pub trace: u64,
    /// What it met.
    pub tally: Tally,
    /// What must never be and was, with the story up to there.
    pub wrong: Option<String>,
}

/// How much of everything happened: a simulation in which nothing does shows nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Releases paid by sites.
    pub releases: u64,
    /// Releases that the consortium counted.
    pub counted: u64,
    /// Jobs proposed.
    pub jobs: u64,
    /// Jobs that ran to their end.
    pub finished: u64,
    /// Processes that died.
    pub deaths: u64,
    /// Sites that were restored from an older copy.
    pub restores: u64,
}

impl Tally {
    /// Both together.
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

/// A runtime for one thread of schedules: the server's transactions block the thread they stand on, so it has another one
/// for timers and the databases' tasks.
///
/// # Errors
/// When no thread can be started.
pub fn runtime() -> Result<tokio::runtime::Runtime, Failed> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?)
}

/// Plays the schedule of a seed.
///
/// # Errors
/// When the simulation itself fails.
pub async fn play(ground: &Ground, seed: u64, setting: &Setting) -> Result<Played, Failed> {
    let mut world = World::new(ground, seed, setting).await?;
    let wrong = match world.live(setting.steps).await {
        Ok(()) => None,
        Err(Stop::Wrong(what)) => Some(world.story(&what)),
        Err(Stop::Failed(error)) => return Err(format!("seed {seed}: {error}\n{}", world.story("")).into()),
    };
    let played = world.played(seed, wrong);
    world.end().await?;
    Ok(played)
}

/// Plays the schedules of some seeds on so many threads, until a time when one is given; in the order of their seeds.
///
/// # Errors
/// When the simulation itself fails.
pub fn play_all(
    ground: &Ground,
    seeds: Range<u64>,
    threads: usize,
    setting: &Setting,
    until: Option<Instant>,
) -> Result<Vec<Played>, Failed> {
    let (next, all) = (AtomicU64::new(seeds.start), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        let work = || -> Result<(), Failed> {
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
        let hands: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
        hands.into_iter().try_for_each(|hand| hand.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })?;
    let mut all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    all.sort_by_key(|played| played.seed);
    Ok(all)
}

fn now() -> Instant {
    Instant::now()
}
