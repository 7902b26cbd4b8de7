//! The price against sums over all outcomes, on grids that are small enough for that.

use std::num::NonZeroU32;

use proptest::prelude::*;

use super::*;
use crate::mechanism::{poisson_sampled_discrete_gaussian, poisson_sampled_gaussian};
use crate::unit::{Delta, GridSteps};

const ORDERS: [f64; 8] = [1.007_812_5, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 8.0];

/// Returns the noise of `n` contributors whose contributions have a norm of at most `l2` in `d` coordinates, for `l2` above √d.
fn noise(n: u32, s: f64, l2: f64, d: u32) -> DistributedNoise {
    DistributedNoise {
        // Without a rounding bias the bound is C + √d.
        clip: GridSteps::new(l2 - f64::from(d).sqrt()).expect("positive"),
        noise: GridSteps::new(s).expect("positive"),
        contributors: NonZeroU32::new(n).expect("not 0"),
        dimension: NonZeroU32::new(d).expect("not 0"),
        rounding_bias: Delta::ZERO,
    }
}

/// A law on the integers from −`reach` to `reach`.
#[derive(Clone)]
struct Law {
    reach: i64,
    mass: Vec<f64>,
}

impl Law {
    fn new(reach: i64, mass: impl Fn(i64) -> f64) -> Self {
        let mut mass: Vec<f64> = (-reach..=reach).map(mass).collect();
        let total: f64 = mass.iter().sum();
        for part in &mut mass {
            *part /= total;
        }
        Self { reach, mass }
    }

    fn discrete_gaussian(variance: f64, reach: i64) -> Self {
        Self::new(reach, |x| exp(-((x * x) as f64) / (2.0 * variance)))
    }

    /// Returns the law of the sum of `n` parties' noise.
    fn sum_of(n: u32, s: f64, reach: i64) -> Self {
        let one = Self::discrete_gaussian(s * s, reach);
        (1..n)
            .fold(one.clone(), |sum, _| Self::new(reach, |z| (-reach..=reach).map(|x| one.at(x) * sum.at(z - x)).sum()))
    }

    fn at(&self, x: i64) -> f64 {
        usize::try_from(x + self.reach).ok().and_then(|place| self.mass.get(place)).copied().unwrap_or(0.0)
    }

    /// Returns the law when a contribution enters with probability `q`.
    fn with_sampled(&self, q: f64, contribution: i64) -> Self {
        let mass = |x| (1.0 - q) * self.at(x) + q * self.at(x - contribution);
        Self { reach: self.reach, mass: (-self.reach..=self.reach).map(mass).collect() }
    }
}

/// Returns D_α over pairs of masses. Outcomes whose masses are near the least number are left out: they contribute nothing.
fn divergence(pairs: impl Iterator<Item = (f64, f64)>, order: f64) -> f64 {
    let terms = pairs.filter(|(p, r)| *p > 1e-280 && *r > 1e-280);
    let sum: f64 = terms.map(|(p, r)| exp(order * libm::log(p) + (1.0 - order) * libm::log(r))).sum();
    libm::log(sum) / (order - 1.0)
}

/// Asserts that `price` bounds both directions, and returns the greater one.
fn assert_bounds(price: f64, p: &Law, r: &Law, order: f64) -> f64 {
    let pairs = || p.mass.iter().copied().zip(r.mass.iter().copied());
    let worst = divergence(pairs(), order).max(divergence(pairs().map(|(p, r)| (r, p)), order));
    assert!(price >= worst - 1e-11 && worst > 0.0, "order {order}: {price} {worst}");
    worst
}

#[test]
fn sum_of_noise_is_within_the_lemma() {
    let distance = |n: u32, s: f64| {
        let reach = (30.0 * s * f64::from(n).sqrt()) as i64;
        let sum = Law::sum_of(n, s, reach);
        let one = Law::discrete_gaussian(f64::from(n) * s * s, reach);
        let pairs = sum.mass.iter().zip(&one.mass).filter(|(_, one)| **one > 1e-120);
        pairs.map(|(sum, one)| libm::log(sum / one).abs()).fold(0.0, f64::max)
    };
    for s in [0.5, 0.6, 0.8, 1.0] {
        for n in 2..=5 {
            let bound = spread(&noise(n, s, 2.0, 1)) / 2.0;
            let exact = distance(n, s);
            assert!(exact <= bound + 1e-12, "{n} {s}: {exact} {bound}");
            // With two parties the bound is near the distance.
            assert!(n > 2 || exact >= bound / 3.0, "{s}: {exact} {bound}");
        }
    }
    // With coarser noise the bound is false, so it has no price.
    let coarse = noise(2, 0.2, 2.0, 1);
    assert!(distance(2, 0.2) > spread(&coarse) / 2.0);
    assert!(!has_price(&coarse) && has_price(&noise(1, 0.2, 2.0, 1)) && has_price(&noise(2, 0.5, 2.0, 1)));
    assert!(distributed_discrete_gaussian(&coarse, 1.0, 2.0).is_infinite());
    assert!(SampledDistributed::new(0.1, &coarse).loss(2.0).is_infinite());
}

