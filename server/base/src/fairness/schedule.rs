//! The order of owners: start-time fair queuing (Goyal, Vin, Cheng 1996). Each owner has a lane with a tag, the work
//! that it has received divided by its weight; the lane with the smallest tag is next. A lane that begins to wait takes
//! at least the tag of the current work. So it can neither save turns while it is idle nor pay for turns that no other
//! owner wanted.
//!
//! This module is pure: the costs of turns are parameters, and it reads no clock.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::sync::oneshot;

use super::owner::QueueOwner;
use super::queue::{QueueLimits, QueueRefusal};

/// The minimum cost of a turn, so that turns without measurable time alternate too.
const LEAST_COST: Duration = Duration::from_micros(100);
/// The highest number of idle lanes that are kept because they received more than others.
const MOST_IDLE_LANES: usize = 4096;

/// The result of a wait.
pub(super) type TurnAnswer = Result<(), QueueRefusal>;

/// The start of a request for a turn.
pub(super) enum QueueEntry {
    /// The turn is granted.
    Granted,
    /// The request waits, with this number in its lane.
    Waiting(u64, oneshot::Receiver<TurnAnswer>),
}

/// The waiting requests, and the work that each owner has received.
#[derive(Debug)]
pub(super) struct TurnSchedule<O> {
    running: usize,
    waiting: usize,
    tickets: u64,
    /// The tag of the last granted turn, in nanoseconds of work of weight one.
    virtual_time: u64,
    lanes: HashMap<O, OwnerLane>,
}

#[derive(Debug, Default)]
struct OwnerLane {
    waiters: VecDeque<TurnWaiter>,
    running: usize,
    tag: u64,
}

#[derive(Debug)]
struct TurnWaiter {
    ticket: u64,
    answer: oneshot::Sender<TurnAnswer>,
}

impl OwnerLane {
    fn is_idle(&self) -> bool {
        self.running == 0 && self.waiters.is_empty()
    }
}

impl<O> Default for TurnSchedule<O> {
    fn default() -> Self {
        Self { running: 0, waiting: 0, tickets: 0, virtual_time: 0, lanes: HashMap::new() }
    }
}

impl<O: QueueOwner> TurnSchedule<O> {
    /// Returns the number of waiting requests.
    #[cfg(any(test, feature = "testing"))]
    pub(super) const fn waiting(&self) -> usize {
        self.waiting
    }

    /// Returns the number of running turns.
    #[cfg(test)]
    pub(super) const fn running(&self) -> usize {
        self.running
    }

    /// Returns the number of lanes.
    #[cfg(test)]
    pub(super) fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// Requests a turn.
    ///
    /// # Errors
    /// [`QueueRefusal`] if the owner's lane or the queue is full.
    pub(super) fn enter(&mut self, limits: &QueueLimits, owner: O) -> Result<QueueEntry, QueueRefusal> {
        if self.waiting == 0 && self.running < limits.at_a_time {
            let lane = self.lane(owner);
            lane.running += 1;
            let tag = lane.tag;
            self.running += 1;
            self.virtual_time = self.virtual_time.max(tag);
            return Ok(QueueEntry::Granted);
        }
        let own = self.lanes.get(&owner).map_or(0, |lane| lane.waiters.len());
        if own >= limits.waiting_of(owner) {
            return Err(QueueRefusal::Owner);
        }
        if self.waiting >= limits.waiting && !self.displace(own) {
            return Err(QueueRefusal::Total);
        }
        let (answer, receiver) = oneshot::channel();
        self.tickets += 1;
        let ticket = self.tickets;
        self.lane(owner).waiters.push_back(TurnWaiter { ticket, answer });
        self.waiting += 1;
        Ok(QueueEntry::Waiting(ticket, receiver))
    }

    /// Ends a turn with this cost, and grants the next.
    pub(super) fn release(&mut self, limits: &QueueLimits, owner: O, cost: Duration) {
        self.running -= 1;
        self.charge(owner, cost);
        self.give(limits);
        self.forget_idle();
    }

    /// Moves a running turn to the lane of another owner; the first one is charged the cost until now.
    pub(super) fn transfer(&mut self, owner: O, to: O, cost: Duration) {
        self.lane(to).running += 1;
        self.charge(owner, cost);
        self.forget_idle();
    }

    /// Charges a turn that no longer runs in this owner's lane.
    fn charge(&mut self, owner: O, cost: Duration) {
        let cost = u64::try_from(cost.max(LEAST_COST).as_nanos()).unwrap_or(u64::MAX) / u64::from(owner.weight());
        if let Some(lane) = self.lanes.get_mut(&owner) {
            lane.running -= 1;
            lane.tag = lane.tag.saturating_add(cost);
        }
    }

    /// Removes a cancelled request.
    pub(super) fn leave(&mut self, owner: O, ticket: u64) {
        let Some(lane) = self.lanes.get_mut(&owner) else { return };
        let before = lane.waiters.len();
        lane.waiters.retain(|waiter| waiter.ticket != ticket);
        self.waiting -= before - lane.waiters.len();
        self.forget_idle();
    }

    /// Returns an owner's lane; an idle one begins at the tag of the current work.
    fn lane(&mut self, owner: O) -> &mut OwnerLane {
        let now = self.virtual_time;
        let lane = self.lanes.entry(owner).or_default();
        if lane.is_idle() {
            lane.tag = lane.tag.max(now);
        }
        lane
    }

    /// Refuses the newest request of the longest lane, to make room for one whose lane has `own`. Returns false if no
    /// lane is longer than that lane would become.
    fn displace(&mut self, own: usize) -> bool {
        let longest = self.lanes.values_mut().max_by_key(|lane| lane.waiters.len());
        let Some(longest) = longest.filter(|lane| lane.waiters.len() > own + 1) else { return false };
        if let Some(waiter) = longest.waiters.pop_back() {
            self.waiting -= 1;
            // A waiter that was cancelled meanwhile gets no notice.
            let _ = waiter.answer.send(Err(QueueRefusal::Total));
        }
        true
    }

    /// Grants turns while there are free ones and waiting requests.
    fn give(&mut self, limits: &QueueLimits) {
        while self.running < limits.at_a_time {
            // With several concurrent turns, owners with fewer running ones are first.
            let order = |owner: &O, lane: &OwnerLane| {
                (lane.running, lane.tag, *owner, lane.waiters.front().map(|waiter| waiter.ticket))
            };
            let waiting = self.lanes.iter_mut().filter(|(_, lane)| !lane.waiters.is_empty());
            let Some((_, lane)) = waiting.min_by_key(|(owner, lane)| order(owner, lane)) else { return };
            let Some(waiter) = lane.waiters.pop_front() else { return };
            self.waiting -= 1;
            if waiter.answer.send(Ok(())).is_ok() {
                lane.running += 1;
                self.running += 1;
                self.virtual_time = self.virtual_time.max(lane.tag);
            }
        }
    }

    /// Removes idle lanes that have received no more than others; all lanes if nothing runs or waits.
    fn forget_idle(&mut self) {
        if self.running == 0 && self.waiting == 0 {
            self.lanes.clear();
            self.virtual_time = 0;
            return;
        }
        let now = self.virtual_time;
        let keeps_idle = self.lanes.len() <= MOST_IDLE_LANES;
        self.lanes.retain(|_, lane| !lane.is_idle() || (keeps_idle && lane.tag > now));
    }
}
