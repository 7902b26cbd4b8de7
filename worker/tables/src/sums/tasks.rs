//! The tasks of a pass, which its threads take: a part is hashed, and then its slices are summed.
//!
//! Other parts are hashed and summed meanwhile. A part is decoded after its digest was verified: the decoder trusts sizes
//! that a file states, and a changed file could end the process by one of them.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A task of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PassTask {
    /// Verify the digest of a part, and call [`PassTasks::release_slices`].
    Verify(usize),
    /// Sum a slice of a part.
    Sum {
        /// The part.
        part: usize,
        /// The number of the slice.
        slice: usize,
    },
}

/// The tasks that no thread has taken yet.
#[derive(Debug)]
pub(super) struct PassTasks {
    /// Slices of a part.
    slices: usize,
    queue: Mutex<TaskQueue>,
    /// Notified when slices can be taken, and when the pass stops.
    changed: Condvar,
    is_stopped: AtomicBool,
}

#[derive(Debug)]
struct TaskQueue {
    /// The parts that no thread has begun to verify.
    parts: Range<usize>,
    /// The number of parts that threads verify now.
    in_verification: usize,
    /// Slices of verified parts.
    slices: Vec<PassTask>,
}

impl PassTasks {
    pub(super) const fn new(parts: usize, slices: usize) -> Self {
        let queue = TaskQueue { parts: 0..parts, in_verification: 0, slices: Vec::new() };
        Self { slices, queue: Mutex::new(queue), changed: Condvar::new(), is_stopped: AtomicBool::new(false) }
    }

    /// Takes the next task. Waits while all that is left depends on parts that other threads verify. Returns `None` when
    /// nothing is left, or the pass stops.
    pub(super) fn take(&self) -> Option<PassTask> {
        let mut queue = self.lock();
        loop {
            if self.is_stopped() {
                return None;
            }
            if let Some(task) = queue.slices.pop() {
                return Some(task);
            }
            if let Some(part) = queue.parts.next() {
                queue.in_verification += 1;
                return Some(PassTask::Verify(part));
            }
            if queue.in_verification == 0 {
                return None;
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Adds the slices of a part that was verified.
    pub(super) fn release_slices(&self, part: usize) {
        let mut queue = self.lock();
        queue.in_verification -= 1;
        queue.slices.extend((0..self.slices).map(|slice| PassTask::Sum { part, slice }));
        self.changed.notify_all();
    }

    /// Ends the pass: no thread takes another task.
    pub(super) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        // A thread that waits has looked at the flag under the lock.
        let _queue = self.lock();
        self.changed.notify_all();
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, TaskQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::{PassTask, PassTasks};

    #[test]
    fn slices_follow_the_verification_of_their_part() {
        let tasks = PassTasks::new(2, 3);
        assert_eq!([tasks.take(), tasks.take()], [Some(PassTask::Verify(0)), Some(PassTask::Verify(1))]);
        tasks.release_slices(1);
        let mut slices: Vec<_> = (0..3).map(|_| tasks.take()).collect();
        slices.reverse();
        assert_eq!(slices, [0, 1, 2].map(|slice| Some(PassTask::Sum { part: 1, slice })));
        tasks.release_slices(0);
        assert!((0..3).all(|_| matches!(tasks.take(), Some(PassTask::Sum { part: 0, .. }))));
        assert_eq!(tasks.take(), None);
    }

    #[test]
    fn waiting_thread_gets_a_slice_or_the_end() {
        for is_stopped in [false, true] {
            let tasks = PassTasks::new(1, 1);
            assert_eq!(tasks.take(), Some(PassTask::Verify(0)));
            std::thread::scope(|scope| {
                let waiting = scope.spawn(|| tasks.take());
                if is_stopped {
                    tasks.stop();
                } else {
                    tasks.release_slices(0);
                }
                let expected = (!is_stopped).then_some(PassTask::Sum { part: 0, slice: 0 });
                assert_eq!(waiting.join().ok(), Some(expected));
            });
        }
    }
}
