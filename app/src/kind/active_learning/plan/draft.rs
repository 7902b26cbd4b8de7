//! Conversion of a spec into its plan, so that a draft can be edited in the planner. A plan lacks options without a
//! field in the planner: the code that opens a draft compares the plan's spec with it, and reports the differences.

use undertone_api::job::active_learning::{PrivateTest, PrivateTraining, Rehearsal, Spec};
use undertone_api::question::Label;

use super::{LogPart, MeasurementPlan, QuestionPlan, RehearsalPlan, TrainingPlan};

impl QuestionPlan {
    /// Converts a spec into a plan; `first` is the plan of the datasets, which provides all values that the spec lacks.
    pub(in crate::kind::active_learning) fn from_spec(title: &str, spec: &Spec, first: Self) -> Self {
        let parts = first.parts.iter().map(|part| convert_part(spec, part)).collect();
        let is_listed = |lead: &undertone_api::id::DatasetId| first.parts.iter().any(|part| part.dataset == *lead);
        let lead = spec.participants.first().map(|party| party.dataset).filter(is_listed).unwrap_or(first.lead);
        Self {
            title: title.to_owned(),
            unit: spec.unit,
            lead,
            parts,
            labels: spec.labels.iter().map(format_label).collect::<Vec<_>>().join("\n"),
            guidelines: spec.guidelines.clone(),
            golden: spec.golden,
            rounds: spec.rounds,
            batch: spec.batch,
            acquisition: spec.acquisition,
            diversity: spec.diversity,
            annotators: spec.annotators,
            aggregation: spec.aggregation,
            hours: f64::from(spec.deadline_seconds) / 3600.0,
            classifier: spec.classifier,
            training: spec.private_lead.as_ref().map_or(first.training, convert_training),
            measurement: spec.private_test.as_ref().map_or(first.measurement, convert_measurement),
            trials: spec.rehearsal.as_ref().map_or(first.trials, convert_trials),
        }
    }
}

/// Converts a log's part: from the spec if it takes part, else from the first plan.
fn convert_part(spec: &Spec, first: &LogPart) -> LogPart {
    let tests = spec.tests.iter().any(|test| test.dataset == first.dataset);
    let measures = spec.private_test_on(first.dataset).is_some();
    let Some(party) = spec.party(first.dataset) else {
        return LogPart { joins: false, tests, measures, ..first.clone() };
    };
    let Some(gate) = party.gate else { return LogPart { joins: true, asks: false, tests, ..first.clone() } };
    LogPart {
        dataset: first.dataset,
        joins: true,
        asks: true,
        tests,
        measures,
        rate: gate.sampling_rate.get(),
        threshold: gate.threshold.get(),
        epsilon: gate.epsilon.get(),
        shown: gate.shown,
        rows: gate.rows_per_unit.get(),
    }
}

/// Formats a label as a line of the form: name, key and hint.
fn format_label(label: &Label) -> String {
    let key = label.key.map(String::from).unwrap_or_default();
    match (key.as_str(), label.hint.as_str()) {
        ("", "") => label.name.clone(),
        (key, "") => format!("{} | {key}", label.name),
        (key, hint) => format!("{} | {key} | {hint}", label.name),
    }
}

fn convert_training(training: &PrivateTraining) -> TrainingPlan {
    TrainingPlan {
        rate: training.sampling_rate.get(),
        noise: training.noise_multiplier.get(),
        clip: training.clip,
        steps: training.steps,
        learning_rate: training.learning_rate,
    }
}

fn convert_measurement(test: &PrivateTest) -> MeasurementPlan {
    MeasurementPlan { noise: test.noise_multiplier.get(), count: test.measurements }
}

fn convert_trials(rehearsal: &Rehearsal) -> RehearsalPlan {
    RehearsalPlan {
        on: true,
        rates: rehearsal.rates.iter().map(f64::to_string).collect::<Vec<_>>().join(", "),
        thresholds: rehearsal.thresholds.iter().map(u32::to_string).collect::<Vec<_>>().join(", "),
        questions: rehearsal.questions,
        repeats: rehearsal.repeats,
        accuracy: rehearsal.annotator_accuracy,
        deviation: rehearsal.annotator_deviation,
    }
}
