//! The k-anonymizer on inputs that are small enough to enumerate every sample; and the bounds against each other.

#![expect(clippy::unwrap_used, reason = "constants of a test are in range")]

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::bound::SampledRows;
use super::{KanonError, Shown, delta, feasible, least_epsilon, least_threshold, ln_delta};
use crate::unit::{Delta, Epsilon};

/// The shown values with their counts.
type Output = BTreeMap<u8, u64>;

/// Outputs with their probabilities.
type Outputs = BTreeMap<Output, f64>;

fn counts(rows: impl IntoIterator<Item = u8>) -> Output {
    rows.into_iter().fold(Output::new(), |mut counts, value| {
        *counts.entry(value).or_default() += 1;
        counts
    })
}

/// Iterates over the subsets of `n`, with the probability of each when every element is kept with probability `rate`.
fn samples(n: usize, rate: f64) -> impl Iterator<Item = (u32, f64)> {
    (0u32..1 << n).map(move |sample| {
        let size = sample.count_ones() as i32;
        (sample, rate.powi(size) * (1.0 - rate).powi(n as i32 - size))
    })
}

fn select_rows(rows: &[u8], sample: u32) -> impl Iterator<Item = u8> + '_ {
    rows.iter().enumerate().filter(move |(index, _)| sample >> index & 1 == 1).map(|(_, &value)| value)
}

fn collect_outputs(outputs: impl Iterator<Item = (Output, f64)>) -> Outputs {
    outputs.fold(Outputs::new(), |mut all, (output, mass)| {
        *all.entry(output).or_default() += mass;
        all
    })
}

/// Computes the mechanism as it is charged: rows are sampled, then values with fewer than k sampled rows are left out.
fn anonymize(rows: &[u8], k: u64, rate: f64, shown: Shown) -> Outputs {
    collect_outputs(samples(rows.len(), rate).map(|(sample, mass)| {
        let mut output = counts(select_rows(rows, sample));
        output.retain(|_, count| *count >= k);
        if shown == Shown::Set {
            output = output.into_keys().map(|value| (value, 1)).collect();
        }
        (output, mass)
    }))
}

/// Returns Σ max(P − e^ε Q, 0).
fn hockey_stick(p: &Outputs, q: &Outputs, epsilon: f64) -> f64 {
    p.iter().map(|(output, mass)| (mass - epsilon.exp() * q.get(output).unwrap_or(&0.0)).max(0.0)).sum()
}

fn divergence(a: &Outputs, b: &Outputs, epsilon: f64) -> f64 {
    hockey_stick(a, b, epsilon).max(hockey_stick(b, a, epsilon))
}

const DATASETS: [&[u8]; 6] =
    [&[1], &[1, 1, 1], &[1, 1, 2, 2, 3], &[1, 1, 1, 1, 1, 1], &[1, 2, 3, 4, 5], &[1, 1, 1, 1, 2, 2]];

#[test]
fn six_row_datasets_lose_at_most_the_charge() {
    let mut greatest = 0.0f64;
    for rows in DATASETS {
        for removed in 0..rows.len() {
            let mut others = rows.to_vec();
            others.remove(removed);
            for (rate, epsilon) in
                [(0.1, 0.25), (0.2, 0.25), (0.3, 1.0), (0.5, 0.7), (0.9, 2.5), (0.5, 0.1), (0.8, 0.0)]
            {
                for k in 1..=4 {
                    for shown in [Shown::Counts, Shown::CountsTight, Shown::Set] {
                        let Ok(charge) = delta(shown, k, rate, epsilon) else {
                            assert!(epsilon < least_epsilon(shown, rate));
                            continue;
                        };
                        let with = anonymize(rows, k, rate, shown);
                        let without = anonymize(&others, k, rate, shown);
                        let lost = divergence(&with, &without, epsilon);
                        assert!(
                            lost <= charge.get() * (1.0 + 1e-12),
                            "{rows:?} {k} {rate} {epsilon} {shown:?}: {lost}"
                        );
                        greatest = greatest.max(lost / charge.get());
                    }
                }
            }
        }
    }
    // Some of these are the worst case, so their loss is the charge.
    assert!(greatest > 1.0 - 1e-9, "{greatest}");
}

