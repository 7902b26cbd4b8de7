//! audit.json: lower bounds on ε, never above the reference.

use undertone_privacy::audit::{Membership, OneRun, clopper_pearson};

use crate::case::{VectorCase, cases};

#[test]
fn every_audit_vector_holds() {
    for case in cases("audit") {
        match case.text("kind") {
            "one_run_p_value" => {
                let got = one_run(&case).p_value(case.epsilon(), case.delta());
                case.bounds(got, case.number("p_value"), 1e-9);
            }
            "one_run_eps" => {
                let got = one_run(&case).epsilon_lower(case.delta(), 1.0 - case.number("p"));
                let got = got.unwrap_or_else(|error| panic!("{}: {error}", case.id()));
                below(&case, got, "epsilon_lower");
            }
            "clopper_pearson_one_sided" => {
                let (lower, upper) = clopper_pearson(case.count("k"), case.count("n"), case.number("alpha"));
                below(&case, lower, "lower");
                case.bounds(upper, case.number("upper"), 1e-12);
            }
            "mia_clopper_pearson" => {
                let attack = Membership::new(
                    case.count("tp"),
                    case.count("n_members"),
                    case.count("fp"),
                    case.count("n_nonmembers"),
                );
                let bound = attack.and_then(|attack| attack.bound(case.delta(), case.number("confidence")));
                let bound = bound.unwrap_or_else(|error| panic!("{}: {error}", case.id()));
                below(&case, bound.tpr_lower, "tpr_lower");
                case.bounds(bound.fpr_upper, case.number("fpr_upper"), 1e-12);
                below(&case, bound.epsilon_lower, "epsilon_lower");
                below(&case, bound.mu_lower, "mu_gdp_lower");
                below(&case, bound.epsilon_lower_if_gaussian, "epsilon_lower_via_gdp");
            }
            _ => case.unknown(),
        }
    }
}

fn one_run(case: &VectorCase) -> OneRun {
    OneRun::new(case.count("m"), case.count("r"), case.count("v"))
        .unwrap_or_else(|error| panic!("{}: {error}", case.id()))
}

/// Checks a lower bound: never above the reference, and below it by no more than the case allows.
#[track_caller]
fn below(case: &VectorCase, got: f64, key: &str) {
    let reference = case.number(key);
    let slack = reference.abs() * case.number_or("rel_tol", 0.0) + case.number_or("abs_tol", 0.0);
    assert!(got <= reference + reference.abs() * 1e-12, "{}: `{key}` {got} is above {reference}", case.id());
    assert!(got >= reference - slack, "{}: `{key}` {got} is below {reference} by more than allowed", case.id());
}
