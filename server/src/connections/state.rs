//! The state of one connection, shared by its driver, its requests and the registry.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::turn::{RequestLane, RequestTurn};
use undertone_server_core::auth::Actor;
use undertone_server_core::fairness::{WorkOwner, recognize_caller};

/// The state of one connection.
#[derive(Debug)]
pub(super) struct ConnectionState {
    /// Its number among the connections of its listener.
    pub(super) id: u64,
    /// The network of the other end.
    pub(super) network: IpAddr,
    /// The time of its acceptance.
    pub(super) opened: Instant,
    /// Cancelled when the registry evicts the connection.
    pub(super) evicted: CancellationToken,
    /// The lane of the last recognized caller.
    recognized: Mutex<Option<RequestLane>>,
    activity: Mutex<Activity>,
    /// The nanoseconds from `opened` to `Activity::quiet_since` of a stranger that is quiet, or [`BUSY`]: read without the lock, since an
    /// eviction looks at every connection.
    quiet_after: AtomicU64,
}

/// The value of [`ConnectionState::quiet_after`] while the client waits for this server.
const BUSY: u64 = u64::MAX;

/// The activity of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Activity {
    /// Requests whose head has arrived, since the connection began.
    pub(super) begun: u64,
    /// Of these, requests whose response has not ended.
    pub(super) open: usize,
    /// Of these, requests that have arrived completely: the client waits for this server.
    pub(super) busy: usize,
    /// Of these, requests of whose answer the client has not taken what it was handed: the server waits for the client again.
    pub(super) unread: usize,
    /// Since when the server waits for the client: no request is busy, or all answers are unread.
    pub(super) quiet_since: Instant,
    /// The time since which no request is open.
    pub(super) idle_since: Instant,
}

impl Activity {
    /// Returns whether the server waits for the client. An unread answer keeps the connection of a recognized caller busy, and
    /// that of a stranger not: a stranger decides for how long it leaves answers unread.
    pub(super) const fn is_quiet(&self, is_recognized: bool) -> bool {
        if is_recognized { self.busy == 0 } else { self.busy == self.unread }
    }

    /// Counts a request that was in one phase and is in another from now on.
    fn replace(&mut self, before: RequestPhase, after: RequestPhase) {
        self.busy = self.busy + usize::from(after.is_busy()) - usize::from(before.is_busy());
        self.unread = self.unread + usize::from(after.is_unread()) - usize::from(before.is_unread());
        if self.busy == self.unread {
            self.quiet_since = Instant::now();
        }
    }
}

/// How far a request is.
#[derive(Debug, Clone, Copy, Default)]
struct RequestPhase {
    is_whole: bool,
    is_handed_out: bool,
}

impl RequestPhase {
    const fn is_busy(self) -> bool {
        self.is_whole
    }

    const fn is_unread(self) -> bool {
        self.is_whole && self.is_handed_out
    }
}

impl ConnectionState {
    pub(super) fn new(id: u64, network: IpAddr) -> Self {
        let now = Instant::now();
        let activity = Activity { begun: 0, open: 0, busy: 0, unread: 0, quiet_since: now, idle_since: now };
        Self {
            id,
            network,
            opened: now,
            evicted: CancellationToken::new(),
            recognized: Mutex::default(),
            activity: Mutex::new(activity),
            quiet_after: AtomicU64::new(0),
        }
    }

    /// Returns since when the server waits for the client, who is a stranger; `None` if the client waits for the server.
    pub(super) fn quiet_since(&self) -> Option<Instant> {
        let after = self.quiet_after.load(Ordering::Relaxed);
        (after != BUSY).then(|| self.opened + Duration::from_nanos(after))
    }

    /// Copies what evictions read, after each change.
    fn publish(&self, activity: &Activity) {
        let after = if activity.is_quiet(false) {
            u64::try_from((activity.quiet_since - self.opened).as_nanos()).unwrap_or(BUSY - 1)
        } else {
            BUSY
        };
        self.quiet_after.store(after, Ordering::Relaxed);
    }

    /// Returns whether a request of this connection proved a session or a key.
    pub(super) fn is_recognized(&self) -> bool {
        self.recognized_lane().is_some()
    }

