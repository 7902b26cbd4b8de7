//! gaussian.json: the exact profile of the Gaussian and its calibration.

use undertone_privacy::Epsilon;
use undertone_privacy::calibrate::{CalibrateError, analytic_gaussian, classic_gaussian};
use undertone_privacy::gaussian::GaussianProfile;

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
    let analytic = match analytic_gaussian(epsilon, delta, sensitivity) {
        Err(CalibrateError::NoDelta) => f64::INFINITY,
        other => other.unwrap_or_else(|error| panic!("{}: {error}", case.id())),
    };
    case.bounds(analytic, case.number("sigma_analytic"), 1e-12);

    let classic = classic_gaussian(epsilon, delta, sensitivity);
    if case.truth("classic_valid") {
        let classic = classic.unwrap_or_else(|error| panic!("{}: {error}", case.id()));
        case.bounds(classic, case.number("sigma_classic"), 1e-12);
    } else {
        assert!(matches!(classic, Err(CalibrateError::ClassicNeedsSmallEpsilon { .. })), "{}: {classic:?}", case.id());
    }
    let attained = GaussianProfile::new(sensitivity, case.number("sigma_classic"));
    let attained = attained.unwrap_or_else(|error| panic!("{}: {error}", case.id())).delta(epsilon);
    let reference = case.number("delta_at_sigma_classic");
    assert!((attained - reference).abs() <= 1e-9 * reference, "{}: {attained:e} instead of {reference:e}", case.id());
}
