#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use proptest::prelude::*;
use undertone_privacy::Epsilon;
use undertone_privacy::histogram::{Partition, TruncatedLaplace};

use super::*;
use crate::speech::transcribe::noise::Mechanism;
use crate::speech::transcribe::plan::{Chance, Crowded, Dummy};
use crate::speech::transcribe::vocabulary::language::Language;
use crate::speech::transcribe::vocabulary::{Disclosure, Held, List, public};

fn english() -> Language {
    Language::new("en").unwrap()
}

/// "rabbit" and "wife" are in the bundled text, "haemorrhage" is not.
fn vocabulary() -> Vocabulary {
    public(english(), &List::parse("rabbit\nrabbits\nwife\nhaemorrhage\nambulance\n").unwrap()).unwrap()
}

fn plan(words: u32, seed: u8) -> Plan {
    let providers = Partition::new(NonZeroU32::new(2).unwrap(), NonZeroU32::MIN).unwrap();
    let noise = TruncatedLaplace::new(Epsilon::new(0.5).unwrap(), 5).unwrap();
    let mechanism = Mechanism::new(noise, NonZeroU32::MIN, providers).unwrap();
    let random = |purpose| Randomness::in_test(purpose, seed);
    let chance = Chance::new(random(Purpose::DummyWords), random(Purpose::Assignment)).unwrap();
    Plan::draw(mechanism, words, Disclosure::Nothing, &[(0, Held::Nothing)], Crowded::Keep, &chance).unwrap()
}

fn lengths(lengths: &[(u32, u32)]) -> Lengths {
    Lengths::stated(lengths.iter().map(|(words, content)| Length { words: *words, content: *content }).collect())
        .unwrap()
}

fn texts(plan: &Plan, lengths: &Lengths, seed: u8) -> Vec<Text> {
    let random = Randomness::in_test(Purpose::Dummies, seed);
    write(plan, &vocabulary(), &Corpus::bundled().unwrap(), lengths, &random).unwrap()
}

/// Which words of the vocabulary are in a text.
fn found(text: &str) -> Vec<u32> {
    text.split(' ').filter_map(|word| vocabulary().number(word)).collect()
}

#[test]
fn there_are_as_many_texts_of_each_word_as_the_plan_has_dummies() {
    let plan = plan(vocabulary().len(), 1);
    let texts = texts(&plan, &lengths(&[(4, 2), (7, 3)]), 1);
    let dummies: Vec<Dummy> = plan.dummies().collect();
    assert_eq!(texts.len(), dummies.len());
    let mut counts: BTreeMap<(u32, Option<u32>), usize> = BTreeMap::new();
    for (dummy, text) in dummies.iter().zip(&texts) {
        assert_eq!(dummy.number, text.number);
        assert_eq!(found(&text.text), Vec::from_iter(dummy.word), "dummy {}", dummy.number);
        *counts.entry((dummy.provider, dummy.word)).or_default() += 1;
    }
    assert!(counts.len() >= 7, "two providers, four words and none: {}", counts.len());
}

#[test]
fn the_same_chance_says_the_same_and_another_says_something_else() {
    let (plan, lengths) = (plan(vocabulary().len(), 2), lengths(&[(5, 2)]));
    assert_eq!(texts(&plan, &lengths, 1), texts(&plan, &lengths, 1));
    assert_ne!(texts(&plan, &lengths, 1), texts(&plan, &lengths, 2));
}

#[test]
fn phrases_of_some_length_are_not_said_twice() {
    let texts = texts(&plan(vocabulary().len(), 3), &lengths(&[(6, 3), (8, 4)]), 1);
    let different: HashSet<&String> = texts.iter().map(|text| &text.text).collect();
    assert_eq!(different.len(), texts.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn a_phrase_has_its_length_its_word_and_no_more_content_than_it_may(
        words in 1u32..15, content in 1u32..6, seed in any::<u8>()
    ) {
        let stops = english().stop_words();
        let plan = plan(vocabulary().len(), seed);
        for (dummy, text) in plan.dummies().zip(texts(&plan, &lengths(&[(words, content)]), seed)) {
            let said: Vec<&str> = text.text.split(' ').collect();
            prop_assert_eq!(said.len(), words as usize);
            prop_assert_eq!(found(&text.text), Vec::from_iter(dummy.word));
            let of_content = said.iter().filter(|word| !stops.contains(**word)).count();
            prop_assert!(of_content <= content as usize, "{} of {}", of_content, content);
        }
    }
}

#[test]
fn public_lengths_are_fit_to_be_said() {
    let public = Lengths::public();
    assert_eq!(Lengths::stated(public.0.clone()).unwrap(), public);
    assert!(public.0.iter().all(|length| length.content <= length.words && length.words <= 12));
    let mean = public.0.iter().map(|length| f64::from(length.words)).sum::<f64>() / public.0.len() as f64;
    assert!((mean - 6.7).abs() < 0.1, "{mean}");
}

#[test]
fn what_cannot_be_said_is_refused() {
    for wrong in [vec![], vec![Length { words: 0, content: 1 }], vec![Length { words: MOST_WORDS + 1, content: 1 }]] {
        assert!(matches!(Lengths::stated(wrong), Err(DummyError::Lengths)));
    }
    assert!(Lengths::stated(vec![Length { words: MOST_WORDS, content: 1 }, Length { words: 1, content: 1 }]).is_ok());
    let (corpus, some) = (Corpus::bundled().unwrap(), lengths(&[(4, 2)]));
    let random = Randomness::in_test(Purpose::Dummies, 1);
    let other = write(&plan(5, 1), &vocabulary(), &corpus, &some, &random);
    assert!(matches!(other, Err(DummyError::Word(4))));
    let empty = Corpus::parse("rabbit").unwrap();
    assert!(matches!(write(&plan(4, 1), &vocabulary(), &empty, &some, &random), Err(DummyError::Corpus)));
    let noise = Randomness::in_test(Purpose::Noise, 1);
    let refused = write(&plan(4, 1), &vocabulary(), &corpus, &some, &noise);
    assert!(matches!(refused, Err(DummyError::Purpose(Purpose::Noise))));
}

#[test]
fn what_is_said_is_not_printed() {
    let text = Text { number: 3, text: "the white rabbit".to_owned() };
    assert_eq!(format!("{text:?}"), "Text(3, 16 bytes)");
}
