//! Tests of learning, of determinism under a seed, and of refused settings.
#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

use undertone_api::job::active_learning::Encoder;

use super::{Classifier, ClassifierError, Example, Settings, Visible};

/// Returns settings that are small enough to train quickly.
pub(crate) fn settings(encoder: Encoder) -> Settings {
    Settings {
        encoder,
        buckets: 4096,
        embedding: 16,
        hidden: 12,
        dropout: 0.2,
        passes: 12,
        epochs: 40,
        batch: 8,
        learning_rate: 0.01,
    }
}

const POLITE: [&str; 4] = ["", "please ", "hello ", "i want to know "];
const SAID: [[&str; 4]; 3] = [
    ["cancel my order", "cancel it", "cancel the thing i bought", "i need to cancel"],
    ["where is my order", "where is it now", "where is my parcel", "tell me where it is"],
    ["good morning", "good evening", "good day to you", "have a good one"],
];

/// Returns texts of three subjects; subjects beyond the number of labels share labels.
fn examples(labels: usize) -> Vec<Example<'static>> {
    let all = POLITE.iter().flat_map(|polite| {
        SAID.iter().enumerate().flat_map(move |(label, said)| {
            said.iter().map(move |said| (format!("{polite}{said}"), (label % labels) as u16))
        })
    });
    // The texts of a test live as long as the test.
    all.map(|(text, label)| Example::new(Visible::in_test(text.leak()), label)).collect()
}

fn names(labels: usize) -> Vec<String> {
    (0..labels).map(|label| format!("label {label}")).collect()
}

pub(crate) fn train_classifier(settings: &Settings, labels: usize, seed: u64) -> Classifier {
    Classifier::train(settings, &names(labels), &examples(labels), seed).unwrap()
}

pub(crate) fn classifier(encoder: Encoder, labels: usize, seed: u64) -> Classifier {
    train_classifier(&settings(encoder), labels, seed)
}

/// Returns texts that the classifier was trained on and others.
pub(crate) fn texts() -> Vec<Visible<'static>> {
    ["i really must cancel", "where is my order", "what a good evening", "zyx", "", "order"]
        .map(Visible::in_test)
        .to_vec()
}

#[test]
fn classifier_learns_with_either_encoder() {
    for encoder in [Encoder::Bag, Encoder::Lstm] {
        for labels in [3, 2] {
            let classifier = classifier(encoder, labels, 5);
            let examples: Vec<(Example<'_>, u64)> = [("do cancel this", 0), ("where is that", 1), ("good night", 2)]
                .map(|(text, label)| (Example::new(Visible::in_test(text), (label % labels) as u16), 1))
                .to_vec();
            let exam = classifier.examine(&examples);
            assert_eq!(exam.right, 3, "{encoder:?} of {labels}: {:?}", classifier.predict(&texts()));
        }
    }
}

#[test]
fn training_is_deterministic_for_a_seed() {
    for encoder in [Encoder::Bag, Encoder::Lstm] {
        let on = |threads: usize, seed| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let classifier = classifier(encoder, 3, seed);
                let posteriors = classifier.posteriors(&texts());
                (classifier.to_safetensors().unwrap(), posteriors)
            })
        };
        let first = on(1, 5);
        assert!(first == on(1, 5) && first == on(3, 5), "{encoder:?}");
        let other = on(1, 6);
        assert!(first.0 != other.0 && first.1 != other.1, "{encoder:?}");
    }
}

#[test]
fn example_order_changes_training_reproducibly() {
    let settings = settings(Encoder::Bag);
    let mut examples = examples(3);
    let first = Classifier::train(&settings, &names(3), &examples, 5).unwrap();
    examples.swap(0, 40);
    assert_ne!(Classifier::train(&settings, &names(3), &examples, 5).unwrap(), first, "another order, other steps");
    examples.swap(0, 40);
    assert_eq!(Classifier::train(&settings, &names(3), &examples, 5).unwrap(), first);
}

#[test]
fn two_labels_use_one_output() {
    let two = classifier(Encoder::Bag, 2, 5);
    assert_eq!((two.shape.outputs(), classifier(Encoder::Bag, 3, 5).shape.outputs()), (1, 3));
    for row in two.predict(&texts()).chunks(2) {
        assert!((row[0] + row[1] - 1.0).abs() < 1e-5, "{row:?}");
    }
}

#[test]
fn invalid_training_input_is_refused_by_name() {
    let settings = settings(Encoder::Bag);
    let train = |settings: &Settings, labels: usize, examples: &[Example<'_>]| {
        Classifier::train(settings, &names(labels), examples, 5).unwrap_err()
    };
    assert_eq!(train(&settings, 3, &[]), ClassifierError::NoExamples);
    assert_eq!(train(&settings, 2, &examples(3)), ClassifierError::Label { label: 2, labels: 2 });
    assert_eq!(train(&settings, 1, &examples(1)), ClassifierError::Labels(1));
    let cases: [(&str, Settings); 7] = [
        ("buckets", Settings { buckets: 0, ..settings }),
        ("embedding", Settings { embedding: 1025, ..settings }),
        ("hidden", Settings { hidden: 0, ..settings }),
        ("dropout", Settings { dropout: f64::NAN, ..settings }),
        ("passes", Settings { passes: 0, ..settings }),
        ("epochs", Settings { epochs: 0, ..settings }),
        ("learning_rate", Settings { learning_rate: 0.0, ..settings }),
    ];
    for (field, settings) in cases {
        let error = train(&settings, 3, &examples(3)).to_string();
        assert!(error.contains(&format!("classifier.{field}")), "{error}");
    }
}
