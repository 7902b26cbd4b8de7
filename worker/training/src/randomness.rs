//! The source of randomness: the operating system's entropy, expanded by ChaCha20 (`privacy.md`, 11.3).
//!
//! Every batch and every release draws a fresh seed, so no state is shared between rounds or survives a fork. The seeds
//! of correlated noise and of canaries alone are stored, until the end of the job. Sampling and noise use different seeds *and* different streams. A user cannot set a seed, except for a rehearsal on public
//! data, which requires the site's permission for public data.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use zeroize::Zeroizing;

use undertone_worker_site::clearance::PublicProof;

/// The purpose of a randomness. Streams of different purposes never overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Purpose {
    /// The members of a batch.
    Sampling = 1,
    /// The noise of a release.
    Noise = 2,
    /// The canaries of an audit: their membership and content.
    Canaries = 3,
    /// The number of runs that count in a private selection, their candidates, and the choice between equal scores.
    Selection = 4,
    /// The rounding of released numbers to fewer bits. It hides nothing.
    Rounding = 5,
    /// The rows of a query log that are kept.
    Rows = 6,
    /// The keys of text hashes. They do not affect a release.
    Hashing = 7,
    /// The number of dummy words per word that a transcription provider receives.
    DummyWords = 8,
    /// The assignment of pieces to transcription providers, and their order.
    Assignment = 9,
    /// The content and the voice of dummies.
    Dummies = 10,
    /// The votes of pieces for words of a vocabulary, and their noise.
    Vocabulary = 11,
    /// The secret of a masked round, from which its keys derive.
    Masks = 12,
    /// The noise of a release that is correlated with later ones.
    CorrelatedNoise = 13,
    /// The alterations of the copies of units. They hide nothing, and are drawn without any data.
    Augmentation = 14,
}

/// A secret seed with its purpose; zeroized on drop.
pub struct Randomness {
    seed: Zeroizing<[u8; 32]>,
    purpose: Purpose,
}

impl Randomness {
    /// Draws a seed from the operating system. Aborts the process if none is available, because privacy depends on it.
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

    /// Returns the secret of an audit's canaries, which the site stores so that a killed run continues with the same
    /// canaries. Returns `None` for every other purpose: batches and independent noise are never drawn from a seed that was
    /// on a disk.
    pub fn canary_secret(&self) -> Option<Zeroizing<[u8; 32]>> {
        (self.purpose == Purpose::Canaries).then(|| self.seed.clone())
    }

    /// Restores the randomness of an audit's canaries from its stored secret.
    pub const fn restore_canaries(seed: Zeroizing<[u8; 32]>) -> Self {
        Self { seed, purpose: Purpose::Canaries }
    }

    /// Returns the secret of a step's correlated noise, which the site stores before the release: the noise of later steps
    /// depends on it. `None` for every other purpose.
    pub fn step_secret(&self) -> Option<Zeroizing<[u8; 32]>> {
        (self.purpose == Purpose::CorrelatedNoise).then(|| self.seed.clone())
    }

    /// Restores the randomness of a step's correlated noise from its stored secret.
    pub const fn restore_step(seed: Zeroizing<[u8; 32]>) -> Self {
        Self { seed, purpose: Purpose::CorrelatedNoise }
    }

    /// Returns repeatable randomness for rehearsals on data that the site's policy marks as public, which need no
    /// protection. The permission is borrowed, not consumed; private data have no such permission, and so no such
    /// randomness.
    pub fn rehearsed(_published: &PublicProof, purpose: Purpose, seed: [u8; 32]) -> Self {
        Self { seed: Zeroizing::new(seed), purpose }
    }

    /// Returns repeatable randomness, for tests of the engine only.
    #[cfg(any(test, feature = "testing"))]
    pub fn in_test(purpose: Purpose, seed: u8) -> Self {
        Self { seed: Zeroizing::new([seed; 32]), purpose }
    }

    /// Returns the purpose.
    pub const fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// Returns an independent stream.
    pub fn stream(&self, index: u32) -> ChaCha20Rng {
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
    fn only_secrets_of_canaries_and_steps_can_be_stored() {
        let canaries = Randomness::in_test(Purpose::Canaries, 7);
        let restored = Randomness::restore_canaries(canaries.canary_secret().expect("it may be kept"));
        assert_eq!(restored.stream(3).next_u64(), canaries.stream(3).next_u64());
        let step = Randomness::in_test(Purpose::CorrelatedNoise, 7);
        let restored = Randomness::restore_step(step.step_secret().expect("it may be kept"));
        assert_eq!(restored.stream(3).next_u64(), step.stream(3).next_u64());
        assert!(canaries.step_secret().is_none() && step.canary_secret().is_none());
        for purpose in [Purpose::Noise, Purpose::Sampling, Purpose::Selection, Purpose::Rows, Purpose::Hashing] {
            assert!(Randomness::in_test(purpose, 7).step_secret().is_none());
            assert!(Randomness::in_test(purpose, 7).canary_secret().is_none());
            assert_ne!(Randomness::in_test(purpose, 7).stream(3).next_u64(), canaries.stream(3).next_u64());
        }
    }

    #[test]
    fn two_seeds_of_the_operating_system_differ() {
        let draw = || Randomness::from_os(Purpose::Noise).stream(0).next_u64();
        assert_ne!(draw(), draw());
    }
}
