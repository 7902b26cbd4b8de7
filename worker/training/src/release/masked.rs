//! A site's part of a masked sum: the clipped integer sum with the site's own noise, on the grid of the group.
//!
//! Under secure aggregation the server learns the sum of several sites (`privacy.md`, 14.8). So a site's part stays in
//! integers, is not divided, and carries a part of the noise. The event is that of the sum with the noise of the honest
//! sites. A unit changes the part by an integer vector of norm ≤ C/γ, which is verified; the event allows C/γ + √d.

use std::num::NonZeroU32;

use rayon::prelude::*;
use undertone_privacy::event::DistributedNoise;
use undertone_privacy::unit::GridSteps;
use undertone_privacy::{Delta, Event, SamplingRate};

use super::ReleaseError;
use crate::clip::ClippedSum;
use crate::noise::DiscreteGaussian;
use crate::randomness::Randomness;
use crate::vector::STRIDE;
use undertone_worker_site::clearance::{Clearance, GrantId};

/// The noise of a group, in steps of its grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupNoise {
    /// s: the standard deviation of each site's noise in the charged event.
    pub charged: NonZeroU32,
    /// The standard deviation of the noise that this site draws: s, or more.
    pub drawn: NonZeroU32,
    /// n − t: the least number of honest sites in a sum.
    pub honest: NonZeroU32,
}

impl GroupNoise {
    /// Returns the event of one sum of `length` coordinates, with a clip of `radius` steps. `None` when the length exceeds
    /// 32 bits, or is 0.
    fn event(self, sampling_rate: SamplingRate, radius: u64, length: usize) -> Option<Event> {
        let noise = Box::new(DistributedNoise {
            clip: GridSteps::new(radius as f64).ok()?,
            noise: GridSteps::new(f64::from(self.charged.get())).ok()?,
            contributors: self.honest,
            dimension: NonZeroU32::new(u32::try_from(length).ok()?)?,
            rounding_bias: Delta::new(0.0).ok()?,
        });
        Some(Event::PoissonSampledDistributedDiscreteGaussian { sampling_rate, noise })
    }
}

/// A noisy integer sum to be masked. The site stores it, masks it, and charges its ledger before the masked vector
/// leaves. The sum itself never leaves.
///
/// It can be constructed only from a clipped sum, with the site's permission:
///
/// ```compile_fail,E0451
/// use undertone_worker_training::release::NoisySum;
/// let bare = NoisySum { vector: vec![0_i32; 3], grant: None };
/// ```
#[must_use = "noise was drawn for it"]
pub struct NoisySum {
    vector: Vec<i32>,
    grant: Option<GrantId>,
}

impl std::fmt::Debug for NoisySum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NoisySum").field("length", &self.vector.len()).finish_non_exhaustive()
    }
}

impl NoisySum {
    /// Returns the coordinates, in steps of the grid.
    pub fn vector(&self) -> &[i32] {
        &self.vector
    }

    /// Returns the grant of the sum; `None` for public data.
    pub const fn grant(&self) -> Option<&GrantId> {
        self.grant.as_ref()
    }
}

impl ClippedSum {
    /// Adds this site's discrete Gaussian noise N_ℤ(0, `drawn`²) once, and leaves the sum in integers: no division, no
    /// floating point. Coordinates wrap around modulo 2³², like the masked sum. The call consumes the permission: a
    /// grant for the event of a masked sum, or the site's permission for public data.
    ///
    /// # Errors
    /// [`ReleaseError::GroupNoise`] if the noise is below that of the event, [`ReleaseError::WrongEvent`] if the grant is
    /// for another event. Nothing is charged.
    pub fn release_masked(
        self,
        noise: GroupNoise,
        clearance: Clearance,
        randomness: &Randomness,
    ) -> Result<NoisySum, ReleaseError> {
        let GroupNoise { charged, drawn, .. } = noise;
        if drawn < charged {
            return Err(ReleaseError::GroupNoise { drawn: drawn.get(), charged: charged.get() });
        }
        let (clip, sampling_rate, sum) = self.into_parts();
        let grant = match clearance {
            Clearance::Public(_) => None,
            Clearance::Granted(grant) => {
                // A vector without a coordinate has no event, and no grant.
                let made = noise.event(sampling_rate, clip.radius(), sum.len()).unwrap_or(Event::NonPrivate);
                if *grant.event() != made {
                    let granted = Box::new(grant.event().clone());
                    return Err(ReleaseError::WrongEvent { granted, made: Box::new(made) });
                }
                Some(grant.id().clone())
            }
        };
        Ok(NoisySum { vector: add_integer_noise(&sum, drawn, randomness), grant })
    }
}

