//! Selects the best of a secret number of runs, the only output of a private selection (Papernot and Steinke 2022;
//! `privacy.md`, 9).
//!
//! A [`PrivateSelection`] begins with the [`SelectionPermit`] of a grant for the selection, before any other random
//! choice of the round. It draws K, the number of runs that count, from the granted distribution. It selects the candidate of each run,
//! accepts the update of each run with its score, and returns one update after *all* runs that the grant allows. It
//! drops the other updates: an [`Update`] leaves by a [`VectorTicket`](undertone_worker_site::clearance::VectorTicket), and the
//! only ticket is the permit's.
//!
//! # Secrecy of K
//! The number of runs made does not depend on K, so neither the time from grant to sending nor meeting the round's
//! deadline depends on it. Each run performs the same work, except for the choice of which of two finished updates is
//! kept. No run can be skipped: a contest with fewer runs returns nothing. The bound on K exists for this reason, and
//! it is the cost of it. The duration of one run depends on the sizes of its batches. The update leaves on the part's
//! release clock, which hides that duration (`daemon/release_clock.rs`).
//!
//! Skipping the runs beyond K would save time. But a party that answers after K runs reveals K. A party that stays
//! silent when K runs do not fit the deadline reveals that K was large and how long a run takes.
//!
//! An update of a contest cannot be sent by itself:
//!
//! ```compile_fail,E0308
//! use undertone_worker_training::release::Update;
//! use undertone_worker_site::clearance::SelectionPermit;
//! fn loser(update: Update, permit: SelectionPermit) {
//!     let _ = update.leave(permit);
//! }
//! ```

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::Rng;

use super::noise::below;
use super::randomness::Randomness;
use super::release::{Outgoing, ReleaseError, Update};
use super::runs::{NotDrawn, RunSampler, SecretRuns};
use undertone_worker_site::clearance::SelectionPermit;

/// The runs of one round.
pub struct PrivateSelection {
    permit: SelectionPermit,
    counted: SecretRuns,
    most: u16,
    made: u16,
    candidates: ChaCha20Rng,
    ties: ChaCha20Rng,
    best: Option<RankedUpdate>,
}

/// A run that may be selected.
struct RankedUpdate {
    loss: f64,
    tie: u64,
    update: Update,
}

impl PrivateSelection {
    /// Starts a selection before its first run. `randomness` is for selections: stream 0 draws K, stream 1 candidates,
    /// stream 2 ties.
    ///
    /// # Errors
    /// [`NotDrawn`] if the granted distribution cannot be drawn here. Nothing is charged.
    pub fn begin(permit: SelectionPermit, randomness: &Randomness) -> Result<Self, NotDrawn> {
        let sampler = RunSampler::new(permit.runs())?;
        Ok(Self {
            permit,
            counted: sampler.draw(randomness),
            most: sampler.most(),
            made: 0,
            candidates: randomness.stream(1),
            ties: randomness.stream(2),
            best: None,
        })
    }

    /// Returns the candidate of the next run, uniformly from `0..candidates`.
    ///
    /// # Panics
    /// If there are no candidates.
    pub fn candidate(&mut self, candidates: usize) -> usize {
        assert!(candidates > 0 && u32::try_from(candidates).is_ok(), "something to choose among");
        below(candidates as u32, &mut self.candidates) as usize
    }

    /// Submits a finished run with its score on public data; the lowest score wins, and a random number decides between
    /// equal scores. A NaN score counts as the worst.
    pub fn submit(&mut self, update: Update, loss: f64) {
        let entry =
            RankedUpdate { loss: if loss.is_nan() { f64::INFINITY } else { loss }, tie: self.ties.next_u64(), update };
        let counts = self.counted.include(self.made);
        let wins = self.best.as_ref().is_none_or(|best| (entry.loss, entry.tie) < (best.loss, best.tie));
        if counts && wins {
            self.best = Some(entry);
        }
        self.made = self.made.saturating_add(1);
    }

    /// Returns the best of the runs that count, after all runs.
    ///
    /// # Errors
    /// [`ReleaseError::RunsLeft`] if runs are missing, [`ReleaseError::NotOfThisGrant`] if the best run was made under
    /// another grant or is incomplete. Nothing is charged.
    pub fn finish(self) -> Result<Outgoing, ReleaseError> {
        let Self { permit, most, made, best, .. } = self;
        match best {
            Some(best) if made >= most => best.update.leave(permit.into_ticket()),
            _ => Err(ReleaseError::RunsLeft { made, most }),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "constants of a test are in range")]

    use std::num::{NonZeroU16, NonZeroU32};

    use undertone_api::job::dp_sgd::Optimizer as Rule;
    use undertone_privacy::selection::Runs;
    use undertone_privacy::unit::{RunShape, StoppingRate};
    use undertone_privacy::{Event, NoiseMultiplier, SamplingRate};

    use super::PrivateSelection;
    use crate::clip::ClippedSum;
    use crate::clip::grid::Clip;
    use crate::randomness::{Purpose, Randomness};
    use crate::release::{ReleaseError, Update};
    use crate::sampler::Sampler;
    use undertone_worker_site::clearance::{Clearance, ReleaseGrant, SelectionPermit, StepPermits};

    const STEPS: u32 = 2;
    const MOST: u16 = 6;

