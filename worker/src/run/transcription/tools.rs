//! The tools that a job needs from its site, started before anything else: a missing one is reported before hours of
//! work.

use undertone_api::job::transcription::{
    DummyCorpus as Which, OutputVoice as Spoken, SiteRecognizer as Asked, Spec, Tariff,
};
use url::Url;

use super::failed;
use crate::config::transcription::{RecognizerSettings as Configured, RecordedSource, TranscriptionSettings};
use crate::run::{RunError, Transcribing};
use crate::speech::transcribe::dummy::ngram::{MOST_BYTES, TextCorpus};
use crate::speech::transcribe::provider::line::ProviderLine;
use crate::speech::transcribe::provider::settings::ProviderSettings;
use crate::speech::transcribe::recognize::pool::RecognizerPool;
use crate::speech::transcribe::sensitive::language::SensitiveLexicon;
use crate::speech::transcribe::sensitive::{SensitiveFinder, SensitiveSettings};
use crate::speech::transcribe::speak::{SpeechEngine, SpeechSynthesizer as _};
use crate::speech::transcribe::vocabulary::BaselineCounts;
use crate::speech::transcribe::vocabulary::language::StemmingLanguage;
use crate::speech::transcribe::voice::original::OriginalVoice;
use crate::speech::transcribe::voice::{OneVoice, VoiceConfig};

/// The tools of one job.
pub(super) struct Tools {
    pub(super) ears: RecognizerPool,
    pub(super) finder: SensitiveFinder,
    pub(super) language: StemmingLanguage,
    /// The usual frequencies, for a vocabulary of public data.
    pub(super) baseline: BaselineCounts,
    pub(super) corpus: TextCorpus,
    /// Public recordings for dummies, if the site has them.
    pub(super) recorded: Option<RecordedSource>,
    /// The engine for dummies; `None` if all are recorded.
    pub(super) engine: Option<SpeechEngine>,
    pub(super) voice: Box<dyn OneVoice>,
    /// The lines, by the spec's order of providers.
    pub(super) lines: Vec<ProviderLine>,
    /// The providers' hosts, by name or address.
    pub(super) hosts: Vec<String>,
    pub(super) tariffs: Vec<Option<Tariff>>,
}

impl Tools {
    /// Starts all tools, by spec and configuration.
    ///
    /// # Errors
    /// [`RunError::Refused`] if the site is not configured for the job, [`RunError::Failed`] if a tool does not start.
    pub(super) fn new(spec: &Spec, site: &Transcribing) -> Result<Self, RunError> {
        let settings = &site.settings;
        let named = spec.providers.iter().map(|asked| {
            let found = settings.providers.iter().find(|known| known.name == asked.name);
            let known = found
                .ok_or_else(|| refused(format!("no provider `{}` is in [[transcription.providers]]", asked.name)))?;
            if known.protocol == asked.protocol {
                Ok(known)
            } else {
                Err(refused(format!("the provider `{}` is asked otherwise at this site than the job says", asked.name)))
            }
        });
        let providers: Vec<&ProviderSettings> = named.collect::<Result<_, _>>()?;
        let line =
            |known: &&ProviderSettings| known.line(&site.site, site.environment, site.clock.clone()).map_err(failed);
        let lines = providers.iter().map(line).collect::<Result<_, _>>()?;
        let tariffs = providers.iter().map(|known| known.tariff().map_err(failed)).collect::<Result<_, _>>()?;
        let addresses: Vec<Url> = providers.iter().filter_map(|known| Url::parse(&known.url).ok()).collect();
        let language = StemmingLanguage::new(&spec.language).map_err(failed)?;
        Ok(Self {
            ears: ears(spec, site)?,
            finder: finder(&spec.language, site)?,
            language,
            baseline: baseline(language, site)?,
            corpus: corpus(spec.dummies.corpus, site)?,
            hosts: hosts(&addresses),
            recorded: settings.speech.recorded(),
            engine: settings.engine(&site.site, &addresses).map_err(failed)?,
            voice: voice(spec, settings)?,
            lines,
            tariffs,
        })
    }

    /// Returns the source of spoken dummies.
    fn speech(&self) -> String {
        let engine = self.engine.as_ref().map(SpeechEngine::name);
        match (&self.recorded, engine) {
            (None, engine) => engine.unwrap_or_default(),
            (Some(_), None) => "public recordings".to_owned(),
            (Some(_), Some(engine)) => format!("public recordings, and where they lack a word {engine}"),
        }
    }

