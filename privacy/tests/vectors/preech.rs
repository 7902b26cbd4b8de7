//! preech.json: dummy words by truncated Laplace noise, over one provider and over several.

use std::num::NonZeroU32;

use undertone_privacy::amplify::{before_sampling, by_sampling};
use undertone_privacy::histogram::{Differences, Partition, TruncatedLaplace};
use undertone_privacy::{Delta, Epsilon};

use crate::case::{VectorCase, cases};

#[test]
fn every_dummy_word_vector_holds() {
    for case in cases("preech") {
        match case.text("kind") {
            "calibrate" => calibrate(&case),
            "unpartitioned" => unpartitioned(&case),
            "thm44_cmin" => {
                let documents: Vec<Vec<u64>> =
                    case.list("histograms").iter().map(|counts| read_counts(&case, counts)).collect();
                let got = printed_topic_bound(&documents, case.number("v"));
                case.near(got, "cmin", 1e-12);
                assert!(got <= 0.0, "{}: the printed bound is positive", case.id());
            }
            "thm42" => {
                let epsilon = case.number("epsilon");
                let delta = case.number("delta");
                let rate = case.number("beta");
                let (after, mass) = by_sampling(epsilon, delta, rate);
                case.bounds(after, case.number("amplified_epsilon"), 1e-13);
                case.bounds(mass, case.number("amplified_delta"), 1e-13);
                // Allowances are rounded the other way.
                let (before, mass) = before_sampling(epsilon, delta, rate);
                check_allowance(&case, before, "inverse_epsilon");
                check_allowance(&case, mass, "inverse_delta");
            }
            _ => case.unknown(),
        }
    }
}

#[test]
fn printed_topic_bound_is_never_positive() {
    for documents in [vec![vec![10, 5, 3, 2]], vec![vec![4, 4, 4]], vec![vec![1, 9, 2], vec![7, 7]]] {
        assert!(printed_topic_bound(&documents, 7.0) <= 0.0);
    }
}

/// Returns the lower bound on the movement of a transcript's topics that was published for choosing d, with `noise`
/// dummies for each word: min over documents and words of v(|D| − |w| ω) / (|D| (|D| + v ω)), ω words in D. It is of no
/// use for that purpose: the numerators of a document sum to 0, so it is at most 0, and 0 only when all counts are
/// equal. It is implemented as evidence of this. Infinite without a word.
fn printed_topic_bound(documents: &[Vec<u64>], noise: f64) -> f64 {
    topic_terms(documents, noise).fold(f64::INFINITY, f64::min)
}

fn topic_terms(documents: &[Vec<u64>], noise: f64) -> impl Iterator<Item = f64> + '_ {
    documents.iter().flat_map(move |counts| {
        let size = counts.iter().sum::<u64>() as f64;
        let words = counts.len() as f64;
        counts.iter().map(move |&count| noise * (size - count as f64 * words) / (size * (size + noise * words)))
    })
}

fn calibrate(case: &VectorCase) {
    let epsilon = number(case, "target_epsilon", Epsilon::new);
    let delta = number(case, "target_delta", Delta::new);
    let distance = count(case, "d");
    let providers = count(case, "n_csps");
    let partition =
        |colluding| Partition::new(providers, colluding).unwrap_or_else(|error| panic!("{}: {error}", case.id()));
    let one = partition(NonZeroU32::MIN);
    for (differences, key) in [(Differences::OneWay, "eta0_corrected"), (Differences::Mixed, "eta0_corrected_mixed")] {
        let noise = TruncatedLaplace::calibrated(epsilon, delta, distance, one, differences);
        let noise = noise.unwrap_or_else(|error| panic!("{}: {error}", case.id()));
        assert_eq!(u64::from(noise.shift()), case.count(key), "{}: `{key}`", case.id());
        let (cost, mass) = noise.guarantee(distance, one, differences);
        assert!(
            cost <= epsilon.get() * (1.0 + 1e-12) && mass <= delta.get() * (1.0 + 1e-9),
            "{}: {cost} {mass}",
            case.id()
        );
    }

    let noise = exact_noise(case, "base_epsilon", "eta0_corrected");
    assert!((noise.rate() - -case.number("alpha").ln()).abs() <= 1e-12, "{}", case.id());
    case.near(noise.probability(noise.shift().into()), "p", 1e-12);
    case.bounds(noise.probability(0), case.number("prob_zero_corrected"), 1e-9);
    case.bounds(noise.mean(), case.number("mean_noise"), 1e-9);
    case.bounds(noise.variance(), case.number("var_noise"), 1e-9);
    let words = f64::from(providers.get()) * case.number("vocab");
    case.bounds(noise.mean() * words, case.number("expected_dummy_words_total"), 1e-9);
    for (dummies, probability) in case.table("pmf_corrected") {
        let dummies = dummies.parse().unwrap_or_else(|error| panic!("{}: {error}", case.id()));
        case.bounds(noise.probability(dummies), probability, 1e-9);
    }
    check_charge(case, noise, distance, "corrected_delta");
    let published = exact_noise(case, "base_epsilon", "eta0_paper_ceil");
    check_charge(case, published, distance, "paper_delta");
    let factor = published.delta(distance) / case.number("base_delta");
    assert!((factor / case.number("paper_violation_factor") - 1.0).abs() < 1e-2, "{}: {factor}", case.id());

    for (colluding, promise) in case.lists("collusion") {
        let colluding = colluding.parse().unwrap_or_else(|error| panic!("{}: {error}", case.id()));
        let (sampled, mass) =
            by_sampling(case.number("base_epsilon"), case.number("base_delta"), partition(colluding).share());
        case.bounds(sampled, promise[0], 1e-9);
        case.bounds(mass, promise[1], 1e-9);
        let (cost, kept) = noise.guarantee(distance, partition(colluding), Differences::OneWay);
        case.bounds(cost, promise[0], 1e-9);
        assert!(kept <= promise[1] * (1.0 + 1e-9), "{}: {kept}", case.id());
    }
}

