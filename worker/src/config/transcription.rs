//! `[transcription]` of the configuration: this site's preparation of recordings for cloud recognizers, and the
//! recognizers.
//!
//! ```toml
//! [transcription.recognizer]            # transcribes unmodified recordings: a program or a model here, or the site's own server
//! kind = "pocketsphinx"
//! command = "/opt/pocketsphinx/bin/python"
//!
//! [transcription.speech]                # speaks the dummies
//! kind = "espeak"
//! voice = "en-us"
//!
//! # Or public recordings, which are harder to distinguish from true pieces (`data index-speech --input FOLDER`).
//! # [transcription.speech]
//! # kind = "recorded"
//! # fill = { kind = "espeak" }          # speaks missing words; without it the site refuses such a job
//!
//! [transcription.voice]                 # the converter that a job names "command" or "url"
//! kind = "command"
//! command = ["convert-voice", "-"]
//!
//! [transcription.dummies]
//! corpus = "corpus.txt"                 # a public text; relative to the site's folder
//!
//! [transcription.sensitive]
//! list = "never.txt"                    # words and phrases that never leave
//!
//! [[transcription.providers]]
//! name = "one"
//! protocol = "deepgram"
//! url = "https://api.deepgram.com"
//! key_file = "deepgram.key"
//! ```
//!
//! No setting is sent to a server. A job names providers by their names here.

mod model;
mod recognizer;
mod speech;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use undertone_api::job::transcription::LANGUAGES;
use url::Url;

use super::{ConfigError, field};
use crate::speech::transcribe::provider::settings;
use crate::speech::transcribe::speak::SpeechEngine;
use crate::speech::transcribe::voice::VoiceConfig;
pub use model::{MOST_LANGUAGE_WEIGHT, TrainedModel, TrainedModelError};
pub use recognizer::{RecognizerSettings, RecognizerSetupError};
#[cfg(test)]
pub(crate) use speech::SPEAKING;
pub use speech::{EngineError, RecordedSource, SpeechSource};

/// The highest number of concurrent programs or requests for recognition, or for speech.
pub const MOST_AT_ONCE: usize = 64;
/// The longest time of the site's recognizer for a piece, seconds.
pub const MOST_SECONDS: u32 = 600;

/// The site's texts for dummies.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DummyTexts {
    /// A public text, relative to the site's folder; never transcripts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corpus: Option<PathBuf>,
}

/// The reference for unusual words of the data, for vocabularies of public data.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WordBaseline {
    /// A table of document frequencies, relative to the site's folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<PathBuf>,
}

/// Words that never leave, in addition to those of the language.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SensitiveWords {
    /// A file of words and phrases, one per line, relative to the site's folder; `word*` for all words with that
    /// beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub list: Option<PathBuf>,
    /// Regular expressions over the words in lower case.
    pub patterns: Vec<String>,
    /// Whether words count that are names or numbers only sometimes.
    pub doubtful: bool,
    /// Words with a lower confidence of the recognizer count, 0 to 1; 0 for none.
    pub least_confidence: f64,
    /// A language's file in the form of the built-in ones, relative to the site's folder; for languages without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<PathBuf>,
    /// The languages of this site's recordings, among the built-in ones (ISO 639-1). A job in another language is
    /// refused: the lists of one language find nothing in speech of another.
    pub languages: Vec<String>,
}

impl Default for SensitiveWords {
    fn default() -> Self {
        let languages = vec!["en".to_owned()];
        Self { list: None, patterns: Vec::new(), doubtful: true, least_confidence: 0.0, language: None, languages }
    }
}

/// The transcription settings of this site.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TranscriptionSettings {
    /// The recognizer of unmodified recordings; without one no recording is transcribed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recognizer: Option<RecognizerSettings>,
    /// The source of spoken dummies.
    pub speech: SpeechSource,
    /// The voice converter that jobs may request besides McAdams; `None` for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub voice: Option<VoiceConfig>,
    /// Texts for dummies.
    pub dummies: DummyTexts,
    /// The baseline of word frequencies.
    pub vocabulary: WordBaseline,
    /// Words that never leave.
    pub sensitive: SensitiveWords,
    /// The cloud recognizers.
    pub providers: Vec<settings::ProviderSettings>,
}

