//! The tools that a job needs from its site, started before anything else: a missing one is reported before hours of
//! work.

use std::path::Path;

use undertone_api::job::transcription::{
    DummyCorpus as CorpusSpec, OutputVoice as VoiceSpec, Provider, SiteRecognizer as RecognizerSpec, Spec, Tariff,
    Vocabulary as VocabularySpec, WordWeight,
};
use url::Url;

use super::TranscriptionError;
use crate::config::transcription::{RecognizerSettings, RecordedSource, TranscriptionSettings};
use crate::run::TranscriptionSite;
use crate::speech::transcribe::dummy::corpus::{MOST_BYTES, TextCorpus};
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
pub(super) struct JobTools {
    pub(super) recognizer: RecognizerPool,
    pub(super) finder: SensitiveFinder,
    pub(super) language: StemmingLanguage,
    /// The usual frequencies in a public corpus, for a vocabulary that depends on the recordings.
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

impl JobTools {
    /// Starts all tools, by spec and configuration.
    ///
    /// # Errors
    /// A refusal if the site is not configured for the job, a failure if a tool does not start.
    pub(super) fn new(spec: &Spec, site: &TranscriptionSite) -> Result<Self, TranscriptionError> {
        let settings = &site.settings;
        let provider = |provider: &Provider| {
            let configured = settings.providers.iter().find(|configured| configured.name == provider.name);
            let configured = configured.ok_or_else(|| TranscriptionError::NoProvider(provider.name.clone()))?;
            if configured.protocol == provider.protocol {
                Ok(configured)
            } else {
                Err(TranscriptionError::OtherProtocol(provider.name.clone()))
            }
        };
        let providers: Vec<&ProviderSettings> = spec.providers.iter().map(provider).collect::<Result<_, _>>()?;
        let line = |provider: &&ProviderSettings| provider.line(&site.site, site.environment, site.clock.clone());
        let lines = providers.iter().map(line).collect::<Result<_, _>>()?;
        let tariffs = providers.iter().map(|provider| provider.tariff()).collect::<Result<_, _>>()?;
        let addresses: Vec<Url> = providers.iter().filter_map(|provider| Url::parse(&provider.url).ok()).collect();
        let language = StemmingLanguage::new(&spec.language)?;
        let engine = settings.engine(&site.site, &addresses)?;
        check_selection(spec, settings, engine.is_some())?;
        Ok(Self {
            recognizer: start_recognizer(spec, site)?,
            finder: load_finder(&spec.language, site)?,
            language,
            baseline: load_baseline(language, site)?,
            corpus: load_corpus(spec.dummies.corpus, site)?,
            hosts: list_hosts(&addresses),
            recorded: settings.speech.recorded(),
            engine,
            voice: start_voice(spec, settings)?,
            lines,
            tariffs,
        })
    }

    /// Returns the source of spoken dummies.
    fn speech_source(&self) -> String {
        let engine = self.engine.as_ref().map(SpeechEngine::name);
        match (&self.recorded, engine) {
            (None, engine) => engine.unwrap_or_default(),
            (Some(_), None) => "public recordings".to_owned(),
            (Some(_), Some(engine)) => format!("public recordings, and where they lack a word {engine}"),
        }
    }

