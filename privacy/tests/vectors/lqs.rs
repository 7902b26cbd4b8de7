//! lqs.json and lqs_set.json: guarantees of sampling with a threshold, and the searches for thresholds and rates.

use undertone_privacy::amplify::by_sampling;
use undertone_privacy::kanon::{self, KanonError, Shown, largest_rate, least_threshold};
use undertone_privacy::unit::SamplingRate;

use crate::case::{VectorCase, cases};

#[test]
fn every_threshold_vector_holds() {
    for case in cases("lqs") {
        match case.text("kind") {
            "d" => {
                let published = promised(&case, Shown::Counts);
                case.bounds(published, case.number("delta"), 1e-12);
                case.bounds(promised(&case, Shown::CountsTight), case.number("delta_tight"), 1e-12);
                let k = case.count("k");
                let rate = case.number("beta");
                let epsilon = case.number("epsilon");
                let ln = kanon::ln_delta(Shown::Counts, k, rate, epsilon);
                case.near(ln.unwrap_or_else(|error| panic!("{}: {error}", case.id())), "log_delta", 1e-12);
            }
            "min_k" => {
                for (shown, key) in [(Shown::Counts, "k"), (Shown::CountsTight, "k_tight")] {
                    let got = least_threshold(shown, case.epsilon(), case.delta(), case.number("beta"));
                    assert_eq!(got, Ok(case.count(key)), "{}: `{key}`", case.id());
                }
            }
            "max_beta_grid_0.001" => {
                let got = largest_rate(Shown::Counts, case.epsilon(), case.delta(), case.count("k"), 1000);
                // A 0 in the file means that no rate of the grid qualifies.
                match SamplingRate::floor(case.number("beta")) {
                    Ok(rate) => assert_eq!(got, Ok(rate), "{}", case.id()),
                    Err(_) => assert!(matches!(got, Err(KanonError::Unreachable { .. })), "{}: {got:?}", case.id()),
                }
            }
            "dps_amplify" => {
                let rate = case.number("beta2") / case.number("beta1");
                let (epsilon, delta) = by_sampling(case.number("epsilon1"), case.number("delta1"), rate);
                case.bounds(epsilon, case.number("epsilon2"), 1e-12);
                case.bounds(delta, case.number("delta2"), 1e-12);
            }
            "invalid" => {
                for shown in [Shown::Counts, Shown::CountsTight] {
                    let got = kanon::delta(shown, case.count("k"), case.number("beta"), case.number("epsilon"));
                    assert!(got.is_err(), "{}: {got:?} despite {}", case.id(), case.text("reason"));
                }
            }
            _ => case.unknown(),
        }
    }
}

#[test]
fn every_vector_of_surviving_sets_holds() {
    for case in cases("lqs_set") {
        match case.text("kind") {
            "delta_set_only" => {
                let got = promised(&case, Shown::Set);
                case.bounds(got, case.number("delta"), 1e-12);
                if case.truth("lqs_applicable") {
                    case.bounds(promised(&case, Shown::CountsTight), case.number("delta_tight_counts"), 1e-12);
                    case.bounds(promised(&case, Shown::Counts), case.number("delta_lqs"), 1e-12);
                } else {
                    let refused =
                        kanon::delta(Shown::Counts, case.count("k"), case.number("beta"), case.number("epsilon"));
                    assert!(matches!(refused, Err(KanonError::Epsilon { .. })), "{}: {refused:?}", case.id());
                }
            }
            _ => case.unknown(),
        }
    }
}

fn promised(case: &VectorCase, shown: Shown) -> f64 {
    let delta = kanon::delta(shown, case.count("k"), case.number("beta"), case.number("epsilon"));
    delta.unwrap_or_else(|error| panic!("{}: {error}", case.id())).get()
}
