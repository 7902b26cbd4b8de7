//! The exact loss against a sum over all outcomes at every number of copies, and against enumerated samples.

#![expect(clippy::unwrap_used, reason = "constants of a test are in range")]

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use libm::{exp, log, log1p, pow};
use proptest::prelude::*;

use super::super::{Shown, delta, least_epsilon};
use super::{TextRelease, bernoulli, rise};
use crate::adjacency::Adjacency;
use crate::convert;
use crate::curve::{Curve, OrderGrid};
use crate::event::Event;
use crate::mechanism;
use crate::special::binomial_pmf;
use crate::unit::{Delta, Epsilon, SamplingRate};

fn event(shown: Shown, k: u32, rate: f64, epsilon: f64, rows: u32) -> Event {
    Event::SampledThreshold {
        sampling_rate: SamplingRate::new(rate).unwrap(),
        threshold: NonZeroU32::new(k).unwrap(),
        epsilon: Epsilon::new(epsilon).unwrap(),
        shown,
        rows_per_unit: NonZeroU32::new(rows).unwrap(),
    }
}

fn price(event: &Event) -> Curve {
    mechanism::curve(event, Adjacency::ZeroOut, &OrderGrid::standard()).unwrap()
}

fn loss_at(curve: &Curve, order: f64) -> f64 {
    curve.losses().find(|(at, _)| (at.get() - order).abs() < 1e-9).unwrap().1.to_f64_up()
}

/// Returns the loss of one text at one number of copies, by a sum over all outcomes.
fn loss_of(shown: Shown, k: u32, rate: f64, epsilon: f64, side: f64, n: u32, order: f64) -> f64 {
    let mass = |n: u32, j: u32| binomial_pmf(f64::from(n), f64::from(j), rate, 1.0 - rate);
    let hidden = |n: u32| (0..k.min(n + 1)).map(|j| mass(n, j)).sum::<f64>();
    let shown_mass = |n: u32| (k..=n).map(|j| mass(n, j)).sum::<f64>();
    let divergence = |pairs: &[(f64, f64)]| {
        let sum: f64 =
            pairs.iter().filter(|pair| pair.0 > 0.0).map(|&(p, q)| exp(order * log(p) + (1.0 - order) * log(q))).sum();
        log(sum) / (order - 1.0)
    };
    let pairs: Vec<(f64, f64)> = if shown.shows_counts() {
        let trimmed = |p: f64, q: f64| p.min(exp(epsilon) * q);
        let mut pairs = vec![(trimmed(hidden(n), hidden(n - 1)), hidden(n - 1))];
        pairs.extend((k..n).map(|j| (trimmed(mass(n, j), mass(n - 1, j)), mass(n - 1, j))));
        let kept: f64 = pairs.iter().map(|pair| pair.0).sum();
        pairs.iter().map(|&(p, q)| (p / kept, q)).collect()
    } else {
        let (p, q) = (shown_mass(n), shown_mass(n - 1));
        if p - q <= side {
            return 0.0;
        }
        let kept = 1.0 - side;
        vec![((p - side) / kept, q / kept), (hidden(n) / kept, (hidden(n - 1) - side) / kept)]
    };
    let back: Vec<(f64, f64)> = pairs.iter().map(|&(p, q)| (q, p)).collect();
    divergence(&pairs).max(divergence(&back))
}

