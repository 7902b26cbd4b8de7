//! Bytes of running uploads at this server, by job and by organization, which limit them.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use uuid::Uuid;

use crate::exchange::upload::UNPACKING;
use crate::fairness::{FairQueue, QueueTimings};

/// Bytes of running uploads, and the queue for unpacking.
#[derive(Debug)]
pub struct UploadBytes {
    bytes: Mutex<HashMap<Uuid, u64>>,
    turns: FairQueue,
}

impl UploadBytes {
    /// Makes an empty counter.
    pub fn new(timings: QueueTimings) -> Self {
        Self { bytes: Mutex::default(), turns: FairQueue::new(UNPACKING, timings) }
    }

    /// Returns the queue for unpacking vectors.
    pub const fn turns(&self) -> &FairQueue {
        &self.turns
    }

    /// Adds an upload of `size` bytes to each owner. Returns the bytes of each owner's running uploads, including this
    /// one.
    pub fn add(&self, owners: [Uuid; 2], size: u64) -> [u64; 2] {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        owners.map(|owner| {
            let sum = bytes.entry(owner).or_default();
            *sum = sum.saturating_add(size);
            *sum
        })
    }

    /// Removes a finished upload.
    pub fn subtract(&self, owners: [Uuid; 2], size: u64) {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        for owner in owners {
            if let Some(sum) = bytes.get_mut(&owner) {
                *sum = sum.saturating_sub(size);
                if *sum == 0 {
                    bytes.remove(&owner);
                }
            }
        }
    }
}
