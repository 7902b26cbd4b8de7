//! Connections to the server, through an HTTP proxy if one is configured.

use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use tonic::transport::{Channel, Endpoint};

use super::GatewayError;
use crate::config::Server;

/// Returns a channel that connects at its first use.
///
/// # Errors
/// [`GatewayError::Address`] when the proxy's address or credentials cannot be used.
pub(super) fn connect_lazy(endpoint: &Endpoint, server: &Server) -> Result<Channel, GatewayError> {
    let Some(proxy) = server.proxy() else { return Ok(endpoint.connect_lazy()) };
    let wrong = |problem: String| GatewayError::Address(format!("proxy: {problem}"));
    let address = proxy.address().parse().map_err(|error| wrong(format!("{error}")))?;
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector.enforce_http(false);
    let mut tunnel = Tunnel::new(address, connector);
    if let Some(authorization) = proxy.authorization() {
        tunnel = tunnel.with_auth(authorization.parse().map_err(|_| wrong("credentials are no header".to_owned()))?);
    }
    Ok(endpoint.connect_with_connector_lazy(tunnel))
}

#[cfg(test)]
mod tests;
