//! The golden set: the labelled public examples with which a classifier begins.

use crate::queries::classifier::masks::Stream;
use crate::queries::classifier::shuffled;

/// Chooses `size` of some labelled examples, at most all, the same for the same seed: one of every label that occurs, the most
/// frequent first where there is not room for all; the rest by what each label has left (largest remainders); within a label by
/// chance. Answers with indices, ascending.
pub fn draw(labels: &[u16], size: usize, seed: u64) -> Vec<usize> {
    let size = size.min(labels.len());
    let classes = labels.iter().map(|label| usize::from(*label) + 1).max().unwrap_or(0);
    let mut members: Vec<Vec<usize>> = vec![Vec::new(); classes];
    for index in shuffled(labels.len(), &mut Stream::Order(u32::MAX).of(seed)) {
        members[usize::from(labels[index])].push(index);
    }
    let counts: Vec<usize> = members.iter().map(Vec::len).collect();
    let mut chosen: Vec<usize> =
        members.iter().zip(quotas(&counts, size)).flat_map(|(members, quota)| &members[..quota]).copied().collect();
    chosen.sort_unstable();
    chosen
}

/// How many of each label, `size` in all, none more than there are.
fn quotas(counts: &[usize], size: usize) -> Vec<usize> {
    let mut labels: Vec<usize> = (0..counts.len()).filter(|label| counts[*label] > 0).collect();
    labels.sort_by_key(|label| (std::cmp::Reverse(counts[*label]), *label));
    let mut quotas = vec![0; counts.len()];
    labels.iter().take(size).for_each(|label| quotas[*label] = 1);
    // What is left is shared by what each label has left. It is at most all of that, so no share is more than there is.
    let left = size.saturating_sub(labels.len()) as u128;
    let spares = labels.iter().map(|label| counts[*label] as u128 - 1).sum::<u128>().max(1);
    let mut remainders = Vec::with_capacity(labels.len());
    for label in labels {
        let share = left * (counts[label] as u128 - 1);
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
    fn every_label_that_occurs_is_there_and_the_rest_follows_the_shares() {
        // One of each, then 7 more by what is left of 69, 19 and 9: 4.98, 1.37 and 0.65.
        assert_eq!(quotas(&[70, 0, 20, 10], 10), [6, 0, 2, 2]);
        assert_eq!(quotas(&[1000, 1, 1, 1], 8), [5, 1, 1, 1]);
        assert_eq!(quotas(&[3, 5, 4], 2), [0, 1, 1], "the most frequent where there is not room for all");
        assert_eq!(quotas(&[3, 5, 4], 12), [3, 5, 4], "all of them");
        assert_eq!(quotas(&[], 0), [0; 0]);
    }

    #[test]
    fn quotas_are_never_more_than_there_are_and_always_the_size() {
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
    fn a_draw_has_no_index_twice_and_follows_its_seed() {
        let labels: Vec<u16> = (0..300).map(|n| if n % 10 == 0 { 2 } else { n % 2 }).collect();
        let chosen = draw(&labels, 50, 1);
        assert_eq!(chosen.len(), 50);
        assert!(chosen.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(chosen, draw(&labels, 50, 1));
        assert_ne!(chosen, draw(&labels, 50, 2));
        assert_eq!(draw(&labels, 1000, 1).len(), 300, "at most all");
        let rare = chosen.iter().filter(|index| labels[**index] == 2).count();
        assert_eq!(rare, 6, "one, and 47 times 29 of 297");
    }
}
