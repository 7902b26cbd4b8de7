//! Guidance for d: what three attacks learn from the counts of pieces that one provider receives, by distance.
//!
//! The adversary reads counts alone, dummies included: those of the most frequent words of its corpus without stop words, and of
//! pieces without any of them. It knows the noise and the number of true pieces, has texts of every class, and decides by the
//! likelihood of independent normal counts. A piece is six words, 2.4 seconds at 150 words a minute; pieces with several
//! words of the vocabulary stay. Distance 0 stands for no dummies.
//!
//! | attack | classes | test |
//! |---|---|---|
//! | topic | the ten largest tasks of SGD (public dialogues) | blocks of pieces drawn from the second half of a task's texts; the first half is known |
//! | style | the speakers of one AMI meeting or Earnings-21 call with enough words | blocks of the second half of a speaker's words; the first half is known |
//! | kind | meeting or call | a whole conversation; all others are known |

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::num::NonZeroU32;
use std::rc::Rc;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng as _};
use serde_json::json;
use support::stage::TestResult;
use undertone_api::job::transcription::window::{WORDS_PER_MINUTE, hidden_span, hidden_words};
use undertone_privacy::histogram::{Differences, Partition, TruncatedLaplace};
use undertone_privacy::{Delta, Epsilon};
use undertone_worker::dp::noise::{DiscreteLaplace, below};
use undertone_worker::speech::transcribe::piece::TimedWord;
use undertone_worker::speech::transcribe::vocabulary::language::{StemmingLanguage, normal};
use undertone_worker::speech::transcribe::vocabulary::{PieceWords, Vocabulary, WordList, public};

use super::document::{data, files};
use super::{SEED, rounded, say};
use crate::report::Report;

/// The compared distances; 0 for no dummies.
const DISTANCES: [u32; 8] = [0, 10, 20, 50, 102, 200, 500, 1_000];
/// Words of a piece.
const PIECE: usize = 6;
/// Words of a vocabulary.
const VOCABULARY: usize = 200;
/// Words of a class that are used.
const MOST_WORDS: usize = 40_000;
/// Tasks of the topic attack.
const TASKS: usize = 10;
/// Drawn blocks of a task, at each length.
const BLOCKS: usize = 20;

/// The share of a class's pieces by word, and for none of them.
type ClassRates = BTreeMap<String, Vec<f64>>;

/// A histogram whose class is to be found among those known.
struct CountTest {
    class: String,
    counts: Vec<u64>,
    known: Rc<ClassRates>,
}

/// # Errors
/// When the data are missing.
pub(super) fn measure(report: &mut Report) -> TestResult<()> {
    let language = StemmingLanguage::new("en")?;
    let mut rng = ChaCha20Rng::seed_from_u64(SEED);
    for minutes in [5, 30, 120] {
        attack(report, &format!("topic, {minutes} minutes"), &topic(language, minutes, &mut rng)?, 3, &mut rng)?;
    }
    for minutes in [1, 2] {
        attack(report, &format!("style, {minutes} minutes"), &style(language, minutes)?, 10, &mut rng)?;
    }
    attack(report, "kind, whole conversations", &kind(language)?, 50, &mut rng)
}

/// Runs an attack at each distance, with `draws` draws of the noise for each test.
fn attack(report: &mut Report, name: &str, tests: &[CountTest], draws: usize, rng: &mut ChaCha20Rng) -> TestResult<()> {
    let chance = tests.iter().map(|test| 1.0 / test.known.len() as f64).sum::<f64>() / tests.len() as f64;
    for distance in DISTANCES {
        let noise = NonZeroU32::new(distance).map(calibrate).transpose()?;
        let draws = if noise.is_some() { draws } else { 1 };
        let mut right = 0;
        for test in tests {
            for _ in 0..draws {
                let counts: Vec<f64> = match noise {
                    None => test.counts.iter().map(|count| *count as f64).collect(),
                    Some(noise) => received(&test.counts, noise, rng)?,
                };
                right += usize::from(decide(test, &counts, noise) == test.class);
            }
        }
        say(
            report,
            json!({
                "distance": distance, "attack": name, "tests": tests.len(), "draws": draws, "chance": rounded(chance),
                "accuracy": rounded(right as f64 / (tests.len() * draws) as f64),
                "hidden_words": hidden_words(distance), "hidden_seconds": rounded(hidden_span(distance)),
            }),
        )?;
    }
    Ok(())
}

