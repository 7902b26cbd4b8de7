//! The classifier of queries: hashed n-grams → embedding → dense layer or LSTM → labels. Dropout stays on at inference,
//! so that the classifier can state its uncertainty (Gal and Ghahramani 2016).
//!
//! The classifier learns from [`Example`]s and classifies [`Visible`] texts. Both types exclude every text that was
//! neither released by a gate nor published, so that this costs no privacy. [`PrivateUnits`] alone holds rows of a private
//! log in a job, and all that can be made of them are sums of clipped gradients and of clipped score histograms, which
//! leave with noise and a charge. [`Classifier::classify_local`] classifies any text for the site's own use; no job calls
//! it.
//!
//! Every result is a function of settings, examples and a seed, to the last bit on one machine: parameters, order and
//! masks are drawn from streams of that seed, a row of a matrix product does not depend on the other rows, and sums
//! have one order.

mod adam;
mod file;
pub mod golden;
mod grams;
mod masks;
mod network;
mod posterior;
pub mod private;
mod train;
mod visible;

#[cfg(test)]
pub(crate) mod tests;

pub use file::ClassifierFileError;
pub use posterior::{ExamResult, LabelPosterior, LocalLabel};
pub use private::PrivateUnits;
pub(crate) use train::shuffled;
pub use undertone_api::job::active_learning::Classifier as Settings;
pub use visible::{Example, Visible};

use network::{NetworkShape, NetworkWeights};

/// Largest number of labels: an index has sixteen bits.
const MOST_LABELS: usize = 1 << 16;

/// Why no classifier can be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ClassifierError {
    /// There is no example to learn from.
    #[error("a classifier learns from at least one labelled example: enlarge the golden set")]
    NoExamples,
    /// An example's label does not exist.
    #[error(
        "an example has label number {label}, but there are {labels}, counted from 0: name all labels of the data in `labels`"
    )]
    Label {
        /// The number of the label.
        label: u16,
        /// The number of labels.
        labels: usize,
    },
    /// Not 2 to 65,536 labels.
    #[error("a classifier has 2 to 65536 labels, not {0}: name them in `labels`")]
    Labels(usize),
    /// A size that no classifier has.
    #[error("`classifier.{field}` must be {range}")]
    Settings {
        /// The name of the setting.
        field: &'static str,
        /// The range of the setting.
        range: &'static str,
    },
}

/// A trained classifier.
#[derive(Debug, Clone, PartialEq)]
pub struct Classifier {
    settings: Settings,
    shape: NetworkShape,
    labels: Vec<String>,
    seed: u64,
    weights: NetworkWeights,
}

impl Classifier {
    /// Returns the settings.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the names of the labels, in the order of their numbers.
    pub fn labels(&self) -> &[String] {
        &self.labels
    }

    /// Returns the seed of the training and of the passes at inference.
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the length of one text's vector in [`Classifier::places`].
    pub const fn width(&self) -> usize {
        self.shape.hidden
    }
}

/// Computes the dimensions for `settings`, and checks that a classifier can have them.
fn shape(settings: &Settings, labels: usize) -> Result<NetworkShape, ClassifierError> {
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
    Ok(NetworkShape {
        encoder: settings.encoder,
        buckets: settings.buckets as usize,
        embedding: settings.embedding as usize,
        hidden: settings.hidden as usize,
        labels,
    })
}
