//! The plan of one release: which provider hears which piece, how many dummies of which word it hears beside them, and in
//! what order. It is drawn once, kept, and followed; a job that goes on after a crash sends the same bits again and draws
//! nothing.
//!
//! What holds the guarantee of [`noise`](super::noise) together, and is done here:
//!
//! * Each piece goes to a provider of its own chance, uniformly; never in turn.
//! * The number of dummies of each word at each provider is drawn for itself.
//! * **Nothing of the vocabulary counts as one word more**, with dummies that carry none. Otherwise a provider could count the
//!   pieces without a word exactly, and a word exchanged for one that is no vocabulary would show there. So the size of a batch
//!   is a sum of covered counts. How many counts one spoken word changes is bounded where recordings are cut
//!   ([`segment`](super::segment)).
//! * **A piece with several words is kept at the site**, unless it is asked for: no dummy has two, so such a piece is known to
//!   be a true one, and its words with it.
//! * A dummy is of one provider and is sent to it once. Two providers that put their parts together find none twice.
//! * The order of a batch is a uniform shuffle.
//!
//! The counts and the order are secrets of the site: a plan is printed without them, and its file is for its owner alone.
//! Whoever sends holds the receipt of [`Plan::event`] first; this room cannot send.

mod keep;

use std::collections::HashSet;
use std::fmt;

use rand_chacha::rand_core::Rng;
use serde::{Deserialize, Serialize};
use undertone_privacy::Event;

use super::noise::{Mechanism, NoiseError};
use super::vocabulary::{Disclosure, Held};
use crate::dp::noise::below;
use crate::dp::randomness::{Purpose, Randomness};
pub use keep::kept;
pub use undertone_api::job::transcription::Crowded;

/// Most dummies that may be expected of a plan, at all providers together. Each is seconds of speech to make and to pay for.
pub const MOST_DUMMIES: f64 = 1_000_000.0;
/// Most providers.
pub const MOST_PROVIDERS: u32 = 100;

/// A piece that may be sent: its number, and what it has of the vocabulary by the offline transcript.
pub type Candidate = (u32, Held);

/// One thing that is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Item {
    /// The true piece of this number.
    Piece(u32),
    /// The dummy of this number.
    Dummy(u32),
}

/// A dummy that is to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dummy {
    /// Its number in the plan, from 0.
    pub number: u32,
    /// The only provider that hears it, from 0.
    pub provider: u32,
    /// The word of the vocabulary that it carries; none for a dummy without.
    pub word: Option<u32>,
}

/// What one provider is sent.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Batch {
    /// Dummies of each word of the vocabulary, then those without any.
    dummies: Vec<u32>,
    order: Vec<Item>,
}

