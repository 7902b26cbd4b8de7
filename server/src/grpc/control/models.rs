//! Models of the registry: their records, cards and archives.

use futures::stream;
use tonic::Status;
use undertone_api::retirement::StatedReason;
use undertone_proto::document;
use undertone_proto::v1::{self, download_artifact_chunk};

use super::message::{self, id};
use crate::grpc::convert::{fail, texts};
use crate::grpc::stream::{self as grpc_stream, Answer};
use undertone_server_core::auth::Actor;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::service::model;

/// The bytes of an archive in one message.
const ARCHIVE_PIECE: usize = 1 << 18;

pub(super) async fn get(ctx: &Ctx, actor: &Actor, request: &v1::GetModelRequest) -> Result<v1::GetModelReply, Status> {
    let record = model::get(ctx, actor, id(&request.artifact, "artifact")?).await.map_err(fail)?;
    let document = document::to_struct(&record);
    let artifact = Some(message::artifact(record.file));
    Ok(v1::GetModelReply { artifact, version: record.version, document })
}

pub(super) async fn compare(
    ctx: &Ctx,
    actor: &Actor,
    request: &v1::CompareModelsRequest,
) -> Result<v1::CompareModelsReply, Status> {
    let artifact = id(&request.artifact, "artifact")?;
    let comparison = model::compare(ctx, actor, artifact, id(&request.with, "with")?).await.map_err(fail)?;
    Ok(v1::CompareModelsReply { document: document::to_struct(&comparison) })
}

pub(super) async fn card(
    ctx: &Ctx,
    actor: &Actor,
    request: &v1::GetModelCardRequest,
) -> Result<v1::GetModelCardReply, Status> {
    let card = model::card(ctx, actor, id(&request.artifact, "artifact")?).await.map_err(fail)?;
    Ok(v1::GetModelCardReply { card })
}

pub(super) async fn archive(
    ctx: &Ctx,
    actor: &Actor,
    request: &v1::DownloadModelArchiveRequest,
) -> Result<Answer<v1::DownloadModelArchiveChunk>, Status> {
    let archive = model::archive(ctx, actor, id(&request.artifact, "artifact")?).await.map_err(fail)?;
    let pieces: Vec<_> =
        archive.chunks(ARCHIVE_PIECE).map(|piece| Ok(v1::DownloadModelArchiveChunk { data: piece.to_vec() })).collect();
    Ok(Box::pin(stream::iter(pieces)))
}

/// Returns the head and the bytes of a file.
pub(super) async fn content(
    ctx: &Ctx,
    actor: &Actor,
    request: v1::DownloadArtifactRequest,
) -> Result<Answer<v1::DownloadArtifactChunk>, Status> {
    let v1::DownloadArtifactRequest { artifact, offset } = request;
    let model::StoredArtifact { artifact, object } =
        model::take(ctx, actor, id(&artifact, "artifact")?).await.map_err(fail)?;
    let size = artifact.size;
    let chunk = |part| v1::DownloadArtifactChunk { part: Some(part) };
    let header = chunk(download_artifact_chunk::Part::Artifact(message::artifact(artifact)));
    let data: fn(Vec<u8>) -> v1::DownloadArtifactChunk =
        |data| v1::DownloadArtifactChunk { part: Some(download_artifact_chunk::Part::Data(data)) };
    Ok(grpc_stream::object(ctx, header, object, offset, size, data))
}

pub(super) async fn delete(
    ctx: &Ctx,
    actor: &Actor,
    request: v1::DeleteArtifactRequest,
) -> Result<v1::Artifact, Status> {
    let v1::DeleteArtifactRequest { artifact, reason } = request;
    texts([&*reason])?;
    let artifact = id(&artifact, "artifact")?;
    let deleted = model::delete(ctx, actor, artifact, &StatedReason { reason }).await.map_err(fail)?;
    Ok(message::artifact(deleted))
}
