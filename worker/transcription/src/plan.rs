//! The plan of one release: the provider of each piece, the number of dummies of each word at each provider, and the order of
//! each batch. A plan is drawn once, stored, and followed. A job that resumes after a crash sends the same bits again and
//! draws nothing.
//!
//! This module implements the parts on which the guarantee of [`noise`](super::noise) relies:
//!
//! * Each piece is assigned to a provider independently and uniformly, never in turn.
//! * The number of dummies of each word at each provider is drawn independently.
//! * **Pieces without a vocabulary word count as one word more**, with dummies that carry none. Otherwise a provider could
//!   count the pieces without a word exactly, and replacing a vocabulary word by another word would show in that count. So the
//!   size of a batch is a sum of noisy counts. The number of counts that one spoken word changes is bounded where recordings
//!   are cut ([`segment`](super::segment)).
//! * **A piece with several words is kept at the site**, unless the caller asks to send it: no dummy has two words, so such a
//!   piece is known to be a true one, and its words with it.
//! * A dummy belongs to one provider and is sent once. Two providers that combine their batches find no dummy twice.
//! * The order of a batch is a uniform shuffle.
//!
//! The counts and the order are secrets of the site: `Debug` does not print them, and only the owner may read the stored
//! plan. The sender must first hold the receipt of [`Plan::event`]; this module cannot send.

mod keep;

use std::collections::HashSet;
use std::fmt;

use rand_chacha::rand_core::Rng;
use serde::{Deserialize, Serialize};
use undertone_privacy::Event;

use super::noise::{DummyMechanism, NoiseError};
use super::vocabulary::{PieceWords, WordDisclosure};
pub use keep::load_or_create;
pub use undertone_api::job::transcription::CrowdedPieces;
use undertone_worker_training::noise::below;
use undertone_worker_training::randomness::{Purpose, Randomness};

/// Largest expected number of dummies of a plan, over all providers. Each dummy costs seconds of speech.
pub const MOST_DUMMIES: f64 = 1_000_000.0;
/// Largest number of providers.
pub const MOST_PROVIDERS: u32 = 100;

/// A piece that may be sent: its number, and the vocabulary words that the offline transcript finds in it.
pub type Candidate = (u32, PieceWords);

/// One item of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BatchItem {
    /// The true piece of this number.
    Piece(u32),
    /// The dummy of this number.
    Dummy(u32),
}

/// A dummy to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedDummy {
    /// Number in the plan, from 0.
    pub number: u32,
    /// The only provider that receives it, from 0.
    pub provider: u32,
    /// The vocabulary word that it carries; `None` for a dummy without one.
    pub word: Option<u32>,
}

/// The batch of one provider.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProviderBatch {
    /// Number of dummies of each vocabulary word, then of dummies without one.
    dummies: Vec<u32>,
    order: Vec<BatchItem>,
}

/// A drawn plan.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    mechanism: DummyMechanism,
    disclosure: WordDisclosure,
    kept: Vec<u32>,
    batches: Vec<ProviderBatch>,
}

