//! The sizes of the measurement: environment variables, each `UNDERTONE_TRANSCRIPTION_` followed by the name below.
//!
//! | variable | default | smoke | meaning |
//! |---|---|---|---|
//! | `READERS` | 7 | 1 | readers of `data/speech` as documents |
//! | `SECONDS` | 60 | 16 | most seconds of a document |
//! | `SPOKEN` | 2 | 0 | texts of `data/docs` that are spoken |
//! | `SPOKEN_WORDS` | 200 | 30 | words of each |
//! | `VOCABULARY` | 20 | 3 | words of the public vocabulary where audio is made |
//! | `EPSILON`, `DELTA`, `DISTANCE`, `PROVIDERS` | 2, 1e-4, 2, 3 | 4, 1e-3, 1, 2 | the same |
//! | `ALPHAS` | 0.8,0.7 | 0.8 | coefficients of the voice; the first is that of the run through the clouds |
//! | `DETAILS` | 13,8 | 13 | coefficients of the vocoder, as more voices |
//! | `CONVERTER` | none | none | a voice converter's program and arguments, as one more voice |
//! | `CLONER` | none | none | a program that speaks in the voice of `{reference}`, one of its arguments: one more voice (`cloned`) |
//! | `DRAWS` | 4000 | 400 | plans drawn without audio |
//! | `SPEAKERS`, `UTTERANCES` | 91, 12 | 8, 6 | speakers in the attack, and the known utterances of each |
//! | `SOUNDS` | 200 | 12 | true pieces, and as many dummies, that the other attack sees in each voice |
//! | `TEXT_PIECES` | 1200 | 100 | true pieces of each text, and as many dummies (part `dummy_text`) |
//! | `CORPUS` | 0 | 0 | speakers of AN4 whose recordings are additional public speech for recorded dummies |
//! | `EPOCHS`, `STEPS` | 40, 200 | 1, 2 | epochs of the warm start, and private steps, of the site's own model |
//! | `MEMORY_SECONDS` | 120 | 30 | the shorter recording; the other is ten times as long |
//! | `PER_MINUTE`, `STEP` | 0.024, 15 | the same | a provider's price in USD, and the seconds that it rounds up to |

use std::num::NonZeroU32;
use std::str::FromStr;

use serde_json::{Value, json};
use support::stage::TestResult;
use undertone_privacy::histogram::Partition;
use undertone_privacy::{Delta, Epsilon};
use undertone_worker::speech::transcribe::noise::DummyMechanism;

/// All parts of the measurement.
const PARTS: [&str; 10] =
    ["cost", "histogram", "words", "engines", "speaker", "dummy", "channel", "distance", "dummy_text", "memory"];

/// The requested sizes.
#[derive(Clone)]
pub(super) struct TranscriptionSizes {
    pub(super) parts: Vec<String>,
    pub(super) readers: usize,
    pub(super) seconds: f64,
    pub(super) spoken: usize,
    pub(super) spoken_words: usize,
    pub(super) vocabulary: usize,
    pub(super) epsilon: f64,
    pub(super) delta: f64,
    pub(super) distance: NonZeroU32,
    pub(super) providers: NonZeroU32,
    pub(super) alphas: Vec<f64>,
    pub(super) details: Vec<u32>,
    pub(super) converter: Vec<String>,
    pub(super) cloner: Vec<String>,
    pub(super) draws: usize,
    pub(super) speakers: usize,
    pub(super) utterances: usize,
    pub(super) sounds: usize,
    pub(super) corpus: usize,
    pub(super) text_pieces: usize,
    pub(super) epochs: u32,
    pub(super) steps: u32,
    pub(super) memory_seconds: u32,
    pub(super) per_minute: String,
    pub(super) step: u32,
}

