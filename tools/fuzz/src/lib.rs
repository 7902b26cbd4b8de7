//! Fuzzing: valid documents with random changes are passed to a parser or another entry point, until it fails or the
//! time ends.
//!
//! A target is a test in a module called `fuzz` beside the code that it tests:
//!
//! ```text
//! Target::new("worker.textgrid", 2_000).seed(include_bytes!("a.TextGrid")).run(|bytes| { let _ = parse(bytes); });
//! ```
//!
//! An ordinary run of the tests uses the stated number of inputs, the same ones each time. `make fuzz SECONDS=60`
//! (`.ci/fuzz.sh`) runs every target in a process of its own for that time, with other inputs each time. It prints one
//! JSON object for each target: inputs, seconds, the slowest input, the peak memory of the process. A target fails by a
//! panic, by an input that takes longer than [`SLOWEST`], by one that does not end within [`HANGING`], and, in its own
//! process, by taking more than [`MOST_MEMORY`].
//!
//! Inputs are drawn and shrunk by proptest, so a failure shows the least input that still fails. Drawing is not guided
//! by coverage: that requires other compiler flags for the whole workspace, and another compiler.
//!
//! This crate contains no target. To add a target: a test as above. To add a kind of change: [`mutation`].

pub mod mutation;
mod watch;

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use proptest::arbitrary::any;
use proptest::collection::vec;
use proptest::test_runner::{Config, RngSeed, TestError, TestRunner};

use mutation::{Edit, Mutation};
use watch::InputWatchdog;

/// The time limit of an input, with debug assertions and on a busy machine. A slower input fails.
pub const SLOWEST: Duration = Duration::from_secs(20);
/// The time after which an input is printed and the process ends.
pub const HANGING: Duration = Duration::from_mins(2);
/// The highest peak memory of a target's own process, MiB.
pub const MOST_MEMORY: u64 = 1536;
/// The highest number of changes to one document.
const MOST_EDITS: usize = 6;
/// The highest number of shrinking attempts after a failure.
const MOST_SHRINKING: u32 = 2_000;
/// The number of inputs between two checks of the clock.
const BATCH: u32 = 64;

/// A fuzz target with its inputs.
#[derive(Debug)]
pub struct Target {
    name: &'static str,
    inputs: u32,
    mutation: Mutation,
}

impl Target {
    /// Makes a target with its name, `crate.target`, and its number of inputs in an ordinary run.
    pub fn new(name: &'static str, inputs: u32) -> Self {
        Self { name, inputs, mutation: Mutation::default() }
    }

    /// Adds a valid document: it is used unchanged, and with changes.
    #[must_use]
    pub fn seed(mut self, document: impl Into<Vec<u8>>) -> Self {
        self.mutation.seeds.push(document.into());
        self
    }

    /// Adds several documents.
    #[must_use]
    pub fn seeds<D: Into<Vec<u8>>>(mut self, documents: impl IntoIterator<Item = D>) -> Self {
        self.mutation.seeds.extend(documents.into_iter().map(Into::into));
        self
    }

    /// Adds words of the format, which are inserted at random positions.
    #[must_use]
    pub fn words(mut self, words: &[&str]) -> Self {
        self.mutation.words.extend(words.iter().map(|word| word.as_bytes().to_vec()));
        self
    }

    /// Runs the target on all inputs.
    ///
    /// # Panics
    /// If the target fails: with the least failing input.
    pub fn run(self, door: impl Fn(&[u8])) {
        let long = TimedRun::from_env();
        let (started, watch) = (Instant::now(), InputWatchdog::start(self.name));
        let (taken, slowest) = (Cell::new(0_u64), RefCell::new((Duration::ZERO, 0_usize)));
        let knock = |input: &[u8]| {
            watch.begin(input);
            let knocked = Instant::now();
            door(input);
            let took = knocked.elapsed();
            watch.end();
            taken.set(taken.get() + 1);
            if took > slowest.borrow().0 {
                *slowest.borrow_mut() = (took, input.len());
            }
            assert!(took <= SLOWEST, "{}: an input took {took:?}", self.name);
        };
        for seed in &self.mutation.seeds {
            knock(seed);
        }
        let mut count = 0;
        let mut round = long.as_ref().map_or(1, |long| long.seed);
        loop {
            let batch = match &long {
                Some(long) if started.elapsed() >= long.time => break,
                Some(_) => BATCH,
                None => self.inputs - count,
            };
            if batch == 0 {
                break;
            }
            self.batch(round, batch, &knock);
            (count, round) = (count.saturating_add(batch), round.wrapping_add(1));
            if long.is_none() {
                break;
            }
        }
        let ((slowest, of), peak) = (*slowest.borrow(), watch::peak_memory());
        println!(
            "{{\"target\":\"{}\",\"inputs\":{},\"seconds\":{:.1},\"slowest_ms\":{:.1},\"slowest_bytes\":{of},\"peak_mib\":{peak}}}",
            self.name,
            taken.get(),
            started.elapsed().as_secs_f64(),
            slowest.as_secs_f64() * 1e3,
        );
        assert!(long.is_none() || peak <= MOST_MEMORY, "{}: took {peak} MiB, more than {MOST_MEMORY}", self.name);
    }

    /// Runs a number of inputs that are derived from a seed.
    fn batch(&self, seed: u64, inputs: u32, knock: &impl Fn(&[u8])) {
        let config = Config {
            cases: inputs,
            max_shrink_iters: MOST_SHRINKING,
            failure_persistence: None,
            rng_seed: RngSeed::Fixed(seed),
            ..Config::default()
        };
        let edit = (any::<u8>(), any::<u32>(), any::<u32>(), any::<u64>());
        let strategy = (any::<u32>(), vec(edit, 1..=MOST_EDITS));
        let outcome = TestRunner::new(config).run(&strategy, |(of, edits)| {
            knock(&self.mutation.input(of, &build_edits(edits)));
            Ok(())
        });
        match outcome {
            Ok(()) => {}
            Err(TestError::Abort(reason)) => panic!("{} (seed {seed}): nothing could be drawn: {reason}", self.name),
            Err(TestError::Fail(reason, (of, edits))) => {
                let input = self.mutation.input(of, &build_edits(edits));
                eprintln!(
                    "{} (seed {seed}): {reason}\n{} bytes: {}",
                    self.name,
                    input.len(),
                    watch::format_input(&input)
                );
                // Repeat the input without a handler, so that the panic reports its location.
                knock(&input);
                panic!("{} (seed {seed}): {reason}; not so the second time", self.name);
            }
        }
    }
}

fn build_edits(edits: Vec<(u8, u32, u32, u64)>) -> Vec<Edit> {
    edits.into_iter().map(|(kind, at, amount, value)| Edit { kind, at, amount, value }).collect()
}

/// A run limited by time instead of number.
struct TimedRun {
    time: Duration,
    seed: u64,
}

impl TimedRun {
    /// Reads `UNDERTONE_FUZZ_SECONDS` and `UNDERTONE_FUZZ_SEED` (default 1).
    fn from_env() -> Option<Self> {
        let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
        let time = Duration::from_secs(number("UNDERTONE_FUZZ_SECONDS")?);
        Some(Self { time, seed: number("UNDERTONE_FUZZ_SEED").unwrap_or(1) })
    }
}

#[cfg(test)]
mod tests;
