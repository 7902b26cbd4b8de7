//! Which connections are open. Admits another one while there is room, or makes room by closing some of strangers. A newcomer is a
//! stranger, so it never closes the connection of a recognized caller.
//!
//! Quiet strangers go first, from the network that has the most of them, the longest quiet first. Where no stranger is quiet, the
//! oldest go, of the network with the most strangers. So a network keeps its quiet connections while another has more of them.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::limits::ConnectionLimits;
use super::state::ConnectionState;
use undertone_server_core::metrics::{Limit, Metrics};
use undertone_server_core::network::network_of;

/// Where there is no room, at most one of this many connections is closed at once. Each search looks at every connection. If the server
/// closed one connection at a time, a flood would cause a search for each of its newcomers.
const EVICTED_SHARE: usize = 128;
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

/// The connections of one network, by number.
type NetworkConnections = HashMap<u64, Arc<ConnectionState>>;

#[derive(Debug, Default)]
struct OpenConnections {
    next: u64,
    count: usize,
    by_network: HashMap<IpAddr, NetworkConnections>,
    logged: Option<Instant>,
}

/// The strangers of a network of whom some are closed first: the quiet ones, or all where none is quiet.
#[derive(Debug)]
struct EvictionCandidates {
    is_quiet: bool,
    /// With the time since when a stranger is quiet, or since when it is connected.
    strangers: Vec<(Instant, Arc<ConnectionState>)>,
}

impl EvictionCandidates {
    /// Returns the strangers of a network; `None` if all its callers are recognized.
    fn find(connections: &NetworkConnections) -> Option<Self> {
        let strangers = || connections.values().filter(|state| !state.is_recognized());
        let quiet = strangers().filter_map(|state| Some((state.quiet_since()?, Arc::clone(state)))).collect::<Vec<_>>();
        if !quiet.is_empty() {
            return Some(Self { is_quiet: true, strangers: quiet });
        }
        let all = strangers().map(|state| (state.opened, Arc::clone(state))).collect::<Vec<_>>();
        (!all.is_empty()).then_some(Self { is_quiet: false, strangers: all })
    }

    fn order(&self) -> (bool, usize, Option<Reverse<Instant>>) {
        let longest = self.strangers.iter().map(|(since, _)| *since).min();
        (self.is_quiet, self.strangers.len(), longest.map(Reverse))
    }

    /// Returns the `most` strangers that are quiet, or connected, for longest.
    fn longest(mut self, most: usize) -> impl Iterator<Item = Arc<ConnectionState>> {
        self.strangers.sort_by_key(|(since, _)| *since);
        self.strangers.into_iter().take(most).map(|(_, connection)| connection)
    }
}

impl OpenConnections {
    fn insert(&mut self, network: IpAddr) -> Arc<ConnectionState> {
        let id = self.next;
        self.next += 1;
        let state = Arc::new(ConnectionState::new(id, network));
        self.by_network.entry(network).or_default().insert(id, Arc::clone(&state));
        self.count += 1;
        state
    }

    fn remove(&mut self, connection: &ConnectionState) {
        let Some(of_network) = self.by_network.get_mut(&connection.network) else { return };
        if of_network.remove(&connection.id).is_some() {
            self.count -= 1;
        }
        if of_network.is_empty() {
            self.by_network.remove(&connection.network);
        }
    }

    fn of_network(&self, network: IpAddr) -> usize {
        self.by_network.get(&network).map_or(0, HashMap::len)
    }

    /// Closes connections of strangers of the network with the most, which keeps as many as the next network has. Closes at least one.
    /// Returns whether there was one.
    fn evict_strangers(&mut self) -> bool {
        let mut networks = self.by_network.values().filter_map(EvictionCandidates::find).collect::<Vec<_>>();
        let Some(first) = (0..networks.len()).max_by_key(|index| networks[*index].order()) else { return false };
        let first = networks.swap_remove(first);
        let others = networks.iter().filter(|network| network.is_quiet == first.is_quiet);
        let next = others.map(|network| network.strangers.len()).max().unwrap_or(0);
        let most = (first.strangers.len() - next).clamp(1, self.count.div_ceil(EVICTED_SHARE));
        self.evict(first.longest(most))
    }

    /// Closes some connections of strangers of one network. Returns whether there was one.
    fn evict_strangers_of(&mut self, network: IpAddr) -> bool {
        let Some(connections) = self.by_network.get(&network) else { return false };
        let most = connections.len().div_ceil(EVICTED_SHARE);
        let longest = EvictionCandidates::find(connections).map(|candidates| candidates.longest(most));
        self.evict(longest.into_iter().flatten())
    }

