//! What the lead has learned so far: the golden set, what was asked, what was answered, and the classifier of all that.

use std::collections::{BTreeMap, HashMap, HashSet};

use undertone_api::id::QuestionId;
use undertone_api::job::active_learning::{Aggregation, AnnotatorResult, BINS, Spec};

use super::failed;
use crate::queries::acquire::{BatchPlan, choose, histogram};
use crate::queries::annotators::{LabelVote, SMOOTHING, agreement, dawid_skene, fleiss_kappa, majority};
use crate::queries::classifier::{Classifier, ClassifierError, Example, Visible};
use crate::queries::released::Released;
use crate::run::{Answered, RunError};

impl From<ClassifierError> for RunError {
    fn from(error: ClassifierError) -> Self {
        Self::Failed(error.to_string())
    }
}

/// What was not asked yet, as the classifier sees it.
pub(super) struct Ranked {
    /// The questions of the next round, the most urgent first, with their scores; none when all was asked.
    pub(super) chosen: Vec<(QuestionId, f64)>,
    /// How uncertain it is of all of them, in [`BINS`] bins.
    pub(super) bins: Vec<u64>,
}

/// The lead's learning.
pub(super) struct Learning<'a> {
    spec: &'a Spec,
    labels: Vec<String>,
    golden: Vec<Example<'a>>,
    /// What can be asked: each text once, and none that the golden set answers.
    pool: Vec<&'a Released>,
    places: HashMap<QuestionId, usize>,
    /// What was asked, in order: places in the pool.
    asked: Vec<usize>,
    /// The same the other way round.
    turns: HashMap<QuestionId, usize>,
    votes: Vec<LabelVote>,
    /// Answers that counted, by annotator.
    counted: BTreeMap<u32, u64>,
    /// The label of each question that was asked, in the end.
    decided: Vec<Option<u16>>,
    /// Of the labels as they stand; none since the last ones came.
    classifier: Option<Classifier>,
}

impl<'a> Learning<'a> {
    /// Before the first question. Of a text that several sites released, or that the golden set has, one copy is kept, or none: who
    /// labels it labels it for all.
    pub(super) fn new(spec: &'a Spec, golden: Vec<Example<'a>>, released: &'a [Released]) -> Self {
        let mut seen: HashSet<&str> = golden.iter().map(|example| example.text.text()).collect();
        let pool: Vec<&Released> = released.iter().filter(|question| seen.insert(question.text())).collect();
        Self {
            spec,
            labels: spec.labels.iter().map(|label| label.name.clone()).collect(),
            golden,
            places: pool.iter().enumerate().map(|(place, question)| (question.id(), place)).collect(),
            pool,
            asked: Vec::new(),
            turns: HashMap::new(),
            votes: Vec::new(),
            counted: BTreeMap::new(),
            decided: Vec::new(),
            classifier: None,
        }
    }

    /// The classifier of the labels as they stand: the same for the same labels, on the same machine to the bit.
    ///
    /// # Errors
    /// [`RunError::Failed`] when nothing can be learned.
    pub(super) fn classifier(&mut self) -> Result<&Classifier, RunError> {
        let classifier = if let Some(classifier) = self.classifier.take() {
            classifier
        } else {
            let answered = self.labelled().map(|(question, label)| Example::new(question.into(), label));
            let examples: Vec<Example<'_>> = self.golden.iter().copied().chain(answered).collect();
            Classifier::train(&self.spec.classifier, &self.labels, &examples, self.spec.seed)?
        };
        Ok(self.classifier.insert(classifier))
    }

