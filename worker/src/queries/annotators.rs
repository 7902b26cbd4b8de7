//! What several answers to one question come to, and how far people agree.
//!
//! Annotators are numbers of a job; who they are is the server's business. An answer is a label, given to an item (a question by
//! its index); answers without a label (unsure, skipped) are none here. All of this is about released questions, so it costs
//! nothing and may be told.

mod dawid_skene;
mod kappa;
mod majority;
mod simulated;

pub use dawid_skene::{Consensus, SMOOTHING, dawid_skene};
pub use kappa::fleiss_kappa;
pub use majority::majority;
pub use simulated::Simulated;

/// A label that somebody gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Vote {
    /// The question's index.
    pub item: usize,
    /// The annotator's number in the job.
    pub annotator: u32,
    /// An index into the job's labels.
    pub label: u16,
}

/// For each item, how often each label was given: `[items, labels]`.
///
/// # Panics
/// If a vote is about an item or a label that there is not.
fn table(votes: &[Vote], items: usize, labels: usize) -> Vec<Vec<u32>> {
    let mut table = vec![vec![0; labels]; items];
    for vote in votes {
        table[vote.item][usize::from(vote.label)] += 1;
    }
    table
}

/// Part of an annotator's labels that are the item's in the end; `None` without any that can be compared.
pub fn agreement(annotator: u32, votes: &[Vote], decided: &[Option<u16>]) -> Option<f64> {
    let own = votes.iter().filter(|vote| vote.annotator == annotator);
    let compared: Vec<bool> =
        own.filter_map(|vote| decided.get(vote.item).copied().flatten().map(|label| label == vote.label)).collect();
    let same = compared.iter().filter(|same| **same).count();
    (!compared.is_empty()).then(|| same as f64 / compared.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::{Vote, agreement};

    #[test]
    fn agreement_is_with_what_was_decided() {
        let vote = |item, annotator, label| Vote { item, annotator, label };
        let votes = [vote(0, 1, 2), vote(1, 1, 0), vote(2, 1, 1), vote(0, 2, 1)];
        let decided = [Some(2), Some(1), None];
        assert_eq!(agreement(1, &votes, &decided), Some(0.5), "an item without a label says nothing");
        assert_eq!(agreement(2, &votes, &decided), Some(0.0));
        assert_eq!(agreement(3, &votes, &decided), None);
    }
}
