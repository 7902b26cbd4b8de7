//! The terms that a party of a `dp_sgd` job may set itself: noise, clip, sampling rate, and the number of its rounds.
//!
//! Each value enters the party's own charge (`cost.rs`), its weight and noise in the average (`noise.rs`), and the bound
//! of its vectors (`norm.rs`), because all of these are computed from the spec with the answers.

use std::collections::HashSet;

use undertone_privacy::{NoiseMultiplier, SamplingRate};

use super::{Party, Spec};
use crate::id::DatasetId;
use crate::job::terms::{OpenTerm, TermName, TermRange, format_term};

/// The most open terms of a spec: each term of each of 100 parties, and each term for all others.
pub(super) const MAX_OPEN_TERMS: usize = 404;

impl Spec {
    /// Returns the number of rounds of the private arm in which a party sends a vector: the first ones.
    pub fn rounds_of(&self, party: &Party) -> u32 {
        let rounds = self.private.map_or(0, |rounds| rounds.rounds);
        party.rounds.unwrap_or(rounds).min(rounds)
    }

    /// Returns the number of parties that send a vector in the last round of the private arm, the fewest of any round.
    pub fn last_contributors(&self) -> usize {
        let rounds = self.private.map_or(0, |rounds| rounds.rounds);
        self.participants.iter().filter(|party| self.rounds_of(party) == rounds).count()
    }
}

/// Implements [`crate::job::JobKind::open_terms`].
pub(super) fn open_terms(spec: &Spec, dataset: DatasetId) -> Vec<TermRange> {
    if spec.open_terms.is_empty() {
        return Vec::new();
    }
    let Some(party) = spec.party(dataset).filter(|party| party.noise.is_some()) else { return Vec::new() };
    let find = |term: TermName, of: Option<DatasetId>| {
        spec.open_terms.iter().find(|open| open.term == term && open.dataset == of)
    };
    let range = |term| {
        let OpenTerm { min, max, .. } = *find(term, Some(dataset)).or_else(|| find(term, None))?;
        Some(TermRange { term, min: term.stored(min), max: term.stored(max), value: value(spec, party, term)? })
    };
    TermName::ALL.into_iter().filter_map(range).collect()
}

/// Implements [`crate::job::JobKind::set_term`]. A value that no term of this kind can have changes nothing; the check of
/// the answer refuses it.
pub(super) fn set_term(spec: &mut Spec, dataset: DatasetId, term: TermName, value: f64) {
    let rounds = spec.private.map_or(0, |rounds| rounds.rounds);
    for party in spec.participants.iter_mut().filter(|party| party.dataset == dataset) {
        match term {
            TermName::NoiseMultiplier => {
                if let (Some(noise), Ok(multiplier)) = (&mut party.noise, NoiseMultiplier::new(value)) {
                    noise.noise_multiplier = multiplier;
                }
            }
            TermName::Clip => party.noise.iter_mut().for_each(|noise| noise.clip = value),
            TermName::SamplingRate => {
                if let Ok(rate) = SamplingRate::new(value) {
                    party.sampling_rate = rate;
                }
            }
            // All rounds is the default, which a spec does not state.
            TermName::Rounds => party.rounds = Some(value as u32).filter(|own| *own != rounds),
        }
    }
}

fn value(spec: &Spec, party: &Party, term: TermName) -> Option<f64> {
    Some(match term {
        TermName::NoiseMultiplier => party.noise?.noise_multiplier.get(),
        TermName::Clip => party.noise?.clip,
        TermName::SamplingRate => party.sampling_rate.get(),
        TermName::Rounds => f64::from(spec.rounds_of(party)),
    })
}

