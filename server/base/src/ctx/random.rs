//! Randomness for secrets and ids, as a parameter. Only this file uses the operating system's generator. The server
//! draws no noise: the sites add it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest as _, Sha256};

/// A source of random bytes.
#[derive(Clone)]
pub struct Random(RandomSource);

#[derive(Clone)]
enum RandomSource {
    System,
    Seeded { seed: u64, drawn: Arc<AtomicU64> },
}

impl Random {
    /// Returns the operating system's generator.
    pub const fn system() -> Self {
        Self(RandomSource::System)
    }

    /// Returns a generator of the same bytes for the same seed: for tests.
    pub fn seeded(seed: u64) -> Self {
        Self(RandomSource::Seeded { seed, drawn: Arc::new(AtomicU64::new(0)) })
    }

    /// Returns `N` random bytes.
    ///
    /// # Panics
    /// If the operating system has no randomness: then no secret can be made.
    pub fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        match &self.0 {
            RandomSource::System => {
                #[expect(clippy::disallowed_methods, reason = "the one place that asks for secrets")]
                getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
            }
            RandomSource::Seeded { seed, drawn } => {
                for chunk in bytes.chunks_mut(32) {
                    let number = drawn.fetch_add(1, Ordering::SeqCst);
                    let block = Sha256::digest([seed.to_le_bytes(), number.to_le_bytes()].concat());
                    chunk.copy_from_slice(&block[..chunk.len()]);
                }
            }
        }
        bytes
    }

    /// Returns a secret for a link or token: 32 random bytes as 64 hex digits.
    pub fn secret(&self) -> String {
        hex::encode(self.bytes::<32>())
    }
}

/// Returns the stored form of a secret: its SHA-256, hex. The secrets have 256 random bits, so no slow hash is needed.
pub fn fingerprint(secret: &str) -> String {
    hex::encode(Sha256::digest(secret.as_bytes()))
}
