//! Masked sums: the two guarantees of a group of sites, and the least noise of each site.
//!
//! Under secure aggregation the adversary sees one sum. Its noise is that of the n − t honest sites which any opened sum has at
//! least, so each site can add less than alone. [`MaskedSum::outsider`] is the event against the server with up to t sites,
//! [`MaskedSum::insider`] the event against the server with all other sites: the site's own noise is left.
//! [`modulus_bits`] is the width of the integers in which such vectors are added.

use std::num::NonZeroU32;

use super::CalibrateError;
use crate::adjacency::Adjacency;
use crate::event::{DistributedNoise, Event};
use crate::ledger::Headroom;
use crate::mechanism;
use crate::unit::{Delta, GridSteps, NoiseMultiplier, SamplingRate};

/// The form of a masked sum. Lengths are in steps γ of the group's grid.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MaskedSum {
    /// C/γ: the norm to which each contribution is clipped before it is rounded to the grid.
    pub clip: GridSteps,
    /// d, the coordinates of the sum.
    pub dimension: NonZeroU32,
    /// β: the rounding of a contribution is repeated until its norm is within a bound that holds with probability 1 − β.
    pub rounding_bias: Delta,
    /// n − t: the least number of honest sites in a sum.
    pub honest: NonZeroU32,
}

impl MaskedSum {
    /// Returns the event of one sum against the server with up to t colluding sites. Each site adds noise of deviation
    /// `site_noise`, and draws its batch with `sampling_rate`.
    pub fn outsider(&self, site_noise: GridSteps, sampling_rate: SamplingRate) -> Event {
        self.event(site_noise, sampling_rate, self.honest)
    }

    /// Returns the event of one sum against the server with all other sites.
    pub fn insider(&self, site_noise: GridSteps, sampling_rate: SamplingRate) -> Event {
        self.event(site_noise, sampling_rate, NonZeroU32::MIN)
    }

    fn event(&self, noise: GridSteps, sampling_rate: SamplingRate, contributors: NonZeroU32) -> Event {
        let Self { clip, dimension, rounding_bias, .. } = *self;
        let noise = Box::new(DistributedNoise { clip, noise, contributors, dimension, rounding_bias });
        Event::PoissonSampledDistributedDiscreteGaussian { sampling_rate, noise }
    }

    /// Returns the least whole number of steps, as the deviation of each site's noise, with which `sums` sums fit into the
    /// headroom against the outsider. `sums` = 0 means one. For the insider, ask for a sum of one honest site.
    ///
    /// # Errors
    /// [`CalibrateError::NothingLeft`] when no noise of up to 2³² − 1 steps is enough, [`CalibrateError::Price`] when the event has
    /// no price on the account's orders.
    pub fn least_site_noise(
        &self,
        headroom: &Headroom,
        sampling_rate: SamplingRate,
        sums: u64,
        adjacency: Adjacency,
    ) -> Result<NonZeroU32, CalibrateError> {
        let sums = sums.max(1);
        let fits = |steps: u32| {
            let noise = GridSteps::new(steps.into()).map_err(|_| CalibrateError::NothingLeft)?;
            let cost = mechanism::curve(&self.outsider(noise, sampling_rate), adjacency, headroom.grid())?;
            Ok::<_, CalibrateError>(headroom.releases(&cost) >= sums)
        };
        // No noise below `low` fits, and `high` does.
        let (mut low, mut high) = (1_u32, 1_u32);
        while !fits(high)? {
            if high == u32::MAX {
                return Err(CalibrateError::NothingLeft);
            }
            low = high + 1;
            high = high.saturating_mul(2);
        }
        while low < high {
            let middle = low.midpoint(high);
            if fits(middle)? { high = middle } else { low = middle + 1 }
        }
        Ok(NonZeroU32::new(high).unwrap_or(NonZeroU32::MIN))
    }

    /// Returns the noise of plain averaging over that of the masked average: a site adds zC alone, and `site_noise` in the group.
    pub fn noise_reduction(&self, alone: NoiseMultiplier, site_noise: GridSteps) -> f64 {
        alone.get() * self.clip.get() / site_noise.get()
    }
}

