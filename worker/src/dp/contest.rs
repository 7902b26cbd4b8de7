//! The best of a secret number of runs: all that leaves of a private selection (Papernot and Steinke 2022; `privacy.md`, 9).
//!
//! A [`Contest`] begins with the [`Prize`] of a grant for the selection, before anything else of the round is drawn. It draws
//! K, the number of runs that count, from the distribution that was granted; says which candidate each run has; takes each run's
//! update with its score; and gives one of them away, when *all* runs that the grant allows have been made. The others are
//! dropped where they lie: an [`Update`] leaves by a [`Ticket`](crate::site::clearance::Ticket), and there is none but the prize's.
//!
//! # What does not show
//! K. The same number of runs is made whatever it is, so the time from grant to sending, and whether the round's deadline is
//! met, are independent of it; run by run the same is done but for which of two finished updates is kept. No run can be left out:
//! a contest that has not had all of them gives nothing away. That is what the bound on K is for, and
//! its price. How long one run takes depends on how large its batches were; the update leaves on the part's release clock, which
//! hides that (`daemon/release_clock.rs`).
//!
//! A run left out when K did not reach it would have saved the time. But a party that answers after K runs tells K, and one that
//! stays silent when K runs do not fit the deadline tells that K was large and how long a run takes.
//!
//! An update of a contest cannot be sent by itself:
//!
//! ```compile_fail,E0308
//! use undertone_worker::dp::release::Update;
//! use undertone_worker::site::clearance::Prize;
//! fn loser(update: Update, prize: Prize) {
//!     let _ = update.leave(prize);
//! }
//! ```

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::Rng;

use super::noise::below;
use super::randomness::Randomness;
use super::release::{Outgoing, ReleaseError, Update};
use super::runs::{NotDrawn, RunSampler, SecretRuns};
use crate::site::clearance::Prize;

/// The runs of one round.
pub struct Contest {
    prize: Prize,
    counted: SecretRuns,
    most: u16,
    made: u16,
    candidates: ChaCha20Rng,
    ties: ChaCha20Rng,
    best: Option<Standing>,
}

/// A run that may win.
struct Standing {
    loss: f64,
    tie: u64,
    update: Update,
}

impl Contest {
    /// Before the first run. `randomness` is for selections: one stream of it for K, one for candidates, one for ties.
    ///
    /// # Errors
    /// [`NotDrawn`] when what was granted is a distribution that is not drawn here. Nothing was charged.
    pub fn begin(prize: Prize, randomness: &Randomness) -> Result<Self, NotDrawn> {
        let sampler = RunSampler::new(prize.runs())?;
        Ok(Self {
            prize,
            counted: sampler.draw(randomness),
            most: sampler.most(),
            made: 0,
            candidates: randomness.stream(1),
            ties: randomness.stream(2),
            best: None,
        })
    }

    /// The candidate of the next run, of so many, each as likely.
    ///
    /// # Panics
    /// If there are none.
    pub fn candidate(&mut self, candidates: usize) -> usize {
        assert!(candidates > 0 && u32::try_from(candidates).is_ok(), "something to choose among");
        below(candidates as u32, &mut self.candidates) as usize
    }

    /// Takes a finished run with its score on public data, the less the better; a coin decides between equals. A score that is
    /// no number is the worst.
    pub fn enter(&mut self, update: Update, loss: f64) {
        let entry =
            Standing { loss: if loss.is_nan() { f64::INFINITY } else { loss }, tie: self.ties.next_u64(), update };
        let counts = self.counted.include(self.made);
        let wins = self.best.as_ref().is_none_or(|best| (entry.loss, entry.tie) < (best.loss, best.tie));
        if counts && wins {
            self.best = Some(entry);
        }
        self.made = self.made.saturating_add(1);
    }