/// Checks the parties' numbers of rounds, and the ranges of the open terms: each contains the proposal's value and no
/// value that the spec could not have.
pub(super) fn check(spec: &Spec, noise: (f64, f64), say: &mut impl FnMut(&str, String)) {
    check_rounds(spec, say);
    if spec.open_terms.len() > MAX_OPEN_TERMS {
        say("open_terms", format!("name at most {MAX_OPEN_TERMS}, not {}", spec.open_terms.len()));
    }
    if !spec.open_terms.is_empty() && spec.private.is_none() {
        say("open_terms", "the parties set terms of the private arm: ask for it, or leave them out".to_owned());
        return;
    }
    let rounds = spec.private.map_or(1, |rounds| rounds.rounds);
    let mut seen = HashSet::new();
    for (index, open) in spec.open_terms.iter().enumerate() {
        let at = |field: &str| format!("open_terms.{index}.{field}");
        if !seen.insert((open.dataset, open.term)) {
            say(&at("term"), format!("{} is open twice for the same datasets", open.term.name()));
        }
        let party = open.dataset.map(|dataset| spec.party(dataset));
        if party.is_some_and(|party| party.is_none_or(|party| party.noise.is_none())) {
            say(&at("dataset"), "the dataset takes no part with noise: it has no terms to set".to_owned());
        }
        let (least, greatest) = match open.term {
            TermName::NoiseMultiplier => noise,
            TermName::Clip => (0.0, 1e6),
            TermName::SamplingRate => (0.0, 1.0),
            TermName::Rounds => (1.0, f64::from(rounds)),
        };
        let is_open_below = least == 0.0;
        let is_inside = open.min <= open.max
            && open.max <= greatest
            && (if is_open_below { open.min > least } else { open.min >= least })
            && (!open.term.is_whole() || (open.min.fract() == 0.0 && open.max.fract() == 0.0));
        if !is_inside {
            let from = if is_open_below { "above 0".to_owned() } else { format!("from {least}") };
            let whole = if open.term.is_whole() { " whole" } else { "" };
            say(
                &at("min"),
                format!("a range of{whole} numbers {from} to {greatest}, not {} to {}", open.min, open.max),
            );
        }
    }
    for (index, party) in spec.participants.iter().enumerate() {
        for range in open_terms(spec, party.dataset) {
            if !(range.min..=range.max).contains(&range.value) {
                let name = range.term.name();
                let message = format!(
                    "the proposal's own {name} is {}, outside its range from {} to {}: widen the range or change the value",
                    format_term(range.value),
                    format_term(range.min),
                    format_term(range.max)
                );
                say(&format!("participants.{index}"), message);
            }
        }
    }
}

