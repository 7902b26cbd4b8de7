//! Generates phrases around a word of the vocabulary, after a public text.
//!
//! A piece is a window of a text, so its sentences begin and end anywhere. The word gets a random place; one model of order 4 draws
//! the words before it, nearest first, and another the words after it. This is the chain rule in another order of the
//! words. Both models know where sentences end: a draw of an end adds no word and is the history of the next draw.
//!
//! **Words that the text has not** are a tenth or more of another text of its kind, so phrases without them would be easy to tell. They
//! are drawn from a public list by frequency, as often as the smoothing expects. A word of the vocabulary that the text has
//! seldom or not is put in the place of another rare word, one with the same ending where there is one: otherwise each of its phrases would be the same, or no
//! sentence.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rand_chacha::rand_core::Rng;

use super::corpus::{TextCorpus, WordFrequencies};
use super::kneser_ney::{KneserNeyModel, UnknownWords};
use super::{DummyError, PhraseLength};
use crate::vocabulary::Vocabulary;
use undertone_worker_training::noise::below;

/// Number of draws before a word is drawn without its history.
const TRIES: usize = 64;
/// Occurrences up to which a word of the text is rare.
const RARE: u32 = 2;
/// Weight of other words' places against the occurrences of a word of the vocabulary.
const STAND_IN_WEIGHT: u32 = 2;
/// Longest phrase, in characters with the blanks: about 3.8 s at the usual rate of engines. The longest piece has 4.5 s, and not every
/// engine can be told a rate.
const MOST_CHARACTERS: usize = 64;
/// Longest compared ending, in characters.
const ENDING: usize = 3;

/// Generates phrases for one vocabulary and one text.
pub struct PhraseAuthor<'a> {
    vocabulary: &'a Vocabulary,
    /// By number: the words of the text, an empty word for the end of a sentence, and other words.
    words: Vec<String>,
    numbers: HashMap<String, u32>,
    end: u32,
    /// Occurrences in the text, by number.
    counts: Vec<u32>,
    /// Whether a word may stand in a phrase beside its word of the vocabulary, by number.
    permitted: Vec<bool>,
    /// The counts of permitted words of the text, summed.
    cumulative: Vec<u32>,
    /// The rare permitted words by ending, of each length from none.
    rare: BTreeMap<String, Vec<u32>>,
    forward: KneserNeyModel,
    backward: KneserNeyModel,
}

/// How well a model predicts a text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TextFit {
    /// e to the mean negative log probability of a word, over the words that the model's text has. At least 1.
    pub perplexity: f64,
    /// The share of the other words, 0 to 1.
    pub unknown: f64,
}

impl<'a> PhraseAuthor<'a> {
    /// Trains the models; `others` has words for which the text is too short.
    ///
    /// # Errors
    /// [`DummyError::Corpus`] when the text has no word outside the vocabulary.
    pub fn new(vocabulary: &'a Vocabulary, corpus: &TextCorpus, others: &WordFrequencies) -> Result<Self, DummyError> {
        let known: BTreeSet<&String> = corpus.sentences().iter().flatten().collect();
        let mut words: Vec<String> = known.into_iter().cloned().collect();
        let mut numbers: HashMap<String, u32> = words.iter().cloned().zip(0..).collect();
        let end = words.len() as u32;
        let mut text = Vec::new();
        for sentence in corpus.sentences() {
            text.push(end);
            text.extend(sentence.iter().map(|word| numbers[word]));
        }
        let mut counts = vec![0_u32; words.len()];
        text.iter().filter(|word| **word != end).for_each(|word| counts[*word as usize] += 1);
        let mut permitted: Vec<bool> = words.iter().map(|word| vocabulary.number(word).is_none()).collect();
        let permitted_counts = counts.iter().zip(&permitted).map(|(count, permitted)| u32::from(*permitted) * count);
        let cumulative: Vec<u32> = permitted_counts
            .scan(0, |sum, count| {
                *sum += count;
                Some(*sum)
            })
            .collect();
        if cumulative.last().is_none_or(|sum| *sum == 0) {
            return Err(DummyError::Corpus);
        }
        let rare = rare_words(&words, &counts, &permitted);
        words.push(String::new());
        permitted.push(true);
        let new = |word: &str| !numbers.contains_key(word) && vocabulary.number(word).is_none();
        let others: Vec<&(String, u32)> = others.rows().iter().filter(|(word, _)| new(word)).collect();
        let unknown = || UnknownWords::new(end + 1, others.iter().map(|(_, count)| *count));
        let forward = KneserNeyModel::train(&text, unknown());
        text.reverse();
        let backward = KneserNeyModel::train(&text, unknown());
        for (word, _) in others {
            numbers.insert(word.clone(), words.len() as u32);
            words.push(word.clone());
            permitted.push(true);
        }
        Ok(Self { vocabulary, words, numbers, end, counts, permitted, cumulative, rare, forward, backward })
    }

