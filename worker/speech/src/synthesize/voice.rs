//! The speakers' voices, drawn from a seed.

use std::fmt;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use serde::Serialize;

use super::SpeakerGroup;

/// The ordinary voices of flite, with a suitable pitch range, Hz. `rms` ignores the requested pitch.
const FLITE: [(&str, char, (f64, f64)); 4] = [
    ("slt", 'F', (150.0, 230.0)),
    ("awb", 'M', (90.0, 150.0)),
    ("rms", 'M', (80.0, 120.0)),
    ("kal16", 'M', (80.0, 140.0)),
];
/// The ordinary voices of espeak-ng.
const ESPEAK: [(&str, char); 8] =
    [("m1", 'M'), ("f2", 'F'), ("m3", 'M'), ("f4", 'F'), ("m5", 'M'), ("f1", 'F'), ("m7", 'M'), ("f3", 'F')];
/// The voices of outliers, all of espeak-ng.
const OUTLIERS: [(&str, char); 3] = [("croak", 'M'), ("klatt4", 'M'), ("m8", 'M')];
/// One in this number of ordinary speakers uses espeak-ng.
const ONE_IN: usize = 5;

/// The settings of an engine.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "engine", rename_all = "snake_case")]
pub enum EngineVoice {
    /// flite.
    Flite {
        /// The name of the voice.
        voice: &'static str,
        /// Duration relative to the recorded voice.
        stretch: f64,
        /// Mean pitch, Hz.
        pitch: f64,
    },
    /// espeak-ng, American English.
    Espeak {
        /// The name of the variant.
        variant: &'static str,
        /// Words per minute.
        rate: u32,
        /// Pitch, 0 to 99.
        pitch: u32,
    },
}

impl fmt::Display for EngineVoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flite { voice, stretch, pitch } => write!(f, "flite {voice}, stretch {stretch}, pitch {pitch} Hz"),
            Self::Espeak { variant, rate, pitch } => write!(f, "espeak-ng en-us+{variant}, rate {rate}, pitch {pitch}"),
        }
    }
}

/// A synthetic speaker.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SyntheticSpeaker {
    /// `s000`, `s001`, ... over all subsets.
    pub id: String,
    /// The group.
    pub subset: String,
    /// True if the voice is far from all others.
    pub outlier: bool,
    /// F or M.
    pub sex: char,
    /// The settings of the engine.
    pub voice: EngineVoice,
    /// The playback speed of the engine's audio: above 1 a shorter vocal tract.
    pub warp: f64,
    /// Loudness, full scale = 1.
    pub gain: f64,
    /// Index of the speaker, which is also the index of its random stream.
    #[serde(skip)]
    pub(super) number: u64,
}

/// Returns the random generator of one speaker: a separate stream, so that a change to one speaker affects no other.
pub(super) fn generator(seed: u64, number: u64) -> ChaCha20Rng {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    rng.set_stream(number);
    rng
}

/// Returns all speakers of all subsets, each once.
pub(super) fn roster(subsets: &[SpeakerGroup], seed: u64) -> Vec<SyntheticSpeaker> {
    let places = subsets.iter().flat_map(|subset| std::iter::repeat_n(subset, subset.speakers));
    let (mut ordinary, mut outliers) = (0, 0);
    let speaker = |(number, subset): (usize, &SpeakerGroup)| {
        // A separate stream from the one that draws the texts.
        let mut rng = generator(seed, (1 << 32) + number as u64);
        let count = if subset.outlier { &mut outliers } else { &mut ordinary };
        let (voice, sex, warp) = if subset.outlier { outlier(*count, &mut rng) } else { usual(*count, &mut rng) };
        *count += 1;
        SyntheticSpeaker {
            id: format!("s{number:03}"),
            subset: subset.name.clone(),
            outlier: subset.outlier,
            sex,
            voice,
            warp,
            gain: rounded(rng.random_range(0.4..0.8)),
            number: number as u64,
        }
    };
    places.enumerate().map(speaker).collect()
}

fn usual(count: usize, rng: &mut ChaCha20Rng) -> (EngineVoice, char, f64) {
    let warp = rounded(rng.random_range(0.9..1.1));
    if count % ONE_IN == ONE_IN - 1 {
        let (variant, sex) = ESPEAK[count / ONE_IN % ESPEAK.len()];
        let (rate, pitch) = (rng.random_range(130..180), rng.random_range(30..70));
        return (EngineVoice::Espeak { variant, rate, pitch }, sex, warp);
    }
    let (voice, sex, (low, high)) = FLITE[(count - count / ONE_IN) % FLITE.len()];
    let (stretch, pitch) = (rounded(rng.random_range(0.85..1.25)), rounded(rng.random_range(low..high)));
    (EngineVoice::Flite { voice, stretch, pitch }, sex, warp)
}

/// Returns a slow, low voice with a long vocal tract.
fn outlier(count: usize, rng: &mut ChaCha20Rng) -> (EngineVoice, char, f64) {
    let (variant, sex) = OUTLIERS[count % OUTLIERS.len()];
    let (rate, pitch) = (rng.random_range(95..115), rng.random_range(0..15));
    (EngineVoice::Espeak { variant, rate, pitch }, sex, rounded(rng.random_range(0.72..0.78)))
}

/// Rounds to three decimals, so that the printed value is the one in use.
fn rounded(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}
