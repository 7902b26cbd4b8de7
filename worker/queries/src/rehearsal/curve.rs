//! A learning curve: the golden set, then rounds of questions with their answers, each followed by training.

use std::collections::HashSet;

use undertone_api::job::active_learning::Acquisition;

use super::{PublicLog, RehearsalError};
use crate::acquire::{BatchPlan, choose, derive_seed};
use crate::annotators::SimulatedAnnotator;
use crate::classifier::{Classifier, Example, Settings, Visible, golden};

/// The settings of a job that determine a learning curve.
#[derive(Debug, Clone, PartialEq)]
pub struct LearnerSettings {
    /// The classifier's settings.
    pub settings: Settings,
    /// The measure that ranks the questions.
    pub acquisition: Acquisition,
    /// Whether the questions must also differ from each other.
    pub diversity: bool,
    /// Largest number of questions of a round.
    pub batch: u32,
    /// Number of examples of the golden set.
    pub golden: u32,
    /// Seed of everything.
    pub seed: u64,
}

/// The parameters of one trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrialSettings {
    /// Largest number of questions.
    pub questions: u32,
    /// Probability that the annotator is right.
    pub accuracy: f64,
    /// The number of the repeat.
    pub repeat: u32,
}

/// Accuracy by number of labels.
#[derive(Debug, Clone)]
pub struct LearningCurve {
    trial: TrialSettings,
    seed: u64,
    classifier: Classifier,
    /// (text, label): the golden set, then the answered questions.
    labelled_texts: Vec<(String, u16)>,
    golden: usize,
    points: Vec<(u64, f64)>,
}

impl LearningCurve {
    /// Starts a curve with its first point: the golden set alone, drawn from the log's distinct texts with a label.
    ///
    /// # Errors
    /// [`RehearsalError`] when the log or the test set has no label, or the classifier cannot learn.
    pub fn begin(
        public_log: &PublicLog<'_>,
        learner: &LearnerSettings,
        trial: TrialSettings,
    ) -> Result<Self, RehearsalError> {
        let (texts, labels): (Vec<&str>, Vec<u16>) =
            public_log.queries().filter_map(|query| Some((query.text.as_str(), query.label?))).unzip();
        if texts.is_empty() {
            return Err(RehearsalError::Nothing("query"));
        }
        if public_log.tests().is_empty() {
            return Err(RehearsalError::Nothing("test query"));
        }
        let seed = derive_seed(learner.seed, u64::from(trial.repeat));
        let selection = golden::draw(&labels, learner.golden as usize, seed);
        let labelled_texts: Vec<_> =
            selection.into_iter().map(|index| (texts[index].to_owned(), labels[index])).collect();
        let classifier = train(public_log, learner, &labelled_texts, seed)?;
        let points = vec![(0, classifier.examine(&public_log.tests()).accuracy())];
        Ok(Self { trial, seed, classifier, golden: labelled_texts.len(), labelled_texts, points })
    }

    /// Asks questions from a pool, round after round, until the questions or the pool are used up. It asks only texts
    /// that are not in the golden set and have a label in the log.
    ///
    /// # Errors
    /// [`RehearsalError`] when the classifier cannot learn.
    pub fn extend(
        &mut self,
        public_log: &PublicLog<'_>,
        learner: &LearnerSettings,
        pool: &[String],
    ) -> Result<(), RehearsalError> {
        let annotator =
            SimulatedAnnotator::new(self.trial.accuracy, public_log.labels().len() as u16, derive_seed(self.seed, 1));
        let golden: HashSet<&str> = self.labelled_texts[..self.golden].iter().map(|(text, _)| text.as_str()).collect();
        let fresh = |text: &&String| !golden.contains(text.as_str());
        let mut candidates: Vec<(&str, u16)> = pool
            .iter()
            .filter(fresh)
            .filter_map(|text| Some((text.as_str(), public_log.query(text)?.label?)))
            .collect();
        candidates.sort_unstable();
        let mut budget = self.trial.questions as usize;
        while budget > 0 && !candidates.is_empty() {
            let texts: Vec<Visible<'_>> = candidates.iter().map(|(text, _)| public_log.visible(text)).collect();
            let choice = BatchPlan {
                acquisition: learner.acquisition,
                batch: budget.min(learner.batch.max(1) as usize),
                diversity: learner.diversity,
                seed: derive_seed(self.seed, 2),
            };
            let posteriors = self.classifier.posteriors(&texts);
            let labelled_texts: Vec<Visible<'_>> =
                self.labelled_texts.iter().map(|(text, _)| public_log.visible(text)).collect();
            let selection = choose(&self.classifier, &texts, &posteriors, &labelled_texts, choice);
            let selected_indices: HashSet<usize> = selection.iter().map(|question| question.index).collect();
            let answers = selection.iter().map(|question| {
                let (text, truth) = candidates[question.index];
                (text.to_owned(), annotator.answer(0, text, truth))
            });
            let answers: Vec<_> = answers.collect();
            self.labelled_texts.extend(answers);
            let mut index = 0..;
            candidates.retain(|_| index.next().is_none_or(|index| !selected_indices.contains(&index)));
            budget -= selected_indices.len();
            self.classifier = train(public_log, learner, &self.labelled_texts, self.seed)?;
            let labelled = (self.labelled_texts.len() - self.golden) as u64;
            self.points.push((labelled, self.classifier.examine(&public_log.tests()).accuracy()));
        }
        Ok(())
    }

    /// Returns (labels beyond the golden set, accuracy on the test set), ascending.
    pub fn points(&self) -> &[(u64, f64)] {
        &self.points
    }

    /// Returns the current classifier.
    pub const fn classifier(&self) -> &Classifier {
        &self.classifier
    }
}

fn train(
    public_log: &PublicLog<'_>,
    learner: &LearnerSettings,
    labelled_texts: &[(String, u16)],
    seed: u64,
) -> Result<Classifier, RehearsalError> {
    let examples: Vec<Example<'_>> =
        labelled_texts.iter().map(|(text, label)| Example::new(public_log.visible(text), *label)).collect();
    Ok(Classifier::train(&learner.settings, public_log.labels(), &examples, seed)?)
}
