//! Labels by how well each annotator agrees with the others, label by label (Dawid and Skene 1979, "Maximum likelihood estimation
//! of observer error-rates using the EM algorithm", Applied Statistics 28, 20-28).
//!
//! Each annotator k has an unknown matrix π\[k\]\[j\]\[l\], the probability of giving l to an item whose label is j; labels have
//! unknown shares p\[j\]. Expectation: T\[i\]\[j\] ∝ p\[j\] Π π\[k\]\[j\]\[l\] over the answers to item i (equation 2.5, in
//! logarithms). Maximization: p and π from the answers weighted by T (2.3, 2.4), each with [`SMOOTHING`] added to every
//! count. An error that an annotator has not made yet is then unlikely and not impossible: with few answers an estimate
//! of 0 would overrule all other annotators for ever. The iteration begins with each item's shares of answers (3.1). It
//! ends when no T moves by more than 10⁻⁸, or after 500 rounds.

use std::collections::BTreeMap;

use super::{LabelVote, table};

/// Amount added to each count: a hundredth of an answer.
pub const SMOOTHING: f64 = 0.01;
/// Largest change of a probability in the last round.
const TOLERANCE: f64 = 1e-8;
/// Largest number of rounds.
const ROUNDS: usize = 500;

/// The fitted model.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelConsensus {
    /// For each item the probability of each label, `[items][labels]`; empty for an item without an answer.
    pub items: Vec<Vec<f64>>,
    /// The labels' shares.
    pub shares: Vec<f64>,
    /// For each annotator with an answer, ascending: `[labels][labels]`, the true label first.
    pub annotators: BTreeMap<u32, Vec<Vec<f64>>>,
}

impl LabelConsensus {
    /// Returns the most probable label of each item, of several the first of the list; `None` for an item without an
    /// answer.
    pub fn labels(&self) -> Vec<Option<u16>> {
        let most = |probabilities: &Vec<f64>| {
            let best = (1..probabilities.len())
                .fold(0, |best, label| if probabilities[label] > probabilities[best] { label } else { best });
            (!probabilities.is_empty()).then_some(best as u16)
        };
        self.items.iter().map(most).collect()
    }

    /// Returns how often an annotator is right, averaged over the labels by their frequency: Σ p\[j\] π\[k\]\[j\]\[j\].
    /// `None` for an annotator without an answer.
    pub fn accuracy(&self, annotator: u32) -> Option<f64> {
        let errors = self.annotators.get(&annotator)?;
        Some(self.shares.iter().enumerate().map(|(label, share)| share * errors[label][label]).sum())
    }
}

/// Fits the model, with `smoothing` added to each count ([`SMOOTHING`] unless there is a reason; 0 is the paper's own).
/// An annotator may answer about one item several times.
///
/// # Panics
/// If a vote names an item or a label that does not exist.
pub fn dawid_skene(votes: &[LabelVote], items: usize, labels: usize, smoothing: f64) -> LabelConsensus {
    let counts = table(votes, items, labels);
    let mut beliefs: Vec<Vec<f64>> = counts
        .iter()
        .map(|counts| {
            let all = f64::from(counts.iter().sum::<u32>());
            if all > 0.0 { counts.iter().map(|count| f64::from(*count) / all).collect() } else { Vec::new() }
        })
        .collect();
    let mut by_item: Vec<Vec<(u32, usize)>> = vec![Vec::new(); items];
    for vote in votes {
        by_item[vote.item].push((vote.annotator, usize::from(vote.label)));
    }
    // The order of answers must not affect a rounding.
    for answers in &mut by_item {
        answers.sort_unstable();
    }
    let (mut shares, mut annotators) = maximize(&beliefs, &by_item, labels, smoothing);
    for _ in 0..ROUNDS {
        let next = expect(&by_item, &shares, &annotators, labels);
        let moved = next.iter().flatten().zip(beliefs.iter().flatten()).map(|(next, last)| (next - last).abs());
        let moved = moved.fold(0.0, f64::max);
        beliefs = next;
        (shares, annotators) = maximize(&beliefs, &by_item, labels, smoothing);
        if moved <= TOLERANCE {
            break;
        }
    }
    LabelConsensus { items: beliefs, shares, annotators }
}

/// Estimates shares and error rates from the probabilities of the items' labels.
fn maximize(
    beliefs: &[Vec<f64>],
    by_item: &[Vec<(u32, usize)>],
    labels: usize,
    smoothing: f64,
) -> (Vec<f64>, BTreeMap<u32, Vec<Vec<f64>>>) {
    let mut shares = vec![smoothing; labels];
    let mut annotators: BTreeMap<u32, Vec<Vec<f64>>> = BTreeMap::new();
    for (belief, answers) in beliefs.iter().zip(by_item) {
        shares.iter_mut().zip(belief).for_each(|(share, p)| *share += p);
        for (annotator, given) in answers {
            let errors = annotators.entry(*annotator).or_insert_with(|| vec![vec![smoothing; labels]; labels]);
            errors.iter_mut().zip(belief).for_each(|(row, p)| row[*given] += p);
        }
    }
    normalize(&mut shares);
    annotators.values_mut().flatten().for_each(|row| normalize(row));
    (shares, annotators)
}

/// Computes the probabilities of the items' labels from shares and error rates.
fn expect(
    by_item: &[Vec<(u32, usize)>],
    shares: &[f64],
    annotators: &BTreeMap<u32, Vec<Vec<f64>>>,
    labels: usize,
) -> Vec<Vec<f64>> {
    let one = |answers: &Vec<(u32, usize)>| {
        if answers.is_empty() {
            return Vec::new();
        }
        let likelihood = |label: usize| {
            let answers =
                answers.iter().filter_map(|(annotator, given)| Some(annotators.get(annotator)?[label][*given]));
            shares[label].ln() + answers.map(f64::ln).sum::<f64>()
        };
        let mut row: Vec<f64> = (0..labels).map(likelihood).collect();
        let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        for value in &mut row {
            *value = (*value - most).exp();
        }
        normalize(&mut row);
        row
    };
    by_item.iter().map(one).collect()
}

