//! A queue whose waiting requests run together: the first one leads, and runs itself with all that arrived while the
//! previous group ran. So the fixed costs of a run (a transaction, a signature, an fsync) are shared under load, and a
//! lone request waits for no other.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::owner::{QueueOwner, WorkOwner};
use super::queue::{QueueLimits, QueueRefusal};
use super::timings::QueueTimings;
use crate::error::Error;

/// The bounds of a [`GroupQueue`].
#[derive(Debug, Clone, Copy)]
pub struct GroupLimits {
    /// The bounds of its waiting requests. One group runs at a time, whatever `at_a_time` is.
    pub queue: QueueLimits,
    /// The highest number of members of a group.
    pub members: usize,
}

/// A queue of requests that run in groups. At most one group runs at a time.
#[derive(Debug)]
pub struct GroupQueue<Q, R, O = WorkOwner> {
    limits: GroupLimits,
    state: Mutex<QueueState<Q, R, O>>,
    timings: QueueTimings,
}

#[derive(Debug)]
struct QueueState<Q, R, O> {
    is_running: bool,
    next_ticket: u64,
    /// The oldest first.
    waiting: Vec<WaitingMember<Q, R, O>>,
}

#[derive(Debug)]
struct WaitingMember<Q, R, O> {
    ticket: u64,
    owner: O,
    request: Q,
    message: oneshot::Sender<GroupMessage<R>>,
}

/// A message to a waiting member.
#[derive(Debug)]
enum GroupMessage<R> {
    /// It leads the next group.
    Lead,
    /// A group has run with it.
    Answer(R),
}

impl<Q, R, O: QueueOwner> GroupQueue<Q, R, O> {
    /// Makes an empty queue.
    pub const fn new(limits: GroupLimits, timings: QueueTimings) -> Self {
        let state = QueueState { is_running: false, next_ticket: 0, waiting: Vec::new() };
        Self { limits, state: Mutex::new(state), timings }
    }

    /// Runs `request` in a group. `run` gets the requests of the group, in the order of their arrival, if this one
    /// leads it, and returns an answer for each. Returns `None` when its group failed or was interrupted: whether it
    /// took effect is unknown then, and the caller runs it alone.
    ///
    /// # Errors
    /// `rate_limited` or `unavailable` when it cannot wait, or its group does not begin in time.
    pub async fn submit<F>(&self, owner: O, request: Q, run: impl FnOnce(Vec<Q>) -> F) -> Result<Option<R>, Error>
    where
        F: Future<Output = Option<Vec<R>>>,
    {
        let start = Instant::now();
        let result = self.wait(owner, request).await;
        match &result {
            Ok(_) => self.timings.record_wait(self.limits.queue.name, owner.class(), start.elapsed()),
            Err(refusal) => self.timings.record_refusal(self.limits.queue.name, owner.class(), refusal.label()),
        }
        let turn = match result.map_err(|refusal| refusal.into_error::<O>(&self.limits.queue))? {
            MemberOutcome::Answered(answer) => return Ok(answer),
            MemberOutcome::Leads(turn) => turn,
        };
        let (requests, messages): (Vec<_>, Vec<_>) =
            self.take(turn.ticket).into_iter().map(|member| (member.request, (member.ticket, member.message))).unzip();
        let answers = run(requests).await;
        let ticket = turn.ticket;
        // The next group may begin.
        drop(turn);
        let mut own = None;
        for (answer, (member, message)) in answers.into_iter().flatten().zip(messages) {
            if member == ticket {
                own = Some(answer);
            } else {
                // A member whose caller is gone needs no answer.
                let _ = message.send(GroupMessage::Answer(answer));
            }
        }
        Ok(own)
    }

