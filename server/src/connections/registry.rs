//! Which connections are open. Admits another one while there is room, or makes room by closing one of a stranger: the longest quiet
//! first, then the oldest. A newcomer is a stranger, so it never closes the connection of a recognized caller.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::ConnectionLimits;
use super::state::ConnectionState;
use undertone_server_core::metrics::{Limit, Metrics};
use undertone_server_core::network::network_of;

/// The least time between two log lines about the same limit.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// The open connections of one listener.
#[derive(Debug)]
pub(super) struct ConnectionRegistry {
    listener: &'static str,
    limits: ConnectionLimits,
    metrics: Metrics,
    open: Mutex<OpenConnections>,
}

#[derive(Debug, Default)]
struct OpenConnections {
    next: u64,
    by_id: HashMap<u64, Arc<ConnectionState>>,
    by_network: HashMap<IpAddr, usize>,
    logged: Option<Instant>,
}

impl OpenConnections {
    fn remove(&mut self, id: u64) {
        let Some(state) = self.by_id.remove(&id) else { return };
        if let Some(count) = self.by_network.get_mut(&state.network) {
            *count -= 1;
            if *count == 0 {
                self.by_network.remove(&state.network);
            }
        }
    }

    /// Closes the connection of a stranger among those that `may_close` admits: the one that has been quiet longest, or the oldest
    /// where none is quiet. Returns whether there was one.
    fn evict_stranger(&mut self, may_close: impl Fn(&ConnectionState) -> bool) -> bool {
        let strangers = self.by_id.iter().filter(|(_, state)| !state.is_recognized() && may_close(state));
        let first = strangers.min_by_key(|(_, state)| {
            let activity = state.activity();
            if activity.is_quiet(false) { (false, activity.quiet_since) } else { (true, state.opened) }
        });
        let id = first.map(|(id, _)| *id);
        self.evict(id)
    }

    /// Closes the connection of a recognized caller that has been quiet longest. Returns whether there was one.
    fn evict_quiet(&mut self) -> bool {
        let quiet = self.by_id.iter().filter(|(_, state)| state.is_recognized() && state.activity().is_quiet(true));
        let id = quiet.min_by_key(|(_, state)| state.activity().quiet_since).map(|(id, _)| *id);
        self.evict(id)
    }

    fn evict(&mut self, id: Option<u64>) -> bool {
        let Some((id, state)) = id.and_then(|id| Some((id, self.by_id.get(&id)?))) else { return false };
        state.evicted.cancel();
        self.remove(id);
        true
    }
}

impl ConnectionRegistry {
    pub(super) fn new(listener: &'static str, limits: ConnectionLimits, metrics: Metrics) -> Self {
        Self { listener, limits, metrics, open: Mutex::default() }
    }

    /// Admits a connection from `peer`, or returns `None` if the listener is full and no connection can be closed.
    pub(super) fn admit(self: &Arc<Self>, peer: IpAddr) -> Option<Admission> {
        let network = network_of(peer);
        let mut open = self.lock();
        let from_here = open.by_network.get(&network).copied().unwrap_or_default();
        if self.limits.by_address.is_some_and(|most| from_here >= most) {
            self.report(&mut open, Limit::ConnectionsOfAddress);
            if !open.evict_stranger(|state| state.network == network) {
                return None;
            }
        }
        if open.by_id.len() >= self.limits.total {
            self.report(&mut open, Limit::Connections);
            if !open.evict_stranger(|_| true) {
                return None;
            }
        }
        let id = open.next;
        open.next += 1;
        let state = Arc::new(ConnectionState::new(network));
        open.by_id.insert(id, Arc::clone(&state));
        *open.by_network.entry(network).or_default() += 1;
        drop(open);
        Some(Admission { registry: Arc::clone(self), id, state })
    }

    /// Closes a connection, because the process has no file left. Without files the server cannot serve recognized callers either,
    /// so the longest quiet of them goes where there is no stranger.
    pub(super) fn make_room(&self) {
        let mut open = self.lock();
        let _ = open.evict_stranger(|_| true) || open.evict_quiet();
    }

    fn report(&self, open: &mut OpenConnections, limit: Limit) {
        self.metrics.reach(limit);
        if open.logged.is_none_or(|logged| logged.elapsed() >= LOG_EVERY) {
            open.logged = Some(Instant::now());
            tracing::warn!(
                listener = self.listener,
                limit = limit.label(),
                connections = open.by_id.len(),
                "connection limit reached; closing connections of unrecognized callers, idle ones first"
            );
        }
    }

