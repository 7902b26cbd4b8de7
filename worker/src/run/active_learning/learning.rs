//! The lead's state: the golden set of public data, the questions, the answers, and the classifier of all that.

use std::collections::{BTreeMap, HashMap, HashSet};

use undertone_api::id::QuestionId;
use undertone_api::job::active_learning::{Aggregation, AnnotatorResult, BINS, Spec};

use super::AnnotationError;
use crate::queries::acquire::{BatchPlan, choose, confidence_histogram, histogram};
use crate::queries::annotators::{LabelVote, SMOOTHING, agreement, dawid_skene, fleiss_kappa, majority};
use crate::queries::classifier::{Classifier, Example, Visible};
use crate::queries::released::Released;
use crate::run::{AnswerLine, RunError};

/// The classifier's ranking of the remaining questions.
pub(super) struct QuestionRanking {
    /// The questions of the next round, the most urgent first, with their scores; none when all were asked.
    pub(super) chosen: Vec<(QuestionId, f64)>,
    /// The uncertainties of all of them, in [`BINS`] bins.
    pub(super) bins: Vec<u64>,
    /// The confidences of all of them, in [`BINS`] bins.
    pub(super) confidence: Vec<u64>,
}

/// The lead's learning state.
pub(super) struct LearningState<'a> {
    spec: &'a Spec,
    labels: Vec<String>,
    /// The golden set; empty for a private lead, whose rows no code but its trainer reads.
    golden: Vec<Example<'a>>,
    /// The possible questions: each text once, and none of the golden set.
    pool: Vec<&'a Released>,
    places: HashMap<QuestionId, usize>,
    /// The questions so far, in the order in which they were asked: their places in the pool.
    questions: Vec<usize>,
    /// The inverse: the turn of each question.
    turns: HashMap<QuestionId, usize>,
    votes: Vec<LabelVote>,
    /// The number of counted answers, by annotator.
    answer_counts: BTreeMap<u32, u64>,
    /// The consensus label of each question so far.
    consensus: Vec<Option<u16>>,
    /// The classifier of the current labels; `None` since their last change.
    classifier: Option<Classifier>,
}

impl<'a> LearningState<'a> {
    /// Makes the state before the first question. Of a text that several sites released one copy is kept, and none of a
    /// text in the golden set: one label serves all copies.
    pub(super) fn new(spec: &'a Spec, golden: Vec<Example<'a>>, released: &'a [Released]) -> Self {
        let mut texts: HashSet<&str> = golden.iter().map(|example| example.text.text()).collect();
        let pool: Vec<&Released> = released.iter().filter(|question| texts.insert(question.text())).collect();
        Self {
            spec,
            labels: spec.labels.iter().map(|label| label.name.clone()).collect(),
            golden,
            places: pool.iter().enumerate().map(|(place, question)| (question.id(), place)).collect(),
            pool,
            questions: Vec::new(),
            turns: HashMap::new(),
            votes: Vec::new(),
            answer_counts: BTreeMap::new(),
            consensus: Vec::new(),
            classifier: None,
        }
    }

    /// Returns the classifier of the current labels: the same for the same labels, on the same machine to the bit.
    ///
    /// # Errors
    /// [`RunError::Failed`] when training is impossible.
    pub(super) fn classifier(&mut self) -> Result<&Classifier, RunError> {
        let classifier = if let Some(classifier) = self.classifier.take() {
            classifier
        } else {
            Classifier::train(&self.spec.classifier, &self.labels, &self.examples(), self.spec.seed)?
        };
        Ok(self.classifier.insert(classifier))
    }

    /// Returns the classifier of the answers so far, from which a private lead takes its noisy steps; the initial one
    /// without answers.
    ///
    /// # Errors
    /// [`RunError::Failed`] when training is impossible.
    pub(super) fn start(&self) -> Result<Classifier, RunError> {
        let examples = self.examples();
        let (settings, seed) = (&self.spec.classifier, self.spec.seed);
        Ok(if examples.is_empty() {
            Classifier::begin(settings, &self.labels, seed)?
        } else {
            Classifier::train(settings, &self.labels, &examples, seed)?
        })
    }

    /// Sets the classifier of the current labels.
    pub(super) fn set_classifier(&mut self, classifier: Classifier) {
        self.classifier = Some(classifier);
    }

