//! Limits on messages, decided from the headers of a call before its message is read.
//!
//! The headers alone prove a session or a key. Strangers may call only the methods without authentication, with small
//! messages; all their other calls are refused here. The bytes of messages are charged to a budget until the call ends.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::{Extensions, HeaderMap, header};
use prost::Message as _;
use prost_types::FileDescriptorSet;
use tonic::Status;
use undertone_api::problem::{Code, Problem};
use undertone_proto::{DESCRIPTOR, to_status};

use super::auth::{self, RecognizedWorker};
use super::convert::fail;
use super::message_limits::{LARGEST_MESSAGE, MessageLimits, MessageSender};
use super::metered::{MeteredBody, SharedCharge};
use crate::caller_address::client_address;
use crate::connections::{ConnectionHandle, RequestLane};
use undertone_server_core::ctx::Ctx;
use undertone_server_core::exchange::budget::ByteBudget;
use undertone_server_core::network::network_of;
use undertone_server_core::service::session;

/// Methods of the gateway that a worker calls without a session. Each proves something by its message, or returns
/// public data.
const OPEN_METHODS: [&str; 5] = ["Enroll", "Challenge", "SignIn", "Pins", "RotateKey"];
const GATEWAY: &str = "/undertone.v1.WorkerGateway/";
const CONTROL: &str = "/undertone.v1.Control/";

/// Admits calls and limits their messages.
#[derive(Clone)]
pub(super) struct MessageGate {
    ctx: Ctx,
    limits: MessageLimits,
    strangers: Arc<ByteBudget<MessageSender>>,
    recognized: Arc<ByteBudget<MessageSender>>,
    /// Methods with a stream of requests, as `/package.Service/Method`.
    streaming: Arc<BTreeSet<String>>,
}

impl MessageGate {
    /// Makes a gate with empty budgets.
    ///
    /// # Errors
    /// If the descriptors of the services cannot be read.
    pub(super) fn new(ctx: &Ctx, limits: MessageLimits) -> std::io::Result<Self> {
        let strangers = ByteBudget::new(limits.stranger_bytes.0, limits.stranger_bytes.1);
        let recognized = ByteBudget::new(limits.recognized_bytes.0, limits.recognized_bytes.1);
        Ok(Self { ctx: ctx.clone(), limits, strangers, recognized, streaming: Arc::new(streaming_methods()?) })
    }

    /// Identifies the sender by the headers of a call; `Err` if the method requires authentication and there is none.
    async fn identify(&self, request: &mut Request) -> Result<MessageSender, Status> {
        if let Some(recognized) = request.extensions().get::<RecognizedWorker>() {
            let worker = recognized.worker;
            ConnectionHandle::recognize_in(request.extensions(), RequestLane::Worker(worker));
            return Ok(MessageSender::Worker(worker));
        }
        let path = request.uri().path();
        if path.strip_prefix(GATEWAY).is_some_and(|method| !OPEN_METHODS.contains(&method)) {
            return Err(to_status(&auth::refused()));
        }
        if path.starts_with(CONTROL) {
            let actor = session::authenticate(&self.ctx, bearer(request.headers())?).await.map_err(fail)?;
            ConnectionHandle::recognize_member(request.extensions(), &actor);
            let sender = MessageSender::Member(actor.id());
            request.extensions_mut().insert(actor);
            return Ok(sender);
        }
        let address = address_of(&self.ctx, request.headers(), request.extensions());
        Ok(MessageSender::Stranger(network_of(address)))
    }
}

/// Refuses a stranger's call of a method that requires authentication; limits the messages of all other calls.
pub(super) async fn admit(State(gate): State<MessageGate>, mut request: Request, next: Next) -> Response {
    let sender = match gate.identify(&mut request).await {
        Ok(sender) => sender,
        Err(status) => return status.into_http(),
    };
    let is_stranger = matches!(sender, MessageSender::Stranger(_));
    let (budget, largest) = if is_stranger {
        (&gate.strangers, gate.limits.largest_of_stranger)
    } else {
        (&gate.recognized, LARGEST_MESSAGE)
    };
    let charge = SharedCharge::new(budget.begin(sender));
    let is_streaming = gate.streaming.contains(request.uri().path());
    let time = gate.limits.time;
    let metrics = gate.ctx.metrics.clone();
    let message_charge = charge.clone();
    let request = request.map(|body| Body::new(MeteredBody::new(body, charge, largest, time, is_streaming, metrics)));
    let answer = next.run(request).await;
    // The method holds a complete message until it ends.
    drop(message_charge);
    answer
}

/// Returns the address of the caller.
pub(super) fn address_of(ctx: &Ctx, headers: &HeaderMap, extensions: &Extensions) -> IpAddr {
    client_address(ctx.config.grpc_behind_proxy, headers, extensions)
}

/// Returns the token of a request.
pub(super) fn bearer(headers: &HeaderMap) -> Result<&str, Status> {
    let text = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = text.and_then(|text| text.split_once(' ')).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    token.map(|(_, token)| token.trim()).ok_or_else(|| {
        to_status(&Problem::new(Code::Unauthenticated, "send an API key as `authorization: Bearer udk_...`"))
    })
}

/// Returns the methods with a stream of requests.
fn streaming_methods() -> std::io::Result<BTreeSet<String>> {
    let files = FileDescriptorSet::decode(DESCRIPTOR).map_err(std::io::Error::other)?.file;
    let mut streaming = BTreeSet::new();
    for file in &files {
        for service in &file.service {
            let methods = service.method.iter().filter(|method| method.client_streaming());
            streaming.extend(methods.map(|method| format!("/{}.{}/{}", file.package(), service.name(), method.name())));
        }
    }
    Ok(streaming)
}

#[cfg(test)]
mod tests {
    use super::{CONTROL, GATEWAY, OPEN_METHODS, streaming_methods};

    #[test]
    fn services_are_named_as_they_are_described() {
        let methods = crate::grpc::methods().expect("descriptors");
        assert!(methods.iter().any(|method| method.starts_with(CONTROL)));
        for method in OPEN_METHODS {
            assert!(methods.contains(&format!("{GATEWAY}{method}")), "{method}");
        }
    }

    #[test]
    fn vectors_and_files_arrive_in_many_messages() {
        let streaming = streaming_methods().expect("descriptors");
        for method in ["Submit", "PutArtifact", "Ask"] {
            assert!(streaming.contains(&format!("{GATEWAY}{method}")), "{method}");
        }
        assert!(!streaming.contains(&format!("{GATEWAY}Enroll")));
    }
}
