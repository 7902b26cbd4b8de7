//! The words of the corpus: a lexicon of those in the training transcripts, and their bigrams.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The marks of a sentence's beginning and end.
const BEGIN: &str = "<s>";
const END: &str = "</s>";

type Fallible<T> = Result<T, Box<dyn Error>>;

/// The files of words.
pub(crate) struct WordFiles {
    pub(crate) lexicon: PathBuf,
    pub(crate) language_model: PathBuf,
}

/// Writes both files of the training transcripts.
///
/// # Errors
/// When a file cannot be read or written, or a word has no pronunciation.
pub(crate) fn write_word_files(data: &Path, folder: &Path) -> Fallible<WordFiles> {
    let sentences = sentences(&data.join("speech/an4-train"))?;
    let words: BTreeSet<&str> = sentences.iter().flatten().map(String::as_str).collect();
    let dictionary = std::fs::read_to_string(data.join("dict/cmudict.dict"))?;
    let of_words = |line: &&str| {
        let word = line.split([' ', '(']).next().unwrap_or_default();
        words.contains(word)
    };
    let lexicon = dictionary.lines().filter(of_words).collect::<Vec<_>>().join("\n");
    let files = WordFiles { lexicon: folder.join("words.dict"), language_model: folder.join("words.arpa") };
    std::fs::write(&files.lexicon, lexicon)?;
    std::fs::write(&files.language_model, bigrams(&sentences, &words))?;
    Ok(files)
}

/// Returns all recordings below a folder of speakers and chapters, in order.
///
/// # Errors
/// When a folder cannot be read.
pub(super) fn recordings(folder: &Path) -> Fallible<Vec<PathBuf>> {
    Ok(chapters(folder)?.into_iter().filter(|path| path.extension().is_some_and(|end| end == "flac")).collect())
}

/// Returns all files of all chapters, in order.
fn chapters(folder: &Path) -> Fallible<Vec<PathBuf>> {
    let list = |folder: &Path| -> std::io::Result<Vec<PathBuf>> {
        let mut entries: Vec<PathBuf> =
            std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
        entries.sort();
        Ok(entries)
    };
    let mut files = Vec::new();
    for speaker in list(folder)? {
        for chapter in list(&speaker)? {
            files.extend(list(&chapter)?);
        }
    }
    Ok(files)
}

/// Returns the words of each transcript, in lower case.
///
/// # Errors
/// When a file cannot be read.
pub(crate) fn sentences(folder: &Path) -> Fallible<Vec<Vec<String>>> {
    let mut sentences = Vec::new();
    for file in chapters(folder)?.iter().filter(|path| path.to_string_lossy().ends_with(".trans.txt")) {
        for line in std::fs::read_to_string(file)?.lines() {
            sentences.push(line.split_whitespace().skip(1).map(str::to_lowercase).collect());
        }
    }
    Ok(sentences)
}

/// Returns the bigram model with the weights of Witten & Bell (1991), as an ARPA file.
fn bigrams(sentences: &[Vec<String>], words: &BTreeSet<&str>) -> String {
    let mut pairs: BTreeMap<&str, BTreeMap<&str, f64>> = BTreeMap::new();
    let mut counts: BTreeMap<&str, f64> = words.iter().copied().chain([END]).map(|word| (word, 1.0)).collect();
    for sentence in sentences {
        let mut before = BEGIN;
        for word in sentence.iter().map(String::as_str).chain([END]) {
            *pairs.entry(before).or_default().entry(word).or_default() += 1.0;
            *counts.entry(word).or_default() += 1.0;
            before = word;
        }
    }
    let all: f64 = counts.values().sum();
    let unigram = |word: &str| counts.get(word).map_or(0.0, |count| count / all);
    let (mut singles, mut doubles, mut double_count) = (String::new(), String::new(), 0);
    for word in [BEGIN].into_iter().chain(counts.keys().copied()) {
        let after = pairs.get(word);
        let mut weight = 1.0;
        if let Some(after) = after {
            let (total, types) = (after.values().sum::<f64>(), after.len() as f64);
            let probability = |next: &str, count: f64| (count + types * unigram(next)) / (total + types);
            let kept: f64 = after.iter().map(|(next, count)| probability(next, *count)).sum();
            let known: f64 = after.keys().map(|next| unigram(next)).sum();
            weight = (1.0 - kept).max(1e-9) / (1.0 - known).max(1e-9);
            for (next, count) in after {
                // Writing to a string cannot fail.
                let _ = writeln!(doubles, "{:.6} {word} {next}", probability(next, *count).log10());
                double_count += 1;
            }
        }
        let single = if word == BEGIN { -99.0 } else { unigram(word).log10() };
        let _ = writeln!(singles, "{single:.6} {word} {:.6}", weight.log10());
    }
    let single_count = counts.len() + 1;
    format!(
        "\\data\\\nngram 1={single_count}\nngram 2={double_count}\n\n\\1-grams:\n{singles}\n\\2-grams:\n{doubles}\n\\end\\\n"
    )
}
