#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::{Decoding, FrameScores, SearchOptions, WordDecoder};
use crate::align::PhoneMap;
use crate::decode::{CharacterSet, ClassLabels, Lexicon, NgramModel, PhoneStates, best_characters, best_phones};

const LANGUAGE: &str = "\\data\\\nngram 1=5\nngram 2=4\n\\1-grams:\n-99 <s> -0.3\n-0.9 </s>\n-0.5 ab -0.2\n-0.6 ba -0.1\n\
    -0.7 aa\n\\2-grams:\n-0.2 <s> ab\n-0.3 ab ba\n-0.5 ba </s>\n-0.4 aa aa\n\\end\\\n";

fn language() -> NgramModel {
    NgramModel::parse(LANGUAGE.as_bytes(), Path::new("test.arpa")).unwrap()
}

fn lexicon(text: &str) -> Lexicon {
    Lexicon::parse(text.as_bytes(), Path::new("test.dict")).unwrap()
}

fn phone_states() -> PhoneStates {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "0 A 0\n1 A 1\n2 B 0\n3 B 1\n4 SIL 0\n5 SIL 1\n6 SIL 1\n").unwrap();
    PhoneStates::read(file.path(), None).unwrap()
}

fn random_logits(rng: &mut ChaCha20Rng, count: usize) -> Vec<f32> {
    (0..count).map(|_| rng.next_u32() as f32 / u32::MAX as f32 * 6.0).collect()
}

/// Returns the best score of a chain of columns of one frame at least, where optional ones may be left out, and a path
/// may not go from a column to the same column past an optional one.
fn chain_score(scores: &FrameScores, chain: &[(usize, bool)], keeps_repeats_apart: bool) -> f64 {
    let own = |frame: usize, place: usize| f64::from(scores.scores[frame * scores.columns + chain[place].0]);
    let reach = |from: usize, to: usize| {
        from == to
            || (from < to
                && chain[from + 1..to].iter().all(|(_, optional)| *optional)
                && !(keeps_repeats_apart && chain[from].0 == chain[to].0))
    };
    let can_begin = |place: usize| chain[..place].iter().all(|(_, optional)| *optional);
    let can_end = |place: usize| chain[place + 1..].iter().all(|(_, optional)| *optional);
    let begin = |place: usize| if can_begin(place) { own(0, place) } else { f64::NEG_INFINITY };
    let mut row: Vec<f64> = (0..chain.len()).map(begin).collect();
    for frame in 1..scores.frames() {
        let best = |to: usize| {
            (0..=to).filter(|from| reach(*from, to)).map(|from| row[from]).fold(f64::NEG_INFINITY, f64::max)
        };
        row = (0..chain.len()).map(|to| best(to) + own(frame, to)).collect();
    }
    (0..chain.len()).filter(|place| can_end(*place)).map(|place| row[place]).fold(f64::NEG_INFINITY, f64::max)
}

/// Returns all sequences of up to `most` words.
fn sequences(most: usize) -> Vec<Vec<&'static str>> {
    let mut all: Vec<Vec<&str>> = vec![vec![]];
    let mut last = all.clone();
    for _ in 0..most {
        last = last.iter().flat_map(|one| ["ab", "ba", "aa"].map(|word| [one.as_slice(), &[word]].concat())).collect();
        all.extend(last.clone());
    }
    all
}

fn language_score(words: &[&str], options: SearchOptions) -> f64 {
    let model = language();
    let (mut state, mut score) = (model.start(), 0.0);
    for word in words {
        let (own, next) = model.advance(state, model.word(word).unwrap());
        score += options.language_weight * own - options.word_penalty;
        state = next;
    }
    score + options.language_weight * model.finish(state)
}

