//! Private transcription, end to end: a clinic's recording goes through server, worker and recognizers on loopback,
//! which record every request. Needs PocketSphinx (`UNDERTONE_ALIGNER`), espeak-ng and flite; passes without them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use support::clouds::Ear;
use support::stage::{TestConsortium, TestResult};
use undertone_api::budget::EntryKind;
use undertone_api::job::transcription::{OutputVoice, Report, Vocabulary, WordWeight};
use undertone_api::job::{Job, JobState, Report as AnyReport, Spec as AnySpec};
use undertone_privacy::Epsilon;
use undertone_worker::site::folder::Folder;
use undertone_worker::speech::audio;
use undertone_worker::speech::transcribe::piece::{Piece, Recognition};
use undertone_worker::speech::transcribe::plan::{BatchItem, Plan};
use undertone_worker::speech::transcribe::speak::likeness::SAMPLES;
use undertone_worker::speech::transcribe::voice::VoiceConfig;
use undertone_worker::speech::transcribe::wav;

use support::scene::recordings::{self as scene, CLINIC, FakeClouds, PROVIDERS, RECORDING, RecordingScenario};

const JOB: Duration = Duration::from_mins(20);
/// The cosine of two sounds above which they count as the same: the noise added to a sound hardly changes it.
const ALIKE: f64 = 0.6;
/// The McAdams coefficient of the job.
const ALPHA: f64 = 0.8;

