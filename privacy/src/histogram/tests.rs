//! The mechanism on two and three words, by enumeration of all its outputs.

#![expect(clippy::unwrap_used, reason = "constants of a test are in range")]

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use proptest::prelude::*;

use super::{Differences, HistogramError, Partition, TruncatedLaplace};
use crate::unit::{Delta, Epsilon};

fn count(count: u32) -> NonZeroU32 {
    NonZeroU32::new(count).unwrap()
}

fn noise(rate: f64, shift: u32) -> TruncatedLaplace {
    TruncatedLaplace::new(Epsilon::new(rate).unwrap(), shift).unwrap()
}

/// Counts beyond this have a negligible mass.
const REACH: usize = 44;

/// Returns the probability of each shown count of one word that occurs `copies` times.
fn count_distribution(noise: TruncatedLaplace, copies: usize) -> Vec<f64> {
    (0..REACH).map(|count| count.checked_sub(copies).map_or(0.0, |dummies| noise.probability(dummies as u64))).collect()
}

/// Returns the joint distribution of independent words.
fn joint_distribution(words: &[Vec<f64>]) -> Vec<f64> {
    words.iter().fold(vec![1.0], |all, word| all.iter().flat_map(|mass| word.iter().map(move |p| mass * p)).collect())
}

/// Returns the distribution of one provider's histogram when each copy reaches it with probability `share`, all
/// independently.
fn provider_distribution(noise: TruncatedLaplace, copies: &[usize], share: f64) -> Vec<f64> {
    let words: Vec<Vec<f64>> = copies
        .iter()
        .map(|&copies| {
            let mut mixture = vec![0.0; REACH];
            for landed in 0u32..1 << copies {
                let here = landed.count_ones() as usize;
                let mass = share.powi(here as i32) * (1.0 - share).powi((copies - here) as i32);
                mixture.iter_mut().zip(count_distribution(noise, here)).for_each(|(sum, p)| *sum += mass * p);
            }
            mixture
        })
        .collect();
    joint_distribution(&words)
}

/// Returns the distribution of one provider's histogram when all copies are in one segment.
fn segment_distribution(noise: TruncatedLaplace, copies: &[usize], share: f64) -> Vec<f64> {
    let at = |copies: &[usize]| {
        joint_distribution(&copies.iter().map(|&copies| count_distribution(noise, copies)).collect::<Vec<_>>())
    };
    let none = vec![0; copies.len()];
    at(copies).iter().zip(at(&none)).map(|(here, elsewhere)| share * here + (1.0 - share) * elsewhere).collect()
}

fn divergence(p: &[f64], q: &[f64], epsilon: f64) -> f64 {
    let stick = |p: &[f64], q: &[f64]| p.iter().zip(q).map(|(p, q)| (p - epsilon.exp() * q).max(0.0)).sum::<f64>();
    stick(p, q).max(stick(q, p))
}

/// Returns every pair of histograms over at most three words at this distance: copies of each word on one side or the
/// other, without the words that are equal on both.
fn pairs(distance: usize) -> BTreeSet<(Vec<usize>, Vec<usize>)> {
    let mut pairs = BTreeSet::new();
    for a in 0..=distance {
        for b in 0..=distance - a {
            let parts: Vec<usize> = [a, b, distance - a - b].into_iter().filter(|&copies| copies > 0).collect();
            for sides in 0u32..1 << parts.len() {
                let side = |there| {
                    parts.iter().enumerate().map(
                        move |(word, &copies)| {
                            if sides >> word & 1 == there { copies } else { 0 }
                        },
                    )
                };
                pairs.insert((side(0).collect(), side(1).collect()));
            }
        }
    }
    pairs
}

#[test]
fn histograms_at_distance_lose_at_most_the_charge() {
    let mut greatest = 0.0f64;
    for (rate, shift) in [(0.5, 9), (0.9, 5), (0.3, 12), (1.5, 2)] {
        let noise = noise(rate, shift);
        for distance in [1, 2, 3] {
            let epsilon = noise.epsilon(count(distance));
            let delta = noise.delta(count(distance));
            for (here, there) in pairs(distance as usize) {
                let at = |copies: &[usize]| {
                    joint_distribution(
                        &copies.iter().map(|&copies| count_distribution(noise, copies)).collect::<Vec<_>>(),
                    )
                };
                let lost = divergence(&at(&here), &at(&there), epsilon);
                // Values beyond the reach are not enumerated.
                assert!(lost <= delta + 1e-6, "{rate} {shift} {here:?} {there:?}: {lost} {delta}");
                greatest = greatest.max(lost / delta);
            }
        }
    }
    assert!(greatest > 0.999, "the charge is what is lost: {greatest}");
}