    /// Returns the lane of the last caller that proved a session or a key.
    pub(super) fn recognized_lane(&self) -> Option<RequestLane> {
        *self.recognized.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the current activity.
    pub(super) fn activity(&self) -> Activity {
        *self.lock()
    }

    /// Counts a request until the guard is dropped.
    pub(super) fn begin_request(self: &Arc<Self>) -> RequestGuard {
        let mut activity = self.lock();
        activity.begun += 1;
        activity.open += 1;
        drop(activity);
        RequestGuard { state: Arc::clone(self), phase: Mutex::default(), is_over_budget: AtomicBool::new(false) }
    }

    fn lock(&self) -> MutexGuard<'_, Activity> {
        self.activity.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that is counted until its response has ended.
#[derive(Debug)]
pub(super) struct RequestGuard {
    state: Arc<ConnectionState>,
    phase: Mutex<RequestPhase>,
    is_over_budget: AtomicBool,
}

impl RequestGuard {
    /// Returns the connection of the request.
    pub(super) fn connection(&self) -> &Arc<ConnectionState> {
        &self.state
    }

    /// Records that the request has arrived completely: from now on the client waits.
    pub(super) fn complete(&self) {
        self.change(|phase| phase.is_whole = true);
    }

    /// Notes that the client was handed a part of the answer.
    pub(super) fn hand_out(&self) {
        self.change(|phase| phase.is_handed_out = true);
    }

    /// Notes that the client took what it was handed.
    pub(super) fn take_back(&self) {
        self.change(|phase| phase.is_handed_out = false);
    }

    fn change(&self, change: impl FnOnce(&mut RequestPhase)) {
        let mut phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        let before = *phase;
        change(&mut phase);
        let mut activity = self.state.lock();
        activity.replace(before, *phase);
        self.state.publish(&activity);
    }

    /// Records that the body was aborted because too many bytes are in memory.
    pub(super) fn refuse_bytes(&self) {
        self.is_over_budget.store(true, Ordering::Relaxed);
    }

    /// Returns whether the body was aborted.
    pub(super) fn is_over_budget(&self) -> bool {
        self.is_over_budget.load(Ordering::Relaxed)
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let phase = *self.phase.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut activity = self.state.lock();
        activity.open -= 1;
        activity.replace(phase, RequestPhase::default());
        self.state.publish(&activity);
        if activity.open == 0 {
            activity.idle_since = Instant::now();
        }
    }
}

/// The connection of a request; an extension of the request.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionHandle {
    state: Arc<ConnectionState>,
    /// The turn of the request.
    turn: Option<Arc<RequestTurn>>,
}

impl ConnectionHandle {
    pub(super) const fn new(state: Arc<ConnectionState>, turn: Option<Arc<RequestTurn>>) -> Self {
        Self { state, turn }
    }

    /// Records that a request of this connection proved a session or a key; its turn continues in the lane of its caller.
    pub(crate) fn recognize(&self, lane: RequestLane) {
        *self.state.recognized.lock().unwrap_or_else(PoisonError::into_inner) = Some(lane);
        if let Some(turn) = &self.turn {
            turn.transfer(lane);
        }
    }

    /// Records that a request proved a member's session or key: for the lane of its turn, and as the owner of its work.
    pub(crate) fn recognize_member(extensions: &http::Extensions, actor: &Actor) {
        let owner = WorkOwner::from(actor);
        Self::recognize_in(extensions, RequestLane::Caller(owner));
        recognize_caller(owner);
    }

    /// Records what [`ConnectionHandle::recognize`] does, if the request came over a connection of this module; requests of tests may
    /// lack one.
    pub(crate) fn recognize_in(extensions: &http::Extensions, lane: RequestLane) {
        if let Some(handle) = extensions.get::<Self>() {
            handle.recognize(lane);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::Arc;

    use undertone_server_core::fairness::WorkOwner;

    use super::{ConnectionHandle, ConnectionState, RequestLane};

    #[test]
    fn request_counts_until_its_guard_is_dropped() {
        let state = Arc::new(ConnectionState::new(0, IpAddr::V4(Ipv4Addr::LOCALHOST)));
        let request = state.begin_request();
        assert_eq!((state.activity().open, state.activity().busy), (1, 0), "its body has not arrived");
        request.complete();
        request.complete();
        assert_eq!((state.activity().open, state.activity().busy), (1, 1));
        drop(request);
        let activity = state.activity();
        assert_eq!((activity.begun, activity.open, activity.busy), (1, 0, 0));
    }

    #[test]
    fn unread_answer_is_quiet_for_a_stranger_and_busy_for_a_member() {
        let state = Arc::new(ConnectionState::new(0, IpAddr::V4(Ipv4Addr::LOCALHOST)));
        let read = state.begin_request();
        let unread = state.begin_request();
        unread.hand_out();
        assert_eq!(state.activity().unread, 0, "an answer before the request is whole keeps nobody");
        read.complete();
        unread.complete();
        assert!(!state.activity().is_quiet(false), "one of two waits for this server");
        read.hand_out();
        assert!(state.activity().is_quiet(false) && !state.activity().is_quiet(true));
        assert_eq!(state.quiet_since(), Some(state.activity().quiet_since));
        read.take_back();
        assert!(!state.activity().is_quiet(false) && state.quiet_since().is_none(), "its client reads");
        drop(read);
        drop(unread);
        let activity = state.activity();
        assert_eq!((activity.busy, activity.unread), (0, 0));
        assert!(activity.is_quiet(false) && activity.is_quiet(true));
    }

    #[test]
    fn connection_is_recognized_once_a_request_says_so() {
        let state = Arc::new(ConnectionState::new(0, IpAddr::V4(Ipv4Addr::LOCALHOST)));
        assert!(!state.is_recognized());
        let mut extensions = http::Extensions::new();
        ConnectionHandle::recognize_in(&extensions, RequestLane::Caller(WorkOwner::System));
        extensions.insert(ConnectionHandle::new(Arc::clone(&state), None));
        ConnectionHandle::recognize_in(&extensions, RequestLane::Caller(WorkOwner::System));
        assert!(state.is_recognized());
    }
}
