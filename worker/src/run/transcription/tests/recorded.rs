//! Dummies of recorded people. flite replaces the people here, and the recognizer's answers are given; all other parts
//! are those of a site.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use undertone_api::job::transcription::Spec;

use super::make_mechanism;
use super::transcription::{TestTranscription, spec};
use crate::run::RunError;
use crate::run::fake::CrashPoint;
use crate::run::transcription::coverage;
use crate::site::policy::TEMPLATE;
use crate::site::speech;
use crate::speech::progress::SilentProgress;
use crate::speech::recordings::{Options, Recording, add};
use crate::speech::synthesize::synthesize_text;
use crate::speech::transcribe::dummy::PhraseLength;
use crate::speech::transcribe::piece::{Recognition, TimedWord};
use crate::speech::transcribe::plan::{Plan, PlannedDummy};
use crate::speech::transcribe::recognize::pool::RecognizerPool;
use crate::speech::transcribe::recognize::{RecognizerError, SpeechRecognizer};
use crate::speech::transcribe::recorded::index::make;
use crate::speech::transcribe::recorded::journal::{PieceJournal, PieceReservation};
use crate::speech::transcribe::recorded::need::most;
use crate::speech::transcribe::recorded::offer::PieceOffer;
use crate::speech::transcribe::vocabulary::language::StemmingLanguage;
use crate::speech::transcribe::wav;

const ALONE: &str = "kind = \"recorded\"\n";
const FILLED: &str = "kind = \"recorded\"\nfill = { kind = \"flite\", voice = \"kal16\" }\n";
/// The vocabulary of the job, and another word.
const WORDS: [&str; 4] = ["medicine", "window", "breathing", "garden"];

/// Returns these words in turn, one for each sound.
struct WordRecognizer {
    name: String,
    words: &'static [&'static str],
    next: AtomicUsize,
}

#[async_trait]
impl SpeechRecognizer for WordRecognizer {
    fn name(&self) -> &str {
        &self.name
    }

    async fn transcribe(&self, audio: &[f32]) -> Result<Recognition, RecognizerError> {
        let text = self.words[self.next.fetch_add(1, Ordering::SeqCst) % self.words.len()].to_owned();
        let seconds = audio.len() as f64 / 16_000.0;
        let word = TimedWord { text, start: 0.25 * seconds, end: 0.75 * seconds, confidence: None };
        Ok(Recognition { words: vec![word] })
    }
}

/// Returns the number of pieces of each kind that a job sets aside.
fn pieces_needed() -> u32 {
    most(&make_mechanism(&spec()).unwrap(), 3)
}

/// Makes a site with recorded dummies, configured by `speech`, with at least `each` pieces of each of the words;
/// returns `None` without flite.
fn recorded_job(speech: &'static str, words: &'static [&'static str], each: u32) -> Option<TestTranscription> {
    let job = TestTranscription::new(|_| ())?.with_speech(speech);
    let site = job.site_folder();
    std::fs::write(site.policy(), TEMPLATE).unwrap();
    let phrases = ["a little rain fell on the field", "take the letter to the office", "they sang all night"];
    let sounds: Vec<Vec<f32>> = phrases.into_iter().map(synthesize_text).collect::<Option<_>>()?;
    let input = site.root().join("speech-in");
    std::fs::create_dir(&input).unwrap();
    for (number, phrase) in sounds.iter().cycle().take(words.len() * each as usize).enumerate() {
        // No two recordings are the same: each begins with more silence.
        let mut sound = vec![0.000_1; 8_000 + number];
        sound.extend(phrase);
        sound.resize(sound.len() + 12_000, 0.000_1);
        std::fs::write(input.join(format!("{number:04}.wav")), wav::write(&sound)).unwrap();
    }
    let output = speech::input_folder(&site);
    add(&Options { input, output, name: "recordings".to_owned(), replace: false, created: String::new() }).unwrap();
    index_speech(&job, words);
    Some(job)
}

/// Indexes the recordings with a recognizer that has the name of the site's own.
fn index_speech(job: &TestTranscription, words: &'static [&'static str]) {
    let site = job.site_folder();
    let settings = job.transcription_site().settings;
    let name = settings.recognizer.unwrap().start_pool(site.root(), "en").unwrap().name().to_owned();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let recognizer =
        RecognizerPool::new(runtime, Box::new(WordRecognizer { name, words, next: AtomicUsize::new(0) }), 1);
    let recordings = speech::open(&site, None).unwrap();
    make(&recordings, StemmingLanguage::new("en").unwrap(), &recognizer, &site.speech(), false, &SilentProgress)
        .unwrap();
}

