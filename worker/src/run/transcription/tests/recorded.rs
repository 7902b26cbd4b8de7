//! Dummies of recorded people. flite replaces the people here, and the recognizer's answers are given; all other parts
//! are those of a site.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use undertone_api::job::transcription::Spec;

use super::mechanism;
use super::place::{Death, Place, spec};
use crate::run::RunError;
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
const FILLED: &str = "kind = \"recorded\"\nfill = { kind = \"flite\" }\n";
/// The vocabulary of the job, and another word.
const WORDS: [&str; 4] = ["medicine", "window", "breathing", "garden"];

/// Returns these words in turn, one for each sound.
struct InTurn {
    name: String,
    words: &'static [&'static str],
    next: AtomicUsize,
}

#[async_trait]
impl SpeechRecognizer for InTurn {
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
fn needed() -> u32 {
    most(&mechanism(&spec()).unwrap(), 3)
}

/// Makes a site with recorded dummies, configured by `says`, with at least `each` pieces of each of the words; returns
/// `None` without flite.
fn recorded(says: &'static str, words: &'static [&'static str], each: u32) -> Option<Place> {
    let place = Place::new(|_| ())?.speaking(says);
    let site = place.site();
    std::fs::write(site.policy(), TEMPLATE).unwrap();
    let phrases = ["a little rain fell on the field", "take the letter to the office", "they sang all night"];
    let said: Vec<Vec<f32>> = phrases.into_iter().map(synthesize_text).collect::<Option<_>>()?;
    let input = site.root().join("speech-in");
    std::fs::create_dir(&input).unwrap();
    for (number, phrase) in said.iter().cycle().take(words.len() * each as usize).enumerate() {
        // No two recordings are the same: each begins with more silence.
        let mut sound = vec![0.000_1; 8_000 + number];
        sound.extend(phrase);
        sound.resize(sound.len() + 12_000, 0.000_1);
        std::fs::write(input.join(format!("{number:04}.wav")), wav::write(&sound)).unwrap();
    }
    let (output, name) = (speech::input_folder(&site), "recordings".to_owned());
    add(&Options { input, output, name, replace: false, created: String::new() }).unwrap();
    index(&place, words);
    Some(place)
}

/// Indexes the recordings with a recognizer that has the name of the site's own.
fn index(place: &Place, words: &'static [&'static str]) {
    let (site, settings) = (place.site(), place.transcribing().settings);
    let name = settings.recognizer.unwrap().start_pool(site.root(), "en").unwrap().name().to_owned();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let ears = RecognizerPool::new(runtime, Box::new(InTurn { name, words, next: AtomicUsize::new(0) }), 1);
    let recordings = speech::open(&site, None).unwrap();
    make(&recordings, StemmingLanguage::new("en").unwrap(), &ears, &site.speech(), false, &SilentProgress).unwrap();
}

fn aside(place: &Place) -> Vec<PieceReservation> {
    PieceJournal::look(&place.site().piece_journal()).unwrap()
}

/// Returns the stored assignment of pieces to the plan's dummies.
fn chosen(place: &Place) -> Vec<Option<u32>> {
    serde_json::from_slice(&place.kept("recorded.json")).unwrap()
}

/// Needs flite; passes without.
#[test]
fn each_dummy_is_a_piece_of_its_word_that_nobody_hears_again() {
    let Some(place) = recorded(ALONE, &WORDS, needed()) else { return };
    place.die(Death::Paid);
    assert!(matches!(place.live(), Err(RunError::Stopped(_))));
    let all = aside(&place);
    let [of] = all.as_slice() else { panic!("{all:?}") };
    let mut counts: BTreeMap<Option<u32>, u32> = BTreeMap::new();
    of.offers.iter().for_each(|offer| *counts.entry(offer.word).or_default() += 1);
    // The highest number that any plan may need, independent of this plan.
    assert_eq!(counts, BTreeMap::from([None, Some(0), Some(1), Some(2)].map(|word| (word, needed()))));
    let plan: Plan = serde_json::from_slice(&place.kept("plan.json")).unwrap();
    let (dummies, chosen): (Vec<PlannedDummy>, Vec<Option<u32>>) = (plan.dummies().collect(), chosen(&place));
    assert!(dummies.len() > 4 && dummies.len() == chosen.len());
    for (dummy, chosen) in dummies.iter().zip(&chosen) {
        assert_eq!(of.offers[chosen.unwrap() as usize].word, dummy.word, "dummy {}", dummy.number);
    }
    assert_eq!(chosen.iter().collect::<BTreeSet<_>>().len(), chosen.len(), "no piece is two dummies");
    place.live().unwrap();
    let outcome = place.outcome();
    assert_eq!(outcome.providers.iter().map(|one| one.dummies).sum::<u64>(), dummies.len() as u64);
    let sounds: u64 = outcome.providers.iter().map(|one| one.pieces + one.dummies).sum();
    let received = place.received().concat();
    assert_eq!((sounds, place.paid()), (received.len() as u64, 1));
    assert!(received.iter().all(|wav| wav.len() - 44 == 2 * 72_000), "all are equally long");
    assert_eq!(place.page()["tools"][1][1], "public recordings");
    assert_eq!(aside(&place), all, "nothing more is set aside for it");
    assert!(place.left_behind().is_empty());
}

/// Needs flite; passes without.
#[test]
fn what_is_made_again_after_a_death_is_made_of_the_same_pieces() {
    let Some(place) = recorded(ALONE, &WORDS, needed()) else { return };
    place.die(Death::Cleared);
    assert!(matches!(place.live(), Err(RunError::Stopped(_))));
    let before = (chosen(&place), place.kept("manners.json"), aside(&place));
    place.die(Death::Paid);
    assert!(matches!(place.live(), Err(RunError::Stopped(_))));
    assert_eq!((chosen(&place), place.kept("manners.json"), aside(&place)), before);
    // Sealed sounds are sent unchanged, even without the recordings.
    std::fs::remove_dir_all(place.site().speech()).unwrap();
    place.live().unwrap();
    assert_eq!(place.paid(), 1);
}

/// Needs flite; passes without.
#[test]
fn a_job_for_which_too_little_is_left_is_refused_before_anything_is_heard_or_paid_and_without_a_word() {
    let Some(place) = recorded(ALONE, &WORDS, needed()) else { return };
    assert!(coverage(&place.spec(), &place.transcribing()).unwrap().unwrap().short.is_empty());
    // All of it was set aside for another job.
    let recordings = speech::open(&place.site(), None).unwrap();
    let length = PhraseLength { words: 1, content: 1 };
    let whole =
        |(recording, one): (u32, &Recording)| PieceOffer { recording, start: 0, end: one.samples, word: None, length };
    let another = PieceReservation {
        name: "another".to_owned(),
        recipients: Vec::new(),
        recordings: recordings.meta().recordings.iter().map(|one| one.digest.clone()).collect(),
        offers: (0..).zip(&recordings.meta().recordings).map(whole).collect(),
    };
    PieceJournal::open(&place.site().piece_journal()).unwrap().set_aside(another).unwrap();
    let Err(RunError::Refused(said)) = place.live() else { panic!("nothing is left") };
    assert!(said.contains("4 of 4 kinds") && said.contains(&needed().to_string()), "{said}");
    assert!(WORDS.iter().all(|word| !said.contains(word)), "{said}");
    assert_eq!((place.paid(), place.heard_at_the_site(), place.received().concat().len()), (0, 0, 0));
    assert_eq!(aside(&place).len(), 1, "nothing is set aside for a job that is refused");
    // The site's operator sees the words and their numbers of pieces.
    let covered = coverage(&place.spec(), &place.transcribing()).unwrap().unwrap();
    assert_eq!((covered.needed, covered.words, covered.short.len()), (needed(), 4, 4));
    assert!(covered.short.contains(&("medicine".to_owned(), 0)), "{covered:?}");
}

/// Needs flite; passes without.
#[test]
fn where_recordings_lack_a_word_an_engine_speaks_if_the_site_says_so() {
    let Some(place) = recorded(FILLED, &["garden", "medicine"], needed()) else { return };
    place.die(Death::Paid);
    assert!(matches!(place.live(), Err(RunError::Stopped(_))));
    let plan: Plan = serde_json::from_slice(&place.kept("plan.json")).unwrap();
    let medicine = aside(&place)[0].offers.iter().find_map(|offer| offer.word);
    for (dummy, chosen) in plan.dummies().zip(chosen(&place)) {
        assert_eq!(chosen.is_some(), dummy.word.is_none() || dummy.word == medicine, "{dummy:?}");
    }
    place.live().unwrap();
    let outcome = place.outcome();
    assert_eq!(outcome.providers.iter().map(|one| one.dummies).sum::<u64>(), plan.dummies().count() as u64);
}

/// Needs flite; passes without.
#[test]
fn a_recorded_dummy_that_is_longer_than_the_longest_piece_does_not_leave() {
    let Some(place) = recorded(ALONE, &WORDS, needed()) else { return };
    place.die(Death::Cleared);
    assert!(matches!(place.live(), Err(RunError::Stopped(_))));
    // The pieces imitate a cut by other limits. No recording is that long, so a piece that passes the check cannot be
    // read.
    let mut all = aside(&place);
    for (samples, refused) in [(72_001, true), (72_000, false)] {
        all[0].offers.iter_mut().for_each(|offer| offer.end = offer.start + samples);
        std::fs::write(place.site().piece_journal(), serde_json::to_string(&all[0]).unwrap() + "\n").unwrap();
        let Err(RunError::Failed(said)) = place.live() else { panic!("there are no such pieces") };
        assert_eq!(said.contains("longer than any piece"), refused, "{said}");
    }
    assert_eq!(place.received().concat().len(), 0);
}

/// Needs flite; passes without.
#[test]
fn recordings_that_are_not_indexed_or_not_public_cost_nothing() {
    let Some(place) = recorded(ALONE, &WORDS, 1) else { return };
    std::fs::remove_file(place.site().speech().join("index.json")).unwrap();
    assert!(matches!(place.live(), Err(RunError::Failed(said)) if said.contains("index-speech")));
    index(&place, &WORDS);
    // The same recording is in a dataset that is not public.
    let private = place.site().datasets().join("ward");
    let input = place.site().root().join("ward-in");
    std::fs::create_dir(&input).unwrap();
    std::fs::copy(place.site().root().join("speech-in/0000.wav"), input.join("a.wav")).unwrap();
    let (output, name) = (private, "ward".to_owned());
    add(&Options { input, output, name, replace: false, created: String::new() }).unwrap();
    assert!(matches!(place.live(), Err(RunError::Failed(said)) if said.contains("`ward`")));
    assert_eq!((place.paid(), place.heard_at_the_site(), place.received().concat().len()), (0, 0, 0));
    assert!(aside(&place).is_empty());
}

#[test]
fn what_is_set_aside_follows_from_the_spec_alone() {
    let count = |change: fn(&mut Spec)| {
        let mut spec = spec();
        change(&mut spec);
        most(&mechanism(&spec).unwrap(), 3)
    };
    assert_eq!(count(|_| ()), needed());
    assert!(count(|spec| spec.providers.truncate(1)) < needed());
    assert!(count(|spec| spec.participant.distance = std::num::NonZeroU32::new(12).unwrap()) > needed());
}
