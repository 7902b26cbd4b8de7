//! Hostile answers of recognizers in the cloud, and a plan that was changed on the disk: what is read is sound, all else is
//! refused without a word of it.

use std::num::NonZeroU32;

use undertone_fuzz::Target;
use undertone_privacy::Epsilon;
use undertone_privacy::histogram::{Partition, TruncatedLaplace};

use super::noise::Mechanism;
use super::plan::{Candidate, Chance, Crowded, Item, Plan};
use super::provider::Provider;
use super::provider::deepgram::Deepgram;
use super::provider::google::Google;
use super::provider::openai::OpenAi;
use super::vocabulary::{Disclosure, Held};
use super::web::Address;
use crate::dp::randomness::{Purpose, Randomness};

/// Length of the sound that answers are about, seconds.
const SECONDS: f64 = 6.0;
/// What the shares of a sound may be off by, seconds.
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

fn address() -> Address {
    Address::parse("https://speech.example").expect("an address")
}

/// Throws changed answers at a provider; the `seeds`, which all say the same, as they are.
fn answered(name: &'static str, provider: &dyn Provider, seeds: &[&str]) {
    for seed in seeds {
        let heard = provider.heard(seed.as_bytes(), SECONDS).expect("a good answer is changed");
        assert_eq!(heard.text(), "go on", "{name}: {seed}");
    }
    Target::new(name, 3_000).seeds(seeds.iter().copied()).words(&WORDS).run(|bytes| {
        let Ok(heard) = provider.heard(bytes, SECONDS) else { return };
        let mut before = 0.0;
        for word in &heard.words {
            assert!(!word.text.is_empty() && !word.text.contains(char::is_whitespace), "{word:?}");
            assert!((before..=SECONDS).contains(&word.start), "{word:?} after {before}");
            assert!((word.start..=SECONDS + ROUNDING).contains(&word.end), "{word:?}");
            assert!(word.confidence.is_none_or(|sure| (0.0..=1.0).contains(&sure)), "{word:?}");
            before = word.start;
        }
    });
}

#[test]
fn no_answer_of_openai_breaks_its_reader() {
    let provider = OpenAi::new(&address(), None, "whisper-1", "en-US").expect("there is no key");
    let timed = "{\"task\":\"transcribe\",\"duration\":1.0,\"text\":\"go on\",\"words\":[\
                 {\"word\":\"go\",\"start\":0.1,\"end\":0.3},{\"word\":\"on\",\"start\":0.3,\"end\":0.6}],\"segments\":[]}";
    answered("worker.answer_openai", &provider, &[timed, "{\"text\":\"go on\"}"]);
}

#[test]
fn no_answer_of_google_breaks_its_reader() {
    let provider = Google::new(&address(), None, None, "en-US").expect("there is no key");
    let timed = "{\"results\":[{\"alternatives\":[{\"transcript\":\"go on\",\"confidence\":0.9,\"words\":[\
                 {\"endTime\":\"0.300s\",\"word\":\"go\"},\
                 {\"startTime\":\"0.300s\",\"endTime\":\"0.600s\",\"word\":\"on\",\"confidence\":0.8}]}]}],\
                 \"totalBilledTime\":\"1s\",\"requestId\":\"7\"}";
    let plain =
        "{\"results\":[{\"alternatives\":[{\"transcript\":\"go\"}]},{\"alternatives\":[{\"transcript\":\"on\"}]}]}";
    answered("worker.answer_google", &provider, &[timed, plain]);
}

#[test]
fn no_answer_of_deepgram_breaks_its_reader() {
    let provider = Deepgram::new(&address(), None, "nova-3", "en-US").expect("there is no key");
    let timed = "{\"metadata\":{\"channels\":1},\"results\":{\"channels\":[{\"alternatives\":[{\"transcript\":\"go on\",\
                 \"confidence\":0.99,\"words\":[{\"word\":\"go\",\"start\":0.1,\"end\":0.3,\"confidence\":0.97},\
                 {\"word\":\"on\",\"start\":0.3,\"end\":0.6,\"confidence\":0.5}]}]}]}}";
    let plain = "{\"results\":{\"channels\":[{\"alternatives\":[{\"transcript\":\"go on\",\"words\":[]}]}]}}";
    answered("worker.answer_deepgram", &provider, &[timed, plain]);
}

/// A plan of six pieces for two providers, with two words in the vocabulary.
fn plan() -> Plan {
    let count = |count| NonZeroU32::new(count).expect("it is not zero");
    let noise = TruncatedLaplace::new(Epsilon::new(0.5).expect("a number"), 4).expect("noise");
    let partition = Partition::new(count(2), count(1)).expect("one of two");
    let mechanism = Mechanism::new(noise, count(1), partition).expect("its rate can be drawn");
    let random = |purpose| Randomness::in_test(purpose, 1);
    let chance = Chance::new(random(Purpose::DummyWords), random(Purpose::Assignment)).expect("its purposes");
    let held = |piece| if piece % 3 == 2 { Held::Nothing } else { Held::One(piece % 3) };
    let pieces: Vec<Candidate> = (0..6).map(|piece| (piece, held(piece))).collect();
    Plan::draw(mechanism, 2, Disclosure::Nothing, &pieces, Crowded::Keep, &chance).expect("a plan")
}

/// Parts of it may have been sent already, so whatever lies there is followed or refused, and never another one drawn.
#[test]
fn a_plan_that_was_changed_is_followed_only_if_it_is_whole_and_never_drawn_again() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("plan.json");
    let plan = plan();
    let paid = plan.event().expect("it has a price");
    let seed = serde_json::to_vec(&plan).expect("a plan is JSON");
    let words = ["{\"dummy\":0},", "{\"piece\":0},", "4294967295", "\"dummies\":[", "\"order\":[", "\"nothing\""];
    Target::new("worker.plan", 1_500).seed(seed).words(&words).run(|bytes| {
        std::fs::write(&path, bytes).expect("the folder is writable");
        if let Ok(kept) = Plan::once(&path, &paid, || panic!("it is drawn a second time")) {
            let all = (0..kept.providers()).flat_map(|provider| kept.batch(provider));
            let dummies = all.filter(|item| matches!(item, Item::Dummy(_))).count();
            assert_eq!((kept.providers(), kept.dummies().count()), (plan.providers(), dummies));
        }
        assert_eq!(std::fs::read(&path).expect("it lies there"), bytes, "it is left as it is");
    });
    std::fs::write(&path, serde_json::to_vec(&plan).expect("a plan is JSON")).expect("the folder is writable");
    assert!(Plan::once(&path, &paid, || panic!("it is drawn a second time")).is_ok(), "a good one is changed");
}