    /// Generates a phrase around a word at a random position; without a word, around a word of the text.
    ///
    /// # Errors
    /// [`DummyError::Word`] when the vocabulary has no such word.
    pub fn phrase(&self, word: Option<u32>, length: PhraseLength, rng: &mut impl Rng) -> Result<String, DummyError> {
        let place = below(length.words, rng);
        let (form, core) = match word {
            None => (None, self.draw_any(rng)),
            Some(number) => {
                let forms = self.vocabulary.forms(number);
                if forms.is_empty() {
                    return Err(DummyError::Word(number));
                }
                let form = forms[below(forms.len() as u32, rng) as usize].as_str();
                (Some(form), self.draw_core(form, rng))
            }
        };
        let mut phrase = vec![core];
        self.extend(&self.backward, &mut phrase, place, rng);
        phrase.reverse();
        let at = phrase.len() - 1;
        self.extend(&self.forward, &mut phrase, length.words - 1 - place, rng);
        let words = phrase.iter().enumerate().filter(|(_, word)| **word != self.end);
        let words: Vec<(usize, &str)> = words
            .map(|(place, word)| match form {
                Some(form) if place == at => (place, form),
                _ => (place, self.words[*word as usize].as_str()),
            })
            .collect();
        Ok(shorten(&words, at))
    }

    /// Returns how well the model predicts a text, or `None` if it has no word of the model's text. Ends of sentences are known.
    pub fn fit(&self, text: &TextCorpus) -> Option<TextFit> {
        let (mut log, mut known, mut unknown) = (0.0, 0_u32, 0_u32);
        let mut history = Vec::new();
        for sentence in text.sentences() {
            history.push(self.end);
            for word in sentence {
                if let Some(number) = self.numbers.get(word).copied().filter(|number| *number < self.end) {
                    log -= self.forward.probability(&history, number).ln();
                    known += 1;
                    history.push(number);
                } else {
                    unknown += 1;
                    history.clear();
                }
            }
        }
        let fit = TextFit {
            perplexity: (log / f64::from(known)).exp(),
            unknown: f64::from(unknown) / f64::from(known + unknown),
        };
        (known > 0).then_some(fit)
    }

    /// Adds so many words after a history; ends of sentences come in addition.
    fn extend(&self, model: &KneserNeyModel, phrase: &mut Vec<u32>, words: u32, rng: &mut impl Rng) {
        let mut left = words;
        while left > 0 {
            let fits = |word: u32| {
                if word == self.end { phrase.last() != Some(&self.end) } else { self.permitted[word as usize] }
            };
            let candidate = (0..TRIES).map(|_| model.draw(phrase, rng)).find(|word| fits(*word));
            let word = candidate.unwrap_or_else(|| self.draw_any(rng));
            left -= u32::from(word != self.end);
            phrase.push(word);
        }
    }

