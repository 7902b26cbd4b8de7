//! One voice for everything that leaves: true pieces and dummies go through the same transformation, towards one target.
//!
//! A recognizer shall tell neither who speaks nor what was made up, so the whole of a job has one [`OneVoice`], chosen before its
//! first sound and never by what a sound is. A room here sees samples; that they are a dummy's it cannot know. To add a
//! transformation: a file that implements [`OneVoice`], its variant of [`Voice`], its row:
//!
//! | voice | what it changes | what it needs |
//! |---|---|---|
//! | [`mcadams`] | the resonances of everybody's vocal tract, in one way | nothing |
//! | [`vocoder`] | pitch, spectrum and loudness of everybody, to one target | nothing |
//! | [`program`] | what a converter of the site's does | a program: WAV in, WAV out |
//! | [`remote`] | the same, by HTTP | a server of the site's own |
//! | [`kept`] | nothing: dummies imitate the speakers instead, and nobody is hidden | an engine that clones |
//!
//! The last is no setting of a site, so no variant of [`Voice`]: a job asks for it, and the site's policy allows it or not.

pub mod kept;
mod lpc;
pub mod mcadams;
pub mod program;
pub mod remote;
mod roots;
pub mod vocoder;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::wav::WavError;
use super::web::{AddressError, WebError};

/// A transformation of speech to one target voice. Blocks for as long as it takes: not for the runtime's threads.
pub trait OneVoice: Send + Sync {
    /// What it is and what it is set to, for the report.
    fn name(&self) -> String;

    /// The sound in the target voice: mono at 16 kHz, full scale = 1, exactly as many samples as it got, all finite. Depends on
    /// these samples alone.
    ///
    /// # Errors
    /// [`VoiceError`]; the sound must not leave as it is then.
    fn convert(&self, samples: &[f32]) -> Result<Vec<f32>, VoiceError>;
}