/// Returns the noise of ε = 1 and δ = 10⁻⁵ against a provider that receives everything.
fn calibrate(distance: NonZeroU32) -> TestResult<TruncatedLaplace> {
    let (epsilon, delta) = (Epsilon::new(1.0)?, Delta::new(1e-5)?);
    Ok(TruncatedLaplace::calibrated(epsilon, delta, distance, Partition::NONE, Differences::Mixed)?)
}

fn received(counts: &[u64], noise: TruncatedLaplace, rng: &mut ChaCha20Rng) -> TestResult<Vec<f64>> {
    let sampler = DiscreteLaplace::new(noise.rate()).ok_or("a rate that can be drawn")?;
    let dummies = |rng: &mut ChaCha20Rng| (i64::from(noise.shift()) + sampler.sample(rng)).max(0) as f64;
    Ok(counts.iter().map(|count| *count as f64 + dummies(rng)).collect())
}

/// Returns the class of greatest likelihood: each count is normal, with the mean and the variance of its dummies and of a Poisson
/// number of pieces.
fn decide(test: &CountTest, counts: &[f64], noise: Option<TruncatedLaplace>) -> String {
    let (mean, variance) = noise.map_or((0.0, 0.0), |noise| (noise.mean(), noise.variance()));
    let pieces = test.counts.iter().sum::<u64>() as f64;
    let likelihood = |rates: &[f64]| -> f64 {
        let term = |(count, rate): (&f64, &f64)| {
            let spread = pieces * rate + variance + 0.25;
            -((count - mean - pieces * rate).powi(2) / spread + spread.ln()) / 2.0
        };
        counts.iter().zip(rates).map(term).sum()
    };
    let scores = test.known.iter().map(|(class, rates)| (likelihood(rates), class));
    scores.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, class)| class.clone()).unwrap_or_default()
}

/// Texts of one class.
type ClassTexts = BTreeMap<String, Vec<String>>;

fn topic(language: StemmingLanguage, minutes: usize, rng: &mut impl Rng) -> TestResult<Vec<CountTest>> {
    let mut texts = ClassTexts::new();
    for line in fs::read_to_string(data()?.join("intents/sgd_turns.csv"))?.lines().skip(1) {
        let turn = line.splitn(3, ',').nth(2).and_then(|rest| rest.rsplit_once(','));
        let (text, task) = turn.ok_or("a turn without a task")?;
        // Tasks are in camel case; acts such as INFORM are not.
        if task.chars().any(|sign| sign.is_ascii_lowercase()) {
            texts.entry(task.to_owned()).or_default().extend(words(text));
        }
    }
    let mut sizes: Vec<(usize, String)> = texts.iter().map(|(task, words)| (words.len(), task.clone())).collect();
    sizes.sort_by(|one, other| other.cmp(one));
    let largest: BTreeSet<String> = sizes.into_iter().take(TASKS).map(|(_, task)| task).collect();
    texts.retain(|task, _| largest.contains(task));
    let vocabulary = frequent_words(language, texts.values(), VOCABULARY)?;
    let halves = halve(&texts);
    let known = Rc::new(rates(&vocabulary, halves.iter().map(|(class, (known, _))| (class, *known))));
    let mut tests = Vec::new();
    for (class, (_, rest)) in &halves {
        let pieces: Vec<&[String]> = rest.chunks(PIECE).collect();
        for _ in 0..BLOCKS {
            let block = (0..minutes * pieces_per_minute()).map(|_| pieces[below(pieces.len() as u32, rng) as usize]);
            tests.push(CountTest { class: class.clone(), counts: count(&vocabulary, block), known: Rc::clone(&known) });
        }
    }
    Ok(tests)
}

fn style(language: StemmingLanguage, minutes: usize) -> TestResult<Vec<CountTest>> {
    let block = minutes * pieces_per_minute();
    let mut tests = Vec::new();
    for (_, conversation) in conversations()? {
        let mut texts = ClassTexts::new();
        for (speaker, text) in conversation.lines().filter_map(|line| line.split_once(": ")) {
            texts.entry(speaker.to_owned()).or_default().extend(words(text));
        }
        texts.retain(|_, words| words.len() >= 2 * PIECE * block);
        if texts.len() < 2 {
            continue;
        }
        let vocabulary = frequent_words(language, texts.values(), VOCABULARY)?;
        let halves = halve(&texts);
        let known = Rc::new(rates(&vocabulary, halves.iter().map(|(class, (known, _))| (class, *known))));
        for (class, (_, rest)) in &halves {
            for block in rest.chunks_exact(PIECE * block) {
                let counts = count(&vocabulary, block.chunks(PIECE));
                tests.push(CountTest { class: class.clone(), counts, known: Rc::clone(&known) });
            }
        }
    }
    Ok(tests)
}

