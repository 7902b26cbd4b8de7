//! No other voice: what leaves is what there is. For jobs whose dummies are spoken in imitations of the speakers' own voices, so
//! that true pieces need no disguise to be like them. It hides nobody: who hears a piece can tell who speaks.

use super::{OneVoice, VoiceError};

/// Every voice as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Kept;

impl OneVoice for Kept {
    fn name(&self) -> String {
        "voices as they are".to_owned()
    }

    fn convert(&self, samples: &[f32]) -> Result<Vec<f32>, VoiceError> {
        Ok(samples.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::{Kept, OneVoice as _};

    #[test]
    fn a_voice_that_is_kept_is_the_same_to_the_sample() {
        let sound: Vec<f32> = (0..4_000).map(|n| (n as f32 * 0.05).sin() * 0.5).collect();
        assert_eq!(Kept.convert(&sound).ok(), Some(sound));
    }
}
