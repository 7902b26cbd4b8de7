//! The turns at which requests begin. A flood of requests would otherwise share the processors with all others as equals, and each
//! request under way occupies memory. So few requests begin at a time, in the order of a [`FairQueue`]: each organization, each
//! worker and each network of strangers has its own lane, and the lane that was served least is next. A new connection begins in the
//! lane of its network. When its caller is recognized, the turn continues in the lane of the caller: otherwise the work of a network's
//! members would delay all who connect from there.
//!
//! A turn covers the work before the answer: it ends with the head of the answer, after the longest turn, or when the server waits for
//! the rest of the request. So a request that waits for something else occupies no turn.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::limits::ConnectionLimits;
use undertone_api::id::WorkerId;
use undertone_server_core::error::Error;
use undertone_server_core::fairness::{FairPermit, FairQueue, QueueLimits, QueueOwner, QueueTimings, WorkOwner};

/// The longest wait for a turn.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The lane of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum RequestLane {
    /// A worker.
    Worker(WorkerId),
    /// The organization of a member, or a member without one.
    Caller(WorkOwner),
    /// The callers of a network that are not recognized yet; behind a proxy, each request begins as one of theirs.
    Network(IpAddr),
}

impl QueueOwner for RequestLane {
    const NAME: &'static str = "your organization or address";

    fn weight(self) -> u32 {
        1
    }

    fn class(self) -> &'static str {
        match self {
            Self::Worker(_) => "worker",
            Self::Caller(_) => "organization",
            Self::Network(_) => "network",
        }
    }

    fn is_limited(self) -> bool {
        true
    }
}

/// The queue of one listener's requests.
#[derive(Debug, Clone)]
pub(super) struct RequestQueue {
    queue: FairQueue<RequestLane>,
    longest_turn: Duration,
}

impl RequestQueue {
    /// Makes the queue of the listener `name`.
    pub(super) fn new(name: &'static str, limits: &ConnectionLimits, timings: QueueTimings) -> Self {
        let queue_limits = QueueLimits {
            name,
            turns: "requests",
            at_a_time: limits.turns,
            waiting: limits.waiting.0,
            waiting_of_owner: limits.waiting.1,
            patience: PATIENCE,
        };
        Self { queue: FairQueue::new(queue_limits, timings), longest_turn: limits.longest_turn }
    }

    /// Waits for a turn.
    ///
    /// # Errors
    /// `rate_limited` or `unavailable`, with the seconds after which to retry.
    pub(super) async fn acquire(&self, lane: RequestLane) -> Result<RequestTurn, Error> {
        let permit = Mutex::new(Some(self.queue.acquire(lane).await?));
        Ok(RequestTurn { permit, longest: self.longest_turn })
    }
}

/// A turn, which can be ended from several places.
#[derive(Debug)]
pub(super) struct RequestTurn {
    permit: Mutex<Option<FairPermit<RequestLane>>>,
    longest: Duration,
}

impl RequestTurn {
    /// Ends the turn, if it has not ended yet.
    pub(super) fn end(&self) {
        let permit = self.permit.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(permit);
    }

    /// Charges the rest of the turn to another lane, if it has not ended yet.
    pub(super) fn transfer(&self, lane: RequestLane) {
        if let Some(permit) = self.permit.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            permit.transfer(lane);
        }
    }

    /// Runs the work of the turn, which ends with it, at its longest duration or by [`RequestTurn::end`].
    pub(super) async fn run<F: Future>(&self, work: F) -> F::Output {
        tokio::pin!(work);
        let result = tokio::time::timeout(self.longest, work.as_mut()).await;
        self.end();
        match result {
            Ok(output) => output,
            Err(_) => work.await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::time::timeout;
    use undertone_server_core::fairness::{QueueTimings, WorkOwner};

    use super::super::limits::LONGEST_TURN;
    use super::super::tests::small_limits;
    use super::{RequestLane, RequestQueue};

    const HERE: RequestLane = RequestLane::Network(IpAddr::V4(Ipv4Addr::LOCALHOST));
    const MEMBER: RequestLane = RequestLane::Caller(WorkOwner::System);
    const INSTANT: Duration = Duration::from_millis(1);

    fn one_turn() -> RequestQueue {
        let limits = super::ConnectionLimits { turns: 1, longest_turn: LONGEST_TURN, ..small_limits() };
        RequestQueue::new("test", &limits, QueueTimings::default())
    }

    #[tokio::test(start_paused = true)]
    async fn member_begins_before_the_waiting_strangers() {
        let queue = one_turn();
        let order = Arc::new(std::sync::Mutex::new(Vec::new()));
        let first = queue.acquire(HERE).await.expect("a free turn");
        let mut requests = tokio::task::JoinSet::new();
        for lane in [HERE, HERE, HERE, MEMBER] {
            let (queue, order) = (queue.clone(), Arc::clone(&order));
            requests.spawn(async move {
                let turn = queue.acquire(lane).await.expect("a turn");
                turn.run(tokio::time::sleep(INSTANT)).await;
                order.lock().expect("no panic").push(lane);
            });
            tokio::task::yield_now().await;
        }
        first.end();
        requests.join_all().await;
        assert_eq!(*order.lock().expect("no panic"), [MEMBER, HERE, HERE, HERE]);
    }

    #[tokio::test(start_paused = true)]
    async fn work_of_a_recognized_caller_is_not_charged_to_its_network() {
        let queue = one_turn();
        let turn = queue.acquire(HERE).await.expect("a free turn");
        turn.transfer(MEMBER);
        let order = Arc::new(std::sync::Mutex::new(Vec::new()));
        let mut requests = tokio::task::JoinSet::new();
        for lane in [MEMBER, HERE] {
            let (queue, order) = (queue.clone(), Arc::clone(&order));
            requests.spawn(async move {
                let _turn = queue.acquire(lane).await.expect("a turn");
                order.lock().expect("no panic").push(lane);
            });
            tokio::task::yield_now().await;
        }
        tokio::time::sleep(LONGEST_TURN / 2).await;
        turn.end();
        requests.join_all().await;
        assert_eq!(*order.lock().expect("no panic"), [HERE, MEMBER]);
    }

    #[tokio::test(start_paused = true)]
    async fn slow_work_gives_its_turn_to_the_next() {
        let queue = one_turn();
        let slow = queue.acquire(HERE).await.expect("a free turn");
        let work = tokio::spawn(async move { slow.run(tokio::time::sleep(LONGEST_TURN * 4)).await });
        tokio::task::yield_now().await;
        assert!(timeout(LONGEST_TURN.saturating_sub(INSTANT), queue.acquire(HERE)).await.is_err(), "the turn is taken");
        let next = timeout(INSTANT * 2, queue.acquire(HERE)).await;
        assert!(next.is_ok_and(|turn| turn.is_ok()) && !work.is_finished(), "the work goes on without a turn");
        work.await.expect("the work ends");
    }

    #[tokio::test(start_paused = true)]
    async fn ended_turn_is_free_before_its_work_ends() {
        let queue = one_turn();
        let turn = queue.acquire(HERE).await.expect("a free turn");
        let waiting = async {
            turn.end();
            queue.acquire(MEMBER).await.is_ok()
        };
        assert!(turn.run(waiting).await);
    }
}
