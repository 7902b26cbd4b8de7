#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use undertone_privacy::Event;

use super::*;
use crate::piece::Recognition;

fn english() -> StemmingLanguage {
    StemmingLanguage::new("en").unwrap()
}

fn recognition(text: &str) -> Recognition {
    let word = |(at, text): (usize, &str)| TimedWord {
        text: text.to_owned(),
        start: at as f64,
        end: at as f64 + 0.5,
        confidence: None,
    };
    Recognition { words: text.split_whitespace().enumerate().map(word).collect() }
}

fn stems(vocabulary: &Vocabulary) -> Vec<&str> {
    vocabulary.entries.iter().map(|entry| entry.stem.as_str()).collect()
}

/// Without stop words: patient, fever, patient's, fever, patients, sleep, ambulance.
const TRANSCRIPT: &str =
    "The patient has a fever. The patient's fever is there and the patients sleep. An ambulance came.";

fn usual() -> BaselineCounts {
    BaselineCounts::count(["patient fever sleep", "patient fever sleep and", "patient so"], english())
}

#[test]
fn frequent_stems_are_chosen_without_stop_words() {
    let choice = WordChoice { top_percent: 30.0, above: None, most: 100 };
    let vocabulary = from_transcripts(english(), &[&recognition(TRANSCRIPT)], &choice, &usual(), None).unwrap();
    assert_eq!(stems(&vocabulary), ["fever", "patient"]);
    assert_eq!(vocabulary.forms(1), ["patient", "patient's", "patients"]);
    assert!(vocabulary.forms(2).is_empty());
    assert_eq!((vocabulary.number("Patients,"), vocabulary.number("the")), (Some(1), None));
}

#[test]
fn words_of_a_job_list_may_begin_with_a_hash() {
    let words = ["#tag", "Fever,"].map(str::to_owned);
    let vocabulary = public(english(), &WordList::from_words(&words).unwrap()).unwrap();
    assert_eq!(vocabulary.len(), 2);
    assert!(vocabulary.number("tag").is_some() && vocabulary.number("fever").is_some());
    for wrong in ["two words", "--", ""] {
        assert!(WordList::from_words(&[wrong.to_owned()]).unwrap_err().to_string().contains("line 1"), "{wrong}");
    }
}

#[test]
fn unusual_rare_word_is_chosen() {
    let choice = WordChoice { top_percent: 0.0, above: Some(0.15), most: 100 };
    let vocabulary = from_transcripts(english(), &[&recognition(TRANSCRIPT)], &choice, &usual(), None).unwrap();
    assert_eq!(stems(&vocabulary), ["ambul"], "one word of seven times ln 4 is 0.20");
}

#[test]
fn ties_are_included_and_most_frequent_are_kept() {
    let transcript = recognition("delta delta bravo bravo alpha alpha charlie");
    let choose_stems = |top_percent, most| {
        let choice = WordChoice { top_percent, above: None, most };
        let vocabulary = from_transcripts(english(), &[&transcript], &choice, &usual(), None).unwrap();
        stems(&vocabulary).iter().map(|stem| stem.chars().next().unwrap()).collect::<String>()
    };
    assert_eq!(choose_stems(25.0, 100), "abd");
    assert_eq!(choose_stems(100.0, 100), "abcd");
    assert_eq!(choose_stems(100.0, 3), "abd");
}

#[test]
fn public_vocabulary_is_free_and_independent_of_data() {
    let list = WordList::parse("# a list\nfever\t17\nthe\nPatient\n\nfevers\n").unwrap();
    let vocabulary = public(english(), &list).unwrap();
    assert_eq!(stems(&vocabulary), ["fever", "patient"]);
    assert_eq!(vocabulary.forms(0), ["fever", "fevers"]);
    assert_eq!(vocabulary.disclosure(), WordDisclosure::Nothing);
    assert_eq!(vocabulary.disclosure().event(), None);
    let again = WordList::parse("patient\nthe\nfevers\nfever\n").unwrap();
    assert_eq!(public(english(), &again).unwrap(), vocabulary, "the order of the list does not matter");
}

#[test]
fn vocabulary_from_data_discloses_count_and_has_event() {
    let choice = WordChoice { top_percent: 30.0, above: None, most: 100 };
    let with = |list: Option<&WordList>| {
        from_transcripts(english(), &[&recognition(TRANSCRIPT)], &choice, &usual(), list).unwrap().disclosure()
    };
    assert_eq!(with(None), WordDisclosure::Words(2));
    let list = WordList::parse("fever\nmeasles\nmumps\n").unwrap();
    assert_eq!(with(Some(&list)), WordDisclosure::Words(1));
    assert_eq!(with(None).event(), Some(Event::NonPrivate));
    // Also if the list has all of them: another spoken word would have been added.
    let list = WordList::parse("fever\npatient\n").unwrap();
    assert_eq!(with(Some(&list)), WordDisclosure::Words(0));
    assert_eq!(with(Some(&list)).event(), Some(Event::NonPrivate));
}

#[test]
fn pieces_hold_no_one_or_several_words() {
    let vocabulary = public(english(), &WordList::parse("fever\npatient\n").unwrap()).unwrap();
    let classify = |text: &str| vocabulary.classify(&recognition(text).words);
    assert_eq!(classify("and then it was"), PieceWords::Nothing);
    assert_eq!(classify("the Patients were there"), PieceWords::One(1));
    assert_eq!(classify("a fever is a fever"), PieceWords::Several);
    assert_eq!(classify("the patient's fever"), PieceWords::Several);
    assert_eq!(classify(""), PieceWords::Nothing);
}

#[test]
fn stored_vocabulary_round_trips_and_must_be_sorted() {
    let vocabulary = public(english(), &WordList::parse("fever\npatient\n").unwrap()).unwrap();
    let stored = serde_json::to_string(&vocabulary).unwrap();
    assert_eq!(serde_json::from_str::<Vocabulary>(&stored).unwrap(), vocabulary);
    let turned = stored.replace("patient", "aaa");
    assert!(serde_json::from_str::<Vocabulary>(&turned).is_err());
    assert!(!format!("{vocabulary:?}").contains("fever"), "words are not printed");
}

#[test]
fn invalid_vocabularies_are_refused() {
    let refused = |list: &str| public(english(), &WordList::parse(list).unwrap()).unwrap_err().to_string();
    assert!(refused("the\nand\n").contains("no word"));
    let word = |n: usize| format!("q{n}x\n");
    let most: String = (0..MOST_WORDS).map(word).collect();
    assert!(public(english(), &WordList::parse(&most).unwrap()).is_ok());
    let many: String = (0..=MOST_WORDS).map(word).collect();
    assert!(refused(&many).contains("at most 20000"));
    assert!(WordList::parse("fine\ntwo words\n").unwrap_err().to_string().contains("line 2"));
    for (choice, field) in [
        (WordChoice { top_percent: 101.0, ..WordChoice::default() }, "top_percent"),
        (WordChoice { top_percent: f64::NAN, ..WordChoice::default() }, "top_percent"),
        (WordChoice { above: Some(-1.0), ..WordChoice::default() }, "above"),
        (WordChoice { most: 0, ..WordChoice::default() }, "most"),
    ] {
        let error = from_transcripts(english(), &[&recognition(TRANSCRIPT)], &choice, &usual(), None).unwrap_err();
        assert!(error.to_string().starts_with(field), "{error}");
    }
}
