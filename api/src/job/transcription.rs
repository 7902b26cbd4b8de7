//! `transcription`: private use of cloud recognizers, after *Prεεch* (Ahmed, Chowdhury, Fawaz, Ramanathan 2020).
//!
//! One site cuts its recordings into short pieces and sends them, among dummies that carry the words of a vocabulary,
//! in one voice and in parts to several recognizers. The recognizers hear these pieces in clear speech. The counts of
//! pieces by word of the vocabulary are noisy, for a reader of counts only. The site assembles the transcript and keeps
//! it. One release, charged once, before it leaves. The server receives none of it and learns only the plan, its
//! promises and the charge.
//!
//! Every option of a spec is in the file of its subject: `party.rs`, `provider.rs`, `price.rs`, `vocabulary.rs`,
//! `sound.rs`. `noise.rs` alone defines the noise and its promises, `window.rs` proves how many counts one spoken word
//! changes, `cost.rs` defines the charge, `check.rs` the limits, `estimate.rs` the expected cost, `worst.rs` the worst
//! case.
//!
#![doc = include_str!("transcription/spec.md")]

mod check;
mod cost;
pub mod estimate;
pub mod noise;
mod party;
pub mod price;
mod provider;
mod report;
mod sound;
#[cfg(test)]
pub(crate) mod tests;
pub mod vocabulary;
pub mod window;
pub mod worst;

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};
use undertone_privacy::histogram::HistogramError;
use undertone_privacy::{Event, PrivacyUnit};

use super::{AllowedMeasurements, Charge, DatasetUse, ExternalRelease, JobKind, RoundSeries};
use crate::dataset::Dataset;
use crate::id::DatasetId;
use crate::problem::Violation;

pub use check::MOST_PROVIDERS;
pub use estimate::CostEstimate;
pub use noise::{MOST_DUMMIES, NoisePromise};
pub use party::Party;
pub use price::{Money, Price, PriceError, Tariff};
pub use provider::{Provider, ProviderProtocol};
pub use report::{
    HistogramBin, ProviderResult, Report, StageDuration, TranscriptErrors, TranscriptionAttack, TranscriptionOutcome,
    UntriedAttack, WordErrors,
};
pub use sound::{CrowdedPieces, DummyCorpus, DummyOptions, OutputVoice, SiteRecognizer};
pub use vocabulary::{LANGUAGES, Vocabulary, WordWeight};
pub use worst::worst;

/// The series in which the histogram is charged, in one round: number 1. None of it is sent to the server.
pub const HISTOGRAM: &str = "histogram";

/// A `transcription` job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = TranscriptionSpec))]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// The participant: the transcribed recordings and the promise about them.
    pub participant: Party,
    /// N: the recognizers, each of which receives a part; 1 to 16.
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 16))]
    pub providers: Vec<Provider>,
    /// m: the number of recognizers that may combine their counts without learning more than is promised; 1 to N.
    #[serde(default = "one")]
    #[cfg_attr(feature = "openapi", schema(value_type = u32))]
    pub colluding: NonZeroU32,
    /// The spoken language, by ISO 639-1.
    #[serde(default = "english")]
    #[cfg_attr(feature = "openapi", schema(example = "en"))]
    pub language: String,
    /// The words by which pieces are counted. The noise covers these counts.
    pub vocabulary: Vocabulary,
    /// The dummies.
    #[serde(default)]
    pub dummies: DummyOptions,
    /// The voice of all sent audio: one voice, or the speakers' own voices.
    #[serde(default)]
    pub voice: OutputVoice,
    /// The handling of pieces with several words of the vocabulary.
    #[serde(default)]
    pub crowded: CrowdedPieces,
    /// The recognizer at the site.
    #[serde(default)]
    pub recognizer: SiteRecognizer,
}

const fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

fn english() -> String {
    "en".to_owned()
}

impl Spec {
    /// Returns the report that the server may receive for any recordings: see [`Report::from_plan`].
    ///
    /// # Errors
    /// [`HistogramError`] for a spec without noise, of which there is no job.
    pub fn report(&self) -> Result<Report, HistogramError> {
        Report::from_plan(self)
    }
}

impl JobKind for Spec {
    const NAME: &'static str = "transcription";

    fn check(&self, datasets: &[Dataset]) -> Vec<Violation> {
        check::check(self, datasets)
    }

    fn datasets(&self) -> Vec<(DatasetId, DatasetUse)> {
        vec![(self.participant.dataset, DatasetUse::Participate)]
    }

    fn cost(&self, dataset: &Dataset) -> Option<Charge> {
        cost::cost(self, dataset)
    }

    fn release(&self, dataset: &Dataset, series: &str) -> Option<Event> {
        cost::release(self, dataset, series)
    }

    fn units(&self, dataset: &Dataset) -> u64 {
        dataset.count(PrivacyUnit::Words).0
    }

    fn series(&self, _datasets: &[Dataset]) -> Vec<RoundSeries> {
        Vec::new()
    }

    fn allowed_measurements(&self) -> AllowedMeasurements {
        AllowedMeasurements { series: Vec::new(), tests: Vec::new() }
    }

    fn external_release(&self) -> Option<ExternalRelease> {
        Some(ExternalRelease {
            series: HISTOGRAM.to_owned(),
            sending: vec![self.participant.dataset],
            recipients: self.providers.iter().map(|provider| provider.name.clone()).collect(),
            colluding: self.colluding.get(),
            distance: self.participant.distance.get(),
            voices: self.voice.identifies_speakers(),
            chosen_words: self.vocabulary.selection_epsilon().is_some(),
        })
    }
}