    /// The questions of a round, and how uncertain the classifier is of everything that was not asked yet.
    ///
    /// # Errors
    /// [`RunError::Failed`] when nothing can be learned.
    pub(super) fn choose(&mut self) -> Result<Ranked, RunError> {
        self.classifier()?;
        let Some(classifier) = &self.classifier else { return Err(failed("there is no classifier")) };
        let asked: HashSet<usize> = self.asked.iter().copied().collect();
        let left: Vec<&Released> =
            (0..self.pool.len()).filter(|place| !asked.contains(place)).map(|place| self.pool[place]).collect();
        let texts: Vec<Visible<'_>> = left.iter().map(|question| Visible::from(*question)).collect();
        let labelled: Vec<Visible<'_>> = self.labelled().map(|(question, _)| Visible::from(question)).collect();
        let posteriors = classifier.posteriors(&texts);
        let choice = BatchPlan {
            acquisition: self.spec.acquisition,
            batch: self.spec.batch as usize,
            diversity: self.spec.diversity,
            seed: self.spec.seed,
        };
        let chosen = choose(classifier, &texts, &posteriors, &labelled, choice);
        let chosen = chosen.into_iter().map(|chosen| (left[chosen.index].id(), chosen.score)).collect();
        Ok(Ranked { chosen, bins: histogram(&posteriors, BINS) })
    }

    /// Notes that questions were asked.
    ///
    /// # Errors
    /// [`RunError::Failed`] for a question that is in no pool, or was asked before.
    pub(super) fn ask(&mut self, chosen: &[(QuestionId, f64)]) -> Result<(), RunError> {
        for (question, _) in chosen {
            let place = self.places.get(question).copied();
            let place = place.ok_or_else(|| failed(format!("question {question} of an earlier life is in no pool")))?;
            if self.turns.insert(*question, self.asked.len()).is_some() {
                return Err(failed(format!("question {question} was asked before")));
            }
            self.asked.push(place);
            self.decided.push(None);
        }
        self.classifier = None;
        Ok(())
    }

    /// Takes in answers, and decides about every question anew: what people say later may tell how well they judged earlier. Answers
    /// to what was not asked, and labels that the job has not, are none.
    pub(super) fn hear(&mut self, answers: &[Answered]) {
        let numbers: HashMap<&str, u16> = self.labels.iter().map(String::as_str).zip(0..).collect();
        for Answered { question, annotator, answer } in answers {
            let Some(item) = self.turns.get(question).copied().filter(|_| answer.counts()) else { continue };
            let label = answer.label().map(|label| numbers.get(label).copied());
            if label == Some(None) {
                continue;
            }
            *self.counted.entry(*annotator).or_default() += 1;
            if let Some(label) = label.flatten() {
                self.votes.push(LabelVote { item, annotator: *annotator, label });
            }
        }
        let (items, labels) = (self.asked.len(), self.labels.len());
        self.decided = match self.spec.aggregation {
            Aggregation::Majority => majority(&self.votes, items, labels),
            Aggregation::DawidSkene => dawid_skene(&self.votes, items, labels, SMOOTHING).labels(),
        };
        self.classifier = None;
    }

    /// The questions with a label, in the order in which they were asked.
    pub(super) fn labelled(&self) -> impl Iterator<Item = (&'a Released, u16)> + '_ {
        let decided = self.asked.iter().zip(&self.decided);
        decided.filter_map(|(place, label)| label.map(|label| (self.pool[*place], label)))
    }

    /// The name of a label.
    pub(super) fn name(&self, label: u16) -> &str {
        self.labels.get(usize::from(label)).map_or("", String::as_str)
    }

    /// Questions asked so far.
    pub(super) const fn asked(&self) -> u64 {
        self.asked.len() as u64
    }

    /// The annotators, by number. How often one is right can be said only of those of whose questions somebody else answered one.
    pub(super) fn annotators(&self) -> Vec<AnnotatorResult> {
        let (items, labels) = (self.asked.len(), self.labels.len());
        let consensus = dawid_skene(&self.votes, items, labels, SMOOTHING);
        let mut people = vec![HashSet::new(); items];
        for vote in &self.votes {
            people[vote.item].insert(vote.annotator);
        }
        let shared: HashSet<u32> = people.iter().filter(|people| people.len() > 1).flatten().copied().collect();
        let of = |(annotator, annotations): (&u32, &u64)| AnnotatorResult {
            annotator: *annotator,
            annotations: *annotations,
            accuracy: consensus.accuracy(*annotator).filter(|_| shared.contains(annotator)),
            agreement: agreement(*annotator, &self.votes, &self.decided),
        };
        self.counted.iter().map(of).collect()
    }

    /// Fleiss' κ of the answers.
    pub(super) fn agreement(&self) -> Option<f64> {
        fleiss_kappa(&self.votes, self.asked.len(), self.labels.len())
    }
}
