//! The classifier of queries: hashed n-grams → embedding → dense layer or LSTM → labels, with dropout that stays on when it is
//! asked, so that it knows what it does not know (Gal and Ghahramani 2016).
//!
//! It learns from [`Example`]s and speaks of [`Visible`] texts, and there are no others: what a gate did not release and nobody
//! published cannot be handed to it. So nothing of this room costs privacy, and nothing of it may ever see a row of a log.
//!
//! Everything is a function of settings, examples and a seed, to the last bit on one machine: parameters, order and masks are
//! drawn from streams of that seed, rows of a product do not depend on their company, and sums have one order.

mod adam;
mod file;
pub mod golden;
mod grams;
mod masks;
mod network;
mod posterior;
mod train;
mod visible;

#[cfg(test)]
pub(in crate::queries) mod tests;

pub use file::ClassifierFileError;
pub use posterior::{Exam, Posterior};
pub(in crate::queries) use train::shuffled;
pub use undertone_api::job::active_learning::Classifier as Settings;
pub use visible::{Example, Visible};

use network::{Shape, Weights};

/// Most labels: an index is sixteen bits.
const MOST_LABELS: usize = 1 << 16;

/// Why there is no classifier.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ClassifierError {
    /// Nothing to learn from.
    #[error("a classifier learns from at least one labelled example: enlarge the golden set")]
    NoExamples,
    /// An example's label does not exist.
    #[error(
        "an example has label number {label}, but there are {labels}, counted from 0: name all labels of the data in `labels`"
    )]
    Label {
        /// The number.
        label: u16,
        /// How many there are.
        labels: usize,
    },
    /// Not 2 to 65,536 labels.
    #[error("a classifier tells 2 to 65536 labels apart, not {0}: name them in `labels`")]
    Labels(usize),
    /// Sizes that no classifier has.
    #[error("`classifier.{field}` must be {range}")]
    Settings {
        /// Which.
        field: &'static str,
        /// What it may be.
        range: &'static str,
    },
}

/// A trained classifier.
#[derive(Debug, Clone, PartialEq)]
pub struct Classifier {
    settings: Settings,
    shape: Shape,
    labels: Vec<String>,
    seed: u64,
    weights: Weights,
}

impl Classifier {
    /// Its settings.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Names of its labels, in the order of their numbers.
    pub fn labels(&self) -> &[String] {
        &self.labels
    }

    /// The seed from which it was trained and its passes are drawn.
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// Numbers of a place ([`Classifier::places`]).
    pub const fn width(&self) -> usize {
        self.shape.hidden
    }
}

/// The dimensions that settings ask for, if there can be such a classifier.
fn shape(settings: &Settings, labels: usize) -> Result<Shape, ClassifierError> {
    let refuse = |field, range| Err(ClassifierError::Settings { field, range });
    if !(2..=MOST_LABELS).contains(&labels) {
        return Err(ClassifierError::Labels(labels));
    }
    if settings.buckets == 0 || u64::from(settings.buckets) * u64::from(settings.embedding) > 1 << 26 {
        return refuse("buckets", "at least 1, and with `embedding` at most 67108864 numbers");
    }
    if !(1..=1024).contains(&settings.embedding) {
        return refuse("embedding", "1 to 1024");
    }
    if !(1..=2048).contains(&settings.hidden) {
        return refuse("hidden", "1 to 2048");
    }
    if !(0.0..=0.9).contains(&settings.dropout) {
        return refuse("dropout", "0 to 0.9");
    }
    if !(1..=1000).contains(&settings.passes) {
        return refuse("passes", "1 to 1000");
    }
    if !(1..=1000).contains(&settings.epochs) {
        return refuse("epochs", "1 to 1000");
    }
    if !(1..=4096).contains(&settings.batch) {
        return refuse("batch", "1 to 4096");
    }
    if !(settings.learning_rate > 0.0 && settings.learning_rate <= 1.0) {
        return refuse("learning_rate", "above 0 and at most 1");
    }
    Ok(Shape {
        encoder: settings.encoder,
        buckets: settings.buckets as usize,
        embedding: settings.embedding as usize,
        hidden: settings.hidden as usize,
        labels,
    })
}
