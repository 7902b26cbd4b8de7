//! Addresses of the site's own servers: on this machine, or in a network that is not reachable from the Internet.
//!
//! Recognizers receive unmodified recordings, converters receive voices, and a speech engine receives the texts of dummies.
//! None of that is charged, so none of it may leave the site. A host name is resolved once, each of its addresses is checked,
//! and the client connects to these addresses only; it uses no proxy and follows no redirect.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use reqwest::redirect::Policy;

use super::web::{AddressError, WebAddress, WebError};

/// Limit for resolving a name, and for establishing a connection.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// A server of the site's own.
#[derive(Debug, Clone)]
pub struct PrivateHost {
    address: WebAddress,
    places: Vec<SocketAddr>,
}

impl PrivateHost {
    /// Parses an address and resolves it: each resolved address must be on this machine or in a private network. Blocks for at
    /// most 10 s while a name is resolved.
    ///
    /// # Errors
    /// [`AddressError`] when the address is malformed, uses plain HTTP over a network, cannot be resolved, or leads outside.
    pub fn find(url: &str) -> Result<Self, AddressError> {
        let address = WebAddress::parse(url)?;
        let places = places(&address)?;
        if places.is_empty() || !places.iter().all(|place| is_private(place.ip())) {
            return Err(AddressError::Outside);
        }
        Ok(Self { address, places })
    }

    /// Returns the address.
    pub const fn address(&self) -> &WebAddress {
        &self.address
    }

    /// Returns a client that connects only to the checked addresses, with `limit` for a complete answer. A name that later
    /// resolves elsewhere has no effect.
    ///
    /// # Errors
    /// [`WebError`] when the system has no certificate authorities.
    pub fn client(&self, limit: Duration) -> Result<reqwest::Client, WebError> {
        // The library asks for a process-wide provider even for plain HTTP; a second installation fails harmlessly.
        let _ = rustls::crypto::ring::default_provider().install_default();
        // A WebSocket starts as HTTP/1.1.
        let mut builder = reqwest::Client::builder().http1_only().no_proxy().redirect(Policy::none()).referer(false);
        if let Some(name) = self.address.url().domain() {
            builder = builder.resolve_to_addrs(name, &self.places);
        }
        builder.connect_timeout(PATIENCE).timeout(limit).build().map_err(WebError::Authorities)
    }
}

fn places(address: &WebAddress) -> Result<Vec<SocketAddr>, AddressError> {
    let url = address.url();
    let port = url.port_or_known_default().ok_or(AddressError::Malformed)?;
    match url.host() {
        Some(url::Host::Ipv4(ip)) => Ok(vec![(ip, port).into()]),
        Some(url::Host::Ipv6(ip)) => Ok(vec![(ip, port).into()]),
        Some(url::Host::Domain(name)) => {
            let name = name.to_owned();
            let (sender, receiver) = channel();
            // The system's resolver has no time limit of its own: it may outlive this call.
            thread::spawn(move || drop(sender.send((name.as_str(), port).to_socket_addrs().map(Vec::from_iter))));
            receiver.recv_timeout(PATIENCE).map_err(|_| AddressError::Slow)?.map_err(|_| AddressError::Unknown)
        }
        None => Err(AddressError::Malformed),
    }
}

/// Returns whether an address is on this machine or in a private network.
fn is_private(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_private_v4(ip),
        IpAddr::V6(ip) => ip.to_ipv4_mapped().map_or_else(|| is_private_v6(ip), is_private_v4),
    }
}

fn is_private_v4(ip: Ipv4Addr) -> bool {
    ip.is_loopback() || ip.is_private() || ip.is_link_local()
}

fn is_private_v6(ip: Ipv6Addr) -> bool {
    ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn outside_address_is_refused_before_sending() {
        for url in
            ["https://192.0.2.7", "https://[2001:db8::1]:9000", "https://172.32.0.1", "https://[::ffff:192.0.2.7]"]
        {
            let refused = PrivateHost::find(url).unwrap_err();
            assert_eq!(refused, AddressError::Outside, "{url}");
            assert!(refused.to_string().contains("192.168/16"), "{refused}");
        }
        for (url, expected) in [
            ("http://10.0.0.7:8000", AddressError::Plain),
            ("not an address", AddressError::Malformed),
            ("https://user@10.0.0.7", AddressError::Extra),
        ] {
            assert_eq!(PrivateHost::find(url).unwrap_err(), expected, "{url}");
        }
        // A machine without a name server may take longer to fail than the limit.
        let nobody = PrivateHost::find("https://nowhere.invalid").unwrap_err();
        assert!(matches!(nobody, AddressError::Unknown | AddressError::Slow), "{nobody}");
    }

    #[test]
    fn loopback_and_private_networks_are_accepted() {
        for url in ["http://127.0.0.1:8080", "http://[::1]:8080", "https://10.1.2.3", "https://[fd00::7]/whisper/"] {
            assert_eq!(PrivateHost::find(url).unwrap().places.len(), 1, "{url}");
        }
        let host = PrivateHost::find("http://localhost:8080").unwrap();
        assert!(host.places.iter().all(|place| place.ip().is_loopback()), "{host:?}");
    }
}
