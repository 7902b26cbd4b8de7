//! Assigns reserved pieces to the dummies of a plan.
//!
//! For each dummy, a public length is drawn. Some of the pieces of its word are sampled at random, and the piece nearest to that
//! length is taken. A piece with more content words than any public length is taken only if no other is left.

use rand_chacha::rand_core::Rng;

use super::offer::PieceOffer;
use crate::dummy::{PhraseLength, PhraseLengths};
use crate::plan::{Plan, PlannedDummy};
use undertone_worker_training::noise::below;
use undertone_worker_training::randomness::Randomness;

/// Number of pieces examined for one dummy.
const TRIED: usize = 20;
/// Random stream of the assignment: far from the streams that shape dummies, which count from 0.
const CHOOSING: u32 = u32::MAX;

/// The remaining pieces of one word.
#[derive(Debug, Clone)]
pub struct PiecePool<'a> {
    lengths: &'a [PhraseLength],
    left: Vec<u32>,
}

impl<'a> PiecePool<'a> {
    /// Creates a pool of the pieces with these numbers; `lengths` is indexed by piece number.
    pub fn new(lengths: &'a [PhraseLength], left: Vec<u32>) -> Self {
        Self { lengths, left }
    }

    /// Takes a piece about as long as one of `like`; `None` when the pool is empty.
    pub fn take(&mut self, like: &PhraseLengths, rng: &mut impl Rng) -> Option<u32> {
        let target = like.draw(rng);
        let most = like.most_content();
        let count = self.left.len();
        // A few distinct random pieces, moved to the end, where they are examined.
        for tried in 0..TRIED.min(count) {
            let end = count - tried;
            self.left.swap(below(end as u32, rng) as usize, end - 1);
        }
        // If all of these are too long, a shorter one of the others is better.
        let far = |place: &usize| {
            let length = self.length(*place);
            let apart = length.words.abs_diff(target.words) + length.content.abs_diff(target.content);
            (length.content > most, apart)
        };
        let near = (count.saturating_sub(TRIED)..count).min_by_key(far)?;
        let place = if far(&near).0 { (0..count).min_by_key(far)? } else { near };
        Some(self.left.swap_remove(place))
    }

    fn length(&self, place: usize) -> PhraseLength {
        let length = self.left.get(place).and_then(|number| self.lengths.get(*number as usize));
        length.copied().unwrap_or(PhraseLength { words: 1, content: 1 })
    }
}

