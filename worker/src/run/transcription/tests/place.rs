//! A site in memory with recordings on disk, its own recognizer and two providers on loopback: all are real servers.
//!
//! The site's recognizer returns a word that depends on the length of a sound. All outgoing sounds are equally long, so
//! a provider returns the length of the loud part: each word of a transcript identifies its sound.

mod results;

use std::cell::RefCell;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::future::join_all;
use tokio_util::sync::CancellationToken;
use undertone_api::dataset::Visibility;
use undertone_api::id::DatasetId;
use undertone_api::job::transcription::{
    DummyOptions, OutputVoice, Party, Provider, ProviderProtocol, Report, SiteRecognizer, Spec, Vocabulary,
};
use undertone_api::job::{Measurement, Report as AnyReport, Spec as AnySpec};
use undertone_api::signed::{Manifest, ManifestParticipant};
use undertone_privacy::{Delta, Epsilon, Event};

use super::sound::{loud, samples};
use crate::clouds::{Cloud, Ear, Fault, KEY};
use crate::config::transcription::TranscriptionSettings;
use crate::dp::randomness::{Purpose, Randomness};
use crate::dp::release::Outgoing;
use crate::fixture::{self, ORGANIZATION, OURS, WORKER, local};
use crate::run::{Average, Exchange, Past, Run as _, RunError, Transcribing};
use crate::site::clearance::{Clearance, DepartureProof, PublicProof, ReleaseGrant};
use crate::site::clock;
use crate::site::folder::{Folder, write_durably};
use crate::speech::recordings::{Options, add};
use crate::speech::synthesize::synthesize_text;
use crate::speech::transcribe::outbound::{DeliveryResult, OutboundError, SealedSounds, deliver};
use crate::speech::transcribe::provider::line::ProviderLine;
use crate::speech::transcribe::wav;

/// The answers of the site's recognizer, by length: words of the vocabulary, a number, which is sensitive, and another
/// word.
const HEARD: [&str; 5] = ["medicine", "window", "twenty", "garden", "breathing"];

/// The moment of a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Death {
    /// The site has cleared the batch, and nothing is sealed.
    Cleared,
    /// The batch is paid, and nothing has left.
    Paid,
    /// Everything was answered, and the answers are not stored.
    Sent,
}

#[derive(Default)]
struct State {
    paid: u32,
    noted: Option<String>,
    report: Option<Report>,
    public: bool,
    charge_otherwise: bool,
    death: Option<Death>,
    /// The seed of all draws, if they have to be repeatable.
    seed: Option<u8>,
    /// An additional sensitive pattern.
    listed: Option<&'static str>,
    /// The number of checks for a stop before the answer is yes.
    looks: Option<u32>,
}

pub(super) struct Place {
    folder: tempfile::TempDir,
    runtime: tokio::runtime::Runtime,
    site: Cloud,
    providers: Vec<Cloud>,
    spec: Spec,
    /// A Python with PocketSphinx, if that is the site's recognizer and espeak-ng speaks.
    aligner: Option<PathBuf>,
    /// The speaking command, with `{reference}` among its arguments, in place of flite.
    cloner: Option<Vec<String>>,
    /// The content of `[transcription.speech]`, if dummies are recorded.
    recorded: Option<&'static str>,
    state: RefCell<State>,
}