    /// Returns the names of the tools, for the site's report.
    pub(super) fn names(&self) -> [(&'static str, String); 3] {
        [("recognizer", self.ears.name().to_owned()), ("speech", self.speech()), ("voice", self.voice.name())]
    }
}

/// Returns the hosts of these addresses, each once.
pub(super) fn hosts(addresses: &[Url]) -> Vec<String> {
    let mut hosts: Vec<String> = addresses.iter().filter_map(Url::host_str).map(str::to_owned).collect();
    hosts.sort();
    hosts.dedup();
    hosts
}

fn ears(spec: &Spec, site: &Transcribing) -> Result<RecognizerPool, RunError> {
    let configured = site.settings.recognizer.as_ref();
    let configured = configured.ok_or_else(|| refused("the site has no [transcription.recognizer]".to_owned()))?;
    let fits = match spec.recognizer {
        Asked::Site => true,
        Asked::Pocketsphinx => matches!(configured, Configured::Pocketsphinx { .. }),
        Asked::Server => matches!(configured, Configured::Server { .. }),
    };
    if !fits {
        return Err(refused(format!("the site's recognizer is not the job's (`{}`)", spec.recognizer.word())));
    }
    configured.start_pool(&site.site, &spec.language).map_err(failed)
}

fn refused(reason: String) -> RunError {
    RunError::Refused(reason)
}

/// Reads a text that the configuration names, below the site's folder.
fn text(site: &Transcribing, field: &str, path: &std::path::Path, most: u64) -> Result<String, RunError> {
    let path = site.site.join(path);
    let long = std::fs::metadata(&path).is_ok_and(|about| about.len() > most);
    if long {
        return Err(failed(format!("{field}: {} has more than {most} bytes", path.display())));
    }
    std::fs::read_to_string(&path)
        .map_err(|error| failed(format!("{field}: {} cannot be read: {error}", path.display())))
}

/// The largest file of sensitive words or document frequencies, bytes.
pub(crate) const MOST_TEXT: u64 = 64 << 20;

/// Returns the finder of sensitive words in `asked`, a language by ISO 639-1.
///
/// # Errors
/// [`RunError::Refused`] for a language that this site's recordings do not have, [`RunError::Failed`] for an invalid
/// file.
pub(super) fn finder(asked: &str, site: &Transcribing) -> Result<SensitiveFinder, RunError> {
    let said = &site.settings.sensitive;
    // The proposer reads a refusal: an error in the site's own file is for the site's log.
    let language = match &said.language {
        Some(path) => {
            let text = text(site, "transcription.sensitive.language", path, MOST_TEXT)?;
            SensitiveLexicon::parse(&text).map_err(|error| failed(format!("transcription.sensitive: {error}")))?
        }
        // The proposer states the job's language, and must not choose the sensitive words by it.
        None if !said.languages.iter().any(|known| known == asked) => {
            return Err(refused(format!(
                "transcription.sensitive.languages: this site has no recordings in `{asked}`"
            )));
        }
        None => {
            SensitiveLexicon::bundled(asked).map_err(|error| refused(format!("transcription.sensitive: {error}")))?
        }
    };
    if language.code() != asked {
        let reason = format!("transcription.sensitive.language is of `{}`, the job of `{asked}`", language.code());
        return Err(refused(reason));
    }
    let list = match &said.list {
        Some(path) => text(site, "transcription.sensitive.list", path, MOST_TEXT)?,
        None => String::new(),
    };
    let settings = SensitiveSettings {
        list: list
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .map(str::to_owned)
            .collect(),
        patterns: said.patterns.clone(),
        doubtful: said.doubtful,
        least_confidence: said.least_confidence,
    };
    SensitiveFinder::new(language, &settings).map_err(|error| failed(format!("transcription.sensitive: {error}")))
}

fn baseline(language: StemmingLanguage, site: &Transcribing) -> Result<BaselineCounts, RunError> {
    match &site.settings.vocabulary.baseline {
        Some(path) => {
            BaselineCounts::parse(&text(site, "transcription.vocabulary.baseline", path, MOST_TEXT)?, language)
                .map_err(failed)
        }
        None => Ok(BaselineCounts::count([], language)),
    }
}

fn corpus(asked: Which, site: &Transcribing) -> Result<TextCorpus, RunError> {
    match (asked, &site.settings.dummies.corpus) {
        (Which::Bundled, _) => TextCorpus::bundled().map_err(failed),
        (Which::Site, Some(path)) => {
            TextCorpus::parse(&text(site, "transcription.dummies.corpus", path, MOST_BYTES as u64)?).map_err(failed)
        }
        (Which::Site, None) => {
            Err(refused("the job asks for the site's corpus, and [transcription.dummies] names none".to_owned()))
        }
    }
}

fn voice(spec: &Spec, settings: &TranscriptionSettings) -> Result<Box<dyn OneVoice>, RunError> {
    let configured = match (spec.voice, &settings.voice) {
        (Spoken::Mcadams { alpha }, _) => VoiceConfig::Mcadams { alpha },
        (Spoken::Vocoder { detail }, _) => VoiceConfig::Vocoder { detail },
        (Spoken::Cloned, _) if settings.clones() => return Ok(Box::new(OriginalVoice)),
        (Spoken::Cloned, _) => {
            return Err(refused(
                "the job asks for dummies in imitated voices, and [transcription.speech] imitates none: it must be of the kind \
                 `command`, with `{reference}` among its arguments"
                    .to_owned(),
            ));
        }
        (Spoken::Command, Some(voice @ VoiceConfig::Command { .. }))
        | (Spoken::Url, Some(voice @ VoiceConfig::Url { .. })) => voice.clone(),
        (asked @ (Spoken::Command | Spoken::Url), _) => {
            return Err(refused(format!(
                "[transcription.voice] is not of the kind that the job asks for: {}",
                asked.label()
            )));
        }
    };
    configured.start().map_err(failed)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::path::Path;

    use super::{MOST_TEXT, text};
    use crate::run::Transcribing;

    #[test]
    fn a_text_of_the_configuration_has_its_size_and_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let site = Transcribing {
            settings: crate::config::transcription::TranscriptionSettings::default(),
            site: folder.path().to_owned(),
            results: folder.path().join("results"),
            environment: |_| None,
            clock: crate::fixture::clock(),
        };
        let file = std::fs::File::create(folder.path().join("list.txt")).unwrap();
        let read = || text(&site, "transcription.sensitive.list", Path::new("list.txt"), MOST_TEXT);
        file.set_len(MOST_TEXT).unwrap();
        assert_eq!(read().unwrap().len() as u64, MOST_TEXT);
        file.set_len(MOST_TEXT + 1).unwrap();
        let refused = read().unwrap_err().to_string();
        assert!(refused.contains("more than 67108864 bytes"), "{refused}");
    }
}