#[tokio::test(flavor = "multi_thread")]
async fn clouds_receive_only_the_paid_plan_despite_worker_crashes() -> TestResult<()> {
    let Some(RecordingScenario { mut stage, clouds, recording }) = scene::set().await? else { return Ok(()) };
    let mut job = scene::job(&stage, &PROVIDERS).await?;
    let AnySpec::Transcription(spec) = &mut job.spec else { return Err("a job of another kind".into()) };
    // The default voice draws a new one for each piece, so nobody could tell which piece a sound is.
    spec.voice = OutputVoice::Mcadams { alpha: ALPHA, speakers_identifiable: true };
    let dataset = stage.dataset(scene::DATASET).await?.id;

    // The worker crashes when everything is made, and not paid.
    stage.sites[CLINIC].stop()?;
    stage.sites[CLINIC].edit_policy("voices_may_leave = false", "voices_may_leave = true")?;
    stage.sites[CLINIC].start(&[("UNDERTONE_FAULT", "before-commit")])?;
    let id = stage.sites[0].client.propose(stage.consortium, &job).await?.summary.id;
    stage.sites[CLINIC].client.approve(id, dataset).await?;
    stage.sites[CLINIC].wait_for_end(JOB)?;
    assert_eq!(clouds.counts(), [0, 0], "nothing is received before the ledger's receipt");
    assert_eq!(commits(&stage).await?, 0);
    assert!(!scene::is_paid(stage.sites[CLINIC].folder()), "nor has the site paid");
    let work = Folder::new(stage.sites[CLINIC].folder()).work(id, dataset).join("transcription");
    let plan = fs::read(work.join("plan.json"))?;

    // The worker crashes again while some sounds are being sent.
    stage.sites[CLINIC].start(&[("UNDERTONE_FAULT", "before-send:4")])?;
    stage.sites[CLINIC].wait_for_end(JOB)?;
    assert!(scene::is_paid(stage.sites[CLINIC].folder()));
    assert!((1..4).contains(&clouds.counts().iter().sum::<usize>()), "{:?}", clouds.counts());
    assert_eq!(commits(&stage).await?, 1, "the server knew the receipt before the first sound");
    assert_eq!(fs::read(work.join("plan.json"))?, plan, "a plan is drawn once");
    let job_files = JobFiles::read(&work)?;

    stage.sites[CLINIC].start(&[])?;
    let finished_job = stage.finish(id, JOB).await?;
    assert_eq!(clouds.unpaid(), 0, "no sound was received that the site had not paid for");
    assert_eq!(commits(&stage).await?, 1, "two deaths cost no second charge");
    stage.sites[CLINIC].command(&["ledger", "verify"])?;
    assert!(!work.exists(), "what the plan was is gone with the job");

    the_counts_are_the_plans(&job_files, &clouds, &stage, &finished_job)?;
    what_stays_was_never_received(&job_files, &clouds, &recording)?;
    the_server_knows_the_plan_and_no_more(&stage, &finished_job)
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_recognizer_receives_nothing_and_costs_nothing() -> TestResult<()> {
    let Some(RecordingScenario { stage, clouds, .. }) = scene::set().await? else { return Ok(()) };
    let job = scene::job(&stage, &[PROVIDERS[0], "stranger"]).await?;
    let id = stage.sites[0].client.propose(stage.consortium, &job).await?.summary.id;
    stage.sites[CLINIC].client.approve(id, stage.dataset(scene::DATASET).await?.id).await?;
    let over =
        stage.wait_until(id, JOB, |job| matches!(job.summary.state, JobState::Refused | JobState::Failed)).await?;
    assert!(over.reason.unwrap_or_default().contains("stranger"), "the reason names what to change");
    assert_eq!(clouds.counts(), [0, 0]);
    assert_eq!(commits(&stage).await?, 0);
    assert!(!scene::is_paid(stage.sites[CLINIC].folder()));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn chosen_words_are_candidates_and_paid_with_the_counts() -> TestResult<()> {
    // The providers' words do not matter here.
    let ear: Ear = Arc::new(|_| vec![("heard".to_owned(), 0.1, 0.4)]);
    let Some(RecordingScenario { stage, clouds, .. }) = scene::set_with(ear).await? else { return Ok(()) };
    let mut job = scene::job(&stage, &PROVIDERS).await?;
    let AnySpec::Transcription(spec) = &mut job.spec else { return Err("a job of another kind".into()) };
    let candidates = ["fever", "garden", "letter", "harbour", "lantern"];
    let choice = Epsilon::new(5.0)?;
    spec.participant.epsilon = Epsilon::new(24.0)?;
    spec.vocabulary = Vocabulary::Selected {
        choose: 1,
        epsilon: choice,
        weight: WordWeight::Frequency,
        candidates: candidates.map(str::to_owned).to_vec(),
        words: Vec::new(),
    };
    let dataset = stage.dataset(scene::DATASET).await?.id;
    let id = stage.sites[0].client.propose(stage.consortium, &job).await?.summary.id;
    stage.sites[CLINIC].client.approve(id, dataset).await?;
    let finished_job = stage.finish(id, JOB).await?;
    assert_eq!(clouds.unpaid(), 0, "the words leave with the sounds, after the payment");
    let entries = stage.operator.ledger(dataset).await?.items;
    let committed: Vec<_> = entries.into_iter().filter(|entry| entry.kind == EntryKind::Commit).collect();
    let AnySpec::Transcription(spec) = &finished_job.spec else { return Err("a job of another kind".into()) };
    assert_eq!(committed.len(), 1, "the choice and the counts are one charge");
    assert_eq!(spec.vocabulary.selection_epsilon(), Some(choice));
    stage.sites[CLINIC].command(&["ledger", "verify"])?;

    let results = Folder::new(stage.sites[CLINIC].folder()).transcripts(id);
    let histogram = fs::read_to_string(results.join("histogram.tsv"))?;
    let chosen: BTreeSet<&str> = histogram.lines().skip(1).filter_map(|line| line.split('\t').next()).collect();
    assert!(chosen.len() == 1 && chosen.iter().all(|word| candidates.contains(word)), "{chosen:?}");
    let report: serde_json::Value = serde_json::from_slice(&fs::read(results.join("report.json"))?)?;
    for (provider, received) in report["outcome"]["providers"].as_array().into_iter().flatten().zip(clouds.distinct()) {
        let planned = provider["pieces"].as_u64().zip(provider["dummies"].as_u64());
        assert_eq!(planned.map(|(pieces, dummies)| pieces + dummies), Some(received.len() as u64));
    }
    the_server_knows_the_plan_and_no_more(&stage, &finished_job)?;
    let received = stage.sites[CLINIC].command(&["received", &id.to_string()])?;
    assert!(received.contains("COUNTED") && received.contains("true piece"), "{received}");
    Ok(())
}

/// The site's files of a job, read while it ran.
struct JobFiles {
    plan: Plan,
    pieces: Vec<Piece>,
    /// The site's own recognition of the recording.
    heard: Recognition,
}

impl JobFiles {
    fn read(work: &Path) -> TestResult<Self> {
        let first: serde_json::Value = serde_json::from_slice(&fs::read(work.join("heard-0.json"))?)?;
        let recognitions: Vec<(Piece, Recognition)> = serde_json::from_value(first["pieces"].clone())?;
        Ok(Self {
            plan: serde_json::from_slice(&fs::read(work.join("plan.json"))?)?,
            heard: Recognition {
                words: recognitions.iter().flat_map(|(_, recognition)| recognition.words.iter().cloned()).collect(),
            },
            pieces: recognitions.into_iter().map(|(piece, _)| piece).collect(),
        })
    }

    /// Returns the pieces that are sent to a provider.
    fn pieces_for(&self, provider: u32) -> impl Iterator<Item = u32> + '_ {
        let piece = |item: &BatchItem| if let BatchItem::Piece(number) = item { Some(*number) } else { None };
        self.plan.batch(provider).iter().filter_map(piece)
    }
}

async fn commits(stage: &TestConsortium) -> TestResult<usize> {
    let entries = stage.operator.ledger(stage.dataset(scene::DATASET).await?.id).await?.items;
    Ok(entries.iter().filter(|entry| entry.kind == EntryKind::Commit).count())
}

fn the_counts_are_the_plans(
    job_files: &JobFiles,
    clouds: &FakeClouds,
    stage: &TestConsortium,
    job: &Job,
) -> TestResult<()> {
    let results = Folder::new(stage.sites[CLINIC].folder()).transcripts(job.summary.id);
    let report: serde_json::Value = serde_json::from_slice(&fs::read(results.join("report.json"))?)?;
    for (provider, received) in (0..).zip(clouds.distinct()) {
        let planned = job_files.plan.batch(provider).len();
        assert_eq!(received.len(), planned, "each sound in one form, however often it was sent");
        let dummies = job_files.plan.dummies().filter(|dummy| dummy.provider == provider).count();
        let provider_report = &report["outcome"]["providers"][provider as usize];
        assert_eq!(
            (&provider_report["pieces"], &provider_report["dummies"]),
            (&(planned - dummies).into(), &dummies.into())
        );
        assert!(dummies > 0, "several are to be expected of each word");
    }
    let transcript = fs::read_to_string(results.join(format!("recordings/{RECORDING}.txt")))?;
    assert!(
        transcript.contains('['),
        "what stayed has the words of the site's own recognizer: {} bytes",
        transcript.len()
    );
    Ok(())
}

/// Returns whether one sound begins with the other.
fn alike(piece: &[f32], file: &[f32]) -> bool {
    let product = |one: &[f32], other: &[f32]| {
        one.iter().zip(other).map(|(one, other)| f64::from(*one) * f64::from(*other)).sum::<f64>()
    };
    let file = &file[..piece.len().min(file.len())];
    product(piece, file) > ALIKE * (product(piece, piece) * product(file, file)).sqrt()
}

fn what_stays_was_never_received(job_files: &JobFiles, clouds: &FakeClouds, recording: &Path) -> TestResult<()> {
    let samples = audio::read(recording, audio::LONGEST)?.samples;
    let voice = VoiceConfig::Mcadams { alpha: ALPHA }.start()?;
    let sound = |piece: &Piece| &samples[piece.samples.start as usize..piece.samples.end as usize];
    let clouds = clouds.distinct();
    // Returns whether a piece was received in the common voice or, with `as_it_is`, unconverted. A sent piece has the
    // common voice, another loudness and added noise.
    let came = |piece: &Piece, received: &BTreeSet<Vec<u8>>, as_it_is: bool| -> TestResult<bool> {
        let sound = sound(piece);
        let converted = voice.convert(sound)?;
        for file in received {
            let file = wav::read(file)?;
            assert_eq!(file.len(), SAMPLES, "all sounds are equally long");
            if alike(&converted, &file) || (as_it_is && alike(sound, &file)) {
                return Ok(true);
            }
        }
        Ok(false)
    };
    let mut sent = BTreeSet::new();
    for (provider, received) in (0..).zip(&clouds) {
        for number in job_files.pieces_for(provider) {
            let piece = job_files.pieces.get(number as usize).ok_or("a piece of the plan")?;
            // This control makes the following checks meaningful.
            assert!(came(piece, received, false)?, "a piece that leaves is received by the provider of the plan");
            sent.insert(number);
        }
    }
    let stay: Vec<&Piece> = job_files.pieces.iter().filter(|piece| !sent.contains(&piece.id)).collect();
    for piece in &stay {
        for received in &clouds {
            assert!(!came(piece, received, true)?, "piece {} stays, and was received", piece.id);
        }
    }
    // Every recognizer hears the spoken phone number as digits, at least in part.
    let digits = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"];
    let numbers = job_files.heard.words.iter().filter(|word| digits.contains(&word.text.as_str()));
    let mut count = 0;
    for word in numbers {
        count += 1;
        assert!(stay.iter().any(|piece| piece.holds(word)), "a number leaves: {word:?}");
    }
    assert!(count > 0, "the recording has numbers in it");
    Ok(())
}

fn the_server_knows_the_plan_and_no_more(stage: &TestConsortium, job: &Job) -> TestResult<()> {
    let (Some(AnyReport::Transcription(report)), AnySpec::Transcription(spec)) = (&job.report, &job.spec) else {
        return Err("a finished job has its report".into());
    };
    assert_eq!(*report, Report::from_plan(spec)?, "nothing in it looked at the recording");
    let name = RECORDING.as_bytes();
    scene::each_file(&stage.server_folder(), &mut |path, content| {
        let has_name = content.windows(name.len()).any(|window| window == name);
        assert!(!has_name, "{} has the name of a recording", path.display());
    })
}
