//! The turns at which requests begin. A flood of requests would otherwise share the processors with all others as equals, and each
//! request under way occupies memory. So few requests begin at a time, in the order of a [`FairQueue`]: each recognized connection
//! and each network of strangers has its own lane, and the lane that was served least is next.
//!
//! A turn covers the work before the answer: it ends with the head of the answer, after [`LONGEST_TURN`], or when the server waits for
//! the rest of the request. So a request that waits for something else occupies no turn.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use undertone_server_core::error::Error;
use undertone_server_core::fairness::{FairPermit, FairQueue, QueueLimits, QueueOwner, QueueTimings};

/// The highest number of turns at a time for each processor.
pub(crate) const TURNS_OF_PROCESSOR: usize = 16;
/// The longest duration of a turn.
pub(crate) const LONGEST_TURN: Duration = Duration::from_millis(250);
/// The highest number of requests that wait for their turn: in total, and of one connection or network.
pub(crate) const MOST_WAITING: (usize, usize) = (8192, 1024);
/// The longest wait for a turn.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The lane of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum RequestLane {
    /// The connection of a recognized caller.
    Connection(u64),
    /// The strangers of a network; behind a proxy, all callers of a network.
    Network(IpAddr),
}

impl QueueOwner for RequestLane {
    const NAME: &'static str = "your address";

    fn weight(self) -> u32 {
        1
    }

    fn class(self) -> &'static str {
        match self {
            Self::Connection(_) => "connection",
            Self::Network(_) => "network",
        }
    }

    fn is_limited(self) -> bool {
        true
    }
}

/// The queue of one listener's requests.
#[derive(Debug, Clone)]
pub(super) struct RequestQueue(FairQueue<RequestLane>);

impl RequestQueue {
    /// Makes the queue of the listener `name`.
    pub(super) fn new(name: &'static str, timings: QueueTimings) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self::with_turns(name, timings, TURNS_OF_PROCESSOR * processors)
    }

    fn with_turns(name: &'static str, timings: QueueTimings, at_a_time: usize) -> Self {
        let limits = QueueLimits {
            name,
            turns: "requests",
            at_a_time,
            waiting: MOST_WAITING.0,
            waiting_of_owner: MOST_WAITING.1,
            patience: PATIENCE,
        };
        Self(FairQueue::new(limits, timings))
    }

    /// Waits for a turn.
    ///
    /// # Errors
    /// `rate_limited` or `unavailable`, with the seconds after which to retry.
    pub(super) async fn acquire(&self, lane: RequestLane) -> Result<RequestTurn, Error> {
        Ok(RequestTurn(Mutex::new(Some(self.0.acquire(lane).await?))))
    }
}

/// A turn, which can be ended from several places.
#[derive(Debug)]
pub(super) struct RequestTurn(Mutex<Option<FairPermit<RequestLane>>>);

impl RequestTurn {
    /// Ends the turn, if it has not ended yet.
    pub(super) fn end(&self) {
        let permit = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(permit);
    }

    /// Runs the work of the turn, which ends with it, after [`LONGEST_TURN`] or by [`RequestTurn::end`].
    pub(super) async fn run<F: Future>(&self, work: F) -> F::Output {
        tokio::pin!(work);
        let result = tokio::time::timeout(LONGEST_TURN, work.as_mut()).await;
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
    use undertone_server_core::fairness::QueueTimings;

    use super::{LONGEST_TURN, RequestLane, RequestQueue};

    const HERE: RequestLane = RequestLane::Network(IpAddr::V4(Ipv4Addr::LOCALHOST));
    const MEMBER: RequestLane = RequestLane::Connection(1);
    const INSTANT: Duration = Duration::from_millis(1);

    fn one_turn() -> RequestQueue {
        RequestQueue::with_turns("test", QueueTimings::default(), 1)
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
    async fn slow_work_gives_its_turn_to_the_next() {
        let queue = one_turn();
        let slow = queue.acquire(HERE).await.expect("a free turn");
        let work = tokio::spawn(async move { slow.run(tokio::time::sleep(LONGEST_TURN * 4)).await });
        tokio::task::yield_now().await;
        assert!(timeout(LONGEST_TURN - INSTANT, queue.acquire(HERE)).await.is_err(), "the turn is taken");
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