fn check_best(decoding: &Decoding, candidates: impl Iterator<Item = (Vec<&'static str>, f64)>) {
    let (words, score) = candidates.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
    let decoded: Vec<&str> = decoding.words.iter().map(|word| word.text.as_str()).collect();
    assert_eq!(decoded, words);
    assert!(decoding.is_complete && (decoding.score - score).abs() < 1e-6, "{} {score}", decoding.score);
    assert!(decoding.words.windows(2).all(|two| two[0].end <= two[1].start));
    assert!(decoding.words.iter().all(|word| word.start < word.end && (0.0..=1.0).contains(&word.confidence)));
}

#[test]
fn best_words_of_phones_equal_exhaustive_search() {
    let map = phone_states();
    let lexicon = lexicon("ab A B\nba B A\naa A A\n");
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    for round in 0..30 {
        let options = SearchOptions {
            language_weight: f64::from(round % 4),
            word_penalty: f64::from(round % 3) - 1.0,
            ..SearchOptions::default()
        };
        let labels = ClassLabels::Phones(map.clone());
        let decoder = WordDecoder::new(&labels, &lexicon, Some(language()), options).unwrap();
        let logits = random_logits(&mut rng, 13 * map.classes());
        let priors = [0.1, 0.2, 0.1, 0.1, 0.3, 0.1, 0.1];
        let scores = FrameScores::from_phone_logits(&map, &logits, (round % 2 == 1).then_some(&priors));
        let states =
            |phone: &str| (0..2).map(|state| (map.phone(phone).unwrap() * 2 + state, false)).collect::<Vec<_>>();
        // Silence has two states that are passed together, so each place of silence is with it or without it.
        let candidates = sequences(3)
            .into_iter()
            .flat_map(|words| (0..1_u32 << (words.len() + 1)).map(move |silences| (words.clone(), silences)));
        let candidates = candidates.filter_map(|(words, silences)| {
            let mut chain = Vec::new();
            for place in 0..=words.len() {
                if silences >> place & 1 == 1 {
                    chain.extend(states("SIL"));
                }
                let phones = words.get(place).into_iter().flat_map(|word| word.chars());
                chain.extend(phones.flat_map(|phone| states(&phone.to_uppercase().to_string())));
            }
            let score = (!chain.is_empty()).then(|| chain_score(&scores, &chain, false))?;
            let total = score + language_score(&words, options);
            Some((words, total))
        });
        check_best(&decoder.decode(&scores), candidates);
    }
}

#[test]
fn best_words_of_characters_equal_exhaustive_search() {
    let set = CharacterSet::from_texts(["ab ba"]).unwrap();
    let lexicon = lexicon("ab\nba\naa\n");
    let mut rng = ChaCha20Rng::seed_from_u64(2);
    for round in 0..30 {
        let options = SearchOptions { language_weight: f64::from(round % 3), ..SearchOptions::default() };
        let labels = ClassLabels::Characters(set.clone());
        let decoder = WordDecoder::new(&labels, &lexicon, Some(language()), options).unwrap();
        let scores = FrameScores::from_character_logits(&set, &random_logits(&mut rng, 11 * set.classes()));
        let blank = (set.blank(), true);
        let space = set.class(' ').unwrap();
        let candidates = sequences(3).into_iter().map(|words| {
            let mut chain = vec![blank, (space, true), blank];
            for (number, word) in words.iter().enumerate() {
                if number > 0 {
                    chain.extend([(space, false), blank]);
                }
                chain.extend(word.chars().flat_map(|letter| [(set.class(letter).unwrap(), false), blank]));
            }
            if !words.is_empty() {
                chain.extend([(space, true), blank]);
            }
            let total = chain_score(&scores, &chain, true) + language_score(&words, options);
            (words, total)
        });
        check_best(&decoder.decode(&scores), candidates);
    }
}

/// Returns logits with one class ahead in each frame.
fn clear_logits(classes: usize, path: &[usize]) -> Vec<f32> {
    path.iter().flat_map(|best| (0..classes).map(move |class| if class == *best { 8.0 } else { 0.0 })).collect()
}

#[test]
fn clear_frames_give_times_and_confidence() {
    let map = phone_states();
    // Silence, A B (ab), silence, B A (ba).
    let path = [4, 4, 5, 0, 0, 1, 2, 3, 3, 4, 6, 2, 3, 0, 1, 1];
    let logits = clear_logits(map.classes(), &path);
    let scores = FrameScores::from_phone_logits(&map, &logits, None);
    let labels = ClassLabels::Phones(map.clone());
    let decoder =
        WordDecoder::new(&labels, &lexicon("ab A B\nba B A\nba(2) B\n"), None, SearchOptions::default()).unwrap();
    let words = decoder.decode(&scores).words;
    let times: Vec<_> = words.iter().map(|word| (word.text.as_str(), word.start, word.end)).collect();
    assert_eq!(times, [("ab", 3, 9), ("ba", 11, 16)]);
    // The posterior of a phone is the sum of its states'.
    let expected = (8_f64.exp() + 1.0) / (8_f64.exp() + 6.0);
    assert!(words.iter().all(|word| (word.confidence - expected).abs() < 1e-6), "{:?}", words[0].confidence);
    let phones: Vec<_> = best_phones(&map, &scores).into_iter().map(|one| (one.text, one.start, one.end)).collect();
    let expected = [("SIL", 0, 3), ("A", 3, 6), ("B", 6, 9), ("SIL", 9, 11), ("B", 11, 13), ("A", 13, 16)];
    assert_eq!(phones, expected.map(|(phone, start, end)| (phone.to_owned(), start, end)));
    assert!(decoder.decode(&FrameScores::from_phone_logits(&map, &[], None)).words.is_empty());
}

#[test]
fn characters_without_lexicon_are_collapsed_to_words() {
    let set = CharacterSet::from_texts(["ab ba"]).unwrap();
    let [space, a, b, blank] = [0, 1, 2, 3];
    let path = [blank, a, a, blank, a, space, space, blank, b, b, a, blank];
    let scores = FrameScores::from_character_logits(&set, &clear_logits(set.classes(), &path));
    let words: Vec<_> = best_characters(&set, &scores).into_iter().map(|one| (one.text, one.start, one.end)).collect();
    assert_eq!(words, [("aa".to_owned(), 1, 5), ("ba".to_owned(), 8, 11)]);
}

#[test]
fn narrow_beam_keeps_the_best_path_of_clear_frames() {
    let map = phone_states();
    let logits = clear_logits(map.classes(), &[0, 1, 2, 3, 4, 5, 2, 3, 0, 1]);
    let scores = FrameScores::from_phone_logits(&map, &logits, None);
    let options = SearchOptions { beam: 6.0, most_tokens: 4, ..SearchOptions::default() };
    let labels = ClassLabels::Phones(map);
    let decoder = WordDecoder::new(&labels, &lexicon("ab A B\nba B A\naa A A\n"), None, options).unwrap();
    let decoding = decoder.decode(&scores);
    let words: Vec<_> = decoding.words.iter().map(|word| word.text.as_str()).collect();
    assert!(words == ["ab", "ba"] && decoding.is_complete);
}

#[test]
fn parts_that_do_not_fit_name_the_word() {
    let error = |labels: &ClassLabels, text: &str, language: Option<NgramModel>| {
        let options = SearchOptions::default();
        WordDecoder::new(labels, &lexicon(text), language, options).map(|_| ()).unwrap_err().to_string()
    };
    let phones = ClassLabels::Phones(phone_states());
    let characters = ClassLabels::Characters(CharacterSet::from_texts(["ab"]).unwrap());
    assert!(error(&phones, "ab A B\nzoo Z\n", None).contains("line 2: no class of the model stands for the phone `Z`"));
    assert!(error(&phones, "ab A B\nzoo\n", None).contains("line 2: `zoo` has no phones"));
    assert!(error(&characters, "ab\nabc\n", None).contains("line 2: the model has no character `c` of `abc`"));
    let missing = error(&phones, "ab A B\n", Some(language()));
    assert!(missing.contains("2 words that the lexicon lacks, such as `aa`"), "{missing}");
    let skip = SearchOptions { skip_missing_words: true, ..SearchOptions::default() };
    assert!(WordDecoder::new(&phones, &lexicon("AB A B\nzoo Z\n"), Some(language()), skip).is_ok());
    let none = WordDecoder::new(&phones, &lexicon("zoo Z\n"), Some(language()), skip).map(|_| ()).unwrap_err();
    assert!(none.to_string().contains("no word of the lexicon"));
}

#[test]
fn phone_map_of_a_dataset_is_a_set_of_labels() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), r#"{"phone_classes":["A+B.0","A.0","A.1","A.2","SIL.0"]}"#).unwrap();
    let map = PhoneStates::read(file.path(), None).unwrap();
    assert_eq!(map.classes(), PhoneMap::read(file.path()).unwrap().classes());
    let scores = FrameScores::from_phone_logits(&map, &clear_logits(6, &[0, 5]), None);
    // A state without a class has the mean of its phone; the class of the rest belongs to no phone.
    assert!(scores.posteriors[0] > 0.99 && scores.posteriors[2] < 0.01);
    assert_eq!(scores.scores[3].to_bits(), scores.scores[4].to_bits());
}
