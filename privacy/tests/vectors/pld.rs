//! pld.json and group.json: tight numbers, never below the reference bracket.

use libm::{exp, tanh};
use undertone_privacy::Epsilon;
use undertone_privacy::pld::{Pair, Plan};

use crate::case::{VectorCase, cases};

#[test]
fn every_loss_distribution_vector_holds() {
    for case in cases("pld") {
        match case.text("kind") {
            "sgm_eps" => {
                let mut plan = Plan::new();
                sampled(&mut plan, &case, case.text("adjacency"), case.count("steps"));
                tight(&case, &plan);
            }
            "sgm_hetero_eps" => {
                let mut plan = Plan::new();
                for part in case.list("parts") {
                    let part = VectorCase::part(&part);
                    sampled(&mut plan, &part, case.text("adjacency"), part.count("steps"));
                }
                tight(&case, &plan);
            }
            "mixed_eps" => {
                let mut plan = Plan::new();
                for event in case.list("events") {
                    let event = VectorCase::part(&event);
                    mechanism(&mut plan, &event, event.number_or("count", 1.0) as u64);
                }
                tight(&case, &plan);
            }
            "sgm_single_step_delta" => {
                let mut plan = Plan::new();
                sampled(&mut plan, &case, "add_remove", 1);
                let got = plan.delta(case.epsilon()).unwrap_or_else(|error| panic!("{}: {error}", case.id()));
                case.bounds(got, case.number("delta"), 1e-9);
                let larger = case.number("delta_remove").max(case.number("delta_add"));
                case.bounds(got, larger, 1e-9);
            }
            _ => case.unknown(),
        }
    }
}

#[test]
fn every_group_vector_holds() {
    for case in cases("group") {
        match case.text("kind") {
            "sgm_group_eps" => {
                let size = u32::try_from(case.count("group")).unwrap_or_else(|error| panic!("{}: {error}", case.id()));
                let q = case.number("q");
                let z = case.number("noise_multiplier");
                let mut plan = Plan::new();
                plan.add_pair(Pair::sampled_gaussian_group(q, z, size), case.count("steps"));
                tight(&case, &plan);
            }
            _ => case.unknown(),
        }
    }
}

fn sampled(plan: &mut Plan, part: &VectorCase, adjacency: &str, steps: u64) {
    let q = part.number("q");
    let z = part.number("noise_multiplier");
    match adjacency {
        "add_remove" | "zero_out" if q >= 1.0 => plan.add_gaussian(z, steps),
        "add_remove" | "zero_out" => plan.add_pair(Pair::sampled_gaussian(q, z), steps),
        "replace_one" if q >= 1.0 => plan.add_gaussian(z / 2.0, steps),
        "replace_one" => plan.add_pair(Pair::sampled_gaussian_replacing(q, z), steps),
        other => panic!("{}: no rule for adjacency `{other}`", part.id()),
    }
}

fn mechanism(plan: &mut Plan, event: &VectorCase, count: u64) {
    match event.text("type") {
        "sgm" => sampled(plan, event, "add_remove", count),
        "gaussian" => plan.add_gaussian(event.number("noise_multiplier"), count),
        "laplace" => plan.add_pair(Pair::laplace(1.0 / event.number("scale")), count),
        "eps_delta" => plan.add_pair(Pair::approximate(event.number("epsilon"), event.number("delta")), count),
        "pure" => plan.add_pair(Pair::approximate(event.number("epsilon"), 0.0), count),
        "randomized_response" => {
            let noise = event.number("p_noise");
            let k = event.number("k");
            let (truth, other) = (1.0 - noise + noise / k, noise / k);
            plan.add_pair(
                Pair::finite(&[(truth, other), (other, truth), (1.0 - truth - other, 1.0 - truth - other)]),
                count,
            );
        }
        "discrete_laplace" => {
            let a = event.number("a");
            plan.add_pair(shifted(event, |x| tanh(a / 2.0) * exp(-a * x.abs()), 60.0 / a), count);
        }
        "discrete_gaussian" => {
            let sigma = event.number("sigma");
            let reach = 40.0 * sigma + 10.0;
            let weight = |x: f64| exp(-x * x / (2.0 * sigma * sigma));
            let all: f64 = (-(reach as i64)..=(reach as i64)).map(|x| weight(x as f64)).sum();
            plan.add_pair(shifted(event, |x| weight(x) / all, reach), count);
        }
        other => panic!("no rule for a mechanism of type `{other}`"),
    }
}

/// Returns the pair of an integer noise and its shift by the sensitivity; the mass beyond `reach` is negligible.
fn shifted(event: &VectorCase, pmf: impl Fn(f64) -> f64, reach: f64) -> Pair {
    let shift = event.number_or("sensitivity", 1.0);
    let outcomes: Vec<(f64, f64)> = (-(reach as i64)..=(reach as i64 + shift as i64))
        .map(|x| (pmf(x as f64), pmf(x as f64 - shift)))
        .filter(|(p, q)| *p > 1e-290 && *q > 1e-290)
        .collect();
    Pair::finite(&outcomes)
}

/// Checks a tight number: never below the reference's lower end, and above its upper end by no more than the case
/// allows.
#[track_caller]
fn tight(case: &VectorCase, plan: &Plan) {
    let got = plan.epsilon(case.delta()).unwrap_or_else(|error| panic!("{}: {error}", case.id()));
    let got = got.map_or(f64::INFINITY, Epsilon::get);
    let lower = case.number("epsilon_lower");
    let upper = case.number("epsilon_upper");
    assert!(got >= lower * (1.0 - 1e-9), "{}: {got} is below {lower}", case.id());
    let most = upper * (1.0 + case.number("upper_tol_rel")) + case.number("upper_tol_abs");
    assert!(got <= most, "{}: {got} is above {upper} by more than allowed", case.id());
}
