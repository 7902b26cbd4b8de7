//! `idempotency-key` in the metadata: repeated calls create a job or a draft only once. The keys are shared with REST.

use prost::Message;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tonic::{Request, Response, Status};
use undertone_api::job::Job;
use undertone_proto::v1;

use super::message::whole_job;
use crate::grpc::convert::fail;
use undertone_server_core::auth::Actor;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::error::Error;
use undertone_server_core::service::idempotency::{self, KeyState, StoredResponse};

/// The metadata field of the key.
const KEY: &str = "idempotency-key";

/// Creates a job once.
pub(super) async fn job<T, F>(
    ctx: &Ctx,
    actor: &Actor,
    method: &str,
    request: &Request<T>,
    work: F,
) -> Result<Response<v1::Job>, Status>
where
    T: Message,
    F: AsyncFnOnce(&T) -> Result<Job, Status>,
{
    create_once(ctx, actor, method, request, whole_job, work).await
}

/// Creates an object once; `to_reply` converts it to the answer.
pub(super) async fn create_once<T, M, R, F>(
    ctx: &Ctx,
    actor: &Actor,
    method: &str,
    request: &Request<T>,
    to_reply: fn(&M) -> R,
    work: F,
) -> Result<Response<R>, Status>
where
    T: Message,
    M: Serialize + DeserializeOwned,
    F: AsyncFnOnce(&T) -> Result<M, Status>,
{
    let Some(key) = request.metadata().get(KEY) else {
        return Ok(Response::new(to_reply(&work(request.get_ref()).await?)));
    };
    let mut request_bytes = format!("grpc {method}\n").into_bytes();
    request_bytes.extend(request.get_ref().encode_to_vec());
    let key = key.to_str().unwrap_or_default();
    let attempt = match idempotency::begin(ctx, actor, key, &request_bytes).await.map_err(fail)? {
        KeyState::Before(kept) => return Ok(Response::new(to_reply(&read(&kept)?))),
        KeyState::Never(attempt) => attempt,
    };
    match work(request.get_ref()).await {
        Ok(object) => {
            let body =
                serde_json::to_string(&object).map_err(|error| fail(Error::internal("storing a response", error)))?;
            let record = StoredResponse { status: 200, headers: Vec::new(), body };
            idempotency::keep(ctx, &attempt, &record).await.map_err(fail)?;
            Ok(Response::new(to_reply(&object)))
        }
        Err(status) => {
            // A refused call changed nothing; a failure of the server may have changed something.
            if !matches!(status.code(), tonic::Code::Internal | tonic::Code::Unavailable) {
                idempotency::forget(ctx, &attempt).await.map_err(fail)?;
            }
            Err(status)
        }
    }
}

fn read<M: DeserializeOwned>(kept: &StoredResponse) -> Result<M, Status> {
    serde_json::from_str(&kept.body).map_err(|error| fail(Error::internal("reading a stored response", error)))
}
