//! Limits the bytes of callers that are held in memory: in total, and by caller.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A limit of bytes in memory: in total, and for each key.
#[derive(Debug)]
pub struct ByteBudget<K> {
    total: usize,
    by_key: usize,
    used: Mutex<BytesUsed<K>>,
}

#[derive(Debug)]
struct BytesUsed<K> {
    total: usize,
    by_key: HashMap<K, usize>,
}

impl<K: Hash + Eq + Clone> ByteBudget<K> {
    /// Makes an unused budget.
    pub fn new(total: usize, by_key: usize) -> Arc<Self> {
        Arc::new(Self { total, by_key, used: Mutex::new(BytesUsed { total: 0, by_key: HashMap::new() }) })
    }

    /// Begins an empty charge for `key`.
    pub fn begin(self: &Arc<Self>, key: K) -> ByteCharge<K> {
        ByteCharge { budget: Arc::clone(self), key, bytes: 0 }
    }

    fn lock(&self) -> MutexGuard<'_, BytesUsed<K>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes that are charged until this is dropped.
#[derive(Debug)]
pub struct ByteCharge<K: Hash + Eq + Clone> {
    budget: Arc<ByteBudget<K>>,
    key: K,
    bytes: usize,
}

impl<K: Hash + Eq + Clone> ByteCharge<K> {
    /// Charges further bytes. Returns false, and charges nothing, if the budget is exceeded.
    #[must_use]
    pub fn add(&mut self, bytes: usize) -> bool {
        let mut used = self.budget.lock();
        let of_key = used.by_key.get(&self.key).copied().unwrap_or_default();
        if used.total + bytes > self.budget.total || of_key + bytes > self.budget.by_key {
            return false;
        }
        if bytes > 0 {
            used.total += bytes;
            used.by_key.insert(self.key.clone(), of_key + bytes);
            self.bytes += bytes;
        }
        true
    }

    /// Returns the charged bytes to the budget.
    pub fn release(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut used = self.budget.lock();
        used.total -= self.bytes;
        if let Some(of_key) = used.by_key.get_mut(&self.key) {
            *of_key -= self.bytes;
            if *of_key == 0 {
                used.by_key.remove(&self.key);
            }
        }
        self.bytes = 0;
    }
}

impl<K: Hash + Eq + Clone> Drop for ByteCharge<K> {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::ByteBudget;

    #[test]
    fn charge_over_the_key_or_the_total_is_refused() {
        let budget = ByteBudget::new(10, 6);
        let mut one = budget.begin("one");
        assert!(one.add(6) && !one.add(1), "six for a key");
        let mut other = budget.begin("other");
        assert!(other.add(4) && !other.add(1), "ten in total");
        drop(one);
        assert!(other.add(2) && !other.add(1));
    }

    #[test]
    fn released_bytes_leave_no_trace() {
        let budget = ByteBudget::new(10, 10);
        let mut charge = budget.begin(1);
        assert!(charge.add(10));
        charge.release();
        charge.release();
        assert!(charge.add(0) && budget.lock().by_key.is_empty() && budget.lock().total == 0);
    }
}
