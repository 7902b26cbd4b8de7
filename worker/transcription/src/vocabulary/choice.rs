//! Chooses a vocabulary from transcripts: the most frequent words, and the words that are more frequent than elsewhere.
//!
//! Counts are by stem, without stop words. A stem is chosen when its count is at least that of the stem at the end of the first
//! m percent by count (ties are included, so the order of equal stems has no effect), or when TF-IDF, its share of a
//! transcript's words times [`BaselineCounts::idf`], is above Δ in some transcript (Ahmed et al. 2020, section 4.5.2).

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::language::{StemmingLanguage, normal};
use super::{BaselineCounts, Vocabulary, VocabularyError, VocabularyOrigin, WordList};
use crate::piece::Recognition;

/// Parameters of the choice.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WordChoice {
    /// m, percent of the distinct stems, the most frequent first: 0 to 100.
    pub top_percent: f64,
    /// Δ, the TF-IDF above which a word is chosen, at least 0; `None` disables TF-IDF.
    pub above: Option<f64>,
    /// Largest number of words from the transcripts; of more, those with the largest counts are kept.
    pub most: u32,
}

impl Default for WordChoice {
    /// Chooses a tenth of the words, and unusual words; at most 500.
    fn default() -> Self {
        Self { top_percent: 10.0, above: Some(0.01), most: 500 }
    }
}

impl WordChoice {
    fn check(&self) -> Result<(), VocabularyError> {
        let refuse = |field, reason| Err(VocabularyError::Choice { field, reason });
        if !(0.0..=100.0).contains(&self.top_percent) {
            return refuse("top_percent", "between 0 and 100");
        }
        if self.above.is_some_and(|above| !above.is_finite() || above < 0.0) {
            return refuse("above", "a number of at least 0, or absent");
        }
        if self.most == 0 {
            return refuse("most", "at least 1");
        }
        Ok(())
    }
}

/// Statistics of a stem.
#[derive(Default)]
struct StemCounts {
    count: u64,
    forms: BTreeSet<String>,
    stands_out: bool,
}

/// Returns the vocabulary of `transcripts`, each a document, with all words of an optional public list.
///
/// # Errors
/// [`VocabularyError`] for parameters out of range, or when no word remains or there are too many.
pub fn from_transcripts(
    language: StemmingLanguage,
    transcripts: &[&Recognition],
    choice: &WordChoice,
    baseline: &BaselineCounts,
    list: Option<&WordList>,
) -> Result<Vocabulary, VocabularyError> {
    choice.check()?;
    let statistics = count(language, transcripts, choice, baseline);
    let selection = choose(&statistics, choice);
    let mut forms = list.map(|list| list.stems(language)).unwrap_or_default();
    let disclosed = selection.iter().filter(|stem| !forms.contains_key(**stem)).count() as u32;
    for stem in selection {
        // A stem of the list keeps the list's forms: the spoken forms are not disclosed.
        forms.entry(stem.to_owned()).or_insert_with(|| statistics[stem].forms.clone());
    }
    Vocabulary::new(language, forms, VocabularyOrigin::FromData { told: disclosed, list: list.map(WordList::digest) })
}

fn count(
    language: StemmingLanguage,
    transcripts: &[&Recognition],
    choice: &WordChoice,
    baseline: &BaselineCounts,
) -> BTreeMap<String, StemCounts> {
    let stops = language.stop_words();
    let mut statistics: BTreeMap<String, StemCounts> = BTreeMap::new();
    for transcript in transcripts {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        let mut all = 0_u64;
        let words = transcript.words.iter().flat_map(|word| word.text.split_whitespace()).filter_map(normal);
        for word in words.filter(|word| !stops.contains(word)) {
            let stem = language.stem(&word);
            all += 1;
            *counts.entry(stem.clone()).or_default() += 1;
            statistics.entry(stem).or_default().forms.insert(word);
        }
        for (stem, count) in counts {
            let share = count as f64 / all as f64;
            let unusual = choice.above.is_some_and(|above| share * baseline.idf(&stem) > above);
            let entry = statistics.entry(stem).or_default();
            entry.count += count;
            entry.stands_out |= unusual;
        }
    }
    statistics
}

fn choose<'a>(statistics: &'a BTreeMap<String, StemCounts>, choice: &WordChoice) -> Vec<&'a str> {
    let mut counts: Vec<u64> = statistics.values().map(|statistics| statistics.count).collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let top = (choice.top_percent / 100.0 * counts.len() as f64).ceil() as usize;
    let least = top.checked_sub(1).and_then(|last| counts.get(last)).copied();
    let qualifies =
        |statistics: &StemCounts| statistics.stands_out || least.is_some_and(|least| statistics.count >= least);
    let mut selection: Vec<(&str, u64)> = statistics
        .iter()
        .filter(|(_, statistics)| qualifies(statistics))
        .map(|(stem, statistics)| (stem.as_str(), statistics.count))
        .collect();
    // The sort is stable, so equal stems stay in their order.
    selection.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    selection.truncate(choice.most as usize);
    selection.into_iter().map(|(stem, _)| stem).collect()
}
