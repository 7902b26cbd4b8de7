#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use proptest::prelude::*;
use undertone_privacy::Epsilon;
use undertone_privacy::histogram::{Partition, TruncatedLaplace};

use super::*;
use crate::noise::DummyMechanism;
use crate::plan::{CrowdedPieces, PlanRandomness, PlannedDummy};
use crate::vocabulary::language::StemmingLanguage;
use crate::vocabulary::{PieceWords, WordDisclosure, WordList, public};

fn english() -> StemmingLanguage {
    StemmingLanguage::new("en").unwrap()
}

/// "rabbit" and "wife" are in the bundled text, "haemorrhage" and "ambulance" are not.
fn vocabulary() -> Vocabulary {
    public(english(), &WordList::parse("rabbit\nrabbits\nwife\nhaemorrhage\nambulance\n").unwrap()).unwrap()
}

fn plan(words: u32, seed: u8) -> Plan {
    let providers = Partition::new(NonZeroU32::new(2).unwrap(), NonZeroU32::MIN).unwrap();
    let noise = TruncatedLaplace::new(Epsilon::new(0.5).unwrap(), 5).unwrap();
    let mechanism = DummyMechanism::new(noise, NonZeroU32::MIN, providers).unwrap();
    let random = |purpose| Randomness::in_test(purpose, seed);
    let chance = PlanRandomness::new(random(Purpose::DummyWords), random(Purpose::Assignment)).unwrap();
    Plan::draw(mechanism, words, WordDisclosure::Nothing, &[(0, PieceWords::Nothing)], CrowdedPieces::Keep, &chance)
        .unwrap()
}

fn lengths(lengths: &[(u32, u32)]) -> PhraseLengths {
    PhraseLengths::stated(
        lengths.iter().map(|(words, content)| PhraseLength { words: *words, content: *content }).collect(),
    )
    .unwrap()
}

fn texts(plan: &Plan, lengths: &PhraseLengths, seed: u8) -> Vec<DummyText> {
    let random = Randomness::in_test(Purpose::Dummies, seed);
    write(plan, &vocabulary(), &TextCorpus::bundled().unwrap(), lengths, &random).unwrap()
}

/// Returns the vocabulary words in a text.
fn vocabulary_words(text: &str) -> Vec<u32> {
    text.split(' ').filter_map(|word| vocabulary().number(word)).collect()
}

#[test]
fn texts_match_the_words_of_the_plan() {
    let plan = plan(vocabulary().len(), 1);
    let texts = texts(&plan, &lengths(&[(4, 2), (7, 3)]), 1);
    let dummies: Vec<PlannedDummy> = plan.dummies().collect();
    assert_eq!(texts.len(), dummies.len());
    let mut counts: BTreeMap<(u32, Option<u32>), usize> = BTreeMap::new();
    for (dummy, text) in dummies.iter().zip(&texts) {
        assert_eq!(dummy.number, text.number);
        assert_eq!(vocabulary_words(&text.text), Vec::from_iter(dummy.word), "dummy {}", dummy.number);
        *counts.entry((dummy.provider, dummy.word)).or_default() += 1;
    }
    assert!(counts.len() >= 7, "two providers, four words and none: {}", counts.len());
}

#[test]
fn texts_depend_on_their_randomness() {
    let plan = plan(vocabulary().len(), 2);
    let lengths = lengths(&[(5, 2)]);
    assert_eq!(texts(&plan, &lengths, 1), texts(&plan, &lengths, 1));
    assert_ne!(texts(&plan, &lengths, 1), texts(&plan, &lengths, 2));
}

#[test]
fn long_phrases_are_not_repeated() {
    let texts = texts(&plan(vocabulary().len(), 3), &lengths(&[(6, 3), (8, 4)]), 1);
    let different: HashSet<&String> = texts.iter().map(|text| &text.text).collect();
    assert_eq!(different.len(), texts.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn phrase_has_its_length_and_its_word(words in 1u32..15, seed in any::<u8>()) {
        let plan = plan(vocabulary().len(), seed);
        for (dummy, text) in plan.dummies().zip(texts(&plan, &lengths(&[(words, 1)]), seed)) {
            let count = text.text.split(' ').count();
            let is_shortened = count < words as usize && text.text.chars().count() > 40;
            prop_assert!(count == words as usize || is_shortened, "{}", text.text);
            prop_assert!(text.text.chars().count() <= 64, "{}", text.text);
            prop_assert_eq!(vocabulary_words(&text.text), Vec::from_iter(dummy.word));
        }
    }
}

#[test]
fn public_lengths_are_valid() {
    let public = PhraseLengths::public();
    assert_eq!(PhraseLengths::stated(public.0.clone()).unwrap(), public);
    assert!(public.0.iter().all(|length| length.content <= length.words && length.words <= 12));
    let mean = public.0.iter().map(|length| f64::from(length.words)).sum::<f64>() / public.0.len() as f64;
    assert!((mean - 6.7).abs() < 0.1, "{mean}");
}

#[test]
fn invalid_lengths_corpus_and_randomness_are_refused() {
    for wrong in
        [vec![], vec![PhraseLength { words: 0, content: 1 }], vec![PhraseLength { words: MOST_WORDS + 1, content: 1 }]]
    {
        assert!(matches!(PhraseLengths::stated(wrong), Err(DummyError::Lengths)));
    }
    assert!(
        PhraseLengths::stated(vec![
            PhraseLength { words: MOST_WORDS, content: 1 },
            PhraseLength { words: 1, content: 1 }
        ])
        .is_ok()
    );
    let corpus = TextCorpus::bundled().unwrap();
    let some = lengths(&[(4, 2)]);
    let random = Randomness::in_test(Purpose::Dummies, 1);
    let other = write(&plan(5, 1), &vocabulary(), &corpus, &some, &random);
    assert!(matches!(other, Err(DummyError::Word(4))));
    let empty = TextCorpus::parse("rabbit").unwrap();
    assert!(matches!(write(&plan(4, 1), &vocabulary(), &empty, &some, &random), Err(DummyError::Corpus)));
    let noise = Randomness::in_test(Purpose::Noise, 1);
    let refused = write(&plan(4, 1), &vocabulary(), &corpus, &some, &noise);
    assert!(matches!(refused, Err(DummyError::Purpose(Purpose::Noise))));
}

#[test]
fn debug_output_holds_no_text() {
    let text = DummyText { number: 3, text: "the white rabbit".to_owned() };
    assert_eq!(format!("{text:?}"), "DummyText(3, 16 bytes)");
}
