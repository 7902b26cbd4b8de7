//! The requests for the server's announcements of its certificates: by its signature, over an unpredictable challenge.
//!
//! While its certificate is known the server is asked from time to time, so that the next certificate is known before
//! it is used. A site that was offline for longer meets an unknown one: for this one question, a connection is made
//! without a check of the certificate. Only random bytes are sent there, and only the server's signature is accepted.

use tonic::transport::{ClientTlsConfig, Endpoint};
use undertone_api::signed::CertificatePins;
use undertone_proto::v1;
use undertone_proto::v1::worker_gateway_client::WorkerGatewayClient;

use super::trust::CertificateTrust;
use super::{CALL, CONNECT, GatewayError, call_within, pin, proxy};
use crate::config::ServerEndpoint;
use crate::site::clock;

/// Asks for the server's certificates, and accepts those that it has signed.
pub(super) async fn request_pins(
    mut client: WorkerGatewayClient<tonic::transport::Channel>,
    trust: &CertificateTrust,
) -> Result<CertificatePins, GatewayError> {
    let challenge = hex::encode(clock::entropy::<32>().map_err(|_| {
        GatewayError::Protocol("the operating system returned no random bytes for a challenge".to_owned())
    })?);
    let request = v1::PinsRequest { challenge: challenge.clone() };
    let reply = call_within(CALL, client.pins(request)).await?.into_inner();
    let signed = reply.pins.ok_or_else(|| GatewayError::Protocol("certificates without a signature".to_owned()))?;
    trust.accept_announcement(&signed.into(), &challenge)
}

/// Asks like [`request_pins`], without a check of the certificate at the server's address: for a site that was offline while the
/// certificate changed.
pub(super) async fn request_pins_unverified(
    server: &ServerEndpoint,
    trust: &CertificateTrust,
) -> Result<CertificatePins, GatewayError> {
    let address = |error: tonic::transport::Error| GatewayError::Address(error.to_string());
    let endpoint = Endpoint::from_shared(server.address().to_owned()).map_err(address)?.connect_timeout(CONNECT);
    let endpoint =
        endpoint.tls_config_with_verifier(ClientTlsConfig::new(), pin::AnyCertificate::verifier()).map_err(address)?;
    request_pins(WorkerGatewayClient::new(proxy::connect_lazy(&endpoint, server)?), trust).await
}
