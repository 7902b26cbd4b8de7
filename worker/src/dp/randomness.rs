//! Where chance comes from: the operating system's entropy, stretched by ChaCha20 (`privacy.md`, 11.3).
//!
//! Every draw of a batch and every release takes a fresh seed, so no state is shared between rounds or survives a fork.
//! Sampling and noise use different seeds *and* different streams. There is no seed a user could give, except to a rehearsal
//! on public data, which cannot be asked for without the site's word that they are public.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use zeroize::Zeroizing;

use crate::site::clearance::Published;

/// What the randomness is for. Streams of different purposes never overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Purpose {
    /// Who is in a batch.
    Sampling = 1,
    /// The noise of a release.
    Noise = 2,
    /// The canaries of an audit: which are in, and what they are made of.
    Canaries = 3,
    /// How many runs a private selection looks at, which candidates they have, and what decides between equals.
    Selection = 4,
    /// How numbers that were released are rounded, to travel in fewer bits. Hides nothing.
    Rounding = 5,
    /// Which rows of a query log are kept.
    Rows = 6,
    /// The keys under which texts are hashed. They decide nothing that is released.
    Hashing = 7,
    /// How many dummy words a provider of transcription hears of each.
    DummyWords = 8,
    /// Which provider of transcription hears which piece, and in what order.
    Assignment = 9,
    /// What dummies say, and how they are made to sound.
    Dummies = 10,
}

/// A secret seed with its purpose; wiped when dropped.
pub struct Randomness {
    seed: Zeroizing<[u8; 32]>,
    purpose: Purpose,
}

impl Randomness {
    /// Fresh randomness of the operating system. Aborts the process when there is none: no privacy without it.
    pub fn from_os(purpose: Purpose) -> Self {
        let mut seed = Zeroizing::new([0; 32]);
        #[expect(clippy::disallowed_methods, reason = "this is the audited source of noise and batches")]
        let filled = getrandom::fill(seed.as_mut());
        if let Err(error) = filled {
            tracing::error!(%error, "the operating system gives no randomness; stopping before anything is released");
            std::process::abort();
        }
        Self { seed, purpose }
    }

    /// The secret of an audit's canaries, to be kept at the site so that a run that is killed goes on with the same ones;
    /// `None` for every other purpose: no batch and no noise is ever drawn from a seed that was on a disk.
    pub(crate) fn to_keep(&self) -> Option<Zeroizing<[u8; 32]>> {
        (self.purpose == Purpose::Canaries).then(|| self.seed.clone())
    }

    /// The secret of an audit's canaries as it was kept.
    pub(crate) const fn kept(seed: Zeroizing<[u8; 32]>) -> Self {
        Self { seed, purpose: Purpose::Canaries }
    }

    /// Repeatable randomness, for rehearsals on data that the site's policy marks as public: of them there is nothing to hide.
    /// The permission is looked at, not used up; there is none for private data, and so no such randomness.
    pub(crate) fn rehearsed(_published: &Published, purpose: Purpose, seed: [u8; 32]) -> Self {
        Self { seed: Zeroizing::new(seed), purpose }
    }

    /// Repeatable randomness, for tests of the engine only.
    #[cfg(test)]
    pub(crate) fn in_test(purpose: Purpose, seed: u8) -> Self {
        Self { seed: Zeroizing::new([seed; 32]), purpose }
    }

    /// What it is for.
    pub const fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// An independent stream of it.
    pub(crate) fn stream(&self, index: u32) -> ChaCha20Rng {
        let mut rng = ChaCha20Rng::from_seed(*self.seed);
        rng.set_stream((u64::from(self.purpose as u32) << 32) | u64::from(index));
        rng
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::rand_core::Rng;

    use super::{Purpose, Randomness};

    #[test]
    fn streams_of_two_purposes_differ_even_with_the_same_seed() {
        let draw = |purpose, index| Randomness::in_test(purpose, 7).stream(index).next_u64();
        assert_eq!(draw(Purpose::Noise, 0), draw(Purpose::Noise, 0));
        assert_ne!(draw(Purpose::Noise, 0), draw(Purpose::Sampling, 0));
        assert_ne!(draw(Purpose::Noise, 0), draw(Purpose::Noise, 1));
    }

    #[test]
    fn only_the_secret_of_canaries_can_be_kept() {
        let canaries = Randomness::in_test(Purpose::Canaries, 7);
        let kept = Randomness::kept(canaries.to_keep().expect("it may be kept"));
        assert_eq!(kept.stream(3).next_u64(), canaries.stream(3).next_u64());
        for purpose in [Purpose::Noise, Purpose::Sampling, Purpose::Selection, Purpose::Rows, Purpose::Hashing] {
            assert!(Randomness::in_test(purpose, 7).to_keep().is_none());
            assert_ne!(Randomness::in_test(purpose, 7).stream(3).next_u64(), canaries.stream(3).next_u64());
        }
    }

    #[test]
    fn two_seeds_of_the_operating_system_differ() {
        let draw = || Randomness::from_os(Purpose::Noise).stream(0).next_u64();
        assert_ne!(draw(), draw());
    }
}
