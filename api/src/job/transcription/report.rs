//! The report of a finished job to the consortium, and the figures that the site keeps.
//!
//! For recordings that are not public the report holds only the content of the spec and the promises of the mechanism.
//! The drawn noise is a secret of the site. A word error rate, a histogram or a number of pieces is computed from the
//! recordings and has no price here. All of these are in [`Outcome`], which the site writes into a file of its own;
//! only for public recordings is it part of the report.

use serde::{Deserialize, Serialize};
use undertone_privacy::histogram::HistogramError;

use super::noise::Promise;
use super::price::Money;
use super::{Spec, Vocabulary};
use crate::id::DatasetId;

/// What a finished `transcription` job tells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = TranscriptionReport))]
pub struct Report {
    /// Whose recordings.
    pub dataset: DatasetId,
    /// s: the noise's rate, nats per word.
    pub rate: f64,
    /// η₀: its shift, dummies per word.
    pub shift: u32,
    /// d: counts of pieces by word, added and removed together, that are hidden.
    pub distance: u32,
    /// What is promised, by how many providers put their parts together: one, two, to all.
    pub promises: Vec<Promise>,
    /// How many of them were assumed to, and charged for.
    pub colluding: u32,
    /// The providers, by name, in the spec's order.
    pub providers: Vec<String>,
    /// Words of the public list; of recordings that are public, words of the vocabulary.
    pub words: u32,
    /// Dummies that were to be expected, at all providers together.
    pub dummies: f64,
    /// What came of it. Of public recordings only; of all others the site keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Box<Outcome>>,
}

impl Report {
    /// Makes the report that is allowed for any recordings: the plan, as it was approved, and its promises. It does not
    /// depend on a recording.
    ///
    /// # Errors
    /// [`HistogramError`] for a spec without noise, of which there is no job.
    pub fn planned(spec: &Spec) -> Result<Self, HistogramError> {
        let noise = spec.noise()?;
        let words = match &spec.vocabulary {
            Vocabulary::Public { words } => u32::try_from(words.len()).unwrap_or(u32::MAX),
            Vocabulary::Data { .. } => spec.vocabulary.most(),
        };
        Ok(Self {
            dataset: spec.participant.dataset,
            rate: noise.rate(),
            shift: noise.shift(),
            distance: spec.participant.distance.get(),
            promises: spec.promises()?,
            colluding: spec.colluding.get(),
            providers: spec.providers.iter().map(|provider| provider.name.clone()).collect(),
            words,
            dummies: spec.expected_dummies(words)?,
            outcome: None,
        })
    }

    /// Adds the outcome: only for recordings that their site declares public.
    #[must_use]
    pub fn with(self, outcome: Outcome) -> Self {
        Self { words: outcome.words, outcome: Some(Box::new(outcome)), ..self }
    }
}

/// What came of a job, computed of the recordings. Stays at the site unless they are public.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = TranscriptionOutcome))]
pub struct Outcome {
    /// Words of the vocabulary.
    pub words: u32,
    /// Recordings.
    pub recordings: u64,
    /// Seconds of them.
    pub seconds: f64,
    /// Pieces they were cut into.
    pub pieces: u64,
    /// Pieces that never left because something sensitive was said in them.
    pub sensitive: u64,
    /// Pieces that never left because they have several words of the vocabulary.
    pub crowded: u64,
    /// Pieces that were sent and of which no provider heard anything: they keep the offline text.
    pub unanswered: u64,
    /// Word errors on references, where there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<Errors>,
    /// By provider, in the spec's order.
    pub providers: Vec<ProviderResult>,
    /// Attacks that were tried on what a provider heard.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attacks: Vec<Attack>,
    /// Providers whose attack was not tried, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub untried: Vec<Untried>,
    /// How long each step took.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<Stage>,
}

/// Word errors of three transcripts of the same recordings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = TranscriptionErrors))]
pub struct Errors {
    /// Of the transcript that was put together.
    pub ours: WordErrors,
    /// Of the offline recognizer alone.
    pub offline: WordErrors,
    /// Of a cloud recognizer that heard the recordings as they are; absent where none did, which is the usual case: it would have
    /// been a release without noise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cloud: Option<WordErrors>,
}

/// How many words are wrong, in the alignment with the fewest errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = TranscriptionWordErrors))]
pub struct WordErrors {
    /// Words of the reference.
    pub words: u64,
    /// Words that are others.
    pub substitutions: u64,
    /// Words too many.
    pub insertions: u64,
    /// Words too few.
    pub deletions: u64,
}

impl WordErrors {
    /// Returns the word error rate: errors over words of the reference; `None` without a word.
    pub fn rate(self) -> Option<f64> {
        let errors = self.substitutions + self.insertions + self.deletions;
        (self.words > 0).then(|| errors as f64 / self.words as f64)
    }
}

/// What one provider heard.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = TranscriptionProviderResult))]
pub struct ProviderResult {
    /// Its name.
    pub name: String,
    /// True pieces.
    pub pieces: u64,
    /// Dummies.
    pub dummies: u64,
    /// Seconds of speech, both together.
    pub seconds: f64,
    /// What that cost, by the site's tariff; absent where it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Money>,
    /// The histogram of words said and heard, ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub histogram: Vec<Bin>,
    /// How far apart the topics of what was said and of what was heard are: Jensen and Shannon's distance of the two histograms,
    /// 0 to 1. Absent where nothing was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic_distance: Option<f64>,
}

/// How many words of the vocabulary were there how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = TranscriptionBin))]
pub struct Bin {
    /// Least occurrences of the bin: 0, or a power of two, from which it reaches to the next.
    pub occurrences: u64,
    /// Words that were said so often in the pieces that the provider heard.
    pub said: u64,
    /// Words that it heard so often, dummies included.
    pub heard: u64,
}

/// How well somebody told apart what should look alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = TranscriptionAttack))]
pub struct Attack {
    /// What was tried.
    pub name: String,
    /// Part that was told right: 0 to 1.
    pub accuracy: f64,
    /// Ends of its 95% confidence interval.
    pub interval: [f64; 2],
    /// What guessing would reach.
    pub chance: f64,
}

/// A provider whose attack was not tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = TranscriptionUntried))]
pub struct Untried {
    /// Its name.
    pub provider: String,
    /// Why not.
    pub why: String,
}

/// A step of the job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = TranscriptionStage))]
pub struct Stage {
    /// Its name.
    pub name: String,
    /// Seconds it took.
    pub seconds: f64,
}
