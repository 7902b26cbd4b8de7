//! The noise for a target guarantee, for the real parties and for those of the rehearsal.

use std::num::NonZeroU32;

use undertone_api::job::dp_sgd::Spec;
use undertone_privacy::ledger::{Account, Budget, GridKind};
use undertone_privacy::{Adjacency, Delta, Epsilon, NoiseMultiplier, SamplingRate, calibrate};

use super::error::TuneError;

/// The target cost of one or more equal jobs for each private party.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PrivacyGoal {
    /// The target ε of all jobs together.
    pub epsilon: Epsilon,
    /// The target δ of all jobs together.
    pub delta: Delta,
    /// The number of such jobs.
    pub jobs: NonZeroU32,
}

/// Sets for every party that adds noise the least z with which an otherwise empty account of `goal` admits all releases
/// of its jobs, including those in reserve (`privacy::calibrate`).
///
/// # Errors
/// [`TuneError::Spec`] when no noise is enough.
pub(super) fn calibrate_noise(spec: &mut Spec, goal: PrivacyGoal) -> Result<(), TuneError> {
    let Some(rounds) = spec.private else { return Ok(()) };
    let refuse = |why: String| TuneError::Spec(format!("no noise gives epsilon {}: {why}", goal.epsilon.get()));
    let budget = Budget::new(goal.epsilon, goal.delta, GridKind::for_epsilon(goal.epsilon));
    let headroom = Account::new(Some(budget.map_err(|error| refuse(error.to_string()))?)).headroom();
    let releases = u64::from(rounds.rounds) + u64::from(spec.spare_releases);
    let steps = releases * u64::from(rounds.local_steps.max(1)) * u64::from(goal.jobs.get());
    for party in &mut spec.participants {
        if let Some(noise) = party.noise.as_mut() {
            noise.noise_multiplier = calibrate::noise_for(&headroom, party.sampling_rate, steps, Adjacency::ZeroOut)
                .map_err(|error| refuse(error.to_string()))?;
        }
    }
    Ok(())
}

/// Returns the rate and noise of a rehearsal's party with `held` units in place of `stated`. The expected batch q n and
/// the noise in the mean gradient, z C/(q n), stay the same. If fewer units are held than a batch expects, all of them
/// are the batch, and z shrinks by the same factor.
pub(super) fn scale_to_rehearsal(
    rate: SamplingRate,
    noise: Option<NoiseMultiplier>,
    stated: u64,
    held: u64,
) -> (SamplingRate, Option<NoiseMultiplier>) {
    let batch = rate.get() * stated as f64;
    let held = held.max(1) as f64;
    let rate = SamplingRate::new((batch / held).min(1.0)).unwrap_or(SamplingRate::ONE);
    let smaller = noise.and_then(|z| NoiseMultiplier::new(z.get() * (rate.get() * held / batch)).ok());
    (rate, smaller.or(noise))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "constants of a test are in range")]

    use std::num::NonZeroU32;

    use undertone_api::dataset::{Dataset, SizeClass, Visibility, usual_units};
    use undertone_api::job::JobKind;
    use undertone_privacy::ledger::{Account, Budget, GridKind, ReservationId};
    use undertone_privacy::{Delta, Epsilon, NoiseMultiplier, SamplingRate};

    use super::{PrivacyGoal, calibrate_noise, scale_to_rehearsal};
    use crate::fixture;

    #[test]
    fn calibrated_noise_is_the_least_that_the_goal_admits() {
        for jobs in [1, 3] {
            assert_least_noise(jobs);
        }
    }

    fn assert_least_noise(jobs: u32) {
        let mut spec = fixture::dp_sgd();
        spec.private.as_mut().unwrap().local_steps = 5;
        let jobs = NonZeroU32::new(jobs).unwrap();
        let goal = PrivacyGoal { epsilon: Epsilon::new(4.0).unwrap(), delta: Delta::new(1e-6).unwrap(), jobs };
        calibrate_noise(&mut spec, goal).unwrap();
        let ours = spec.participants.iter().position(|party| party.noise.is_some()).unwrap();
        let is_admitted = |spec: &undertone_api::job::dp_sgd::Spec| {
            let dataset = Dataset { id: spec.participants[ours].dataset, ..private_dataset() };
            let charge = spec.cost(&dataset).unwrap();
            let budget = Budget::new(goal.epsilon, goal.delta, GridKind::for_epsilon(goal.epsilon)).unwrap();
            let mut account = Account::new(Some(budget));
            let cost = account.price(&charge.event, charge.adjacency).unwrap();
            (0..jobs.get()).all(|job| account.reserve(ReservationId(job.into()), &cost, charge.releases).is_ok())
        };
        assert!(is_admitted(&spec));
        let noise = spec.participants[ours].noise.as_mut().unwrap();
        noise.noise_multiplier = NoiseMultiplier::new(noise.noise_multiplier.get() * (1.0 - 1e-6)).unwrap();
        assert!(!is_admitted(&spec));
    }

    fn private_dataset() -> Dataset {
        let local = fixture::local(Visibility::Private);
        let dataset = local.to_dataset(fixture::OURS, fixture::ORGANIZATION, fixture::WORKER);
        Dataset { records: SizeClass(1000), units: usual_units(), ..dataset }
    }

    #[test]
    fn fewer_units_keep_the_batch_and_the_noise_of_its_mean() {
        let q = SamplingRate::new(0.1).unwrap();
        let z = NoiseMultiplier::new(2.0).unwrap();
        for (stated, held) in [(1000, 1000), (1000, 400), (1000, 5000), (1000, 60)] {
            let (rate, noise) = scale_to_rehearsal(q, Some(z), stated, held);
            let batch = rate.get() * held as f64;
            let real_batch = 0.1 * stated as f64;
            assert!((batch - real_batch.min(held as f64)).abs() < 1e-3, "{held}");
            assert!((noise.unwrap().get() / batch / (2.0 / real_batch) - 1.0).abs() < 1e-6, "{held}");
        }
    }
}