#[test]
fn exact_threshold_price_is_far_below_todays() {
    let (k, rate, epsilon) = (20, 0.05, 0.25);
    let exact = loss_at(&price(&event(Shown::SetRenyi, k, rate, epsilon, 1)), 8.0);
    assert!((3.6e-4..3.71e-4).contains(&exact), "{exact:e}");
    let counts = loss_at(&price(&event(Shown::CountsRenyi, k, rate, epsilon, 1)), 8.0);
    assert!((exact..2.0 * exact).contains(&counts), "{counts:e}");
    let today = loss_at(&price(&event(Shown::CountsTight, k, rate, epsilon, 1)), 8.0);
    assert!((0.17..0.172).contains(&today), "{today}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn loss_bounds_every_number_of_copies(
        rate in 0.02f64..0.9, factor in 1.0f64..4.0, k in 1u32..40, ln_order in -4.0f64..3.5, counts in any::<bool>()
    ) {
        let shown = if counts { Shown::CountsRenyi } else { Shown::SetRenyi };
        let epsilon = factor * least_epsilon(Shown::Counts, rate);
        let order = 1.0 + exp(ln_order);
        let side = delta(shown, k.into(), rate, epsilon).unwrap().get();
        let release = TextRelease::new(shown, k, rate, epsilon, side);
        let bound = release.loss(order) * (1.0 + 1e-9) + 1e-15;
        let last = (3.0 * f64::from(k) / rate) as u32 + 60;
        let losses: Vec<f64> = (k + 1..last).map(|n| loss_of(shown, k, rate, epsilon, side, n, order)).collect();
        let greatest = losses.iter().copied().fold(0.0, f64::max);
        // With counts, the decomposition of the full counts at some a ≥ k/γ serves for all n ≥ a.
        let mut bounded = losses.iter().take_while(|loss| **loss <= bound).zip(k + 1..);
        let is_covered = if counts {
            bounded.any(|(_, a)| {
                f64::from(a) * release.rows.gamma() >= f64::from(k) && loss_of(shown, 0, rate, epsilon, side, a, order) <= bound
            })
        } else {
            greatest <= bound
        };
        prop_assert!(is_covered, "{} {}", bound, greatest);
        // With counts, the forward bound counts the side mass at every order.
        let slack = if counts { 1.3 * greatest + 3.0 * order / (order - 1.0) * side } else { 1.01 * greatest };
        prop_assert!(bound <= slack + 1e-12 || bound >= mechanism::pure(epsilon, order), "{} {}", bound, greatest);
    }

    #[test]
    fn exact_price_never_exceeds_todays(
        rate in 0.01f64..0.9, factor in 1.0f64..5.0, k in 1u32..60, rows in 1u32..5, counts in any::<bool>()
    ) {
        let epsilon = factor * least_epsilon(Shown::Counts, rate);
        let today = if counts { Shown::CountsTight } else { Shown::Set };
        let grid = OrderGrid::reporting();
        for adjacency in [Adjacency::ZeroOut, Adjacency::ReplaceOne] {
            let of = |shown| mechanism::curve(&event(shown, k, rate, epsilon, rows), adjacency, &grid);
            let Ok(today) = of(today) else { continue };
            let exact = of(today_exact(counts)).unwrap();
            // Each text's side mass is rounded up to a unit of its own.
            prop_assert!(exact.side_delta().units() <= today.side_delta().units() + 16);
            // The pure pair of counts loses ε − ln(1 − δ).
            let more = 1.0 + if counts { 4.0 * today.side_delta().to_f64_up() / epsilon } else { 1e-9 };
            for ((order, exact), (_, today)) in exact.losses().zip(today.losses()) {
                prop_assert!(exact.to_f64_up() <= today.to_f64_up() * more * more, "{:?}", order);
            }
        }
    }

    #[test]
    fn bernoulli_loss_matches_its_sum(ln_t in -9.0f64..2.0, q in 1e-6f64..0.999, ln_order in -6.0f64..3.0) {
        let (t, order) = (exp(ln_t), 1.0 + exp(ln_order));
        prop_assume!(q * (1.0 + t) < 1.0 - 1e-6);
        let p = q * (1.0 + t);
        let sum = log(pow(p, order) * pow(q, 1.0 - order) + pow(1.0 - p, order) * pow(1.0 - q, 1.0 - order)) / (order - 1.0);
        let got = bernoulli(t, q, order);
        prop_assert!((got - sum).abs() <= 1e-9 * sum + 3e-15 / (order - 1.0), "{:e} {:e}", got, sum);
        prop_assert!(rise(t, order) >= 0.0 && rise(-q, order) >= 0.0);
    }
}

