//! Guarantees at another level than the protected one: for all recordings of one speaker, where records are protected;
//! for one record, where speakers are.
//!
//! For reports. [`crate::transfer`] determines the charges of other units for a release.

use crate::adjacency::Adjacency;
use crate::event::Event;
use crate::pld::{Pair, Plan, PldError};
use crate::unit::{Delta, Epsilon};

/// Largest group for which the mixture of 3.8 is computed exactly; beyond, its largest shift stands for all.
const EXACT: u64 = 512;

/// Losses beyond this need no accountant: e to this many nats hides nothing, and no grid holds it.
const HOPELESS: f64 = 2_000.0;

/// Why there is no figure.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LevelError {
    /// The losses are so large that a figure would be meaningless.
    #[error("the losses add up to more than {HOPELESS} nats")]
    Hopeless,
    /// No bound for a group is known for this mechanism.
    #[error("nothing is known of a group under {0}")]
    NoFormula(&'static str),
    /// The losses fit into no grid.
    #[error(transparent)]
    Pld(#[from] PldError),
}

/// Returns ε at δ of `releases` of `event` for `size` units that all belong to one person, each of them sampled
/// independently; rounded up, `None` when there is no finite one. In one Gaussian release a group of g moves the sum by
/// at most g times the sensitivity (4.7); under sampling, by as many units as were drawn (Ganesh 2024; 3.8).
///
/// # Errors
/// [`LevelError`] when there is no figure.
pub fn of_group(event: &Event, releases: u64, size: u64, delta: Delta) -> Result<Option<Epsilon>, LevelError> {
    if size == 0 {
        return Ok(Epsilon::new(0.0).ok());
    }
    let mut plan = Plan::new();
    let mut least = 0.0;
    add_group(&mut plan, &mut least, event, event.count_charges(releases), size)?;
    if least > HOPELESS {
        return Err(LevelError::Hopeless);
    }
    Ok(plan.epsilon(delta)?)
}

/// Adds a group's loss to the plan, and a lower bound on the mean loss to `least`.
fn add_group(plan: &mut Plan, least: &mut f64, event: &Event, count: u64, size: u64) -> Result<(), LevelError> {
    if count == 0 {
        return Ok(());
    }
    let g = size as f64;
    match event {
        Event::Gaussian { noise_multiplier } => {
            let z = noise_multiplier.get() / g;
            *least += count as f64 / (2.0 * z * z);
            plan.add_gaussian(z, count);
        }
        Event::PoissonSampledGaussian { sampling_rate, noise_multiplier } => {
            let q = sampling_rate.get();
            let z = noise_multiplier.get();
            if q >= 1.0 {
                return add_group(plan, least, &Event::Gaussian { noise_multiplier: *noise_multiplier }, count, size);
            }
            // The mean loss is at least that of the mean shift (Donsker and Varadhan).
            *least += count as f64 * (q * g) * (q * g) / (2.0 * z * z);
            let pair = match u32::try_from(size) {
                Ok(size) if u64::from(size) <= EXACT => Pair::sampled_gaussian_group(q, z, size),
                // An observer who sees the whole group whenever one of its units was drawn sees more: the smaller
                // shifts follow from the largest by scaling and adding noise, and mixtures by joint convexity.
                _ => Pair::sampled_gaussian(-libm::expm1(g * libm::log1p(-q)), z / g),
            };
            plan.add_pair(pair, count);
        }
        Event::Pure { epsilon } | Event::Laplace { epsilon } => {
            plan.add_pair(Pair::approximate(epsilon.get() * g, 0.0), count);
        }
        Event::NonPrivate => plan.add(event, Adjacency::AddRemove, count),
        Event::Composed { events } => {
            for part in events {
                add_group(plan, least, part, count, size)?;
            }
        }
        Event::Repeated { count: times, of } => {
            let count = count.checked_mul(*times).ok_or(LevelError::Hopeless)?;
            add_group(plan, least, of, count, size)?;
        }
        _ if size == 1 => plan.add(event, Adjacency::AddRemove, count),
        other => return Err(LevelError::NoFormula(other.name())),
    }
    Ok(())
}

/// Returns ε at δ of `releases` of `event`, which protects all data of one person, for one record of that person;
/// rounded up, `None` when there is no finite one. Without the record the person's contribution is another one, clipped
/// like the first: in terms of additions and removals, that is one person replaced. The figure may therefore be above
/// the person's own, which is about the absence of all data of the person; and no record loses more than the two
/// together.
///
/// # Errors
/// [`LevelError`] when there is no figure.
pub fn of_part(event: &Event, releases: u64, delta: Delta) -> Result<Option<Epsilon>, LevelError> {
    let mut plan = Plan::new();
    plan.add(event, Adjacency::ReplaceOne, event.count_charges(releases));
    Ok(plan.epsilon(delta)?)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::{EXACT, LevelError, of_group, of_part};
    use crate::adjacency::Adjacency;
    use crate::event::Event;
    use crate::gaussian::GaussianProfile;
    use crate::pld::Plan;
    use crate::unit::{Delta, NoiseMultiplier, SamplingRate};

    fn sampled(q: f64, z: f64) -> Event {
        Event::PoissonSampledGaussian {
            sampling_rate: SamplingRate::new(q).unwrap(),
            noise_multiplier: NoiseMultiplier::new(z).unwrap(),
        }
    }

    fn delta() -> Delta {
        Delta::new(1e-6).unwrap()
    }

    fn group(event: &Event, releases: u64, size: u64) -> f64 {
        of_group(event, releases, size, delta()).unwrap().unwrap().get()
    }

    #[test]
    fn group_of_one_equals_the_unit() {
        let event = sampled(0.1, 2.0);
        let mut plan = Plan::new();
        plan.add(&event, Adjacency::AddRemove, 40);
        let own = plan.epsilon(delta()).unwrap().unwrap().get();
        assert!((group(&event, 40, 1) / own - 1.0).abs() < 1e-3, "{} {own}", group(&event, 40, 1));
        assert!(of_group(&event, 40, 0, delta()).unwrap().unwrap().get().abs() < 1e-300);
    }

    #[test]
    fn group_is_priced_in_both_directions() {
        use crate::pld::Pair;
        let event = sampled(0.1, 1.5);
        let releases = 20;
        let size = 4;
        // The rate as it is drawn, which differs slightly from a tenth.
        let rate = SamplingRate::new(0.1).unwrap().get();
        let pair = Pair::sampled_gaussian_group(rate, 1.5, size);
        let mut plan = Plan::new();
        plan.add_pair(pair, releases);
        let both = plan.epsilon(delta()).unwrap().unwrap().get();
        assert!((group(&event, releases, size.into()) / both - 1.0).abs() < 1e-12);
    }

    #[test]
    fn unsampled_group_scales_the_sensitivity() {
        let event = Event::Gaussian { noise_multiplier: NoiseMultiplier::new(8.0).unwrap() };
        let exact = GaussianProfile::of_mu(3.0 * 4.0_f64.sqrt() / 8.0).epsilon(delta()).unwrap().get();
        assert!((group(&event, 4, 3) / exact - 1.0).abs() < 1e-6);
        let all = Event::Repeated { count: 4, of: Box::new(event) };
        assert!((group(&all, 1, 3) / exact - 1.0).abs() < 1e-6, "what is repeated is counted");
    }

    #[test]
    fn larger_group_loses_more_and_shortcut_bounds_it() {
        let event = sampled(0.02, 4.0);
        let few = group(&event, 10, 2);
        let some = group(&event, 10, 8);
        assert!(few < some, "{few} {some}");
        // The bound for large groups, against the exact mixture where both are known.
        let (q, z, g) = (0.02_f64, 4.0, 8.0);
        let mut plan = Plan::new();
        plan.add_pair(crate::pld::Pair::sampled_gaussian(1.0 - (1.0 - q).powf(g), z / g), 10);
        assert!(plan.epsilon(delta()).unwrap().unwrap().get() >= some);
        assert!(of_group(&sampled(1e-4, 40.0), 2, EXACT + 1, delta()).unwrap().is_some());
    }

    #[test]
    fn huge_group_has_no_figure() {
        assert_eq!(of_group(&sampled(0.15, 1.0), 100, 400, delta()), Err(LevelError::Hopeless));
        assert_eq!(of_group(&Event::NonPrivate, 1, 3, delta()), Ok(None));
    }

    #[test]
    fn record_of_protected_speaker_loses_at_most_twice() {
        let event = sampled(0.1, 2.0);
        let releases = 40;
        let part = of_part(&event, releases, delta()).unwrap().unwrap().get();
        let mut plan = Plan::new();
        plan.add(&event, Adjacency::AddRemove, releases);
        let whole = plan.epsilon(delta()).unwrap().unwrap().get();
        assert!(part > whole && part < 3.0 * whole, "{part} {whole}");
    }
}
