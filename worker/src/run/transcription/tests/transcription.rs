//! A job of one site with recordings on disk, its own recognizer and two providers on loopback: all are real servers.
//!
//! The site's recognizer returns a word that depends on the length of a sound. All outgoing sounds are equally long, so
//! a provider returns the length of the loud part: each word of a transcript identifies its sound.

mod results;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;

use undertone_api::dataset::Visibility;
use undertone_api::job::transcription::{
    DummyOptions, HISTOGRAM, OutputVoice, Party, Provider, ProviderProtocol, Report, SiteRecognizer, Spec, Vocabulary,
};
use undertone_api::job::{Report as AnyReport, Spec as AnySpec};
use undertone_privacy::{Delta, Epsilon, Event};

use super::sound::{loud_samples, samples};
use crate::clouds::{CloudFault, Ear, FakeCloud, KEY};
use crate::config::transcription::TranscriptionSettings;
use crate::fixture::{self, ORGANIZATION, OURS, WORKER, local};
use crate::run::fake::{CrashPoint, FakeServer};
use crate::run::transcription::run;
use crate::run::{RoundKey, RunError, TranscriptionSite};
use crate::site::clock;
use crate::site::folder::{Folder, write_durably};
use crate::speech::recordings::{Options, add};
use crate::speech::synthesize::synthesize_text;
use crate::speech::transcribe::wav;

/// The answers of the site's recognizer, by length: words of the vocabulary, a number, which is sensitive, and another
/// word.
const FIRST_WORDS: [&str; 5] = ["medicine", "window", "twenty", "garden", "breathing"];
/// The place of the site's participant in the manifest.
const SITE: usize = 1;

/// A job of one site.
pub(super) struct TestTranscription {
    server: FakeServer,
    runtime: tokio::runtime::Runtime,
    recognizer: FakeCloud,
    providers: Vec<FakeCloud>,
    spec: Spec,
    /// A Python with PocketSphinx, if that is the site's recognizer and espeak-ng speaks.
    aligner: Option<PathBuf>,
    /// The speaking command, with `{reference}` among its arguments, in place of flite.
    cloner: Option<Vec<String>>,
    /// The content of `[transcription.speech]`, if dummies are recorded.
    speech: Option<&'static str>,
    /// An additional sensitive pattern.
    sensitive_pattern: RefCell<Option<&'static str>>,
    has_other_charge: Cell<bool>,
}

/// Returns two providers, ε = 24 at one spoken word: a few dummies a word.
pub(crate) fn spec() -> Spec {
    let provider = |name: &str, protocol| Provider { name: name.to_owned(), protocol, price: None };
    Spec {
        participant: Party {
            dataset: OURS,
            epsilon: Epsilon::new(40.0).unwrap(),
            delta: Delta::new(0.01).unwrap(),
            distance: NonZeroU32::new(10).unwrap(),
        },
        providers: vec![provider("one", ProviderProtocol::Deepgram), provider("two", ProviderProtocol::Openai)],
        colluding: NonZeroU32::MIN,
        language: "en".to_owned(),
        vocabulary: Vocabulary::Public { words: ["medicine", "window", "breathing"].map(str::to_owned).to_vec() },
        dummies: DummyOptions::default(),
        voice: OutputVoice::default(),
        crowded: undertone_api::job::transcription::CrowdedPieces::Keep,
        recognizer: SiteRecognizer::Site,
    }
}

impl TestTranscription {
    /// Makes the job after `change`; returns `None` without flite.
    pub(super) fn new(change: impl FnOnce(&mut Spec)) -> Option<Self> {
        Self::with_repeats(1, change)
    }