/// Returns the standard deviation of each site's noise, in steps of the grid: the least integer s with s²·`honest` ≥ `total`².
/// So any `honest` sites together add noise of at least `total`.
pub fn site_deviation(total: u32, honest: NonZeroU32) -> u32 {
    let total = u64::from(total);
    let least = (total * total).div_ceil(u64::from(honest.get()));
    let root = least.isqrt();
    // At most `total`, because there is at least one honest site.
    (root + u64::from(root * root < least)) as u32
}

/// −log₂ of the greatest probability that a coordinate of a sum wraps around.
pub const WRAP_BITS: u32 = 40;

/// Returns the least b from 2 to 32 for which the sums of `sites` vectors do not wrap around modulo 2^b, except with probability
/// 2^−[`WRAP_BITS`] over the noise; `None` if 32 bits are not enough. `bound` is the greatest magnitude of a coordinate of a
/// site's vector without noise, `deviation` the standard deviation s of each site's discrete Gaussian noise, both in steps,
/// `length` the number of coordinates d.
///
/// N_ℤ(0, s²) is sub-Gaussian with variance s² (Canonne, Kamath, Steinke 2020, Lemma 3.6 of the full version). So the noise of P
/// sites exceeds T in one of d coordinates with probability at most 2d·e^{−T²/(2Ps²)}, which is at most 2^−40 for
/// T = s √(2P (ln 2d + 40 ln 2)). b bits are enough if P·`bound` + T ≤ 2^{b−1} − 1. A sum that wraps is wrong, but not less
/// private: the modulus is post-processing.
pub fn modulus_bits(sites: u32, bound: u64, deviation: u32, length: u64) -> Option<u8> {
    let exponent = libm::log(2.0 * length as f64) + f64::from(WRAP_BITS) * std::f64::consts::LN_2;
    let tail = f64::from(deviation) * (2.0 * f64::from(sites) * exponent).sqrt();
    // Rounded up, with one step for the errors of the logarithm and the root.
    let largest = u64::from(sites).checked_mul(bound)?.checked_add(tail.ceil() as u64)?.checked_add(1)?;
    (2..=32).find(|bits| largest < 1 << (bits - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert;
    use crate::curve::OrderGrid;
    use crate::ledger::{Account, Budget, GridKind};
    use crate::unit::Epsilon;

    fn masked_sum(clip: f64, honest: u32) -> MaskedSum {
        MaskedSum {
            clip: GridSteps::new(clip).expect("positive"),
            dimension: NonZeroU32::new(1_999_496).expect("not 0"),
            rounding_bias: Delta::new(1e-9).expect("in range"),
            honest: NonZeroU32::new(honest).expect("not 0"),
        }
    }

    fn steps(noise: u32) -> GridSteps {
        GridSteps::new(noise.into()).expect("positive")
    }

    fn rate() -> SamplingRate {
        SamplingRate::new(0.05).expect("in range")
    }

    fn delta() -> Delta {
        Delta::new(1e-6).expect("in range")
    }

    #[test]
    fn least_site_noise_fits_and_one_step_less_does_not() {
        let budget = Budget::new(Epsilon::new(4.0).expect("positive"), delta(), GridKind::Standard).expect("valid");
        let headroom = Account::new(Some(budget)).headroom();
        for (clip, honest, adjacency) in
            [(8_192.0, 2, Adjacency::ZeroOut), (512.0, 7, Adjacency::ZeroOut), (8_192.0, 2, Adjacency::ReplaceOne)]
        {
            let sum = masked_sum(clip, honest);
            let least = sum.least_site_noise(&headroom, rate(), 50, adjacency).expect("some noise fits").get();
            let admitted = |noise: u32| {
                let event = sum.outsider(steps(noise), rate());
                headroom.releases(&mechanism::curve(&event, adjacency, headroom.grid()).expect("priced"))
            };
            assert!(admitted(least) >= 50 && admitted(least - 1) < 50, "{clip} {honest}: {least}");
        }
        let spent = Account::new(None).headroom();
        let none = masked_sum(512.0, 2).least_site_noise(&spent, rate(), 1, Adjacency::ZeroOut);
        assert_eq!(none, Err(CalibrateError::NothingLeft));
    }

    /// The table of `docs/src/explanation/secure-aggregation.md`: q 0.05, z 1 alone, 50 rounds, δ 1e-6, two million coordinates.
    #[test]
    fn masked_noise_is_less_at_equal_guarantee() {
        let grid = OrderGrid::reporting();
        let epsilon = |event: Event| {
            let curve = mechanism::curve(&event.times(50), Adjacency::ZeroOut, &grid).expect("priced");
            convert::epsilon(&curve, delta()).expect("finite")
        };
        let alone = NoiseMultiplier::new(1.0).expect("positive");
        let plain = epsilon(Event::PoissonSampledGaussian { sampling_rate: rate(), noise_multiplier: alone });
        let headroom = Headroom::of_guarantee(plain, delta(), &grid);
        let row = |clip: f64, honest: u32| {
            let sum = masked_sum(clip, honest);
            let least = sum.least_site_noise(&headroom, rate(), 50, Adjacency::ZeroOut).expect("some noise fits").get();
            let insider = epsilon(sum.insider(steps(least), rate()));
            assert!(epsilon(sum.outsider(steps(least), rate())) <= plain && insider > plain);
            let reduction = sum.noise_reduction(alone, steps(least));
            assert!(reduction <= f64::from(honest).sqrt() * (1.0 + 1e-9), "{clip} {honest}: {reduction}");
            [reduction, insider.get()].map(|figure| (100.0 * figure).round() / 100.0)
        };
        // 5,656 is 4√d.
        let rows = [(65_536.0, 2), (65_536.0, 6), (65_536.0, 26), (5_656.0, 2), (512.0, 2), (512.0, 6)];
        let rows = rows.map(|(clip, honest)| row(clip, honest));
        let table = "3.76 [[1.41, 8.24], [2.45, 30.25], [5.1, 166.25], [1.4, 8.24], [0.82, 8.22], [1.43, 30.1]]";
        assert_eq!(format!("{:.2} {rows:?}", plain.get()), table);
        // A site that adds all of its own noise has its full guarantee against the insider.
        let own = MaskedSum { honest: NonZeroU32::MIN, ..masked_sum(65_536.0, 6) };
        let full = own.least_site_noise(&headroom, rate(), 50, Adjacency::ZeroOut).expect("some noise fits").get();
        assert!(epsilon(masked_sum(65_536.0, 6).insider(steps(full), rate())) <= plain && full >= 65_536);
    }

    #[test]
    fn noise_of_the_honest_reaches_the_total() {
        for honest in (1..=50).filter_map(NonZeroU32::new) {
            for total in [1, 2, 8, 1000, 1_048_576, u32::MAX] {
                let site = u128::from(site_deviation(total, honest));
                let reaches = |site: u128| site * site * u128::from(honest.get()) >= u128::from(total).pow(2);
                assert!(reaches(site) && !reaches(site - 1), "{honest} {total}: {site}");
            }
        }
    }

    /// 50 sites, 2,000,000 coordinates, deviation 8: T = 8 √(100 (15.2 + 27.73)) = 524.2.
    #[test]
    fn least_modulus_covers_bounds_and_tails() {
        let bits = |bound| modulus_bits(50, bound, 8, 2_000_000);
        // 50·10 + 525 + 1 = 1026 exceeds 1023; one step less of the bound leaves 976.
        assert_eq!((bits(10), bits(9), bits(u64::from(u32::MAX)), bits(u64::MAX)), (Some(12), Some(11), None, None));
        assert_eq!(modulus_bits(3, 0, 0, 1), Some(2));
        // Three batches of 200 units with a clip of 5,656 steps, and the noise of two honest sites.
        assert_eq!(modulus_bits(3, 200 * 5_656, 4_040, 1_999_496), Some(23));
    }
}
