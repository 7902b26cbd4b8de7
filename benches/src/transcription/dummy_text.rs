//! The text of dummies: how well models predict other text, and how well classifiers tell their phrases from true pieces.
//!
//! True pieces are windows of a text with the public lengths of dummies; those with several words of the vocabulary stay. Each has a
//! dummy with the same word and as many words, so that neither tells them apart, and guessing is right in half of the cases. The
//! vocabulary is the most frequent words of the true text without stop words.
//!
//! | model | phrases |
//! |---|---|
//! | `trigram` | of an earlier version ([`trigram`]) |
//! | `kneser_ney` | of the product, with the words that its text has not from a public list |
//! | `windows` | windows of the same text: no model of this text has words that are more like it |
//!
//! A classifier learns from labelled pieces of the same recordings ([`attack`]) and is tested on others.

mod attack;
mod trigram;

use std::collections::{HashMap, HashSet};
use std::fs;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng as _;
use serde_json::json;
use support::stage::TestResult;
use undertone_privacy::membership::rate_interval;
use undertone_worker::dp::noise::below;
use undertone_worker::speech::transcribe::dummy::author::PhraseAuthor;
use undertone_worker::speech::transcribe::dummy::corpus::{TextCorpus, WordFrequencies};
use undertone_worker::speech::transcribe::dummy::{PhraseLength, PhraseLengths};
use undertone_worker::speech::transcribe::piece::TimedWord;
use undertone_worker::speech::transcribe::vocabulary::language::StemmingLanguage;
use undertone_worker::speech::transcribe::vocabulary::{PieceWords, Vocabulary};

use self::attack::{FOLDS, KnownText, LabelledPiece, TextKnowledge, classify};
use self::trigram::{TrigramModel, WordKind};
use super::distance::frequent_words;
use super::document::{data, files};
use super::sizes::TranscriptionSizes;
use super::{CONFIDENCE, SEED, rounded, say};
use crate::report::Report;

/// Words of the vocabulary.
const VOCABULARY: usize = 50;
/// Attempts at a phrase that no other dummy has, and at a window with a word.
const TRIES: usize = 20;
const WINDOW_TRIES: usize = 20_000;
/// Words of dialogues that are true, and that dummies are made of.
const DIALOGUE_WORDS: usize = 20_000;
const DIALOGUE_TEXTS: [usize; 2] = [20_000, 200_000];

/// A text of dummies, and true text.
struct TextPair {
    name: String,
    corpus: Vec<Vec<String>>,
    spoken: Vec<Vec<String>>,
}

/// A true piece.
struct TruePiece {
    words: Vec<String>,
    word: Option<u32>,
    /// The drawn length; the last piece of a text may have fewer words.
    length: PhraseLength,
}

/// # Errors
/// When the data are missing.
pub(super) fn measure(report: &mut Report, sizes: &TranscriptionSizes) -> TestResult<()> {
    let language = StemmingLanguage::new("en")?;
    for pair in text_pairs()? {
        measure_pair(report, sizes, language, &pair)?;
    }
    Ok(())
}