/// Reasons that there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The randomness has another purpose.
    #[error("a plan is drawn with randomness of its own, not with that of {0:?}")]
    Purpose(Purpose),
    /// The expected number of dummies is too large.
    #[error(
        "{expected:.0} dummies are to be expected, at most {MOST_DUMMIES:.0}: raise epsilon or delta, or lower the \
         distance, the vocabulary or the number of providers"
    )]
    Dummies {
        /// Expected number of dummies.
        expected: f64,
    },
    /// There are too many providers.
    #[error("providers: {0}, at most {MOST_PROVIDERS}")]
    Providers(u32),
    /// A piece is listed twice, or carries a word outside the vocabulary.
    #[error("piece {0} is listed twice, or has a word that is not in the vocabulary")]
    Piece(u32),
    /// The noise has no privacy event.
    #[error(transparent)]
    Noise(#[from] NoiseError),
    /// The stored plan is damaged, or belongs to another release.
    #[error("the stored plan {0}: it is never drawn again; restore the job's folder, or propose a new job")]
    Kept(&'static str),
    /// The disk refuses.
    #[error("cannot store the plan: make room on the disk of the job's folder, and check that the folder is writable")]
    Disk(#[from] std::io::Error),
}

/// The randomness of a plan: two purposes, two seeds.
pub struct PlanRandomness {
    words: Randomness,
    assignment: Randomness,
}

impl PlanRandomness {
    /// Returns seeds from the operating system.
    pub fn from_os() -> Self {
        Self { words: Randomness::from_os(Purpose::DummyWords), assignment: Randomness::from_os(Purpose::Assignment) }
    }

    /// Combines two sources of randomness.
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
    /// Draws the plan of `pieces`, with `words` words in the vocabulary. `pieces` must not contain pieces that may not be sent.
    ///
    /// # Errors
    /// [`PlanError`] for too many dummies or providers, or for contradictory pieces; nothing was drawn then.
    pub fn draw(
        mechanism: DummyMechanism,
        words: u32,
        disclosure: WordDisclosure,
        pieces: &[Candidate],
        crowded: CrowdedPieces,
        chance: &PlanRandomness,
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
        // At the permitted means, a count above 32 bits has a probability below 2^-1000.
        let mut count = || mechanism.draw(&mut noise).try_into().unwrap_or(u32::MAX);
        let counts: Vec<Vec<u32>> = (0..providers).map(|_| (0..=words).map(|_| count()).collect()).collect();

        let mut orders: Vec<Vec<BatchItem>> = vec![Vec::new(); providers as usize];
        let mut staying = Vec::new();
        let mut assignment = chance.assignment.stream(0);
        for (piece, held) in pieces {
            if *held == PieceWords::Several && crowded == CrowdedPieces::Keep {
                staying.push(*piece);
            } else {
                orders[below(providers, &mut assignment) as usize].push(BatchItem::Piece(*piece));
            }
        }
        let mut number = 0;
        let mut shuffling = chance.assignment.stream(1);
        let batch = |(dummies, mut order): (Vec<u32>, Vec<BatchItem>)| {
            for _ in 0..dummies.iter().map(|count| u64::from(*count)).sum::<u64>() {
                order.push(BatchItem::Dummy(number));
                number += 1;
            }
            shuffle(&mut order, &mut shuffling);
            ProviderBatch { dummies, order }
        };
        let batches = counts.into_iter().zip(orders).map(batch).collect();
        Ok(Self { mechanism, disclosure, kept: staying, batches })
    }

    /// Returns the event to charge before anything of the plan leaves.
    ///
    /// # Errors
    /// [`PlanError::Noise`] when the noise has no event.
    pub fn event(&self) -> Result<Event, PlanError> {
        Ok(self.mechanism.event(self.disclosure)?)
    }

    /// Returns the noise.
    pub const fn mechanism(&self) -> &DummyMechanism {
        &self.mechanism
    }

    /// Returns the disclosure of the vocabulary, besides the counts.
    pub const fn disclosure(&self) -> WordDisclosure {
        self.disclosure
    }

    /// Returns the number of providers.
    pub fn providers(&self) -> u32 {
        self.batches.len() as u32
    }

    /// Returns the pieces that are not sent because they have several vocabulary words.
    pub fn offline_pieces(&self) -> &[u32] {
        &self.kept
    }

    /// Returns a provider's items in sending order; none for an unknown provider.
    pub fn batch(&self, provider: u32) -> &[BatchItem] {
        self.batches.get(provider as usize).map_or(&[], |batch| &batch.order)
    }

    /// Returns whether every piece that the plan sends is among `pieces`, which may leave. Since the plan was drawn, more pieces
    /// may have become unsendable.
    pub fn sends_only(&self, pieces: &[Candidate]) -> bool {
        let may: HashSet<u32> = pieces.iter().map(|(piece, _)| *piece).collect();
        let items = self.batches.iter().flat_map(|batch| &batch.order);
        items.copied().all(|item| match item {
            BatchItem::Piece(piece) => may.contains(&piece),
            BatchItem::Dummy(_) => true,
        })
    }

    /// Returns the dummies by number: provider by provider, word by word.
    pub fn dummies(&self) -> impl Iterator<Item = PlannedDummy> + '_ {
        let of = |(provider, batch): (u32, &ProviderBatch)| {
            let words = batch.dummies.len() as u32 - 1;
            let each = (0_u32..).zip(batch.dummies.clone());
            each.flat_map(move |(word, count)| {
                let word = (word < words).then_some(word);
                (0..count).map(move |_| (provider, word))
            })
        };
        let all = (0_u32..).zip(&self.batches).flat_map(of);
        (0_u32..).zip(all).map(|(number, (provider, word))| PlannedDummy { number, provider, word })
    }

    /// Returns whether the parts of the plan are consistent.
    fn whole(&self) -> bool {
        let providers = self.mechanism.partition().providers().get();
        let words = self.batches.first().map_or(0, |batch| batch.dummies.len());
        let mut numbers = 0_u64;
        let whole = |batch: &ProviderBatch| {
            let count: u64 = batch.dummies.iter().map(|count| u64::from(*count)).sum();
            let expected = numbers..numbers + count;
            numbers += count;
            let mut actual: Vec<u64> = batch.order.iter().copied().filter_map(dummy).collect();
            actual.sort_unstable();
            batch.dummies.len() == words && actual.into_iter().eq(expected)
        };
        self.providers() == providers && words > 0 && self.batches.iter().all(whole)
    }
}

fn dummy(item: BatchItem) -> Option<u64> {
    match item {
        BatchItem::Dummy(number) => Some(u64::from(number)),
        BatchItem::Piece(_) => None,
    }
}

fn check(words: u32, pieces: &[Candidate]) -> Result<(), PlanError> {
    let mut numbers: Vec<u32> = pieces.iter().map(|(piece, _)| *piece).collect();
    numbers.sort_unstable();
    if let Some([twice, _]) = numbers.array_windows().find(|[a, b]| a == b) {
        return Err(PlanError::Piece(*twice));
    }
    match pieces.iter().find(|(_, held)| matches!(held, PieceWords::One(word) if *word >= words)) {
        Some((piece, _)) => Err(PlanError::Piece(*piece)),
        None => Ok(()),
    }
}

/// Shuffles `items`; every order is equally likely (Fisher and Yates).
fn shuffle(items: &mut [BatchItem], rng: &mut impl Rng) {
    for place in (1..items.len()).rev() {
        items.swap(place, below(place as u32 + 1, rng) as usize);
    }
}

/// Prints the number of providers and the noise, no drawn count.
impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Plan({} providers, {:?})", self.batches.len(), self.mechanism)
    }
}

#[cfg(test)]
mod tests;