fn reservations(job: &TestTranscription) -> Vec<PieceReservation> {
    PieceJournal::look(&job.site_folder().piece_journal()).unwrap()
}

/// Returns the stored assignment of pieces to the plan's dummies.
fn assignment(job: &TestTranscription) -> Vec<Option<u32>> {
    serde_json::from_slice(&job.read_work_file("recorded.json")).unwrap()
}

/// Needs flite; passes without.
#[test]
fn each_dummy_is_an_unused_piece_of_its_word() {
    let Some(job) = recorded_job(ALONE, &WORDS, pieces_needed()) else { return };
    job.crash_at(CrashPoint::Stored);
    assert!(matches!(job.run_process(), Err(RunError::Stopped(_))));
    let all = reservations(&job);
    let [reservation] = all.as_slice() else { panic!("{all:?}") };
    let mut counts: BTreeMap<Option<u32>, u32> = BTreeMap::new();
    reservation.offers.iter().for_each(|offer| *counts.entry(offer.word).or_default() += 1);
    // The highest number that any plan may need, independent of this plan.
    assert_eq!(counts, BTreeMap::from([None, Some(0), Some(1), Some(2)].map(|word| (word, pieces_needed()))));
    let plan: Plan = serde_json::from_slice(&job.read_work_file("plan.json")).unwrap();
    let dummies: Vec<PlannedDummy> = plan.dummies().collect();
    let places = assignment(&job);
    assert!(dummies.len() > 4 && dummies.len() == places.len());
    for (dummy, place) in dummies.iter().zip(&places) {
        assert_eq!(reservation.offers[place.unwrap() as usize].word, dummy.word, "dummy {}", dummy.number);
    }
    assert_eq!(places.iter().collect::<BTreeSet<_>>().len(), places.len(), "no piece is two dummies");
    job.run_process().unwrap();
    let outcome = job.outcome();
    assert_eq!(outcome.providers.iter().map(|one| one.dummies).sum::<u64>(), dummies.len() as u64);
    let sounds: u64 = outcome.providers.iter().map(|one| one.pieces + one.dummies).sum();
    let requests = job.provider_sounds().concat();
    assert_eq!((sounds, job.payments()), (requests.len() as u64, 1));
    assert!(requests.iter().all(|wav| wav.len() - 44 == 2 * 72_000), "all are equally long");
    assert_eq!(job.site_report()["tools"][1][1], "public recordings");
    assert_eq!(reservations(&job), all, "nothing more is set aside for it");
    assert!(job.work_files().is_empty());
}

/// Needs flite; passes without.
#[test]
fn dummies_made_after_a_crash_use_the_same_pieces() {
    let Some(job) = recorded_job(ALONE, &WORDS, pieces_needed()) else { return };
    job.crash_at(CrashPoint::Cleared);
    assert!(matches!(job.run_process(), Err(RunError::Stopped(_))));
    let before = (assignment(&job), job.read_work_file("manners.json"), reservations(&job));
    job.crash_at(CrashPoint::Stored);
    assert!(matches!(job.run_process(), Err(RunError::Stopped(_))));
    assert_eq!((assignment(&job), job.read_work_file("manners.json"), reservations(&job)), before);
    // Sealed sounds are sent unchanged, even without the recordings.
    std::fs::remove_dir_all(job.site_folder().speech()).unwrap();
    job.run_process().unwrap();
    assert_eq!(job.payments(), 1);
}

/// Needs flite; passes without.
#[test]
fn job_without_enough_pieces_is_refused_before_any_cost() {
    let Some(job) = recorded_job(ALONE, &WORDS, pieces_needed()) else { return };
    assert!(coverage(&job.spec(), &job.transcription_site()).unwrap().unwrap().short.is_empty());
    // All of it was set aside for another job.
    let recordings = speech::open(&job.site_folder(), None).unwrap();
    let length = PhraseLength { words: 1, content: 1 };
    let whole =
        |(recording, one): (u32, &Recording)| PieceOffer { recording, start: 0, end: one.samples, word: None, length };
    let another = PieceReservation {
        name: "another".to_owned(),
        recipients: Vec::new(),
        recordings: recordings.meta().recordings.iter().map(|one| one.digest.clone()).collect(),
        offers: (0..).zip(&recordings.meta().recordings).map(whole).collect(),
    };
    PieceJournal::open(&job.site_folder().piece_journal()).unwrap().set_aside(another).unwrap();
    let Err(RunError::Refused(problem)) = job.run_process() else { panic!("no piece remains") };
    let message = problem.with_causes();
    assert!(message.contains("4 of 4 kinds") && message.contains(&pieces_needed().to_string()), "{message}");
    assert!(WORDS.iter().all(|word| !message.contains(word)), "{message}");
    assert_eq!((job.payments(), job.recognizer_requests(), job.provider_sounds().concat().len()), (0, 0, 0));
    assert_eq!(reservations(&job).len(), 1, "nothing is set aside for a job that is refused");
    // The site's operator sees the words and their numbers of pieces.
    let coverage = coverage(&job.spec(), &job.transcription_site()).unwrap().unwrap();
    assert_eq!((coverage.needed, coverage.words, coverage.short.len()), (pieces_needed(), 4, 4));
    assert!(coverage.short.contains(&("medicine".to_owned(), 0)), "{coverage:?}");
}

