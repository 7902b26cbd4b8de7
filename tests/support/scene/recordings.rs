//! A library that proposes, a clinic with a recording, and two cloud recognizers that record their requests.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::io::Write as _;
use std::num::NonZeroU32;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::clouds::{Ear, FakeCloud, KEY};
use crate::stage::{SiteDataset, TestConsortium, TestDatabase, TestResult};
use crate::{ear, workspace};
use undertone_api::budget::NewBudget;
use undertone_api::job::transcription::{
    CrowdedPieces, DummyOptions, OutputVoice, Party, Provider, ProviderProtocol, SiteRecognizer, Spec, Vocabulary,
};
use undertone_api::job::{NewJob, Spec as AnySpec};
use undertone_privacy::{Delta, Epsilon, PrivacyUnit};
use undertone_worker::speech::transcribe::speak::{SpeakError, SpeechEngine, SpeechSynthesizer as _};
use undertone_worker::speech::transcribe::wav;

/// The index of the clinic among the sites.
pub const CLINIC: usize = 1;
/// The clinic's dataset.
pub const DATASET: &str = "rounds";
/// The name of its only recording, which occurs nowhere else.
pub const RECORDING: &str = "ward-round-of-mrs-nobody";
/// The names of the clouds at the clinic.
pub const PROVIDERS: [&str; 2] = ["north", "south"];

/// The sentences of the recording. The second one must not leave.
const SAID: [&str; 5] = [
    "the fever is gone since this morning",
    "please call me again at seven four two nine",
    "there is music in the garden",
    "the water of the river is cold",
    "we will write a letter to the family",
];
const VOCABULARY: [&str; 3] = ["fever", "garden", "letter"];
/// The pause between sentences, samples.
const PAUSE: usize = 16_000;

/// The parts of a scenario.
pub struct RecordingScenario {
    /// Server and sites.
    pub stage: TestConsortium,
    /// The recognizers.
    pub clouds: FakeClouds,
    /// The recording's file.
    pub recording: PathBuf,
}

/// The recognizers.
pub struct FakeClouds {
    clouds: Vec<FakeCloud>,
    unpaid: Arc<AtomicUsize>,
}

impl FakeClouds {
    /// Returns the number of sounds that each received.
    pub fn counts(&self) -> Vec<usize> {
        self.clouds.iter().map(|cloud| cloud.received().len()).collect()
    }

    /// Returns the distinct sounds that each received.
    pub fn distinct(&self) -> Vec<BTreeSet<Vec<u8>>> {
        self.clouds.iter().map(|cloud| cloud.received().into_iter().map(|one| one.wav).collect()).collect()
    }

    /// Returns the number of sounds received while the site's ledger had no payment.
    pub fn unpaid(&self) -> usize {
        self.unpaid.load(Ordering::SeqCst)
    }
}

/// Starts server, workers and clouds; returns `None`, with a line on stderr, where PocketSphinx or flite are missing.
///
/// # Errors
/// Any step that does not work as documented.
pub async fn set() -> TestResult<Option<RecordingScenario>> {
    let Some(ear) = ear::pocketsphinx(2)? else {
        say_missing();
        return Ok(None);
    };
    set_with(ear).await
}

/// Starts the same with clouds that recognize with `ear`; the clinic's own recognizer is PocketSphinx.
///
/// # Errors
/// Any step that does not work as documented.
pub async fn set_with(ear: Ear) -> TestResult<Option<RecordingScenario>> {
    let Some(python) = env::var_os("UNDERTONE_ALIGNER").filter(|python| !python.is_empty()) else {
        say_missing();
        return Ok(None);
    };
    let Some(samples) = synthesize_recording()? else { return Ok(None) };
    let mut stage = TestConsortium::set(TestDatabase::Sqlite, &["Library", "Clinic"]).await?;
    let site = &mut stage.sites[CLINIC];
    let folder = site.folder().to_owned();

    let unpaid = Arc::new(AtomicUsize::new(0));
    let mut clouds = Vec::new();
    for _ in PROVIDERS {
        clouds.push(FakeCloud::start(watched(&ear, folder.clone(), &unpaid)).await?);
    }
    configure(&folder, &python.to_string_lossy(), &clouds)?;
    site.edit_policy("kinds = [\"dp_sgd\"]", "kinds = [\"transcription\"]")?;
    site.edit_policy("most_epsilon_per_job = 4.0", "most_epsilon_per_job = 26.0")?;
    let limit = "[budget.words]\nepsilon = 26.0\ndelta = 1e-2\n\n[budget.record]";
    site.edit_policy("[budget.record]", limit)?;

    let recordings = folder.join("recordings");
    fs::create_dir(&recordings)?;
    let recording = recordings.join(format!("{RECORDING}.wav"));
    fs::write(&recording, wav::write(&samples))?;
    fs::write(recordings.join(format!("{RECORDING}.txt")), SAID.join(" "))?;
    let input = recordings.to_string_lossy().into_owned();
    site.command(&["data", "add-recordings", "--input", &input, "--name", DATASET, "--visibility", "private"])?;
    site.holdings.push(SiteDataset::new(DATASET, "private", &[]));
    stage.open().await?;

    let budget =
        NewBudget { unit: PrivacyUnit::Words, epsilon: Epsilon::new(26.0)?, delta: Delta::new(1e-2)?, filter: None };
    stage.sites[CLINIC].client.set_budget(stage.dataset(DATASET).await?.id, &budget).await?;
    Ok(Some(RecordingScenario { stage, clouds: FakeClouds { clouds, unpaid }, recording }))
}

