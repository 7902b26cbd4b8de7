//! gRPC: the workers' face and that of people's programs, with health and reflection. It translates and calls `service`; no rule
//! lives here.

mod auth;
mod consent;
mod control;
mod rate;
mod stream;
#[cfg(test)]
mod tests;
mod worker_gateway;

use std::collections::BTreeSet;
use std::io;
use std::net::TcpListener;
use std::time::Duration;

use prost::Message as _;
use prost_types::FileDescriptorSet;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tower::util::{MapRequestLayer, MapResponseLayer};
use undertone_proto::DESCRIPTOR;
use undertone_proto::v1::control_server::ControlServer;
use undertone_proto::v1::worker_gateway_server::WorkerGatewayServer;

use self::control::Control;
use self::rate::RateLayer;
use self::worker_gateway::Gateway;
use crate::ctx::Ctx;
use crate::fault;
use crate::metrics::CallLayer;
use crate::tls;

/// Most bytes of one message: a header with some thousands of receipts fits.
pub(crate) const LARGEST_MESSAGE: usize = 16 << 20;
/// How often a silent connection is asked whether it lives, and how long it may take to answer.
pub(crate) const KEEPALIVE: Duration = Duration::from_secs(20);

#[cfg(test)]
pub(crate) use self::auth::SESSION;

/// Serves workers and programs until `ctx.shutdown` is cancelled.
///
/// # Errors
/// When the listener or the certificate cannot be used, or serving ends by itself.
pub async fn serve(ctx: &Ctx, listener: TcpListener) -> io::Result<()> {
    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_serving::<WorkerGatewayServer<Gateway>>().await;
    health.set_serving::<ControlServer<Control>>().await;
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTOR)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()
        .map_err(io::Error::other)?;
    let mut server = attentive().layer((
        CallLayer::new(ctx.metrics.clone(), methods()?),
        RateLayer::new(ctx),
        MapRequestLayer::new(|request: http::Request<_>| {
            fault::point(fault::RECEIVED);
            request
        }),
        MapResponseLayer::new(|response: http::Response<_>| {
            fault::point(fault::BEFORE_ANSWER);
            response
        }),
    ));
    let gateway = WorkerGatewayServer::new(Gateway::new(ctx.clone())).max_decoding_message_size(LARGEST_MESSAGE);
    let control = ControlServer::new(Control::new(ctx.clone())).max_decoding_message_size(LARGEST_MESSAGE);
    let services = server.add_service(health_service).add_service(reflection).add_service(gateway).add_service(control);
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let stop = ctx.shutdown.clone();
    let served = if let Some(shown) = &ctx.tls {
        let connections = tls::incoming(listener, shown.handshake(&[b"h2"])?, stop.clone());
        services.serve_with_incoming_shutdown(connections, stop.cancelled_owned()).await
    } else {
        let connections = TcpIncoming::from(listener).with_nodelay(Some(true));
        services.serve_with_incoming_shutdown(connections, stop.cancelled_owned()).await
    };
    served.map_err(io::Error::other)
}

/// A server that asks silent connections whether they live.
fn attentive() -> Server {
    Server::builder().http2_keepalive_interval(Some(KEEPALIVE)).http2_keepalive_timeout(Some(KEEPALIVE))
}

/// Every method there is, as `/package.Service/Method`.
fn methods() -> io::Result<BTreeSet<String>> {
    let mut methods = BTreeSet::new();
    for descriptors in [DESCRIPTOR, tonic_health::pb::FILE_DESCRIPTOR_SET] {
        let files = FileDescriptorSet::decode(descriptors).map_err(io::Error::other)?.file;
        for file in &files {
            for service in &file.service {
                let of = format!("/{}.{}", file.package(), service.name());
                methods.extend(service.method.iter().map(|method| format!("{of}/{}", method.name())));
            }
        }
    }
    Ok(methods)
}