    /// Returns the names of the tools, for the site's report.
    pub(super) fn names(&self) -> [(&'static str, String); 3] {
        [
            ("recognizer", self.recognizer.name().to_owned()),
            ("speech", self.speech_source()),
            ("voice", self.voice.name()),
        ]
    }
}

/// Refuses a choice of words from the recordings that the site cannot make, or whose failure could depend on the chosen
/// words: before anything is charged, a refusal must not tell of them.
fn check_selection(spec: &Spec, settings: &TranscriptionSettings, has_engine: bool) -> Result<(), TranscriptionError> {
    let VocabularySpec::Selected { weight, .. } = &spec.vocabulary else { return Ok(()) };
    if *weight == WordWeight::TfIdf && settings.vocabulary.baseline.is_none() {
        return Err(TranscriptionError::NoBaseline);
    }
    if has_engine { Ok(()) } else { Err(TranscriptionError::ChosenWordsNeedEngine) }
}

/// Returns the hosts of these addresses, each once.
pub(super) fn list_hosts(addresses: &[Url]) -> Vec<String> {
    let mut hosts: Vec<String> = addresses.iter().filter_map(Url::host_str).map(str::to_owned).collect();
    hosts.sort();
    hosts.dedup();
    hosts
}

fn start_recognizer(spec: &Spec, site: &TranscriptionSite) -> Result<RecognizerPool, TranscriptionError> {
    let configured = site.settings.recognizer.as_ref().ok_or(TranscriptionError::NoRecognizer)?;
    let is_permitted = match spec.recognizer {
        RecognizerSpec::Site => true,
        RecognizerSpec::Pocketsphinx => matches!(configured, RecognizerSettings::Pocketsphinx { .. }),
        RecognizerSpec::Server => matches!(configured, RecognizerSettings::Server { .. }),
    };
    if !is_permitted {
        return Err(TranscriptionError::OtherRecognizer(spec.recognizer.word()));
    }
    Ok(configured.start_pool(&site.site, &spec.language)?)
}

/// Reads a text that the configuration names, below the site's folder.
fn read_text(
    site: &TranscriptionSite,
    field: &'static str,
    path: &Path,
    most: u64,
) -> Result<String, TranscriptionError> {
    let path = site.site.join(path);
    if std::fs::metadata(&path).is_ok_and(|metadata| metadata.len() > most) {
        return Err(TranscriptionError::LongText { field, path, most });
    }
    std::fs::read_to_string(&path).map_err(|source| TranscriptionError::ReadText { field, path, source })
}

/// The largest file of sensitive words or document frequencies, bytes.
pub(crate) const MOST_TEXT: u64 = 64 << 20;

/// Returns the finder of sensitive words in a job's language, by ISO 639-1.
///
/// # Errors
/// A refusal for a language that this site's recordings do not have, a failure for an invalid file.
pub(super) fn load_finder(job: &str, site: &TranscriptionSite) -> Result<SensitiveFinder, TranscriptionError> {
    let configured = &site.settings.sensitive;
    // The proposer reads a refusal: an error in the site's own file is for the site's log.
    let lexicon = match &configured.language {
        Some(path) => {
            let text = read_text(site, "transcription.sensitive.language", path, MOST_TEXT)?;
            SensitiveLexicon::parse(&text).map_err(TranscriptionError::Sensitive)?
        }
        // The proposer states the job's language, and must not choose the sensitive words by it.
        None if !configured.languages.iter().any(|language| language == job) => {
            return Err(TranscriptionError::OtherRecordingLanguage(job.to_owned()));
        }
        None => SensitiveLexicon::bundled(job).map_err(TranscriptionError::SensitiveLanguage)?,
    };
    if lexicon.code() != job {
        let list = lexicon.code().to_owned();
        return Err(TranscriptionError::OtherSensitiveLanguage { list, job: job.to_owned() });
    }
    let list = match &configured.list {
        Some(path) => read_text(site, "transcription.sensitive.list", path, MOST_TEXT)?,
        None => String::new(),
    };
    let settings = SensitiveSettings {
        list: list
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .map(str::to_owned)
            .collect(),
        patterns: configured.patterns.clone(),
        doubtful: configured.doubtful,
        least_confidence: configured.least_confidence,
    };
    SensitiveFinder::new(lexicon, &settings).map_err(TranscriptionError::Sensitive)
}

fn load_baseline(language: StemmingLanguage, site: &TranscriptionSite) -> Result<BaselineCounts, TranscriptionError> {
    match &site.settings.vocabulary.baseline {
        Some(path) => {
            let text = read_text(site, "transcription.vocabulary.baseline", path, MOST_TEXT)?;
            Ok(BaselineCounts::parse(&text, language)?)
        }
        None => Ok(BaselineCounts::count([], language)),
    }
}

fn load_corpus(corpus: CorpusSpec, site: &TranscriptionSite) -> Result<TextCorpus, TranscriptionError> {
    match (corpus, &site.settings.dummies.corpus) {
        (CorpusSpec::Bundled, _) => Ok(TextCorpus::bundled()?),
        (CorpusSpec::Site, Some(path)) => {
            let text = read_text(site, "transcription.dummies.corpus", path, MOST_BYTES as u64)?;
            Ok(TextCorpus::parse(&text)?)
        }
        (CorpusSpec::Site, None) => Err(TranscriptionError::NoCorpus),
    }
}

fn start_voice(spec: &Spec, settings: &TranscriptionSettings) -> Result<Box<dyn OneVoice>, TranscriptionError> {
    let configured = match (spec.voice, &settings.voice) {
        (VoiceSpec::Mcadams { alpha, .. }, _) => VoiceConfig::Mcadams { alpha },
        (VoiceSpec::Vocoder { detail, varied }, _) => VoiceConfig::Vocoder { detail, varied },
        (VoiceSpec::Cloned, _) if settings.clones() => return Ok(Box::new(OriginalVoice)),
        (VoiceSpec::Cloned, _) => return Err(TranscriptionError::NoImitatedVoices),
        (VoiceSpec::Command, Some(voice @ VoiceConfig::Command { .. }))
        | (VoiceSpec::Url, Some(voice @ VoiceConfig::Url { .. })) => voice.clone(),
        (voice @ (VoiceSpec::Command | VoiceSpec::Url), _) => {
            return Err(TranscriptionError::OtherVoice(voice.label()));
        }
    };
    Ok(configured.start()?)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::path::Path;

    use super::{MOST_TEXT, read_text};
    use crate::run::TranscriptionSite;

    #[test]
    fn text_of_the_configuration_above_its_size_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let site = TranscriptionSite {
            settings: crate::config::transcription::TranscriptionSettings::default(),
            site: folder.path().to_owned(),
            results: folder.path().join("results"),
            environment: |_| None,
            clock: crate::fixture::clock(),
        };
        let file = std::fs::File::create(folder.path().join("list.txt")).unwrap();
        let read = || read_text(&site, "transcription.sensitive.list", Path::new("list.txt"), MOST_TEXT);
        file.set_len(MOST_TEXT).unwrap();
        assert_eq!(read().unwrap().len() as u64, MOST_TEXT);
        file.set_len(MOST_TEXT + 1).unwrap();
        let error = read().unwrap_err().to_string();
        assert!(error.contains("more than 67108864 bytes"), "{error}");
    }
}
