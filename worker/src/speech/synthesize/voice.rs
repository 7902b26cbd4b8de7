//! Who speaks: voices, drawn from a seed.

use std::fmt;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use serde::Serialize;

use super::Subset;

/// The ordinary voices of flite, with the pitch range that suits them, Hz. `rms` keeps its own pitch whatever is asked.
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
/// One ordinary speaker in so many is of espeak-ng.
const ONE_IN: usize = 5;

/// What an engine is told.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "engine", rename_all = "snake_case")]
pub enum Voice {
    /// flite.
    Flite {
        /// Its voice.
        voice: &'static str,
        /// Duration of everything, 1 as recorded.
        stretch: f64,
        /// Mean pitch, Hz.
        pitch: f64,
    },
    /// espeak-ng, American English.
    Espeak {
        /// Its variant.
        variant: &'static str,
        /// Words a minute.
        rate: u32,
        /// Pitch, 0 to 99.
        pitch: u32,
    },
}

impl fmt::Display for Voice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flite { voice, stretch, pitch } => write!(f, "flite {voice}, stretch {stretch}, pitch {pitch} Hz"),
            Self::Espeak { variant, rate, pitch } => write!(f, "espeak-ng en-us+{variant}, rate {rate}, pitch {pitch}"),
        }
    }
}

/// One synthetic person.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Speaker {
    /// `s000`, `s001`, ... over all subsets.
    pub id: String,
    /// The group.
    pub subset: String,
    /// Whether the voice is far from everybody else's.
    pub outlier: bool,
    /// F or M.
    pub sex: char,
    /// What the engine is told.
    pub voice: Voice,
    /// The factor by which the engine's sound is played faster: above 1 a shorter vocal tract.
    pub warp: f64,
    /// Loudness, full scale = 1.
    pub gain: f64,
    /// Number of the speaker, which also numbers its stream of randomness.
    #[serde(skip)]
    pub(super) number: u64,
}

/// The generator of one speaker: a stream of its own, so that a change to one speaker changes no other.
pub(super) fn generator(seed: u64, number: u64) -> ChaCha20Rng {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    rng.set_stream(number);
    rng
}

/// All speakers of all subsets, none twice.
pub(super) fn roster(subsets: &[Subset], seed: u64) -> Vec<Speaker> {
    let places = subsets.iter().flat_map(|subset| std::iter::repeat_n(subset, subset.speakers));
    let (mut ordinary, mut outliers) = (0, 0);
    let speaker = |(number, subset): (usize, &Subset)| {
        // A stream apart from the one that draws the texts.
        let mut rng = generator(seed, (1 << 32) + number as u64);
        let count = if subset.outlier { &mut outliers } else { &mut ordinary };
        let (voice, sex, warp) = if subset.outlier { outlier(*count, &mut rng) } else { usual(*count, &mut rng) };
        *count += 1;
        Speaker {
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

fn usual(count: usize, rng: &mut ChaCha20Rng) -> (Voice, char, f64) {
    let warp = rounded(rng.random_range(0.9..1.1));
    if count % ONE_IN == ONE_IN - 1 {
        let (variant, sex) = ESPEAK[count / ONE_IN % ESPEAK.len()];
        let (rate, pitch) = (rng.random_range(130..180), rng.random_range(30..70));
        return (Voice::Espeak { variant, rate, pitch }, sex, warp);
    }
    let (voice, sex, (low, high)) = FLITE[(count - count / ONE_IN) % FLITE.len()];
    let (stretch, pitch) = (rounded(rng.random_range(0.85..1.25)), rounded(rng.random_range(low..high)));
    (Voice::Flite { voice, stretch, pitch }, sex, warp)
}

/// Slow, low and of a long vocal tract.
fn outlier(count: usize, rng: &mut ChaCha20Rng) -> (Voice, char, f64) {
    let (variant, sex) = OUTLIERS[count % OUTLIERS.len()];
    let (rate, pitch) = (rng.random_range(95..115), rng.random_range(0..15));
    (Voice::Espeak { variant, rate, pitch }, sex, rounded(rng.random_range(0.72..0.78)))
}

/// Three decimals: what is written down is what is used.
fn rounded(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}
