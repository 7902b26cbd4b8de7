//! Document frequencies of words in documents of other people, against which unusual words stand out.
//!
//! Frequencies are by stem. A file lists them by word. Of several words of a stem, the largest frequency counts, because the
//! number of documents with any of them is unknown. Counts from texts are exact.

use std::collections::{BTreeSet, HashMap};

use super::VocabularyError;
use super::language::{StemmingLanguage, normal};

/// Document frequencies of stems.
#[derive(Debug, Clone, PartialEq)]
pub struct BaselineCounts {
    documents: u64,
    frequencies: HashMap<String, u64>,
}

impl BaselineCounts {
    /// Parses a table: the line `# documents=N`, then lines of `word`, a tab and the number of documents with the word. A line that
    /// begins with `word` and a tab is a heading.
    ///
    /// # Errors
    /// [`VocabularyError::Line`] with the line.
    pub fn parse(text: &str, language: StemmingLanguage) -> Result<Self, VocabularyError> {
        let wrong =
            |line: usize, reason| VocabularyError::Line { file: "document frequencies", line: line + 1, reason };
        let mut lines = text.lines().enumerate();
        let stated = lines.next().and_then(|(_, line)| line.strip_prefix("# documents="));
        let documents = stated.and_then(|count| count.trim().parse().ok()).filter(|count| *count > 0);
        let documents = documents.ok_or_else(|| wrong(0, "it must be `# documents=` and their number, at least 1"))?;
        let mut frequencies: HashMap<String, u64> = HashMap::new();
        for (number, line) in lines {
            if line.is_empty() || line.starts_with('#') || line.starts_with("word\t") {
                continue;
            }
            let (word, count) = line.split_once('\t').ok_or_else(|| wrong(number, "a word, a tab and a number"))?;
            let count = count.trim().parse::<u64>().ok().filter(|count| *count <= documents);
            let count = count.ok_or_else(|| wrong(number, "the number is that of documents, at most all of them"))?;
            let word = normal(word).ok_or_else(|| wrong(number, "no word before the tab"))?;
            let frequency = frequencies.entry(language.stem(&word)).or_default();
            *frequency = (*frequency).max(count);
        }
        Ok(Self { documents, frequencies })
    }

    /// Counts texts, each a document.
    pub fn count<'a>(texts: impl IntoIterator<Item = &'a str>, language: StemmingLanguage) -> Self {
        let mut baseline = Self { documents: 0, frequencies: HashMap::new() };
        for text in texts {
            baseline.documents += 1;
            let stems: BTreeSet<String> =
                text.split_whitespace().filter_map(normal).map(|word| language.stem(&word)).collect();
            for stem in stems {
                *baseline.frequencies.entry(stem).or_default() += 1;
            }
        }
        baseline
    }

    /// Returns how unusual a stem is: ln((1 + D) / (1 + documents with it)), at least 0; finite also for a stem in no document.
    pub fn idf(&self, stem: &str) -> f64 {
        let having = self.frequencies.get(stem).copied().unwrap_or(0);
        ((1 + self.documents) as f64 / (1 + having) as f64).ln()
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use undertone_worker_site::testing::fixture;

    #[test]
    fn idf_grows_with_rarity() {
        let english = StemmingLanguage::new("en").unwrap();
        let counts = BaselineCounts::count(["the cat and the cats", "the dog", "the"], english);
        assert!(counts.idf("the").abs() < 1e-12);
        assert!((counts.idf("cat") - 2.0_f64.ln()).abs() < 1e-12, "twice in one document is one document");
        assert!((counts.idf("zebra") - 4.0_f64.ln()).abs() < 1e-12);
        let read =
            BaselineCounts::parse("# documents=3\nword\tdf\ncat\t1\ncats\t1\nthe\t3\ndog\t1\n", english).unwrap();
        assert!((read.idf("cat") - counts.idf("cat")).abs() < 1e-12);
    }

    #[test]
    fn invalid_line_is_reported_by_number() {
        let english = StemmingLanguage::new("en").unwrap();
        let refused = |text: &str| BaselineCounts::parse(text, english).unwrap_err().to_string();
        assert!(refused("word\tdf\n").contains("line 1"));
        assert!(refused("# documents=0\n").contains("at least 1"));
        assert!(refused("# documents=3\ncat\t1\ndog\t4\n").contains("line 3"));
        assert!(refused("# documents=3\ncat 1\n").contains("a tab"));
        assert!(refused("# documents=3\n--\t1\n").contains("no word"));
    }

    #[test]
    fn meeting_table_is_parsed() {
        let Some(path) = fixture::data("docs/document_frequency_ami_icsi.tsv") else { return };
        let baseline =
            BaselineCounts::parse(&std::fs::read_to_string(path).unwrap(), StemmingLanguage::new("en").unwrap())
                .unwrap();
        assert!(baseline.idf("about").abs() < 1e-12 && baseline.idf("zebra") > 4.0);
    }
}
