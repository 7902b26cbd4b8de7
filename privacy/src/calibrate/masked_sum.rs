//! Masked sums: the two guarantees of a group of sites, and the least noise of each site.
//!
//! Under secure aggregation the adversary sees one sum. Its noise is that of the n − t honest sites which any opened sum has at
//! least, so each site can add less than alone. [`MaskedSum::outsider`] is the event against the server with up to t sites,
//! [`MaskedSum::insider`] the event against the server with all other sites: the site's own noise is left.

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
}