fn measure_pair(
    report: &mut Report,
    sizes: &TranscriptionSizes,
    language: StemmingLanguage,
    pair: &TextPair,
) -> TestResult<()> {
    let vocabulary = frequent_words(language, pair.spoken.iter(), VOCABULARY)?;
    let mut rng = ChaCha20Rng::seed_from_u64(SEED);
    let pieces = cut(&vocabulary, &pair.spoken, sizes.text_pieces, &mut rng);
    let corpus = TextCorpus::from_sentences(pair.corpus.clone());
    let author = PhraseAuthor::new(&vocabulary, &corpus, &WordFrequencies::bundled(language))?;
    // Perplexities compare models of the same words: those of the text.
    let closed = PhraseAuthor::new(&vocabulary, &corpus, &WordFrequencies::default())?;
    let fit = closed.fit(&TextCorpus::from_sentences(pair.spoken.clone())).ok_or("no word of the text is known")?;
    let stops = language.stop_words();
    let usual = |word: &str| if stops.contains(word) { WordKind::Stop } else { WordKind::Content };
    let kind = |word: &str| if vocabulary.number(word).is_some() { WordKind::Never } else { usual(word) };
    // The trigram does not know the words of the vocabulary; for its perplexity it learns them too.
    let perplexity = TrigramModel::train(&pair.corpus, usual).ok_or("a text without words")?.perplexity(&pair.spoken);
    let trigram = TrigramModel::train(&pair.corpus, kind).ok_or("a text without words")?;
    let form = |word: Option<u32>| word.and_then(|word| vocabulary.forms(word).first()).map(String::as_str);
    let number = |word: &String| vocabulary.number(word);
    let numbers: HashMap<&String, Option<u32>> =
        pair.corpus.iter().flatten().map(|word| (word, number(word))).collect();
    let text: Vec<(&String, Option<u32>)> = pair.corpus.iter().flatten().map(|word| (word, numbers[word])).collect();
    let known = KnownText::new(&pair.corpus);
    let mut tell = |model: &str,
                    perplexity: Option<f64>,
                    draw: &mut dyn FnMut(&TruePiece, &mut ChaCha20Rng) -> TestResult<String>| {
        let dummies = dummies(&pieces, draw)?;
        let all = u64::try_from(dummies.len())?;
        for knowledge in TextKnowledge::ALL {
            let right = classify(&dummies, knowledge, &known);
            let (_, upper) = rate_interval(right, all, CONFIDENCE);
            let line = json!({
                "dummy_text": pair.name, "model": model, "words": text.len(), "perplexity": perplexity.map(rounded),
                "unknown_words": rounded(fit.unknown), "classifier_knows": knowledge.label(), "pieces": pieces.len(),
                "told_apart": rounded(right as f64 / all as f64), "told_apart_upper": rounded(upper), "guessing": 0.5,
            });
            say(report, line)?;
        }
        TestResult::Ok(())
    };
    tell("trigram", Some(perplexity), &mut |piece, rng| Ok(trigram.phrase(form(piece.word), piece.length, rng)))?;
    tell("kneser_ney", Some(fit.perplexity), &mut |piece, rng| Ok(author.phrase(piece.word, piece.length, rng)?))?;
    tell("windows", None, &mut |piece, rng| Ok(window(&vocabulary, &text, piece, rng)))
}

/// Returns the texts that are compared.
fn text_pairs() -> TestResult<Vec<TextPair>> {
    let documents = |folder: &str| -> TestResult<Vec<Vec<Vec<String>>>> {
        let mut all = Vec::new();
        for path in files(&data()?.join("docs").join(folder), "txt")? {
            let text = fs::read_to_string(path)?;
            let lines = text.lines().map(|line| line.split_once(": ").map_or(line, |(_, rest)| rest));
            all.push(TextCorpus::parse(&lines.collect::<Vec<_>>().join("\n\n"))?.sentences().to_vec());
        }
        Ok(all)
    };
    let bundled = TextCorpus::bundled()?.sentences().to_vec();
    let calls = documents("earnings21")?;
    let meetings = documents("ami_meetings")?;
    let [known, spoken] = dialogues()?;
    let other_calls = calls[calls.len() / 2..].concat();
    let spoken = first_words(&spoken, DIALOGUE_WORDS);
    let pair = |name: &str, corpus: Vec<Vec<String>>, spoken: &[Vec<String>]| TextPair {
        name: name.to_owned(),
        corpus,
        spoken: spoken.to_vec(),
    };
    let mut pairs = vec![
        pair("bundled text, calls", bundled.clone(), &other_calls),
        pair("bundled text, dialogues", bundled, &spoken),
        pair(
            "meetings, other meetings",
            meetings[..meetings.len() / 2].concat(),
            &meetings[meetings.len() / 2..].concat(),
        ),
        pair("calls, other calls", calls[..calls.len() / 2].concat(), &other_calls),
    ];
    for words in DIALOGUE_TEXTS {
        pairs.push(pair("dialogues, other dialogues", first_words(&known, words), &spoken));
    }
    Ok(pairs)
}