/// Why there is no other voice.
#[derive(Debug, thiserror::Error)]
pub enum VoiceError {
    /// A coefficient out of range.
    #[error("alpha: 0.5 to 1.5, not {0}; 0.8 is usual")]
    Alpha(f64),
    /// A coefficient that protects nobody.
    #[error("alpha: {0} leaves voices as they are; at most 0.95 or at least 1.05, 0.8 is usual")]
    Unchanged(f64),
    /// A number of coefficients out of range.
    #[error("detail: 8 to 20 coefficients, not {0}; 13 is usual")]
    Detail(u32),
    /// No program is named.
    #[error("command: name a program that reads WAV on its input and writes WAV on its output")]
    NoCommand,
    /// A limit out of range.
    #[error("seconds: 1 to 600 for one piece, not {0}")]
    Seconds(u32),
    /// Not an address.
    #[error("url: {0}")]
    Address(#[from] AddressError),
    /// The program does not run.
    #[error("the voice converter {program} does not run: check transcription.voice.command")]
    Program {
        /// The program.
        program: String,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// It took too long.
    #[error("the voice converter gave no answer within {0} s: it is stopped, and the piece does not leave")]
    Late(u64),
    /// The server does not answer.
    #[error("the voice converter cannot be asked")]
    Web(#[from] WebError),
    /// The server refuses.
    #[error("the voice converter answered {0}")]
    Refused(u16),
    /// What came back is no sound.
    #[error("the voice converter's answer is of no use")]
    Sound(#[from] WavError),
    /// What came back is another length.
    #[error("the voice converter made {made} samples of {given}: rhythm must stay, by a tenth and 0.1 s at most")]
    Length {
        /// Samples it got.
        given: usize,
        /// Samples it gave, at 16 kHz.
        made: usize,
    },
}

/// Which voice a site's jobs speak with: `[transcription.voice]` of its configuration.
///
/// ```toml
/// [transcription.voice]
/// kind = "mcadams"
/// alpha = 0.8
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Voice {
    /// The McAdams coefficient.
    Mcadams {
        /// 0.5 to 1.5 and not about 1.
        #[serde(default = "usual_alpha")]
        alpha: f64,
    },
    /// A vocoder.
    Vocoder {
        /// Coefficients of the envelope that are kept, 8 to 20.
        #[serde(default = "usual_detail")]
        detail: u32,
    },
    /// A converter that is a program.
    Command {
        /// Program and arguments; no shell reads them.
        command: Vec<String>,
        /// Seconds that one piece may take, 1 to 600.
        #[serde(default = "minute")]
        seconds: u32,
    },
    /// A converter that is a server.
    Url {
        /// Where WAV is sent by POST: http on this machine, or https in a private network.
        url: String,
        /// Seconds that one piece may take, 1 to 600.
        #[serde(default = "minute")]
        seconds: u32,
    },
}

const fn usual_alpha() -> f64 {
    0.8
}

const fn usual_detail() -> u32 {
    vocoder::USUAL_DETAIL
}

const fn minute() -> u32 {
    60
}

impl Default for Voice {
    fn default() -> Self {
        Self::Mcadams { alpha: usual_alpha() }
    }
}

/// Longest that one piece may take, seconds.
pub(crate) const MOST_SECONDS: u32 = 600;
/// How near to 1 a coefficient leaves voices as they are.
const UNCHANGED: f64 = 0.05;

impl Voice {
    /// The transformation, ready for any number of sounds.
    ///
    /// # Errors
    /// [`VoiceError`] that names the setting and what would be right.
    pub fn start(&self) -> Result<Box<dyn OneVoice>, VoiceError> {
        let limit = |seconds: u32| match seconds {
            1..=MOST_SECONDS => Ok(Duration::from_secs(seconds.into())),
            _ => Err(VoiceError::Seconds(seconds)),
        };
        match self {
            Self::Mcadams { alpha } => {
                let voice = mcadams::McAdams::new(*alpha)?;
                if (alpha - 1.0).abs() < UNCHANGED - 1e-9 {
                    return Err(VoiceError::Unchanged(*alpha));
                }
                Ok(Box::new(voice))
            }
            Self::Vocoder { detail } => Ok(Box::new(vocoder::Vocoder::new(*detail)?)),
            Self::Command { command, seconds } => Ok(Box::new(program::Program::new(command, limit(*seconds)?)?)),
            Self::Url { url, seconds } => Ok(Box::new(remote::Remote::new(url, limit(*seconds)?)?)),
        }
    }
}

/// Most bytes of a converter's answer: a minute of 48 kHz stereo floats.
pub(crate) const MOST_BYTES: usize = 24 << 20;

/// A converter's sound at exactly the length of the original: a little more is cut, a little less filled with silence, as
/// rhythm carries the times of words.
fn fitted(mut made: Vec<f32>, given: usize) -> Result<Vec<f32>, VoiceError> {
    if made.len().abs_diff(given) > given / 10 + 1_600 {
        return Err(VoiceError::Length { given, made: made.len() });
    }
    made.resize(given, 0.0);
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::{MOST_SECONDS, Voice, VoiceError, fitted};

    fn voice(text: &str) -> Result<String, String> {
        let voice: Voice = toml::from_str(text).map_err(|error| error.to_string())?;
        voice.start().map(|voice| voice.name()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_voice_is_what_the_configuration_names() {
        assert_eq!(voice("kind = \"mcadams\""), Ok("McAdams coefficient 0.8".to_owned()));
        assert!(voice("kind = \"command\"\ncommand = [\"convert\", \"-\"]").is_ok_and(|name| name.contains("convert")));
        assert!(
            voice("kind = \"url\"\nurl = \"http://127.0.0.1:9000/convert\"").is_ok_and(|name| name.contains("9000"))
        );
        assert_eq!(voice("kind = \"vocoder\""), Ok("vocoder of 13 coefficients".to_owned()));
        assert_eq!(Voice::default(), Voice::Mcadams { alpha: 0.8 });
    }

    #[test]
    fn each_mistake_names_its_field() {
        for (text, named) in [
            ("kind = \"mcadams\"\nalpha = 3.0", "alpha"),
            ("kind = \"mcadams\"\nalpha = 0.97", "leaves voices as they are"),
            ("kind = \"mcadams\"\nbeta = 0.8", "beta"),
            ("kind = \"vocoder\"\ndetail = 7", "detail"),
            ("kind = \"vocoder\"\ndetail = 21", "detail"),
            ("kind = \"command\"\ncommand = []", "command"),
            ("kind = \"command\"\ncommand = [\"convert\"]\nseconds = 0", "seconds"),
            ("kind = \"url\"\nurl = \"http://converter.example/\"", "url"),
            ("kind = \"url\"\nurl = \"https://10.0.0.7/\"\nseconds = 601", "seconds"),
            ("kind = \"whisper\"", "kind"),
        ] {
            let error = voice(text).expect_err(text);
            assert!(error.contains(named) || error.contains("variant"), "{text}: {error}");
        }
    }

    #[test]
    fn a_little_too_long_is_cut_and_much_too_long_refused() {
        assert_eq!(fitted(vec![1.0; 16_100], 16_000).map(|made| made.len()).ok(), Some(16_000));
        assert_eq!(fitted(vec![1.0; 15_000], 16_000).map(|made| made[15_999]).ok(), Some(0.0));
        assert!(matches!(fitted(vec![1.0; 20_000], 16_000), Err(VoiceError::Length { given: 16_000, made: 20_000 })));
        // A tenth and 0.1 s.
        assert!([12_800, 19_200].iter().all(|made| fitted(vec![1.0; *made], 16_000).is_ok()));
        assert!([12_799, 19_201].iter().all(|made| fitted(vec![1.0; *made], 16_000).is_err()));
    }

    #[test]
    fn a_voice_holds_at_its_limits_and_not_beyond() {
        let alpha = |alpha: f64| voice(&format!("kind = \"mcadams\"\nalpha = {alpha}"));
        for right in [0.5, 0.95, 1.05, 1.5] {
            assert!(alpha(right).is_ok(), "{right}: {:?}", alpha(right));
        }
        for wrong in [0.499, 0.951, 1.049, 1.501] {
            assert!(alpha(wrong).is_err_and(|error| error.contains("alpha")), "{wrong}");
        }
        let seconds =
            |seconds: u32| voice(&format!("kind = \"command\"\ncommand = [\"convert\"]\nseconds = {seconds}"));
        assert!(seconds(1).is_ok() && seconds(MOST_SECONDS).is_ok());
        for wrong in [0, MOST_SECONDS + 1] {
            assert!(seconds(wrong).is_err_and(|error| error.contains("seconds: 1 to 600")), "{wrong}");
        }
    }
}