    fn granted(stopping: f64) -> (Vec<StepPermits>, SelectionPermit) {
        let of = Event::PoissonSampledGaussian {
            sampling_rate: SamplingRate::new(0.5).unwrap(),
            noise_multiplier: NoiseMultiplier::new(1.0).unwrap(),
        };
        let runs = Runs::CappedNegativeBinomial {
            shape: RunShape::new(1.0).unwrap(),
            stopping: StoppingRate::new(stopping).unwrap(),
            most: NonZeroU16::new(MOST).unwrap(),
        };
        let event = Event::Selected { of: Box::new(of.times(STEPS.into())), runs };
        Clearance::Granted(ReleaseGrant::in_test(event)).split_runs(NonZeroU32::new(STEPS).unwrap()).unwrap()
    }

    /// Returns an update that consists of the noise of `seed`.
    fn run(permits: &mut StepPermits, seed: u8) -> Update {
        let mut update = Update::begin(Rule::Sgd { learning_rate: 1.0, momentum: 0.0 }, 1.0, 3);
        while let Some(permit) = permits.take() {
            let batch = Sampler::new(0, SamplingRate::new(0.5).unwrap()).draw_fresh();
            let clip = Clip::new(1.0, NoiseMultiplier::new(1.0).unwrap()).unwrap();
            let noise = Randomness::in_test(Purpose::Noise, seed);
            update.take(ClippedSum::begin(&batch, clip, 3).step(1.0, permit, &noise).unwrap()).unwrap();
        }
        update
    }

    /// Returns the number of the run that is selected among runs with scores `losses`.
    fn winner(losses: [f64; MOST as usize], stopping: f64, seed: u8) -> usize {
        let (mut permits, permit) = granted(stopping);
        let mut contest = PrivateSelection::begin(permit, &Randomness::in_test(Purpose::Selection, seed)).unwrap();
        let mut all = Vec::new();
        for (number, loss) in losses.into_iter().enumerate() {
            let update = run(&mut permits[number], number as u8);
            all.push(update.moved().to_vec());
            contest.submit(update, loss);
        }
        let outgoing = contest.finish().unwrap();
        assert!(outgoing.grant().is_some());
        all.iter().position(|moved| moved == outgoing.vector()).unwrap()
    }

    #[test]
    fn finish_returns_the_best_run_that_counts() {
        // So seldom stopped that most numbers of runs are the bound: then the best of all wins.
        let falling = [6.0, 5.0, 4.0, 3.0, 2.0, 1.0];
        let wins: Vec<usize> = (0..60).map(|seed| winner(falling, 0.3, seed)).collect();
        for k in 1..=usize::from(MOST) {
            assert!(wins.contains(&(k - 1)), "with {k} runs the last of them wins: {wins:?}");
        }
        // Always stopped at once: the first run, however good the others are.
        assert!((0..20).all(|seed| winner(falling, 1.0 - 1e-12, seed) == 0));
    }

    #[test]
    fn nan_score_loses_to_any_other() {
        let losses = [f64::NAN, 9.0, f64::INFINITY, 10.0, 11.0, 12.0];
        let wins: Vec<usize> = (0..40).map(|seed| winner(losses, 0.01, seed)).collect();
        assert!(wins.contains(&1) && wins.iter().all(|winner| *winner <= 1), "{wins:?}");
    }

    #[test]
    fn equal_scores_win_about_equally_often() {
        let mut wins = [0; MOST as usize];
        for seed in 0..=255 {
            wins[winner([1.0; MOST as usize], 0.01, seed)] += 1;
        }
        // K is nearly uniform on 1..=6 then, so that the first is the favourite; every candidate can win.
        assert!(wins.iter().all(|count| *count > 0) && wins[0] > wins[5], "{wins:?}");
    }

    #[test]
    fn candidates_are_uniform() {
        let mut contest = PrivateSelection::begin(granted(0.1).1, &Randomness::in_test(Purpose::Selection, 1)).unwrap();
        let mut counts = [0; 3];
        for _ in 0..3000 {
            counts[contest.candidate(3)] += 1;
        }
        assert!(counts.iter().all(|count| (900..1100).contains(count)), "{counts:?}");
    }

    #[test]
    fn finish_before_all_runs_is_refused() {
        for stopping in [0.01, 0.999_999] {
            let (mut permits, permit) = granted(stopping);
            let mut contest = PrivateSelection::begin(permit, &Randomness::in_test(Purpose::Selection, 1)).unwrap();
            for number in 0..MOST - 1 {
                contest.submit(run(&mut permits[usize::from(number)], 1), 1.0);
            }
            let error = contest.finish().unwrap_err();
            assert_eq!(error, ReleaseError::RunsLeft { made: MOST - 1, most: MOST });
        }
    }

    #[test]
    fn run_of_another_grant_is_refused() {
        let ((_, permit), (mut others, _)) = (granted(0.1), granted(0.1));
        let mut contest = PrivateSelection::begin(permit, &Randomness::in_test(Purpose::Selection, 1)).unwrap();
        for permits in &mut others {
            contest.submit(run(permits, 1), 1.0);
        }
        assert!(matches!(contest.finish(), Err(ReleaseError::NotOfThisGrant { .. })));
    }
}
