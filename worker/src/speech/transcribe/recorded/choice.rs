//! Which of the pieces that were set aside becomes which dummy.
//!
//! For each dummy a public length is drawn, and of some of the pieces of its word, by chance, the one nearest to it is taken. A piece
//! with more words that are no stop words than any of these lengths is taken only when no other is left.

use rand_chacha::rand_core::Rng;

use super::offer::Offer;
use crate::dp::noise::below;
use crate::dp::randomness::Randomness;
use crate::speech::transcribe::dummy::{Length, Lengths};
use crate::speech::transcribe::plan::{Dummy, Plan};

/// Pieces that are looked at for one dummy.
const TRIED: usize = 20;
/// The stream of randomness that pieces are chosen with: far from those that shape dummies, which count from 0.
const CHOOSING: u32 = u32::MAX;

/// Pieces of one word that are left.
#[derive(Debug, Clone)]
pub struct Pool<'a> {
    lengths: &'a [Length],
    left: Vec<u32>,
}

impl<'a> Pool<'a> {
    /// The pieces of these numbers, of which each has its place in `lengths`.
    pub fn new(lengths: &'a [Length], left: Vec<u32>) -> Self {
        Self { lengths, left }
    }

    /// Takes one that is about as long as one of `like`; nothing when none is left.
    pub fn take(&mut self, like: &Lengths, rng: &mut impl Rng) -> Option<u32> {
        let (target, most) = (like.draw(rng), like.most_content());
        let count = self.left.len();
        // A few by chance, each once: brought to the end, where they are looked at.
        for tried in 0..TRIED.min(count) {
            let end = count - tried;
            self.left.swap(below(end as u32, rng) as usize, end - 1);
        }
        // Should all of these be too long, a shorter one among the others is better.
        let far = |place: &usize| {
            let length = self.length(*place);
            let apart = length.words.abs_diff(target.words) + length.content.abs_diff(target.content);
            (length.content > most, apart)
        };
        let near = (count.saturating_sub(TRIED)..count).min_by_key(far)?;
        let place = if far(&near).0 { (0..count).min_by_key(far)? } else { near };
        Some(self.left.swap_remove(place))
    }

    fn length(&self, place: usize) -> Length {
        let length = self.left.get(place).and_then(|number| self.lengths.get(*number as usize));
        length.copied().unwrap_or(Length { words: 1, content: 1 })
    }
}

