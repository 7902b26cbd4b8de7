//! Receives a vector, message by message.

use tonic::{Status, Streaming};
use undertone_proto::v1::{self, submit_chunk};

use super::convert::fail;
use super::documents::malformed;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::service::round;

/// Receives a vector to its end; stores the received bytes if the end is late or missing.
pub(super) async fn receive(
    ctx: Ctx,
    mut incoming: round::VectorUpload,
    mut chunks: Streaming<v1::SubmitChunk>,
) -> Result<round::AcceptedSubmission, Status> {
    loop {
        let next = match incoming.due() {
            Some(due) => tokio::time::timeout_at(due, chunks.message()).await,
            None => Ok(chunks.message().await),
        };
        match next {
            Ok(Ok(Some(v1::SubmitChunk { part: Some(submit_chunk::Part::Data(data)) }))) => {
                incoming.write(&data).await.map_err(fail)?;
            }
            Ok(Ok(Some(_))) => return Err(malformed("after the header come data only")),
            Ok(Ok(None)) => return incoming.accept(&ctx).await.map_err(fail),
            Ok(Err(status)) => {
                incoming.keep().await.map_err(fail)?;
                return Err(status);
            }
            // After a whole segment, the sender is slow or its connection was lost silently.
            Err(_) => incoming.keep().await.map_err(fail)?,
        }
    }
}
