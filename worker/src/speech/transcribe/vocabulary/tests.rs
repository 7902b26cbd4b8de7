#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use undertone_privacy::Event;

use super::*;
use crate::speech::transcribe::piece::Heard;

fn english() -> Language {
    Language::new("en").unwrap()
}

fn heard(text: &str) -> Heard {
    let word = |(at, text): (usize, &str)| Word {
        text: text.to_owned(),
        start: at as f64,
        end: at as f64 + 0.5,
        confidence: None,
    };
    Heard { words: text.split_whitespace().enumerate().map(word).collect() }
}

fn stems(vocabulary: &Vocabulary) -> Vec<&str> {
    vocabulary.entries.iter().map(|entry| entry.stem.as_str()).collect()
}

/// Without stop words: patient, fever, patient's, fever, patients, sleep, ambulance.
const SAID: &str = "The patient has a fever. The patient's fever is there and the patients sleep. An ambulance came.";

fn usual() -> Baseline {
    Baseline::count(["patient fever sleep", "patient fever sleep and", "patient so"], english())
}

#[test]
fn frequent_words_are_chosen_by_stem_and_stop_words_are_not() {
    let choice = Choice { top_percent: 30.0, above: None, most: 100 };
    let vocabulary = from_transcripts(english(), &[&heard(SAID)], &choice, &usual(), None).unwrap();
    assert_eq!(stems(&vocabulary), ["fever", "patient"]);
    assert_eq!(vocabulary.forms(1), ["patient", "patient's", "patients"]);
    assert!(vocabulary.forms(2).is_empty());
    assert_eq!((vocabulary.number("Patients,"), vocabulary.number("the")), (Some(1), None));
}

#[test]
fn every_word_of_a_jobs_list_is_protected_whatever_it_begins_with() {
    let words = ["#tag", "Fever,"].map(str::to_owned);
    let vocabulary = public(english(), &List::of(&words).unwrap()).unwrap();
    assert_eq!(vocabulary.len(), 2);
    assert!(vocabulary.number("tag").is_some() && vocabulary.number("fever").is_some());
    for wrong in ["two words", "--", ""] {
        assert!(List::of(&[wrong.to_owned()]).unwrap_err().to_string().contains("line 1"), "{wrong}");
    }
}

#[test]
fn an_unusual_word_is_chosen_although_it_is_rare() {
    let choice = Choice { top_percent: 0.0, above: Some(0.15), most: 100 };
    let vocabulary = from_transcripts(english(), &[&heard(SAID)], &choice, &usual(), None).unwrap();
    assert_eq!(stems(&vocabulary), ["ambul"], "one word of seven times ln 4 is 0.20");
}

#[test]
fn ties_are_taken_whole_and_the_most_frequent_are_kept() {
    let said = heard("delta delta bravo bravo alpha alpha charlie");
    let taken = |top_percent, most| {
        let choice = Choice { top_percent, above: None, most };
        let vocabulary = from_transcripts(english(), &[&said], &choice, &usual(), None).unwrap();
        stems(&vocabulary).iter().map(|stem| stem.chars().next().unwrap()).collect::<String>()
    };
    assert_eq!(taken(25.0, 100), "abd");
    assert_eq!(taken(100.0, 100), "abcd");
    assert_eq!(taken(100.0, 3), "abd");
}

#[test]
fn a_public_vocabulary_does_not_depend_on_what_was_said_and_costs_nothing() {
    let list = List::parse("# a list\nfever\t17\nthe\nPatient\n\nfevers\n").unwrap();
    let vocabulary = public(english(), &list).unwrap();
    assert_eq!(stems(&vocabulary), ["fever", "patient"]);
    assert_eq!(vocabulary.forms(0), ["fever", "fevers"]);
    assert_eq!(vocabulary.disclosure(), Disclosure::Nothing);
    assert_eq!(vocabulary.disclosure().event(), None);
    let again = List::parse("patient\nthe\nfevers\nfever\n").unwrap();
    assert_eq!(public(english(), &again).unwrap(), vocabulary, "the order of the list does not matter");
}

#[test]
fn a_vocabulary_from_data_says_how_many_words_it_tells_and_costs_a_release_without_noise() {
    let choice = Choice { top_percent: 30.0, above: None, most: 100 };
    let with = |list: Option<&List>| {
        from_transcripts(english(), &[&heard(SAID)], &choice, &usual(), list).unwrap().disclosure()
    };
    assert_eq!(with(None), Disclosure::Words(2));
    let list = List::parse("fever\nmeasles\nmumps\n").unwrap();
    assert_eq!(with(Some(&list)), Disclosure::Words(1));
    assert_eq!(with(None).event(), Some(Event::NonPrivate));
    // Even where the list has all of them: had something else been said, there would be one more.
    let list = List::parse("fever\npatient\n").unwrap();
    assert_eq!(with(Some(&list)), Disclosure::Words(0));
    assert_eq!(with(Some(&list)).event(), Some(Event::NonPrivate));
}

#[test]
fn a_piece_holds_nothing_one_or_several() {
    let vocabulary = public(english(), &List::parse("fever\npatient\n").unwrap()).unwrap();
    let held = |text: &str| vocabulary.held(&heard(text).words);
    assert_eq!(held("and then it was"), Held::Nothing);
    assert_eq!(held("the Patients were there"), Held::One(1));
    assert_eq!(held("a fever is a fever"), Held::Several);
    assert_eq!(held("the patient's fever"), Held::Several);
    assert_eq!(held(""), Held::Nothing);
}

#[test]
fn it_comes_back_as_it_was_kept_and_not_out_of_order() {
    let vocabulary = public(english(), &List::parse("fever\npatient\n").unwrap()).unwrap();
    let kept = serde_json::to_string(&vocabulary).unwrap();
    assert_eq!(serde_json::from_str::<Vocabulary>(&kept).unwrap(), vocabulary);
    let turned = kept.replace("patient", "aaa");
    assert!(serde_json::from_str::<Vocabulary>(&turned).is_err());
    assert!(!format!("{vocabulary:?}").contains("fever"), "words are not printed");
}

#[test]
fn what_is_no_vocabulary_is_refused() {
    let refused = |list: &str| public(english(), &List::parse(list).unwrap()).unwrap_err().to_string();
    assert!(refused("the\nand\n").contains("no word"));
    let word = |n: usize| format!("q{n}x\n");
    let most: String = (0..MOST_WORDS).map(word).collect();
    assert!(public(english(), &List::parse(&most).unwrap()).is_ok());
    let many: String = (0..=MOST_WORDS).map(word).collect();
    assert!(refused(&many).contains("at most 20000"));
    assert!(List::parse("fine\ntwo words\n").unwrap_err().to_string().contains("line 2"));
    for (choice, field) in [
        (Choice { top_percent: 101.0, ..Choice::default() }, "top_percent"),
        (Choice { top_percent: f64::NAN, ..Choice::default() }, "top_percent"),
        (Choice { above: Some(-1.0), ..Choice::default() }, "above"),
        (Choice { most: 0, ..Choice::default() }, "most"),
    ] {
        let error = from_transcripts(english(), &[&heard(SAID)], &choice, &usual(), None).unwrap_err();
        assert!(error.to_string().starts_with(field), "{error}");
    }
}
