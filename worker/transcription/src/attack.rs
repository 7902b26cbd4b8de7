//! Attacks on the sounds that a provider receives: the site, which knows the truth, plays an adversary and measures its success.
//!
//! | module | content |
//! |---|---|
//! | [`feature`] | the adversary's features of a sound, and of the words recognized in it |
//! | [`classifier`] | the adversary's models: logistic regression, or a layer of hidden units |
//! | this module | detection of dummies: the adversary learns from labelled sounds and is tested on others |
//! | [`topic`] | the topics that the word counts reveal |
//!
//! **Treat the measured success as a lower bound on what an attack achieves.** The adversary learns from labels that no mere recipient has,
//! which makes it strong; it has no pretrained network and few sounds, which makes it weak. The same classifier and features also
//! identify speakers, but only where speakers are known: in the benchmark, not at a site.
//!
//! This module releases nothing and draws nothing that protects people: only the classifier is random, by a seed. To add an attack:
//! add a module here and a row in the table.

pub mod classifier;
pub mod feature;
pub mod topic;

#[cfg(test)]
mod tests;

use undertone_privacy::membership::{Auc, rate_interval};

use self::classifier::SoundClassifier;

/// Number of folds where there is no better division: the adversary is tested on each fold after learning from all others.
pub const FOLDS: usize = 5;
/// Hidden units of the stronger classifier.
const HIDDEN: usize = 32;

/// A sound from the adversary's point of view.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceivedSound {
    /// Its fold, from 0: the adversary is tested on a fold from which it did not learn.
    pub fold: usize,
    /// Whether it is a dummy.
    pub dummy: bool,
    /// Its features, [`feature::sound`].
    pub sound: Vec<f32>,
    /// The features of its recognized words, [`feature::words`].
    pub words: [f32; feature::WORDS],
}

/// The features that the adversary uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttackKnowledge {
    /// Features of the sound.
    Sound,
    /// Also features of the recognized words.
    SoundAndWords,
}

impl AttackKnowledge {
    /// All variants.
    pub const ALL: [Self; 2] = [Self::Sound, Self::SoundAndWords];

    /// Returns the name for reports.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Sound => "sound",
            Self::SoundAndWords => "sound and words",
        }
    }

    fn values(self, received: &ReceivedSound) -> Vec<f32> {
        match self {
            Self::Sound => received.sound.clone(),
            Self::SoundAndWords => [&received.sound[..], &received.words].concat(),
        }
    }
}

/// The adversary's model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttackLearner {
    /// Logistic regression.
    LogisticRegression,
    /// One layer of 32 hidden units.
    HiddenLayer,
}

impl AttackLearner {
    /// All variants.
    pub const ALL: [Self; 2] = [Self::LogisticRegression, Self::HiddenLayer];

    /// Returns the name for reports.
    pub const fn label(self) -> &'static str {
        match self {
            Self::LogisticRegression => "logistic regression",
            Self::HiddenLayer => "hidden layer",
        }
    }

    const fn hidden(self) -> Option<usize> {
        match self {
            Self::LogisticRegression => None,
            Self::HiddenLayer => Some(HIDDEN),
        }
    }
}

/// The log odds of each sound being a dummy, from a model that did not learn from its fold.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AttackScores {
    pieces: Vec<f64>,
    dummies: Vec<f64>,
}

/// Classifies sounds as dummies or true pieces, fold by fold. Returns `None` if `stopped`, which is checked before every fold, returns true.
pub fn true_or_dummy(
    received: &[ReceivedSound],
    learner: AttackLearner,
    knowledge: AttackKnowledge,
    seed: u64,
    stopped: &dyn Fn() -> bool,
) -> Option<AttackScores> {
    let folds = received.iter().map(|sound| sound.fold + 1).max().unwrap_or(0);
    let mut scores = AttackScores::default();
    for fold in 0..folds {
        if stopped() {
            return None;
        }
        let (tested, training): (Vec<&ReceivedSound>, Vec<&ReceivedSound>) =
            received.iter().partition(|sound| sound.fold == fold);
        if tested.is_empty() || training.is_empty() {
            continue;
        }
        let values = |sounds: &[&ReceivedSound]| sounds.iter().map(|sound| knowledge.values(sound)).collect::<Vec<_>>();
        let labels: Vec<usize> = training.iter().map(|sound| usize::from(sound.dummy)).collect();
        let seed = seed.wrapping_add(fold as u64);
        let classifier = SoundClassifier::train(&values(&training), &labels, 2, learner.hidden(), seed);
        for (sound, logs) in tested.iter().zip(classifier.logs(&values(&tested))) {
            let side = if sound.dummy { &mut scores.dummies } else { &mut scores.pieces };
            side.push(f64::from(logs[1] - logs[0]));
        }
    }
    Some(scores)
}

impl AttackScores {
    /// Returns the number of tested true pieces.
    pub fn pieces(&self) -> u64 {
        self.pieces.len() as u64
    }

    /// Returns the number of tested dummies.
    pub fn dummies(&self) -> u64 {
        self.dummies.len() as u64
    }

    /// Returns the share of correct classifications, 0 to 1; 0 without sounds.
    pub fn accuracy(&self) -> f64 {
        self.right() as f64 / self.all().max(1) as f64
    }

    /// Returns the confidence interval of the accuracy, exactly (Clopper and Pearson, 1934), if classifications are independent.
    pub fn interval(&self, confidence: f64) -> (f64, f64) {
        rate_interval(self.right(), self.all(), confidence)
    }

    /// Returns the accuracy of always choosing the more frequent class, 0.5 to 1; 0 without sounds.
    pub fn chance(&self) -> f64 {
        self.pieces().max(self.dummies()) as f64 / self.all().max(1) as f64
    }

    /// Returns the probability that a dummy scores higher than a true piece; `None` where one class is empty.
    pub fn area(&self) -> Option<Auc> {
        Auc::of(&self.dummies, &self.pieces)
    }

    fn all(&self) -> u64 {
        self.pieces() + self.dummies()
    }

    fn right(&self) -> u64 {
        let pieces = self.pieces.iter().filter(|score| **score < 0.0).count();
        let dummies = self.dummies.iter().filter(|score| **score >= 0.0).count();
        (pieces + dummies) as u64
    }
}
