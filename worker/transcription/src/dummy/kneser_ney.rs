//! A language model of order 4: interpolated, modified Kneser–Ney smoothing (Chen and Goodman 1999, "An empirical study of smoothing
//! techniques for language modeling", section 4.1.6) over an open vocabulary.
//!
//! P(x | h) = (c(h x) − D(c(h x))) / c(h) + γ(h) P(x | h′), with h′ the history without its farthest word and γ(h) the
//! discounted share. Counts of the longest histories are those of the text. A shorter history counts the distinct words before an
//! n-gram in place of its occurrences. D takes three values for each length, for counts of 1, 2 and more, after the counts of
//! counts. Below the empty history are words that the text has not, by their frequencies in a public list; without such a list
//! the empty history has no discount.
//!
//! The text is read as a circle, so that every n-gram has a predecessor and every history a follower. A draw follows the sum: it
//! picks a follower by its count, keeps it with probability (c − D) / c, and otherwise goes on with the shorter history. It uses
//! additions, products, quotients and comparisons of numbers, so the same stream of random bits gives the same words on each machine.

use rand_chacha::rand_core::Rng;

use undertone_worker_training::noise::below;

/// Longest n-gram, in words.
const ORDER: usize = 4;
/// Stands for a word that a shorter history has not.
const ABSENT: u32 = u32::MAX;

type Gram = [u32; ORDER];
type History = [u32; ORDER - 1];

/// The followers of all histories of one length.
struct FollowerTable {
    /// Sorted; the nearest word last.
    histories: Vec<History>,
    /// The end of each history's followers in the columns below.
    ends: Vec<u32>,
    /// Sorted for each history.
    words: Vec<u32>,
    /// Counts, summed from the first follower of the history.
    cumulative: Vec<u32>,
    /// D of counts 1, 2 and more.
    discounts: [f64; 3],
}

/// The followers of one history; at least one.
struct Followers<'a> {
    words: &'a [u32],
    cumulative: &'a [u32],
    discounts: [f64; 3],
}

impl FollowerTable {
    /// Counts sorted n-grams.
    fn new(grams: &[Gram]) -> Self {
        let mut table = Self {
            histories: Vec::new(),
            ends: Vec::new(),
            words: Vec::new(),
            cumulative: Vec::new(),
            discounts: [0.0; 3],
        };
        let mut counts_of_counts = [0_u32; 4];
        for followers in grams.chunk_by(|one, other| one[..ORDER - 1] == other[..ORDER - 1]) {
            let [history @ .., _] = followers[0];
            let mut total = 0;
            for same in followers.chunk_by(|one, other| one == other) {
                let count = same.len() as u32;
                total += count;
                table.words.push(same[0][ORDER - 1]);
                table.cumulative.push(total);
                if let Some(number) = counts_of_counts.get_mut(count as usize - 1) {
                    *number += 1;
                }
            }
            table.histories.push(history);
            table.ends.push(table.words.len() as u32);
        }
        table.discounts = discounts(counts_of_counts.map(f64::from));
        table
    }

    fn followers(&self, history: History) -> Option<Followers<'_>> {
        let place = self.histories.binary_search(&history).ok()?;
        let start = if place == 0 { 0 } else { self.ends[place - 1] as usize };
        let range = start..self.ends[place] as usize;
        let discounts = self.discounts;
        Some(Followers { words: &self.words[range.clone()], cumulative: &self.cumulative[range], discounts })
    }
}

impl Followers<'_> {
    fn total(&self) -> u32 {
        self.cumulative.last().copied().unwrap_or(0)
    }

    fn count(&self, place: usize) -> u32 {
        self.cumulative[place] - if place == 0 { 0 } else { self.cumulative[place - 1] }
    }

    /// Returns the count of a follower without its discount.
    fn discounted(&self, place: usize) -> f64 {
        let count = self.count(place);
        f64::from(count) - self.discounts[count.min(3) as usize - 1]
    }

    /// Returns the share of the counts that is left for the shorter history.
    fn left(&self) -> f64 {
        let kept: f64 = (0..self.words.len()).map(|place| self.discounted(place)).sum();
        1.0 - kept / f64::from(self.total())
    }
}

