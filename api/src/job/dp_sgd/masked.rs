//! Secure aggregation of the private series: its group, its grid, and the events of a round.
//!
//! The members are the participants with noise. Each rounds the clipped gradient of each unit toward zero to a grid of
//! steps γ = C / `clip_steps`, adds the integers of its batch, and adds discrete Gaussian noise of s steps. The server
//! learns the sum over the members, divides it by the expected batch of all of them, and averages the result with the
//! gradients of the participants without noise.
//!
//! z is the multiplier of the noise that any n − t members have together: s²·(n − t) ≥ (z·C/γ)². The event of a round is
//! that of a sum of n − t contributors; with one contributor it is the event against all other sites.
//!
//! A coordinate of a member's vector is at most C/γ times its batch, whose size has the bound of `norm.rs`.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};
use undertone_privacy::calibrate::{MaskedSum, modulus_bits, site_deviation};
use undertone_privacy::unit::GridSteps;
use undertone_privacy::{Delta, Event, NoiseMultiplier};

use super::{Party, Spec, norm};
use crate::dataset::{Dataset, SizeClass};
use crate::id::DatasetId;
use crate::job::MaskedGroup;

/// The range of `clip_steps`. With fewer steps the rounding takes a large part of small gradients; with more a sum
/// exceeds 32 bits.
pub(super) const CLIP_STEPS: (u32, u32) = (1 << 10, 1 << 20);

/// Secure aggregation of the private series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = DpSgdSecureAggregation))]
pub struct SecureAggregation {
    /// n: the fewest sites whose vectors a sum may have; more than half of the group and the colluding sites together.
    /// The others may drop out of a round.
    #[cfg_attr(feature = "openapi", schema(minimum = 2, maximum = 50))]
    pub smallest_group: u8,
    /// t: the sites of the group that may collude with the server. Each site adds its share of the noise of the n − t
    /// others.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(maximum = 48))]
    pub colluding: u8,
    /// C/γ: the clip in steps of the grid to which each unit's gradient is rounded, 1,024 to 1,048,576.
    #[serde(default = "default_clip_steps")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1024, maximum = 1_048_576))]
    pub clip_steps: u32,
    /// d: the coordinates of a vector, on which the price depends. A proposal may omit it; the manifest states it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u32>, minimum = 1))]
    pub dimension: Option<NonZeroU32>,
}

const fn default_clip_steps() -> u32 {
    1 << 16
}

impl SecureAggregation {
    /// Makes the terms of a group with the default grid.
    pub const fn new(smallest_group: u8, colluding: u8) -> Self {
        Self { smallest_group, colluding, clip_steps: default_clip_steps(), dimension: None }
    }

    /// Returns n − t, the least number of honest sites in a sum; 1 for terms that no check admits.
    pub fn honest(&self) -> NonZeroU32 {
        NonZeroU32::new(self.smallest_group.saturating_sub(self.colluding).into()).unwrap_or(NonZeroU32::MIN)
    }

    /// Returns s, the standard deviation of each site's noise, in steps.
    pub fn site_deviation(&self, noise_multiplier: NoiseMultiplier) -> u32 {
        // A spec's multiplier is at most 1,024, and the steps at most 2²⁰.
        let total = libm::ceil(noise_multiplier.get() * f64::from(self.clip_steps));
        site_deviation(total as u32, self.honest()).max(1)
    }

    /// Returns the standard deviation of each site's noise relative to the clip.
    pub fn site_multiplier(&self, noise_multiplier: NoiseMultiplier) -> f64 {
        f64::from(self.site_deviation(noise_multiplier)) / f64::from(self.clip_steps)
    }

    /// Returns γ, for a clip.
    pub fn step(&self, clip: f64) -> f64 {
        clip / f64::from(self.clip_steps)
    }
}

impl Spec {
    /// Returns secure aggregation, if the private series uses it.
    pub const fn masks(&self) -> Option<&SecureAggregation> {
        if self.private.is_some() { self.secure_aggregation.as_ref() } else { None }
    }

    /// Returns the members of the group, in order; none without secure aggregation.
    pub fn members(&self) -> impl Iterator<Item = &Party> {
        self.participants.iter().filter(|party| self.masks().is_some() && party.noise.is_some())
    }

    /// Returns the group, its grid and its modulus. `inputs` are the inputs of the participants' datasets, `units` returns
    /// n of a participant. `None` without secure aggregation, while the spec leaves the classes open, with a stated
    /// dimension that is not the model's, for a participant without n, and where sums exceed 32 bits.
    pub fn masked_group(&self, inputs: u32, units: impl Fn(DatasetId) -> Option<u64>) -> Option<MaskedGroup> {
        let masks = self.masks()?;
        let dimension = self.dimension(inputs)?;
        if masks.dimension.is_some_and(|stated| stated != dimension) {
            return None;
        }
        let length = u64::from(dimension.get());
        let noise = self.members().next()?.noise?;
        let deviation = masks.site_deviation(noise.noise_multiplier);
        let mut batch = 0.0_f64;
        for party in self.members() {
            batch = batch.max(norm::largest_batch(party, SizeClass(units(party.dataset)?).most() as f64));
        }
        let bound = libm::ceil(batch) as u64;
        let datasets: Vec<DatasetId> = self.members().map(|party| party.dataset).collect();
        let sites = u32::try_from(datasets.len()).ok()?;
        let bits = modulus_bits(sites, bound.checked_mul(masks.clip_steps.into())?, deviation, length)?;
        Some(MaskedGroup {
            datasets,
            smallest_group: masks.smallest_group,
            colluding: masks.colluding,
            clip_steps: masks.clip_steps,
            deviation,
            step: masks.step(noise.clip),
            bits,
            length,
        })
    }