    /// The best of the runs that count, when all runs have been made.
    ///
    /// # Errors
    /// [`ReleaseError::RunsLeft`] when some have not, [`ReleaseError::NotOfThisGrant`] when the best was not made under the
    /// prize's grant or is not whole. Nothing was charged.
    pub fn leave(self) -> Result<Outgoing, ReleaseError> {
        let Self { prize, most, made, best, .. } = self;
        match best {
            Some(best) if made >= most => best.update.leave(prize.into_ticket()),
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

    use super::Contest;
    use crate::dp::clip::{Clip, ClippedSum};
    use crate::dp::randomness::{Purpose, Randomness};
    use crate::dp::release::{ReleaseError, Update};
    use crate::dp::sampler::Sampler;
    use crate::site::clearance::{Clearance, Permits, Prize, ReleaseGrant};

    const STEPS: u32 = 2;
    const MOST: u16 = 6;

    fn granted(stopping: f64) -> (Vec<Permits>, Prize) {
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

    /// A run whose update is the noise of `seed`.
    fn run(permits: &mut Permits, seed: u8) -> Update {
        let mut update = Update::begin(Rule::Sgd { learning_rate: 1.0, momentum: 0.0 }, 1.0, 3);
        while let Some(permit) = permits.take() {
            let batch = Sampler::new(0, SamplingRate::new(0.5).unwrap()).draw_fresh();
            let clip = Clip::new(1.0, NoiseMultiplier::new(1.0).unwrap()).unwrap();
            let noise = Randomness::in_test(Purpose::Noise, seed);
            update.take(ClippedSum::begin(&batch, clip, 3).step(1.0, permit, &noise).unwrap()).unwrap();
        }
        update
    }

    /// The number of the run that leaves, of runs with such scores.
    fn winner(losses: [f64; MOST as usize], stopping: f64, seed: u8) -> usize {
        let (mut permits, prize) = granted(stopping);
        let mut contest = Contest::begin(prize, &Randomness::in_test(Purpose::Selection, seed)).unwrap();
        let mut all = Vec::new();
        for (number, loss) in losses.into_iter().enumerate() {
            let update = run(&mut permits[number], number as u8);
            all.push(update.moved().to_vec());
            contest.enter(update, loss);
        }
        let sent = contest.leave().unwrap();
        assert!(sent.grant().is_some());
        all.iter().position(|moved| moved == sent.vector()).unwrap()
    }

    #[test]
    fn the_best_of_the_runs_that_count_leaves_and_no_other() {
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
    fn a_score_that_is_no_number_loses_to_any_other() {
        let losses = [f64::NAN, 9.0, f64::INFINITY, 10.0, 11.0, 12.0];
        let wins: Vec<usize> = (0..40).map(|seed| winner(losses, 0.01, seed)).collect();
        assert!(wins.contains(&1) && wins.iter().all(|winner| *winner <= 1), "{wins:?}");
    }

    #[test]
    fn between_equals_each_wins_about_as_often() {
        let mut wins = [0; MOST as usize];
        for seed in 0..=255 {
            wins[winner([1.0; MOST as usize], 0.01, seed)] += 1;
        }
        // K is nearly uniform on 1..=6 then, so that the first is the favourite; nobody is left out.
        assert!(wins.iter().all(|count| *count > 0) && wins[0] > wins[5], "{wins:?}");
    }

    #[test]
    fn a_candidate_is_any_of_them() {
        let mut contest = Contest::begin(granted(0.1).1, &Randomness::in_test(Purpose::Selection, 1)).unwrap();
        let mut drawn = [0; 3];
        for _ in 0..3000 {
            drawn[contest.candidate(3)] += 1;
        }
        assert!(drawn.iter().all(|count| (900..1100).contains(count)), "{drawn:?}");
    }

    #[test]
    fn nothing_leaves_before_all_runs_were_made_whatever_their_number() {
        for stopping in [0.01, 0.999_999] {
            let (mut permits, prize) = granted(stopping);
            let mut contest = Contest::begin(prize, &Randomness::in_test(Purpose::Selection, 1)).unwrap();
            for number in 0..MOST - 1 {
                contest.enter(run(&mut permits[usize::from(number)], 1), 1.0);
            }
            let error = contest.leave().unwrap_err();
            assert_eq!(error, ReleaseError::RunsLeft { made: MOST - 1, most: MOST });
        }
    }

    #[test]
    fn a_run_of_another_payment_does_not_leave() {
        let ((_, prize), (mut others, _)) = (granted(0.1), granted(0.1));
        let mut contest = Contest::begin(prize, &Randomness::in_test(Purpose::Selection, 1)).unwrap();
        for permits in &mut others {
            contest.enter(run(permits, 1), 1.0);
        }
        assert!(matches!(contest.leave(), Err(ReleaseError::NotOfThisGrant { .. })));
    }
}
