//! Limits of correlated noise: each combination whose price is not proved is refused.

use undertone_privacy::correlated::MOST_BANDS;

use crate::job::dp_sgd::{Party, Spec};
use crate::job::terms::TermName;
use crate::problem::Violation;

/// The most of z times the column norm of an encoder: the noise fits the integers of a site.
const MOST_NOISE: f64 = 1024.0;

/// Checks the parties with correlated noise.
pub(super) fn check(spec: &Spec, say: &mut impl FnMut(&str, String)) {
    for (index, party) in spec.participants.iter().enumerate() {
        if let Some(banded) = party.noise.and_then(|noise| noise.banded) {
            let at = format!("participants.{index}.noise.banded");
            check_combination(spec, &at, say);
            check_bands(spec, party, banded.bands.get(), &format!("{at}.bands"), say);
        }
    }
}

impl Spec {
    /// Returns the first combination of correlated noise whose price is not proved. A site checks it as well: a malicious
    /// server may not have done so.
    pub fn find_unproved_noise(&self) -> Option<Violation> {
        let mut first = None;
        check(self, &mut |field, message| {
            first.get_or_insert_with(|| Violation::new(format!("spec.{field}"), message));
        });
        first
    }
}

/// Refuses the options of the job that have no proved price with correlated noise.
fn check_combination(spec: &Spec, at: &str, say: &mut impl FnMut(&str, String)) {
    let Some(rounds) = &spec.private else {
        say(at, "the private arm alone has noise: ask for it, or leave this out".to_owned());
        return;
    };
    if rounds.local_steps > 1 {
        let why = "noise is correlated over rounds of one step: set `private.local_steps` to 1, or leave this out";
        say(at, why.to_owned());
    }
    for (option, why, is_there) in [
        ("secure_aggregation", "the noise of a sum comes from several sites", spec.secure_aggregation.is_some()),
        ("selection", "the runs that lost are no releases", spec.selection.is_some()),
        ("audit", "it guesses from releases with independent noise", spec.audit.is_some()),
    ] {
        if is_there {
            say(at, format!("it has no proved price together with `{option}` ({why}): leave one of them out"));
        }
    }
}

