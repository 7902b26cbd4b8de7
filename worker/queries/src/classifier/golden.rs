//! The golden set: the labelled public examples that the first classifier learns from.

use crate::classifier::masks::SeedStream;
use crate::classifier::shuffled;

/// Draws `size` of the labelled examples, at most all, the same for the same seed: one of every label that occurs, the
/// most frequent labels first if `size` is smaller than their number. The rest is divided by the remaining examples of
/// each label (largest remainders), and drawn at random within a label. Returns indices, ascending.
pub fn draw(labels: &[u16], size: usize, seed: u64) -> Vec<usize> {
    let size = size.min(labels.len());
    let classes = labels.iter().map(|label| usize::from(*label) + 1).max().unwrap_or(0);
    let mut members: Vec<Vec<usize>> = vec![Vec::new(); classes];
    for index in shuffled(labels.len(), &mut SeedStream::Order(u32::MAX).rng(seed)) {
        members[usize::from(labels[index])].push(index);
    }
    let counts: Vec<usize> = members.iter().map(Vec::len).collect();
    let mut selection: Vec<usize> =
        members.iter().zip(quotas(&counts, size)).flat_map(|(members, quota)| &members[..quota]).copied().collect();
    selection.sort_unstable();
    selection
}

/// Returns the number of examples of each label, `size` in total, none more than `counts`.
fn quotas(counts: &[usize], size: usize) -> Vec<usize> {
    let mut labels: Vec<usize> = (0..counts.len()).filter(|label| counts[*label] > 0).collect();
    labels.sort_by_key(|label| (std::cmp::Reverse(counts[*label]), *label));
    let mut quotas = vec![0; counts.len()];
    labels.iter().take(size).for_each(|label| quotas[*label] = 1);
    // The rest is divided in proportion to the remaining examples of each label. It is at most their sum, so no share
    // exceeds its label's remaining examples.
    let remaining = size.saturating_sub(labels.len()) as u128;
    let spares = labels.iter().map(|label| counts[*label] as u128 - 1).sum::<u128>().max(1);
    let mut remainders = Vec::with_capacity(labels.len());
    for label in labels {
        let share = remaining * (counts[label] as u128 - 1);
        quotas[label] += (share / spares) as usize;
        remainders.push((std::cmp::Reverse(share % spares), label));
    }
    remainders.sort_unstable();
    let missing = size.saturating_sub(quotas.iter().sum());
    remainders.iter().take(missing).for_each(|(_, label)| quotas[*label] += 1);
    quotas
}

#[cfg(test)]
mod tests {
    use super::{draw, quotas};

    #[test]
    fn quotas_cover_labels_and_follow_shares() {
        // One of each, then 7 more in proportion to the remaining 69, 19 and 9: 4.98, 1.37 and 0.65.
        assert_eq!(quotas(&[70, 0, 20, 10], 10), [6, 0, 2, 2]);
        assert_eq!(quotas(&[1000, 1, 1, 1], 8), [5, 1, 1, 1]);
        assert_eq!(quotas(&[3, 5, 4], 2), [0, 1, 1], "the most frequent where there is not room for all");
        assert_eq!(quotas(&[3, 5, 4], 12), [3, 5, 4], "all of them");
        assert_eq!(quotas(&[], 0), [0; 0]);
    }

    #[test]
    fn quotas_sum_to_size_within_counts() {
        let mut state = 1_u32;
        let mut next = |bound: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            ((state >> 8) % bound) as usize
        };
        for _ in 0..2000 {
            let counts: Vec<usize> = (0..=next(6)).map(|_| next(9) * next(9)).collect();
            let total: usize = counts.iter().sum();
            let size = next(total as u32 + 1);
            let quotas = quotas(&counts, size);
            assert_eq!(quotas.iter().sum::<usize>(), size, "{counts:?}");
            assert!(quotas.iter().zip(&counts).all(|(quota, count)| quota <= count), "{counts:?} {quotas:?}");
        }
    }

    #[test]
    fn draw_is_distinct_and_seeded() {
        let labels: Vec<u16> = (0..300).map(|n| if n % 10 == 0 { 2 } else { n % 2 }).collect();
        let selection = draw(&labels, 50, 1);
        assert_eq!(selection.len(), 50);
        assert!(selection.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(selection, draw(&labels, 50, 1));
        assert_ne!(selection, draw(&labels, 50, 2));
        assert_eq!(draw(&labels, 1000, 1).len(), 300, "at most all");
        let rare = selection.iter().filter(|index| labels[**index] == 2).count();
        assert_eq!(rare, 6, "one, and 47 times 29 of 297");
    }
}