/// Returns D of counts 1, 2 and more, from the numbers of n-grams with counts 1 to 4 (Chen and Goodman, equation 26). A text that
/// is too short for that has one discount (equation 22).
fn discounts(numbers: [f64; 4]) -> [f64; 3] {
    let [once, twice, thrice, four] = numbers;
    if once == 0.0 {
        return [0.5; 3];
    }
    let base = once / (once + 2.0 * twice);
    if twice == 0.0 || thrice == 0.0 || four == 0.0 {
        return [base.min(0.75); 3];
    }
    let estimates =
        [1.0 - 2.0 * base * twice / once, 2.0 - 3.0 * base * thrice / twice, 3.0 - 4.0 * base * four / thrice];
    // Between zero and the count, so that no probability is negative and each history leaves something.
    std::array::from_fn(|place| estimates[place].clamp(0.05, place as f64 + 0.95))
}

/// The words that the text has not, by frequency: numbers from `first` on.
pub(super) struct UnknownWords {
    first: u32,
    cumulative: Vec<u32>,
}

impl UnknownWords {
    /// Takes the counts of the words with numbers from `first` on.
    pub(super) fn new(first: u32, counts: impl Iterator<Item = u32>) -> Self {
        let sum = |total: &mut u32, count: u32| {
            *total = total.saturating_add(count);
            Some(*total)
        };
        Self { first, cumulative: counts.scan(0, sum).collect() }
    }

    fn total(&self) -> u32 {
        self.cumulative.last().copied().unwrap_or(0)
    }

    fn probability(&self, word: u32) -> f64 {
        let Some(place) = word.checked_sub(self.first).map(|place| place as usize) else { return 0.0 };
        let Some(upto) = self.cumulative.get(place) else { return 0.0 };
        let before = if place == 0 { 0 } else { self.cumulative[place - 1] };
        f64::from(upto - before) / f64::from(self.total())
    }
}

/// A trained model of words by number.
pub(super) struct KneserNeyModel {
    /// By length of the history, the empty one first.
    tables: Vec<FollowerTable>,
    unknown: UnknownWords,
}

impl KneserNeyModel {
    /// Trains on a text that has at least one word.
    pub(super) fn train(text: &[u32], unknown: UnknownWords) -> Self {
        let circle = text.iter().copied().cycle();
        let mut grams: Vec<Gram> = Vec::with_capacity(text.len());
        let mut gram = [0; ORDER];
        for (place, word) in circle.take(text.len() + ORDER - 1).enumerate() {
            gram.rotate_left(1);
            gram[ORDER - 1] = word;
            if place + 1 >= ORDER {
                grams.push(gram);
            }
        }
        let mut tables = Vec::with_capacity(ORDER);
        for farthest in 0..ORDER {
            grams.sort_unstable();
            tables.push(FollowerTable::new(&grams));
            // A shorter history counts distinct n-grams.
            grams.dedup();
            for gram in &mut grams {
                gram[farthest] = ABSENT;
            }
        }
        tables.reverse();
        Self { tables, unknown }
    }

    /// Returns the probability of a word after a history, the nearest word last.
    pub(super) fn probability(&self, history: &[u32], word: u32) -> f64 {
        let (mut sum, mut left) = (0.0, 1.0);
        for (length, followers) in self.histories(history) {
            let place = followers.words.binary_search(&word).ok();
            if self.is_last(length) {
                return sum
                    + place
                        .map_or(0.0, |place| left * f64::from(followers.count(place)) / f64::from(followers.total()));
            }
            sum += place.map_or(0.0, |place| left * followers.discounted(place) / f64::from(followers.total()));
            left *= followers.left();
        }
        sum + left * self.unknown.probability(word)
    }

