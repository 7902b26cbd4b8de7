use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use undertone_api::id::OrganizationId;
use undertone_api::problem::Code;
use uuid::Uuid;

use super::{AT_A_TIME, ComputeCache, ComputePool, MOST_KEPT, MOST_WAITING};
use crate::error::Error;
use crate::fairness::{QueueTimings, WorkOwner};

const GREEDY: WorkOwner = WorkOwner::Organization(OrganizationId(Uuid::from_u128(1)));
const HONEST: WorkOwner = WorkOwner::Organization(OrganizationId(Uuid::from_u128(2)));

type Step = tokio::task::JoinHandle<Result<(), Error>>;

/// A pool whose turns are all taken until the test releases them.
struct BusyPool {
    pool: Arc<ComputePool>,
    timings: QueueTimings,
    go_on: Vec<mpsc::Sender<()>>,
    running: Vec<Step>,
}

impl BusyPool {
    async fn new() -> Self {
        let timings = QueueTimings::default();
        let pool = Arc::new(ComputePool::new(timings.clone()));
        let mut busy = Self { pool, timings, go_on: Vec::new(), running: Vec::new() };
        for _ in 0..AT_A_TIME {
            let (go_on, wait) = mpsc::channel::<()>();
            let (begin, start) = tokio::sync::oneshot::channel();
            let step = busy.run(GREEDY, move || {
                begin.send(()).expect("the test listens");
                // Also ends with the test.
                let _ = wait.recv();
            });
            busy.running.push(step);
            busy.go_on.push(go_on);
            start.await.expect("it begins");
        }
        busy
    }

    fn run(&self, owner: WorkOwner, step: impl FnOnce() + Send + 'static) -> Step {
        let pool = Arc::clone(&self.pool);
        tokio::spawn(async move { pool.run(owner, "testing", step).await })
    }

    async fn settle() {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn organization_beyond_its_waiting_steps_is_refused() {
    let mut busy = BusyPool::new().await;
    for _ in 0..MOST_WAITING.1 {
        busy.running.push(busy.run(GREEDY, || ()));
    }
    BusyPool::settle().await;
    let refused = busy.pool.run(GREEDY, "testing", || ()).await.expect_err("one more").into_problem();
    assert_eq!((refused.code, refused.retry_after), (Code::RateLimited, Some(1)));
    assert_eq!(busy.timings.refusals("computations", "organization", "owner"), 1);
    let honest = busy.run(HONEST, || ());
    busy.go_on.clear();
    honest.await.expect("no panic").expect("its turn came");
    for step in busy.running {
        step.await.expect("no panic").expect("its turn came");
    }
}

#[tokio::test]
async fn step_of_a_caller_that_left_the_queue_never_runs() {
    let mut busy = BusyPool::new().await;
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let abandoned = busy.run(HONEST, move || {
        counter.fetch_add(1, Ordering::Relaxed);
    });
    BusyPool::settle().await;
    abandoned.abort();
    assert!(abandoned.await.expect_err("aborted").is_cancelled());
    busy.go_on.clear();
    for step in busy.running.drain(..) {
        step.await.expect("no panic").expect("done");
    }
    busy.run(HONEST, || ()).await.expect("no panic").expect("there is a turn");
    assert_eq!(count.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn equal_keys_are_computed_once_and_failures_again() {
    let cache = ComputeCache::new();
    let computed = AtomicUsize::new(0);
    let compute = async |succeeds: bool| {
        let value = computed.fetch_add(1, Ordering::Relaxed);
        if succeeds { Ok(value) } else { Err(Error::wrong_state("no")) }
    };
    cache.get_or_compute(&"a", compute(false)).await.expect_err("it failed");
    let (first, second) =
        tokio::join!(cache.get_or_compute(&"a", compute(true)), cache.get_or_compute(&"a", compute(true)));
    assert_eq!((first.expect("computed"), second.expect("kept")), (1, 1));
    assert_eq!(cache.get_or_compute(&"b", compute(true)).await.expect("computed"), 2);
}

#[tokio::test]
async fn cache_keeps_so_many_results_and_forgets_the_oldest() {
    let cache = ComputeCache::new();
    for key in 0..=MOST_KEPT {
        cache.get_or_compute(&key, async { Ok(key) }).await.expect("computed");
    }
    assert_eq!(cache.len(), MOST_KEPT);
    let last = cache.get_or_compute(&MOST_KEPT, async { Err(Error::wrong_state("no")) }).await;
    assert_eq!(last.expect("kept"), MOST_KEPT);
    cache.get_or_compute(&0, async { Err(Error::wrong_state("no")) }).await.expect_err("forgotten");
}
