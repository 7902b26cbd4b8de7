//! Description of a spec in words: for the facts of a proposed job, and for the steward's approval.

use undertone_api::id::DatasetId;
use undertone_api::job::Charge;
use undertone_api::job::active_learning::{Aggregation, Encoder, Gate, PrivateTest, PrivateTraining, Rehearsal, Spec};
use undertone_privacy::PrivacyUnit;
use undertone_privacy::kanon::Shown;

use crate::words;

/// Returns the facts of the job, as pairs of a term and its description.
pub(super) fn list_facts(spec: &Spec) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("Protects", format!("each {} of every private log", unit_noun(spec.unit))),
        ("Labels", describe_labels(spec)),
        ("Questions", describe_questions(spec)),
        ("Acquisition", describe_acquisition(spec)),
        ("Answers", describe_answers(spec)),
        ("Classifier", describe_classifier(spec)),
        ("Starts with", describe_start(spec)),
    ];
    if let Some(test) = &spec.private_test {
        let times = words::plural(test.measurements.into(), "time");
        let text = format!(
            "on a private log, {times} with noise, {}: one noisy histogram of scores for each label",
            describe_measured(spec, test)
        );
        facts.push(("Measurement", text));
    }
    if let Some(rehearsal) = &spec.rehearsal {
        let trials = (rehearsal.rates.len() * rehearsal.thresholds.len() + 1) as u64;
        facts.push((
            "Rehearsal",
            format!(
                "on the lead's public log, {} of rate and threshold with {} each, with {}",
                words::plural(trials, "pair"),
                words::plural(rehearsal.questions.into(), "question"),
                describe_simulated(rehearsal)
            ),
        ));
    }
    facts
}

/// Describes the first training: on public examples, or of a private lead.
fn describe_start(spec: &Spec) -> String {
    let Some(training) = &spec.private_lead else {
        return format!("{} of the lead, from public data", words::plural(spec.golden.into(), "labelled example"));
    };
    format!(
        "DP-SGD on the labelled rows of the private lead: {} before the first question and after each round, q {}, z {}, C {}",
        words::plural(training.steps.into(), "noisy step"),
        words::number(training.sampling_rate.get()),
        words::number(training.noise_multiplier.get()),
        words::number(training.clip)
    )
}

/// Describes which classifiers are measured on a private log, to follow "measured".
pub(super) fn describe_measured(spec: &Spec, test: &PrivateTest) -> String {
    let rounds: Vec<String> = test.measured_rounds(spec.rounds).iter().map(u32::to_string).collect();
    match &rounds[..] {
        [_] => "after the last round".to_owned(),
        [_, after @ ..] => {
            let names: Vec<&str> = after.iter().map(String::as_str).collect();
            let noun = if names.len() == 1 { "round" } else { "rounds" };
            format!("before the questions and after {noun} {}", words::join_names(&names))
        }
        [] => "in no round".to_owned(),
    }
}

/// Describes the simulated annotators of a rehearsal.
pub(super) fn describe_simulated(rehearsal: &Rehearsal) -> String {
    let accuracy = words::percent(rehearsal.annotator_accuracy);
    if rehearsal.annotator_deviation > 0.0 {
        let deviation = words::percent(rehearsal.annotator_deviation);
        format!(
            "simulated annotators whose accuracy is drawn around {accuracy} with a standard deviation of {deviation}"
        )
    } else {
        format!("simulated annotators who are right {accuracy} of the time")
    }
}

/// Returns the protected unit in the words of a query log.
pub(super) const fn unit_noun(unit: PrivacyUnit) -> &'static str {
    match unit {
        PrivacyUnit::Record => "row",
        PrivacyUnit::User | PrivacyUnit::Speaker | PrivacyUnit::Words => "user",
    }
}

fn describe_labels(spec: &Spec) -> String {
    let names: Vec<&str> = spec.labels.iter().take(8).map(|label| label.name.as_str()).collect();
    match spec.labels.len().saturating_sub(names.len()) {
        0 => words::join_names(&names),
        more => format!("{} and {} more", names.join(", "), words::count(more as u64)),
    }
}

fn describe_questions(spec: &Spec) -> String {
    format!(
        "{} of up to {}; each round, and the pools before the first, times out after {}",
        words::plural(spec.rounds.into(), "round"),
        words::plural(spec.batch.into(), "question"),
        words::duration(f64::from(spec.deadline_seconds))
    )
}

fn describe_acquisition(spec: &Spec) -> String {
    let differ = if spec.diversity { "; the questions of a round are diverse" } else { "" };
    format!("{}{differ}", spec.acquisition.label())
}

fn describe_answers(spec: &Spec) -> String {
    let people = match spec.annotators {
        1 => "one person each".to_owned(),
        n => format!("{} people each", words::count(n.into())),
    };
    match (spec.annotators, spec.aggregation) {
        (1, _) => people,
        (_, Aggregation::Majority) => format!("{people}; majority label"),
        (_, Aggregation::DawidSkene) => format!("{people}; weighted by agreement (Dawid and Skene)"),
    }
}