/// Returns two providers, ε = 24 at one spoken word: a few dummies a word.
pub(super) fn spec() -> Spec {
    let provider = |name: &str, protocol| Provider { name: name.to_owned(), protocol, price: None };
    Spec {
        participant: Party {
            dataset: OURS,
            epsilon: Epsilon::new(24.0).unwrap(),
            delta: Delta::new(0.01).unwrap(),
            distance: NonZeroU32::new(6).unwrap(),
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

impl Place {
    /// Makes the job after `change`; returns `None` without flite.
    pub(super) fn new(change: impl FnOnce(&mut Spec)) -> Option<Self> {
        Self::saying(1, change)
    }

    /// Makes the same with every text repeated `times` times.
    pub(super) fn saying(times: usize, change: impl FnOnce(&mut Spec)) -> Option<Self> {
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
        let options = Options {
            input,
            output: folder.path().join("data"),
            name: "data".to_owned(),
            replace: false,
            created: String::new(),
        };
        add(&options).unwrap();
        std::fs::create_dir(folder.path().join("work")).unwrap();
        write_durably(&folder.path().join("site.key"), KEY.as_bytes()).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let first: Ear = Arc::new(|file| {
            let seconds = samples(file) as f64 / 16_000.0;
            vec![(HEARD[samples(file) / 256 % HEARD.len()].to_owned(), 0.25 * seconds, 0.75 * seconds)]
        });
        let cloud: Ear = Arc::new(|file| vec![(format!("w{}", loud(file)), 0.0, loud(file) as f64 / 16_000.0)]);
        let start = |ear: &Ear| runtime.block_on(Cloud::start(Arc::clone(ear))).unwrap();
        let (site, providers) = (start(&first), vec![start(&cloud), start(&cloud)]);
        let mut spec = spec();
        change(&mut spec);
        Some(Self {
            folder,
            runtime,
            site,
            providers,
            spec,
            aligner: None,
            cloner: None,
            recorded: None,
            state: RefCell::default(),
        })
    }

    /// Sets `PocketSphinx` at the site, and espeak-ng for the dummies.
    pub(super) fn hearing_with(self, aligner: PathBuf) -> Self {
        Self { aligner: Some(aligner), ..self }
    }

    /// Sets a program for the dummies: `sh` with this script, where `$0` is an empty folder and `$1` the reference.
    pub(super) fn cloning_with(self, script: &str) -> Self {
        std::fs::create_dir(self.cloner()).unwrap();
        let folder = self.cloner().display().to_string();
        let cloner = ["sh", "-c", script, folder.as_str(), "{reference}"].map(str::to_owned).to_vec();
        Self { cloner: Some(cloner), ..self }
    }

    /// Sets the content of `[transcription.speech]` in place of flite.
    pub(super) fn speaking(self, says: &'static str) -> Self {
        Self { recorded: Some(says), ..self }
    }

    /// Returns its transcription settings.
    pub(super) fn transcribing(&self) -> Transcribing {
        let manifest = fixture::manifest(AnySpec::Transcription(self.spec()), None);
        let life = Life { place: self, manifest, work: self.folder.path().join("work") };
        life.transcribing().unwrap()
    }

    /// Returns the folder of the site.
    pub(super) fn site(&self) -> Folder {
        Folder::new(self.folder.path())
    }

    /// Returns the folder of the program that clones.
    pub(super) fn cloner(&self) -> PathBuf {
        self.folder.path().join("cloner")
    }

    /// Returns the samples of a recording, as 16-bit numbers.
    pub(super) fn recorded(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.folder.path().join(format!("in/{name}.wav"))).unwrap().split_off(wav::HEADER)
    }

    /// Reads a file of the work folder.
    pub(super) fn kept(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.folder.path().join("work/transcription").join(name)).unwrap()
    }

    /// Returns whether voices lie in the work folder.
    pub(super) fn has_voices(&self) -> bool {
        self.folder.path().join("work/transcription/voices").exists()
    }

    /// Runs one process of the job.
    pub(super) fn live(&self) -> Result<(), RunError> {
        let any = AnySpec::Transcription(self.spec.clone());
        let visibility = if self.state.borrow().public { Visibility::Public } else { Visibility::Private };
        let mut charge = any.cost(&local(visibility).to_dataset(OURS, ORGANIZATION, WORKER));
        if let Some(charge) = charge.as_mut().filter(|_| self.state.borrow().charge_otherwise) {
            charge.event = Event::NonPrivate;
        }
        let manifest = fixture::manifest(any, charge);
        self.spec.run(&mut Life { place: self, manifest, work: self.folder.path().join("work") })
    }

    pub(super) fn spec(&self) -> Spec {
        self.spec.clone()
    }

    pub(super) fn die(&self, death: Death) {
        self.state.borrow_mut().death = Some(death);
    }

    pub(super) fn stop_after(&self, looks: u32) {
        self.state.borrow_mut().looks = Some(looks);
    }

    pub(super) fn publish(&self) {
        self.state.borrow_mut().public = true;
    }

    pub(super) fn charge_otherwise(&self) {
        self.state.borrow_mut().charge_otherwise = true;
    }

    /// Makes a provider reject the site's key.
    pub(super) fn refuse(&self, provider: usize) {
        self.providers[provider].order(std::iter::repeat_n(Fault::Status(401), 10_000));
    }

    /// Adds words that must not leave to the site's list.
    pub(super) fn list(&self, pattern: &'static str) {
        self.state.borrow_mut().listed = Some(pattern);
    }

    /// Draws everything with this seed.
    pub(super) fn draw_with(&self, seed: u8) {
        self.state.borrow_mut().seed = Some(seed);
    }

    /// Replaces the recordings by others of the same lengths: reversed, and quieter.
    pub(super) fn turn_recordings(&self) {
        for name in ["first", "second"] {
            let path = self.folder.path().join(format!("in/{name}.wav"));
            let sound = wav::read(&std::fs::read(&path).unwrap()).unwrap();
            let turned: Vec<f32> = sound.iter().rev().map(|sample| 0.3 * sample).collect();
            std::fs::write(&path, wav::write(&turned)).unwrap();
        }
        self.add_again();
    }

    /// Adds one more recording, under the same name of the dataset.
    pub(super) fn replace_recordings(&self) {
        std::fs::write(self.folder.path().join("in/third.wav"), wav::write(&vec![0.25; 16_000])).unwrap();
        self.add_again();
    }

    fn add_again(&self) {
        let input = self.folder.path().join("in");
        let output = self.folder.path().join("data");
        let options = Options { input, output, name: "data".to_owned(), replace: true, created: String::new() };
        add(&options).unwrap();
    }

    /// Renames a recording, as by a worker before the check of names.
    pub(super) fn rename_recording(&self, from: &str, to: &str) {
        let path = self.folder.path().join("data/meta.json");
        let text = std::fs::read_to_string(&path).unwrap();
        let name = |name: &str| format!("\"name\": \"{name}\"");
        assert!(text.contains(&name(from)), "there is such a recording");
        std::fs::write(&path, text.replace(&name(from), &name(to))).unwrap();
    }

    pub(super) fn lose_batch(&self) {
        std::fs::remove_dir_all(self.folder.path().join("work/transcription/out")).unwrap();
    }

    pub(super) fn paid(&self) -> u32 {
        self.state.borrow().paid
    }

    pub(super) fn report(&self) -> Option<Report> {
        self.state.borrow().report.clone()
    }
}

/// One process of the site's part.
struct Life<'a> {
    place: &'a Place,
    manifest: Manifest,
    work: PathBuf,
}

