//! gRPC: the workers' face, with health and reflection. It translates and calls `service`; no rule lives here.

mod auth;
mod stream;
#[cfg(test)]
mod tests;
mod worker_gateway;

use std::io;
use std::net::TcpListener;
use std::time::Duration;

use tonic::transport::server::TcpIncoming;
use tonic::transport::{Identity, Server, ServerTlsConfig};
use tower::util::{MapRequestLayer, MapResponseLayer};
use undertone_proto::DESCRIPTOR;
use undertone_proto::v1::worker_gateway_server::WorkerGatewayServer;

use self::worker_gateway::Gateway;
use crate::ctx::Ctx;
use crate::fault;

/// Most bytes of one message: a header with some thousands of receipts fits.
const LARGEST_MESSAGE: usize = 16 << 20;
/// How often a silent connection is asked whether it lives, and how long it may take to answer.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// Serves workers until `ctx.shutdown` is cancelled.
///
/// # Errors
/// When the listener or the certificate cannot be used, or serving ends by itself.
pub async fn serve(ctx: &Ctx, listener: TcpListener) -> io::Result<()> {
    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_serving::<WorkerGatewayServer<Gateway>>().await;
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTOR)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()
        .map_err(io::Error::other)?;
    let mut server =
        Server::builder().http2_keepalive_interval(Some(KEEPALIVE)).http2_keepalive_timeout(Some(KEEPALIVE)).layer((
            MapRequestLayer::new(|request: http::Request<_>| {
                fault::point(fault::RECEIVED);
                request
            }),
            MapResponseLayer::new(|response: http::Response<_>| {
                fault::point(fault::BEFORE_ANSWER);
                response
            }),
        ));
    if let Some(identity) = &ctx.tls {
        let identity = Identity::from_pem(&identity.certificate, &identity.key);
        server = server.tls_config(ServerTlsConfig::new().identity(identity)).map_err(io::Error::other)?;
    }
    let gateway = WorkerGatewayServer::new(Gateway::new(ctx.clone())).max_decoding_message_size(LARGEST_MESSAGE);
    let incoming = TcpIncoming::from(tokio::net::TcpListener::from_std(listener)?).with_nodelay(Some(true));
    let shutdown = ctx.shutdown.clone();
    server
        .add_service(health_service)
        .add_service(reflection)
        .add_service(gateway)
        .serve_with_incoming_shutdown(incoming, shutdown.cancelled_owned())
        .await
        .map_err(io::Error::other)
}
