//! Big buffers that are used again: to fill fresh memory with zeros takes longer than to compute what goes there.

use std::sync::{Arc, Mutex, PoisonError};

/// Buffers that nobody uses at the moment. Copies share them.
#[derive(Debug, Clone, Default)]
pub(in crate::dp) struct Pool(Arc<Mutex<Vec<Vec<f32>>>>);

impl Pool {
    /// A buffer of any content and length for so many numbers: the smallest with room for them, else the largest, else a new one.
    pub(in crate::dp) fn take(&self, length: usize) -> Vec<f32> {
        let mut buffers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let best = (0..buffers.len()).min_by_key(|index| match buffers[*index].capacity() {
            capacity if capacity >= length => (false, capacity),
            capacity => (true, usize::MAX - capacity),
        });
        best.map_or_else(Vec::new, |index| buffers.swap_remove(index))
    }

    /// Gives one back.
    pub(in crate::dp) fn give(&self, buffer: Vec<f32>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::Pool;

    #[test]
    fn the_smallest_buffer_with_room_is_taken() {
        let pool = Pool::default();
        assert_eq!(pool.take(5).capacity(), 0);
        for length in [10, 30, 20] {
            pool.clone().give(Vec::with_capacity(length));
        }
        assert_eq!([15, 40, 1, 1].map(|length| pool.take(length).capacity()), [20, 30, 10, 0]);
    }
}
