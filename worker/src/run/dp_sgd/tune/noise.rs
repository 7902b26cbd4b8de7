//! The noise for a target guarantee, for the real parties and for those of the rehearsal.

use undertone_api::job::dp_sgd::Spec;
use undertone_privacy::ledger::{Account, Budget, GridKind};
use undertone_privacy::{Adjacency, Delta, Epsilon, NoiseMultiplier, SamplingRate, calibrate};

use super::TuneError;

/// The target cost of the job for each private party.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Goal {
    /// The target ε.
    pub epsilon: Epsilon,
    /// The target δ.
    pub delta: Delta,
}

/// Sets for every party that adds noise the least z with which an otherwise empty account of `goal` admits all its
/// releases, including those in reserve (`privacy::calibrate`).
///
/// # Errors
/// [`TuneError::Spec`] when no noise is enough.
pub(super) fn calibrated(spec: &mut Spec, goal: Goal) -> Result<(), TuneError> {
    let Some(rounds) = spec.private else { return Ok(()) };
    let refuse = |why: String| TuneError::Spec(format!("no noise gives epsilon {}: {why}", goal.epsilon.get()));
    let budget = Budget::new(goal.epsilon, goal.delta, GridKind::for_epsilon(goal.epsilon));
    let room = Account::new(Some(budget.map_err(|error| refuse(error.to_string()))?)).headroom();
    let releases = u64::from(rounds.rounds) + u64::from(spec.spare_releases);
    let steps = releases * u64::from(rounds.local_steps.max(1));
    for party in &mut spec.participants {
        if let Some(noise) = party.noise.as_mut() {
            noise.noise_multiplier = calibrate::noise_for(&room, party.sampling_rate, steps, Adjacency::ZeroOut)
                .map_err(|error| refuse(error.to_string()))?;
        }
    }
    Ok(())
}

/// Returns the rate and noise of a rehearsal's party with `held` units in place of `stated`. The expected batch q n and
/// the noise in the mean gradient, z C/(q n), stay the same. If fewer units are held than a batch expects, all of them
/// are the batch, and z shrinks by the same factor.
pub(super) fn rehearsed(
    rate: SamplingRate,
    noise: Option<NoiseMultiplier>,
    stated: u64,
    held: u64,
) -> (SamplingRate, Option<NoiseMultiplier>) {
    let batch = rate.get() * stated as f64;
    let held = held.max(1) as f64;
    let rate = SamplingRate::new((batch / held).min(1.0)).unwrap_or(SamplingRate::ONE);
    let shrunk = noise.and_then(|z| NoiseMultiplier::new(z.get() * (rate.get() * held / batch)).ok());
    (rate, shrunk.or(noise))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "constants of a test are in range")]

    use undertone_api::dataset::{Dataset, SizeClass, Visibility, usual_units};
    use undertone_api::job::JobKind;
    use undertone_privacy::ledger::{Account, Budget, GridKind, ReservationId};
    use undertone_privacy::{Delta, Epsilon, NoiseMultiplier, SamplingRate};

    use super::{Goal, calibrated, rehearsed};
    use crate::fixture;

    #[test]
    fn the_noise_is_admitted_by_an_account_of_the_goal_and_a_little_less_is_not() {
        let mut spec = fixture::dp_sgd();
        spec.private.as_mut().unwrap().local_steps = 5;
        let goal = Goal { epsilon: Epsilon::new(4.0).unwrap(), delta: Delta::new(1e-6).unwrap() };
        calibrated(&mut spec, goal).unwrap();
        let ours = spec.participants.iter().position(|party| party.noise.is_some()).unwrap();
        let admitted = |spec: &undertone_api::job::dp_sgd::Spec| {
            let dataset = Dataset { id: spec.participants[ours].dataset, ..private() };
            let charge = spec.cost(&dataset).unwrap();
            let budget = Budget::new(goal.epsilon, goal.delta, GridKind::for_epsilon(goal.epsilon)).unwrap();
            let mut account = Account::new(Some(budget));
            let cost = account.price(&charge.event, charge.adjacency).unwrap();
            account.reserve(ReservationId(1), &cost, charge.releases).is_ok()
        };
        assert!(admitted(&spec));
        let noise = spec.participants[ours].noise.as_mut().unwrap();
        noise.noise_multiplier = NoiseMultiplier::new(noise.noise_multiplier.get() * (1.0 - 1e-6)).unwrap();
        assert!(!admitted(&spec));
    }

    fn private() -> Dataset {
        let local = fixture::local(Visibility::Private);
        let told = local.to_dataset(fixture::OURS, fixture::ORGANIZATION, fixture::WORKER);
        Dataset { records: SizeClass(1000), units: usual_units(), ..told }
    }

    #[test]
    fn fewer_units_keep_the_batch_and_the_noise_of_its_mean() {
        let (q, z) = (SamplingRate::new(0.1).unwrap(), NoiseMultiplier::new(2.0).unwrap());
        for (stated, held) in [(1000, 1000), (1000, 400), (1000, 5000), (1000, 60)] {
            let (rate, noise) = rehearsed(q, Some(z), stated, held);
            let (batch, wanted) = (rate.get() * held as f64, 0.1 * stated as f64);
            assert!((batch - wanted.min(held as f64)).abs() < 1e-3, "{held}");
            assert!((noise.unwrap().get() / batch / (2.0 / wanted) - 1.0).abs() < 1e-6, "{held}");
        }
    }
}