/// Scales a row to a sum of 1, unless it sums to 0.
fn normalize(row: &mut [f64]) {
    let sum: f64 = row.iter().sum();
    if sum > 0.0 {
        for value in row {
            *value /= sum;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LabelVote, SMOOTHING, dawid_skene};
    use crate::annotators::{SimulatedAnnotator, majority};

    /// Table 1 of the paper: 45 patients, judged fit for anaesthesia from 1 to 4; three times by the first anaesthetist, then once
    /// by each of four others.
    const PATIENTS: &str = "1111111 3334334 1122122 2223121 2223222 2223322 1222111 3333433 2222223 2322223 4444444 2223343 \
        1111111 2223212 1211111 1112111 1111111 1111111 2222221 2221322 2222222 2222221 2223222 2212222 1111111 1111111 \
        2322222 1111111 1111111 1121121 1111111 3333233 1111111 2222222 2223232 4334343 2212232 2323233 3333432 1111111 \
        1111111 1212111 2322222 1211111 2222222";

    fn patients() -> Vec<LabelVote> {
        let of = |(item, answers): (usize, &str)| {
            let answers = answers.bytes().zip([1, 1, 1, 2, 3, 4, 5]);
            answers
                .map(move |(given, annotator)| LabelVote { item, annotator, label: u16::from(given - b'1') })
                .collect::<Vec<_>>()
        };
        PATIENTS.split_whitespace().enumerate().flat_map(of).collect()
    }

    #[track_caller]
    fn assert_published(own: &[f64], published: &[f64]) {
        let close = own.iter().zip(published).all(|(own, published)| (own - published).abs() < 0.0051);
        assert!(close && own.len() == published.len(), "{own:?} {published:?}");
    }

    #[test]
    fn dawid_skene_matches_the_papers_example() {
        let consensus = dawid_skene(&patients(), 45, 4, 0.0);
        assert_published(&consensus.shares, &[0.40, 0.42, 0.11, 0.07]);
        let first = &consensus.annotators[&1];
        assert_published(&first[0], &[0.89, 0.11, 0.0, 0.0]);
        assert_published(&first[1], &[0.07, 0.88, 0.05, 0.0]);
        assert_published(&first[2], &[0.0, 0.34, 0.66, 0.0]);
        assert_published(&first[3], &[0.0, 0.0, 0.56, 0.44]);
        // To more places, from an independent program in another language.
        assert!((consensus.annotators[&3][2][3] - 0.3976).abs() < 1e-4 && (consensus.shares[0] - 0.3996).abs() < 1e-4);
        let labels = consensus.labels();
        let of = |patient: usize| labels[patient - 1];
        assert_eq!([of(2), of(3), of(7), of(36), of(38)], [Some(3), Some(1), Some(0), Some(3), Some(2)]);
        assert!((consensus.items[6][0] - 0.981).abs() < 1e-3 && (consensus.items[37][2] - 0.979).abs() < 1e-3);
    }

    #[test]
    fn smoothing_changes_no_patients_label() {
        let plain = dawid_skene(&patients(), 45, 4, 0.0);
        let smoothed = dawid_skene(&patients(), 45, 4, SMOOTHING);
        assert_eq!(plain.labels(), smoothed.labels());
        assert!(smoothed.annotators[&1].iter().flatten().all(|rate| *rate > 0.0), "nothing is impossible");
    }

    #[test]
    fn accurate_annotators_outweigh_a_majority() {
        let (items, labels) = (300, 4_u16);
        let people: Vec<SimulatedAnnotator> =
            [0.95, 0.9, 0.4, 0.4, 0.35].iter().map(|accuracy| SimulatedAnnotator::new(*accuracy, labels, 1)).collect();
        let truth = |item: usize| (item % 4) as u16;
        let votes: Vec<LabelVote> = (0..items)
            .flat_map(|item| (0_u32..).zip(&people).map(move |(annotator, person)| (item, annotator, person)))
            .map(|(item, annotator, person)| LabelVote {
                item,
                annotator,
                label: person.answer(annotator, &item.to_string(), truth(item)),
            })
            .collect();
        let right = |labels: Vec<Option<u16>>| (0..items).filter(|item| labels[*item] == Some(truth(*item))).count();
        let consensus = dawid_skene(&votes, items, 4, SMOOTHING);
        let by_model = right(consensus.labels());
        let by_majority = right(majority(&votes, items, 4));
        assert!(by_model > 265 && by_model > by_majority + 15, "{by_model} {by_majority}");
        let of = |annotator| consensus.accuracy(annotator).expect("they answered");
        assert!(of(0).min(of(1)) > 0.8 && of(2).max(of(3)).max(of(4)) < 0.5, "{} {} {}", of(0), of(1), of(2));
        assert_eq!(consensus.accuracy(9), None);
    }

    #[test]
    fn unanswered_item_has_no_label_in_any_order() {
        let mut votes = patients();
        votes.retain(|vote| vote.item != 4);
        let consensus = dawid_skene(&votes, 45, 4, SMOOTHING);
        assert_eq!((consensus.labels()[4], consensus.items[4].len()), (None, 0));
        votes.reverse();
        assert_eq!(dawid_skene(&votes, 45, 4, SMOOTHING), consensus);
        assert_eq!(dawid_skene(&[], 2, 3, SMOOTHING).labels(), [None, None]);
    }
}
