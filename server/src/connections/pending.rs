//! Accepted connections that are not served yet, in turns of networks: one connection of each network, then again. So a newcomer of a
//! quiet network does not wait behind all newcomers of a flood.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

/// The pending connections, in their order within a network.
#[derive(Debug)]
pub(super) struct PendingConnections<T> {
    by_network: HashMap<IpAddr, VecDeque<T>>,
    /// The networks with pending connections; the first is next.
    order: VecDeque<IpAddr>,
    count: usize,
}

impl<T> PendingConnections<T> {
    pub(super) fn new() -> Self {
        Self { by_network: HashMap::new(), order: VecDeque::new(), count: 0 }
    }

    /// Returns how many connections are pending.
    pub(super) const fn count(&self) -> usize {
        self.count
    }

    /// Adds a connection of a network behind those of the same network.
    pub(super) fn push(&mut self, network: IpAddr, connection: T) {
        let of_network = self.by_network.entry(network).or_default();
        if of_network.is_empty() {
            self.order.push_back(network);
        }
        of_network.push_back(connection);
        self.count += 1;
    }

    /// Removes the next connection.
    pub(super) fn pop(&mut self) -> Option<T> {
        let network = self.order.pop_front()?;
        let of_network = self.by_network.get_mut(&network)?;
        let connection = of_network.pop_front()?;
        if of_network.is_empty() {
            self.by_network.remove(&network);
        } else {
            self.order.push_back(network);
        }
        self.count -= 1;
        Some(connection)
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::PendingConnections;

    fn network(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn networks_alternate_and_each_keeps_its_order() {
        let mut pending = PendingConnections::new();
        for number in 0..3 {
            pending.push(network(1), ("flood", number));
        }
        pending.push(network(2), ("newcomer", 0));
        assert_eq!(pending.count(), 4);
        let first = [pending.pop(), pending.pop()];
        assert_eq!(first, [Some(("flood", 0)), Some(("newcomer", 0))]);
        pending.push(network(2), ("newcomer", 1));
        let rest = std::iter::from_fn(|| pending.pop()).collect::<Vec<_>>();
        assert_eq!(rest, [("flood", 1), ("newcomer", 1), ("flood", 2)]);
        assert_eq!(pending.count(), 0);
        assert!(pending.by_network.is_empty() && pending.order.is_empty(), "nothing of past networks remains");
    }
}
