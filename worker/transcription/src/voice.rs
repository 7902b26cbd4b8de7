//! One voice for everything that leaves: true pieces and dummies pass through the same transformation, with one target.
//!
//! A recognizer must be able to identify neither the speaker nor the dummies. So all sounds of a job pass through one
//! [`OneVoice`], which is chosen before the first sound and never by the content of a sound. This module receives samples only;
//! it cannot know whether they are a dummy's. To add a transformation: add a file that implements [`OneVoice`], its variant of
//! [`VoiceConfig`], and its row:
//!
//! | voice | transformation | requirement |
//! |---|---|---|
//! | [`mcadams`] | shifts the resonances of every vocal tract in the same way | none |
//! | [`vocoder`] | brings pitch, spectrum and loudness of every speaker to one target | none |
//! | [`program`] | that of the site's converter | a program: WAV in, WAV out |
//! | [`remote`] | the same, by HTTP | a server of the site's own |
//! | [`original`] | none: dummies imitate the speakers instead, and no speaker is hidden | an engine that clones |
//!
//! The last is no site setting, so it has no variant of [`VoiceConfig`]: a job requests it, and the site's policy allows it or not.

mod lpc;
pub mod mcadams;
pub mod original;
pub mod program;
pub mod remote;
mod roots;
pub mod vocoder;

use std::time::Duration;

use serde::{Deserialize, Serialize};
#[cfg(doc)]
use undertone_api::job::transcription::OutputVoice;

use super::wav::WavError;
use super::web::{AddressError, WebError};

/// A transformation of speech to one target voice. Calls block, so they must not run on the runtime's threads.
pub trait OneVoice: Send + Sync {
    /// Returns the name with its settings, for the report.
    fn name(&self) -> String;

    /// Converts a sound to the target voice: mono at 16 kHz, full scale = 1, the same number of samples, all finite. The result
    /// depends on these samples only.
    ///
    /// # Errors
    /// [`VoiceError`]; the original sound must not leave then.
    fn convert(&self, samples: &[f32]) -> Result<Vec<f32>, VoiceError>;
}

