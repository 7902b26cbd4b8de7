//! The label that most gave.

use super::{Vote, table};

/// For each item the label that most gave; of several such the one that comes first in the job's list. `None` for an item without
/// a label. A tie so depends on nothing that could be steered by answering late.
///
/// # Panics
/// If a vote is about an item or a label that there is not.
pub fn majority(votes: &[Vote], items: usize, labels: usize) -> Vec<Option<u16>> {
    let most = |counts: Vec<u32>| {
        let most = counts.iter().copied().max().filter(|most| *most > 0)?;
        counts.iter().position(|count| *count == most).map(|label| label as u16)
    };
    table(votes, items, labels).into_iter().map(most).collect()
}

#[cfg(test)]
mod tests {
    use super::{Vote, majority};

    #[test]
    fn the_most_frequent_label_wins_and_ties_go_to_the_first_of_the_list() {
        let vote = |item, annotator, label| Vote { item, annotator, label };
        let votes = [vote(0, 1, 2), vote(0, 2, 2), vote(0, 3, 0), vote(1, 1, 2), vote(1, 2, 1), vote(3, 5, 0)];
        assert_eq!(majority(&votes, 4, 3), [Some(2), Some(1), None, Some(0)]);
        let mut reversed = votes;
        reversed.reverse();
        assert_eq!(majority(&reversed, 4, 3), majority(&votes, 4, 3), "the order of answers decides nothing");
    }
}