impl TranscriptionSettings {
    /// Returns whether the file has no such settings.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Checks the constraints beyond the types; it touches no file and starts nothing.
    ///
    /// # Errors
    /// [`ConfigError::Field`] that names the field and the remedy.
    pub fn check(&self) -> Result<(), ConfigError> {
        let range = |name, value: usize, most: usize| {
            if (1..=most).contains(&value) {
                Ok(())
            } else {
                Err(field(name, format!("must be 1 to {most}, not {value}")))
            }
        };
        match &self.recognizer {
            None => {}
            Some(RecognizerSettings::Model(model)) => model.check()?,
            Some(
                RecognizerSettings::Pocketsphinx { processes: at_once, seconds, .. }
                | RecognizerSettings::Server { requests: at_once, seconds, .. },
            ) => {
                range("transcription.recognizer", *at_once, MOST_AT_ONCE)?;
                range("transcription.recognizer", *seconds as usize, MOST_SECONDS as usize)?;
            }
        }
        self.speech.check()?;
        if !(0.0..=1.0).contains(&self.sensitive.least_confidence) {
            let reason = format!("least_confidence: must be 0 to 1, not {}", self.sensitive.least_confidence);
            return Err(field("transcription.sensitive", reason));
        }
        if let Some(other) = self.sensitive.languages.iter().find(|code| !LANGUAGES.contains(&code.as_str())) {
            let reason = format!("languages: must be among {}, not {other:?}", LANGUAGES.join(", "));
            return Err(field("transcription.sensitive", reason));
        }
        if let Some(VoiceConfig::Mcadams { .. } | VoiceConfig::Vocoder { .. }) = self.voice {
            let reason = "kind: must be command or url; jobs configure McAdams and the vocoder";
            return Err(field("transcription.voice", reason));
        }
        for (own, url) in self.own_servers() {
            if let Some(provider) = self.providers.iter().find(|provider| is_same_address(&provider.url, url)) {
                let name = &provider.name;
                let reason = format!(
                    "`{name}` has the host and port of the site's own {own}, which receives data that no provider may receive"
                );
                return Err(field("transcription.providers", reason));
            }
        }
        if !self.providers.is_empty() {
            settings::check(&self.providers).map_err(|error| field("transcription.providers", error.to_string()))?;
        }
        Ok(())
    }

    /// Returns whether dummies can be spoken in the voices of the recordings.
    pub fn clones(&self) -> bool {
        self.speech.clones()
    }

    /// Returns the site's own servers, with their addresses.
    fn own_servers(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let recognizer = match &self.recognizer {
            Some(RecognizerSettings::Server { url, .. }) => Some(("recognizer", url.as_str())),
            _ => None,
        };
        let speech = match self.speech.engine() {
            Some(SpeechSource::Http { url, .. }) => Some(("speech engine", url.as_str())),
            _ => None,
        };
        let voice = match &self.voice {
            Some(VoiceConfig::Url { url, .. }) => Some(("converter", url.as_str())),
            _ => None,
        };
        [recognizer, speech, voice].into_iter().flatten()
    }

    /// Returns the started speech engine; `None` if all dummies are recorded. `site` is the site's folder. `providers`
    /// are the recipients of the dummies.
    ///
    /// # Errors
    /// [`EngineError`] for wrong settings.
    pub fn engine(&self, site: &Path, providers: &[Url]) -> Result<Option<SpeechEngine>, EngineError> {
        self.speech.start(site, providers)
    }
}