fn check_rounds(spec: &Spec, say: &mut impl FnMut(&str, String)) {
    let rounds = spec.private.map_or(0, |rounds| rounds.rounds);
    for (index, party) in spec.participants.iter().enumerate() {
        let Some(own) = party.rounds else { continue };
        let at = format!("participants.{index}.rounds");
        if party.noise.is_none() || index == 0 {
            say(&at, "a party without noise, and the lead, take part in each round: leave it out".to_owned());
        } else if !(1..=rounds.max(1)).contains(&own) {
            say(&at, format!("1 to the {rounds} rounds of the private arm, not {own}"));
        }
    }
    let Some(private) = spec.private else { return };
    let remaining = spec.last_contributors();
    if spec.participants.iter().any(|party| party.rounds.is_some()) && remaining < private.quorum as usize {
        let message = format!(
            "{remaining} parties take part in the last round, and a round needs {}: ask fewer of them to stop early, or lower \
             the quorum",
            private.quorum
        );
        say("private.quorum", message);
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

    use super::super::tests::{older_spec, ours};
    use super::{OpenTerm, Spec, TermName};
    use crate::dataset::{Dataset, Visibility};
    use crate::id::DatasetId;
    use crate::job::{JobKind as _, PartyTerms, Spec as AnySpec};

    /// Leaves every term to both parties, and more noise to the second.
    fn open_spec() -> Spec {
        let open = |dataset, term, min, max| OpenTerm { dataset, term, min, max };
        Spec {
            open: None,
            open_terms: vec![
                open(None, TermName::NoiseMultiplier, 1.0, 2.0),
                open(Some(ours().id), TermName::NoiseMultiplier, 1.5, 4.0),
                open(None, TermName::Clip, 0.25, 1.0),
                open(None, TermName::SamplingRate, 0.1, 0.3),
                open(None, TermName::Rounds, 1.0, 10.0),
            ],
            ..older_spec()
        }
    }

    fn terms(pairs: &[&str]) -> PartyTerms {
        let mut terms = PartyTerms::default();
        for pair in pairs {
            terms.add_pair(pair).unwrap();
        }
        terms
    }

    fn lead() -> Dataset {
        Dataset { id: older_spec().participants[0].dataset, visibility: Visibility::Public, ..ours() }
    }

    #[test]
    fn answer_is_charged_to_its_own_party() {
        let spec = AnySpec::DpSgd(open_spec());
        assert_eq!(spec.check(&[lead(), ours()]), Vec::new());
        assert_eq!(spec.open_terms(lead().id), Vec::new(), "the lead adds no noise");
        let own = spec.open_terms(ours().id);
        assert_eq!((own[0].min, own[0].max, own[0].value), (1.5, 4.0, 1.5), "its own entry precedes that of all");
        let answer = terms(&["noise_multiplier=3", "sampling_rate=0.1", "rounds=4", "clip=1"]);
        assert_eq!(spec.check_terms(ours().id, &answer), Vec::new());
        let answered = spec.clone().with_terms(ours().id, &answer);
        assert_eq!(answered.check(&[lead(), ours()]), Vec::new());
        let (before, after) = (spec.cost(&ours()).unwrap(), answered.cost(&ours()).unwrap());
        assert_eq!((before.releases, after.releases), (14, 8), "4 rounds and 4 in reserve");
        let loss = |event| crate::plan::epsilon_alone(event, undertone_privacy::Delta::new(1e-6).unwrap()).unwrap();
        assert!(loss(&after) < loss(&before) / 4.0);
        let series = &answered.series(&[lead(), ours()])[0];
        assert_eq!(series.contributors(4).count(), 2);
        assert_eq!(series.contributors(5).collect::<Vec<_>>(), [lead().id]);
        assert!(answered.is_settled_from(&spec) && spec.is_settled_from(&spec));
        let all = terms(&["rounds=10"]);
        assert_eq!(spec.clone().with_terms(ours().id, &all), spec, "all rounds are the default, which no spec states");
    }

    #[test]
    fn answer_outside_its_range_names_field_value_and_range() {
        let spec = AnySpec::DpSgd(open_spec());
        for (pair, field, part) in [
            (
                "noise_multiplier=1.2",
                "terms.noise_multiplier",
                "is 1.2, and the proposal admits a number from 1.5 to 4",
            ),
            ("clip=2", "terms.clip", "from 0.25 to 1"),
            ("sampling_rate=0.4", "terms.sampling_rate", "from 0.1 to 0.3"),
            ("rounds=11", "terms.rounds", "a whole number from 1 to 10"),
            ("rounds=2.5", "terms.rounds", "is 2.5"),
        ] {
            let violations = spec.check_terms(ours().id, &terms(&[pair]));
            assert_eq!(violations.len(), 1, "{pair}");
            assert_eq!(violations[0].field, field);
            assert!(violations[0].message.contains(part), "{}", violations[0].message);
        }
        let lead = spec.check_terms(lead().id, &terms(&["clip=0.5"]));
        assert!(lead[0].message.contains("does not leave clip"), "{lead:?}");
        let closed = AnySpec::DpSgd(older_spec()).check_terms(ours().id, &terms(&["clip=0.5"]));
        assert_eq!(closed.len(), 1);
        for bad in ["clip", "depth=1", "clip=wide", "clip=inf"] {
            assert!(PartyTerms::default().add_pair(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn spec_changed_beyond_its_open_terms_is_not_settled() {
        let proposal = AnySpec::DpSgd(open_spec());
        let changed = |change: &dyn Fn(&mut Spec)| {
            let mut spec = open_spec();
            change(&mut spec);
            AnySpec::DpSgd(spec).is_settled_from(&proposal)
        };
        let noise = |z: f64| undertone_privacy::NoiseMultiplier::new(z).unwrap();
        assert!(changed(&|spec| spec.participants[1].noise.as_mut().unwrap().noise_multiplier = noise(4.0)));
        assert!(!changed(&|spec| spec.participants[1].noise.as_mut().unwrap().noise_multiplier = noise(1.0)));
        assert!(!changed(&|spec| spec.spare_releases += 1));
        assert!(!changed(&|spec| spec.open_terms[1].min = 0.5));
        assert!(!changed(&|spec| spec.open_terms.clear()));
        assert!(!changed(&|spec| spec.participants[0].sampling_rate = undertone_privacy::SamplingRate::ONE));
    }

    #[test]
    fn unfounded_ranges_are_refused() {
        let fields = |change: &dyn Fn(&mut Spec)| {
            let mut spec = open_spec();
            change(&mut spec);
            spec.check(&[lead(), ours()]).into_iter().map(|violation| violation.field).collect::<Vec<_>>()
        };
        assert_eq!(fields(&|_| {}), [""; 0]);
        assert_eq!(fields(&|spec| spec.open_terms[4].max = 11.0), ["spec.open_terms.4.min"]);
        assert_eq!(fields(&|spec| spec.open_terms[2].min = 0.0), ["spec.open_terms.2.min"]);
        assert_eq!(fields(&|spec| spec.open_terms[1].min = 2.0), ["spec.participants.1"]);
        assert_eq!(fields(&|spec| spec.open_terms[1].dataset = Some(DatasetId(uuid::Uuid::nil()))).len(), 1);
        assert_eq!(fields(&|spec| spec.open_terms[1] = spec.open_terms[0]), ["spec.open_terms.1.term"]);
        assert_eq!(fields(&|spec| spec.participants[1].rounds = Some(11)), ["spec.participants.1.rounds"]);
        let early = |spec: &mut Spec| {
            spec.participants[1].rounds = Some(4);
            spec.private.as_mut().unwrap().quorum = 2;
        };
        assert_eq!(fields(&early), ["spec.private.quorum"]);
        let many = |spec: &mut Spec| spec.open_terms = vec![spec.open_terms[3]; super::MAX_OPEN_TERMS + 1];
        assert!(fields(&many).contains(&"spec.open_terms".to_owned()));
    }
}
