//! The third job of the demo: two recognizers transcribe recordings of North Clinic, in pieces and among dummies.
//!
//! Both recognizers are programs on this machine behind the protocol of a provider: one is PocketSphinx as its package
//! has it, the other one is adapted to public sentences of the same kind. The job needs PocketSphinx, espeak-ng and flite;
//! the demo continues without it where one is missing.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::num::NonZeroU32;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use undertone_api::id::JobId;
use undertone_api::job::transcription::{
    CrowdedPieces, DummyOptions, OutputVoice, Party, Provider, ProviderProtocol, SiteRecognizer, Spec as Transcription,
    Vocabulary,
};
use undertone_api::job::{NewJob, Spec};
use undertone_privacy::{Delta, Epsilon, UnitError};
use undertone_server_core::ctx::Ctx;
use undertone_server_core::service::{dataset, job};

use crate::consortium::DemoConsortium;
use crate::job::{approve, find};
use crate::process::WorkerProgram;
use crate::{DemoError, explain_refusal, follow};

/// The index of the party with the recordings.
pub(super) const PARTY: usize = 1;
/// The dataset of the recordings.
pub(super) const DATASET: &str = "north-rounds";
/// The lifetime limit of the account of words, which admits a second job of this size. Few dummies need a large ε.
pub(super) const LIMIT: (f64, f64) = (26.0, 1e-3);
/// ε and δ of the job.
const PROMISE: (f64, f64) = (9.0, 1e-4);
/// d: one spoken word.
const DISTANCE: NonZeroU32 = NonZeroU32::new(10).expect("10 is not 0");
/// The words by which pieces are counted.
const VOCABULARY: [&str; 2] = ["fever", "letter"];
/// The sentences of the recordings, one file each line.
const SAID: [[&str; 4]; 3] = [
    [
        "the fever is gone since this morning",
        "she slept well and had some breakfast",
        "we will write a letter to the family",
        "please open the window in the evening",
    ],
    [
        "his knee is still swollen after the fall",
        "there was no fever during the night",
        "the doctor looked at the leg again",
        "he walks to the garden every day",
    ],
    [
        "the new medicine works quite well",
        "she asked for another pillow",
        "her daughter comes on sunday",
        "a letter from the insurance is missing",
    ],
];
/// Public sentences, to which the better recognizer is adapted: talk of wards, from no recording of the demo.
const PUBLIC: [&str; 16] = [
    "the fever came back during the night",
    "the doctor will write a letter to the family",
    "she had breakfast in the morning and slept well again",
    "there is some pain in his knee after the fall",
    "please open the window and close the door",
    "we looked at the leg this evening",
    "the new medicine is in the drawer",
    "her daughter asked for the doctor on sunday",
    "he walks well and works in the garden every day",
    "the letter from the insurance is gone",
    "another pillow for the bed please",
    "the swollen leg is still quite warm",
    "no medicine is missing since this week",
    "she comes to the ward in the morning",
    "there was a new patient in the night",
    "we will have some tea with her family",
];
/// The names of the recognizers at the site: as in the package, and adapted.
const RECOGNIZERS: [&str; 2] = ["plain", "adapted"];
/// The program of a recognizer.
const SCRIPT: &str = include_str!("transcription/recognizer.py");
/// The time within which a recognizer must have loaded its model.
const LOADING: Duration = Duration::from_mins(1);

/// The recognizers of the job; they end with this value.
pub(super) struct LocalRecognizers {
    python: OsString,
    /// The name, the port and the process of each.
    running: Vec<(&'static str, u16, Child)>,
}

impl LocalRecognizers {
    /// Starts both recognizers; `None`, with a line on the terminal, if a program is missing.
    pub(super) async fn start() -> Result<Option<Self>, DemoError> {
        let python = std::env::var_os("UNDERTONE_ALIGNER").filter(|python| !python.is_empty());
        let Some(python) = python else {
            println!("no PocketSphinx (UNDERTONE_ALIGNER): the demo has no transcription job");
            return Ok(None);
        };
        for program in ["espeak-ng", "flite"] {
            if Command::new(program).arg("--version").stdin(Stdio::null()).output().await.is_err() {
                println!("{program} is not installed: the demo has no transcription job");
                return Ok(None);
            }
        }
        let mut running = Vec::new();
        for (name, sentences) in RECOGNIZERS.into_iter().zip([None, Some(PUBLIC)]) {
            let options = json!({ "sentences": sentences }).to_string();
            let mut command = Command::new(&python);
            command.args(["-I", "-c", SCRIPT, &options]).stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
            let failed = || DemoError::Job(format!("'s recognizer `{name}` does not start"));
            let mut child = command.spawn().map_err(|_| failed())?;
            let output = child.stdout.take().ok_or_else(failed)?;
            let mut line = String::new();
            let mut lines = BufReader::new(output);
            tokio::time::timeout(LOADING, lines.read_line(&mut line)).await.map_err(|_| failed())??;
            running.push((name, line.trim().parse().map_err(|_| failed())?, child));
        }
        Ok(Some(Self { python, running }))
    }