/// Returns whether two addresses have the same host and port.
fn is_same_address(one: &str, other: &str) -> bool {
    let address = |text: &str| {
        let url = Url::parse(text).ok()?;
        Some((url.host_str()?.trim_end_matches('.').to_owned(), url.port_or_known_default()?))
    };
    address(one).is_some_and(|one| address(other) == Some(one))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may fail")]

    use std::path::Path;

    use super::{MOST_AT_ONCE, MOST_SECONDS, RecognizerSettings, SpeechSource, TranscriptionSettings};
    use crate::speech::transcribe::recognize::server::ServerProtocol;

    fn read(text: &str) -> Result<TranscriptionSettings, String> {
        let settings: TranscriptionSettings = toml::from_str(text).map_err(|error| error.to_string())?;
        settings.check().map(|()| settings).map_err(|error| error.to_string())
    }

    #[test]
    fn missing_settings_have_defaults_and_survive_writing() {
        let text = "[recognizer]\nkind = \"pocketsphinx\"\ncommand = \"python\"\n[[providers]]\nname = \"one\"\nprotocol = \"deepgram\"\nurl = \"https://api.example\"\n";
        let settings = read(text).unwrap();
        assert_eq!(
            (settings.recognizer.as_ref().map(RecognizerSettings::at_once), &settings.speech),
            (Some(2), &SpeechSource::default())
        );
        assert_eq!(toml::from_str::<TranscriptionSettings>(&toml::to_string(&settings).unwrap()).unwrap(), settings);
        assert!(TranscriptionSettings::default().is_default() && !settings.is_default());
    }

    #[test]
    fn recognizer_limits_are_enforced() {
        let program = |processes: usize, seconds: u32| {
            format!(
                "[recognizer]\nkind = \"pocketsphinx\"\ncommand = \"python\"\nprocesses = {processes}\nseconds = {seconds}\n"
            )
        };
        let server = |requests: usize, seconds: u32| {
            let url = "url = \"http://127.0.0.1\"\nprotocol = \"open_ai\"";
            format!("[recognizer]\nkind = \"server\"\n{url}\nrequests = {requests}\nseconds = {seconds}\n")
        };
        for (at_once, seconds) in [(1, 1), (MOST_AT_ONCE, MOST_SECONDS)] {
            assert!(read(&program(at_once, seconds)).is_ok() && read(&server(at_once, seconds)).is_ok(), "{at_once}");
        }
        for (at_once, seconds) in [(0, 1), (MOST_AT_ONCE + 1, 1), (1, 0), (1, MOST_SECONDS + 1)] {
            for text in [program(at_once, seconds), server(at_once, seconds)] {
                let message = read(&text).unwrap_err();
                assert!(message.contains("1 to 64") || message.contains("1 to 600"), "{text}: {message}");
            }
        }
    }

    #[test]
    fn server_uses_the_configured_protocol() {
        for (name, expected) in [
            ("open_ai", ServerProtocol::OpenAi),
            ("whisper_cpp", ServerProtocol::WhisperCpp),
            ("vosk", ServerProtocol::Vosk),
        ] {
            let text = format!("[recognizer]\nkind = \"server\"\nurl = \"http://127.0.0.1\"\nprotocol = \"{name}\"\n");
            let server = read(&text).unwrap().recognizer.unwrap().server(Path::new("."), "en").unwrap().unwrap();
            assert_eq!((server.protocol, server.requests, server.seconds), (expected, 2, 60), "{name}");
        }
    }

    #[test]
    fn each_mistake_names_its_table_or_field() {
        let provider = "[[providers]]\nname = \"one\"\nprotocol = \"deepgram\"\nurl = \"https://api.example\"\n";
        let model =
            |digest: &str, rest: &str| format!("[recognizer]\nkind = \"model\"\ndigest = \"{digest}\"\n{rest}\n");
        let digest = "0a".repeat(32);
        assert!(read(&model(&digest, "characters = \"c.json\"\nlexicon = \"d\"\nlanguage_weight = 1000.0")).is_ok());
        for (text, expected) in [
            ("[recognizer]\nkind = \"pocketsphinx\"\ncommand = \"python\"\nprocesses = 65\n", "1 to 64"),
            (
                "[recognizer]\nkind = \"server\"\nurl = \"http://127.0.0.1\"\nprotocol = \"open_ai\"\nseconds = 0\n",
                "1 to 600",
            ),
            ("[recognizer]\nkind = \"cloud\"\n", "variant"),
            (&model("", "characters = \"c.json\""), "digest: must be the SHA-256"),
            (&model(&"A".repeat(64), "characters = \"c.json\""), "in lower case"),
            (&model(&digest, ""), "name the characters of a CTC model"),
            (&model(&digest, "characters = \"c.json\"\nphone_map = \"p\"\nlexicon = \"d\""), "name one of the two"),
            (&model(&digest, "phone_map = \"p\""), "needs a lexicon"),
            (&model(&digest, "characters = \"c.json\"\nclass_map = \"k\""), "class_map"),
            (&model(&digest, "characters = \"c.json\"\nlanguage_model = \"l\""), "language_model: needs a lexicon"),
            (&model(&digest, "characters = \"c.json\"\nlanguage_weight = 1000.1"), "0 to 1000"),
            (&model(&digest, "characters = \"c.json\"\nbeam = 3"), "unknown field"),
            ("[speech]\nkind = \"command\"\ncommand = []\n", "transcription.speech"),
            ("[speech]\nkind = \"command\"\ncommand = [\"{reference}\"]\n", "among the arguments"),
            ("[speech]\nkind = \"recorded\"\nfill = { kind = \"recorded\" }\n", "fill"),
            ("[speech]\nkind = \"recorded\"\nfill = { kind = \"command\", command = [] }\n", "transcription.speech"),
            (
                "[speech]\nkind = \"recorded\"\nfill = { kind = \"command\", command = [\"say\", \"{reference}\"] }\n",
                "voice of its own",
            ),
            ("[speech]\nkind = \"recorded\"\ndataset = \"../ward\"\n", "dataset"),
            ("[sensitive]\nleast_confidence = 2.0\n", "least_confidence"),
            ("[sensitive]\nlanguages = [\"english\"]\n", "languages"),
            ("[voice]\nkind = \"mcadams\"\n", "transcription.voice"),
            ("[voice]\nkind = \"vocoder\"\n", "transcription.voice"),
            ("[dummies]\ncorpsu = \"a\"\n", "corpsu"),
            (&provider.replace("https", "ftp"), "url"),
            (&provider.repeat(2), "two are called"),
            (
                &format!("[voice]\nkind = \"url\"\nurl = \"https://API.example:443/convert\"\n{provider}"),
                "the site's own converter",
            ),
            (
                &format!(
                    "[recognizer]\nkind = \"server\"\nprotocol = \"open_ai\"\nurl = \"https://api.example/hear\"\n{provider}"
                ),
                "the site's own recognizer",
            ),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