    /// Draws a permitted word of the text by its count.
    fn draw_any(&self, rng: &mut impl Rng) -> u32 {
        let at = below(self.cumulative.last().copied().unwrap_or(1), rng);
        self.cumulative.partition_point(|upto| *upto <= at) as u32
    }

    /// Draws the word of the text in whose place a word of the vocabulary is put: itself, or a rare one.
    fn draw_core(&self, form: &str, rng: &mut impl Rng) -> u32 {
        let own = self.numbers.get(form).copied().filter(|number| *number < self.end);
        let count = own.map_or(0, |number| self.counts[number as usize]);
        let occurs = below(count.saturating_add(STAND_IN_WEIGHT), rng) < count;
        if let Some(own) = own.filter(|_| occurs) {
            return own;
        }
        match (0..=ENDING).rev().find_map(|length| self.rare.get(ending(form, length))) {
            Some(candidates) => candidates[below(candidates.len() as u32, rng) as usize],
            None => self.draw_any(rng),
        }
    }
}

/// Returns the rare permitted words of the text by ending.
fn rare_words(words: &[String], counts: &[u32], permitted: &[bool]) -> BTreeMap<String, Vec<u32>> {
    let mut rare: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for (number, word) in (0..).zip(words) {
        if permitted[number as usize] && counts[number as usize] <= RARE {
            let endings: BTreeSet<&str> = (0..=ENDING).map(|length| ending(word, length)).collect();
            for ending in endings {
                rare.entry(ending.to_owned()).or_default().push(number);
            }
        }
    }
    rare
}

/// Returns the last characters of a word, `length` of them or all.
fn ending(word: &str, length: usize) -> &str {
    let start = word.char_indices().rev().take(length).last().map_or(word.len(), |(place, _)| place);
    &word[start..]
}