fn describe_classifier(spec: &Spec) -> String {
    let classifier = spec.classifier;
    let reads = match classifier.encoder {
        Encoder::Bag => "a bag of n-grams",
        Encoder::Lstm => "an LSTM over words",
    };
    format!(
        "{reads}, {} buckets, embedding of {}, {} hidden units, dropout {}, {}",
        words::count(classifier.buckets.into()),
        classifier.embedding,
        words::count(classifier.hidden.into()),
        words::number(classifier.dropout),
        words::plural(classifier.passes.into(), "pass").replace("passs", "passes")
    )
}

/// Returns the content that a gate releases, to follow "of your log".
pub(super) fn describe_release(gate: &Gate) -> &'static str {
    match gate.shown {
        Shown::Set | Shown::SetRenyi => "each text once, without its count",
        Shown::Counts | Shown::CountsTight | Shown::CountsRenyi => "each text once, with its count of kept rows",
    }
}

/// Returns the effects of an approval by a log's owner, sentence by sentence: the release, its number, its mechanism,
/// its cost, and its readers. Empty for logs without a charge, which are described elsewhere.
pub(super) fn describe_consent(spec: &Spec, dataset: DatasetId, charge: Option<&Charge>) -> Vec<String> {
    if let (Some(training), Some(charge)) = (spec.private_training(dataset), charge) {
        return describe_training_consent(spec, &training, charge);
    }
    if let (Some(test), Some(charge)) = (spec.private_test_on(dataset), charge) {
        return describe_measurement_consent(spec, &test, charge);
    }
    let gate = spec.party(dataset).and_then(|party| party.gate);
    let (Some(gate), Some(charge)) = (gate, charge) else { return Vec::new() };
    let k = gate.threshold.get();
    let mut lines = vec![format!(
        "One list of texts leaves your log, once: {}. People at the consortium's organizations read and label these texts.",
        describe_release(&gate)
    )];
    if charge.unit == PrivacyUnit::User {
        lines.push(format!(
            "At most {} of each user enter, each counted once.",
            words::plural(gate.rows_per_unit.get().into(), "different text")
        ));
    }
    lines.push(format!(
        "Your site keeps each row with probability {}, drawn in secret; only a text with at least {} is in the \
         list. Rarer texts never leave, and neither does their number.",
        words::number(gate.sampling_rate.get()),
        words::plural(k.into(), "kept row"),
    ));
    lines.push(
        "A threshold does not read the texts: a frequent text leaves word for word, even if it names a person. \
         Remove names and numbers in your site's normalization of texts, before the texts are counted."
            .to_owned(),
    );
    lines.push(format!(
        "1 release is charged. {} of questions, training and evaluation use this list, the answers and public data, \
         and cost nothing more.",
        words::plural(spec.rounds.into(), "round")
    ));
    lines
}

/// Returns the effects of an approval by the owner of a private lead, sentence by sentence.
fn describe_training_consent(spec: &Spec, training: &PrivateTraining, charge: &Charge) -> Vec<String> {
    let unit = unit_noun(charge.unit);
    vec![
        format!(
            "Your log leads. A classifier leaves your site {}: before the first question, and after each round. Its texts \
             and labels stay.",
            words::plural(charge.releases, "time")
        ),
        format!(
            "Each is the sum of {}. In a step each {unit} takes part with probability {}, drawn in secret; its gradient is \
             clipped to {}, and noise of {} times that is added at your site.",
            words::plural(training.steps.into(), "step"),
            words::number(training.sampling_rate.get()),
            words::number(training.clip),
            words::number(training.noise_multiplier.get())
        ),
        format!(
            "{} are charged. The choice of questions, the classifier and the report follow from them, from released \
             questions, answers and test sets, and cost nothing more.",
            words::plural(charge.releases, "release")
        ),
        match (spec.tests.len(), spec.private_test) {
            (0, None) => "The classifier is not measured: a figure on your log would be another release.",
            (_, None) => "The classifier is measured on public test sets, and not on your log.",
            (_, Some(_)) => {
                "The classifier is measured on test sets, of which a private one pays for itself, and not on your log."
            }
        }
        .to_owned(),
    ]
}

/// Returns the effects of an approval by the owner of a private test set, sentence by sentence.
fn describe_measurement_consent(spec: &Spec, test: &PrivateTest, charge: &Charge) -> Vec<String> {
    let unit = unit_noun(charge.unit);
    vec![
        format!(
            "The classifier is measured on your log {}, {}. Its texts and labels stay.",
            words::plural(charge.releases, "time"),
            describe_measured(spec, test)
        ),
        format!(
            "A measurement releases one vector: for each of {} the histogram of the classifier's scores, and the number of \
             correct answers. Each {unit} of the test set is in it, with at most the greatest contribution; noise of deviation \
             {} is added to each number at your site.",
            words::plural(spec.labels.len() as u64, "label"),
            words::number(test.histograms(&spec.labels).pooled_deviation(1))
        ),
        format!(
            "{} charged. Accuracy, AUROC, calibration and their intervals follow from the noisy histograms, and cost nothing \
             more.",
            if charge.releases == 1 {
                "1 release is".to_owned()
            } else {
                format!("{} releases are", words::count(charge.releases))
            }
        ),
    ]
}
