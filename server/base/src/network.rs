//! The network of an address: the unit by which unrecognized callers are counted.

use std::net::{IpAddr, Ipv6Addr};

/// Returns an IPv4 address unchanged, and the /64 of an IPv6 address, which a provider assigns to one customer.
pub fn network_of(address: IpAddr) -> IpAddr {
    // On an IPv6 socket, IPv4 addresses appear as `::ffff:a.b.c.d`: their first 64 bits are all the same.
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::network_of;

    #[test]
    fn network_of_ipv6_is_its_slash_64() {
        let network = |text: &str| network_of(text.parse::<IpAddr>().expect("an address"));
        assert_eq!(network("2001:db8:1:2::3"), network("2001:db8:1:2:ffff::"));
        assert_ne!(network("2001:db8:1:2::3"), network("2001:db8:1:3::3"));
        assert_eq!(network("::ffff:192.0.2.1"), network("192.0.2.1"));
        assert_ne!(network("192.0.2.2"), network("192.0.2.1"));
    }
}