/// Returns, for each dummy of a plan by number, the index of its piece in `offers`; `None` where its word has no piece left. No
/// piece is assigned to two dummies.
pub fn choose(plan: &Plan, offers: &[PieceOffer], like: &PhraseLengths, randomness: &Randomness) -> Vec<Option<u32>> {
    let mut rng = randomness.stream(CHOOSING);
    let lengths: Vec<PhraseLength> = offers.iter().map(|offer| offer.length).collect();
    let dummies: Vec<PlannedDummy> = plan.dummies().collect();
    let kind = |word: Option<u32>| word.map_or(0, |word| word as usize + 1);
    let kinds = dummies.iter().map(|dummy| dummy.word).chain(offers.iter().map(|offer| offer.word)).map(kind).max();
    let mut members: Vec<Vec<u32>> = vec![Vec::new(); kinds.map_or(0, |last| last + 1)];
    for (number, offer) in (0_u32..).zip(offers) {
        members[kind(offer.word)].push(number);
    }
    let mut pools: Vec<PiecePool<'_>> = members.into_iter().map(|left| PiecePool::new(&lengths, left)).collect();
    // In random order, so that no dummy systematically gets the remainder.
    let mut order: Vec<usize> = (0..dummies.len()).collect();
    for place in (1..order.len()).rev() {
        order.swap(place, below(place as u32 + 1, &mut rng) as usize);
    }
    let mut assignment = vec![None; dummies.len()];
    for place in order {
        assignment[place] = pools[kind(dummies[place].word)].take(like, &mut rng);
    }
    assignment
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::collections::HashSet;
    use std::num::NonZeroU32;

    use rand_chacha::ChaCha20Rng;
    use rand_chacha::rand_core::SeedableRng;
    use undertone_privacy::Epsilon;
    use undertone_privacy::histogram::{Partition, TruncatedLaplace};

    use super::*;
    use crate::noise::DummyMechanism;
    use crate::plan::{CrowdedPieces, PlanRandomness};
    use crate::vocabulary::WordDisclosure;
    use undertone_worker_training::randomness::Purpose;

    fn length(words: u32, content: u32) -> PhraseLength {
        PhraseLength { words, content }
    }

    fn lengths(all: &[(u32, u32)]) -> PhraseLengths {
        PhraseLengths::stated(all.iter().map(|(words, content)| length(*words, *content)).collect()).unwrap()
    }

    /// Two words, two providers.
    fn plan(seed: u8) -> Plan {
        let providers = Partition::new(NonZeroU32::new(2).unwrap(), NonZeroU32::MIN).unwrap();
        let noise = TruncatedLaplace::new(Epsilon::new(0.5).unwrap(), 5).unwrap();
        let mechanism = DummyMechanism::new(noise, NonZeroU32::MIN, providers).unwrap();
        let random = |purpose| Randomness::in_test(purpose, seed);
        let chance = PlanRandomness::new(random(Purpose::DummyWords), random(Purpose::Assignment)).unwrap();
        Plan::draw(mechanism, 2, WordDisclosure::Nothing, &[], CrowdedPieces::Keep, &chance).unwrap()
    }

    fn offers(of_each: u32) -> Vec<PieceOffer> {
        let words = [Some(0), Some(1), None].into_iter().cycle().take(3 * of_each as usize);
        let offer = |(word, number): (Option<u32>, u32)| PieceOffer {
            recording: number,
            start: 0,
            end: 100,
            word,
            length: length(1 + number % 7, 1 + number % 3),
        };
        words.zip(0..).map(offer).collect()
    }

    #[test]
    fn dummies_get_distinct_pieces_of_their_word() {
        let plan = plan(1);
        let offers = offers(60);
        let random = |seed| Randomness::in_test(Purpose::Dummies, seed);
        let like = lengths(&[(3, 2), (5, 2)]);
        let assignment = choose(&plan, &offers, &like, &random(1));
        let dummies: Vec<PlannedDummy> = plan.dummies().collect();
        assert_eq!(assignment.len(), dummies.len());
        for (dummy, assignment) in dummies.iter().zip(&assignment) {
            assert_eq!(offers[assignment.unwrap() as usize].word, dummy.word, "dummy {}", dummy.number);
        }
        assert_eq!(assignment.iter().collect::<HashSet<_>>().len(), assignment.len());
        assert_eq!(assignment, choose(&plan, &offers, &like, &random(1)));
        assert_ne!(assignment, choose(&plan, &offers, &like, &random(2)));
    }

    #[test]
    fn dummies_beyond_the_available_pieces_get_none() {
        let plan = plan(1);
        let assignment = choose(&plan, &offers(2), &lengths(&[(3, 2)]), &Randomness::in_test(Purpose::Dummies, 1));
        assert_eq!(assignment.iter().flatten().count(), 6, "two of each kind");
        assert!(assignment.iter().any(Option::is_none));
        let none = choose(&plan, &[], &lengths(&[(3, 2)]), &Randomness::in_test(Purpose::Dummies, 1));
        assert!(none.iter().all(Option::is_none) && none.len() == assignment.len());
    }

    #[test]
    fn pieces_match_true_lengths_and_longest_come_last() {
        let all: Vec<PhraseLength> = (0..200_u32).map(|number| length(1 + number % 10, 1 + number % 10)).collect();
        let mut pool = PiecePool::new(&all, (0..200).collect());
        let mut rng = ChaCha20Rng::seed_from_u64(3);
        let like = lengths(&[(2, 2), (4, 4)]);
        let mut lengths_taken: Vec<u32> =
            (0..60).map(|_| all[pool.take(&like, &mut rng).unwrap() as usize].words).collect();
        assert!(lengths_taken.iter().all(|words| *words <= 4), "{lengths_taken:?}");
        let near = lengths_taken.iter().filter(|words| [2, 4].contains(*words)).count();
        assert!(near > 25, "{lengths_taken:?}");
        // 80 are short enough; they come first.
        lengths_taken.extend((0..140).map(|_| all[pool.take(&like, &mut rng).unwrap() as usize].words));
        assert!(
            lengths_taken[..80].iter().all(|words| *words <= 4) && lengths_taken[80..].iter().all(|words| *words > 4),
            "{lengths_taken:?}"
        );
        assert_eq!(pool.take(&like, &mut rng), None);
    }
}
