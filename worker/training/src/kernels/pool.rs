//! Large buffers for reuse: filling fresh memory with zeros takes longer than computing its content.

use std::sync::{Arc, Mutex, PoisonError};

/// Unused buffers. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct BufferPool(Arc<Mutex<Vec<Vec<f32>>>>);

impl BufferPool {
    /// Returns a buffer of any content for `length` numbers: the smallest with sufficient capacity, else the largest,
    /// else a new one.
    pub(crate) fn take(&self, length: usize) -> Vec<f32> {
        let mut buffers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let best = (0..buffers.len()).min_by_key(|index| match buffers[*index].capacity() {
            capacity if capacity >= length => (false, capacity),
            capacity => (true, usize::MAX - capacity),
        });
        best.map_or_else(Vec::new, |index| buffers.swap_remove(index))
    }

    /// Returns a buffer to the pool.
    pub(crate) fn give(&self, buffer: Vec<f32>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::BufferPool;

    #[test]
    fn the_smallest_buffer_with_room_is_taken() {
        let pool = BufferPool::default();
        assert_eq!(pool.take(5).capacity(), 0);
        for length in [10, 30, 20] {
            pool.clone().give(Vec::with_capacity(length));
        }
        assert_eq!([15, 40, 1, 1].map(|length| pool.take(length).capacity()), [20, 30, 10, 0]);
    }
}