impl Life<'_> {
    fn dies(&self, death: Death) -> Result<(), RunError> {
        let due = self.place.state.borrow_mut().death.take_if(|due| *due == death).is_some();
        if due { Err(RunError::Stopped("crash".to_owned())) } else { Ok(()) }
    }
}

impl Exchange for Life<'_> {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn own(&self) -> &ManifestParticipant {
        &self.manifest.participants[1]
    }

    fn folder(&self) -> &Path {
        &self.work
    }

    fn dataset(&self, _id: DatasetId) -> Result<PathBuf, RunError> {
        Ok(self.place.folder.path().join("data"))
    }

    fn past(&self, _series: &str, _round: u32) -> Result<Past, RunError> {
        Ok(if self.place.state.borrow().noted.is_some() { Past::Stored } else { Past::Untouched })
    }

    fn clear(&mut self, series: &str, round: u32) -> Result<Clearance, RunError> {
        assert_eq!((series, round), ("histogram", 1));
        let (granted, public) = {
            let state = self.place.state.borrow();
            assert!(state.noted.is_none(), "what was paid is not made again");
            (self.own().charge.as_ref().map(|charge| charge.event.clone()), state.public)
        };
        self.dies(Death::Cleared)?;
        Ok(match granted.filter(|_| !public) {
            Some(event) => Clearance::Granted(ReleaseGrant::in_test(event)),
            None => Clearance::Public(PublicProof::in_test()),
        })
    }

    fn transcribing(&self) -> Result<Transcribing, RunError> {
        let provider = |name: &str, protocol: &str, cloud: &Cloud| {
            format!(
                "[[providers]]\nname = \"{name}\"\nprotocol = \"{protocol}\"\nurl = \"{}\"\nkey_variable = \"K\"\n\
                 requests_per_minute = 60000\nconcurrency = 1\nattempts = 1\n",
                cloud.url()
            )
        };
        let tools = match &self.place.aligner {
            Some(python) => format!(
                "[recognizer]\nkind = \"pocketsphinx\"\ncommand = \"{}\"\n[speech]\nkind = \"espeak\"\n",
                python.display()
            ),
            None => format!(
                "[recognizer]\nkind = \"server\"\nprotocol = \"open_ai\"\nurl = \"{}\"\nkey_file = \"site.key\"\n\
                 [speech]\n{}",
                self.place.site.url(),
                match (&self.place.cloner, self.place.recorded) {
                    (Some(command), _) => format!("kind = \"command\"\ncommand = {command:?}\n"),
                    (None, Some(recorded)) => recorded.to_owned(),
                    (None, None) => "kind = \"flite\"\n".to_owned(),
                }
            ),
        };
        let one = provider("one", "deepgram", &self.place.providers[0]);
        let two = provider("two", "openai", &self.place.providers[1]);
        let listed = self.place.state.borrow().listed;
        let listed = listed.map_or_else(String::new, |pattern| format!("[sensitive]\npatterns = [\"{pattern}\"]\n"));
        let text = format!("{tools}{listed}{one}{two}");
        let settings: TranscriptionSettings = toml::from_str(&text).unwrap();
        settings.check().unwrap();
        Ok(Transcribing {
            settings,
            site: self.place.folder.path().to_owned(),
            results: self.place.results(),
            environment: |_| Some(KEY.into()),
            clock: clock::system(),
        })
    }

    fn dispatch(
        &mut self,
        _series: &str,
        _round: u32,
        batch: &Arc<SealedSounds>,
        lines: &[ProviderLine],
    ) -> Result<Vec<Result<DeliveryResult, OutboundError>>, RunError> {
        {
            let mut state = self.place.state.borrow_mut();
            // The ledger pays for a batch once.
            state.paid = 1;
            let noted = state.noted.get_or_insert_with(|| batch.digest().to_owned());
            assert_eq!(noted, batch.digest(), "the same bits");
        }
        self.dies(Death::Paid)?;
        let stop = CancellationToken::new();
        let departure = DepartureProof::in_test(batch.digest());
        let parts = lines.iter().zip(0_u32..).map(|(line, provider)| deliver(batch, provider, line, &stop, &departure));
        let delivered = self.place.runtime.block_on(join_all(parts));
        self.dies(Death::Sent)?;
        Ok(delivered)
    }

    fn published(&self, _id: DatasetId) -> Result<PublicProof, RunError> {
        if self.place.state.borrow().public {
            Ok(PublicProof::in_test())
        } else {
            Err(RunError::Refused("it is not public".to_owned()))
        }
    }

    fn report(&mut self, report: AnyReport) -> Result<(), RunError> {
        let AnyReport::Transcription(report) = report else { panic!("it is of this kind") };
        self.place.state.borrow_mut().report = Some(report);
        Ok(())
    }

    fn chance(&mut self, purpose: Purpose) -> Randomness {
        let seed = self.place.state.borrow().seed;
        seed.map_or_else(|| Randomness::from_os(purpose), |seed| Randomness::in_test(purpose, seed))
    }

    fn stopped(&self) -> bool {
        let looks = &mut self.place.state.borrow_mut().looks;
        match looks {
            None => false,
            Some(0) => true,
            Some(left) => {
                *left -= 1;
                false
            }
        }
    }

    fn send(&mut self, _series: &str, _round: u32, _vector: Outgoing) -> Result<(), RunError> {
        unreachable!("no vector is sent")
    }

    fn resend(&mut self, _series: &str, _round: u32) -> Result<(), RunError> {
        unreachable!("no vector is sent")
    }

    fn average(&mut self, _series: &str, _round: u32) -> Result<Average, RunError> {
        unreachable!("nothing is averaged")
    }

    fn put(&mut self, _name: &str, _content: Vec<u8>) -> Result<(), RunError> {
        unreachable!("no file goes to the server")
    }

    fn get(&mut self, _name: &str) -> Result<Vec<u8>, RunError> {
        unreachable!("no file is fetched")
    }

    fn measure(&mut self, _measurement: Measurement) -> Result<(), RunError> {
        unreachable!("no figure goes to the server")
    }
}
