//! A vocabulary by what was said: the most frequent words, and those that are more frequent than elsewhere.
//!
//! Counts are by stem, without stop words. A stem is taken when its count is at least that of the stem at the end of the
//! first m percent by count (whole ties, so that nothing depends on how equals are ordered), or when TF-IDF, its share of a
//! transcript's words times [`Baseline::idf`], is above Δ in some transcript (Ahmed et al. 2020, section 4.5.2).

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::language::{Language, normal};
use super::{Baseline, List, Origin, Vocabulary, VocabularyError};
use crate::speech::transcribe::piece::Heard;

/// What is taken.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// m, percent of the different words, the most frequent first: 0 to 100.
    pub top_percent: f64,
    /// Δ, above which TF-IDF takes a word, at least 0; absent for no word by TF-IDF.
    pub above: Option<f64>,
    /// Most words of the transcripts; of more, those with the greatest counts.
    pub most: u32,
}

impl Default for Choice {
    /// A tenth of the words, and what stands out; at most 500.
    fn default() -> Self {
        Self { top_percent: 10.0, above: Some(0.01), most: 500 }
    }
}

impl Choice {
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

/// What is known of a stem.
#[derive(Default)]
struct Seen {
    count: u64,
    forms: BTreeSet<String>,
    stands_out: bool,
}

/// The vocabulary of `transcripts`, each a document, with all of a public list beside it where there is one.
///
/// # Errors
/// [`VocabularyError`] for a choice that cannot be, or when no word is left or too many are.
pub fn from_transcripts(
    language: Language,
    transcripts: &[&Heard],
    choice: &Choice,
    baseline: &Baseline,
    list: Option<&List>,
) -> Result<Vocabulary, VocabularyError> {
    choice.check()?;
    let seen = count(language, transcripts, choice, baseline);
    let chosen = choose(&seen, choice);
    let mut forms = list.map(|list| list.stems(language)).unwrap_or_default();
    let told = chosen.iter().filter(|stem| !forms.contains_key(**stem)).count() as u32;
    for stem in chosen {
        // A stem of the list is said as the list has it: how it was said here is nobody's business.
        forms.entry(stem.to_owned()).or_insert_with(|| seen[stem].forms.clone());
    }
    Vocabulary::new(language, forms, Origin::FromData { told, list: list.map(List::digest) })
}

fn count(language: Language, transcripts: &[&Heard], choice: &Choice, baseline: &Baseline) -> BTreeMap<String, Seen> {
    let stops = language.stop_words();
    let mut seen: BTreeMap<String, Seen> = BTreeMap::new();
    for transcript in transcripts {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        let mut all = 0_u64;
        let words = transcript.words.iter().flat_map(|word| word.text.split_whitespace()).filter_map(normal);
        for word in words.filter(|word| !stops.contains(word)) {
            let stem = language.stem(&word);
            all += 1;
            *counts.entry(stem.clone()).or_default() += 1;
            seen.entry(stem).or_default().forms.insert(word);
        }
        for (stem, count) in counts {
            let share = count as f64 / all as f64;
            let unusual = choice.above.is_some_and(|above| share * baseline.idf(&stem) > above);
            let known = seen.entry(stem).or_default();
            known.count += count;
            known.stands_out |= unusual;
        }
    }
    seen
}

fn choose<'a>(seen: &'a BTreeMap<String, Seen>, choice: &Choice) -> Vec<&'a str> {
    let mut counts: Vec<u64> = seen.values().map(|seen| seen.count).collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let top = (choice.top_percent / 100.0 * counts.len() as f64).ceil() as usize;
    let least = top.checked_sub(1).and_then(|last| counts.get(last)).copied();
    let taken = |seen: &Seen| seen.stands_out || least.is_some_and(|least| seen.count >= least);
    let mut chosen: Vec<(&str, u64)> =
        seen.iter().filter(|(_, seen)| taken(seen)).map(|(stem, seen)| (stem.as_str(), seen.count)).collect();
    // Stable, so equals stay in the order of their stems.
    chosen.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    chosen.truncate(choice.most as usize);
    chosen.into_iter().map(|(stem, _)| stem).collect()
}
