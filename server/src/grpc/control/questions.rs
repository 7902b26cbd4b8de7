//! Questions of a job: their export, and the import of answers.

use futures::StreamExt as _;
use tonic::Status;
use undertone_api::question::ExportFormat;
use undertone_proto::v1;

use super::message::{field, id};
use crate::grpc::convert::{fail, json_texts, texts};
use crate::grpc::stream::Answer;
use undertone_server_core::auth::Actor;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::service::question;

pub(super) async fn export(
    ctx: &Ctx,
    actor: &Actor,
    request: v1::ExportQuestionsRequest,
) -> Result<Answer<v1::ExportQuestionsChunk>, Status> {
    let v1::ExportQuestionsRequest { job, format } = request;
    let format = if format.is_empty() { ExportFormat::default() } else { field(&format, "format")? };
    let export = question::export(ctx, actor, id(&job, "job")?, format).await.map_err(fail)?;
    Ok(Box::pin(export.body.map(|piece| piece.map(|data| v1::ExportQuestionsChunk { data }).map_err(fail))))
}

pub(super) async fn import(
    ctx: &Ctx,
    actor: &Actor,
    request: v1::ImportAnswersRequest,
) -> Result<v1::ImportAnswersReply, Status> {
    let v1::ImportAnswersRequest { job, name, labels } = request;
    texts([&*name])?;
    json_texts(labels.as_bytes())?;
    let name = Some(name.as_str()).filter(|name| !name.is_empty());
    let outcome = question::import(ctx, actor, id(&job, "job")?, name, &labels).await.map_err(fail)?;
    Ok(v1::ImportAnswersReply {
        taken: outcome.taken,
        unknown_texts: outcome.unknown_texts,
        unknown_labels: outcome.unknown_labels,
        too_late: outcome.too_late,
    })
}
