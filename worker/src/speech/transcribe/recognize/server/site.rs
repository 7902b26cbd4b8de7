//! Which servers are the site's own.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use reqwest::redirect::Policy;

use super::RecognizerError;
use crate::speech::transcribe::web::{Address, WebError};

/// How long a name may be looked up, and a connection may take to be made.
const PATIENCE: Duration = Duration::from_secs(10);

/// Reads an address and looks up where it leads: every place is on this machine or in a private network.
pub(super) async fn find(url: &str) -> Result<(Address, Vec<SocketAddr>), RecognizerError> {
    let wrong = |reason: String| RecognizerError::Setting { field: "url", reason };
    let address = Address::parse(url).map_err(|error| wrong(error.to_string()))?;
    let places = places(&address).await.map_err(|reason| wrong(reason.to_owned()))?;
    if places.is_empty() || !places.iter().all(|place| inside(place.ip())) {
        let reason = "it leads outside: recordings are heard as they are here, so the server must be on this machine \
                      (127.0.0.1, ::1) or in a private network (10/8, 172.16/12, 192.168/16, 169.254/16, fc00::/7, fe80::/10)";
        return Err(wrong(reason.to_owned()));
    }
    Ok((address, places))
}

async fn places(address: &Address) -> Result<Vec<SocketAddr>, &'static str> {
    let url = address.url();
    let port = url.port_or_known_default().ok_or("it has no port")?;
    match url.host() {
        Some(url::Host::Ipv4(ip)) => Ok(vec![(ip, port).into()]),
        Some(url::Host::Ipv6(ip)) => Ok(vec![(ip, port).into()]),
        Some(url::Host::Domain(name)) => {
            let found = tokio::time::timeout(PATIENCE, tokio::net::lookup_host((name, port))).await;
            Ok(found
                .map_err(|_| "its name was not found in time")?
                .map_err(|_| "its name is not known here")?
                .collect())
        }
        None => Err("it has no host"),
    }
}

/// Connects to these places and to no others: a name that later leads elsewhere is not believed.
pub(super) fn client(
    address: &Address,
    places: &[SocketAddr],
    limit: Duration,
) -> Result<reqwest::Client, RecognizerError> {
    // The library asks for a process-wide provider even for plain HTTP; a second installation is refused harmlessly.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let url = address.url();
    let mut builder = reqwest::Client::builder().no_proxy().redirect(Policy::none()).referer(false);
    if let Some(name) = url.domain() {
        builder = builder.resolve_to_addrs(name, places);
    }
    let client = builder.connect_timeout(PATIENCE).timeout(limit).build();
    client.map_err(|error| RecognizerError::Web(WebError::from(error)))
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

    #[tokio::test]
    async fn an_address_outside_is_refused_before_anything_is_sent() {
        for url in
            ["https://192.0.2.7", "https://[2001:db8::1]:9000", "https://172.32.0.1", "https://[::ffff:192.0.2.7]"]
        {
            let refused = find(url).await.unwrap_err().to_string();
            assert!(refused.starts_with("url: it leads outside") && refused.contains("192.168/16"), "{url}: {refused}");
        }
        for url in ["http://10.0.0.7:8000", "not an address", "https://user@10.0.0.7"] {
            let refused = find(url).await.unwrap_err().to_string();
            assert!(refused.starts_with("url: "), "{url}: {refused}");
        }
    }

    #[tokio::test]
    async fn this_machine_and_private_networks_are_inside() {
        for url in ["http://127.0.0.1:8080", "http://[::1]:8080", "https://10.1.2.3", "https://[fd00::7]/whisper/"] {
            assert_eq!(find(url).await.unwrap().1.len(), 1, "{url}");
        }
        let (_, places) = find("http://localhost:8080").await.unwrap();
        assert!(places.iter().all(|place| place.ip().is_loopback()), "{places:?}");
    }
}
