//! lqs.json and lqs_set.json: guarantees of sampling with a threshold, and the searches for thresholds and rates.

use undertone_privacy::amplify::by_sampling;
use undertone_privacy::kanon::{self, KanonError, Shown, least_threshold};
use undertone_privacy::unit::SamplingRate;
use undertone_privacy::{Delta, Epsilon};

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
                assert_eq!(got, SamplingRate::floor(case.number("beta")).ok(), "{}", case.id());
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

#[test]
fn largest_rate_keeps_delta() {
    let parameters = Epsilon::new(0.5).ok().zip(Delta::new(1e-6).ok()).zip(Delta::new(1e-300).ok());
    let ((epsilon, target), hopeless) = parameters.unwrap_or_else(|| panic!("they are in range"));
    let keeps = |shown, rate| kanon::delta(shown, 20, rate, epsilon.get()).is_ok_and(|delta| delta <= target);
    for shown in [Shown::Counts, Shown::CountsTight, Shown::Set] {
        let rate = largest_rate(shown, epsilon, target, 20, 200).unwrap_or_else(|| panic!("{shown:?}")).get();
        assert!(keeps(shown, rate) && !keeps(shown, rate + 0.005), "{shown:?}");
    }
    assert_eq!(largest_rate(Shown::Counts, epsilon, hopeless, 1, 1000), None);
}

fn promised(case: &VectorCase, shown: Shown) -> f64 {
    let delta = kanon::delta(shown, case.count("k"), case.number("beta"), case.number("epsilon"));
    delta.unwrap_or_else(|error| panic!("{}: {error}", case.id())).get()
}

/// Returns the greatest rate, of the multiples of 1/`parts` (rounded down to a rate that a sampler can draw), that
/// keeps (ε, δ) at threshold `k`; `None` when not even 1/`parts` keeps it.
///
/// The published δ is not monotone in the rate, so every multiple is tried from the top. Once one keeps the guarantee,
/// so does every smaller rate (Li, Qardaji and Su 2012, Theorem 1), whatever its own bound is.
fn largest_rate(shown: Shown, epsilon: Epsilon, target: Delta, k: u64, parts: u32) -> Option<SamplingRate> {
    let rates = (1..parts).rev().map(|part| SamplingRate::floor(f64::from(part) / f64::from(parts)));
    rates.flatten().find(|rate| kanon::delta(shown, k, rate.get(), epsilon.get()).is_ok_and(|delta| delta <= target))
}
