//! A learning curve: the golden set, then rounds of questions with their answers, each followed by training.

use std::collections::HashSet;

use undertone_api::job::active_learning::{Acquisition, Aggregation};

use super::{PublicLog, RehearsalError};
use crate::acquire::{BatchPlan, choose, derive_seed};
use crate::annotators::{LabelVote, SMOOTHING, SimulatedAnnotator, dawid_skene, majority};
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
    /// Annotators of each question: at least 1.
    pub annotators: u32,
    /// The method by which their answers become one label.
    pub aggregation: Aggregation,
    /// Seed of everything.
    pub seed: u64,
}

/// The parameters of one trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrialSettings {
    /// Largest number of questions.
    pub questions: u32,
    /// Mean probability that an annotator is right.
    pub accuracy: f64,
    /// Standard deviation of this probability between annotators.
    pub deviation: f64,
    /// The number of the repeat.
    pub repeat: u32,
}

/// Accuracy by number of labels.
#[derive(Debug, Clone)]
pub struct LearningCurve {
    trial: TrialSettings,
    seed: u64,
    classifier: Classifier,
    /// (text, label) of the golden set.
    golden: Vec<(String, u16)>,
    /// The questions so far with their true labels.
    questions: Vec<(String, u16)>,
    votes: Vec<LabelVote>,
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
        let golden: Vec<_> = selection.into_iter().map(|index| (texts[index].to_owned(), labels[index])).collect();
        let classifier = train(public_log, learner, &golden, seed)?;
        let points = vec![(0, classifier.examine(&public_log.tests()).accuracy())];
        Ok(Self { trial, seed, classifier, golden, questions: Vec::new(), votes: Vec::new(), points })
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
        let labels = public_log.labels().len() as u16;
        let TrialSettings { accuracy, deviation, .. } = self.trial;
        let annotators =
            SimulatedAnnotator::draw(learner.annotators, accuracy, deviation, labels, derive_seed(self.seed, 1));
        let golden: HashSet<String> = self.golden.iter().map(|(text, _)| text.clone()).collect();
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
            let known = self.golden.iter().chain(&self.questions);
            let known: Vec<Visible<'_>> = known.map(|(text, _)| public_log.visible(text)).collect();
            let selection = choose(&self.classifier, &texts, &posteriors, &known, choice);
            let selected_indices: HashSet<usize> = selection.iter().map(|question| question.index).collect();
            for question in &selection {
                let (text, truth) = candidates[question.index];
                self.ask(text, truth, &annotators);
            }
            let mut index = 0..;
            candidates.retain(|_| index.next().is_none_or(|index| !selected_indices.contains(&index)));
            budget -= selected_indices.len();
            let labelled_texts = self.labelled_texts(labels, learner.aggregation);
            self.classifier = train(public_log, learner, &labelled_texts, self.seed)?;
            let labelled = (labelled_texts.len() - self.golden.len()) as u64;
            self.points.push((labelled, self.classifier.examine(&public_log.tests()).accuracy()));
        }
        Ok(())
    }

    /// Adds a question with the answers of all annotators.
    fn ask(&mut self, text: &str, truth: u16, annotators: &[SimulatedAnnotator]) {
        let item = self.questions.len();
        let vote = |(number, annotator): (u32, &SimulatedAnnotator)| LabelVote {
            item,
            annotator: number,
            label: annotator.answer(number, text, truth),
        };
        self.votes.extend((0..).zip(annotators).map(vote));
        self.questions.push((text.to_owned(), truth));
    }

    /// Returns (text, label) of the golden set and of the questions, whose labels follow from all answers so far.
    pub(super) fn labelled_texts(&self, labels: u16, aggregation: Aggregation) -> Vec<(String, u16)> {
        let (items, labels) = (self.questions.len(), usize::from(labels));
        let consensus = match aggregation {
            Aggregation::Majority => majority(&self.votes, items, labels),
            Aggregation::DawidSkene => dawid_skene(&self.votes, items, labels, SMOOTHING).labels(),
        };
        let questions = self.questions.iter().zip(consensus);
        let questions = questions.filter_map(|((text, _), label)| Some((text.clone(), label?)));
        self.golden.iter().cloned().chain(questions).collect()
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
