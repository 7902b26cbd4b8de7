//! The address of a caller, directly or behind a proxy.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use axum::extract::ConnectInfo;
use axum::http::{Extensions, HeaderMap};

/// Returns the address of the connection's peer; behind a proxy, the address that the proxy saw.
pub(crate) fn client_address(is_behind_proxy: bool, headers: &HeaderMap, extensions: &Extensions) -> IpAddr {
    let forwarded = || {
        let header = headers.get_all("x-forwarded-for").iter().next_back()?;
        header.to_str().ok()?.rsplit(',').next()?.trim().parse().ok()
    };
    let peer = || extensions.get::<ConnectInfo<SocketAddr>>().map(|peer| peer.0.ip());
    let proxied = if is_behind_proxy { forwarded() } else { None };
    proxied.or_else(peer).unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
}