#[test]
fn provider_learns_at_most_the_partition_charge() {
    for (rate, shift) in [(0.5, 9), (0.9, 5), (1.5, 2)] {
        let noise = noise(rate, shift);
        for (providers, colluding) in [(2, 1), (3, 1), (3, 2), (8, 1)] {
            let partition = Partition::new(count(providers), count(colluding)).unwrap();
            for distance in [1u32, 2, 3] {
                for (here, there) in pairs(distance as usize) {
                    let one_way = here.iter().all(|&copies| copies == 0) || there.iter().all(|&copies| copies == 0);
                    let differences = if one_way { Differences::OneWay } else { Differences::Mixed };
                    let (epsilon, delta) = noise.guarantee(count(distance), partition, differences);
                    let share = partition.share();
                    let apart = divergence(
                        &provider_distribution(noise, &here, share),
                        &provider_distribution(noise, &there, share),
                        epsilon,
                    );
                    assert!(apart <= delta + 1e-6, "{here:?} {there:?} {partition:?}: {apart} {delta}");
                    let grouped = divergence(
                        &segment_distribution(noise, &here, share),
                        &segment_distribution(noise, &there, share),
                        epsilon,
                    );
                    assert!(!one_way || grouped <= delta + 1e-6, "{here:?} {there:?} {partition:?}: {grouped} {delta}");
                }
            }
        }
    }
}

#[test]
fn published_shift_fails_for_different_words() {
    // ε = 0.6, d = 3: d e^{−s(d−1)} is 2.01. Its shift makes t e^{s(d−1)} the δ.
    let (s, d, delta) = (0.2f64, 3.0f64, 1e-2f64);
    let published = (d - d * ((s.exp() + 1.0) * delta).ln() / (s * d)).ceil();
    let broken = noise(s, published as u32);
    let lost = 1.0 - (1.0 - broken.probability(0)).powi(3);
    assert!(lost > 1.5 * delta, "{lost}");
    let mended = TruncatedLaplace::least_shift(Epsilon::new(s).unwrap(), count(3), Delta::new(delta).unwrap()).unwrap();
    assert!(mended.shift() > broken.shift() && 1.0 - (1.0 - mended.probability(0)).powi(3) <= delta);
}

proptest! {
    #[test]
    fn least_shift_keeps_delta_and_one_less_does_not(
        epsilon in 0.05f64..8.0, exponent in -25.0f64..-3.0, distance in 1u32..40, providers in 1u32..9, colluding in 1u32..9
    ) {
        let at = Epsilon::new(epsilon).unwrap();
        let delta = Delta::new(libm::exp(exponent)).unwrap();
        let partition = Partition::new(count(providers), count(colluding.min(providers))).unwrap();
        for differences in [Differences::OneWay, Differences::Mixed] {
            let noise = TruncatedLaplace::calibrated(at, delta, count(distance), partition, differences).unwrap();
            let (cost, mass) = noise.guarantee(count(distance), partition, differences);
            prop_assert!(cost <= epsilon * (1.0 + 1e-12) && mass <= delta.get() * (1.0 + 1e-9), "{} {}", cost, mass);
            let share = partition.share();
            if differences == Differences::OneWay && noise.shift() > 0 {
                let less = super::TruncatedLaplace { shift: noise.shift() - 1, ..noise };
                prop_assert!(less.delta(count(distance)) * share > delta.get() * (1.0 - 1e-9));
            }
        }
    }

    #[test]
    fn dummy_moments_match_probabilities(rate in 0.2f64..3.0, shift in 0u32..30) {
        let noise = noise(rate, shift);
        let sum = |of: &dyn Fn(f64) -> f64| -> f64 { (0u32..400).map(|x| of(f64::from(x)) * noise.probability(x.into())).sum() };
        prop_assert!((sum(&|_| 1.0) - 1.0).abs() < 1e-12);
        let mean = sum(&|x| x);
        prop_assert!((noise.mean() - mean).abs() < 1e-11 * (1.0 + mean));
        let variance = sum(&|x| (x - mean) * (x - mean));
        prop_assert!((noise.variance() - variance).abs() < 1e-9 * (1.0 + variance));
    }

    #[test]
    fn more_colluders_never_learn_less(rate in 0.01f64..2.0, shift in 0u32..200, distance in 1u32..20, providers in 2u32..9) {
        let noise = noise(rate, shift);
        for differences in [Differences::OneWay, Differences::Mixed] {
            let of = |m| noise.guarantee(count(distance), Partition::new(count(providers), count(m)).unwrap(), differences);
            for m in 1..providers {
                let ((few, _), (many, _)) = (of(m), of(m + 1));
                prop_assert!(few <= many * (1.0 + 1e-15));
            }
        }
    }
}

#[test]
fn impossible_noise_parameters_are_refused() {
    let zero = Epsilon::new(0.0).unwrap();
    let half = Epsilon::new(0.5).unwrap();
    assert_eq!(TruncatedLaplace::new(zero, 3), Err(HistogramError::Rate));
    let nothing = Delta::new(0.0).unwrap();
    assert_eq!(TruncatedLaplace::least_shift(half, count(1), nothing), Err(HistogramError::NoDelta));
    let tiny = Epsilon::new(1e-9).unwrap();
    assert_eq!(TruncatedLaplace::least_shift(tiny, count(1), Delta::new(1e-9).unwrap()), Err(HistogramError::Shift));
    assert!(matches!(Partition::new(count(2), count(3)), Err(HistogramError::Partition { .. })));
    assert!(serde_json::from_str::<Partition>(r#"{"providers":2,"colluding":3}"#).is_err());
    assert!(serde_json::from_str::<Partition>(r#"{"providers":2,"colluding":0}"#).is_err());
    let stored: Partition = serde_json::from_str(r#"{"providers":5,"colluding":2}"#).unwrap();
    assert!((stored.share() - 0.4).abs() < 1e-15);
}