/// Needs flite; passes without.
#[test]
fn engine_speaks_the_words_that_recordings_lack() {
    let Some(job) = recorded_job(FILLED, &["garden", "medicine"], pieces_needed()) else { return };
    job.crash_at(CrashPoint::Stored);
    assert!(matches!(job.run_process(), Err(RunError::Stopped(_))));
    let plan: Plan = serde_json::from_slice(&job.read_work_file("plan.json")).unwrap();
    let medicine = reservations(&job)[0].offers.iter().find_map(|offer| offer.word);
    for (dummy, place) in plan.dummies().zip(assignment(&job)) {
        assert_eq!(place.is_some(), dummy.word.is_none() || dummy.word == medicine, "{dummy:?}");
    }
    job.run_process().unwrap();
    let outcome = job.outcome();
    assert_eq!(outcome.providers.iter().map(|one| one.dummies).sum::<u64>(), plan.dummies().count() as u64);
}

/// Needs flite; passes without.
#[test]
fn recorded_dummy_longer_than_any_piece_does_not_leave() {
    let Some(job) = recorded_job(ALONE, &WORDS, pieces_needed()) else { return };
    job.crash_at(CrashPoint::Cleared);
    assert!(matches!(job.run_process(), Err(RunError::Stopped(_))));
    // The pieces imitate a cut by other limits. No recording is that long, so a piece that passes the check cannot be
    // read.
    let mut all = reservations(&job);
    for (samples, is_too_long) in [(72_001, true), (72_000, false)] {
        all[0].offers.iter_mut().for_each(|offer| offer.end = offer.start + samples);
        std::fs::write(job.site_folder().piece_journal(), serde_json::to_string(&all[0]).unwrap() + "\n").unwrap();
        let Err(RunError::Failed(problem)) = job.run_process() else { panic!("there are no such pieces") };
        assert_eq!(problem.to_string().contains("longer than any piece"), is_too_long, "{problem}");
    }
    assert_eq!(job.provider_sounds().concat().len(), 0);
}

/// Needs flite; passes without.
#[test]
fn recorded_speech_without_index_or_not_public_is_refused() {
    let Some(job) = recorded_job(ALONE, &WORDS, 1) else { return };
    std::fs::remove_file(job.site_folder().speech().join("index.json")).unwrap();
    assert!(
        matches!(job.run_process(), Err(RunError::Failed(problem)) if problem.to_string().contains("index-speech"))
    );
    index_speech(&job, &WORDS);
    // The same recording is in a dataset that is not public.
    let private = job.site_folder().datasets().join("ward");
    let input = job.site_folder().root().join("ward-in");
    std::fs::create_dir(&input).unwrap();
    std::fs::copy(job.site_folder().root().join("speech-in/0000.wav"), input.join("a.wav")).unwrap();
    add(&Options { input, output: private, name: "ward".to_owned(), replace: false, created: String::new() }).unwrap();
    assert!(matches!(job.run_process(), Err(RunError::Failed(problem)) if problem.to_string().contains("`ward`")));
    assert_eq!((job.payments(), job.recognizer_requests(), job.provider_sounds().concat().len()), (0, 0, 0));
    assert!(reservations(&job).is_empty());
}

#[test]
fn reserved_pieces_follow_from_the_spec_alone() {
    let count = |change: fn(&mut Spec)| {
        let mut spec = spec();
        change(&mut spec);
        most(&make_mechanism(&spec).unwrap(), 3)
    };
    assert_eq!(count(|_| ()), pieces_needed());
    assert!(count(|spec| spec.providers.truncate(1)) < pieces_needed());
    assert!(count(|spec| spec.participant.distance = std::num::NonZeroU32::new(12).unwrap()) > pieces_needed());
}
