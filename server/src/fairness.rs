//! Turns at what the server has few of: the one writer, computations of privacy loss, unpacking. Turns go to the organization that was
//! served least, so that one that asks for much waits behind its own requests and not before those of others.
//!
//! [`WorkOwner`] names who a piece of work is for; [`FairQueue`] gives turns. To share something else fairly: a queue of its own with
//! [`QueueLimits`], a row in the table of limits of `OPERATION.md`.

mod owner;
mod queue;
mod schedule;
#[cfg(test)]
mod tests;
mod timings;

pub(crate) use owner::{WorkOwner, recognize_caller, scope_request};
pub(crate) use queue::{FairPermit, FairQueue, QueueLimits};
pub(crate) use timings::QueueTimings;