/// Joins words with their places. While the phrase is longer than [`MOST_CHARACTERS`], it loses the outermost word of the side
/// that has more of them around the word at `at`.
fn shorten(words: &[(usize, &str)], at: usize) -> String {
    let mut words = words;
    loop {
        let text = words.iter().map(|(_, word)| *word).collect::<Vec<_>>().join(" ");
        let before = words.iter().filter(|(place, _)| *place < at).count();
        words = match words {
            [_] | [] => return text,
            _ if text.chars().count() <= MOST_CHARACTERS => return text,
            [_, rest @ ..] if 2 * before >= words.len() => rest,
            [rest @ .., _] => rest,
        };
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use rand_chacha::ChaCha20Rng;
    use rand_chacha::rand_core::SeedableRng;

    use super::*;
    use crate::vocabulary::language::StemmingLanguage;
    use crate::vocabulary::{WordList, public};

    fn vocabulary() -> Vocabulary {
        public(StemmingLanguage::new("en").unwrap(), &WordList::parse("fever\nwalking\nsneezing\n").unwrap()).unwrap()
    }

    #[test]
    fn windows_cross_ends_of_sentences() {
        // Sentences have a subject, a verb and an object, so a subject comes after an object, across an end.
        let (subjects, verbs, objects) = (["we", "you", "they"], ["met", "saw", "heard"], ["him", "her", "them"]);
        let sentence =
            |place: usize| format!("{} {} {}.", subjects[place % 3], verbs[place / 3 % 3], objects[place / 5 % 3]);
        let text: Vec<String> = (0..60).map(sentence).collect();
        let vocabulary = vocabulary();
        let corpus = TextCorpus::parse(&text.join(" ")).unwrap();
        let author = PhraseAuthor::new(&vocabulary, &corpus, &WordFrequencies::default()).unwrap();
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let (mut after, mut crossing) = (0, 0);
        for _ in 0..400 {
            let phrase = author.phrase(None, PhraseLength { words: 5, content: 1 }, &mut rng).unwrap();
            let words: Vec<&str> = phrase.split(' ').collect();
            assert_eq!(words.len(), 5, "{phrase}");
            for [one, next] in words.array_windows().filter(|[one, _]| objects.contains(one)) {
                after += 1;
                crossing += usize::from(subjects.contains(next) && *one != *next);
            }
        }
        assert!(after > 300 && 5 * crossing > 4 * after, "{crossing} of {after}");
    }

    #[test]
    fn long_phrase_loses_its_outermost_words() {
        let long = "extraordinarily";
        let words: Vec<(usize, &str)> = [long, long, "a", "word", long, long, long].into_iter().enumerate().collect();
        assert_eq!(shorten(&words, 3), "extraordinarily a word extraordinarily extraordinarily");
        assert_eq!(shorten(&words[..4], 3), "extraordinarily extraordinarily a word");
        let longest = "x".repeat(2 * MOST_CHARACTERS);
        assert_eq!(shorten(&[(0, "an"), (1, &longest)], 1), longest, "the word itself stays");
    }

    #[test]
    fn phrases_have_listed_words_that_the_text_has_not() {
        let corpus = TextCorpus::bundled().unwrap();
        let vocabulary = vocabulary();
        let list = WordFrequencies::bundled(StemmingLanguage::new("en").unwrap());
        let author = PhraseAuthor::new(&vocabulary, &corpus, &list).unwrap();
        let known: BTreeSet<&String> = corpus.sentences().iter().flatten().collect();
        let mut rng = ChaCha20Rng::seed_from_u64(2);
        let length = PhraseLength { words: 10, content: 1 };
        let phrases: Vec<String> = (0..300).map(|_| author.phrase(None, length, &mut rng).unwrap()).collect();
        let new =
            phrases.iter().flat_map(|phrase| phrase.split(' ')).filter(|word| !known.contains(&(*word).to_owned()));
        let new = new.count();
        assert!((100..1_000).contains(&new), "{new} of 3000");
    }

    #[test]
    fn word_outside_the_text_takes_the_place_of_a_rare_one() {
        // "jumping" is the one rare word that ends as "sneezing" does; "walking" is frequent and keeps its own places.
        let text = format!("They are jumping now. {}", "We like walking. ".repeat(98));
        let vocabulary = vocabulary();
        let corpus = TextCorpus::parse(&text).unwrap();
        let author = PhraseAuthor::new(&vocabulary, &corpus, &WordFrequencies::default()).unwrap();
        let mut rng = ChaCha20Rng::seed_from_u64(3);
        let mut core = |form: &str| author.words[author.draw_core(form, &mut rng) as usize].clone();
        let placed: BTreeSet<String> = (0..50).map(|_| core("sneezing")).collect();
        assert_eq!(placed.into_iter().collect::<Vec<_>>(), ["jumping"]);
        let own = (0..1_000).filter(|_| core("walking") == "walking").count();
        assert!((940..1_000).contains(&own), "{own}");
    }

    #[test]
    fn fit_is_better_on_text_of_the_same_kind() {
        let vocabulary = vocabulary();
        let corpus = TextCorpus::parse("The cat sees the dog. The dog sees the cat. A cat sleeps.").unwrap();
        let author = PhraseAuthor::new(&vocabulary, &corpus, &WordFrequencies::default()).unwrap();
        let fit = |text: &str| author.fit(&TextCorpus::parse(text).unwrap());
        let like = fit("The cat sees the cat.").unwrap();
        let mixed = fit("Cat the the sees a zebra.").unwrap();
        assert!(2.0 * like.perplexity < mixed.perplexity, "{like:?} {mixed:?}");
        assert!(like.unknown == 0.0 && (mixed.unknown - 1.0 / 6.0).abs() < 1e-12);
        assert_eq!(fit("zebra"), None);
    }

    #[test]
    fn endings_are_whole_characters() {
        assert_eq!((ending("über", 3), ending("ü", 3), ending("né", 1), ending("a", 0)), ("ber", "ü", "é", ""));
    }
}