    /// Returns d, the trained coordinates of the private series; `None` while the spec leaves the classes open.
    fn dimension(&self, inputs: u32) -> Option<NonZeroU32> {
        let length = self.private.as_ref()?.coordinates(&self.model, self.model.inputs(inputs), self.model.classes?);
        NonZeroU32::new(u32::try_from(length).ok()?)
    }

    /// States the dimension of a spec whose classes are known.
    pub(super) fn settle_dimension(&mut self, datasets: &[Dataset]) {
        let first = self.members().next().map(|party| party.dataset);
        let inputs = datasets.iter().find(|dataset| Some(dataset.id) == first).map(|dataset| dataset.inputs);
        let dimension = inputs.and_then(|inputs| self.dimension(inputs));
        if let Some(masks) = &mut self.secure_aggregation {
            masks.dimension = masks.dimension.or(dimension);
        }
    }

    /// Returns the event of one round of a member, with the noise of `honest` sites; `None` without secure aggregation, or
    /// for a participant without noise. A spec with neither classes nor a dimension gets the greatest one, which has the
    /// highest price.
    pub(super) fn masked_event(&self, party: &Party, inputs: u32, honest: NonZeroU32) -> Option<Event> {
        let masks = self.masks()?;
        let noise = party.noise?;
        let dimension = masks.dimension.or_else(|| self.dimension(inputs));
        let sum = MaskedSum {
            clip: GridSteps::new(masks.clip_steps.max(1).into()).ok()?,
            dimension: dimension.unwrap_or(NonZeroU32::MAX),
            rounding_bias: Delta::ZERO,
            honest,
        };
        let deviation = GridSteps::new(masks.site_deviation(noise.noise_multiplier).into()).ok()?;
        Some(sum.outsider(deviation, party.sampling_rate))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

    use std::num::NonZeroU32;

    use undertone_privacy::curve::OrderGrid;
    use undertone_privacy::{Adjacency, Event, mechanism};

    use super::super::tests::{changed, event, older_spec, ours};
    use super::{SecureAggregation, Spec};
    use crate::job::JobKind as _;

    /// Returns the spec of a member of a group with this n and t.
    fn masked(smallest_group: u8, colluding: u8) -> Spec {
        changed(|spec| spec.secure_aggregation = Some(SecureAggregation::new(smallest_group, colluding)))
    }

    fn losses(event: &Event) -> Vec<f64> {
        let curve = mechanism::curve(event, Adjacency::ZeroOut, &OrderGrid::standard()).unwrap();
        curve.losses().map(|(_, loss)| loss.to_f64_up()).collect()
    }

    /// z is 1.5, and C/γ 65,536: s = ⌈98,304/√4⌉ for four honest sites.
    #[test]
    fn member_is_charged_for_the_sum_of_the_honest_sites() {
        let spec = masked(5, 1);
        let Event::PoissonSampledDistributedDiscreteGaussian { sampling_rate, noise } = event(&spec) else {
            panic!("another event")
        };
        assert_eq!(sampling_rate, spec.participants[1].sampling_rate);
        assert_eq!((noise.contributors.get(), noise.clip.get(), noise.noise.get()), (4, 65_536.0, 49_152.0));
        let length = spec.vector_length(spec.private.as_ref().unwrap(), &[ours()]).unwrap();
        assert_eq!(u64::from(noise.dimension.get()), length);
        let Some(Event::PoissonSampledDistributedDiscreteGaussian { noise: alone, .. }) = event(&spec).to_insider()
        else {
            panic!("another event")
        };
        assert_eq!((alone.contributors, alone.noise), (NonZeroU32::MIN, noise.noise));
        let open = Spec { model: super::super::AcousticModel { classes: None, ..spec.model }, ..spec };
        let Event::PoissonSampledDistributedDiscreteGaussian { noise, .. } = event(&open) else {
            panic!("another event")
        };
        assert_eq!(noise.dimension, NonZeroU32::MAX, "no dimension has a higher price");
    }

    /// At low orders, where the sum of discrete Gaussians has the price of one.
    #[test]
    fn outsider_pays_about_the_same_as_alone_and_the_insider_more() {
        let spec = masked(5, 1);
        let plain = losses(&event(&older_spec()));
        let outsider = losses(&event(&spec));
        let insider = losses(&event(&spec).to_insider().unwrap());
        for ((plain, outsider), insider) in plain.iter().zip(&outsider).zip(&insider).take(8) {
            assert!(plain < outsider && *outsider < 1.2 * plain && outsider < insider, "{plain} {outsider} {insider}");
        }
    }

    /// A batch of 25 units of the one member: s·γ/25, which is half of the plain noise 1.5 · 0.5/25.
    #[test]
    fn noise_of_a_member_is_its_share() {
        let spec = masked(5, 1);
        let party = &spec.participants[1];
        assert!((spec.deviation(party, 100) - 0.015).abs() < 1e-15);
        assert!((older_spec().deviation(party, 100) - 0.03).abs() < 1e-15);
        assert!((spec.noise_of_average(|_| 100) - 25.0 * 0.015 / 37.5).abs() < 1e-15);
        let bound = |spec: &Spec| spec.most_norm(&ours(), &spec.series(&[ours()])[1]).unwrap();
        assert!(bound(&spec) < bound(&older_spec()), "less noise has a lower bound");
    }
}