/// Returns sum + noise modulo 2³², centred. Each stride of coordinates has its own stream, so threads share no state.
fn add_integer_noise(sum: &[i64], deviation: NonZeroU32, randomness: &Randomness) -> Vec<i32> {
    let noise = DiscreteGaussian::integer(u64::from(deviation.get()));
    let mut vector = vec![0_i32; sum.len()];
    let strides = vector.par_chunks_mut(STRIDE).zip(sum.par_chunks(STRIDE)).enumerate();
    strides.for_each(|(index, (vector, sum))| {
        let mut rng = randomness.stream(index as u32);
        for (value, sum) in vector.iter_mut().zip(sum) {
            *value = (sum + noise.sample(&mut rng)) as i32;
        }
    });
    vector
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use undertone_privacy::{Event, NoiseMultiplier, SamplingRate};
    use undertone_worker_site::clearance::{Clearance, ReleaseGrant};

    use super::super::ReleaseError;
    use super::GroupNoise;
    use crate::clip::{Clip, ClippedSum};
    use crate::per_unit::PerUnit;
    use crate::randomness::{Purpose, Randomness};
    use crate::sampler::Sampler;

    const LENGTH: usize = 20_000;

    fn rate() -> SamplingRate {
        SamplingRate::new(0.25).expect("a probability")
    }

    fn count(value: u32) -> NonZeroU32 {
        NonZeroU32::new(value).expect("not 0")
    }

    fn noise(charged: u32, drawn: u32) -> GroupNoise {
        GroupNoise { charged: count(charged), drawn: count(drawn), honest: count(2) }
    }

    /// Returns the sum of two units: one of norm 3 before it is clipped to 1, and one far inside the clip.
    fn sum(steps: u32) -> ClippedSum {
        let z = NoiseMultiplier::new(1.0).expect("positive");
        let clip = Clip::on_grid(1.0, z, steps, 1).expect("in range");
        let batch = Sampler::new(2, rate()).draw(&Randomness::in_test(Purpose::Sampling, 1));
        let mut sum = ClippedSum::begin(&batch, clip, LENGTH);
        let mut gradients = vec![0.0; 2 * LENGTH];
        gradients[0] = -3.0;
        gradients[LENGTH + 1] = 0.3;
        let _ = sum.add(PerUnit::new(gradients, LENGTH));
        sum
    }

    fn granted(event: Event) -> Clearance {
        Clearance::Granted(ReleaseGrant::in_test(event))
    }

    fn event(noise: GroupNoise, radius: u64, length: usize) -> Event {
        noise.event(rate(), radius, length).expect("in range")
    }

    #[test]
    fn sum_is_in_whole_steps_of_the_groups_grid() {
        let exact = sum(1000);
        // Rounded toward zero, and a unit's norm is at most the number of steps.
        assert!(
            (-1000..=-999).contains(&exact.in_test()[0]) && exact.in_test()[1] == 300,
            "{:?}",
            &exact.in_test()[..2]
        );
        assert!(exact.in_test()[2..].iter().all(|value| *value == 0));
        let terms = noise(40, 40);
        let randomness = Randomness::in_test(Purpose::Noise, 5);
        let noisy = exact.release_masked(terms, granted(event(terms, 1000, LENGTH)), &randomness).expect("its event");
        assert!(noisy.grant().is_some());
        let mean = noisy.vector().iter().skip(2).map(|value| f64::from(*value)).sum::<f64>() / (LENGTH - 2) as f64;
        let square = noisy.vector().iter().skip(2).map(|value| f64::from(*value).powi(2)).sum::<f64>();
        let deviation = (square / (LENGTH - 2) as f64).sqrt();
        // Five standard errors of mean and deviation of 20,000 draws.
        assert!(mean.abs() < 5.0 * 40.0 / (LENGTH as f64).sqrt(), "{mean}");
        assert!((deviation - 40.0).abs() < 5.0 * 40.0 / (2.0 * LENGTH as f64).sqrt(), "{deviation}");
    }

    #[test]
    fn grant_for_another_event_releases_no_sum() {
        let release = |terms: GroupNoise, event: Event| {
            sum(1000).release_masked(terms, granted(event), &Randomness::in_test(Purpose::Noise, 5)).map(|_| ())
        };
        let terms = noise(40, 40);
        assert_eq!(release(terms, event(terms, 1000, LENGTH)), Ok(()));
        assert_eq!(release(noise(40, 80), event(terms, 1000, LENGTH)), Ok(()), "more noise than charged");
        let alone = GroupNoise { honest: count(1), ..terms };
        for other in [
            event(noise(41, 41), 1000, LENGTH),
            event(alone, 1000, LENGTH),
            event(terms, 999, LENGTH),
            event(terms, 1000, LENGTH - 1),
            Event::PoissonSampledGaussian {
                sampling_rate: rate(),
                noise_multiplier: NoiseMultiplier::new(1.0).expect("positive"),
            },
            Event::NonPrivate,
        ] {
            assert!(matches!(release(terms, other), Err(ReleaseError::WrongEvent { .. })));
        }
        let less = release(noise(40, 39), event(terms, 1000, LENGTH));
        assert_eq!(less, Err(ReleaseError::GroupNoise { drawn: 39, charged: 40 }));
    }
}
