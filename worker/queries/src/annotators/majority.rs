//! Majority vote.

use super::{LabelVote, table};

/// Returns the most frequent label of each item; of several such labels the first in the job's list. `None` for an item
/// without a label. A late answer therefore cannot decide a tie by its position.
///
/// # Panics
/// If a vote names an item or a label that does not exist.
pub fn majority(votes: &[LabelVote], items: usize, labels: usize) -> Vec<Option<u16>> {
    let most = |counts: Vec<u32>| {
        let most = counts.iter().copied().max().filter(|most| *most > 0)?;
        counts.iter().position(|count| *count == most).map(|label| label as u16)
    };
    table(votes, items, labels).into_iter().map(most).collect()
}

#[cfg(test)]
mod tests {
    use super::{LabelVote, majority};

    #[test]
    fn majority_breaks_ties_by_label_order() {
        let vote = |item, annotator, label| LabelVote { item, annotator, label };
        let votes = [vote(0, 1, 2), vote(0, 2, 2), vote(0, 3, 0), vote(1, 1, 2), vote(1, 2, 1), vote(3, 5, 0)];
        assert_eq!(majority(&votes, 4, 3), [Some(2), Some(1), None, Some(0)]);
        let mut reversed = votes;
        reversed.reverse();
        assert_eq!(majority(&reversed, 4, 3), majority(&votes, 4, 3), "the order of answers decides nothing");
    }
}