/// Reasons that a sound has no other voice.
#[derive(Debug, thiserror::Error)]
pub enum VoiceError {
    /// The coefficient is out of range.
    #[error("alpha: 0.5 to 1.5, not {0}; 0.8 is usual")]
    Alpha(f64),
    /// The coefficient protects no speaker.
    #[error("alpha: {0} leaves voices as they are; at most 0.95 or at least 1.05, 0.8 is usual")]
    Unchanged(f64),
    /// The number of coefficients is out of range.
    #[error("detail: 8 to 20 coefficients, not {0}; 13 is usual")]
    Detail(u32),
    /// No program is named.
    #[error("command: name a program that reads WAV on its input and writes WAV on its output")]
    NoCommand,
    /// The time limit is out of range.
    #[error("seconds: 1 to 600 for one piece, not {0}")]
    Seconds(u32),
    /// The address is invalid.
    #[error("url: {0}")]
    Address(#[from] AddressError),
    /// The program does not run.
    #[error("the voice converter {program} does not run: check transcription.voice.command")]
    Program {
        /// The program.
        program: String,
        /// The reason.
        #[source]
        source: std::io::Error,
    },
    /// The converter exceeded its time limit.
    #[error("the voice converter gave no answer within {0} s: it is stopped, and the piece does not leave")]
    Late(u64),
    /// The server does not answer.
    #[error("cannot reach the voice converter: check transcription.voice.url")]
    Web(#[from] WebError),
    /// The server refuses the request.
    #[error("the voice converter answered with status {0}: see its own log")]
    Refused(u16),
    /// The answer is no sound.
    #[error("cannot read the voice converter's answer: it must be a WAV file")]
    Sound(#[from] WavError),
    /// The answer has another length.
    #[error("the voice converter returned {made} samples for {given}: lengths may differ by a tenth and 0.1 s at most")]
    Length {
        /// Samples of the original.
        given: usize,
        /// Samples of the answer, at 16 kHz.
        made: usize,
    },
}

/// A voice with its settings. Jobs choose the vocoder and the McAdams coefficient; `[transcription.voice]` of a site's
/// configuration names a converter:
///
/// ```toml
/// [transcription.voice]
/// kind = "command"
/// command = ["convert-voice", "-"]
/// ```
///
/// The default is that of a job ([`OutputVoice`]).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum VoiceConfig {
    /// The McAdams coefficient.
    Mcadams {
        /// 0.5 to 1.5 and not near 1.
        #[serde(default = "usual_alpha")]
        alpha: f64,
    },
    /// A vocoder.
    Vocoder {
        /// Number of coefficients of the envelope that are kept, 8 to 20.
        #[serde(default = "usual_detail")]
        detail: u32,
        /// Whether each piece has a random voice of its own.
        #[serde(default)]
        varied: bool,
    },
    /// A converter that is a program.
    Command {
        /// Program and arguments; no shell reads them.
        command: Vec<String>,
        /// Time limit for one piece, in seconds, 1 to 600.
        #[serde(default = "minute")]
        seconds: u32,
    },
    /// A converter that is a server.
    Url {
        /// Address that receives WAV by POST: http on this machine, or https in a private network.
        url: String,
        /// Time limit for one piece, in seconds, 1 to 600.
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

impl Default for VoiceConfig {
    fn default() -> Self {
        Self::Vocoder { detail: usual_detail(), varied: true }
    }
}

/// Longest time limit for one piece, in seconds.
pub const MOST_SECONDS: u32 = 600;
/// Distance from 1 within which a coefficient leaves voices unchanged.
const UNCHANGED: f64 = 0.05;

impl VoiceConfig {
    /// Creates the transformation, for any number of sounds.
    ///
    /// # Errors
    /// [`VoiceError`] with the setting and its permitted values.
    pub fn start(&self) -> Result<Box<dyn OneVoice>, VoiceError> {
        let limit = |seconds: u32| match seconds {
            1..=MOST_SECONDS => Ok(Duration::from_secs(seconds.into())),
            _ => Err(VoiceError::Seconds(seconds)),
        };
        match self {
            Self::Mcadams { alpha } => {
                let voice = mcadams::McAdamsVoice::new(*alpha)?;
                if (alpha - 1.0).abs() < UNCHANGED - 1e-9 {
                    return Err(VoiceError::Unchanged(*alpha));
                }
                Ok(Box::new(voice))
            }
            Self::Vocoder { detail, varied } => {
                let voice = vocoder::VocoderVoice::new(*detail)?;
                Ok(Box::new(if *varied { voice.varied() } else { voice }))
            }
            Self::Command { command, seconds } => {
                Ok(Box::new(program::ProgramConverter::new(command, limit(*seconds)?)?))
            }
            Self::Url { url, seconds } => Ok(Box::new(remote::RemoteConverter::new(url, limit(*seconds)?)?)),
        }
    }
}

/// Largest answer of a converter, in bytes: a minute of 48 kHz stereo floats.
pub const MOST_BYTES: usize = 24 << 20;

/// Gives a converter's sound exactly the length of the original: a small excess is removed, a small deficit is filled with
/// silence, because rhythm determines the times of words.
fn fit_length(mut made: Vec<f32>, given: usize) -> Result<Vec<f32>, VoiceError> {
    if made.len().abs_diff(given) > given / 10 + 1_600 {
        return Err(VoiceError::Length { given, made: made.len() });
    }
    made.resize(given, 0.0);
    Ok(made)
}

#[cfg(test)]
mod tests {
    use undertone_api::job::transcription::OutputVoice;

    use super::{MOST_SECONDS, VoiceConfig, VoiceError, fit_length};

    fn voice(text: &str) -> Result<String, String> {
        let voice: VoiceConfig = toml::from_str(text).map_err(|error| error.to_string())?;
        voice.start().map(|voice| voice.name()).map_err(|error| error.to_string())
    }

    #[test]
    fn configured_voice_is_created() {
        assert_eq!(voice("kind = \"mcadams\""), Ok("McAdams coefficient 0.8".to_owned()));
        assert!(voice("kind = \"command\"\ncommand = [\"convert\", \"-\"]").is_ok_and(|name| name.contains("convert")));
        assert!(
            voice("kind = \"url\"\nurl = \"http://127.0.0.1:9000/convert\"").is_ok_and(|name| name.contains("9000"))
        );
        assert_eq!(voice("kind = \"vocoder\""), Ok("vocoder of 13 coefficients".to_owned()));
        assert_eq!(voice("kind = \"vocoder\"\nvaried = true"), Ok("vocoder of 13 coefficients, varied".to_owned()));
    }

    #[test]
    fn default_voice_is_that_of_a_job() {
        let VoiceConfig::Vocoder { detail, varied } = VoiceConfig::default() else { panic!("another kind of voice") };
        assert_eq!(OutputVoice::Vocoder { detail, varied }, OutputVoice::default());
        let shortest = toml::from_str("kind = \"vocoder\"").expect("a voice");
        let VoiceConfig::Vocoder { detail, varied } = shortest else { panic!("another kind of voice") };
        let spec: OutputVoice = serde_json::from_str("{\"kind\": \"vocoder\"}").expect("a voice of a spec");
        assert_eq!(OutputVoice::Vocoder { detail, varied }, spec, "omitted fields mean the same");
    }

    #[test]
    fn mistakes_name_their_field() {
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
    fn small_excess_is_removed_and_large_excess_refused() {
        assert_eq!(fit_length(vec![1.0; 16_100], 16_000).map(|made| made.len()).ok(), Some(16_000));
        assert_eq!(fit_length(vec![1.0; 15_000], 16_000).map(|made| made[15_999]).ok(), Some(0.0));
        assert!(matches!(
            fit_length(vec![1.0; 20_000], 16_000),
            Err(VoiceError::Length { given: 16_000, made: 20_000 })
        ));
        // A tenth and 0.1 s.
        assert!([12_800, 19_200].iter().all(|made| fit_length(vec![1.0; *made], 16_000).is_ok()));
        assert!([12_799, 19_201].iter().all(|made| fit_length(vec![1.0; *made], 16_000).is_err()));
    }

    #[test]
    fn settings_beyond_their_limits_are_refused() {
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
