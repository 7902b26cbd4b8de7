//! Results by everything that they follow from.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use lru::LruCache;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use tokio::sync::OnceCell;

use super::MOST_KEPT;
use crate::error::Error;

/// The SHA-256 of a key's JSON: keys may be long, and all are as large here.
type KeyDigest = [u8; 32];

/// Results by their keys, a bounded number of them.
#[derive(Debug)]
pub(crate) struct ComputeCache<T>(Mutex<LruCache<KeyDigest, Arc<OnceCell<T>>>>);

impl<T: Clone> ComputeCache<T> {
    /// Makes a cache without results.
    pub(super) fn new() -> Self {
        Self(Mutex::new(LruCache::new(NonZeroUsize::new(MOST_KEPT).unwrap_or(NonZeroUsize::MIN))))
    }

    /// Returns the result of a key. One caller computes it; others that ask meanwhile wait for the same. A failure is not kept, and
    /// when the caller that computes leaves, the next one does.
    ///
    /// # Errors
    /// Those of `compute`.
    pub(crate) async fn get_or_compute<F>(&self, key: &impl Serialize, compute: F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let key = serde_json::to_vec(key).map_err(|error| Error::internal("writing the key of a result", error))?;
        let cell = {
            let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(entries.get_or_insert(Sha256::digest(&key).into(), Arc::default))
        };
        cell.get_or_try_init(|| compute).await.cloned()
    }

    /// Returns how many results are kept or under way.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}