#[test]
fn sampled_price_bounds_sums_over_all_outcomes() {
    for (n, s, l2) in [(2, 0.5, 2), (2, 1.0, 3), (3, 1.5, 2), (4, 2.0, 6)] {
        let law = Law::sum_of(n, s, 120);
        for q in [0.02, 0.3, 0.9] {
            let mut price = SampledDistributed::new(q, &noise(n, s, f64::from(l2), 1));
            for order in ORDERS {
                let charge = price.loss(order);
                // A shorter contribution loses less.
                assert_bounds(charge, &law.with_sampled(q, 1), &law, order);
                let exact = assert_bounds(charge, &law.with_sampled(q, l2.into()), &law, order);
                // Where the sum of the noise is nearly one discrete Gaussian, the theorem loses nothing.
                assert!(
                    s < 1.5 || order.fract() > 0.0 || charge <= exact * (1.0 + 1e-6),
                    "{n} {q} {order}: {charge} {exact}"
                );
            }
        }
    }
}

#[test]
fn batches_of_other_units_and_sites_are_covered() {
    // Site A has two more units and B has one, each under its own coin; the colluding site C is a constant.
    let q = 0.4;
    let noise_of_two = Law::sum_of(2, 0.7, 100);
    let without =
        [(q, 1), (q, -2), (0.8, 3), (1.0, 17)].iter().fold(noise_of_two, |law, (q, x)| law.with_sampled(*q, *x));
    let mut price = SampledDistributed::new(q, &noise(2, 0.7, 2.0, 1));
    for order in ORDERS {
        assert_bounds(price.loss(order), &without.with_sampled(q, 2), &without, order);
        let replaced = price.loss_of_replacement(order);
        assert_bounds(replaced, &without.with_sampled(q, 2), &without.with_sampled(q, -2), order);
        assert_bounds(replaced, &without.with_sampled(q, 1), &without.with_sampled(q, -2), order);
    }
}

#[test]
fn sampled_price_holds_in_two_dimensions() {
    let (q, reach) = (0.3, 40);
    for (n, s) in [(2, 0.5), (3, 0.9)] {
        let law = Law::sum_of(n, s, reach);
        let mut price = SampledDistributed::new(q, &noise(n, s, 5.0_f64.sqrt(), 2));
        let points = || (-reach..=reach).flat_map(|x| (-reach..=reach).map(move |y| (x, y)));
        let pairs = || {
            points().map(|(x, y)| {
                let base = law.at(x) * law.at(y);
                ((1.0 - q) * base + q * law.at(x - 2) * law.at(y - 1), base)
            })
        };
        for order in [1.25, 2.0, 3.5, 6.0] {
            let worst = divergence(pairs(), order).max(divergence(pairs().map(|(p, r)| (r, p)), order));
            assert!(price.loss(order) >= worst - 1e-11 && worst > 0.0, "{n} {s} {order}: {worst}");
        }
    }
}

#[test]
fn every_unit_in_the_sum_costs_the_unsampled_price() {
    for (n, s) in [(2, 0.6), (7, 3.0)] {
        let noise = noise(n, s, 9.0, 4);
        let mut all = SampledDistributed::new(1.0, &noise);
        let mut none = SampledDistributed::new(0.0, &noise);
        for order in ORDERS {
            assert_eq!(all.loss(order).to_bits(), distributed_discrete_gaussian(&noise, 1.0, order).to_bits());
            let replaced = distributed_discrete_gaussian(&noise, 2.0, order);
            assert_eq!(all.loss_of_replacement(order).to_bits(), replaced.to_bits());
            assert!(none.loss(order) <= 0.0 && none.loss_of_replacement(order) <= 0.0);
        }
    }
}

#[test]
fn one_contributor_costs_one_discrete_gaussian() {
    let mut one = SampledDistributed::new(0.1, &noise(1, 3.0, 4.0, 1));
    for order in [2.0, 3.0, 16.0] {
        let discrete = poisson_sampled_discrete_gaussian(0.1, 0.75, order);
        assert!((one.loss(order) / discrete - 1.0).abs() < 1e-12, "{order}");
    }
}

#[test]
fn fine_grid_costs_the_continuous_gaussian_at_every_order() {
    let mut fine = SampledDistributed::new(0.05, &noise(4, 5_000.0, 10_000.0, 1_000_000));
    for order in ORDERS {
        let continuous = poisson_sampled_gaussian(0.05, 1.0, order);
        assert!((fine.loss(order) / continuous - 1.0).abs() < 1e-9, "{order}: {} {continuous}", fine.loss(order));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn sampled_price_rises_with_the_rate(
        a in 1e-6f64..1.0, b in 1e-6f64..1.0, n in 1u32..60, s in 0.5f64..20.0, l2 in 1.1f64..50.0, order in 1.01f64..70.0
    ) {
        let noise = noise(n, s, l2, 1);
        let price = |q: f64, order| SampledDistributed::new(q, &noise).loss(order);
        for order in [order, order.ceil()] {
            let (less, more) = (price(a.min(b), order), price(a.max(b), order));
            prop_assert!(less <= more * (1.0 + 1e-9), "{} {}", less, more);
            prop_assert!(more <= distributed_discrete_gaussian(&noise, 1.0, order));
        }
    }
}
