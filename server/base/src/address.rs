//! Classifies network addresses as public or not. A webhook may use public addresses only, unless the configuration
//! allows others.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

/// Returns whether an address belongs to the public Internet (by IANA's special-purpose registries).
pub(crate) fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_special = match (a, b, c) {
        // "This network", shared address space of carriers, protocol assignments, benchmarks, multicast and reserved.
        (0 | 224..=255, ..) | (100, 64..=127, _) | (192, 0, 0) | (198, 18 | 19, _) => true,
        _ => address.is_private() || address.is_loopback() || address.is_link_local() || address.is_documentation(),
    };
    !is_special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, ..] = address.segments();
    // Global unicast, without protocol assignments, documentation and 6to4.
    let is_special = (a == 0x2001 && (b < 0x200 || b == 0xdb8)) || a == 0x2002 || (a == 0x3fff && b < 0x1000);
    (0x2000..=0x3fff).contains(&a) && !is_special
}

/// Returns whether the host of a URL can be public: a public address, or any name except `localhost` and its
/// subdomains.
pub(crate) fn is_public_host(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name != "localhost" && !name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => is_public(address.into()),
        Some(Host::Ipv6(address)) => is_public(address.into()),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::is_public;

    #[test]
    fn special_addresses_are_not_public() {
        let parsed = |text: &str| text.parse::<IpAddr>().expect(text);
        for public in ["8.8.8.8", "1.1.1.1", "100.63.255.255", "198.20.0.1", "2606:4700::1111", "::ffff:8.8.8.8"] {
            assert!(is_public(parsed(public)), "{public}");
        }
        for special in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "192.0.0.8",
            "192.0.2.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "64:ff9b::a00:1",
            "fc00::1",
            "fe80::1",
            "ff02::1",
            "2001:db8::1",
            "2002:a00:1::",
            "3fff::1",
        ] {
            assert!(!is_public(parsed(special)), "{special}");
        }
    }
}