/// Returns the turns of every other dialogue of SGD, and those of the others.
fn dialogues() -> TestResult<[Vec<Vec<String>>; 2]> {
    let mut halves = [Vec::new(), Vec::new()];
    let (mut last, mut number) = (String::new(), 0);
    for line in fs::read_to_string(data()?.join("intents/sgd_turns.csv"))?.lines().skip(1) {
        let (session, rest) = line.split_once(',').ok_or("a turn without a session")?;
        let text = rest.split_once(',').and_then(|(_, rest)| rest.rsplit_once(',')).ok_or("a turn without a text")?.0;
        if session != last {
            session.clone_into(&mut last);
            number += 1;
        }
        halves[number % 2].extend(TextCorpus::parse(text)?.sentences().iter().cloned());
    }
    Ok(halves)
}

fn first_words(sentences: &[Vec<String>], most: usize) -> Vec<Vec<String>> {
    let mut words = 0;
    let within = |sentence: &&Vec<String>| {
        words += sentence.len();
        words <= most
    };
    sentences.iter().take_while(within).cloned().collect()
}

/// Cuts a text into windows of public lengths, and keeps the first `most` that have at most one word of the vocabulary.
fn cut(vocabulary: &Vocabulary, sentences: &[Vec<String>], most: usize, rng: &mut ChaCha20Rng) -> Vec<TruePiece> {
    let text: Vec<String> = sentences.iter().flatten().cloned().collect();
    let lengths = PhraseLengths::public();
    let (mut rest, mut pieces) = (text.as_slice(), Vec::new());
    while !rest.is_empty() && pieces.len() < most {
        let drawn = lengths.draw(rng);
        let (words, after) = rest.split_at(rest.len().min(drawn.words as usize));
        rest = after;
        let word = match classify_words(vocabulary, words) {
            PieceWords::Several => continue,
            PieceWords::One(word) => Some(word),
            PieceWords::Nothing => None,
        };
        let length = PhraseLength { words: words.len() as u32, ..drawn };
        pieces.push(TruePiece { words: words.to_vec(), word, length });
    }
    pieces
}

fn classify_words(vocabulary: &Vocabulary, words: &[String]) -> PieceWords {
    let word = |text: &String| TimedWord { text: text.clone(), start: 0.0, end: 0.0, confidence: None };
    vocabulary.classify(&words.iter().map(word).collect::<Vec<_>>())
}

/// Returns each true piece with a dummy. As in a job, a phrase is repeated only after some attempts at another.
fn dummies(
    pieces: &[TruePiece],
    draw: &mut dyn FnMut(&TruePiece, &mut ChaCha20Rng) -> TestResult<String>,
) -> TestResult<Vec<LabelledPiece>> {
    let mut rng = ChaCha20Rng::seed_from_u64(SEED);
    let (mut phrases, mut all) = (HashSet::new(), Vec::new());
    for (number, piece) in pieces.iter().enumerate() {
        let mut text = String::new();
        for _ in 0..TRIES {
            text = draw(piece, &mut rng)?;
            if phrases.insert(text.clone()) {
                break;
            }
        }
        let fold = number * FOLDS / pieces.len();
        let words = text.split(' ').map(str::to_owned).collect();
        all.push(LabelledPiece { words: piece.words.clone(), fold, is_dummy: false });
        all.push(LabelledPiece { words, fold, is_dummy: true });
    }
    Ok(all)
}

/// Draws a window of a text, given with the numbers of vocabulary words, that is as long as a piece and has its word; where none is
/// found, the word alone.
fn window(
    vocabulary: &Vocabulary,
    text: &[(&String, Option<u32>)],
    piece: &TruePiece,
    rng: &mut ChaCha20Rng,
) -> String {
    let wanted: Vec<u32> = piece.word.into_iter().collect();
    for _ in 0..WINDOW_TRIES {
        let start = below((text.len() - piece.words.len()) as u32, rng) as usize;
        let window = &text[start..start + piece.words.len()];
        if window.iter().filter_map(|(_, number)| *number).eq(wanted.iter().copied()) {
            return window.iter().map(|(word, _)| word.as_str()).collect::<Vec<_>>().join(" ");
        }
    }
    piece.word.and_then(|word| vocabulary.forms(word).first()).cloned().unwrap_or_default()
}
