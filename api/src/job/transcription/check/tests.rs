//! Every limit of a spec, each violated alone: the reported field, and the values on both sides of the limit.
#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

use std::num::NonZeroU32;

use undertone_privacy::{Delta, Epsilon, PrivacyUnit};

use super::super::tests::{chosen, example, ward};
use super::super::vocabulary::{LONGEST_WORD, MOST_WORDS};
use super::super::{CrowdedPieces, OutputVoice, Price, Provider, Spec, Vocabulary};
use crate::dataset::{Dataset, DatasetContent, Visibility};
use crate::id::DatasetId;
use crate::job::JobKind as _;

type SpecChange = fn(&mut Spec, &mut Dataset);

/// Returns the fields reported after a change.
fn fields(change: impl FnOnce(&mut Spec, &mut Dataset)) -> Vec<String> {
    let mut spec = example().0;
    let mut dataset = ward();
    change(&mut spec, &mut dataset);
    spec.check(&[dataset]).into_iter().map(|violation| violation.field).collect()
}

fn providers(spec: &mut Spec, count: usize) {
    let one = spec.providers[0].clone();
    spec.providers = (0..count).map(|n| Provider { name: format!("p{n}"), ..one.clone() }).collect();
}

fn words(spec: &mut Spec, words: &[&str]) {
    spec.vocabulary = Vocabulary::Public { words: words.iter().map(|word| (*word).to_owned()).collect() };
}

fn epsilon(spec: &mut Spec, value: f64) {
    spec.participant.epsilon = Epsilon::new(value).unwrap();
}

fn delta(spec: &mut Spec, value: f64) {
    spec.participant.delta = Delta::new(value).unwrap();
}

fn count(value: u32) -> NonZeroU32 {
    NonZeroU32::new(value).unwrap()
}

fn price(spec: &mut Spec, currency: &str, per_minute: &str) {
    let currency = currency.to_owned();
    let per_minute = per_minute.to_owned();
    spec.providers[0].price = Some(Price { currency, per_minute, step_seconds: 1, least_seconds: 0 });
}

fn mcadams(alpha: f64) -> OutputVoice {
    OutputVoice::Mcadams { alpha, speakers_identifiable: true }
}

fn from_data(spec: &mut Spec, top_percent: f64, above: f64, most: u32) {
    spec.vocabulary = Vocabulary::Data { top_percent, above: Some(above), most, words: Vec::new() };
}

