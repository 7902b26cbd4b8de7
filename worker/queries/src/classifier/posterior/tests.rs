//! Tests that the measures match their definitions, and that a pass is one network for all texts.
#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]
#![expect(clippy::float_cmp, reason = "the same computation, or numbers that binary fractions hold")]

use undertone_api::job::active_learning::Encoder;

use super::super::tests::{classifier, settings, texts, train_classifier};
use super::super::{Classifier, Example, Visible};
use super::{entropy, lead, probabilities, softmax};

#[test]
fn probabilities_follow_from_logits() {
    let mut three = [0.0; 3];
    probabilities(&[0.0, 2.0_f32.ln(), 1.0_f32.ln()], &mut three);
    assert!(three.iter().zip([0.25, 0.5, 0.25]).all(|(p, expected)| (p - expected).abs() < 1e-6), "{three:?}");
    let mut two = [0.0; 2];
    probabilities(&[3.0_f32.ln()], &mut two);
    assert!((two[0] - 0.25).abs() < 1e-6 && (two[1] - 0.75).abs() < 1e-6, "one number is the second label's: {two:?}");
    let mut far = [1000.0, 0.0, -1000.0];
    softmax(&mut far);
    assert_eq!(far, [1.0, 0.0, 0.0]);
    assert!((entropy(&[0.25; 4]) - 4.0_f32.ln()).abs() < 1e-6 && entropy(&far) == 0.0);
    assert_eq!(lead(&[0.2, 0.4, 0.4]), (1, 0.4, 0.4), "of several, the first");
    assert_eq!(lead(&[0.7, 0.1, 0.2]), (0, 0.7, 0.2));
}

#[test]
fn measures_follow_from_the_passes() {
    // Computed directly from the passes, with one network for each.
    let classifier = classifier(Encoder::Bag, 3, 5);
    let (labels, passes) = (3, classifier.settings.passes as usize);
    let text = [texts()[0]];
    let each: Vec<Vec<f32>> = (0..passes as u32)
        .map(|pass| {
            let grams = classifier.grams(&[text[0].text()]);
            let grams: Vec<_> = grams.iter().collect();
            let device = burn::tensor::Device::flex();
            let network = super::NetworkPass::new(classifier.shape, &classifier.weights.dense, &grams, &device);
            let mut rng = super::SeedStream::Pass(pass).rng(classifier.seed);
            let masks = super::DropoutMasks::draw(classifier.settings.dropout, classifier.shape.widths(), 1, &mut rng);
            let mut logits = network.forward(classifier.shape.embed(&classifier.weights.table, &grams), &masks).0;
            softmax(&mut logits);
            logits
        })
        .collect();
    let mean: Vec<f32> = (0..labels).map(|l| each.iter().map(|p| p[l]).sum::<f32>() / passes as f32).collect();
    let inner = each.iter().map(|p| entropy(p)).sum::<f32>() / passes as f32;
    let own = classifier.posteriors(&text)[0];
    let most = 3.0_f32.ln();
    let close = |own: f32, expected: f32| assert!((own - expected).abs() < 1e-5, "{own} {expected}");
    close(own.entropy, entropy(&mean) / most);
    close(own.disagreement, (entropy(&mean) - inner) / most);
    let mut sorted = mean.clone();
    sorted.sort_by(f32::total_cmp);
    close(own.confidence, sorted[2]);
    close(own.margin, 1.0 - (sorted[2] - sorted[1]));
    assert_eq!(mean[usize::from(own.label)], sorted[2]);
    assert!(own.disagreement > 0.001, "passes disagree: {own:?}");
    let predicted = classifier.predict(&text);
    mean.iter().zip(predicted).for_each(|(mean, predicted)| close(predicted, *mean));
}

#[test]
fn posterior_does_not_depend_on_other_texts() {
    let classifier = classifier(Encoder::Lstm, 3, 5);
    let mut texts = texts();
    let all = classifier.posteriors(&texts);
    texts.reverse();
    let mut reversed = classifier.posteriors(&texts);
    reversed.reverse();
    assert_eq!(all, reversed);
    assert_eq!(classifier.posteriors(&texts[..1])[0], *all.last().unwrap());
}

#[test]
fn passes_agree_without_dropout() {
    let plain = train_classifier(&super::super::Settings { dropout: 0.0, ..settings(Encoder::Bag) }, 3, 5);
    assert!(plain.posteriors(&texts()).iter().all(|posterior| posterior.disagreement == 0.0));
}

#[test]
fn unseen_text_is_less_certain() {
    let classifier = classifier(Encoder::Bag, 3, 5);
    let of = |text| classifier.posteriors(&[Visible::in_test(text)])[0];
    let learned = of("where is my order");
    let unseen = of("zyx qwvut");
    assert_eq!(learned.label, 1);
    for (learned, unseen) in [(learned.entropy, unseen.entropy), (learned.margin, unseen.margin)] {
        assert!(learned < unseen, "{learned} {unseen}");
    }
    assert!(learned.confidence > unseen.confidence);
}

#[test]
fn examine_weighs_each_example() {
    let classifier = classifier(Encoder::Bag, 3, 5);
    let example = |text, label| Example::new(Visible::in_test(text), label);
    let exam = classifier.examine(&[(example("where is my order", 1), 9), (example("where is my order", 0), 1)]);
    assert_eq!((exam.examples, exam.right), (10, 9));
    assert!((exam.accuracy() - 0.9).abs() < 1e-12);
    let p = classifier.predict(&[Visible::in_test("where is my order")]);
    let loss = -(9.0 * f64::from(p[1]).ln() + f64::from(p[0]).ln()) / 10.0;
    assert!((exam.mean_loss() - loss).abs() < 1e-9);
    let nothing = Classifier::examine(&classifier, &[]);
    assert_eq!((nothing.examples, nothing.accuracy(), nothing.mean_loss()), (0, 0.0, 0.0));
}

#[test]
fn similar_texts_lie_near_each_other() {
    let classifier = classifier(Encoder::Bag, 3, 5);
    let texts = ["cancel my order", "please cancel my order", "good morning"].map(Visible::in_test);
    let places = classifier.places(&texts);
    let row = |n: usize| &places[n * classifier.width()..(n + 1) * classifier.width()];
    let near = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    assert!((near(row(0), row(0)) - 1.0).abs() < 1e-5, "of length 1");
    assert!(near(row(0), row(1)) > near(row(0), row(2)));
}
