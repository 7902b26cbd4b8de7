//! Laws of the tight number: exact where there is a closed form, never below it, and never above the Rényi bound.

#![expect(clippy::unwrap_used, reason = "constants of a test are in range")]

mod exact;

use libm::{exp, expm1};
use proptest::prelude::*;

use super::{Pair, Plan};
use crate::adjacency::Adjacency;
use crate::convert;
use crate::curve::OrderGrid;
use crate::event::Event;
use crate::gaussian::GaussianProfile;
use crate::mechanism;
use crate::special::ln_binomial;
use crate::unit::{Delta, Epsilon, NoiseMultiplier, SamplingRate};

fn sampled(q: f64, z: f64) -> Event {
    let sampling_rate = SamplingRate::new(q).unwrap();
    let noise_multiplier = NoiseMultiplier::new(z).unwrap();
    Event::PoissonSampledGaussian { sampling_rate, noise_multiplier }
}

fn epsilon(plan: &Plan, delta: f64) -> f64 {
    plan.epsilon(Delta::new(delta).unwrap()).unwrap().map_or(f64::INFINITY, Epsilon::get)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn grid_gaussians_bound_closed_form_closely(
        ln_z in -1.5f64..2.0, steps in 1u64..2000, ln_delta in -23.0f64..-3.0
    ) {
        let z = exp(ln_z);
        let delta = exp(ln_delta);
        let mut plan = Plan::new();
        plan.add_pair(Pair::sampled_gaussian(1.0, z), steps);
        let exact = GaussianProfile::new(1.0, z).unwrap().times(steps).epsilon(Delta::new(delta).unwrap()).unwrap().get();
        let got = epsilon(&plan, delta);
        prop_assert!(got >= exact * (1.0 - 1e-9), "{} {}", got, exact);
        prop_assert!(got <= exact * 1.002 + 1e-4, "{} {}", got, exact);
    }

    #[test]
    fn randomized_response_matches_binomial_sum(epsilon0 in 0.05f64..2.0, steps in 1u64..60, ln_delta in -20.0f64..-2.0) {
        let mut plan = Plan::new();
        plan.add_pair(Pair::approximate(epsilon0, 0.0), steps);
        let got = epsilon(&plan, exp(ln_delta));
        // δ(ε) = Σ_k C(T,k) p^k (1−p)^{T−k} (1 − e^{ε − (2k−T) ε₀})⁺ at the answer, and a little below it.
        let delta = |epsilon: f64| -> f64 {
            let t = steps as f64;
            (0..=steps).map(|k| {
                let k = k as f64;
                let mass = exp(ln_binomial(t, k) - k * libm::log1p(exp(-epsilon0)) - (t - k) * libm::log1p(exp(epsilon0)));
                mass * (-expm1(epsilon - (2.0 * k - t) * epsilon0)).max(0.0)
            }).sum()
        };
        prop_assert!(delta(got * (1.0 + 1e-9)) <= exp(ln_delta), "{}", got);
        prop_assert!(got <= 1e-9 || delta(got * 0.995 - 1e-3) > exp(ln_delta), "{}", got);
    }

    #[test]
    fn tight_number_is_below_renyi_bound_and_monotone(
        ln_q in -6.0f64..-0.1, ln_z in -0.7f64..2.0, steps in 1u64..3000
    ) {
        let q = exp(ln_q);
        let z = exp(ln_z);
        let delta = 1e-6;
        let at = |z: f64, steps: u64| epsilon(&Plan::of(&sampled(q, z).times(steps), Adjacency::AddRemove), delta);
        let got = at(z, steps);
        let curve = mechanism::curve(&sampled(q, z).times(steps), Adjacency::AddRemove, &OrderGrid::reporting()).unwrap();
        let renyi = convert::epsilon(&curve, Delta::new(delta).unwrap()).unwrap().get();
        prop_assert!(got <= renyi * 1.001 + 1e-6, "{} {}", got, renyi);
        prop_assert!(at(z * 1.1, steps) <= got * 1.001 + 1e-9);
        prop_assert!(at(z, 2 * steps) >= got * 0.999);
        let replaced = epsilon(&Plan::of(&sampled(q, z).times(steps), Adjacency::ReplaceOne), delta);
        prop_assert!(replaced >= got * 0.999);
    }

    #[test]
    fn mixtures_stay_below_renyi_bound_in_any_order(
        ln_q in -6.0f64..-0.5, z in 0.7f64..5.0, laplace in 0.01f64..0.6, side in 0.01f64..0.6, steps in 1u64..400
    ) {
        let of = |value: f64| Epsilon::new(value).unwrap();
        let mixed = |q: f64| vec![
            sampled(q, z).times(steps),
            Event::Laplace { epsilon: of(laplace) }.times(3),
            Event::Gaussian { noise_multiplier: NoiseMultiplier::new(3.0 * z).unwrap() },
            Event::Approximate { epsilon: of(side), delta: Delta::new(1e-8).unwrap() },
            sampled((2.0 * q).min(1.0), 1.5 * z).times(7),
        ];
        let at = |events: Vec<Event>, delta: f64| epsilon(&Plan::of(&Event::Composed { events }, Adjacency::AddRemove), delta);
        let q = exp(ln_q);
        let delta = 1e-6;
        let got = at(mixed(q), delta);
        let whole = Event::Composed { events: mixed(q) };
        let curve = mechanism::curve(&whole, Adjacency::AddRemove, &OrderGrid::reporting()).unwrap();
        let renyi = convert::epsilon(&curve, Delta::new(delta).unwrap()).unwrap().get();
        prop_assert!(got <= renyi * 1.001 + 1e-6, "{} {}", got, renyi);
        let turned = at(mixed(q).into_iter().rev().collect(), delta);
        prop_assert!((got - turned).abs() <= 1e-6 * got + 1e-9, "{} {}", got, turned);
        prop_assert!(at(mixed(q), 10.0 * delta) <= got);
        prop_assert!(at(mixed(0.8 * q), delta) <= got * 1.001 + 1e-6);
        // More of any parameter never costs less.
        let more = mixed(q).into_iter().chain([Event::Laplace { epsilon: of(0.1) }]).collect();
        prop_assert!(at(more, delta) >= got * 0.999);
    }

    #[test]
    fn epsilon_and_delta_bound_each_other(
        ln_q in -10.0f64..-0.1, z in 0.5f64..6.0, steps in 2u64..500, ln_delta in -26.0f64..-2.0
    ) {
        let plan = Plan::of(&sampled(exp(ln_q), z).times(steps), Adjacency::AddRemove);
        let delta = exp(ln_delta);
        let got = epsilon(&plan, delta);
        let back = plan.delta(Epsilon::new(got).unwrap()).unwrap();
        // Each exceeds the truth by the cost of its own grid: about a thousandth of ε; of δ, where it falls steeply,
        // more.
        prop_assert!((0.9..=1.5).contains(&(back / delta)) || got <= 0.0, "{} {:e} {:e}", got, delta, back);
    }
}

