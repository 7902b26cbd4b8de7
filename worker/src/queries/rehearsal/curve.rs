//! A learning curve: golden set, then round after round of questions, each answered and learned.

use std::collections::HashSet;

use undertone_api::job::active_learning::Acquisition;

use super::{Ground, RehearsalError};
use crate::queries::acquire::{Choice, choose, derived};
use crate::queries::annotators::Simulated;
use crate::queries::classifier::{Classifier, Example, Settings, Visible, golden};

/// How a classifier learns: what a job says of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Learner {
    /// The classifier.
    pub settings: Settings,
    /// By what questions are chosen.
    pub acquisition: Acquisition,
    /// Whether they are also to differ.
    pub diversity: bool,
    /// Most questions of a round.
    pub batch: u32,
    /// Examples of the golden set.
    pub golden: u32,
    /// Seed of everything.
    pub seed: u64,
}

/// What is tried, in one repeat.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lesson {
    /// Most questions.
    pub questions: u32,
    /// Probability that the annotator is right.
    pub accuracy: f64,
    /// The number of the repeat.
    pub repeat: u32,
}

/// Accuracy against labels.
#[derive(Debug, Clone)]
pub struct Curve {
    lesson: Lesson,
    seed: u64,
    classifier: Classifier,
    /// (text, label): the golden set, then what was answered.
    known: Vec<(String, u16)>,
    golden: usize,
    points: Vec<(u64, f64)>,
}

impl Curve {
    /// The first point: the golden set alone. It is drawn from the log's distinct texts that have a label.
    ///
    /// # Errors
    /// [`RehearsalError`] when the log or the test set has no label, or the classifier cannot learn.
    pub fn begin(ground: &Ground<'_>, learner: &Learner, lesson: Lesson) -> Result<Self, RehearsalError> {
        let (texts, labels): (Vec<&str>, Vec<u16>) =
            ground.queries().filter_map(|query| Some((query.text.as_str(), query.label?))).unzip();
        if texts.is_empty() {
            return Err(RehearsalError::Nothing("query"));
        }
        if ground.tests().is_empty() {
            return Err(RehearsalError::Nothing("test query"));
        }
        let seed = derived(learner.seed, u64::from(lesson.repeat));
        let chosen = golden::draw(&labels, learner.golden as usize, seed);
        let known: Vec<_> = chosen.into_iter().map(|index| (texts[index].to_owned(), labels[index])).collect();
        let classifier = train(ground, learner, &known, seed)?;
        let points = vec![(0, classifier.examine(&ground.tests()).accuracy())];
        Ok(Self { lesson, seed, classifier, golden: known.len(), known, points })
    }

    /// Asks from a pool, round after round, until the questions or the pool are used up. Of the pool are asked what the golden set
    /// has not and the log has a label for.
    ///
    /// # Errors
    /// [`RehearsalError`] when the classifier cannot learn.
    pub fn go_on(&mut self, ground: &Ground<'_>, learner: &Learner, pool: &[String]) -> Result<(), RehearsalError> {
        let annotator = Simulated::new(self.lesson.accuracy, ground.labels().len() as u16, derived(self.seed, 1));
        let golden: HashSet<&str> = self.known[..self.golden].iter().map(|(text, _)| text.as_str()).collect();
        let fresh = |text: &&String| !golden.contains(text.as_str());
        let mut left: Vec<(&str, u16)> =
            pool.iter().filter(fresh).filter_map(|text| Some((text.as_str(), ground.query(text)?.label?))).collect();
        left.sort_unstable();
        let mut budget = self.lesson.questions as usize;
        while budget > 0 && !left.is_empty() {
            let texts: Vec<Visible<'_>> = left.iter().map(|(text, _)| ground.visible(text)).collect();
            let choice = Choice {
                acquisition: learner.acquisition,
                batch: budget.min(learner.batch.max(1) as usize),
                diversity: learner.diversity,
                seed: derived(self.seed, 2),
            };
            let posteriors = self.classifier.posteriors(&texts);
            let known: Vec<Visible<'_>> = self.known.iter().map(|(text, _)| ground.visible(text)).collect();
            let chosen = choose(&self.classifier, &texts, &posteriors, &known, choice);
            let asked: HashSet<usize> = chosen.iter().map(|chosen| chosen.index).collect();
            let answers = chosen.iter().map(|chosen| {
                let (text, truth) = left[chosen.index];
                (text.to_owned(), annotator.answer(0, text, truth))
            });
            let answers: Vec<_> = answers.collect();
            self.known.extend(answers);
            let mut index = 0..;
            left.retain(|_| index.next().is_none_or(|index| !asked.contains(&index)));
            budget -= asked.len();
            self.classifier = train(ground, learner, &self.known, self.seed)?;
            let labelled = (self.known.len() - self.golden) as u64;
            self.points.push((labelled, self.classifier.examine(&ground.tests()).accuracy()));
        }
        Ok(())
    }

    /// (labels beside the golden set, accuracy on the test set), ascending.
    pub fn points(&self) -> &[(u64, f64)] {
        &self.points
    }

    /// The classifier as it stands.
    pub const fn classifier(&self) -> &Classifier {
        &self.classifier
    }
}

fn train(
    ground: &Ground<'_>,
    learner: &Learner,
    known: &[(String, u16)],
    seed: u64,
) -> Result<Classifier, RehearsalError> {
    let examples: Vec<Example<'_>> =
        known.iter().map(|(text, label)| Example::new(ground.visible(text), *label)).collect();
    Ok(Classifier::train(&learner.settings, ground.labels(), &examples, seed)?)
}
