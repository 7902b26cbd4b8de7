//! Machines of the site's own: on this machine, or in a network that the Internet does not reach.
//!
//! Recognizers hear recordings as they are, converters hear voices, and a speech engine learns what was made up: none of it is
//! charged for, so none of it may go further than the site. A name is looked up once, every address that it has is judged, and
//! only those are ever connected to; no proxy and no redirect leads elsewhere.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use reqwest::redirect::Policy;

use super::web::{Address, AddressError, WebError};

/// How long a name may be looked up, and a connection may take to be made.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// A machine of the site's own.
#[derive(Debug, Clone)]
pub struct Inside {
    address: Address,
    places: Vec<SocketAddr>,
}

impl Inside {
    /// Reads an address and looks up where it leads: every place is on this machine or in a private network. Blocks for at most
    /// 10 s where a name has to be looked up.
    ///
    /// # Errors
    /// [`AddressError`] when it is no address, is asked in plain text over a network, is not known, or leads outside.
    pub fn find(url: &str) -> Result<Self, AddressError> {
        let address = Address::parse(url)?;
        let places = places(&address)?;
        if places.is_empty() || !places.iter().all(|place| inside(place.ip())) {
            return Err(AddressError::Outside);
        }
        Ok(Self { address, places })
    }

    /// Its address.
    pub const fn address(&self) -> &Address {
        &self.address
    }

    /// What connects to it and to no other, with `limit` for a whole answer: a name that later leads elsewhere is not believed.
    ///
    /// # Errors
    /// [`WebError`] when the system has no certificates to believe by.
    pub fn client(&self, limit: Duration) -> Result<reqwest::Client, WebError> {
        // The library asks for a process-wide provider even for plain HTTP; a second installation is refused harmlessly.
        let _ = rustls::crypto::ring::default_provider().install_default();
        // A websocket begins as HTTP/1.1.
        let mut builder = reqwest::Client::builder().http1_only().no_proxy().redirect(Policy::none()).referer(false);
        if let Some(name) = self.address.url().domain() {
            builder = builder.resolve_to_addrs(name, &self.places);
        }
        builder.connect_timeout(PATIENCE).timeout(limit).build().map_err(WebError::Authorities)
    }
}

fn places(address: &Address) -> Result<Vec<SocketAddr>, AddressError> {
    let url = address.url();
    let port = url.port_or_known_default().ok_or(AddressError::Malformed)?;
    match url.host() {
        Some(url::Host::Ipv4(ip)) => Ok(vec![(ip, port).into()]),
        Some(url::Host::Ipv6(ip)) => Ok(vec![(ip, port).into()]),
        Some(url::Host::Domain(name)) => {
            let name = name.to_owned();
            let (says, said) = channel();
            // The system's lookup has no limit of its own: it may outlive the question.
            thread::spawn(move || drop(says.send((name.as_str(), port).to_socket_addrs().map(Vec::from_iter))));
            said.recv_timeout(PATIENCE).map_err(|_| AddressError::Slow)?.map_err(|_| AddressError::Unknown)
        }
        None => Err(AddressError::Malformed),
    }
}

/// Whether an address is on this machine or in a network that the Internet does not reach.
fn inside(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => inside_v4(ip),
        IpAddr::V6(ip) => ip.to_ipv4_mapped().map_or_else(|| inside_v6(ip), inside_v4),
    }
}

fn inside_v4(ip: Ipv4Addr) -> bool {
    ip.is_loopback() || ip.is_private() || ip.is_link_local()
}

fn inside_v6(ip: Ipv6Addr) -> bool {
    ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn an_address_outside_is_refused_before_anything_is_sent() {
        for url in
            ["https://192.0.2.7", "https://[2001:db8::1]:9000", "https://172.32.0.1", "https://[::ffff:192.0.2.7]"]
        {
            let refused = Inside::find(url).unwrap_err();
            assert_eq!(refused, AddressError::Outside, "{url}");
            assert!(refused.to_string().contains("192.168/16"), "{refused}");
        }
        for (url, expected) in [
            ("http://10.0.0.7:8000", AddressError::Plain),
            ("not an address", AddressError::Malformed),
            ("https://user@10.0.0.7", AddressError::Extra),
        ] {
            assert_eq!(Inside::find(url).unwrap_err(), expected, "{url}");
        }
        // A machine without a name server may take longer to say so than is waited.
        let nobody = Inside::find("https://nowhere.invalid").unwrap_err();
        assert!(matches!(nobody, AddressError::Unknown | AddressError::Slow), "{nobody}");
    }

    #[test]
    fn this_machine_and_private_networks_are_inside() {
        for url in ["http://127.0.0.1:8080", "http://[::1]:8080", "https://10.1.2.3", "https://[fd00::7]/whisper/"] {
            assert_eq!(Inside::find(url).unwrap().places.len(), 1, "{url}");
        }
        let found = Inside::find("http://localhost:8080").unwrap();
        assert!(found.places.iter().all(|place| place.ip().is_loopback()), "{found:?}");
    }
}