    /// Draws a word after a history, the nearest word last.
    pub(super) fn draw(&self, history: &[u32], rng: &mut impl Rng) -> u32 {
        for (length, followers) in self.histories(history) {
            let at = below(followers.total(), rng);
            let place = followers.cumulative.partition_point(|upto| *upto <= at);
            if self.is_last(length) || uniform(rng) * f64::from(followers.count(place)) < followers.discounted(place) {
                return followers.words[place];
            }
        }
        let at = below(self.unknown.total(), rng);
        self.unknown.first + self.unknown.cumulative.partition_point(|upto| *upto <= at) as u32
    }

    /// Returns whether nothing is below a history of this length.
    fn is_last(&self, length: usize) -> bool {
        length == 0 && self.unknown.total() == 0
    }

    /// Returns the followers of the longest known part of a history and of all shorter ones, each with its length.
    fn histories<'a>(&'a self, history: &[u32]) -> impl Iterator<Item = (usize, Followers<'a>)> + 'a {
        let near = &history[history.len().saturating_sub(ORDER - 1)..];
        let longest = near.len();
        let mut padded = [ABSENT; ORDER - 1];
        padded[ORDER - 1 - longest..].copy_from_slice(near);
        (0..=longest).rev().filter_map(move |length| {
            padded[..ORDER - 1 - length].fill(ABSENT);
            Some((length, self.tables[length].followers(padded)?))
        })
    }
}

/// Returns a number in [0, 1), a multiple of 2⁻³².
fn uniform(rng: &mut impl Rng) -> f64 {
    f64::from(rng.next_u32()) / 4_294_967_296.0
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha20Rng;
    use rand_chacha::rand_core::SeedableRng;

    use super::*;

    /// A text of 12 words with some structure, and three words that it has not.
    fn text() -> Vec<u32> {
        (0..400_u32).map(|place| (place * place / 7 + place % 3) % 12).collect()
    }

    fn model() -> KneserNeyModel {
        KneserNeyModel::train(&text(), UnknownWords::new(12, [3, 1, 1].into_iter()))
    }

    #[test]
    fn probabilities_sum_to_one_after_every_history() {
        let closed = KneserNeyModel::train(&text(), UnknownWords::new(12, std::iter::empty()));
        let mut histories: Vec<Vec<u32>> = vec![vec![], vec![99], vec![99, 3], vec![3, 99, 99]];
        for length in 1..=5 {
            histories.extend(text().windows(length).map(<[u32]>::to_vec));
        }
        for history in histories {
            for model in [&model(), &closed] {
                let sum: f64 = (0..15).map(|word| model.probability(&history, word)).sum();
                assert!((sum - 1.0).abs() < 1e-9, "{history:?}: {sum}");
            }
        }
    }

    #[test]
    fn draws_follow_the_probabilities() {
        let model = model();
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let draws = 60_000;
        for history in [vec![], vec![text()[9]], text()[..3].to_vec(), vec![99, 4]] {
            let mut counts = [0_u32; 15];
            (0..draws).for_each(|_| counts[model.draw(&history, &mut rng) as usize] += 1);
            for (word, count) in (0..).zip(counts) {
                let expected = model.probability(&history, word);
                let error = (expected * (1.0 - expected) / f64::from(draws)).sqrt() + 1e-9;
                let share = f64::from(count) / f64::from(draws);
                assert!((share - expected).abs() < 5.0 * error, "{history:?} {word}: {share}, {expected}");
            }
        }
    }

    #[test]
    fn shorter_histories_count_distinct_predecessors() {
        // 5 is as frequent as 3 but follows one word alone, so it is rarer after an unknown history.
        let text = [0, 3, 1, 3, 2, 3, 4, 5, 4, 5, 4, 5];
        let model = KneserNeyModel::train(&text, UnknownWords::new(6, std::iter::empty()));
        assert!(model.probability(&[99], 3) > 2.0 * model.probability(&[99], 5));
    }
}