    fn lock(&self) -> MutexGuard<'_, OpenConnections> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The entry of a connection in the registry, which is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Admission {
    registry: Arc<ConnectionRegistry>,
    id: u64,
    /// The state of the connection.
    pub(super) state: Arc<ConnectionState>,
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.registry.lock().remove(self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::sync::Arc;
    use std::time::Duration;

    use super::super::state::ConnectionHandle;
    use super::super::tests::small_limits;
    use super::{Admission, ConnectionRegistry};
    use undertone_server_core::metrics::{Metrics, Transactions};

    fn registry(total: usize, by_address: usize) -> Arc<ConnectionRegistry> {
        let limits = super::ConnectionLimits { total, by_address: Some(by_address), ..small_limits() };
        Arc::new(ConnectionRegistry::new("test", limits, Metrics::new(Transactions::default())))
    }

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn recognize(admission: &Admission) {
        ConnectionHandle(Arc::clone(&admission.state)).recognize();
    }

    #[tokio::test(start_paused = true)]
    async fn oldest_busy_stranger_is_evicted_where_none_is_quiet() {
        let registry = registry(3, 3);
        let mut admissions = Vec::new();
        for last in 1..=3 {
            admissions.push(registry.admit(address(last)).expect("room"));
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        let requests = [0, 1].map(|number| admissions[number].state.begin_request());
        for request in &requests {
            request.complete();
        }
        let quiet_goes = registry.admit(address(4)).expect("the quiet one goes");
        let newest = quiet_goes.state.begin_request();
        newest.complete();
        let is_evicted = |admission: &Admission| admission.state.evicted.is_cancelled();
        assert_eq!(admissions.iter().map(is_evicted).collect::<Vec<_>>(), [false, false, true]);
        let _oldest_goes = registry.admit(address(5)).expect("the oldest goes");
        assert_eq!(admissions.iter().map(is_evicted).collect::<Vec<_>>(), [true, false, true]);
        assert!(!is_evicted(&quiet_goes));
    }

    #[tokio::test(start_paused = true)]
    async fn stranger_with_unread_answers_is_evicted_as_a_quiet_one() {
        let registry = registry(2, 2);
        let waiting = registry.admit(address(1)).expect("room");
        let request = waiting.state.begin_request();
        request.complete();
        tokio::time::advance(Duration::from_secs(1)).await;
        let unread = registry.admit(address(2)).expect("room");
        let answer = unread.state.begin_request();
        answer.complete();
        answer.hand_out();
        let _newest = registry.admit(address(3)).expect("the one that does not read goes");
        assert!(unread.state.evicted.is_cancelled() && !waiting.state.evicted.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn recognized_connection_is_never_evicted_for_a_newcomer() {
        let registry = registry(2, 2);
        let mut members = Vec::new();
        for last in 1..=2 {
            let member = registry.admit(address(last)).expect("room");
            recognize(&member);
            members.push(member);
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert!(registry.admit(address(3)).is_none(), "both are quiet, and known");
        assert!(members.iter().all(|member| !member.state.evicted.is_cancelled()));
        registry.make_room();
        assert!(members[0].state.evicted.is_cancelled(), "files are short for the members as well");
    }

    #[tokio::test(start_paused = true)]
    async fn longest_quiet_stranger_is_evicted_before_a_member() {
        let registry = registry(3, 3);
        let member = registry.admit(address(1)).expect("room");
        recognize(&member);
        tokio::time::advance(Duration::from_secs(1)).await;
        let older = registry.admit(address(2)).expect("room");
        tokio::time::advance(Duration::from_secs(1)).await;
        let younger = registry.admit(address(3)).expect("room");
        let _newest = registry.admit(address(4)).expect("the older stranger goes");
        assert!(older.state.evicted.is_cancelled());
        assert!(!member.state.evicted.is_cancelled() && !younger.state.evicted.is_cancelled());
    }

    #[tokio::test]
    async fn full_address_evicts_its_own_strangers_only() {
        let registry = registry(9, 2);
        let elsewhere = registry.admit(address(9)).expect("room");
        let member = registry.admit(address(1)).expect("room");
        let stranger = registry.admit(address(1)).expect("room");
        recognize(&member);
        let next = registry.admit(address(1)).expect("the stranger goes");
        assert!(stranger.state.evicted.is_cancelled() && !elsewhere.state.evicted.is_cancelled());
        recognize(&next);
        assert!(registry.admit(address(1)).is_none(), "both are recognized now");
        assert!(!member.state.evicted.is_cancelled());
    }

    #[tokio::test]
    async fn dropped_connection_makes_room() {
        let registry = registry(2, 1);
        let first = registry.admit(address(1)).expect("room");
        first.state.begin_request().complete();
        drop(first);
        let again = registry.admit(address(1)).expect("room again");
        assert_eq!(registry.lock().by_id.len(), 1);
        drop(again);
        assert!(registry.lock().by_network.is_empty());
    }
}
