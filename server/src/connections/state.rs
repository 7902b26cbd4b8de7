//! The state of one connection, shared by its driver, its requests and the registry.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The state of one connection.
#[derive(Debug)]
pub(super) struct ConnectionState {
    /// The network of the other end.
    pub(super) network: IpAddr,
    /// The time of its acceptance.
    pub(super) opened: Instant,
    /// Cancelled when the registry evicts the connection.
    pub(super) evicted: CancellationToken,
    is_recognized: AtomicBool,
    activity: Mutex<Activity>,
}

/// The activity of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Activity {
    /// Requests whose head has arrived, since the connection began.
    pub(super) begun: u64,
    /// Of these, requests whose response has not ended.
    pub(super) open: usize,
    /// Of these, requests that have arrived completely: the client waits for this server.
    pub(super) busy: usize,
    /// The time since which no request is busy, so the server waits for the client.
    pub(super) quiet_since: Instant,
    /// The time since which no request is open.
    pub(super) idle_since: Instant,
}

impl ConnectionState {
    pub(super) fn new(network: IpAddr) -> Self {
        let now = Instant::now();
        let activity = Activity { begun: 0, open: 0, busy: 0, quiet_since: now, idle_since: now };
        Self {
            network,
            opened: now,
            evicted: CancellationToken::new(),
            is_recognized: AtomicBool::new(false),
            activity: Mutex::new(activity),
        }
    }

    /// Returns whether a request of this connection proved a session or a key.
    pub(super) fn is_recognized(&self) -> bool {
        self.is_recognized.load(Ordering::Relaxed)
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
        RequestGuard {
            state: Arc::clone(self),
            is_whole: AtomicBool::new(false),
            is_over_budget: AtomicBool::new(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Activity> {
        self.activity.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that is counted until its response has ended.
#[derive(Debug)]
pub(super) struct RequestGuard {
    state: Arc<ConnectionState>,
    is_whole: AtomicBool,
    is_over_budget: AtomicBool,
}

impl RequestGuard {
    /// Returns the connection of the request.
    pub(super) fn connection(&self) -> &Arc<ConnectionState> {
        &self.state
    }

    /// Records that the request has arrived completely: from now on the client waits.
    pub(super) fn complete(&self) {
        if !self.is_whole.swap(true, Ordering::Relaxed) {
            self.state.lock().busy += 1;
        }
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
        let now = Instant::now();
        let mut activity = self.state.lock();
        activity.open -= 1;
        if *self.is_whole.get_mut() {
            activity.busy -= 1;
        }
        if activity.busy == 0 {
            activity.quiet_since = now;
        }
        if activity.open == 0 {
            activity.idle_since = now;
        }
    }
}

/// The connection of a request; an extension of the request.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionHandle(pub(super) Arc<ConnectionState>);

impl ConnectionHandle {
    /// Records that a request of this connection proved a session or a key.
    pub(crate) fn recognize(&self) {
        self.0.is_recognized.store(true, Ordering::Relaxed);
    }

    /// Records the same, if the request came over a connection of this module; requests of tests may lack one.
    pub(crate) fn recognize_in(extensions: &http::Extensions) {
        if let Some(handle) = extensions.get::<Self>() {
            handle.recognize();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::Arc;

    use super::{ConnectionHandle, ConnectionState};

    #[test]
    fn request_counts_until_its_guard_is_dropped() {
        let state = Arc::new(ConnectionState::new(IpAddr::V4(Ipv4Addr::LOCALHOST)));
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
    fn connection_is_recognized_once_a_request_says_so() {
        let state = Arc::new(ConnectionState::new(IpAddr::V4(Ipv4Addr::LOCALHOST)));
        assert!(!state.is_recognized());
        let mut extensions = http::Extensions::new();
        ConnectionHandle::recognize_in(&extensions);
        extensions.insert(ConnectionHandle(Arc::clone(&state)));
        ConnectionHandle::recognize_in(&extensions);
        assert!(state.is_recognized());
    }
}
