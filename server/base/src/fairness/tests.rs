use std::time::Duration;

use undertone_api::id::{MemberId, OrganizationId};
use undertone_api::problem::Code;
use uuid::Uuid;

use super::{FairPermit, FairQueue, QueueLimits, QueueTimings, WorkOwner};
use crate::error::Error;

const LIMITS: QueueLimits = QueueLimits {
    name: "test",
    turns: "turns",
    at_a_time: 1,
    waiting: 12,
    waiting_of_owner: 8,
    patience: Duration::from_secs(20),
};

const fn organization(number: u128) -> WorkOwner {
    WorkOwner::Organization(OrganizationId(Uuid::from_u128(number)))
}

/// A queue whose turns record their owners.
struct TestQueue {
    queue: FairQueue,
    timings: QueueTimings,
    order: std::sync::Arc<std::sync::Mutex<Vec<WorkOwner>>>,
}

impl TestQueue {
    fn new(limits: QueueLimits) -> Self {
        let timings = QueueTimings::default();
        Self { queue: FairQueue::new(limits, timings.clone()), timings, order: std::sync::Arc::default() }
    }

    /// Requests a turn for an owner, and returns once it waits or is refused.
    async fn ask(&self, owner: WorkOwner) -> tokio::task::JoinHandle<Result<(), Error>> {
        let (queue, order) = (self.queue.clone(), std::sync::Arc::clone(&self.order));
        let task = tokio::spawn(async move {
            let _turn = queue.acquire(owner).await?;
            order.lock().expect("no panic").push(owner);
            Ok(())
        });
        tokio::task::yield_now().await;
        task
    }

    /// Ends the turn, and returns the order of the others.
    async fn order_after(&self, turn: FairPermit) -> Vec<WorkOwner> {
        drop(turn);
        while self.queue.lock().waiting() > 0 || self.queue.lock().running() > 0 {
            tokio::task::yield_now().await;
        }
        self.order.lock().expect("no panic").clone()
    }
}

#[tokio::test(start_paused = true)]
async fn greedy_owner_waits_behind_its_own_requests() {
    let test = TestQueue::new(LIMITS);
    let (greedy, north, south) = (organization(1), organization(2), organization(3));
    let turn = test.queue.acquire(greedy).await.expect("the first");
    for owner in [greedy, greedy, greedy, greedy, north, south, north] {
        drop(test.ask(owner).await);
    }
    let order = test.order_after(turn).await;
    assert_eq!(order, [north, south, greedy, north, greedy, greedy, greedy]);
    assert_eq!(test.queue.lock().lanes(), 0, "what is idle is forgotten");
}

#[tokio::test(start_paused = true)]
async fn owner_of_long_turns_gets_fewer() {
    let test = TestQueue::new(LIMITS);
    let (long, short) = (organization(1), organization(2));
    let turn = test.queue.acquire(long).await.expect("the first");
    for owner in [long, long, short, short, short] {
        drop(test.ask(owner).await);
    }
    tokio::time::advance(Duration::from_millis(1)).await;
    // A turn of 1 ms costs as much as ten of the minimum cost.
    assert_eq!(test.order_after(turn).await, [short, short, short, long, long]);
}

#[tokio::test(start_paused = true)]
async fn system_gets_eight_turns_for_one() {
    let test = TestQueue::new(QueueLimits { waiting: 64, waiting_of_owner: 64, ..LIMITS });
    let turn = test.queue.acquire(WorkOwner::Stranger).await.expect("the first");
    for _ in 0..16 {
        drop(test.ask(organization(1)).await);
        drop(test.ask(WorkOwner::System).await);
    }
    let order = test.order_after(turn).await;
    let system = order[..18].iter().filter(|owner| **owner == WorkOwner::System).count();
    assert_eq!(system, 16, "{order:?}");
}

#[tokio::test(start_paused = true)]
async fn signs_of_life_pass_their_own_organizations_work() {
    let test = TestQueue::new(LIMITS);
    let work = organization(1);
    let turn = test.queue.acquire(work).await.expect("the first");
    for owner in [work, work, work, work.liveness()] {
        drop(test.ask(owner).await);
    }
    assert_eq!(test.order_after(turn).await[0], work.liveness());
}