fn kind(language: StemmingLanguage) -> TestResult<Vec<CountTest>> {
    let texts: Vec<(String, Vec<String>)> = conversations()?
        .into_iter()
        .map(|(kind, text)| {
            let lines = text.lines().map(|line| line.split_once(": ").map_or(line, |(_, rest)| rest));
            (kind.to_owned(), lines.flat_map(words).collect())
        })
        .collect();
    let vocabulary = frequent_words(language, texts.iter().map(|(_, words)| words), VOCABULARY)?;
    let test = |number: usize| {
        let others = texts.iter().enumerate().filter(|(other, _)| *other != number);
        let known = rates(&vocabulary, others.map(|(_, (class, words))| (class, words.as_slice())));
        let (class, words) = &texts[number];
        CountTest { class: class.clone(), counts: count(&vocabulary, words.chunks(PIECE)), known: Rc::new(known) }
    };
    Ok((0..texts.len()).map(test).collect())
}

/// Returns the conversations of both corpora with their kinds.
fn conversations() -> TestResult<Vec<(&'static str, String)>> {
    let mut all = Vec::new();
    for (kind, folder) in [("meeting", "ami_meetings"), ("call", "earnings21")] {
        for path in files(&data()?.join("docs").join(folder), "txt")? {
            all.push((kind, fs::read_to_string(path)?));
        }
    }
    Ok(all)
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().filter_map(normal).collect()
}

const fn pieces_per_minute() -> usize {
    WORDS_PER_MINUTE as usize / PIECE
}

/// Returns the first and the second half of each class's words.
fn halve<'a>(texts: &'a ClassTexts) -> BTreeMap<String, (&'a [String], &'a [String])> {
    let half = |words: &'a Vec<String>| {
        let used = &words[..words.len().min(MOST_WORDS)];
        used.split_at(used.len() / 2)
    };
    texts.iter().map(|(class, words)| (class.clone(), half(words))).collect()
}

/// Returns the most frequent words without stop words.
///
/// # Errors
/// When no word is left.
pub(super) fn frequent_words<'a>(
    language: StemmingLanguage,
    texts: impl Iterator<Item = &'a Vec<String>>,
    most: usize,
) -> TestResult<Vocabulary> {
    let stops = language.stop_words();
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for word in texts.flatten().filter(|word| !stops.contains(*word)) {
        *counts.entry(word).or_default() += 1;
    }
    let mut all: Vec<(u64, &str)> = counts.into_iter().map(|(word, count)| (count, word)).collect();
    all.sort_by(|one, other| other.cmp(one));
    let list: Vec<String> = all.into_iter().take(most).map(|(_, word)| word.to_owned()).collect();
    Ok(public(language, &WordList::from_words(&list)?)?)
}

/// Counts pieces by word of the vocabulary, and for none of them.
fn count<'a>(vocabulary: &Vocabulary, pieces: impl Iterator<Item = &'a [String]>) -> Vec<u64> {
    let words = vocabulary.len() as usize;
    let mut counts = vec![0; words + 1];
    for piece in pieces {
        let word = |text: &String| TimedWord { text: text.clone(), start: 0.0, end: 0.0, confidence: None };
        match vocabulary.classify(&piece.iter().map(word).collect::<Vec<_>>()) {
            PieceWords::Nothing => counts[words] += 1,
            PieceWords::One(word) => counts[word as usize] += 1,
            PieceWords::Several => {}
        }
    }
    counts
}

/// Returns the smoothed share of each class's pieces by word.
fn rates<'a>(vocabulary: &Vocabulary, texts: impl Iterator<Item = (&'a String, &'a [String])>) -> ClassRates {
    let mut sums: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for (class, words) in texts {
        let counts = count(vocabulary, words.chunks(PIECE));
        let sum = sums.entry(class.clone()).or_insert_with(|| vec![0; counts.len()]);
        sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    let share = |counts: Vec<u64>| {
        let all = counts.iter().sum::<u64>() as f64 + 0.5 * counts.len() as f64;
        counts.into_iter().map(|count| (count as f64 + 0.5) / all).collect()
    };
    sums.into_iter().map(|(class, counts)| (class, share(counts))).collect()
}
