//! `[transcription.speech]`: who speaks the dummies: an engine, or people who were recorded.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use url::Url;

use crate::config::{ConfigError, field};
use crate::site::folder::check_name;
use crate::speech::transcribe::provider::key::{KeyError, ProviderKey};
use crate::speech::transcribe::speak::{REFERENCE, SpeakError, SpeechEngine};

/// Longest that one text may take to be spoken.
pub(crate) const SPEAKING: Duration = Duration::from_mins(2);

/// What speaks the dummies, as configured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Speech {
    /// espeak-ng.
    Espeak {
        /// One of its voices.
        #[serde(default = "american")]
        voice: String,
    },
    /// flite.
    Flite {
        /// One of its voices.
        #[serde(default = "slt")]
        voice: String,
    },
    /// Any program that writes WAV.
    Command {
        /// Program and arguments; `{text}`, `{rate}` and `{stretch}` are filled in, and `{reference}` with the path of a WAV file in
        /// whose voice it speaks.
        command: Vec<String>,
    },
    /// `POST /v1/audio/speech`, by nobody who recognizes.
    Http {
        /// Its address.
        url: String,
        /// The model.
        model: String,
        /// The voice.
        voice: String,
        /// The file that holds its key, relative to the site's folder, 0600.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key_file: Option<PathBuf>,
    },
    /// People who were recorded: pieces of recordings that anybody may have.
    Recorded {
        /// The dataset that they are, which the policy marks as public; absent for those that `data index-speech --input` was given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dataset: Option<String>,
        /// Whether a piece may be heard again, in another job, by recognizers that have not heard it.
        #[serde(default)]
        again: bool,
        /// Who speaks where there are too few pieces of a word, one of the other kinds; absent, such a job is refused.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fill: Option<Box<Speech>>,
    },
}

impl Default for Speech {
    fn default() -> Self {
        Self::Espeak { voice: american() }
    }
}

/// Public recordings of which dummies are made, as configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// The dataset that they are; absent for those that were given to be indexed.
    pub dataset: Option<String>,
    /// Whether other recognizers may hear a piece again.
    pub again: bool,
}

impl Speech {
    /// The recordings, where dummies are made of some.
    pub fn recorded(&self) -> Option<Recorded> {
        match self {
            Self::Recorded { dataset, again, .. } => Some(Recorded { dataset: dataset.clone(), again: *again }),
            Self::Espeak { .. } | Self::Flite { .. } | Self::Command { .. } | Self::Http { .. } => None,
        }
    }

    /// What speaks: itself, or what fills up recordings.
    pub fn engine(&self) -> Option<&Self> {
        match self {
            Self::Recorded { fill, .. } => fill.as_deref(),
            engine => Some(engine),
        }
    }

    /// Whether dummies are spoken in the voices of the recordings.
    pub fn clones(&self) -> bool {
        self.recorded().is_none() && self.imitates()
    }

    /// Whether what speaks does so in voices that it hears.
    fn imitates(&self) -> bool {
        let Some(Self::Command { command }) = self.engine() else { return false };
        command.iter().skip(1).any(|argument| argument.contains(REFERENCE))
    }

    /// Checks what the types cannot say.
    ///
    /// # Errors
    /// [`ConfigError::Field`] that names the field and the remedy.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let engine = self.engine();
        if let (Self::Recorded { .. }, Some(filling)) = (self, engine)
            && (matches!(filling, Self::Recorded { .. }) || self.imitates())
        {
            let reason = "fill: an engine that speaks in a voice of its own: espeak, flite, command without `{reference}`, or http";
            return Err(field("transcription.speech", reason));
        }
        if let Self::Recorded { dataset: Some(name), .. } = self
            && check_name(name).is_err()
        {
            return Err(field("transcription.speech", "dataset: the name of a dataset of recordings of this site"));
        }
        if let Some(Self::Command { command }) = engine
            && command.first().is_none_or(String::is_empty)
        {
            return Err(field("transcription.speech", "command: name a program that writes WAV on its output"));
        }
        if let Some(Self::Command { command }) = engine
            && command.first().is_some_and(|program| program.contains(REFERENCE))
        {
            let reason = "command: `{reference}` is filled in among the arguments, not in the program's name";
            return Err(field("transcription.speech", reason));
        }
        Ok(())
    }

    /// The speech engine, ready; nothing where all dummies are recorded. `site` is the site's folder. `providers` are those that will
    /// hear the dummies.
    ///
    /// # Errors
    /// [`SpeakError`] for a setting that cannot be, [`KeyError`] when its key cannot be read; both in words.
    pub(super) fn start(&self, site: &Path, providers: &[Url]) -> Result<Option<SpeechEngine>, EngineError> {
        let Some(speech) = self.engine() else { return Ok(None) };
        Ok(Some(match speech {
            // A recording fills up no other: `check` says so.
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

/// Why there is no speech engine.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A setting.
    #[error("transcription.speech: {0}")]
    Speak(#[from] SpeakError),
    /// The key.
    #[error("transcription.speech: {0}")]
    Key(#[from] KeyError),
}

fn american() -> String {
    "en-us".to_owned()
}

fn slt() -> String {
    "slt".to_owned()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may fail")]

    use std::path::Path;

    use crate::config::transcription::Transcription;

    fn read(text: &str) -> Result<Transcription, String> {
        let read: Transcription = toml::from_str(text).map_err(|error| error.to_string())?;
        read.check().map(|()| read).map_err(|error| error.to_string())
    }

    #[test]
    fn recordings_speak_alone_or_with_an_engine_that_fills_up() {
        let alone = read("[speech]\nkind = \"recorded\"\n").unwrap();
        let recorded = alone.speech.recorded().unwrap();
        assert_eq!((recorded.dataset, recorded.again), (None, false));
        assert!(alone.engine(Path::new("."), &[]).unwrap().is_none() && !alone.clones());
        let text = "[speech]\nkind = \"recorded\"\ndataset = \"readings\"\nagain = true\nfill = { kind = \"flite\" }\n";
        let filled = read(text).unwrap();
        assert_eq!(filled.speech.recorded().unwrap().dataset.as_deref(), Some("readings"));
        assert!(filled.engine(Path::new("."), &[]).unwrap().is_some());
        assert_eq!(toml::from_str::<Transcription>(&toml::to_string(&filled).unwrap()).unwrap(), filled);
        assert!(Transcription::default().speech.recorded().is_none());
    }
}
