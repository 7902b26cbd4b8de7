//! `[transcription.speech]`: the source of spoken dummies: an engine, or recordings of people.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use url::Url;

use crate::config::{ConfigError, field};
use crate::site::folder::check_name;
use crate::speech::transcribe::provider::key::{KeyError, ProviderKey};
use crate::speech::transcribe::speak::{REFERENCE, SpeakError, SpeechEngine};

/// The longest time to speak one text.
pub(crate) const SPEAKING: Duration = Duration::from_mins(2);

/// The configured source of spoken dummies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum SpeechSource {
    /// espeak-ng.
    Espeak {
        /// One of the voices of espeak-ng.
        #[serde(default = "default_espeak_voice")]
        voice: String,
    },
    /// flite.
    Flite {
        /// One of the voices of flite.
        #[serde(default = "default_flite_voice")]
        voice: String,
    },
    /// Any program that writes WAV.
    Command {
        /// Program and arguments; `{text}`, `{rate}` and `{stretch}` are filled in, and `{reference}` with the path of
        /// a WAV file with the voice to imitate.
        command: Vec<String>,
    },
    /// `POST /v1/audio/speech`, at a service that is none of the recognizers.
    Http {
        /// The service's address.
        url: String,
        /// The model.
        model: String,
        /// The voice.
        voice: String,
        /// The file with its key, relative to the site's folder, 0600.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key_file: Option<PathBuf>,
    },
    /// Recordings of people: pieces of public recordings.
    Recorded {
        /// The dataset of the recordings, which the policy marks as public; `None` for those from `data index-speech
        /// --input`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dataset: Option<String>,
        /// Whether recognizers may receive a piece again, in another job, if they have not received it before.
        #[serde(default)]
        again: bool,
        /// The engine for words with too few pieces, of another kind; `None` to refuse such a job.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fill: Option<Box<SpeechSource>>,
    },
}

impl Default for SpeechSource {
    fn default() -> Self {
        Self::Espeak { voice: default_espeak_voice() }
    }
}

/// The configured public recordings for dummies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedSource {
    /// The dataset of the recordings; `None` for those given for indexing.
    pub dataset: Option<String>,
    /// Whether other recognizers may receive a piece again.
    pub again: bool,
}

impl SpeechSource {
    /// Returns the recordings, if dummies are made of them.
    pub fn recorded(&self) -> Option<RecordedSource> {
        match self {
            Self::Recorded { dataset, again, .. } => Some(RecordedSource { dataset: dataset.clone(), again: *again }),
            Self::Espeak { .. } | Self::Flite { .. } | Self::Command { .. } | Self::Http { .. } => None,
        }
    }

    /// Returns the engine: this one, or the one that supplements recordings.
    pub fn engine(&self) -> Option<&Self> {
        match self {
            Self::Recorded { fill, .. } => fill.as_deref(),
            engine => Some(engine),
        }
    }

    /// Returns whether dummies are spoken in the voices of the recordings.
    pub fn clones(&self) -> bool {
        self.recorded().is_none() && self.imitates()
    }

    /// Returns whether the engine imitates voices.
    fn imitates(&self) -> bool {
        let Some(Self::Command { command }) = self.engine() else { return false };
        command.iter().skip(1).any(|argument| argument.contains(REFERENCE))
    }

    /// Checks the constraints beyond the types.
    ///
    /// # Errors
    /// [`ConfigError::Field`] that names the field and the remedy.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let engine = self.engine();
        if let (Self::Recorded { .. }, Some(filler)) = (self, engine)
            && (matches!(filler, Self::Recorded { .. }) || self.imitates())
        {
            let reason = "fill: must be an engine with a voice of its own: espeak, flite, command without `{reference}`, or http";
            return Err(field("transcription.speech", reason));
        }
        if let Self::Recorded { dataset: Some(name), .. } = self
            && check_name(name).is_err()
        {
            return Err(field(
                "transcription.speech",
                "dataset: must be the name of a dataset of recordings of this site",
            ));
        }
        if let Some(Self::Command { command }) = engine
            && command.first().is_none_or(String::is_empty)
        {
            return Err(field(
                "transcription.speech",
                "command: must name a program that writes WAV to its standard output",
            ));
        }
        if let Some(Self::Command { command }) = engine
            && command.first().is_some_and(|program| program.contains(REFERENCE))
        {
            let reason = "command: `{reference}` can be among the arguments, not in the program's name";
            return Err(field("transcription.speech", reason));
        }
        Ok(())
    }

    /// Returns the started speech engine; `None` if all dummies are recorded. `site` is the site's folder. `providers`
    /// are the recipients of the dummies.
    ///
    /// # Errors
    /// [`SpeakError`] for impossible settings, [`KeyError`] when the key cannot be read.
    pub(super) fn start(&self, site: &Path, providers: &[Url]) -> Result<Option<SpeechEngine>, EngineError> {
        let Some(speech) = self.engine() else { return Ok(None) };
        Ok(Some(match speech {
            // Recordings cannot supplement other recordings: `check` refuses that.
            Self::Recorded { .. } => return Ok(None),
            Self::Espeak { voice } => SpeechEngine::espeak(voice, SPEAKING)?,
            Self::Flite { voice } => SpeechEngine::flite(voice, SPEAKING)?,
            Self::Command { command } => {
                let command: Vec<&str> = command.iter().map(String::as_str).collect();
                SpeechEngine::command(&command, SPEAKING)?
            }
            Self::Http { url, model, voice, key_file } => {
                let key = key_file.as_ref().map(|file| ProviderKey::from_file(&site.join(file))).transpose()?;
                SpeechEngine::http(url, model, voice, key.map(ProviderKey::into_secret), providers, SPEAKING)?
            }
        }))
    }
}

/// The reason for a missing speech engine.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A setting is wrong.
    #[error("transcription.speech: {0}")]
    Speak(#[from] SpeakError),
    /// The key failed.
    #[error("transcription.speech: {0}")]
    Key(#[from] KeyError),
}

fn default_espeak_voice() -> String {
    "en-us".to_owned()
}

fn default_flite_voice() -> String {
    "slt".to_owned()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may fail")]

    use std::path::Path;

    use crate::config::transcription::TranscriptionSettings;

    fn read(text: &str) -> Result<TranscriptionSettings, String> {
        let settings: TranscriptionSettings = toml::from_str(text).map_err(|error| error.to_string())?;
        settings.check().map(|()| settings).map_err(|error| error.to_string())
    }

    #[test]
    fn recordings_work_alone_or_with_a_fill_engine() {
        let alone = read("[speech]\nkind = \"recorded\"\n").unwrap();
        let recorded = alone.speech.recorded().unwrap();
        assert_eq!((recorded.dataset, recorded.again), (None, false));
        assert!(alone.engine(Path::new("."), &[]).unwrap().is_none() && !alone.clones());
        let text = "[speech]\nkind = \"recorded\"\ndataset = \"readings\"\nagain = true\nfill = { kind = \"flite\" }\n";
        let filled = read(text).unwrap();
        assert_eq!(filled.speech.recorded().unwrap().dataset.as_deref(), Some("readings"));
        assert!(filled.engine(Path::new("."), &[]).unwrap().is_some());
        assert_eq!(toml::from_str::<TranscriptionSettings>(&toml::to_string(&filled).unwrap()).unwrap(), filled);
        assert!(TranscriptionSettings::default().speech.recorded().is_none());
    }
}
