//! Agreement of annotators beyond chance.

use super::{LabelVote, table};

/// Returns Fleiss' κ (Fleiss 1971): 1 is full agreement, 0 the agreement that chance would give. `None` when no item
/// has two answers, or when all answers are one label and chance would agree as well.
///
/// Items may have different numbers of answers. An item's agreement is the share of its pairs of answers that agree;
/// all items have equal weight. The agreement by chance follows from the shares of the labels among the answers of
/// these items. For equal numbers of answers this is Fleiss' own definition. Items with one answer carry no information
/// about agreement and are left out.
///
/// # Panics
/// If a vote names an item or a label that does not exist.
pub fn fleiss_kappa(votes: &[LabelVote], items: usize, labels: usize) -> Option<f64> {
    let table: Vec<Vec<u32>> =
        table(votes, items, labels).into_iter().filter(|counts| counts.iter().sum::<u32>() >= 2).collect();
    if table.is_empty() {
        return None;
    }
    let mut shares = vec![0_u64; labels];
    let mut observed = 0.0;
    for counts in &table {
        let all: u64 = counts.iter().copied().map(u64::from).sum();
        let pairs: u64 = counts.iter().map(|count| u64::from(*count) * u64::from(count.saturating_sub(1))).sum();
        observed += pairs as f64 / (all * (all - 1)) as f64;
        shares.iter_mut().zip(counts).for_each(|(share, count)| *share += u64::from(*count));
    }
    observed /= table.len() as f64;
    let all: u64 = shares.iter().sum();
    let chance: f64 = shares.iter().map(|share| (*share as f64 / all as f64).powi(2)).sum();
    (chance < 1.0).then(|| (observed - chance) / (1.0 - chance))
}

#[cfg(test)]
mod tests {
    use super::{LabelVote, fleiss_kappa};

    /// The worked example of textbooks for Fleiss' κ: 14 people, 10 items, 5 labels; κ = 0.210.
    const WORKED: [[u32; 5]; 10] = [
        [0, 0, 0, 0, 14],
        [0, 2, 6, 4, 2],
        [0, 0, 3, 5, 6],
        [0, 3, 9, 2, 0],
        [2, 2, 8, 1, 1],
        [7, 7, 0, 0, 0],
        [3, 2, 6, 3, 0],
        [2, 5, 3, 2, 2],
        [6, 5, 2, 1, 0],
        [0, 2, 2, 3, 7],
    ];

    fn votes(table: &[[u32; 5]]) -> Vec<LabelVote> {
        let of = |(item, counts): (usize, &[u32; 5])| {
            let labels: Vec<u16> =
                (0..5).flat_map(|label| std::iter::repeat_n(label, counts[usize::from(label)] as usize)).collect();
            (0..).zip(labels).map(move |(annotator, label)| LabelVote { item, annotator, label }).collect::<Vec<_>>()
        };
        table.iter().enumerate().flat_map(of).collect()
    }

    #[test]
    fn kappa_matches_the_worked_example() {
        let kappa = fleiss_kappa(&votes(&WORKED), 10, 5).expect("there are pairs");
        assert!((kappa - 0.210).abs() < 5e-4, "{kappa}");
    }

    #[test]
    fn kappa_is_one_for_full_agreement() {
        let agreed = votes(&[[3, 0, 0, 0, 0], [0, 2, 0, 0, 0], [0, 0, 1, 0, 0]]);
        assert_eq!(fleiss_kappa(&agreed, 3, 5), Some(1.0));
        assert_eq!(fleiss_kappa(&votes(&[[1, 0, 0, 0, 0]]), 1, 5), None);
        assert_eq!(fleiss_kappa(&votes(&[[3, 0, 0, 0, 0]]), 1, 5), None, "chance would agree as well");
        assert_eq!(fleiss_kappa(&[], 0, 5), None);
    }

    #[test]
    fn kappa_is_negative_for_excess_disagreement() {
        let kappa = fleiss_kappa(&votes(&[[1, 1, 0, 0, 0], [1, 1, 0, 0, 0]]), 2, 5).expect("there are pairs");
        assert!((kappa + 1.0).abs() < 1e-12, "{kappa}");
    }
}