/// For each dummy of a plan, by its number, the place of its piece among `offers`; nothing where its word has none left. No piece is
/// two dummies.
pub fn choose(plan: &Plan, offers: &[Offer], like: &Lengths, randomness: &Randomness) -> Vec<Option<u32>> {
    let mut rng = randomness.stream(CHOOSING);
    let lengths: Vec<Length> = offers.iter().map(|offer| offer.length).collect();
    let dummies: Vec<Dummy> = plan.dummies().collect();
    let kind = |word: Option<u32>| word.map_or(0, |word| word as usize + 1);
    let kinds = dummies.iter().map(|dummy| dummy.word).chain(offers.iter().map(|offer| offer.word)).map(kind).max();
    let mut members: Vec<Vec<u32>> = vec![Vec::new(); kinds.map_or(0, |last| last + 1)];
    for (number, offer) in (0_u32..).zip(offers) {
        members[kind(offer.word)].push(number);
    }
    let mut pools: Vec<Pool<'_>> = members.into_iter().map(|left| Pool::new(&lengths, left)).collect();
    // In any order: nobody gets what others left.
    let mut order: Vec<usize> = (0..dummies.len()).collect();
    for place in (1..order.len()).rev() {
        order.swap(place, below(place as u32 + 1, &mut rng) as usize);
    }
    let mut chosen = vec![None; dummies.len()];
    for place in order {
        chosen[place] = pools[kind(dummies[place].word)].take(like, &mut rng);
    }
    chosen
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
    use crate::dp::randomness::Purpose;
    use crate::speech::transcribe::noise::Mechanism;
    use crate::speech::transcribe::plan::{Chance, Crowded};
    use crate::speech::transcribe::vocabulary::Disclosure;

    fn length(words: u32, content: u32) -> Length {
        Length { words, content }
    }

    fn lengths(all: &[(u32, u32)]) -> Lengths {
        Lengths::stated(all.iter().map(|(words, content)| length(*words, *content)).collect()).unwrap()
    }

    /// Two words, two providers.
    fn plan(seed: u8) -> Plan {
        let providers = Partition::new(NonZeroU32::new(2).unwrap(), NonZeroU32::MIN).unwrap();
        let noise = TruncatedLaplace::new(Epsilon::new(0.5).unwrap(), 5).unwrap();
        let mechanism = Mechanism::new(noise, NonZeroU32::MIN, providers).unwrap();
        let random = |purpose| Randomness::in_test(purpose, seed);
        let chance = Chance::new(random(Purpose::DummyWords), random(Purpose::Assignment)).unwrap();
        Plan::draw(mechanism, 2, Disclosure::Nothing, &[], Crowded::Keep, &chance).unwrap()
    }

    fn offers(of_each: u32) -> Vec<Offer> {
        let words = [Some(0), Some(1), None].into_iter().cycle().take(3 * of_each as usize);
        let offer = |(word, number): (Option<u32>, u32)| Offer {
            recording: number,
            start: 0,
            end: 100,
            word,
            length: length(1 + number % 7, 1 + number % 3),
        };
        words.zip(0..).map(offer).collect()
    }

    #[test]
    fn each_dummy_gets_a_piece_of_its_word_and_none_is_taken_twice() {
        let (plan, offers) = (plan(1), offers(60));
        let random = |seed| Randomness::in_test(Purpose::Dummies, seed);
        let like = lengths(&[(3, 2), (5, 2)]);
        let chosen = choose(&plan, &offers, &like, &random(1));
        let dummies: Vec<Dummy> = plan.dummies().collect();
        assert_eq!(chosen.len(), dummies.len());
        for (dummy, chosen) in dummies.iter().zip(&chosen) {
            assert_eq!(offers[chosen.unwrap() as usize].word, dummy.word, "dummy {}", dummy.number);
        }
        assert_eq!(chosen.iter().collect::<HashSet<_>>().len(), chosen.len());
        assert_eq!(chosen, choose(&plan, &offers, &like, &random(1)));
        assert_ne!(chosen, choose(&plan, &offers, &like, &random(2)));
    }

    #[test]
    fn where_a_word_has_too_few_the_others_get_none() {
        let plan = plan(1);
        let chosen = choose(&plan, &offers(2), &lengths(&[(3, 2)]), &Randomness::in_test(Purpose::Dummies, 1));
        assert_eq!(chosen.iter().flatten().count(), 6, "two of each kind");
        assert!(chosen.iter().any(Option::is_none));
        let none = choose(&plan, &[], &lengths(&[(3, 2)]), &Randomness::in_test(Purpose::Dummies, 1));
        assert!(none.iter().all(Option::is_none) && none.len() == chosen.len());
    }

    #[test]
    fn pieces_are_about_as_long_as_true_ones_and_longer_only_when_no_other_is_left() {
        let all: Vec<Length> = (0..200_u32).map(|number| length(1 + number % 10, 1 + number % 10)).collect();
        let mut pool = Pool::new(&all, (0..200).collect());
        let mut rng = ChaCha20Rng::seed_from_u64(3);
        let like = lengths(&[(2, 2), (4, 4)]);
        let mut taken: Vec<u32> = (0..60).map(|_| all[pool.take(&like, &mut rng).unwrap() as usize].words).collect();
        assert!(taken.iter().all(|words| *words <= 4), "{taken:?}");
        let near = taken.iter().filter(|words| [2, 4].contains(*words)).count();
        assert!(near > 25, "{taken:?}");
        // 80 are short enough; they come first.
        taken.extend((0..140).map(|_| all[pool.take(&like, &mut rng).unwrap() as usize].words));
        assert!(taken[..80].iter().all(|words| *words <= 4) && taken[80..].iter().all(|words| *words > 4), "{taken:?}");
        assert_eq!(pool.take(&like, &mut rng), None);
    }
}
