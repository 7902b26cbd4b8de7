//! Any operation of REST, by its name.

use std::collections::BTreeMap;

use axum::http::header;
use futures::{StreamExt as _, stream};
use tonic::{Request, Status};
use undertone_api::problem::{Code, Problem};
use undertone_proto::v1::{self, call_chunk::Part};
use undertone_proto::{CHUNK, to_status};

use crate::grpc::convert::fail_with;
use crate::grpc::messages;
use crate::grpc::stream::Answer;
use crate::rest::operation::{OperationCall, RestOperations};
use undertone_server_core::ctx::Ctx;

/// The headers of a call that REST reads.
const HEADERS: [&str; 4] = ["authorization", "idempotency-key", "if-match", "last-event-id"];

/// Lists the operations.
pub(super) fn list(operations: &RestOperations) -> v1::ListOperationsReply {
    let operations = operations.operations().iter().map(|(name, operation)| v1::Operation {
        name: name.clone(),
        method: operation.method.to_string(),
        path: operation.path.clone(),
        summary: operation.summary.clone(),
        parameters: operation.parameters.iter().cloned().collect(),
    });
    v1::ListOperationsReply { operations: operations.collect() }
}

/// Calls an operation, and returns its answer in parts.
pub(super) async fn run(
    ctx: &Ctx,
    operations: &RestOperations,
    request: Request<v1::CallRequest>,
) -> Result<Answer<v1::CallChunk>, Status> {
    let address = messages::address_of(ctx, request.metadata().as_ref(), request.extensions());
    let given = request.metadata().as_ref();
    let headers =
        HEADERS.iter().filter_map(|name| Some((axum::http::HeaderName::from_static(name), given.get(*name)?.clone())));
    let headers = headers.collect();
    let v1::CallRequest { operation, parameters, body, content_type } = request.into_inner();
    let parameters: BTreeMap<_, _> = parameters.into_iter().collect();
    let call = OperationCall { operation, parameters, body, content_type, headers, address };
    let response = operations.call(call).await.map_err(|problem| fail_with(&problem))?;
    let text = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let head = v1::CallHead {
        status: response.status().as_u16().into(),
        content_type: text(header::CONTENT_TYPE),
        etag: text(header::ETAG),
    };
    let chunk = |part| Ok(v1::CallChunk { part: Some(part) });
    let body = response.into_body().into_data_stream().flat_map(move |piece| match piece {
        Ok(bytes) => {
            let parts: Vec<_> = bytes.chunks(CHUNK).map(|part| chunk(Part::Data(part.to_vec()))).collect();
            stream::iter(parts)
        }
        Err(error) => {
            tracing::error!(%error, "the answer of an operation broke off");
            let problem = Problem::new(Code::Unavailable, "the answer broke off: call the operation again");
            stream::iter(vec![Err(to_status(&problem))])
        }
    });
    Ok(Box::pin(stream::iter([chunk(Part::Head(head))]).chain(body)))
}
