//! No transformation: sounds leave with their original voices. It serves jobs whose dummies imitate the speakers' own voices, so that
//! true pieces need no disguise to resemble them. It hides no speaker: every recipient of a piece can identify the speaker.

use super::{OneVoice, VoiceError};

/// Leaves every voice unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OriginalVoice;

impl OneVoice for OriginalVoice {
    fn name(&self) -> String {
        "voices as they are".to_owned()
    }

    fn convert(&self, samples: &[f32]) -> Result<Vec<f32>, VoiceError> {
        Ok(samples.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::{OneVoice as _, OriginalVoice};

    #[test]
    fn original_voice_is_unchanged_to_the_sample() {
        let sound: Vec<f32> = (0..4_000).map(|n| (n as f32 * 0.05).sin() * 0.5).collect();
        assert_eq!(OriginalVoice.convert(&sound).ok(), Some(sound));
    }
}
