use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

use super::strips::CUMULATIVE;
use super::{DiscreteGaussian, decide, exp_minus};
use undertone_worker_site::testing::fixture;

/// Samples of each distribution; a deviation of five standard errors is a failure.
const SAMPLES: u32 = 200_000;

fn rng(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}

fn assert_share(name: &str, hits: u32, samples: u32, probability: f64) {
    let (mean, deviation) =
        (f64::from(samples) * probability, (f64::from(samples) * probability * (1.0 - probability)).sqrt());
    assert!((f64::from(hits) - mean).abs() <= 5.0 * deviation + 1.0, "{name}: {hits} of {samples}, expected {mean}");
}

/// Returns σ as a fraction for each variance of the vectors; 0.0096 has an irrational σ, so the next fraction above it
/// is used.
fn deviation_of(variance: &str) -> Option<(u64, u64)> {
    Some(match variance {
        "0.25" => (1, 2),
        "1" => (1, 1),
        "2.25" => (3, 2),
        "4" => (2, 1),
        "100" => (10, 1),
        "0.0096" => (49, 500),
        _ => return None,
    })
}

#[test]
fn samples_follow_the_vectors() {
    for (index, case) in fixture::cases("noise").iter().enumerate() {
        let id = case["id"].as_str().expect("every case has an id");
        let text = |field: &str| case[field].as_str().expect("a decimal in text").to_owned();
        let mut rng = rng(index as u64);
        match case["kind"].as_str() {
            Some("discrete_gaussian") => {
                let (p, q) = deviation_of(&text("sigma2")).expect("a variance this test knows the root of");
                let noise = DiscreteGaussian::new(p, q);
                let samples: Vec<i64> = (0..SAMPLES).map(|_| noise.sample(&mut rng)).collect();
                for (value, probability) in case["pmf"].as_object().expect("a table of probabilities") {
                    let value: i64 = value.parse().expect("an integer");
                    for signed in [value, -value] {
                        let hits = samples.iter().filter(|sample| **sample == signed).count() as u32;
                        assert_share(
                            &format!("{id} at {signed}"),
                            hits,
                            SAMPLES,
                            probability.as_f64().expect("a number"),
                        );
                    }
                }
                let variance = samples.iter().map(|x| (x * x) as f64).sum::<f64>() / f64::from(SAMPLES);
                let expected = case["variance"].as_f64().expect("a number");
                assert!(
                    (variance - expected).abs() <= 0.02 * expected + 1e-9,
                    "{id}: variance {variance}, not {expected}"
                );
            }
            Some("bernoulli_exp") => {
                let gamma: f64 = text("gamma").parse().expect("a decimal");
                let quarters = (gamma * 4.0) as u64;
                let (whole, rest) = (quarters / 4, quarters % 4);
                let trial = |rng: &mut ChaCha20Rng| (0..whole).all(|_| exp_minus(1, 1, rng)) && exp_minus(rest, 4, rng);
                let hits = (0..SAMPLES).filter(|_| trial(&mut rng)).count() as u32;
                assert_share(id, hits, SAMPLES, case["prob"].as_f64().expect("a number"));
            }
            // The privacy crate prices noise summed over clients; this test draws no samples of it.
            Some("distributed_discrete_gaussian") => {}
            other => panic!("{id} is of a kind this test does not know: {other:?}"),
        }
    }
}

/// Compares 32 equally likely bins of the normal distribution by chi-square, at the σ of production.
#[test]
fn fine_noise_looks_like_the_normal_distribution() {
    let sigma = (1_u64 << 20) + 12_345;
    let noise = DiscreteGaussian::integer(sigma);
    let mut rng = rng(99);
    let (mut bins, mut sums) = ([0_u32; 32], [0.0_f64; 4]);
    for _ in 0..SAMPLES {
        let x = noise.sample(&mut rng) as f64 / sigma as f64;
        bins[((0.5 * (1.0 + erf(x / std::f64::consts::SQRT_2)) * 32.0) as usize).min(31)] += 1;
        for (power, sum) in (1..).zip(&mut sums) {
            *sum += x.powi(power) / f64::from(SAMPLES);
        }
    }
    let expected = f64::from(SAMPLES) / 32.0;
    let chi_square: f64 = bins.iter().map(|hits| (f64::from(*hits) - expected).powi(2) / expected).sum();
    // 31 degrees of freedom: above 75 once in 20,000.
    assert!(chi_square < 75.0, "{chi_square}");
    let error = f64::from(SAMPLES).sqrt().recip();
    assert!(sums[0].abs() < 5.0 * error && (sums[1] - 1.0).abs() < 5.0 * 1.5 * error, "{sums:?}");
    assert!(sums[2].abs() < 5.0 * 3.9 * error && (sums[3] - 3.0).abs() < 5.0 * 9.8 * error, "{sums:?}");
}

/// Returns erf by Abramowitz and Stegun 7.1.26, to 1.5e-7 absolute, far below the resolution of the test.
fn erf(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.327_591_1 * x.abs());
    let series = [1.061_405_429, -1.453_152_027, 1.421_413_741, -0.284_496_736, 0.254_829_592];
    let sum = series.iter().fold(0.0, |sum, coefficient| (sum + coefficient) * t);
    (1.0 - sum * (-x * x).exp()).copysign(x)
}

#[test]
fn the_table_is_that_of_the_distribution() {
    let weight = |i: usize| (-((i * i) as f64) / 512.0).exp();
    let total: f64 = (0..400).map(weight).sum();
    let mut before = 0;
    for (i, bound) in CUMULATIVE.iter().enumerate() {
        assert!(*bound >= before, "entry {i}");
        let probability = (bound - before) as f64 / 2.0_f64.powi(128);
        assert!((probability - weight(i) / total).abs() <= 1e-14 * weight(i) + 1e-38, "entry {i}");
        before = *bound;
    }
    assert!(u128::MAX - before <= 1, "nothing is left beyond");
}

#[test]
fn bits_that_do_not_decide_are_followed_by_more() {
    // One bit decides against a third only if it is the upper one; otherwise the following bits decide.
    let mut rng = rng(5);
    let hits = (0..SAMPLES).filter(|n| decide(u64::from(n % 2), 1, 1, 3, &mut rng)).count() as u32;
    assert_share("a third from one bit", hits, SAMPLES, 1.0 / 3.0);
    assert!(!decide(1, 1, 1, 3, &mut rng) && decide(0, 1, 1, 2, &mut rng));
}

#[test]
fn a_deviation_out_of_range_panics_rather_than_wrapping() {
    for (p, q) in [(0, 1), (1, 0), (1 << 32, 1)] {
        assert!(std::panic::catch_unwind(|| DiscreteGaussian::new(p, q)).is_err());
    }
}