    /// Makes the same with every text repeated `times` times.
    pub(super) fn with_repeats(times: usize, change: impl FnOnce(&mut Spec)) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let input = folder.path().join("in");
        std::fs::create_dir(&input).unwrap();
        for (name, texts) in [
            ("first", &["go forward ten meters", "the patient will visit the ward", "turn left", "open the door"][..]),
            ("second", &["what a day it was", "nobody came back from the mountains", "so it goes"][..]),
        ] {
            let mut sound = vec![0.000_1; 8_000];
            for text in std::iter::repeat_n(texts, times).flatten() {
                sound.extend(synthesize_text(text)?);
                sound.extend(vec![0.000_1; 16_000]);
            }
            std::fs::write(input.join(format!("{name}.wav")), wav::write(&sound)).unwrap();
        }
        std::fs::write(input.join("second.txt"), "so it goes").unwrap();
        let output = folder.path().join("data");
        let options =
            Options { input, output: output.clone(), name: "data".to_owned(), replace: false, created: String::new() };
        add(&options).unwrap();
        write_durably(&folder.path().join("site.key"), KEY.as_bytes()).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let first: Ear = Arc::new(|file| {
            let seconds = samples(file) as f64 / 16_000.0;
            let word = FIRST_WORDS[samples(file) / 256 % FIRST_WORDS.len()];
            vec![(word.to_owned(), 0.25 * seconds, 0.75 * seconds)]
        });
        let cloud: Ear = Arc::new(|file| {
            let samples = loud_samples(file);
            vec![(format!("w{samples}"), 0.0, samples as f64 / 16_000.0)]
        });
        let start = |ear: &Ear| runtime.block_on(FakeCloud::start(Arc::clone(ear))).unwrap();
        let recognizer = start(&first);
        let providers = vec![start(&cloud), start(&cloud)];
        let mut spec = spec();
        change(&mut spec);
        Some(Self {
            server: FakeServer::new(folder, HashMap::from([(OURS, output)])),
            runtime,
            recognizer,
            providers,
            spec,
            aligner: None,
            cloner: None,
            speech: None,
            sensitive_pattern: RefCell::default(),
            has_other_charge: Cell::default(),
        })
    }

    /// Sets `PocketSphinx` at the site, and espeak-ng for the dummies.
    pub(super) fn with_aligner(self, aligner: PathBuf) -> Self {
        Self { aligner: Some(aligner), ..self }
    }

    /// Sets a program for the dummies: `sh` with this script, where `$0` is an empty folder and `$1` the reference.
    pub(super) fn with_cloner(self, script: &str) -> Self {
        std::fs::create_dir(self.cloner_folder()).unwrap();
        let folder = self.cloner_folder().display().to_string();
        let cloner = ["sh", "-c", script, folder.as_str(), "{reference}"].map(str::to_owned).to_vec();
        Self { cloner: Some(cloner), ..self }
    }

    /// Sets the content of `[transcription.speech]` in place of flite.
    pub(super) fn with_speech(self, speech: &'static str) -> Self {
        Self { speech: Some(speech), ..self }
    }

    /// Returns its transcription settings.
    pub(super) fn transcription_site(&self) -> TranscriptionSite {
        let settings: TranscriptionSettings = toml::from_str(&self.settings()).unwrap();
        settings.check().unwrap();
        TranscriptionSite {
            settings,
            site: self.server.folder().to_owned(),
            results: self.results_folder(),
            environment: |_| Some(KEY.into()),
            clock: clock::system(),
        }
    }

    /// Returns the site's configuration of transcription.
    fn settings(&self) -> String {
        let provider = |name: &str, protocol: &str, cloud: &FakeCloud| {
            format!(
                "[[providers]]\nname = \"{name}\"\nprotocol = \"{protocol}\"\nurl = \"{}\"\nkey_variable = \"K\"\n\
                 requests_per_minute = 60000\nconcurrency = 1\nattempts = 1\n",
                cloud.url()
            )
        };
        let tools = match &self.aligner {
            Some(python) => format!(
                "[recognizer]\nkind = \"pocketsphinx\"\ncommand = \"{}\"\n[speech]\nkind = \"espeak\"\n",
                python.display()
            ),
            None => format!(
                "[recognizer]\nkind = \"server\"\nprotocol = \"open_ai\"\nurl = \"{}\"\nkey_file = \"site.key\"\n\
                 [speech]\n{}",
                self.recognizer.url(),
                match (&self.cloner, self.speech) {
                    (Some(command), _) => format!("kind = \"command\"\ncommand = {command:?}\n"),
                    (None, Some(speech)) => speech.to_owned(),
                    (None, None) => "kind = \"flite\"\nvoice = \"kal16\"\n".to_owned(),
                }
            ),
        };
        let pattern = *self.sensitive_pattern.borrow();
        let sensitive =
            pattern.map_or_else(String::new, |pattern| format!("[sensitive]\npatterns = [\"{pattern}\"]\n"));
        let one = provider("one", "deepgram", &self.providers[0]);
        let two = provider("two", "openai", &self.providers[1]);
        format!("{tools}{sensitive}{one}{two}")
    }

    /// Returns the folder of the site.
    pub(super) fn site_folder(&self) -> Folder {
        Folder::new(self.server.folder())
    }

    /// Returns the folder of the program that clones.
    pub(super) fn cloner_folder(&self) -> PathBuf {
        self.server.folder().join("cloner")
    }

    /// Returns the samples of a recording, as 16-bit numbers.
    pub(super) fn recording_samples(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.server.folder().join(format!("in/{name}.wav"))).unwrap().split_off(wav::HEADER)
    }

    /// Reads a file of the work folder.
    pub(super) fn read_work_file(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.work_folder().join(name)).unwrap()
    }

    /// Returns whether voices lie in the work folder.
    pub(super) fn has_voices(&self) -> bool {
        self.work_folder().join("voices").exists()
    }

    fn work_folder(&self) -> PathBuf {
        self.server.work_folder(SITE).join("transcription")
    }

    /// Runs one process of the job.
    pub(super) fn run_process(&self) -> Result<(), RunError> {
        let any = AnySpec::Transcription(self.spec.clone());
        let is_public = self.server.state().public.contains(&OURS);
        let visibility = if is_public { Visibility::Public } else { Visibility::Private };
        let mut charge = any.cost(&local(visibility).to_dataset(OURS, ORGANIZATION, WORKER));
        if let Some(charge) = charge.as_mut().filter(|_| self.has_other_charge.get()) {
            charge.event = Event::NonPrivate;
        }
        let exchange = self.server.start(SITE, fixture::manifest(any, charge));
        let runtime = self.runtime.handle().clone();
        run(&self.spec, &mut exchange.with_outbound(self.transcription_site(), runtime))
    }

    pub(super) fn spec(&self) -> Spec {
        self.spec.clone()
    }

    pub(super) fn crash_at(&self, point: CrashPoint) {
        self.server.state().site(SITE).crash(point, RoundKey::new(HISTOGRAM, 1));
    }

    pub(super) fn stop_after(&self, checks: u32) {
        self.server.state().site(SITE).stop_after = Some(checks);
    }

    pub(super) fn publish(&self) {
        self.server.state().public.insert(OURS);
    }

    /// Makes the manifest charge another release than the job's.
    pub(super) fn set_other_charge(&self) {
        self.has_other_charge.set(true);
    }

    /// Makes a provider reject the site's key.
    pub(super) fn reject_key(&self, provider: usize) {
        self.providers[provider].order(std::iter::repeat_n(CloudFault::Status(401), 10_000));
    }

    /// Adds words that must not leave to the site's list.
    pub(super) fn add_sensitive_pattern(&self, pattern: &'static str) {
        *self.sensitive_pattern.borrow_mut() = Some(pattern);
    }

    /// Draws everything with this seed.
    pub(super) fn set_seed(&self, seed: u8) {
        self.server.state().site(SITE).seed = Some(seed);
    }

    /// Replaces the recordings by others of the same lengths: reversed, and quieter.
    pub(super) fn reverse_recordings(&self) {
        for name in ["first", "second"] {
            let path = self.server.folder().join(format!("in/{name}.wav"));
            let sound = wav::read(&std::fs::read(&path).unwrap()).unwrap();
            let reversed: Vec<f32> = sound.iter().rev().map(|sample| 0.3 * sample).collect();
            std::fs::write(&path, wav::write(&reversed)).unwrap();
        }
        self.add_recordings_again();
    }

    /// Adds one more recording, under the same name of the dataset.
    pub(super) fn replace_recordings(&self) {
        std::fs::write(self.server.folder().join("in/third.wav"), wav::write(&vec![0.25; 16_000])).unwrap();
        self.add_recordings_again();
    }

    fn add_recordings_again(&self) {
        let input = self.server.folder().join("in");
        let output = self.server.folder().join("data");
        let options = Options { input, output, name: "data".to_owned(), replace: true, created: String::new() };
        add(&options).unwrap();
    }

    /// Renames a recording, as by a worker before the check of names.
    pub(super) fn rename_recording(&self, from: &str, to: &str) {
        let path = self.server.folder().join("data/meta.json");
        let text = std::fs::read_to_string(&path).unwrap();
        let name = |name: &str| format!("\"name\": \"{name}\"");
        assert!(text.contains(&name(from)), "there is such a recording");
        std::fs::write(&path, text.replace(&name(from), &name(to))).unwrap();
    }

    pub(super) fn lose_batch(&self) {
        std::fs::remove_dir_all(self.work_folder().join("out")).unwrap();
    }

    pub(super) fn payments(&self) -> u32 {
        self.server.state().site(SITE).payments
    }

    pub(super) fn report(&self) -> Option<Report> {
        match self.server.state().report.clone()? {
            AnyReport::Transcription(report) => Some(report),
            _ => panic!("it is of another kind"),
        }
    }
}