    async fn wait(&self, owner: O, request: Q) -> Result<MemberOutcome<'_, Q, R, O>, QueueRefusal> {
        let (sender, receiver) = oneshot::channel();
        let (ticket, leads) = self.lock().enter(&self.limits.queue, owner, request, sender)?;
        if leads {
            return Ok(MemberOutcome::Leads(GroupTurn { queue: self, ticket }));
        }
        let mut place = GroupPlace { queue: self, ticket, receiver, is_settled: false };
        let message = match tokio::time::timeout(self.limits.queue.patience, &mut place.receiver).await {
            Ok(message) => message,
            Err(_) if self.withdraw(ticket) => return Err(QueueRefusal::Late),
            // Its group runs already.
            Err(_) => (&mut place.receiver).await,
        };
        place.is_settled = true;
        Ok(match message {
            Ok(GroupMessage::Lead) => MemberOutcome::Leads(GroupTurn { queue: self, ticket }),
            Ok(GroupMessage::Answer(answer)) => MemberOutcome::Answered(Some(answer)),
            Err(_) => MemberOutcome::Answered(None),
        })
    }

    /// Removes a waiting request. Returns false if a group has taken it.
    fn withdraw(&self, ticket: u64) -> bool {
        let mut state = self.lock();
        let waiting = state.waiting.len();
        state.waiting.retain(|member| member.ticket != ticket);
        state.waiting.len() < waiting
    }

    /// Takes the group of a leader: itself, then the others in turns of their owners, so that no owner fills a group
    /// while another one waits.
    fn take(&self, leader: u64) -> Vec<WaitingMember<Q, R, O>> {
        let mut state = self.lock();
        let mut ranks = std::collections::BTreeMap::new();
        let mut order: Vec<(usize, u64)> = Vec::with_capacity(state.waiting.len());
        for member in &state.waiting {
            let rank = ranks.entry(member.owner).or_insert(0_usize);
            order.push((if member.ticket == leader { 0 } else { *rank + 1 }, member.ticket));
            *rank += 1;
        }
        order.sort_unstable();
        order.truncate(self.limits.members.max(1));
        let chosen: std::collections::BTreeSet<u64> = order.into_iter().map(|(_, ticket)| ticket).collect();
        let (group, rest) = state.waiting.drain(..).partition(|member| chosen.contains(&member.ticket));
        state.waiting = rest;
        group
    }

    /// Returns the number of waiting requests.
    #[cfg(any(test, feature = "testing"))]
    pub fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }

    fn lock(&self) -> MutexGuard<'_, QueueState<Q, R, O>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<Q, R, O: QueueOwner> QueueState<Q, R, O> {
    /// Adds a request. Returns its ticket, and whether it leads a group now.
    fn enter(
        &mut self,
        limits: &QueueLimits,
        owner: O,
        request: Q,
        message: oneshot::Sender<GroupMessage<R>>,
    ) -> Result<(u64, bool), QueueRefusal> {
        if self.waiting.iter().filter(|member| member.owner == owner).count() >= limits.waiting_of(owner) {
            return Err(QueueRefusal::Owner);
        }
        if self.waiting.len() >= limits.waiting {
            return Err(QueueRefusal::Total);
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.waiting.push(WaitingMember { ticket, owner, request, message });
        let leads = !std::mem::replace(&mut self.is_running, true);
        Ok((ticket, leads))
    }

    /// Ends a group: the oldest waiting member leads the next one.
    fn pass_on(&mut self) {
        self.is_running = false;
        while let Some(member) = self.waiting.first_mut() {
            let (unused, _) = oneshot::channel();
            let message = std::mem::replace(&mut member.message, unused);
            if message.send(GroupMessage::Lead).is_ok() {
                self.is_running = true;
                return;
            }
            self.waiting.remove(0);
        }
    }
}

/// The outcome of a wait.
enum MemberOutcome<'a, Q, R, O: QueueOwner> {
    Answered(Option<R>),
    Leads(GroupTurn<'a, Q, R, O>),
}

/// The turn of a running group; dropping it lets the next one begin, also when its leader is cancelled.
struct GroupTurn<'a, Q, R, O: QueueOwner> {
    queue: &'a GroupQueue<Q, R, O>,
    ticket: u64,
}

impl<Q, R, O: QueueOwner> Drop for GroupTurn<'_, Q, R, O> {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.waiting.retain(|member| member.ticket != self.ticket);
        state.pass_on();
    }
}