/// The plan.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    mechanism: Mechanism,
    disclosure: Disclosure,
    kept: Vec<u32>,
    batches: Vec<Batch>,
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// Randomness that was made for something else.
    #[error("a plan is drawn with randomness of its own, not with that of {0:?}")]
    Purpose(Purpose),
    /// Too many dummies.
    #[error(
        "{expected:.0} dummies are to be expected, at most {MOST_DUMMIES:.0}: raise epsilon or delta, or lower the \
         distance, the vocabulary or the number of providers"
    )]
    Dummies {
        /// How many are.
        expected: f64,
    },
    /// Too many providers.
    #[error("providers: {0}, at most {MOST_PROVIDERS}")]
    Providers(u32),
    /// A piece that is there twice, or carries a word that there is not.
    #[error("piece {0} is listed twice, or has a word that is not in the vocabulary")]
    Piece(u32),
    /// The noise has no price.
    #[error(transparent)]
    Noise(#[from] NoiseError),
    /// A plan that was kept is damaged, or is of another release.
    #[error("what is kept of the plan {0}: it is never drawn again; restore the job's folder, or propose a new job")]
    Kept(&'static str),
    /// The disk.
    #[error("the plan cannot be kept: make room on the disk of the job's folder, and see that it can be written")]
    Disk(#[from] std::io::Error),
}

/// What a plan is drawn with: two purposes, two seeds.
pub struct Chance {
    words: Randomness,
    assignment: Randomness,
}

impl Chance {
    /// Of the operating system.
    pub fn from_os() -> Self {
        Self { words: Randomness::from_os(Purpose::DummyWords), assignment: Randomness::from_os(Purpose::Assignment) }
    }

    /// Of these.
    ///
    /// # Errors
    /// [`PlanError::Purpose`] unless the first is for dummy words and the second for assignment.
    pub fn new(words: Randomness, assignment: Randomness) -> Result<Self, PlanError> {
        match (words.purpose(), assignment.purpose()) {
            (Purpose::DummyWords, Purpose::Assignment) => Ok(Self { words, assignment }),
            (Purpose::DummyWords, other) | (other, _) => Err(PlanError::Purpose(other)),
        }
    }
}

impl Plan {
    /// Draws the plan of `pieces`, with `words` in the vocabulary. Pieces that must not be sent are not among them.
    ///
    /// # Errors
    /// [`PlanError`] for too many dummies or providers, or for pieces that contradict each other; nothing was drawn then.
    pub fn draw(
        mechanism: Mechanism,
        words: u32,
        disclosure: Disclosure,
        pieces: &[Candidate],
        crowded: Crowded,
        chance: &Chance,
    ) -> Result<Self, PlanError> {
        let providers = mechanism.partition().providers().get();
        if providers > MOST_PROVIDERS {
            return Err(PlanError::Providers(providers));
        }
        let expected = mechanism.expected(words);
        if expected.is_nan() || expected > MOST_DUMMIES {
            return Err(PlanError::Dummies { expected });
        }
        check(words, pieces)?;

        let mut noise = chance.words.stream(0);
        // What does not fit 32 bits has a chance below 2^-1000 at the means that are allowed.
        let mut count = || mechanism.draw(&mut noise).try_into().unwrap_or(u32::MAX);
        let counts: Vec<Vec<u32>> = (0..providers).map(|_| (0..=words).map(|_| count()).collect()).collect();

        let mut orders: Vec<Vec<Item>> = vec![Vec::new(); providers as usize];
        let mut kept = Vec::new();
        let mut assignment = chance.assignment.stream(0);
        for (piece, held) in pieces {
            if *held == Held::Several && crowded == Crowded::Keep {
                kept.push(*piece);
            } else {
                orders[below(providers, &mut assignment) as usize].push(Item::Piece(*piece));
            }
        }
        let mut number = 0;
        let mut shuffling = chance.assignment.stream(1);
        let batch = |(dummies, mut order): (Vec<u32>, Vec<Item>)| {
            for _ in 0..dummies.iter().map(|count| u64::from(*count)).sum::<u64>() {
                order.push(Item::Dummy(number));
                number += 1;
            }
            shuffle(&mut order, &mut shuffling);
            Batch { dummies, order }
        };
        let batches = counts.into_iter().zip(orders).map(batch).collect();
        Ok(Self { mechanism, disclosure, kept, batches })
    }

    /// What is to be charged, before anything of it leaves.
    ///
    /// # Errors
    /// [`PlanError::Noise`] when the noise has no price.
    pub fn event(&self) -> Result<Event, PlanError> {
        Ok(self.mechanism.event(self.disclosure)?)
    }

    /// The noise.
    pub const fn mechanism(&self) -> &Mechanism {
        &self.mechanism
    }

    /// What the vocabulary tells beside the counts.
    pub const fn disclosure(&self) -> Disclosure {
        self.disclosure
    }

    /// How many providers.
    pub fn providers(&self) -> u32 {
        self.batches.len() as u32
    }

    /// Pieces that are not sent because they have several words of the vocabulary.
    pub fn kept(&self) -> &[u32] {
        &self.kept
    }

    /// What a provider is sent, in the order in which it is; nothing for one that there is not.
    pub fn batch(&self, provider: u32) -> &[Item] {
        self.batches.get(provider as usize).map_or(&[], |batch| &batch.order)
    }

    /// Whether all that it sends is among these pieces, which may leave: a plan outlives its making, and what may not leave may
    /// have become more since.
    pub fn sends_only(&self, pieces: &[Candidate]) -> bool {
        let may: HashSet<u32> = pieces.iter().map(|(piece, _)| *piece).collect();
        let sent = self.batches.iter().flat_map(|batch| &batch.order);
        sent.copied().all(|item| match item {
            Item::Piece(piece) => may.contains(&piece),
            Item::Dummy(_) => true,
        })
    }

    /// The dummies, by number: provider by provider, word by word.
    pub fn dummies(&self) -> impl Iterator<Item = Dummy> + '_ {
        let of = |(provider, batch): (u32, &Batch)| {
            let words = batch.dummies.len() as u32 - 1;
            let each = (0_u32..).zip(batch.dummies.clone());
            each.flat_map(move |(word, count)| {
                let word = (word < words).then_some(word);
                (0..count).map(move |_| (provider, word))
            })
        };
        let all = (0_u32..).zip(&self.batches).flat_map(of);
        (0_u32..).zip(all).map(|(number, (provider, word))| Dummy { number, provider, word })
    }

    /// What the parts of a plan must have to do with each other.
    fn whole(&self) -> bool {
        let providers = self.mechanism.partition().providers().get();
        let words = self.batches.first().map_or(0, |batch| batch.dummies.len());
        let mut numbers = 0_u64;
        let whole = |batch: &Batch| {
            let count: u64 = batch.dummies.iter().map(|count| u64::from(*count)).sum();
            let expected = numbers..numbers + count;
            numbers += count;
            let mut found: Vec<u64> = batch.order.iter().copied().filter_map(dummy).collect();
            found.sort_unstable();
            batch.dummies.len() == words && found.into_iter().eq(expected)
        };
        self.providers() == providers && words > 0 && self.batches.iter().all(whole)
    }
}

fn dummy(item: Item) -> Option<u64> {
    match item {
        Item::Dummy(number) => Some(u64::from(number)),
        Item::Piece(_) => None,
    }
}

fn check(words: u32, pieces: &[Candidate]) -> Result<(), PlanError> {
    let mut numbers: Vec<u32> = pieces.iter().map(|(piece, _)| *piece).collect();
    numbers.sort_unstable();
    if let Some([twice, _]) = numbers.array_windows().find(|[a, b]| a == b) {
        return Err(PlanError::Piece(*twice));
    }
    match pieces.iter().find(|(_, held)| matches!(held, Held::One(word) if *word >= words)) {
        Some((piece, _)) => Err(PlanError::Piece(*piece)),
        None => Ok(()),
    }
}

/// Every order equally likely (Fisher and Yates).
fn shuffle(items: &mut [Item], rng: &mut impl Rng) {
    for place in (1..items.len()).rev() {
        items.swap(place, below(place as u32 + 1, rng) as usize);
    }
}

/// How many providers and what noise; no count that was drawn.
impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Plan({} providers, {:?})", self.batches.len(), self.mechanism)
    }
}

#[cfg(test)]
mod tests;