    /// Closes the connection of a recognized caller that has been quiet longest. Returns whether there was one.
    fn evict_quiet(&mut self) -> bool {
        let all = self.by_network.values().flat_map(HashMap::values);
        let quiet = all.filter(|state| state.is_recognized() && state.activity().is_quiet(true));
        let first = quiet.min_by_key(|state| state.activity().quiet_since).cloned();
        self.evict(first)
    }

    fn evict(&mut self, connections: impl IntoIterator<Item = Arc<ConnectionState>>) -> bool {
        let mut is_any = false;
        for connection in connections {
            connection.evicted.cancel();
            self.remove(&connection);
            is_any = true;
        }
        is_any
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
        if self.limits.by_address.is_some_and(|most| open.of_network(network) >= most) {
            self.report(&mut open, Limit::ConnectionsOfAddress);
            if !open.evict_strangers_of(network) {
                return None;
            }
        }
        if open.count >= self.limits.total {
            self.report(&mut open, Limit::Connections);
            if !open.evict_strangers() {
                return None;
            }
        }
        let state = open.insert(network);
        drop(open);
        Some(Admission { registry: Arc::clone(self), state })
    }

    /// Closes a connection, because the process has no file left. Without files the server cannot serve recognized callers either,
    /// so the longest quiet of them goes where there is no stranger.
    pub(super) fn make_room(&self) {
        let mut open = self.lock();
        let _ = open.evict_strangers() || open.evict_quiet();
    }

    fn report(&self, open: &mut OpenConnections, limit: Limit) {
        self.metrics.reach(limit);
        if open.logged.is_none_or(|logged| logged.elapsed() >= LOG_EVERY) {
            open.logged = Some(Instant::now());
            tracing::warn!(
                listener = self.listener,
                limit = limit.label(),
                connections = open.count,
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
    /// The state of the connection.
    pub(super) state: Arc<ConnectionState>,
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.registry.lock().remove(&self.state);
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::sync::Arc;
    use std::time::Duration;

    use super::super::state::ConnectionHandle;
    use super::super::tests::small_limits;
    use super::super::turn::RequestLane;
    use super::{Admission, ConnectionRegistry};
    use undertone_server_core::fairness::WorkOwner;
    use undertone_server_core::metrics::{Metrics, Transactions};

    fn registry(total: usize, by_address: usize) -> Arc<ConnectionRegistry> {
        let limits = super::ConnectionLimits { total, by_address: Some(by_address), ..small_limits() };
        Arc::new(ConnectionRegistry::new("test", limits, Metrics::new(Transactions::default())))
    }

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn recognize(admission: &Admission) {
        ConnectionHandle::new(Arc::clone(&admission.state), None).recognize(RequestLane::Caller(WorkOwner::System));
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

    #[tokio::test(start_paused = true)]
    async fn newcomer_of_a_small_network_outlives_a_flood() {
        let registry = registry(9, 8);
        let alone = registry.admit(address(9)).expect("room");
        let mut flood = Vec::new();
        for number in 0..100 {
            tokio::time::advance(Duration::from_millis(1)).await;
            flood.push(registry.admit(address(number % 3)).expect("another of the flood goes"));
        }
        assert!(!alone.state.evicted.is_cancelled(), "it is the longest quiet, and the only one of its network");
    }

    #[tokio::test]
    async fn share_of_the_largest_network_is_evicted_at_once() {
        let registry = registry(512, 512);
        let admit = |last| registry.admit(address(last)).expect("room, or a stranger goes");
        let large = (0..300).map(|_| admit(1)).collect::<Vec<_>>();
        let small = (0..212).map(|_| admit(2)).collect::<Vec<_>>();
        let _newest = admit(3);
        let evicted = |admissions: &[Admission]| admissions.iter().filter(|it| it.state.evicted.is_cancelled()).count();
        assert_eq!((evicted(&large), evicted(&small)), (4, 0), "one of 128");
        let room = (0..3).map(|_| admit(3)).collect::<Vec<_>>();
        assert_eq!((evicted(&large), evicted(&small), evicted(&room)), (4, 0, 0));
    }

    #[tokio::test]
    async fn largest_network_keeps_as_many_as_the_next() {
        let registry = registry(512, 512);
        let admit = |last| registry.admit(address(last)).expect("room, or a stranger goes");
        let large = (0..257).map(|_| admit(1)).collect::<Vec<_>>();
        let _next = (0..255).map(|_| admit(2)).collect::<Vec<_>>();
        let _newest = admit(3);
        assert_eq!(large.iter().filter(|it| it.state.evicted.is_cancelled()).count(), 2);
    }

    #[tokio::test]
    async fn dropped_connection_makes_room() {
        let registry = registry(2, 1);
        let first = registry.admit(address(1)).expect("room");
        first.state.begin_request().complete();
        drop(first);
        let again = registry.admit(address(1)).expect("room again");
        assert_eq!(registry.lock().count, 1);
        drop(again);
        assert!(registry.lock().by_network.is_empty());
    }
}