#[test]
fn leak_has_no_epsilon_and_empty_plan_is_free() {
    let leak = Plan::of(&Event::NonPrivate.times(1), Adjacency::AddRemove);
    assert_eq!(leak.epsilon(Delta::new(0.1).unwrap()), Ok(None));
    assert_eq!(leak.delta(Epsilon::new(5.0).unwrap()), Ok(1.0));
    for nothing in [Plan::new(), Plan::of(&Event::NonPrivate.times(0), Adjacency::AddRemove)] {
        assert_eq!(nothing.epsilon(Delta::new(0.0).unwrap()), Ok(Epsilon::new(0.0).ok()));
    }
}

#[test]
fn only_pure_plans_have_epsilon_at_delta_zero() {
    let laplace = Event::Laplace { epsilon: Epsilon::new(0.5).unwrap() };
    let at_zero = |event: &Event| epsilon(&Plan::of(event, Adjacency::AddRemove), 0.0);
    assert!((at_zero(&laplace.clone().times(4)) - 2.0).abs() < 1e-12);
    let mixed = Event::Composed { events: vec![laplace, sampled(0.5, 1.0)] };
    assert!(at_zero(&mixed).is_infinite());
}

#[test]
fn side_mass_above_delta_leaves_no_epsilon() {
    let event = Event::Approximate { epsilon: Epsilon::new(0.5).unwrap(), delta: Delta::new(1e-7).unwrap() }.times(20);
    let plan = Plan::of(&event, Adjacency::AddRemove);
    assert!(epsilon(&plan, 1e-6).is_infinite());
    assert!(epsilon(&plan, 1e-5) < 10.0);
}

#[test]
fn delta_of_very_small_epsilon_is_below_one() {
    // The tilt of these cases is near the strongest, and an earlier search overshot it.
    for (ln_q, z, steps, ln_delta) in
        [(-6.807f64, 3.0167, 2u64, -25.963f64), (-6.8, 3.0, 2, -20.0), (-6.0, 4.0, 3, -24.0)]
    {
        let plan = Plan::of(&sampled(exp(ln_q), z).times(steps), Adjacency::AddRemove);
        let delta = exp(ln_delta);
        let got = epsilon(&plan, delta);
        let at = |part: f64| plan.delta(Epsilon::new(got * part).unwrap()).unwrap();
        assert!((0.99..=1.01).contains(&(at(1.0) / delta)), "{ln_q} {z}: {:e} for {delta:e}", at(1.0));
        let falling = [0.5, 0.8, 0.99, 1.0, 1.01, 1.5, 3.0].map(at);
        assert!(falling[0] < 1e-5 && falling.is_sorted_by(|a, b| a > b), "{ln_q} {z}: {falling:?}");
    }
}
