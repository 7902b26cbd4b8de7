//! A synthetic voice: a vocoder (Dudley, "Remaking speech", JASA 11(2), 1939). It measures the spectral envelope and the voicing of
//! a piece, brings the envelope to one distribution for all speakers, and resynthesizes the piece with one pitch.
//!
//! The result no longer contains: pitch and its melody; the spectrum of vocal tract, microphone and room; loudness; and noise between
//! the words. It still contains the sequence and the times of speech sounds, as a recognizer needs them, and so also tempo and
//! manner of speaking. It hides speakers in part: of 91 speakers, an attack that knew recordings converted by the same vocoder named
//! 19 to 40 %, from 8 to 20 coefficients; through the [McAdams coefficient](super::mcadams) 76 %, as recorded 80 %, by guessing 1 %.
//! A better attack names more; `make bench NAME=transcription` measures this one. Recognizers make more errors than with voices as
//! recorded: about as many as with the McAdams coefficient from 10 coefficients on, and more with fewer.
//!
//! [`varied`](VocoderVoice::varied) gives each piece a random voice of its own. It hides speakers, and dummies from recorded people, much
//! better than one voice, and recognizers make more errors.
//!
//! Deterministic: the same sound gives the same result, in any order and on any thread. It depends on one piece only, so that pieces
//! reveal nothing about each other.

mod envelope;
mod excitation;
mod normal;
#[cfg(test)]
mod tests;
mod variation;

use std::ops::RangeInclusive;

use self::variation::PieceVariation;
use super::{OneVoice, VoiceError};

/// Number of coefficients of the envelope that are kept: fewer hide more, and make consonants less clear.
pub const DETAILS: RangeInclusive<u32> = 8..=20;
/// A number of coefficients that suits most jobs.
pub const USUAL_DETAIL: u32 = 13;
/// Number of frames of 5 ms on either side over which a frame is averaged.
const SMOOTHED: usize = 2;
/// Loudness of every converted piece (root mean square of its audible part), unless a sample would exceed [`LOUDEST`].
const LOUDNESS: f64 = 0.06;
const LOUDEST: f64 = 0.98;

/// The vocoder with one setting for all sounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VocoderVoice {
    detail: u32,
    is_varied: bool,
}

impl VocoderVoice {
    /// Creates a vocoder with `detail` coefficients of the envelope, 8 to 20; 13 is usual.
    ///
    /// # Errors
    /// [`VoiceError::Detail`] outside that range.
    pub fn new(detail: u32) -> Result<Self, VoiceError> {
        if DETAILS.contains(&detail) { Ok(Self { detail, is_varied: false }) } else { Err(VoiceError::Detail(detail)) }
    }
}

impl VocoderVoice {
    /// Gives each piece a random voice of its own, which hides speakers and dummies better and makes words less clear.
    #[must_use]
    pub const fn varied(self) -> Self {
        Self { is_varied: true, ..self }
    }
}

impl OneVoice for VocoderVoice {
    fn name(&self) -> String {
        let varied = if self.is_varied { ", varied" } else { "" };
        format!("vocoder of {} coefficients{varied}", self.detail)
    }

    /// Keeps the length, and gives every piece the same loudness.
    fn convert(&self, samples: &[f32]) -> Result<Vec<f32>, VoiceError> {
        let clean = |sample: &f32| if sample.is_finite() { f64::from(sample.clamp(-1.0, 1.0)) } else { 0.0 };
        let samples: Vec<f64> = samples.iter().map(clean).collect();
        let variation = self.is_varied.then(|| PieceVariation::draw(&samples));
        let (mut frames, levels) = envelope::measure(&samples);
        let mut voicing = excitation::voicing(&samples);
        if let Some(variation) = &variation {
            variation.scale_tract(&mut frames);
            variation.vary_voicing(&mut voicing);
        }
        let gains = normal::gains(&levels);
        let mut frames = normal::smooth(&frames, SMOOTHED);
        normal::normalize(&mut frames, &gains, self.detail as usize);
        if let Some(variation) = &variation {
            variation.vary(&mut frames, self.detail as usize);
        }
        let excitation = excitation::excite(&voicing, samples.len());
        let sound = envelope::EnvelopeShaper::new().shape(&excitation, &frames, &gains);
        let gain = gain(&sound, &gains);
        Ok(sound.iter().map(|sample| (sample * gain) as f32).collect())
    }
}

/// Returns the gain that gives the audible part of a sound the loudness of every piece.
fn gain(sound: &[f64], gains: &[f64]) -> f64 {
    let loudest = sound.iter().fold(0.0_f64, |most, sample| most.max(sample.abs()));
    let audible = gains.iter().sum::<f64>() / gains.len().max(1) as f64 * sound.len() as f64;
    if loudest == 0.0 || audible == 0.0 {
        return 0.0;
    }
    let power = sound.iter().map(|sample| sample * sample).sum::<f64>() / audible;
    (LOUDNESS / power.sqrt()).min(LOUDEST / loudest)
}