/// Checks the number of bands against the party's rounds and sampling rate, also where its owner sets these.
fn check_bands(spec: &Spec, party: &Party, bands: u32, at: &str, say: &mut impl FnMut(&str, String)) {
    if !(2..=MOST_BANDS).contains(&bands) {
        say(at, format!("2 to {MOST_BANDS}, not {bands}: leave `banded` out for independent noise"));
        return;
    }
    let ranges = super::super::terms::open_terms(spec, party.dataset);
    let range = |term: TermName| ranges.iter().find(|range| range.term == term);
    let rate = range(TermName::SamplingRate).map_or(party.sampling_rate.get(), |range| range.max);
    let turns = undertone_privacy::SamplingRate::new(rate)
        .ok()
        .and_then(|rate| rate.for_turns(std::num::NonZeroU32::new(bands)?));
    if turns.is_none() {
        let most = (1.0 / rate + 1e-6).floor();
        let remedy = if most < 2.0 {
            "leave `banded` out: with this rate there are no two groups".to_owned()
        } else {
            format!("take at most {most} bands, or a lower rate")
        };
        say(at, format!("{bands} groups in turn have no batch of the share {rate} of all units: {remedy}"));
    }
    let rounds = range(TermName::Rounds).map_or(f64::from(spec.rounds_of(party)), |range| range.min);
    if spec.private.is_some() && f64::from(bands) > rounds {
        say(at, format!("at most the {rounds} rounds of the party, not {bands}"));
    }
    let own = party.noise.map_or(0.0, |noise| noise.noise_multiplier.get());
    let most = range(TermName::NoiseMultiplier).map_or(own, |range| range.max);
    let norm = spec.encoder(party).map_or(1.0, |encoder| encoder.column_norm());
    if most * norm > MOST_NOISE {
        let why = format!("with these bands the multiplier is at most {}, not {most}", (MOST_NOISE / norm).floor());
        say(at, why);
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

    use std::num::NonZeroU32;

    use undertone_privacy::SamplingRate;

    use super::super::super::tests::{older_spec, ours};
    use crate::dataset::{Dataset, Visibility};
    use crate::job::JobKind as _;
    use crate::job::dp_sgd::{
        AuditOptions, BandedNoise, Optimizer, Rounds, SecureAggregation, SelectionCandidate, Spec,
    };
    use crate::job::terms::{OpenTerm, TermName};

    /// Returns a spec of 40 rounds, whose second party has q = 0.1 and noise with 4 bands.
    fn banded(change: impl FnOnce(&mut Spec)) -> Spec {
        let mut spec = older_spec();
        spec.open = None;
        spec.audit = None;
        spec.private = Some(Rounds::new(40, Optimizer::Adam { learning_rate: 0.01 }));
        let party = &mut spec.participants[1];
        party.sampling_rate = SamplingRate::new(0.1).unwrap();
        party.noise.as_mut().unwrap().banded = Some(BandedNoise { bands: NonZeroU32::new(4).unwrap() });
        change(&mut spec);
        spec
    }

    fn with_bands(spec: &mut Spec, bands: u32) {
        let noise = spec.participants[1].noise.as_mut().unwrap();
        noise.banded = Some(BandedNoise { bands: NonZeroU32::new(bands).unwrap() });
    }

    /// Returns the violations that name the correlated noise.
    fn problems(change: impl FnOnce(&mut Spec)) -> Vec<(String, String)> {
        let spec = banded(change);
        let lead = Dataset { id: spec.participants[0].dataset, visibility: Visibility::Public, ..ours() };
        let violations = spec.check(&[lead, ours()]).into_iter();
        let own = violations.filter(|violation| violation.field.contains("banded"));
        own.map(|violation| (violation.field, violation.message)).collect()
    }

    #[test]
    fn bands_within_the_rate_and_the_rounds_are_valid() {
        assert!(problems(|_| ()).is_empty());
        assert!(problems(|spec| with_bands(spec, 10)).is_empty());
        assert!(problems(|spec| spec.participants[1].rounds = Some(4)).is_empty());
    }

    #[test]
    fn unproved_combinations_are_refused() {
        let candidate = SelectionCandidate { learning_rate: 0.01, clip: 1.0 };
        let selection = crate::job::dp_sgd::SelectionOptions {
            shape: undertone_privacy::RunShape::new(1.0).unwrap(),
            stopping: undertone_privacy::StoppingRate::new(0.5).unwrap(),
            most_runs: std::num::NonZeroU16::new(4).unwrap(),
            development: 10,
            candidates: vec![candidate, candidate],
        };
        for (part, found) in [
            ("local_steps", problems(|spec| spec.private.as_mut().unwrap().local_steps = 2)),
            ("secure_aggregation", problems(|spec| spec.secure_aggregation = Some(SecureAggregation::new(5, 1)))),
            ("selection", problems(|spec| spec.selection = Some(selection))),
            ("audit", problems(|spec| spec.audit = Some(AuditOptions { canaries: 20, guesses: 10, recordings: 0 }))),
            ("private arm", problems(|spec| spec.private = None)),
        ] {
            assert_eq!(found.len(), 1, "{part}: {found:?}");
            assert!(found[0].0 == "spec.participants.1.noise.banded" && found[0].1.contains(part), "{found:?}");
        }
    }

    #[test]
    fn bands_beyond_rate_rounds_or_integers_are_refused() {
        let open = |term, min, max| vec![OpenTerm { dataset: None, term, min, max }];
        for (part, found) in [
            ("2 to 32", problems(|spec| with_bands(spec, 1))),
            ("2 to 32", problems(|spec| with_bands(spec, 33))),
            ("at most 10 bands", problems(|spec| with_bands(spec, 11))),
            ("no two groups", problems(|spec| spec.participants[1].sampling_rate = SamplingRate::ONE)),
            ("at most 3 bands", problems(|spec| spec.open_terms = open(TermName::SamplingRate, 0.05, 0.3))),
            ("3 rounds", problems(|spec| spec.participants[1].rounds = Some(3))),
            ("2 rounds", problems(|spec| spec.open_terms = open(TermName::Rounds, 2.0, 40.0))),
            ("multiplier", problems(|spec| spec.open_terms = open(TermName::NoiseMultiplier, 0.5, 1024.0))),
        ] {
            assert_eq!(found.len(), 1, "{part}: {found:?}");
            assert!(found[0].0 == "spec.participants.1.noise.banded.bands" && found[0].1.contains(part), "{found:?}");
        }
    }

    /// All 40 rounds are one mechanism of ten turns, without spare releases.
    #[test]
    fn all_rounds_are_charged_as_one_mechanism() {
        let spec = banded(|_| ());
        let charge = spec.cost(&ours()).unwrap();
        assert_eq!((charge.releases, charge.event.whole_releases()), (40, Some(40)));
        let undertone_privacy::Event::BandedGaussian { sampling_rate, bands, .. } = charge.event else {
            panic!("another event")
        };
        assert_eq!(Some(sampling_rate), spec.participants[1].sampling_rate.for_turns(bands));
        assert_eq!(spec.release(&ours(), "private"), Some(charge.event));
        let fewer = banded(|spec| spec.participants[1].rounds = Some(20)).cost(&ours()).unwrap();
        assert_eq!((fewer.releases, fewer.event.whole_releases()), (20, Some(20)));
    }

    /// z = 1.5, C = 0.5 and 10 expected units.
    #[test]
    fn bound_of_a_vector_covers_the_greatest_deviation() {
        let spec = banded(|_| ());
        let encoder = spec.encoder(&spec.participants[1]).unwrap();
        let deviation = spec.deviation(&spec.participants[1], 100);
        let expected = 0.075 * encoder.column_norm() * encoder.most_deviation();
        assert!((deviation / expected - 1.0).abs() < 1e-6, "{deviation} and {expected}");
        let plain = banded(|spec| spec.participants[1].noise.as_mut().unwrap().banded = None);
        let bound = |spec: &Spec| spec.most_norm(&ours(), &spec.series(&[ours()])[0]).unwrap();
        assert!(bound(&spec) > bound(&plain));
    }

    #[test]
    fn spec_without_bands_is_written_as_before() {
        let plain = serde_json::to_string(&older_spec()).unwrap();
        assert!(!plain.contains("banded"), "{plain}");
        let text = serde_json::to_string(&banded(|_| ())).unwrap();
        assert!(text.contains(r#""banded":{"bands":4}"#), "{text}");
        assert_eq!(serde_json::from_str::<Spec>(&text).unwrap(), banded(|_| ()));
    }
}