#[test]
fn two_row_person_loses_at_most_a_group_of_two() {
    for rows in DATASETS.iter().filter(|rows| rows.len() > 1) {
        for pair in (0..rows.len()).flat_map(|a| (a + 1..rows.len()).map(move |b| (a, b))) {
            let others: Vec<u8> = rows
                .iter()
                .enumerate()
                .filter(|(row, _)| *row != pair.0 && *row != pair.1)
                .map(|(_, &value)| value)
                .collect();
            for (rate, epsilon, k) in [(0.1, 0.25, 2), (0.3, 0.6, 3), (0.5, 0.8, 4)] {
                for shown in [Shown::Counts, Shown::CountsTight, Shown::Set] {
                    let charge = delta(shown, k, rate, epsilon).unwrap();
                    let (epsilon, charge) =
                        crate::group::epsilon_delta(Epsilon::new(epsilon).unwrap(), charge, 2).unwrap();
                    let with = anonymize(rows, k, rate, shown);
                    let without = anonymize(&others, k, rate, shown);
                    assert!(
                        divergence(&with, &without, epsilon.get()) <= charge.get() * (1.0 + 1e-12),
                        "{rows:?} {pair:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn wrong_order_of_sampling_breaks_the_guarantee() {
    let (rate, epsilon, k) = (0.1, 1.0, 3u64);
    let charge = delta(Shown::Counts, k, rate, epsilon).unwrap().get();
    // Each distinct value is kept with probability β, whatever its count; then counts of at least k are shown.
    let distinct = |copies: u64| -> Outputs {
        let output = if copies >= k { Output::from([(1, copies)]) } else { Output::new() };
        collect_outputs([(output, rate), (Output::new(), 1.0 - rate)].into_iter())
    };
    assert!(divergence(&distinct(k), &distinct(k - 1), epsilon) >= rate - 1e-12);
    assert!(rate > charge, "the sound mechanism is charged less");
    // The threshold is on all rows, and the survivors are sampled.
    let late = |copies: usize| -> Outputs {
        collect_outputs(samples(copies, rate).map(|(sample, mass)| {
            let output = if copies as u64 >= k { counts(select_rows(&vec![1; copies], sample)) } else { Output::new() };
            (output, mass)
        }))
    };
    let lost = divergence(&late(k as usize), &late(k as usize - 1), epsilon);
    assert!(lost >= 1.0 - (1.0 - rate).powi(k as i32) - 1e-12 && lost > charge);
}

#[test]
fn single_evaluation_is_greatest_over_copies() {
    for (rate, epsilon) in [(0.01, 0.02), (0.1, 0.25), (0.2, 0.25), (0.3, 0.6), (0.6, 1.0), (0.9, 2.4), (0.99, 8.0)] {
        for k in [1u32, 2, 3, 7, 20, 61] {
            let rows = SampledRows::new(rate, epsilon);
            let k = f64::from(k);
            let once = rows.ln_removed(k);
            let gamma = 1.0 - (1.0 - rate) * libm::exp(-epsilon);
            // δ_n with its own threshold at every n, far beyond the greatest.
            let last = (4.0 * k / gamma) as u32 + 200;
            let scanned = (k as u32..last).map(|n| {
                let n = f64::from(n);
                rows.ln_removed_of(n, k.max((gamma * n).floor() + 1.0))
            });
            let scanned = scanned.fold(f64::NEG_INFINITY, f64::max);
            assert!((once - scanned).abs() <= 1e-10, "{rate} {epsilon} {k}: {once} {scanned}");
        }
    }
}

fn valid() -> impl Strategy<Value = (f64, f64)> {
    (0.001f64..0.95, 1.0f64..8.0).prop_map(|(rate, factor)| (rate, -libm::log1p(-rate) * factor))
}

proptest! {
    #[test]
    fn set_exact_published_chernoff_bounds_are_ordered(
        (rate, epsilon) in valid(), k in 1u64..200
    ) {
        let of = |shown| ln_delta(shown, k, rate, epsilon).unwrap();
        let set = of(Shown::Set);
        let tight = of(Shown::CountsTight);
        let published = of(Shown::Counts);
        prop_assert!(set <= tight && tight <= published + 1e-11, "{} {} {}", set, tight, published);
        let rows = SampledRows::new(rate, epsilon);
        let gamma = 1.0 - (1.0 - rate) * libm::exp(-epsilon);
        let fewest = (k as f64 / gamma * (1.0 - 1e-12) - 1.0).ceil();
        prop_assert!(published <= -fewest * rows.chernoff() + 1e-9);
        // A value with k copies is shown with probability β^k, and never without the row.
        prop_assert!(tight >= k as f64 * libm::log(rate) - 1e-9);
    }

    #[test]
    fn delta_falls_with_threshold_epsilon_and_less_sampling((rate, epsilon) in valid(), k in 1u64..100) {
        for shown in [Shown::Counts, Shown::CountsTight, Shown::Set] {
            let here = ln_delta(shown, k, rate, epsilon).unwrap();
            prop_assert!(ln_delta(shown, k + 1, rate, epsilon).unwrap() <= here + 1e-12);
            prop_assert!(ln_delta(shown, k, rate, epsilon * 1.1).unwrap() <= here + 1e-12 || shown == Shown::Counts);
            if shown != Shown::Counts {
                prop_assert!(ln_delta(shown, k, rate * 0.9, epsilon).unwrap() <= here + 1e-12);
            }
        }
    }

    #[test]
    fn least_threshold_keeps_delta_and_one_less_does_not((rate, epsilon) in valid(), exponent in -30.0f64..-2.0) {
        let at = Epsilon::new(epsilon).unwrap();
        let target = Delta::new(libm::exp(exponent)).unwrap();
        for shown in [Shown::Counts, Shown::CountsTight, Shown::Set] {
            let k = least_threshold(shown, at, target, rate).unwrap();
            prop_assert!(delta(shown, k, rate, epsilon).unwrap() <= target);
            prop_assert!(k == 1 || delta(shown, k - 1, rate, epsilon).unwrap() > target);
        }
    }
}

#[test]
fn rates_too_large_for_epsilon_are_left_out() {
    let epsilon = Epsilon::new(0.25).unwrap();
    let target = Delta::new(1e-6).unwrap();
    let table = feasible(epsilon, target, &[0.01, 0.2, 0.3]).unwrap();
    let rows: Vec<_> = table.iter().map(|row| (row.threshold, row.threshold_tight)).collect();
    assert_eq!(rows, [(6, 4), (52, 35)]);
    assert!(feasible(epsilon, target, &[1.0]).is_err());
}

#[test]
fn sampling_all_or_none_is_refused() {
    for rate in [0.0, 1.0, -0.1, 1.5, f64::NAN] {
        assert!(matches!(delta(Shown::Counts, 5, rate, 1.0), Err(KanonError::Rate(_))), "{rate}");
    }
    assert_eq!(delta(Shown::Set, 0, 0.5, 1.0), Err(KanonError::Threshold));
    for epsilon in [0.2, -1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(delta(Shown::CountsTight, 5, 0.3, epsilon), Err(KanonError::Epsilon { .. })), "{epsilon}");
    }
}

#[test]
fn underflowing_delta_is_positive_and_found_fast() {
    let never = delta(Shown::Counts, 1_000_000, 1e-3, 1.0).unwrap().get();
    assert!(never > 0.0 && never < 1e-300);
    // Nearly everything sampled: the search gives up and takes Chernoff's bound, which is one.
    let rate = 1.0 - 1.0 / 4_294_967_296.0;
    let nearly = delta(Shown::Counts, 5, rate, 40.0).unwrap();
    assert!(nearly.get() > 0.9);
    let tiny = delta(Shown::CountsTight, 5, 1.0 / 4_294_967_296.0, 0.1).unwrap().get();
    assert!(tiny > 0.0 && tiny < 1e-40);
}
