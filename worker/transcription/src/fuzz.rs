//! Hostile provider answers, and a plan modified on disk: valid input is parsed, everything else is refused without repeating
//! any of it.

use std::num::NonZeroU32;

use undertone_fuzz::Target;
use undertone_privacy::Epsilon;
use undertone_privacy::histogram::{Partition, TruncatedLaplace};

use super::noise::DummyMechanism;
use super::plan::{BatchItem, Candidate, CrowdedPieces, Plan, PlanRandomness};
use super::provider::SpeechProvider;
use super::provider::deepgram::DeepgramProvider;
use super::provider::google::GoogleProvider;
use super::provider::openai::OpenAiProvider;
use super::vocabulary::{PieceWords, WordDisclosure};
use super::web::WebAddress;
use undertone_worker_training::randomness::{Purpose, Randomness};

/// Length of the sound of the answers, in seconds.
const SECONDS: f64 = 6.0;
/// Rounding error of the shares of a sound, in seconds.
const ROUNDING: f64 = 1e-9;

const WORDS: [&str; 10] = [
    "\"words\":[",
    "\"results\":[",
    "\"alternatives\":[",
    "\"start\":-1e308,",
    "\"end\":1e308,",
    "\"1e308s\"",
    "1e308",
    "-1e308",
    "null",
    "\" a  b \"",
];

fn address() -> WebAddress {
    WebAddress::parse("https://speech.example").expect("an address")
}

/// Feeds modified answers to a provider; also the unmodified `seeds`, which all hold the same words.
fn fuzz_answers(name: &'static str, provider: &dyn SpeechProvider, seeds: &[&str]) {
    for seed in seeds {
        let recognition = provider.parse_answer(seed.as_bytes(), SECONDS).expect("a good answer is changed");
        assert_eq!(recognition.text(), "go on", "{name}: {seed}");
    }
    Target::new(name, 3_000).seeds(seeds.iter().copied()).words(&WORDS).run(|bytes| {
        let Ok(recognition) = provider.parse_answer(bytes, SECONDS) else { return };
        let mut before = 0.0;
        for word in &recognition.words {
            assert!(!word.text.is_empty() && !word.text.contains(char::is_whitespace), "{word:?}");
            assert!((before..=SECONDS).contains(&word.start), "{word:?} after {before}");
            assert!((word.start..=SECONDS + ROUNDING).contains(&word.end), "{word:?}");
            assert!(word.confidence.is_none_or(|sure| (0.0..=1.0).contains(&sure)), "{word:?}");
            before = word.start;
        }
    });
}

#[test]
fn hostile_openai_answers_are_parsed_or_refused() {
    let provider = OpenAiProvider::new(&address(), None, "whisper-1", "en-US").expect("there is no key");
    let timed = "{\"task\":\"transcribe\",\"duration\":1.0,\"text\":\"go on\",\"words\":[\
                 {\"word\":\"go\",\"start\":0.1,\"end\":0.3},{\"word\":\"on\",\"start\":0.3,\"end\":0.6}],\"segments\":[]}";
    fuzz_answers("worker.answer_openai", &provider, &[timed, "{\"text\":\"go on\"}"]);
}

#[test]
fn hostile_google_answers_are_parsed_or_refused() {
    let provider = GoogleProvider::new(&address(), None, None, "en-US").expect("there is no key");
    let timed = "{\"results\":[{\"alternatives\":[{\"transcript\":\"go on\",\"confidence\":0.9,\"words\":[\
                 {\"endTime\":\"0.300s\",\"word\":\"go\"},\
                 {\"startTime\":\"0.300s\",\"endTime\":\"0.600s\",\"word\":\"on\",\"confidence\":0.8}]}]}],\
                 \"totalBilledTime\":\"1s\",\"requestId\":\"7\"}";
    let plain =
        "{\"results\":[{\"alternatives\":[{\"transcript\":\"go\"}]},{\"alternatives\":[{\"transcript\":\"on\"}]}]}";
    fuzz_answers("worker.answer_google", &provider, &[timed, plain]);
}

#[test]
fn hostile_deepgram_answers_are_parsed_or_refused() {
    let provider = DeepgramProvider::new(&address(), None, "nova-3", "en-US").expect("there is no key");
    let timed = "{\"metadata\":{\"channels\":1},\"results\":{\"channels\":[{\"alternatives\":[{\"transcript\":\"go on\",\
                 \"confidence\":0.99,\"words\":[{\"word\":\"go\",\"start\":0.1,\"end\":0.3,\"confidence\":0.97},\
                 {\"word\":\"on\",\"start\":0.3,\"end\":0.6,\"confidence\":0.5}]}]}]}}";
    let plain = "{\"results\":{\"channels\":[{\"alternatives\":[{\"transcript\":\"go on\",\"words\":[]}]}]}}";
    fuzz_answers("worker.answer_deepgram", &provider, &[timed, plain]);
}

/// A plan of six pieces for two providers, with two words in the vocabulary.
fn plan() -> Plan {
    let count = |count| NonZeroU32::new(count).expect("it is not zero");
    let noise = TruncatedLaplace::new(Epsilon::new(0.5).expect("a number"), 4).expect("noise");
    let partition = Partition::new(count(2), count(1)).expect("one of two");
    let mechanism = DummyMechanism::new(noise, count(1), partition).expect("its rate can be drawn");
    let random = |purpose| Randomness::in_test(purpose, 1);
    let chance = PlanRandomness::new(random(Purpose::DummyWords), random(Purpose::Assignment)).expect("its purposes");
    let words = |piece| if piece % 3 == 2 { PieceWords::Nothing } else { PieceWords::One(piece % 3) };
    let pieces: Vec<Candidate> = (0..6).map(|piece| (piece, words(piece))).collect();
    Plan::draw(mechanism, 2, WordDisclosure::Nothing, &pieces, CrowdedPieces::Keep, &chance).expect("a plan")
}

/// Parts of a plan may have been sent already, so a stored plan is followed or refused, and never replaced by another one.
#[test]
fn modified_plan_is_followed_only_if_whole_never_redrawn() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("plan.json");
    let plan = plan();
    let event = plan.event().expect("it has a price");
    let seed = serde_json::to_vec(&plan).expect("a plan is JSON");
    let words = ["{\"dummy\":0},", "{\"piece\":0},", "4294967295", "\"dummies\":[", "\"order\":[", "\"nothing\""];
    Target::new("worker.plan", 1_500).seed(seed).words(&words).run(|bytes| {
        std::fs::write(&path, bytes).expect("the folder is writable");
        if let Ok(stored) = Plan::once(&path, &event, || panic!("it is drawn a second time")) {
            let all = (0..stored.providers()).flat_map(|provider| stored.batch(provider));
            let dummies = all.filter(|item| matches!(item, BatchItem::Dummy(_))).count();
            assert_eq!((stored.providers(), stored.dummies().count()), (plan.providers(), dummies));
        }
        assert_eq!(std::fs::read(&path).expect("it lies there"), bytes, "it is left as it is");
    });
    std::fs::write(&path, serde_json::to_vec(&plan).expect("a plan is JSON")).expect("the folder is writable");
    assert!(Plan::once(&path, &event, || panic!("it is drawn a second time")).is_ok(), "a good one is changed");
}