/// Says that the scenario is left out.
fn say_missing() {
    eprintln!("no PocketSphinx: set UNDERTONE_ALIGNER, or run `make test`");
}

/// Returns the job: ε = 19 for one spoken word, which needs few dummies, against each of the providers alone.
///
/// # Errors
/// Any step that does not work as documented.
pub async fn job(stage: &TestConsortium, providers: &[&str]) -> TestResult<NewJob> {
    let provider = |(place, name): (usize, &&str)| Provider {
        name: (*name).to_owned(),
        protocol: if place == 0 { ProviderProtocol::Deepgram } else { ProviderProtocol::Openai },
        price: None,
    };
    let spec = Spec {
        participant: Party {
            dataset: stage.dataset(DATASET).await?.id,
            epsilon: Epsilon::new(19.0)?,
            delta: Delta::new(1e-3)?,
            distance: NonZeroU32::MIN.saturating_add(9),
        },
        providers: providers.iter().enumerate().map(provider).collect(),
        colluding: NonZeroU32::MIN,
        language: "en".to_owned(),
        vocabulary: Vocabulary::Public { words: VOCABULARY.map(str::to_owned).to_vec() },
        dummies: DummyOptions::default(),
        voice: OutputVoice::default(),
        crowded: CrowdedPieces::Keep,
        recognizer: SiteRecognizer::Pocketsphinx,
    };
    Ok(NewJob { title: "What was said on the round".to_owned(), spec: AnySpec::Transcription(spec) })
}

/// Returns whether the site's own ledger has paid for anything, by its command line.
pub fn is_paid(site: &Path) -> bool {
    let read_ledger = || -> TestResult<bool> {
        let output = Command::new(workspace::program("undertone-worker")?)
            .arg("--site")
            .arg(site)
            .args(["ledger", "show"])
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        // Columns: dataset, unit, spent.
        let row = text.lines().find(|line| line.starts_with(DATASET));
        let spent = row.and_then(|row| row.split_whitespace().nth(2)).and_then(|spent| spent.parse::<f64>().ok());
        Ok(spent.is_some_and(|spent| spent > 0.0))
    };
    read_ledger().unwrap_or(false)
}

/// Passes every file below a folder to `look`.
///
/// # Errors
/// Any step that does not work as documented.
pub fn each_file(folder: &Path, look: &mut impl FnMut(&Path, &[u8])) -> TestResult<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            each_file(&path, look)?;
        } else if path.is_file() {
            look(&path, &fs::read(&path)?);
        }
    }
    Ok(())
}

/// Wraps an ear, and counts recognitions without a payment.
fn watched(ear: &Ear, site: PathBuf, unpaid: &Arc<AtomicUsize>) -> Ear {
    let (ear, unpaid) = (Arc::clone(ear), Arc::clone(unpaid));
    Arc::new(move |file: &[u8]| {
        if !is_paid(&site) {
            unpaid.fetch_add(1, Ordering::SeqCst);
        }
        ear(file)
    })
}

/// Synthesizes the sentences.
fn synthesize_recording() -> TestResult<Option<Vec<f32>>> {
    let engine = SpeechEngine::flite("slt", Duration::from_mins(1))?;
    let mut samples = vec![0.0; PAUSE];
    for sentence in SAID {
        match engine.speak(sentence, 150.0) {
            Err(SpeakError::Program { program, .. }) => {
                eprintln!("passed over: {program} is not installed");
                return Ok(None);
            }
            spoken => samples.extend(spoken?),
        }
        samples.resize(samples.len() + PAUSE, 0.0);
    }
    Ok(Some(samples))
}

/// Writes the configuration of the site's recognizer and the clouds, as an administrator would.
fn configure(site: &Path, python: &str, clouds: &[FakeCloud]) -> TestResult<()> {
    let mut key = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(site.join("cloud.key"))?;
    writeln!(key, "{KEY}")?;
    let mut text = format!(
        "\n[transcription.recognizer]\nkind = \"pocketsphinx\"\ncommand = \"{python}\"\n\n[transcription.speech]\nkind = \
         \"espeak\"\nvoice = \"en-us\"\n"
    );
    let provider = |((name, cloud), protocol): ((&&str, &FakeCloud), &str)| {
        format!(
            "\n[[transcription.providers]]\nname = \"{name}\"\nprotocol = \"{protocol}\"\nurl = \"{}\"\nkey_file = \
             \"cloud.key\"\nconcurrency = 1\nrequests_per_minute = 60000\nseconds = 300\n",
            cloud.url()
        )
    };
    text.extend(PROVIDERS.iter().zip(clouds).zip(["deepgram", "openai"]).map(provider));
    let path = site.join("config.toml");
    let mode = fs::metadata(&path)?.permissions().mode();
    fs::write(&path, fs::read_to_string(&path)? + &text)?;
    Ok(fs::set_permissions(&path, fs::Permissions::from_mode(mode))?)
}
