//! Conversion of a plan into its spec.

use std::num::NonZeroU32;

use undertone_api::dataset::{Dataset, Visibility};
use undertone_api::job::active_learning::{Gate, Party, PrivateTest, PrivateTraining, Rehearsal, Spec, TestSet};
use undertone_api::problem::Violation;
use undertone_api::question::Label;
use undertone_privacy::{Epsilon, NoiseMultiplier, SamplingRate};

use super::{LogPart, QuestionPlan, RehearsalPlan, TrainingPlan};

impl QuestionPlan {
    /// Converts the plan into a spec.
    ///
    /// # Errors
    /// Every invalid number, by its path in the spec.
    pub(in crate::kind::active_learning) fn spec(&self, datasets: &[Dataset]) -> Result<Spec, Vec<Violation>> {
        let mut violations = Vec::new();
        let mut say = |field: &str, message: String| violations.push(Violation::new(format!("spec.{field}"), message));
        let mut participants = Vec::new();
        for (index, part) in self.participants().enumerate() {
            let dataset = datasets.iter().find(|dataset| dataset.id == part.dataset);
            let public = dataset.is_some_and(|dataset| dataset.visibility == Visibility::Public);
            let silent = part.dataset == self.lead && (!public || !part.asks);
            let gate = if silent { None } else { parse_gate(part, index, &mut say) };
            participants.push(Party { dataset: part.dataset, gate });
        }
        let private_lead =
            datasets.iter().find(|dataset| dataset.id == self.lead && dataset.visibility != Visibility::Public);
        let training = private_lead.and_then(|_| self.training.parse(&mut say));
        let private_test = self.parse_private_test(&mut say);
        let labels = parse_labels(&self.labels, &mut say);
        let rehearsal = self.trials.on.then(|| self.trials.rehearsal(&mut say)).flatten();
        let seconds = self.hours * 3600.0;
        if !(seconds >= 0.0 && seconds <= f64::from(u32::MAX)) {
            say("deadline_seconds", "enter hours, such as 48".to_owned());
        }
        if !violations.is_empty() {
            return Err(violations);
        }
        let tests = self
            .parts
            .iter()
            .filter(|part| part.tests)
            .filter_map(|part| datasets.iter().find(|dataset| dataset.id == part.dataset))
            .map(|dataset| TestSet { name: dataset.name.chars().take(40).collect(), dataset: dataset.id })
            .collect();
        Ok(Spec {
            unit: self.unit,
            participants,
            labels,
            guidelines: self.guidelines.trim().replace("\r\n", "\n"),
            tests,
            // A private lead trains on all of its labelled rows.
            golden: private_lead.map_or(self.golden, |lead| u32::try_from(lead.count(self.unit).0).unwrap_or(u32::MAX)),
            private_lead: training,
            private_test,
            rounds: self.rounds,
            batch: self.batch,
            acquisition: self.acquisition,
            diversity: self.diversity,
            classifier: self.classifier,
            annotators: self.annotators,
            aggregation: self.aggregation,
            deadline_seconds: seconds.round() as u32,
            rehearsal,
            seed: 1,
        })
    }

    fn parse_private_test(&self, say: &mut impl FnMut(&str, String)) -> Option<PrivateTest> {
        let mut measured = self.measured();
        let dataset = measured.next()?.dataset;
        if measured.next().is_some() {
            say("private_test.dataset", "mark one private log to measure on, not several".to_owned());
        }
        let noise = NoiseMultiplier::new(self.measurement.noise);
        let noise = noise.map_err(|error| say("private_test.noise_multiplier", error.to_string()));
        Some(PrivateTest { dataset, noise_multiplier: noise.ok()?, measurements: self.measurement.count })
    }
}

fn parse_gate(part: &LogPart, index: usize, say: &mut impl FnMut(&str, String)) -> Option<Gate> {
    let field_path = |field: &str| format!("participants.{index}.gate.{field}");
    let rate = SamplingRate::new(part.rate).map_err(|error| say(&field_path("sampling_rate"), error.to_string()));
    let epsilon = Epsilon::new(part.epsilon).map_err(|error| say(&field_path("epsilon"), error.to_string()));
    let threshold = NonZeroU32::new(part.threshold);
    if threshold.is_none() {
        say(&field_path("threshold"), "at least 1, not 0".to_owned());
    }
    let rows = NonZeroU32::new(part.rows);
    if rows.is_none() {
        say(&field_path("rows_per_unit"), "at least 1, not 0".to_owned());
    }
    Some(Gate {
        sampling_rate: rate.ok()?,
        threshold: threshold?,
        epsilon: epsilon.ok()?,
        shown: part.shown,
        rows_per_unit: rows?,
    })
}

/// Parses labels: one a line, with its key and its hint after bars.
fn parse_labels(text: &str, say: &mut impl FnMut(&str, String)) -> Vec<Label> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let label = |(index, line): (usize, &str)| {
        let mut columns = line.splitn(3, '|').map(str::trim);
        let mut next = || columns.next().unwrap_or_default();
        let name = next().to_owned();
        let key = next();
        let hint = next().to_owned();
        let mut letters = key.chars();
        let key = letters.next();
        let more = letters.next();
        if more.is_some() {
            say(
                &format!("labels.{index}.key"),
                "enter one letter or digit between the bars, or leave it empty".to_owned(),
            );
        }
        Label { name, key, hint }
    };
    lines.enumerate().map(label).collect()
}

impl TrainingPlan {
    fn parse(&self, say: &mut impl FnMut(&str, String)) -> Option<PrivateTraining> {
        let at = |field: &str| format!("private_lead.{field}");
        let rate = SamplingRate::new(self.rate).map_err(|error| say(&at("sampling_rate"), error.to_string()));
        let noise = NoiseMultiplier::new(self.noise).map_err(|error| say(&at("noise_multiplier"), error.to_string()));
        Some(PrivateTraining {
            sampling_rate: rate.ok()?,
            noise_multiplier: noise.ok()?,
            clip: self.clip,
            steps: self.steps,
            learning_rate: self.learning_rate,
        })
    }
}

impl RehearsalPlan {
    fn rehearsal(&self, say: &mut impl FnMut(&str, String)) -> Option<Rehearsal> {
        let words =
            |text: &str| text.split([',', ' ']).filter(|word| !word.is_empty()).map(str::to_owned).collect::<Vec<_>>();
        let rates: Result<Vec<f64>, _> = words(&self.rates).iter().map(|word| word.parse()).collect();
        let thresholds: Result<Vec<u32>, _> = words(&self.thresholds).iter().map(|word| word.parse()).collect();
        if rates.is_err() {
            say("rehearsal.rates", "enter numbers separated by commas, such as 0.1, 0.25".to_owned());
        }
        if thresholds.is_err() {
            say("rehearsal.thresholds", "enter whole numbers separated by commas, such as 5, 10".to_owned());
        }
        Some(Rehearsal {
            rates: rates.ok()?,
            thresholds: thresholds.ok()?,
            questions: self.questions,
            repeats: self.repeats,
            annotator_accuracy: self.accuracy,
            annotator_deviation: self.deviation,
        })
    }
}
