//! Connections to the server, by way of a proxy where one is configured.

use std::path::Path;
use std::sync::Arc;

use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tonic::transport::{Channel, Endpoint};

use super::GatewayError;
use crate::config::{ProxyServer, ServerEndpoint};

/// Returns a channel that connects at its first use.
///
/// # Errors
/// [`GatewayError::Address`] when the proxy's address, credentials or certificates cannot be used.
pub(super) fn connect_lazy(endpoint: &Endpoint, server: &ServerEndpoint) -> Result<Channel, GatewayError> {
    let Some(proxy) = server.proxy() else { return Ok(endpoint.connect_lazy()) };
    let address = proxy.address().parse().map_err(|error| proxy_error(&format!("{error}")))?;
    let mut tcp = HttpConnector::new();
    tcp.set_nodelay(true);
    tcp.enforce_http(false);
    let tls = client_config(proxy)?;
    let connector = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1();
    let mut tunnel = Tunnel::new(address, connector.wrap_connector(tcp));
    if let Some(authorization) = proxy.authorization() {
        let authorization =
            authorization.parse().map_err(|_| proxy_error("the credentials are no valid header value"))?;
        tunnel = tunnel.with_auth(authorization);
    }
    Ok(endpoint.connect_with_connector_lazy(tunnel))
}

/// Returns the settings of TLS with the proxy. The server is recognized by its own certificate inside the tunnel.
fn client_config(proxy: &ProxyServer) -> Result<ClientConfig, GatewayError> {
    let mut roots = RootCertStore::empty();
    for certificate in authorities(proxy)? {
        roots.add(certificate).map_err(|error| proxy_error(&error.to_string()))?;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| proxy_error(&error.to_string()))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

/// Returns the certificates by which the proxy is recognized; none for a proxy without TLS.
fn authorities(proxy: &ProxyServer) -> Result<Vec<CertificateDer<'static>>, GatewayError> {
    if !proxy.is_https() {
        return Ok(Vec::new());
    }
    if let Some(path) = proxy.authorities() {
        return read_certificates(path);
    }
    // Certificates of the system that cannot be read are passed over, as every program does.
    let certificates = rustls_native_certs::load_native_certs().certs;
    if certificates.is_empty() {
        return Err(proxy_error(
            "the system has no certificates of authorities: install ca-certificates, or set `proxy_ca`",
        ));
    }
    Ok(certificates)
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, GatewayError> {
    let wrong = |problem: &str| proxy_error(&format!("`proxy_ca` {}: {problem}", path.display()));
    let certificates = CertificateDer::pem_file_iter(path).map_err(|error| wrong(&error.to_string()))?;
    let certificates: Vec<_> = certificates.collect::<Result<_, _>>().map_err(|error| wrong(&error.to_string()))?;
    if certificates.is_empty() { Err(wrong("the file contains no certificate (PEM)")) } else { Ok(certificates) }
}

fn proxy_error(problem: &str) -> GatewayError {
    GatewayError::Address(format!("proxy: {problem}"))
}

#[cfg(test)]
mod tests;