fn unpartitioned(case: &VectorCase) {
    let epsilon = case.epsilon();
    let delta = case.delta();
    let distance = count(case, "d");
    let noise = TruncatedLaplace::calibrated(epsilon, delta, distance, Partition::NONE, Differences::OneWay);
    let noise = noise.unwrap_or_else(|error| panic!("{}: {error}", case.id()));
    assert_eq!(u64::from(noise.shift()), case.count("eta0_corrected"), "{}", case.id());
    let noise = exact_noise(case, "epsilon", "eta0_corrected");
    case.near(noise.probability(noise.shift().into()), "p", 1e-12);
    case.bounds(noise.mean(), case.number("mean_noise_corrected"), 1e-9);
    case.bounds(noise.variance(), case.number("var_noise_corrected"), 1e-9);
    let published = exact_noise(case, "epsilon", "eta0_paper_ceil");
    case.bounds(published.mean(), case.number("mean_noise_paper_ceil"), 1e-9);
    // The worst case is exact there; the charge is a union bound of it.
    let worst = case.number("paper_delta_worst");
    let got = published.delta(distance);
    assert!(got >= worst * (1.0 - 1e-12) && got <= worst * (1.0 + worst), "{}: {got} {worst}", case.id());
    let factor = worst / case.number("delta");
    assert!((factor / case.number("paper_violation_factor") - 1.0).abs() < 1e-9, "{}: {factor}", case.id());
}

/// Checks that δ of d copies of one word, and of d different words, is never above the charge, and the larger nearly
/// equals it.
fn check_charge(case: &VectorCase, noise: TruncatedLaplace, distance: NonZeroU32, key: &str) {
    let d = f64::from(distance.get());
    let zero = noise.probability(0);
    let rate = noise.rate();
    let one = zero * (rate * (d - 1.0)).exp();
    let distinct = -(d * (-zero).ln_1p()).exp_m1();
    case.bounds(one, case.number(&format!("{key}_if_one_word")), 1e-9);
    case.bounds(distinct, case.number(&format!("{key}_if_all_distinct")), 1e-9);
    let got = noise.delta(distance);
    let worst = one.max(distinct);
    assert!(got >= worst && got <= worst * (1.0 + 2.0 * worst), "{}: {got} {one} {distinct}", case.id());
}

/// Makes noise of the exact parameters of the case.
fn exact_noise(case: &VectorCase, epsilon: &str, shift: &str) -> TruncatedLaplace {
    let rate = Epsilon::new(case.number(epsilon) / case.number("d"));
    let shift = u32::try_from(case.count(shift)).unwrap_or_else(|error| panic!("{}: {error}", case.id()));
    let noise = rate.map(|rate| TruncatedLaplace::new(rate, shift));
    let noise = noise.unwrap_or_else(|error| panic!("{}: {error}", case.id()));
    noise.unwrap_or_else(|error| panic!("{}: {error}", case.id()))
}

#[track_caller]
fn check_allowance(case: &VectorCase, got: f64, key: &str) {
    let reference = case.number(key);
    let least = reference * (1.0 - case.number("rel_tol"));
    assert!(got <= reference && got >= least, "{}: `{key}` is {got}, not {reference}", case.id());
}

fn number<T, E: std::fmt::Display>(case: &VectorCase, key: &str, parse: impl Fn(f64) -> Result<T, E>) -> T {
    parse(case.number(key)).unwrap_or_else(|error| panic!("{}: `{key}`: {error}", case.id()))
}

fn count(case: &VectorCase, key: &str) -> NonZeroU32 {
    let count = u32::try_from(case.count(key)).ok().and_then(NonZeroU32::new);
    count.unwrap_or_else(|| panic!("{}: `{key}` is not a count of at least 1", case.id()))
}

fn read_counts(case: &VectorCase, counts: &serde_json::Value) -> Vec<u64> {
    let counts = counts.as_array().map(|counts| counts.iter().filter_map(serde_json::Value::as_u64).collect());
    counts.unwrap_or_else(|| panic!("{}: a histogram is not a list", case.id()))
}
