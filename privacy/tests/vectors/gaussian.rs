//! gaussian.json: the exact profile of the Gaussian and its calibration.

use std::f64::consts::SQRT_2;

use libm::log;
use undertone_privacy::gaussian::GaussianProfile;
use undertone_privacy::{Delta, Epsilon};

use crate::case::{VectorCase, cases};

#[test]
fn every_gaussian_vector_holds() {
    for case in cases("gaussian") {
        match case.text("kind") {
            "calibrate" => calibrate(&case),
            "epsilon" => {
                let got = profile(&case).epsilon(case.delta()).map_or(f64::INFINITY, Epsilon::get);
                case.bounds(got, case.number("epsilon"), 1e-12);
            }
            "delta" => {
                let profile = profile(&case);
                let epsilon = case.epsilon();
                case.bounds(profile.delta(epsilon), case.number("delta"), 1e-9);
                if case.has("log_delta") {
                    case.near(profile.ln_delta(epsilon), "log_delta", 1e-9);
                }
            }
            _ => case.unknown(),
        }
    }
}

fn profile(case: &VectorCase) -> GaussianProfile {
    let one = GaussianProfile::new(case.number("l2_sensitivity"), case.number("sigma"));
    one.unwrap_or_else(|error| panic!("{}: {error}", case.id())).times(case.count("compositions"))
}

fn calibrate(case: &VectorCase) {
    let epsilon = case.epsilon();
    let delta = case.delta();
    let sensitivity = case.number("l2_sensitivity");
    case.bounds(analytic_sigma(epsilon, delta, sensitivity), case.number("sigma_analytic"), 1e-12);
    if case.truth("classic_valid") {
        case.bounds(classic_sigma(epsilon, delta, sensitivity), case.number("sigma_classic"), 1e-12);
    } else {
        assert!(epsilon.get() > 1.0, "{}: the classic formula is proven for ε of at most 1", case.id());
    }
    let attained = GaussianProfile::new(sensitivity, case.number("sigma_classic"));
    let attained = attained.unwrap_or_else(|error| panic!("{}: {error}", case.id())).delta(epsilon);
    let reference = case.number("delta_at_sigma_classic");
    assert!((attained - reference).abs() <= 1e-9 * reference, "{}: {attained:e} instead of {reference:e}", case.id());
}

/// Returns the least σ at which a Gaussian release of L2 sensitivity Δ is (ε, δ)-DP (Balle and Wang 2018); infinite for
/// δ = 0.
fn analytic_sigma(epsilon: Epsilon, delta: Delta, l2_sensitivity: f64) -> f64 {
    if l2_sensitivity == 0.0 { 0.0 } else { (l2_sensitivity / GaussianProfile::largest(epsilon, delta).mu()).next_up() }
}

/// Returns σ of the classic calibration, Δ √(2 ln(1.25/δ)) / ε, rounded up (Dwork and Roth 2014, Theorem A.1).
fn classic_sigma(epsilon: Epsilon, delta: Delta, l2_sensitivity: f64) -> f64 {
    let root = SQRT_2 * (log(1.25) - log(delta.get())).sqrt();
    l2_sensitivity * root / epsilon.get() * (1.0 + 8.0 * f64::EPSILON)
}