impl TranscriptionSizes {
    /// # Errors
    /// For a variable that is not a number.
    pub(super) fn from_environment() -> TestResult<Self> {
        let smoke = std::env::var("UNDERTONE_TRANSCRIPTION_SMOKE").is_ok_and(|word| word == "1");
        let of = |usual: &'static str, small: &'static str| if smoke { small } else { usual };
        let parts = std::env::var("UNDERTONE_TRANSCRIPTION").unwrap_or_else(|_| PARTS.join(","));
        Ok(Self {
            parts: parts.split(',').map(|part| part.trim().to_owned()).collect(),
            readers: one("READERS", of("7", "1"))?,
            seconds: one("SECONDS", of("60", "16"))?,
            spoken: one("SPOKEN", of("2", "0"))?,
            spoken_words: one("SPOKEN_WORDS", of("200", "30"))?,
            vocabulary: one("VOCABULARY", of("20", "3"))?,
            epsilon: one("EPSILON", of("2", "4"))?,
            delta: one("DELTA", of("1e-4", "1e-3"))?,
            distance: one("DISTANCE", "6")?,
            providers: one("PROVIDERS", of("3", "2"))?,
            alphas: list("ALPHAS", of("0.8,0.7", "0.8"))?,
            details: list("DETAILS", of("13,8", "13"))?,
            converter: text("CONVERTER", "").split_whitespace().map(str::to_owned).collect(),
            cloner: text("CLONER", "").split_whitespace().map(str::to_owned).collect(),
            draws: one("DRAWS", of("4000", "400"))?,
            speakers: one("SPEAKERS", of("91", "8"))?,
            utterances: one("UTTERANCES", of("12", "6"))?,
            sounds: one("SOUNDS", of("200", "12"))?,
            corpus: one("CORPUS", "0")?,
            text_pieces: one("TEXT_PIECES", of("1200", "100"))?,
            epochs: one("EPOCHS", of("40", "1"))?,
            steps: one("STEPS", of("200", "2"))?,
            memory_seconds: one("MEMORY_SECONDS", of("120", "30"))?,
            per_minute: text("PER_MINUTE", "0.024"),
            step: one("STEP", "15")?,
        })
    }

    /// Returns the mechanism where audio is made, against one provider that does not collude.
    ///
    /// # Errors
    /// When there is none.
    pub(super) fn mechanism(&self) -> TestResult<DummyMechanism> {
        let partition = Partition::new(self.providers, NonZeroU32::MIN)?;
        let (epsilon, delta) = (Epsilon::new(self.epsilon)?, Delta::new(self.delta)?);
        Ok(DummyMechanism::calibrated(epsilon, delta, self.distance, partition)?)
    }

    pub(super) fn to_json(&self) -> Value {
        json!({ "sizes": {
            "parts": self.parts, "readers": self.readers, "seconds": self.seconds, "spoken": self.spoken,
            "spoken_words": self.spoken_words, "vocabulary": self.vocabulary, "epsilon": self.epsilon,
            "delta": self.delta, "distance": self.distance, "providers": self.providers, "alphas": self.alphas,
            "details": self.details,
            "converter": !self.converter.is_empty(), "cloner": !self.cloner.is_empty(), "draws": self.draws, "speakers": self.speakers,
            "utterances": self.utterances, "sounds": self.sounds, "corpus": self.corpus, "text_pieces": self.text_pieces, "epochs": self.epochs, "steps": self.steps,
            "memory_seconds": self.memory_seconds,
            "usd_per_minute": self.per_minute, "billed_by_seconds": self.step,
        }})
    }
}

fn text(name: &str, usual: &str) -> String {
    std::env::var(format!("UNDERTONE_TRANSCRIPTION_{name}")).unwrap_or_else(|_| usual.to_owned())
}

fn list<T: FromStr>(name: &str, usual: &str) -> TestResult<Vec<T>> {
    let text = text(name, usual);
    let wrong = || format!("UNDERTONE_TRANSCRIPTION_{name} cannot be {text:?}");
    text.split(',').map(|part| part.trim().parse().map_err(|_| wrong().into())).collect()
}

fn one<T: FromStr>(name: &str, usual: &str) -> TestResult<T> {
    list(name, usual)?.pop().ok_or_else(|| format!("UNDERTONE_TRANSCRIPTION_{name} is empty").into())
}
