//! gRPC: the interface of workers and of programs, with health and reflection. It translates and calls `service`; it
//! contains no rules.

mod auth;
mod consent;
mod control;
mod convert;
mod documents;
mod head_exchange;
mod masked;
mod message_limits;
mod messages;
mod metered;
mod rate;
mod reconcile;
mod stream;
mod submission;
#[cfg(test)]
mod tests;
mod worker_gateway;

use std::collections::BTreeSet;
use std::io;
use std::net::TcpListener;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::Response;
use prost::Message as _;
use prost_types::FileDescriptorSet;
use tonic::service::Routes;
use tower::ServiceBuilder;
use tower::util::{MapRequestLayer, MapResponseLayer};
use undertone_proto::DESCRIPTOR;
use undertone_proto::v1::control_server::ControlServer;
use undertone_proto::v1::worker_gateway_server::WorkerGatewayServer;

use self::control::ControlService;
use self::message_limits::MessageLimits;
use self::messages::MessageGate;
use self::rate::RateLayer;
use self::worker_gateway::GatewayService;
use crate::connections::{ConnectionLimits, SHUTDOWN_GRACE, ServedListener};
use crate::metrics::CallLayer;
use crate::scope::scope_request;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::fault;

#[cfg(test)]
pub(crate) use self::auth::SESSION;
#[cfg(test)]
pub(crate) use self::message_limits::{
    LARGEST_MESSAGE, LARGEST_OF_STRANGER, MESSAGE_RATE, MESSAGE_TIME, RECOGNIZED_BYTES, STRANGER_BYTES,
};

/// Serves workers and programs until `ctx.shutdown` is cancelled.
///
/// # Errors
/// If the listener or the certificate cannot be used.
pub async fn serve(ctx: &Ctx, listener: TcpListener) -> io::Result<()> {
    let limits = ConnectionLimits::new(ctx.config.connections, ctx.config.grpc_behind_proxy, true);
    serve_with(ctx, listener, limits, MessageLimits::default()).await
}

/// Serves with other limits.
pub(crate) async fn serve_with(
    ctx: &Ctx,
    listener: TcpListener,
    limits: ConnectionLimits,
    messages: MessageLimits,
) -> io::Result<()> {
    let router = router(ctx, messages).await?;
    let tls = ctx.tls.as_ref().map(|shown| shown.handshake(&[b"h2"])).transpose()?;
    let served = ServedListener { name: "grpc", listener, tls, router, limits };
    served.serve(ctx.metrics.clone(), ctx.shutdown.clone(), SHUTDOWN_GRACE).await
}

/// Returns all services, with the layers around each call.
async fn router(ctx: &Ctx, messages: MessageLimits) -> io::Result<Router> {
    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_serving::<WorkerGatewayServer<GatewayService>>().await;
    health.set_serving::<ControlServer<ControlService>>().await;
    let reflection = described().build_v1().map_err(io::Error::other)?;
    let reflection_alpha = described().build_v1alpha().map_err(io::Error::other)?;
    let gateway = WorkerGatewayServer::new(GatewayService::new(ctx.clone()))
        .max_decoding_message_size(message_limits::LARGEST_MESSAGE);
    let control =
        ControlServer::new(ControlService::new(ctx.clone())).max_decoding_message_size(message_limits::LARGEST_MESSAGE);
    let services = Routes::new(health_service)
        .add_service(reflection)
        .add_service(reflection_alpha)
        .add_service(gateway)
        .add_service(control);
    let around = ServiceBuilder::new()
        .layer(CallLayer::new(ctx.metrics.clone(), methods()?))
        .layer(RateLayer::new(ctx))
        .layer(from_fn(scope_request))
        .layer(from_fn_with_state(MessageGate::new(ctx, messages)?, messages::admit))
        .layer(MapRequestLayer::new(|request: Request| {
            fault::point(fault::RECEIVED);
            request
        }))
        .layer(MapResponseLayer::new(|response: Response| {
            fault::point(fault::BEFORE_ANSWER);
            response
        }));
    Ok(services.into_axum_router().layer(around))
}

/// Returns the reflection service's descriptors. Both versions are served: many clients, including Python's own,
/// request v1alpha only.
fn described<'a>() -> tonic_reflection::server::Builder<'a> {
    tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTOR)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
}

/// Returns every method, as `/package.Service/Method`.
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
