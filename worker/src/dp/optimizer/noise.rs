//! How much noise an average of releases holds: from the spec's public numbers alone.

/// One contributor to an average, by what the manifest says of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// w: its weight in the average; greater than 0.
    pub weight: f64,
    /// s: standard deviation of the noise in each coordinate of what it sends; 0 when it adds none. Of
    /// (Σ clip(gᵢ) + N(0, z²C²)) / (q n) it is z C / (q n) (`privacy.md`, 1.4); drawn on the integer grid, the noise is larger
    /// by less than 2⁻¹⁹ of itself.
    pub deviation: f64,
}

/// Variance of the noise in each coordinate of Σ wᵢ xᵢ / Σ wᵢ: the noises are independent, so it is Σ (wᵢ sᵢ)² / (Σ wᵢ)².
///
/// Where fewer than all contributed (a round that closed without somebody), an average does not say who. Then this is the
/// least that any such average can hold: the smallest of the (wᵢ sᵢ)², over the largest of the wᵢ. Too little is the side to
/// err on: a correction by more noise than there is would make steps out of nothing.
pub fn variance(shares: &[Share], contributors: usize) -> f64 {
    let ascending = |of: fn(&Share) -> f64| {
        let mut values: Vec<f64> = shares.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let contributors = contributors.min(shares.len());
    let noise: f64 = ascending(|share| (share.weight * share.deviation).powi(2)).iter().take(contributors).sum();
    let weight: f64 = ascending(|share| share.weight).iter().rev().take(contributors).sum();
    if weight > 0.0 { noise / (weight * weight) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::{Share, variance};
    use crate::dp::clip::{Clip, ClippedSum};
    use crate::dp::randomness::{Purpose, Randomness};
    use crate::dp::release::Release;
    use crate::dp::sampler::Sampler;
    use crate::site::clearance::{Clearance, Published};
    use undertone_privacy::{NoiseMultiplier, SamplingRate, UnitError};

    const LENGTH: usize = 200_000;

    /// What a party releases of nobody.
    fn release(z: f64, clip: f64, expected_batch: f64, seed: u8) -> Result<Release, UnitError> {
        let clip = Clip::new(clip, NoiseMultiplier::new(z)?).expect("in range");
        let rate = SamplingRate::new(0.5)?;
        let batch = Sampler::new(0, rate).draw(&Randomness::in_test(Purpose::Sampling, seed));
        let cleared = Clearance::Public(Published::in_test());
        let sum = ClippedSum::begin(&batch, clip, LENGTH);
        Ok(sum.release(expected_batch, cleared, &Randomness::in_test(Purpose::Noise, seed)).expect("cleared"))
    }

    #[test]
    fn the_variance_of_an_average_is_what_its_coordinates_scatter_by() -> Result<(), UnitError> {
        // Two private parties with noise, clip and batch of their own, and an exact one.
        let (a, b) = (release(1.5, 0.7, 40.0, 1)?, release(0.6, 2.0, 10.0, 2)?);
        let share = |weight: f64, deviation: f64| Share { weight, deviation };
        let shares = [share(3.0, 0.0), share(40.0, 1.5 * 0.7 / 40.0), share(10.0, 0.6 * 2.0 / 10.0)];
        let mean = |n: usize| (40.0 * f64::from(a.vector()[n]) + 10.0 * f64::from(b.vector()[n])) / 53.0;
        let measured = (0..LENGTH).map(|n| mean(n).powi(2)).sum::<f64>() / LENGTH as f64;
        // A standard error is √(2 / 200,000) = 0.3 %.
        let ratio = measured / variance(&shares, 3);
        assert!((ratio - 1.0).abs() < 0.015, "{ratio}");
        let own = a.vector().iter().map(|value| f64::from(*value).powi(2)).sum::<f64>() / LENGTH as f64;
        assert!((own / a.variance() - 1.0).abs() < 0.015);
        assert!((a.variance() / variance(&shares[1..2], 1) - 1.0).abs() < 1e-5, "one party's average is its release");
        Ok(())
    }

    #[test]
    fn an_average_of_fewer_counts_for_the_least_noise_it_can_hold() {
        let shares = [
            Share { weight: 1.0, deviation: 0.0 },
            Share { weight: 2.0, deviation: 0.5 },
            Share { weight: 4.0, deviation: 1.0 },
        ];
        let pairs = [[0, 1], [0, 2], [1, 2]].map(|pair| variance(&pair.map(|n: usize| shares[n]), 2));
        let least = variance(&shares, 2);
        assert!(pairs.iter().all(|of_pair| least <= *of_pair) && least > 0.0, "{least} {pairs:?}");
        let alike = [Share { weight: 2.0, deviation: 0.5 }; 3];
        assert!((variance(&alike, 2) - 0.125).abs() < 1e-15, "equal parties leave no doubt");
        assert!(variance(&shares, 0).abs() < f64::MIN_POSITIVE);
    }
}
