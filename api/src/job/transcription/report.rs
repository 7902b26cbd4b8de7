//! The report of a finished job to the consortium, and the figures that the site keeps.
//!
//! For recordings that are not public the report holds only the content of the spec and the promises of the mechanism.
//! The drawn noise is a secret of the site. A word error rate, a histogram or a number of pieces is computed from the
//! recordings and has no price here. All of these are in [`TranscriptionOutcome`], which the site writes into a file of its own;
//! only for public recordings is it part of the report.

use serde::{Deserialize, Serialize};
use undertone_privacy::histogram::HistogramError;

use super::noise::NoisePromise;
use super::price::Money;
use super::{Spec, Vocabulary};
use crate::id::DatasetId;

/// The report of a finished `transcription` job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = TranscriptionReport))]
pub struct Report {
    /// The dataset of the recordings.
    pub dataset: DatasetId,
    /// s: the noise's rate, nats per word.
    pub rate: f64,
    /// η₀: its shift, dummies per word.
    pub shift: u32,
    /// d: the hidden distance in counts of pieces by word, added and removed together.
    pub distance: u32,
    /// The promises by the number of providers that combine their parts: one, two, to all.
    pub promises: Vec<NoisePromise>,
    /// The number of colluding providers that was assumed and charged for.
    pub colluding: u32,
    /// The providers, by name, in the spec's order.
    pub providers: Vec<String>,
    /// Words of the public list and of a choice with noise; for public recordings, words of the vocabulary.
    pub words: u32,
    /// The expected dummies at all providers together.
    pub dummies: f64,
    /// The outcome; only for public recordings. For all others the site keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Box<TranscriptionOutcome>>,
}

impl Report {
    /// Makes the report that is allowed for any recordings: the plan, as it was approved, and its promises. It does not
    /// depend on a recording.
    ///
    /// # Errors
    /// [`HistogramError`] for a spec without noise, of which there is no job.
    pub fn from_plan(spec: &Spec) -> Result<Self, HistogramError> {
        let noise = spec.noise()?;
        let words = match &spec.vocabulary {
            Vocabulary::Public { words } => u32::try_from(words.len()).unwrap_or(u32::MAX),
            Vocabulary::Data { .. } | Vocabulary::Selected { .. } => spec.vocabulary.most(),
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
    pub fn with_outcome(self, outcome: TranscriptionOutcome) -> Self {
        Self { words: outcome.words, outcome: Some(Box::new(outcome)), ..self }
    }
}

/// The outcome of a job, computed from the recordings. It stays at the site unless they are public.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = TranscriptionOutcome))]
pub struct TranscriptionOutcome {
    /// Words in the vocabulary.
    pub words: u32,
    /// Recordings.
    pub recordings: u64,
    /// Their length in seconds.
    pub seconds: f64,
    /// The pieces into which they were cut.
    pub pieces: u64,
    /// Pieces that stayed at the site because they contain sensitive words.
    pub sensitive: u64,
    /// Pieces that stayed at the site because they contain several words of the vocabulary.
    pub crowded: u64,
    /// Sent pieces for which no provider returned text. They keep the offline text.
    pub unanswered: u64,
    /// Word errors against references; absent without references.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<TranscriptErrors>,
    /// By provider, in the spec's order.
    pub providers: Vec<ProviderResult>,
    /// The attacks on the audio that a provider received.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attacks: Vec<TranscriptionAttack>,
    /// Providers without an attack, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub untried: Vec<UntriedAttack>,
    /// The duration of each step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<StageDuration>,
}

/// Word errors of three transcripts of the same recordings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = TranscriptionErrors))]
pub struct TranscriptErrors {
    /// Errors of the assembled transcript.
    pub ours: WordErrors,
    /// Errors of the offline recognizer alone.
    pub offline: WordErrors,
    /// Errors of a cloud recognizer that received the original recordings. Usually absent, because that would be a
    /// release without noise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cloud: Option<WordErrors>,
}

/// The number of wrong words, in the alignment with the fewest errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = TranscriptionWordErrors))]
pub struct WordErrors {
    /// Words of the reference.
    pub words: u64,
    /// Substituted words.
    pub substitutions: u64,
    /// Additional words.
    pub insertions: u64,
    /// Missing words.
    pub deletions: u64,
}

impl WordErrors {
    /// Returns the word error rate: errors over words of the reference; `None` without a word.
    pub fn rate(self) -> Option<f64> {
        let errors = self.substitutions + self.insertions + self.deletions;
        (self.words > 0).then(|| errors as f64 / self.words as f64)
    }
}

/// The audio at one provider.
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
    /// Its cost by the site's tariff; absent without a tariff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Money>,
    /// The histogram of spoken and received words, ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub histogram: Vec<HistogramBin>,
    /// The distance between the topics of the spoken and the received words: Jensen and Shannon's distance of the two
    /// histograms, 0 to 1. Absent if nothing was spoken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic_distance: Option<f64>,
}

/// The number of words of the vocabulary by their occurrences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = TranscriptionBin))]
pub struct HistogramBin {
    /// Least occurrences of the bin: 0, or a power of two; the bin ends before the next power.
    pub occurrences: u64,
    /// Words with so many occurrences in the pieces that the provider received.
    pub said: u64,
    /// Words with so many occurrences in all audio that it received, dummies included.
    pub heard: u64,
}

/// The success of an attack that distinguishes sounds that should look alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = TranscriptionAttack))]
pub struct TranscriptionAttack {
    /// The attack.
    pub name: String,
    /// The share of correct decisions: 0 to 1.
    pub accuracy: f64,
    /// Ends of its 95% confidence interval.
    pub interval: [f64; 2],
    /// The accuracy of random guesses.
    pub chance: f64,
}

/// A provider without an attack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = TranscriptionUntried))]
pub struct UntriedAttack {
    /// Its name.
    pub provider: String,
    /// The reason.
    pub why: String,
}

/// A step of the job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = TranscriptionStage))]
pub struct StageDuration {
    /// Its name.
    pub name: String,
    /// Its duration in seconds.
    pub seconds: f64,
}