#[tokio::test(start_paused = true)]
async fn one_owner_beyond_its_share_is_refused() {
    let test = TestQueue::new(LIMITS);
    let turn = test.queue.acquire(organization(1)).await.expect("the first");
    for _ in 0..LIMITS.waiting_of_owner {
        drop(test.ask(organization(1)).await);
    }
    let refused = test.ask(organization(1)).await.await.expect("no panic").expect_err("one more").into_problem();
    assert_eq!((refused.code, refused.retry_after), (Code::RateLimited, Some(1)));
    assert!(refused.detail.starts_with("8 turns of your organization wait"), "{}", refused.detail);
    assert_eq!(test.timings.refusals("test", "organization", "owner"), 1);
    drop(test.ask(organization(2)).await);
    assert_eq!(test.queue.lock().waiting(), LIMITS.waiting_of_owner + 1, "another owner has room");
    drop(turn);
}

#[tokio::test(start_paused = true)]
async fn full_queue_makes_room_for_a_shorter_lane() {
    let test = TestQueue::new(LIMITS);
    let member = WorkOwner::Member(MemberId(Uuid::from_u128(9)));
    let turn = test.queue.acquire(member).await.expect("the first");
    let mut greedy = Vec::new();
    for _ in 0..LIMITS.waiting_of_owner {
        greedy.push(test.ask(organization(1)).await);
    }
    for number in 2..6 {
        drop(test.ask(organization(number)).await);
    }
    assert_eq!(test.queue.lock().waiting(), LIMITS.waiting);
    drop(test.ask(organization(7)).await);
    assert_eq!(test.queue.lock().waiting(), LIMITS.waiting);
    let last = greedy.pop().expect("eight").await.expect("no panic").expect_err("it made room").into_problem();
    assert_eq!((last.code, last.retry_after), (Code::Unavailable, Some(5)));
    drop(turn);
}

#[tokio::test(start_paused = true)]
async fn full_queue_of_equals_refuses_one_more() {
    let test = TestQueue::new(QueueLimits { waiting: 3, ..LIMITS });
    let turn = test.queue.acquire(organization(1)).await.expect("the first");
    for number in 2..5 {
        drop(test.ask(organization(number)).await);
    }
    let refused = test.ask(organization(5)).await.await.expect("no panic").expect_err("one more");
    assert_eq!(refused.code(), Code::Unavailable);
    assert_eq!(test.timings.refusals("test", "organization", "total"), 1);
    drop(turn);
}

#[tokio::test(start_paused = true)]
async fn wait_beyond_patience_ends_and_leaves_no_place() {
    let test = TestQueue::new(LIMITS);
    let turn = test.queue.acquire(organization(1)).await.expect("the first");
    let late = test.ask(organization(2)).await;
    tokio::time::advance(LIMITS.patience + Duration::from_millis(1)).await;
    assert_eq!(late.await.expect("no panic").expect_err("no turn came").code(), Code::Unavailable);
    assert_eq!(test.queue.lock().waiting(), 0);
    drop(turn);
    assert_eq!(test.queue.lock().running(), 0);
}

#[tokio::test(start_paused = true)]
async fn caller_that_leaves_gives_place_and_turn_back() {
    let test = TestQueue::new(LIMITS);
    let turn = test.queue.acquire(organization(1)).await.expect("the first");
    let request = test.ask(organization(2)).await;
    let other = test.ask(organization(3)).await;
    request.abort();
    assert!(request.await.expect_err("aborted").is_cancelled());
    assert_eq!(test.queue.lock().waiting(), 1);
    assert_eq!(test.order_after(turn).await, [organization(3)]);
    other.await.expect("no panic").expect("its turn came");
    // A request that is granted its turn and cancelled before it reads the answer.
    let turn = test.queue.acquire(organization(1)).await.expect("free again");
    let request = test.ask(organization(2)).await;
    drop(turn);
    request.abort();
    let _ = request.await;
    assert_eq!(test.queue.lock().running(), 0);
    drop(test.queue.acquire(organization(3)).await.expect("free again"));
}

#[tokio::test(start_paused = true)]
async fn several_turns_go_to_several_owners_first() {
    let test = TestQueue::new(QueueLimits { at_a_time: 2, ..LIMITS });
    let first = test.queue.acquire(organization(1)).await.expect("the first");
    let second = test.queue.acquire(organization(1)).await.expect("nobody else wants it");
    drop(test.ask(organization(1)).await);
    drop(test.ask(organization(2)).await);
    drop(first);
    tokio::task::yield_now().await;
    assert_eq!(test.order.lock().expect("no panic").first(), Some(&organization(2)));
    test.order_after(second).await;
}
