//! A bounded number of turns, shared among owners.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use undertone_api::problem::{Code, Problem};

use super::owner::{QueueOwner, WorkOwner};
use super::schedule::{QueueEntry, TurnAnswer, TurnSchedule};
use super::timings::QueueTimings;
use crate::error::Error;

/// The bounds of a queue.
#[derive(Debug, Clone, Copy)]
pub struct QueueLimits {
    /// Its name in metrics.
    pub name: &'static str,
    /// A description of its turns, for refused callers: "writing transactions".
    pub turns: &'static str,
    /// The number of concurrent turns.
    pub at_a_time: usize,
    /// The highest number of waiting requests.
    pub waiting: usize,
    /// The highest number of one owner, if its number is limited separately ([`QueueOwner::is_limited`]).
    pub waiting_of_owner: usize,
    /// The longest wait.
    pub patience: Duration,
}

impl QueueLimits {
    /// Returns the highest number of waiting requests of an owner.
    pub(super) fn waiting_of(&self, owner: impl QueueOwner) -> usize {
        if owner.is_limited() { self.waiting_of_owner } else { self.waiting }
    }
}

/// A reason why there is no turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueueRefusal {
    /// The owner has too many waiting requests.
    Owner,
    /// The queue is full, and this owner has no fewer waiting requests than the others.
    Total,
    /// No turn came in time.
    Late,
}

impl QueueRefusal {
    /// Returns the name of the reason in metrics.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Total => "total",
            Self::Late => "late",
        }
    }

    /// Returns the error of a caller that gets no turn of this queue.
    pub(crate) fn into_error<O: QueueOwner>(self, limits: &QueueLimits) -> Error {
        let QueueLimits { turns, waiting, waiting_of_owner, patience, .. } = limits;
        let (code, detail, seconds) = match self {
            Self::Owner => (
                Code::RateLimited,
                format!("{waiting_of_owner} {turns} of {} wait already: try again in 1 s", O::NAME),
                1,
            ),
            Self::Total => {
                (Code::Unavailable, format!("{waiting} {turns} wait already, as many as may: try again in 5 s"), 5)
            }
            Self::Late => (
                Code::Unavailable,
                format!(
                    "no turn came within {} s, since other {turns} take long: try again in 5 s",
                    patience.as_secs()
                ),
                5,
            ),
        };
        Problem::new(code, detail).with_retry_after(seconds).into()
    }
}

/// A bounded number of turns, shared among owners.
#[derive(Debug, Clone)]
pub struct FairQueue<O = WorkOwner> {
    limits: QueueLimits,
    schedule: Arc<Mutex<TurnSchedule<O>>>,
    timings: QueueTimings,
}

impl<O: QueueOwner> FairQueue<O> {
    /// Makes an empty queue.
    pub fn new(limits: QueueLimits, timings: QueueTimings) -> Self {
        Self { limits, schedule: Arc::default(), timings }
    }

    /// Waits for a turn, which ends when the permit is dropped. Cancelling the wait withdraws the request.
    ///
    /// # Errors
    /// `QueueRefusal::into_error`: `rate_limited` or `unavailable`, with the seconds after which to retry.
    pub async fn acquire(&self, owner: O) -> Result<FairPermit<O>, Error> {
        let start = Instant::now();
        match self.wait(owner).await {
            Ok(()) => {
                let granted = Instant::now();
                self.timings.record_wait(self.limits.name, owner.class(), granted - start);
                Ok(FairPermit { queue: self.clone(), owner, granted })
            }
            Err(refusal) => {
                self.timings.record_refusal(self.limits.name, owner.class(), refusal.label());
                Err(refusal.into_error::<O>(&self.limits))
            }
        }
    }

    async fn wait(&self, owner: O) -> Result<(), QueueRefusal> {
        let entry = self.lock().enter(&self.limits, owner)?;
        let (ticket, answer) = match entry {
            QueueEntry::Granted => return Ok(()),
            QueueEntry::Waiting(ticket, answer) => (ticket, answer),
        };
        let mut place = WaitingPlace { queue: self, owner, ticket, answer };
        match tokio::time::timeout(self.limits.patience, &mut place.answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) | Err(_) => Err(QueueRefusal::Late),
        }
    }

    /// Returns the number of waiting requests.
    #[cfg(any(test, feature = "testing"))]
    pub fn waiting(&self) -> usize {
        self.lock().waiting()
    }

    fn release(&self, owner: O, cost: Duration) {
        self.lock().release(&self.limits, owner, cost);
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, TurnSchedule<O>> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in the queue; dropping it before the turn was received returns both.
struct WaitingPlace<'a, O: QueueOwner> {
    queue: &'a FairQueue<O>,
    owner: O,
    ticket: u64,
    answer: oneshot::Receiver<TurnAnswer>,
}

impl<O: QueueOwner> Drop for WaitingPlace<'_, O> {
    fn drop(&mut self) {
        // The lock prevents a turn from being granted in between. A received answer is no longer in the channel.
        let mut schedule = self.queue.lock();
        self.answer.close();
        match self.answer.try_recv() {
            Ok(Ok(())) => schedule.release(&self.queue.limits, self.owner, Duration::ZERO),
            Ok(Err(_)) => {}
            Err(_) => schedule.leave(self.owner, self.ticket),
        }
    }
}

/// A turn, which ends when this is dropped; its duration is charged to its owner.
#[derive(Debug)]
pub struct FairPermit<O: QueueOwner = WorkOwner> {
    queue: FairQueue<O>,
    owner: O,
    granted: Instant,
}

impl<O: QueueOwner> FairPermit<O> {
    /// Charges the rest of the turn to another owner.
    pub fn transfer(&mut self, owner: O) {
        if owner == self.owner {
            return;
        }
        let now = Instant::now();
        self.queue.lock().transfer(self.owner, owner, now - self.granted);
        self.owner = owner;
        self.granted = now;
    }
}

impl<O: QueueOwner> Drop for FairPermit<O> {
    fn drop(&mut self) {
        self.queue.release(self.owner, self.granted.elapsed());
    }
}
