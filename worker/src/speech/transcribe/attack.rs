//! What somebody makes of the sounds that he receives: an adversary, played by whoever knows the truth, to see how far he gets.
//!
//! | room | what it has |
//! |---|---|
//! | [`feature`] | what he measures of a sound, and of the words that he hears in it |
//! | [`classifier`] | how he learns: logistic regression, or a layer of hidden units |
//! | here | which sounds are dummies: he is told of some, and asked about the others |
//! | [`topic`] | what the words that he counts tell of the topics |
//!
//! **Read what he reaches as the least that an attack reaches.** He learns from labels that nobody has who only receives, which
//! makes him strong; he has no pretrained network and not many sounds, which makes him weak. Who speaks is asked by
//! classifier and features too, but only where speakers are known: in the benchmark, not at a site.
//!
//! Nothing here releases anything or draws what protects: chance is in the classifier alone, by a seed. To add an attack: a
//! room beside these, a line in the table.

pub mod classifier;
pub mod feature;
pub mod topic;

#[cfg(test)]
mod tests;

use undertone_privacy::membership::{Auc, rate_interval};

use self::classifier::Classifier;

/// Parts of which he is asked about one after having learned from all others, where there is no better division.
pub const FOLDS: usize = 5;
/// Hidden units of the stronger classifier.
const HIDDEN: usize = 32;

/// A sound as the adversary has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Received {
    /// The part that it is of, from 0: what he is asked about is of a part from which he did not learn.
    pub fold: usize,
    /// Whether it is a dummy.
    pub dummy: bool,
    /// What is measured of it, [`feature::sound`].
    pub sound: Vec<f32>,
    /// What is heard in it, [`feature::words`].
    pub words: [f32; feature::WORDS],
}

/// What he goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Knowledge {
    /// What a sound is.
    Sound,
    /// Also the words that are heard in it.
    SoundAndWords,
}

impl Knowledge {
    /// All there are.
    pub const ALL: [Self; 2] = [Self::Sound, Self::SoundAndWords];

    /// In words.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Sound => "sound",
            Self::SoundAndWords => "sound and words",
        }
    }

    fn values(self, received: &Received) -> Vec<f32> {
        match self {
            Self::Sound => received.sound.clone(),
            Self::SoundAndWords => [&received.sound[..], &received.words].concat(),
        }
    }
}

/// How he learns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Learner {
    /// Logistic regression.
    LogisticRegression,
    /// One layer of 32 hidden units.
    HiddenLayer,
}

impl Learner {
    /// All there are.
    pub const ALL: [Self; 2] = [Self::LogisticRegression, Self::HiddenLayer];

    /// In words.
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

/// How sure he is that each sound is a dummy, never having learned from its part: the logarithm of the odds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scores {
    pieces: Vec<f64>,
    dummies: Vec<f64>,
}

/// Tells dummies from true pieces, part by part; `None` as soon as `stopped` says so, which is asked before every part.
pub fn true_or_dummy(
    received: &[Received],
    learner: Learner,
    knowledge: Knowledge,
    seed: u64,
    stopped: &dyn Fn() -> bool,
) -> Option<Scores> {
    let folds = received.iter().map(|sound| sound.fold + 1).max().unwrap_or(0);
    let mut scores = Scores::default();
    for fold in 0..folds {
        if stopped() {
            return None;
        }
        let (asked, known): (Vec<&Received>, Vec<&Received>) = received.iter().partition(|sound| sound.fold == fold);
        if asked.is_empty() || known.is_empty() {
            continue;
        }
        let values = |sounds: &[&Received]| sounds.iter().map(|sound| knowledge.values(sound)).collect::<Vec<_>>();
        let labels: Vec<usize> = known.iter().map(|sound| usize::from(sound.dummy)).collect();
        let seed = seed.wrapping_add(fold as u64);
        let classifier = Classifier::train(&values(&known), &labels, 2, learner.hidden(), seed);
        for (sound, logs) in asked.iter().zip(classifier.logs(&values(&asked))) {
            let side = if sound.dummy { &mut scores.dummies } else { &mut scores.pieces };
            side.push(f64::from(logs[1] - logs[0]));
        }
    }
    Some(scores)
}

impl Scores {
    /// True pieces that he was asked about.
    pub fn pieces(&self) -> u64 {
        self.pieces.len() as u64
    }

    /// Dummies that he was asked about.
    pub fn dummies(&self) -> u64 {
        self.dummies.len() as u64
    }

    /// The part that he told right: 0 to 1; of nothing, 0.
    pub fn accuracy(&self) -> f64 {
        self.right() as f64 / self.all().max(1) as f64
    }

    /// Where the accuracy lies with this confidence, exactly (Clopper and Pearson, 1934), if sounds were told for themselves.
    pub fn interval(&self, confidence: f64) -> (f64, f64) {
        rate_interval(self.right(), self.all(), confidence)
    }

    /// What he would reach who always says what there is more of: 0.5 to 1; of nothing, 0.
    pub fn chance(&self) -> f64 {
        self.pieces().max(self.dummies()) as f64 / self.all().max(1) as f64
    }

    /// The chance that a dummy looks more like one than a true piece does; `None` where one side is empty.
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
