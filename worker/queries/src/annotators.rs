//! Combines several answers to one question, and measures how far annotators agree.
//!
//! An annotator is a number within a job; the server alone knows the person. An answer is a label for an item (a
//! question by its index); answers without a label (unsure, skipped) are not passed to this module. All inputs are
//! about released questions, so the results cost no privacy and may be published.

mod dawid_skene;
mod kappa;
mod majority;
mod simulated;

pub use dawid_skene::{LabelConsensus, SMOOTHING, dawid_skene};
pub use kappa::fleiss_kappa;
pub use majority::majority;
pub use simulated::SimulatedAnnotator;

/// A label that an annotator gave to an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LabelVote {
    /// The question's index.
    pub item: usize,
    /// The annotator's number in the job.
    pub annotator: u32,
    /// An index into the job's labels.
    pub label: u16,
}

/// Counts how often each label was given to each item: `[items, labels]`.
///
/// # Panics
/// If a vote names an item or a label that does not exist.
fn table(votes: &[LabelVote], items: usize, labels: usize) -> Vec<Vec<u32>> {
    let mut table = vec![vec![0; labels]; items];
    for vote in votes {
        table[vote.item][usize::from(vote.label)] += 1;
    }
    table
}

/// Returns the share of an annotator's labels that equal the item's final label; `None` if none can be compared.
pub fn agreement(annotator: u32, votes: &[LabelVote], decided: &[Option<u16>]) -> Option<f64> {
    let own = votes.iter().filter(|vote| vote.annotator == annotator);
    let compared: Vec<bool> =
        own.filter_map(|vote| decided.get(vote.item).copied().flatten().map(|label| label == vote.label)).collect();
    let same = compared.iter().filter(|same| **same).count();
    (!compared.is_empty()).then(|| same as f64 / compared.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::{LabelVote, agreement};

    #[test]
    fn agreement_compares_with_final_labels() {
        let vote = |item, annotator, label| LabelVote { item, annotator, label };
        let votes = [vote(0, 1, 2), vote(1, 1, 0), vote(2, 1, 1), vote(0, 2, 1)];
        let decided = [Some(2), Some(1), None];
        assert_eq!(agreement(1, &votes, &decided), Some(0.5), "an item without a label says nothing");
        assert_eq!(agreement(2, &votes, &decided), Some(0.0));
        assert_eq!(agreement(3, &votes, &decided), None);
    }
}
