//! The network to which an address belongs: the unit by which callers are counted before they are recognized.

use std::net::{IpAddr, Ipv6Addr};

/// Returns an IPv4 address as it is, and of an IPv6 address the /64 that a provider gives to one customer as a whole.
pub(crate) fn network_of(address: IpAddr) -> IpAddr {
    // On a socket of version 6, addresses of version 4 come as `::ffff:a.b.c.d`: their first 64 bits are all the same.
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
