//! rdp.json: Rényi curves at integer and fractional orders, and their conversion.

use undertone_privacy::mechanism::{laplace, poisson_sampled_gaussian, pure};
use undertone_privacy::{Curve, Delta, Epsilon, convert};

use crate::case::{VectorCase, cases};
use crate::fixed_size::fixed_size_sampled_gaussian;

#[test]
fn every_renyi_vector_holds() {
    for case in cases("rdp") {
        match case.text("kind") {
            "sgm_rdp" => {
                let got = poisson_sampled_gaussian(case.number("q"), case.number("sigma"), case.number("order"));
                case.bounds(got, case.number("rdp"), 1e-12);
                if case.has("reverse_direction_rdp") {
                    assert!(got >= case.number("reverse_direction_rdp") * (1.0 - 1e-12), "{}: reverse", case.id());
                }
            }
            "sgm_eps_intgrid" => {
                let q = case.number("q");
                let z = case.number("sigma");
                let step = Curve::evaluated(&case.grid(), |order| poisson_sampled_gaussian(q, z, order.get()));
                epsilon(&case, &step.times(case.count("steps")), 1e-9);
            }
            "rdp_to_eps" => epsilon(&case, &case.curve("rdp"), 1e-12),
            "rdp_to_delta" => {
                let curve = case.curve("rdp");
                let at = case.epsilon();
                let got = convert::delta(&curve, at).map_or(1.0, Delta::get);
                case.bounds(got, case.number("delta"), 1e-10);
                case.near(convert::ln_delta(&curve, at), "log_delta", 1e-10);
            }
            "laplace_rdp" => {
                let got = laplace(case.number("epsilon"), case.number("order"));
                case.bounds(got, case.number("rdp"), 1e-12);
            }
            "pure_dp_rdp" => {
                let got = pure(case.number("epsilon"), case.number("order"));
                case.bounds(got, case.number("rdp"), 1e-12);
            }
            "wor_rdp_replace_one" => {
                let rate = case.number("sample_size") / case.number("dataset_size");
                let got = fixed_size_sampled_gaussian(rate, case.number("noise_multiplier"), case.number("order"));
                case.bounds(got, case.number("rdp"), 1e-9);
            }
            _ => case.unknown(),
        }
    }
}

#[track_caller]
fn epsilon(case: &VectorCase, curve: &Curve, slack: f64) {
    let got = convert::epsilon(curve, case.delta()).map_or(f64::INFINITY, Epsilon::get);
    case.bounds(got, case.number("epsilon"), slack);
}
