//! Fair queues for scarce resources of the server: the single writer, computations of privacy loss, unpacking, the beginning of
//! requests. The next turn goes to the owner that was served least, so that an owner with many requests waits behind its own, not
//! ahead of others.
//!
//! [`WorkOwner`] names the owner of work, in most queues an organization; [`FairQueue`] grants turns, and [`GroupQueue`] runs
//! the waiting requests of one kind together. To share another resource fairly: a separate
//! queue with its [`QueueLimits`], a row in the table of limits of `OPERATION.md`.

mod group;
mod owner;
mod queue;
mod schedule;
#[cfg(test)]
mod tests;
mod timings;

pub use group::{GroupLimits, GroupQueue};
pub use owner::{QueueOwner, WorkOwner, recognize_caller};
pub use queue::{FairPermit, FairQueue, QueueLimits};
pub use timings::QueueTimings;
