//! The open connections. Admits a connection while the listener is not full; otherwise it first closes one without a
//! pending response: strangers first, then the longest inactive.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::ConnectionLimits;
use super::network::network_of;
use super::state::ConnectionState;
use crate::metrics::{Limit, Metrics};

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

    /// Closes the connection that has been quiet longest among those for which `may_close` returns true, strangers
    /// first. Returns whether there was one.
    fn evict(&mut self, may_close: impl Fn(&ConnectionState) -> bool) -> bool {
        let quiet = self.by_id.iter().filter(|(_, state)| state.activity().busy == 0 && may_close(state));
        let first = quiet.min_by_key(|(_, state)| (state.is_recognized(), state.activity().quiet_since));
        let Some((id, state)) = first.map(|(id, state)| (*id, Arc::clone(state))) else { return false };
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
            // Another user behind the same address may be recognized: a stranger never closes their connection.
            if !open.evict(|state| state.network == network && !state.is_recognized()) {
                return None;
            }
        }
        if open.by_id.len() >= self.limits.total {
            self.report(&mut open, Limit::Connections);
            if !open.evict(|_| true) {
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

    /// Closes one quiet connection, because the process has no file descriptor left for another.
    pub(super) fn make_room(&self) {
        self.lock().evict(|_| true);
    }

    fn report(&self, open: &mut OpenConnections, limit: Limit) {
        self.metrics.reach(limit);
        if open.logged.is_none_or(|logged| logged.elapsed() >= LOG_EVERY) {
            open.logged = Some(Instant::now());
            tracing::warn!(
                listener = self.listener,
                limit = limit.label(),
                connections = open.by_id.len(),
                "a limit of connections is reached; quiet connections of strangers are closed first"
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
    use crate::metrics::{Metrics, Transactions};

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

    #[tokio::test]
    async fn busy_connections_are_not_evicted() {
        let registry = registry(2, 2);
        let first = registry.admit(address(1)).expect("room");
        let second = registry.admit(address(2)).expect("room");
        let requests = [first.state.begin_request(), second.state.begin_request()];
        for request in &requests {
            request.complete();
        }
        assert!(registry.admit(address(3)).is_none());
        drop(requests);
        assert!(registry.admit(address(3)).is_some());
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
