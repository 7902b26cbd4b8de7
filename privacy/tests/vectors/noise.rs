//! noise.json: the cost of discrete noise. The tests of the worker's sampler check that its samples follow these
//! tables.

use libm::exp;
use undertone_privacy::event::DistributedNoise;
use undertone_privacy::mechanism::{
    distributed_discrete_gaussian, distributed_sensitivity, distributed_spread, gaussian,
};
use undertone_privacy::pld::{Pair, Plan};
use undertone_privacy::unit::GridSteps;
use undertone_privacy::{Curve, Delta, Epsilon, OrderGrid, convert};

use crate::case::{VectorCase, cases};

#[test]
fn every_noise_vector_that_is_priced_holds() {
    for case in cases("noise") {
        match case.text("kind") {
            "discrete_gaussian" => discrete(&case),
            "distributed_discrete_gaussian" => distributed(&case),
            // A coin of the sampler has no charge.
            "bernoulli_exp" => {}
            _ => case.unknown(),
        }
    }
}

fn discrete(case: &VectorCase) {
    let variance: f64 = case.text("sigma2").parse().unwrap_or_else(|error| panic!("{}: {error}", case.id()));
    let sigma = variance.sqrt();
    let shift = case.number("sensitivity");
    let curve = Curve::evaluated(&OrderGrid::reporting(), |order| gaussian(sigma / shift, order.get()));
    for (order, loss) in curve.losses() {
        case.bounds(loss.to_f64_up(), case.number("zcdp_rho") * order.get(), 1e-12);
    }
    // The mechanism itself, outcome by outcome: its δ equals that of the vectors, and the curve is never below it.
    let reach = (40.0 * sigma + 10.0) as i64;
    let weight = |x: f64| exp(-x * x / (2.0 * variance));
    let all: f64 = (-reach..=reach).map(|x| weight(x as f64)).sum();
    let outcomes: Vec<(f64, f64)> = (-reach..=reach + shift as i64)
        .map(|x| (weight(x as f64) / all, weight(x as f64 - shift) / all))
        .filter(|(p, q)| *p > 1e-290 && *q > 1e-290)
        .collect();
    let mut plan = Plan::new();
    plan.add_pair(Pair::finite(&outcomes), 1);
    for (epsilon, delta) in case.table("delta_at_eps") {
        let epsilon: f64 = epsilon.parse().unwrap_or_else(|error| panic!("{}: {error}", case.id()));
        let epsilon = Epsilon::new(epsilon).unwrap_or_else(|error| panic!("{}: {error}", case.id()));
        let exact = plan.delta(epsilon).unwrap_or_else(|error| panic!("{}: {error}", case.id()));
        case.bounds(exact, delta, 1e-9);
        assert!(convert::delta(&curve, epsilon).map_or(1.0, Delta::get) >= delta, "{}: the curve is below", case.id());
    }
}

fn distributed(case: &VectorCase) {
    let grid = case.number("gamma");
    let steps = |key: &str| {
        GridSteps::new(case.number(key) / grid).unwrap_or_else(|error| panic!("{}: `{key}`: {error}", case.id()))
    };
    let count = |key: &str| {
        let count = u32::try_from(case.count(key)).ok().and_then(std::num::NonZeroU32::new);
        count.unwrap_or_else(|| panic!("{}: `{key}` is not a count of at least 1", case.id()))
    };
    let noise = DistributedNoise {
        clip: steps("l2_clip"),
        noise: steps("local_stddev"),
        contributors: count("clients"),
        dimension: count("dim"),
        rounding_bias: Delta::new(case.number("beta")).unwrap_or_else(|error| panic!("{}: {error}", case.id())),
    };
    case.bounds(distributed_sensitivity(&noise) * grid, case.number("inflated_l2"), 1e-12);
    case.bounds(distributed_spread(&noise), case.number("tau"), 1e-9);
    for (order, reference) in case.numbers("orders").into_iter().zip(case.numbers("rdp")) {
        case.bounds(distributed_discrete_gaussian(&noise, 1.0, order), reference, 1e-9);
    }
}
