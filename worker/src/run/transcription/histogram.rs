//! The possible counts of each provider: the words spoken in its pieces, and those in all its sounds, including
//! dummies.

use undertone_api::job::transcription::HistogramBin;

use super::pieces::PieceCatalog;
use crate::speech::transcribe::attack::topic;
use crate::speech::transcribe::plan::{BatchItem, Plan};

/// Counts of one provider, by the number of the word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProviderCounts {
    /// Occurrences in true pieces.
    pub(super) said: Vec<u64>,
    /// Occurrences in true pieces and dummies.
    pub(super) heard: Vec<u64>,
    /// True pieces.
    pub(super) pieces: u64,
    /// Dummies, including those without a word of the vocabulary.
    pub(super) dummies: u64,
}

impl ProviderCounts {
    /// Counts the words of every provider, in their order.
    pub(super) fn count(catalog: &PieceCatalog, plan: &Plan) -> Vec<Self> {
        let words = catalog.vocabulary.len() as usize;
        let none = Self { said: vec![0; words], heard: vec![0; words], pieces: 0, dummies: 0 };
        let mut all = vec![none; plan.providers() as usize];
        for (counts, provider) in all.iter_mut().zip(0..) {
            for item in plan.batch(provider) {
                let BatchItem::Piece(number) = item else { continue };
                counts.pieces += 1;
                let words = catalog.part(*number).map_or(&[][..], |(_, part)| part.offline.words.as_slice());
                for word in words.iter().filter_map(|word| catalog.vocabulary.number(&word.text)) {
                    counts.said[word as usize] += 1;
                    counts.heard[word as usize] += 1;
                }
            }
        }
        for dummy in plan.dummies() {
            let counts = &mut all[dummy.provider as usize];
            counts.dummies += 1;
            if let Some(word) = dummy.word {
                counts.heard[word as usize] += 1;
            }
        }
        all
    }

    /// Returns the number of words by their occurrences: bins of 0, 1, 2, 4 and so on, up to the last that has a word.
    pub(super) fn bins(&self) -> Vec<HistogramBin> {
        let bin = |count: u64| if count == 0 { 0 } else { count.ilog2() as usize + 1 };
        let last = self.heard.iter().chain(&self.said).map(|count| bin(*count)).max().unwrap_or(0);
        let mut bins: Vec<HistogramBin> = (0..=last)
            .map(|bin| HistogramBin { occurrences: if bin == 0 { 0 } else { 1 << (bin - 1) }, said: 0, heard: 0 })
            .collect();
        for (said, heard) in self.said.iter().zip(&self.heard) {
            bins[bin(*said)].said += 1;
            bins[bin(*heard)].heard += 1;
        }
        bins
    }

    /// Returns the Jensen–Shannon distance between the words of true pieces and the words of all sounds, as
    /// distributions: 0 to 1. `None` without words in true pieces.
    pub(super) fn topic_distance(&self) -> Option<f64> {
        topic::distance(&self.said, &self.heard)
    }
}

#[cfg(test)]
mod tests {
    use super::{HistogramBin, ProviderCounts};

    fn counts(said: &[u64], heard: &[u64]) -> ProviderCounts {
        ProviderCounts { said: said.to_vec(), heard: heard.to_vec(), pieces: 0, dummies: 0 }
    }

    #[test]
    fn bins_are_powers_of_two_and_count_every_word_once() {
        let bins = counts(&[0, 0, 1, 3], &[0, 2, 5, 4]).bins();
        let counts: Vec<_> =
            bins.iter().map(|HistogramBin { occurrences, said, heard }| (*occurrences, *said, *heard)).collect();
        assert_eq!(counts, [(0, 2, 1), (1, 1, 0), (2, 1, 1), (4, 0, 2)]);
    }
}
