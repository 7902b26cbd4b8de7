//! A cache of results, keyed by all their inputs.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use lru::LruCache;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use tokio::sync::OnceCell;

use super::MOST_KEPT;
use crate::error::Error;

/// The SHA-256 of a key's JSON, which has a fixed size.
type KeyDigest = [u8; 32];

/// A bounded number of results by key.
#[derive(Debug)]
pub struct ComputeCache<T>(Mutex<LruCache<KeyDigest, Arc<OnceCell<T>>>>);

impl<T: Clone> ComputeCache<T> {
    /// Makes an empty cache.
    pub(super) fn new() -> Self {
        Self(Mutex::new(LruCache::new(NonZeroUsize::new(MOST_KEPT).unwrap_or(NonZeroUsize::MIN))))
    }

    /// Returns the result of a key. One caller computes it, and concurrent callers wait for the same result. Failures
    /// are not cached. If the computing caller is cancelled, the next caller computes.
    ///
    /// # Errors
    /// Those of `compute`.
    pub async fn get_or_compute<F>(&self, key: &impl Serialize, compute: F) -> Result<T, Error>
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

    /// Returns the number of results that are cached or in progress.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}