/// Stored accounts were charged these units; see the golden bits of `mechanism/laws.rs`.
#[test]
fn exact_threshold_prices_match_golden_bits() {
    let units = [Shown::SetRenyi, Shown::CountsRenyi].map(|shown| {
        let cost = price(&event(shown, 20, 0.05, 0.25, 2));
        let all = cost.losses().map(|(_, loss)| loss).chain([cost.side_delta()]);
        all.map(|units| units.to_string()).collect::<Vec<String>>()
    });
    assert_eq!(units, GOLDEN);
}

/// Units of 2⁻⁶⁴ nat, by order, and of the side mass.
const GOLDEN: [[&str; 9]; 2] = [
    [
        "3372827807390372",
        "5070659671394324",
        "6776248707604946",
        "10219228378575680",
        "13678475328933950",
        "27889525433225148",
        "58183214378024600",
        "129391894027404784",
        "247320100",
    ],
    [
        "4270330054114192",
        "6429512697448168",
        "8599349431707410",
        "12953882229119970",
        "17353353568262906",
        "35545685906533744",
        "74570441247466944",
        "167244511357998656",
        "247320100",
    ],
];

const fn today_exact(counts: bool) -> Shown {
    if counts { Shown::CountsRenyi } else { Shown::SetRenyi }
}

/// Returns the distribution of the output on rows of few distinct texts.
fn outputs(rows: &[u8], k: u32, rate: f64, counts: bool) -> BTreeMap<Vec<(u8, u32)>, f64> {
    let mut all = BTreeMap::new();
    for sample in 0u32..1 << rows.len() {
        let mut output = BTreeMap::<u8, u32>::new();
        for (index, text) in rows.iter().enumerate() {
            if sample >> index & 1 == 1 {
                *output.entry(*text).or_default() += 1;
            }
        }
        let kept = sample.count_ones() as i32;
        let mass = pow(rate, f64::from(kept)) * exp(f64::from(rows.len() as i32 - kept) * log1p(-rate));
        let output = output.into_iter().filter(|(_, count)| *count >= k);
        let output = output.map(|(text, count)| (text, if counts { count } else { 1 })).collect();
        *all.entry(output).or_insert(0.0) += mass;
    }
    all
}

/// A user with one row of each of several texts is removed: the price of that many texts covers the exact hockey stick.
#[test]
fn several_texts_of_a_user_lose_at_most_their_sum() {
    let mut greatest = 0.0f64;
    for (rows, texts) in [(&[1u8, 1, 1, 2, 2, 3, 3, 3][..], 3), (&[1, 1, 1, 1, 2, 2, 2, 2, 2], 2), (&[1, 1, 1, 2], 2)] {
        let mut others = rows.to_vec();
        (1..=texts).for_each(|text| {
            let at = others.iter().position(|row| u32::from(*row) == text).unwrap();
            others.remove(at);
        });
        for (rate, epsilon, k) in [(0.1, 0.15, 2), (0.3, 0.5, 2), (0.2, 0.6, 1), (0.5, 0.9, 3)] {
            for counts in [false, true] {
                let shown = today_exact(counts);
                let cost = mechanism::curve(
                    &event(shown, k, rate, epsilon, texts),
                    Adjacency::AddRemove,
                    &OrderGrid::reporting(),
                );
                let Ok(cost) = cost else { continue };
                let with = outputs(rows, k, rate, counts);
                let without = outputs(&others, k, rate, counts);
                for at in [0.0, 0.05, 0.2, 0.5, 1.0, 2.0] {
                    let stick = |a: &BTreeMap<_, f64>, b: &BTreeMap<_, f64>| -> f64 {
                        a.iter().map(|(output, p)| (p - exp(at) * b.get(output).unwrap_or(&0.0)).max(0.0)).sum()
                    };
                    let lost = stick(&with, &without).max(stick(&without, &with));
                    let charged = convert::delta(&cost, Epsilon::new(at).unwrap()).map_or(1.0, Delta::get);
                    assert!(lost <= charged * (1.0 + 1e-12), "{rows:?} {rate} {k} {counts} {at}: {lost:e} {charged:e}");
                    greatest = greatest.max(lost / charged);
                }
            }
        }
    }
    assert!(greatest > 0.3, "the price is not loose everywhere: {greatest}");
}