    /// Makes the recordings and the configuration of the site, before its worker starts.
    pub(super) async fn prepare(&self, program: &WorkerProgram, site: &Path) -> Result<(), DemoError> {
        let folder = site.join("rounds");
        std::fs::create_dir_all(&folder)?;
        for (number, sentences) in SAID.iter().enumerate() {
            // Full stops are pauses.
            let text = sentences.join(". ");
            let wav = folder.join(format!("round-{}.wav", number + 1));
            let mut command = Command::new("flite");
            command.args(["-voice", "slt", "-t", &text, "-o"]).arg(&wav).stdin(Stdio::null());
            if !command.output().await?.status.success() {
                return Err(DemoError::Job("'s recordings cannot be made: flite failed".to_owned()));
            }
            std::fs::write(wav.with_extension("txt"), sentences.join(" "))?;
        }
        let input = folder.display().to_string();
        let arguments = ["data", "add-recordings", "--input", &input, "--name", DATASET, "--visibility", "private"];
        program.run(site, &arguments.map(str::to_owned)).await?;
        let path = site.join("config.toml");
        Ok(std::fs::write(&path, std::fs::read_to_string(&path)? + &self.configuration())?)
    }

    /// Returns the site's settings of transcription.
    fn configuration(&self) -> String {
        let mut text = format!(
            "\n[transcription.recognizer]\nkind = \"pocketsphinx\"\ncommand = {}\n\n[transcription.speech]\nkind = \
             \"espeak\"\nvoice = \"en-us\"\n",
            json!(self.python.to_string_lossy())
        );
        for (name, port, _) in &self.running {
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "\n[[transcription.providers]]\nname = \"{name}\"\nprotocol = \"deepgram\"\nurl = \
                 \"http://127.0.0.1:{port}\"\nconcurrency = 1\nrequests_per_minute = 60000\n"
            );
        }
        text
    }
}

/// Proposes the job and approves it as the clinic's steward.
pub(super) async fn launch(ctx: &Ctx, consortium: &DemoConsortium) -> Result<JobId, DemoError> {
    let proposer = &consortium.people[0].actor;
    let datasets =
        dataset::list(ctx, proposer, consortium.id).await.map_err(explain_refusal("listing the datasets"))?;
    let out_of_range = |error: UnitError| DemoError::Job(format!("'s parameters are wrong: {error}"));
    let provider = |name: &str| Provider { name: name.to_owned(), protocol: ProviderProtocol::Deepgram, price: None };
    let spec = Transcription {
        participant: Party {
            dataset: find(&datasets, DATASET)?,
            epsilon: Epsilon::new(PROMISE.0).map_err(out_of_range)?,
            delta: Delta::new(PROMISE.1).map_err(out_of_range)?,
            distance: DISTANCE,
        },
        providers: RECOGNIZERS.map(provider).to_vec(),
        colluding: NonZeroU32::MIN,
        language: "en".to_owned(),
        vocabulary: Vocabulary::Public { words: VOCABULARY.map(str::to_owned).to_vec() },
        dummies: DummyOptions::default(),
        voice: OutputVoice::default(),
        crowded: CrowdedPieces::Keep,
        recognizer: SiteRecognizer::Site,
    };
    let new = NewJob { title: "What was said on the rounds".to_owned(), spec: Spec::Transcription(spec) };
    let proposed = job::propose(ctx, proposer, consortium.id, new)
        .await
        .map_err(explain_refusal("proposing the transcription"))?;
    approve(ctx, consortium, &proposed).await?;
    Ok(proposed.summary.id)
}

/// Waits for the end of the job and prints where its results lie.
pub(super) async fn follow(ctx: &Ctx, consortium: &DemoConsortium, id: JobId, began: Instant) -> Result<(), DemoError> {
    follow::wait_for_end(ctx, consortium, id, "transcription").await?;
    println!(
        "[{:>4} s] the transcription is finished: {}/c/{}/jobs/{id}; at the clinic, what the recognizers received: \
         undertone-worker --site sites/north received {id}",
        began.elapsed().as_secs(),
        ctx.addresses.http,
        consortium.id
    );
    Ok(())
}