/// `(field, changes that violate it, changes just within it)`.
const LIMITS: &[(&str, &[SpecChange], &[SpecChange])] = &[
    (
        "spec.participant.dataset",
        &[
            |spec, _| spec.participant.dataset = DatasetId(uuid::Uuid::from_u128(9)),
            |_, dataset| dataset.content = DatasetContent::Speech,
            |_, dataset| dataset.content = DatasetContent::Queries,
            |_, dataset| dataset.units = vec![PrivacyUnit::Record],
        ],
        &[|_, dataset| {
            dataset.visibility = Visibility::Public;
            dataset.units = vec![PrivacyUnit::Record];
        }],
    ),
    (
        "spec.participant.epsilon",
        &[
            |spec, _| epsilon(spec, 0.0),
            |spec, _| epsilon(spec, 0.0099),
            |spec, _| epsilon(spec, 50.1),
            // More dummies than allowed: a distance of 10,000 at ε = 0.1.
            |spec, _| {
                epsilon(spec, 0.1);
                spec.participant.distance = count(10_000);
            },
        ],
        &[|spec, _| epsilon(spec, 0.01), |spec, _| epsilon(spec, 50.0)],
    ),
    (
        "spec.participant.delta",
        &[|spec, _| delta(spec, 0.0), |spec, _| delta(spec, 0.0101)],
        &[|spec, _| delta(spec, 0.01), |spec, _| delta(spec, 1e-12)],
    ),
    (
        "spec.participant.distance",
        &[
            |spec, _| spec.participant.distance = count(10_001),
            // One word changes up to ten counts.
            |spec, _| spec.participant.distance = count(9),
            |spec, dataset| {
                spec.participant.distance = count(9);
                dataset.visibility = Visibility::Open;
            },
        ],
        &[
            |spec, _| spec.participant.distance = count(10),
            |spec, dataset| {
                spec.participant.distance = count(1);
                dataset.visibility = Visibility::Public;
            },
            |spec, _| {
                epsilon(spec, 50.0);
                spec.participant.distance = count(10_000);
            },
        ],
    ),
    (
        "spec.providers",
        &[|spec, _| spec.providers.clear(), |spec, _| providers(spec, 17)],
        &[|spec, _| providers(spec, 1), |spec, _| providers(spec, 16)],
    ),
    (
        "spec.providers.1.name",
        &[
            |spec, _| spec.providers[1].name = String::new(),
            |spec, _| spec.providers[1].name = "a b".to_owned(),
            |spec, _| spec.providers[1].name = "x".repeat(41),
            |spec, _| spec.providers[1].name = "one".to_owned(),
        ],
        &[|spec, _| spec.providers[1].name = "x".repeat(40), |spec, _| spec.providers[1].name = "a-b_c.2".to_owned()],
    ),
    (
        "spec.providers.0.price.per_minute",
        &[|spec, _| price(spec, "USD", "free"), |spec, _| price(spec, "USD", "1000000")],
        &[|spec, _| price(spec, "USD", "999999.999999999"), |spec, _| spec.providers[0].price = None],
    ),
    ("spec.providers.0.price.currency", &[|spec, _| price(spec, "dollars", "1")], &[|spec, _| price(spec, "EUR", "0")]),
    (
        "spec.colluding",
        &[
            |spec, _| spec.colluding = count(3),
            // Imitations reveal to each recognizer which pieces the other one received.
            |spec, _| spec.voice = OutputVoice::Cloned,
        ],
        &[
            |spec, _| spec.colluding = count(2),
            |spec, _| {
                spec.colluding = count(2);
                spec.voice = OutputVoice::Cloned;
            },
            |spec, dataset| {
                spec.voice = OutputVoice::Cloned;
                dataset.visibility = Visibility::Public;
            },
            |spec, _| {
                providers(spec, 1);
                spec.colluding = count(1);
            },
        ],
    ),
    (
        "spec.language",
        &[|spec, _| spec.language = "xx".to_owned(), |spec, _| spec.language = "EN".to_owned()],
        &[|spec, _| spec.language = "de".to_owned(), |spec, _| spec.language = "tr".to_owned()],
    ),
    (
        "spec.vocabulary.words",
        &[
            |spec, _| words(spec, &[]),
            |spec, _| {
                let words = (0..=MOST_WORDS).map(|n| format!("w{n}")).collect();
                spec.vocabulary = Vocabulary::Public { words };
            },
        ],
        &[
            |spec, _| words(spec, &["one"]),
            |spec, _| {
                epsilon(spec, 50.0);
                spec.vocabulary = Vocabulary::Public { words: (0..MOST_WORDS).map(|n| format!("w{n}")).collect() };
            },
        ],
    ),
    (
        "spec.vocabulary.words.1",
        &[
            |spec, _| words(spec, &["one", ""]),
            |spec, _| words(spec, &["one", "two words"]),
            |spec, _| words(spec, &["one", "--"]),
            |spec, _| words(spec, &["one", "One"]),
            |spec, _| words(spec, &["one", &"x".repeat(LONGEST_WORD + 1)]),
        ],
        &[|spec, _| words(spec, &["one", &"x".repeat(LONGEST_WORD)]), |spec, _| words(spec, &["one", "don't"])],
    ),
    (
        "spec.vocabulary.epsilon",
        &[
            |spec, _| spec.vocabulary = chosen(1, 0.0, 3),
            |spec, _| spec.vocabulary = chosen(1, 0.009, 3),
            |spec, _| spec.vocabulary = chosen(1, 0.991, 3),
            |spec, _| spec.vocabulary = chosen(1, 3.0, 3),
        ],
        &[|spec, _| spec.vocabulary = chosen(1, 0.01, 3), |spec, _| spec.vocabulary = chosen(1, 0.99, 3)],
    ),
    (
        "spec.vocabulary.choose",
        &[|spec, _| spec.vocabulary = chosen(0, 0.5, 3), |spec, _| spec.vocabulary = chosen(3, 0.5, 3)],
        &[|spec, _| spec.vocabulary = chosen(1, 0.5, 3), |spec, _| spec.vocabulary = chosen(2, 0.5, 3)],
    ),
    (
        "spec.vocabulary.candidates",
        &[|spec, _| spec.vocabulary = chosen(1, 0.5, 1), |spec, _| spec.vocabulary = chosen(1, 0.5, MOST_WORDS)],
        &[|spec, _| spec.vocabulary = chosen(1, 0.5, 2), |spec, _| spec.vocabulary = chosen(1, 0.5, MOST_WORDS - 1)],
    ),
    (
        "spec.vocabulary.from",
        &[
            |spec, _| from_data(spec, 10.0, 0.01, 500),
            |spec, dataset| {
                from_data(spec, 10.0, 0.01, 500);
                dataset.visibility = Visibility::Open;
            },
        ],
        &[|spec, dataset| {
            from_data(spec, 10.0, 0.01, 500);
            dataset.visibility = Visibility::Public;
        }],
    ),
    (
        "spec.vocabulary.top_percent",
        &[|spec, dataset| {
            from_data(spec, 100.1, 0.01, 500);
            dataset.visibility = Visibility::Public;
        }],
        &[|spec, dataset| {
            from_data(spec, 100.0, 0.01, 500);
            dataset.visibility = Visibility::Public;
        }],
    ),
    (
        "spec.vocabulary.above",
        &[|spec, dataset| {
            from_data(spec, 10.0, f64::NAN, 500);
            dataset.visibility = Visibility::Public;
        }],
        &[|spec, dataset| {
            from_data(spec, 10.0, 0.0, 500);
            dataset.visibility = Visibility::Public;
        }],
    ),
    (
        "spec.vocabulary.most",
        &[|spec, dataset| {
            from_data(spec, 10.0, 0.01, 0);
            dataset.visibility = Visibility::Public;
        }],
        &[|spec, dataset| {
            from_data(spec, 10.0, 0.01, 1);
            dataset.visibility = Visibility::Public;
        }],
    ),
    (
        "spec.voice.alpha",
        &[
            |spec, _| spec.voice = mcadams(0.49),
            |spec, _| spec.voice = mcadams(1.51),
            |spec, _| spec.voice = mcadams(1.0),
            |spec, _| spec.voice = mcadams(f64::NAN),
        ],
        &[
            |spec, _| spec.voice = mcadams(0.5),
            |spec, _| spec.voice = mcadams(0.95),
            |spec, _| spec.voice = mcadams(1.05),
            |spec, _| spec.voice = OutputVoice::Url,
        ],
    ),
    (
        "spec.voice.speakers_identifiable",
        &[
            |spec, _| spec.voice = OutputVoice::Mcadams { alpha: 0.8, speakers_identifiable: false },
            |spec, dataset| {
                spec.voice = OutputVoice::Mcadams { alpha: 0.8, speakers_identifiable: false };
                dataset.visibility = Visibility::Open;
            },
        ],
        &[
            |spec, _| spec.voice = mcadams(0.8),
            |spec, dataset| {
                spec.voice = OutputVoice::Mcadams { alpha: 0.8, speakers_identifiable: false };
                dataset.visibility = Visibility::Public;
            },
        ],
    ),
    (
        "spec.voice.detail",
        &[
            |spec, _| spec.voice = OutputVoice::Vocoder { detail: 7, varied: false },
            |spec, _| spec.voice = OutputVoice::Vocoder { detail: 21, varied: false },
        ],
        &[
            |spec, _| spec.voice = OutputVoice::Vocoder { detail: 8, varied: false },
            |spec, _| spec.voice = OutputVoice::Vocoder { detail: 20, varied: false },
        ],
    ),
    (
        "spec.crowded",
        &[
            |spec, _| spec.crowded = CrowdedPieces::Send,
            |spec, dataset| {
                spec.crowded = CrowdedPieces::Send;
                dataset.visibility = Visibility::Open;
            },
        ],
        &[|spec, dataset| {
            spec.crowded = CrowdedPieces::Send;
            dataset.visibility = Visibility::Public;
        }],
    ),
];

#[test]
fn limit_violation_names_its_field_on_both_sides() {
    for (field, breaking, keeping) in LIMITS {
        for (number, change) in breaking.iter().enumerate() {
            assert_eq!(fields(change), [*field], "change {number}");
        }
        for (number, change) in keeping.iter().enumerate() {
            assert_eq!(fields(change), Vec::<String>::new(), "{field}: change {number}");
        }
    }
}

#[test]
fn all_violations_are_reported_at_once() {
    let names = fields(|spec, _| {
        spec.providers.clear();
        delta(spec, 0.0);
        spec.language = String::new();
        spec.voice = mcadams(1.0);
        spec.crowded = CrowdedPieces::Send;
    });
    let wrong = ["spec.providers", "spec.participant.delta", "spec.language", "spec.voice.alpha", "spec.crowded"];
    assert_eq!(names, wrong);
}

#[test]
fn too_many_dummies_report_number_and_remedy() {
    let mut spec = example().0;
    let dataset = ward();
    epsilon(&mut spec, 0.1);
    spec.participant.distance = count(10_000);
    let message = spec.check(&[dataset]).remove(0).message;
    assert!(message.contains("dummies are to be expected") && message.contains("raise epsilon"), "{message}");
}
