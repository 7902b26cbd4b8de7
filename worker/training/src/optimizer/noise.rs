//! Computes the noise of an average of releases from the public numbers of the spec alone.

/// One contributor to an average, as described by the manifest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NoiseShare {
    /// w: its weight in the average, greater than 0.
    pub weight: f64,
    /// s: standard deviation of the noise in each coordinate of its vector; 0 without noise. For (Σ clip(gᵢ) + N(0,
    /// z²C²)) / (q n) it is z C / (q n) (`privacy.md`, 1.4). On the integer grid, the noise is larger by less than 2⁻¹⁹
    /// of itself.
    pub deviation: f64,
}

/// Returns the variance of the noise in each coordinate of Σ wᵢ xᵢ / Σ wᵢ. The noises are independent, so it is Σ (wᵢ
/// sᵢ)² / (Σ wᵢ)².
///
/// With fewer contributors than shares (a round that closed early), an average does not identify its contributors. Then
/// the result is the minimum for any such average: the smallest of the (wᵢ sᵢ)², over the largest of the wᵢ. Too small
/// a variance is the safe error: a correction by more noise than is present would create steps without a signal.
pub fn variance(shares: &[NoiseShare], contributors: usize) -> f64 {
    let ascending = |of: fn(&NoiseShare) -> f64| {
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
    use super::{NoiseShare, variance};
    use crate::clip::ClippedSum;
    use crate::clip::grid::Clip;
    use crate::randomness::{Purpose, Randomness};
    use crate::release::Release;
    use crate::sampler::Sampler;
    use undertone_privacy::{NoiseMultiplier, SamplingRate, UnitError};
    use undertone_worker_site::clearance::{Clearance, PublicProof};

    const LENGTH: usize = 200_000;

    /// Returns the release of a party without units.
    fn release(z: f64, clip: f64, expected_batch: f64, seed: u8) -> Result<Release, UnitError> {
        let clip = Clip::new(clip, NoiseMultiplier::new(z)?).expect("in range");
        let rate = SamplingRate::new(0.5)?;
        let batch = Sampler::new(0, rate).draw(&Randomness::in_test(Purpose::Sampling, seed));
        let clearance = Clearance::Public(PublicProof::in_test());
        let sum = ClippedSum::begin(&batch, clip, LENGTH);
        Ok(sum.release(expected_batch, clearance, &Randomness::in_test(Purpose::Noise, seed)).expect("cleared"))
    }

    #[test]
    fn average_variance_equals_coordinate_scatter() -> Result<(), UnitError> {
        // Two private parties with different noise, clip and batch, and an exact one.
        let (a, b) = (release(1.5, 0.7, 40.0, 1)?, release(0.6, 2.0, 10.0, 2)?);
        let share = |weight: f64, deviation: f64| NoiseShare { weight, deviation };
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
    fn average_of_fewer_has_the_minimal_variance() {
        let shares = [
            NoiseShare { weight: 1.0, deviation: 0.0 },
            NoiseShare { weight: 2.0, deviation: 0.5 },
            NoiseShare { weight: 4.0, deviation: 1.0 },
        ];
        let pairs = [[0, 1], [0, 2], [1, 2]].map(|pair| variance(&pair.map(|n: usize| shares[n]), 2));
        let least = variance(&shares, 2);
        assert!(pairs.iter().all(|of_pair| least <= *of_pair) && least > 0.0, "{least} {pairs:?}");
        let alike = [NoiseShare { weight: 2.0, deviation: 0.5 }; 3];
        assert!((variance(&alike, 2) - 0.125).abs() < 1e-15, "equal parties leave no doubt");
        assert!(variance(&shares, 0).abs() < f64::MIN_POSITIVE);
    }
}