    /// Returns the golden set and the labelled questions.
    fn examples(&self) -> Vec<Example<'a>> {
        let answers = self.labelled_questions().map(|(question, label)| Example::new(question.into(), label));
        self.golden.iter().copied().chain(answers).collect()
    }

    /// Returns the questions of a round, and the classifier's uncertainties of all remaining questions.
    ///
    /// # Errors
    /// [`RunError::Failed`] when training is impossible.
    pub(super) fn rank_questions(&mut self) -> Result<QuestionRanking, RunError> {
        self.classifier()?;
        let classifier = self.classifier.as_ref().ok_or(AnnotationError::NoClassifier)?;
        let earlier: HashSet<usize> = self.questions.iter().copied().collect();
        let remaining: Vec<&Released> =
            (0..self.pool.len()).filter(|place| !earlier.contains(place)).map(|place| self.pool[place]).collect();
        let texts: Vec<Visible<'_>> = remaining.iter().map(|question| Visible::from(*question)).collect();
        let labelled: Vec<Visible<'_>> =
            self.labelled_questions().map(|(question, _)| Visible::from(question)).collect();
        let posteriors = classifier.posteriors(&texts);
        let choice = BatchPlan {
            acquisition: self.spec.acquisition,
            batch: self.spec.batch as usize,
            diversity: self.spec.diversity,
            seed: self.spec.seed,
        };
        let questions = choose(classifier, &texts, &posteriors, &labelled, choice);
        let questions = questions.into_iter().map(|question| (remaining[question.index].id(), question.score));
        Ok(QuestionRanking {
            chosen: questions.collect(),
            bins: histogram(&posteriors, BINS),
            confidence: confidence_histogram(&posteriors, BINS),
        })
    }

    /// Records that questions were asked.
    ///
    /// # Errors
    /// [`RunError::Failed`] for a question that is in no pool, or was asked before.
    pub(super) fn record_questions(&mut self, chosen: &[(QuestionId, f64)]) -> Result<(), RunError> {
        for (question, _) in chosen {
            let place = self.places.get(question).copied().ok_or(AnnotationError::UnknownQuestion(*question))?;
            if self.turns.insert(*question, self.questions.len()).is_some() {
                return Err(AnnotationError::RepeatedQuestion(*question).into());
            }
            self.questions.push(place);
            self.consensus.push(None);
        }
        self.classifier = None;
        Ok(())
    }

    /// Adds answers, and decides on every question anew: later answers may change the estimated reliability of earlier
    /// ones. Answers to other questions, and labels that the job does not have, are ignored.
    pub(super) fn add_answers(&mut self, answers: &[AnswerLine]) {
        let numbers: HashMap<&str, u16> = self.labels.iter().map(String::as_str).zip(0..).collect();
        for AnswerLine { question, annotator, answer } in answers {
            let Some(item) = self.turns.get(question).copied().filter(|_| answer.counts()) else { continue };
            let label = answer.label().map(|label| numbers.get(label).copied());
            if label == Some(None) {
                continue;
            }
            *self.answer_counts.entry(*annotator).or_default() += 1;
            if let Some(label) = label.flatten() {
                self.votes.push(LabelVote { item, annotator: *annotator, label });
            }
        }
        let items = self.questions.len();
        let labels = self.labels.len();
        self.consensus = match self.spec.aggregation {
            Aggregation::Majority => majority(&self.votes, items, labels),
            Aggregation::DawidSkene => dawid_skene(&self.votes, items, labels, SMOOTHING).labels(),
        };
        self.classifier = None;
    }

    /// Returns the questions with a label, in the order in which they were asked.
    pub(super) fn labelled_questions(&self) -> impl Iterator<Item = (&'a Released, u16)> + '_ {
        let pairs = self.questions.iter().zip(&self.consensus);
        pairs.filter_map(|(place, label)| label.map(|label| (self.pool[*place], label)))
    }

    /// Returns the name of a label.
    pub(super) fn label_name(&self, label: u16) -> &str {
        self.labels.get(usize::from(label)).map_or("", String::as_str)
    }

    /// Returns the last round if each round asks as many questions as remain, at most the spec's batch.
    pub(super) fn last_round(&self) -> u32 {
        let rounds = self.pool.len().div_ceil(self.spec.batch.max(1) as usize);
        u32::try_from(rounds).map_or(self.spec.rounds, |rounds| rounds.min(self.spec.rounds))
    }

    /// Returns the number of questions asked so far.
    pub(super) const fn question_count(&self) -> u64 {
        self.questions.len() as u64
    }

    /// Returns the annotators, by number. The accuracy is known only for annotators who share a question with another
    /// one.
    pub(super) fn annotators(&self) -> Vec<AnnotatorResult> {
        let items = self.questions.len();
        let labels = self.labels.len();
        let consensus = dawid_skene(&self.votes, items, labels, SMOOTHING);
        let mut voters = vec![HashSet::new(); items];
        for vote in &self.votes {
            voters[vote.item].insert(vote.annotator);
        }
        let shared: HashSet<u32> = voters.iter().filter(|voters| voters.len() > 1).flatten().copied().collect();
        let result = |(annotator, annotations): (&u32, &u64)| AnnotatorResult {
            annotator: *annotator,
            annotations: *annotations,
            accuracy: consensus.accuracy(*annotator).filter(|_| shared.contains(annotator)),
            agreement: agreement(*annotator, &self.votes, &self.consensus),
        };
        self.answer_counts.iter().map(result).collect()
    }

    /// Returns Fleiss' κ of the answers.
    pub(super) fn agreement(&self) -> Option<f64> {
        fleiss_kappa(&self.votes, self.questions.len(), self.labels.len())
    }
}