/// The place of a waiting member; dropping it withdraws the request, or passes on a lead that was not received.
struct GroupPlace<'a, Q, R, O: QueueOwner> {
    queue: &'a GroupQueue<Q, R, O>,
    ticket: u64,
    receiver: oneshot::Receiver<GroupMessage<R>>,
    /// True once the message was received.
    is_settled: bool,
}

impl<Q, R, O: QueueOwner> Drop for GroupPlace<'_, Q, R, O> {
    fn drop(&mut self) {
        if self.is_settled {
            return;
        }
        // The lock prevents a message of `pass_on` in between.
        let mut state = self.queue.lock();
        self.receiver.close();
        state.waiting.retain(|member| member.ticket != self.ticket);
        if matches!(self.receiver.try_recv(), Ok(GroupMessage::Lead)) {
            state.pass_on();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use tokio::sync::Semaphore;
    use tokio::task::{JoinHandle, yield_now};
    use undertone_api::id::OrganizationId;
    use undertone_api::problem::Code;
    use uuid::Uuid;

    use super::{GroupLimits, GroupQueue};
    use crate::error::Error;
    use crate::fairness::{QueueLimits, QueueTimings, WorkOwner};

    const LIMITS: GroupLimits = GroupLimits {
        queue: QueueLimits {
            name: "test",
            turns: "requests",
            at_a_time: 1,
            waiting: 12,
            waiting_of_owner: 8,
            patience: Duration::from_secs(20),
        },
        members: 4,
    };
    const NORTH: WorkOwner = WorkOwner::Organization(OrganizationId(Uuid::from_u128(1)));
    const SOUTH: WorkOwner = WorkOwner::Organization(OrganizationId(Uuid::from_u128(2)));

    type Answer = Result<Option<u32>, Error>;

    /// A queue of numbers. Each group waits for a permit, and its answers are the doubled numbers.
    #[derive(Clone)]
    struct TestGroups {
        queue: Arc<GroupQueue<u32, u32>>,
        permits: Arc<Semaphore>,
        groups: Arc<Mutex<Vec<Vec<u32>>>>,
    }

    impl TestGroups {
        fn new() -> Self {
            Self {
                queue: Arc::new(GroupQueue::new(LIMITS, QueueTimings::default())),
                permits: Arc::new(Semaphore::new(0)),
                groups: Arc::default(),
            }
        }

        /// Submits a number, and returns once it waits or leads.
        async fn submit(&self, owner: WorkOwner, number: u32) -> JoinHandle<Answer> {
            let test = self.clone();
            let task = tokio::spawn(async move {
                let shared = &test;
                let run = |numbers: Vec<u32>| async move {
                    shared.groups.lock().expect("no panic").push(numbers.clone());
                    shared.permits.acquire().await.expect("it stays open").forget();
                    // A group with a zero fails.
                    (!numbers.contains(&0)).then(|| numbers.iter().map(|number| number * 2).collect())
                };
                test.queue.submit(owner, number, run).await
            });
            yield_now().await;
            task
        }

        fn groups(&self) -> Vec<Vec<u32>> {
            self.groups.lock().expect("no panic").clone()
        }
    }

    async fn answer(task: JoinHandle<Answer>) -> Option<u32> {
        task.await.expect("no panic").expect("it could wait")
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_requests_run_in_one_group() {
        let test = TestGroups::new();
        let first = test.submit(NORTH, 1).await;
        let rest = [test.submit(NORTH, 2).await, test.submit(SOUTH, 3).await, test.submit(NORTH, 4).await];
        test.permits.add_permits(2);
        assert_eq!(answer(first).await, Some(2));
        for (task, expected) in rest.into_iter().zip([4, 6, 8]) {
            assert_eq!(answer(task).await, Some(expected));
        }
        assert_eq!(test.groups(), [vec![1], vec![2, 3, 4]]);
        assert_eq!(test.queue.waiting(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn full_group_has_members_of_each_owner() {
        let test = TestGroups::new();
        let mut tasks = vec![test.submit(NORTH, 1).await];
        for number in 2..=6 {
            tasks.push(test.submit(NORTH, number).await);
        }
        tasks.push(test.submit(SOUTH, 7).await);
        test.permits.add_permits(3);
        for task in tasks {
            assert!(answer(task).await.is_some());
        }
        assert_eq!(test.groups(), [vec![1], vec![2, 3, 4, 7], vec![5, 6]]);
    }

    #[tokio::test(start_paused = true)]
    async fn failed_group_answers_no_member() {
        let test = TestGroups::new();
        let first = test.submit(NORTH, 1).await;
        let rest = [test.submit(NORTH, 0).await, test.submit(SOUTH, 3).await];
        test.permits.add_permits(2);
        assert_eq!(answer(first).await, Some(2));
        for task in rest {
            assert_eq!(answer(task).await, None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn cancelled_leader_lets_the_next_group_begin() {
        let test = TestGroups::new();
        let first = test.submit(NORTH, 1).await;
        let second = test.submit(NORTH, 2).await;
        let third = test.submit(SOUTH, 3).await;
        first.abort();
        assert!(first.await.expect_err("it was cancelled").is_cancelled());
        yield_now().await;
        // The second leads with the third, and is cancelled in its turn: the third learns that its group was interrupted.
        second.abort();
        assert!(second.await.expect_err("it was cancelled").is_cancelled());
        assert_eq!(answer(third).await, None);
        test.permits.add_permits(1);
        let fourth = test.submit(NORTH, 4).await;
        assert_eq!(answer(fourth).await, Some(8));
        assert_eq!(test.groups(), [vec![1], vec![2, 3], vec![4]]);
    }

    #[tokio::test(start_paused = true)]
    async fn cancelled_member_is_not_in_the_group() {
        let test = TestGroups::new();
        let first = test.submit(NORTH, 1).await;
        let second = test.submit(NORTH, 2).await;
        let third = test.submit(SOUTH, 3).await;
        second.abort();
        assert!(second.await.expect_err("it was cancelled").is_cancelled());
        test.permits.add_permits(2);
        assert_eq!((answer(first).await, answer(third).await), (Some(2), Some(6)));
        assert_eq!(test.groups(), [vec![1], vec![3]]);
    }

    #[tokio::test(start_paused = true)]
    async fn request_waits_for_its_group_to_begin_and_not_longer() {
        let test = TestGroups::new();
        let first = test.submit(NORTH, 1).await;
        let second = test.submit(NORTH, 2).await;
        let late = second.await.expect("no panic").expect_err("its group did not begin");
        assert_eq!(late.code(), Code::Unavailable);
        test.permits.add_permits(1);
        assert_eq!(answer(first).await, Some(2));
        let third = test.submit(NORTH, 3).await;
        let pair = [test.submit(NORTH, 4).await, test.submit(SOUTH, 5).await];
        test.permits.add_permits(1);
        assert_eq!(answer(third).await, Some(6));
        // A member of a running group waits for its end.
        tokio::time::sleep(LIMITS.queue.patience * 3).await;
        test.permits.add_permits(1);
        for (task, expected) in pair.into_iter().zip([8, 10]) {
            assert_eq!(answer(task).await, Some(expected));
        }
        assert_eq!(test.groups(), [vec![1], vec![3], vec![4, 5]]);
    }

    #[tokio::test(start_paused = true)]
    async fn full_queue_refuses_an_owner_with_too_many_requests() {
        let test = TestGroups::new();
        let mut tasks = vec![test.submit(NORTH, 1).await];
        for number in 2..=9 {
            tasks.push(test.submit(NORTH, number).await);
        }
        let refused = test.submit(NORTH, 10).await.await.expect("no panic").expect_err("too many");
        assert_eq!(refused.code(), Code::RateLimited);
        tasks.push(test.submit(SOUTH, 11).await);
        test.permits.add_permits(tasks.len());
        for task in tasks {
            assert!(answer(task).await.is_some());
        }
    }
}
