//! `/jobs/{id}/artifacts` and `/artifacts`: the files of a job, in particular the model with its record and its card.

use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use object_store::ObjectStoreExt as _;
use serde::Deserialize;
use time::OffsetDateTime;
use undertone_api::id::{ArtifactId, ConsortiumId, DatasetId, JobId, MemberId};
use undertone_api::model::record::{ModelComparison, ModelRecord};
use undertone_api::model::{Artifact, JobModel};
use undertone_api::page::{Page, PageQuery};
use undertone_api::retirement::StatedReason;

use super::extract::{Caller, Json, Path, Query};
use super::openapi::response::WrongState;
use super::problem::Rejection;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::error::Error;
use undertone_server_core::service::{job, model};

/// A filter of a consortium's models.
#[derive(Debug, Clone, Default, Deserialize, utoipa::IntoParams)]
pub(super) struct ModelQuery {
    /// The `next` of the previous page.
    cursor: Option<String>,
    /// Jobs examined for a page: 1 to 200, 50 by default. Jobs without files are omitted.
    limit: Option<u32>,
    /// Only jobs of this kind: `dp_sgd`, `active_learning`, `transcription`.
    kind: Option<String>,
    /// Only jobs that used this dataset.
    dataset: Option<DatasetId>,
    /// Only jobs that this member proposed.
    proposer: Option<MemberId>,
    /// Only jobs proposed at this moment or later.
    #[serde(default, with = "time::serde::rfc3339::option")]
    #[param(value_type = Option<String>, format = DateTime)]
    since: Option<OffsetDateTime>,
    /// Only jobs whose title contains this text, ignoring case: at most 100 characters.
    text: Option<String>,
}

/// List the files of a consortium's finished jobs, newest first
#[utoipa::path(get, path = "/consortia/{id}/models", tag = "jobs", operation_id = "list_models", params(("id" = ConsortiumId, Path), ModelQuery),
    responses((status = 200, body = Page<JobModel>), Rejection))]
pub(super) async fn in_consortium(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<ConsortiumId>,
    Query(query): Query<ModelQuery>,
) -> Result<Json<Page<JobModel>>, Rejection> {
    let ModelQuery { cursor, limit, kind, dataset, proposer, since, text } = query;
    let filter = job::JobFilter { state: None, kind, dataset, proposer, since, text };
    Ok(Json(model::in_consortium(&ctx, &actor, id, &filter, &PageQuery { cursor, limit }).await?))
}

/// List a job's files, by name
#[utoipa::path(get, path = "/jobs/{id}/artifacts", tag = "jobs", operation_id = "list_artifacts", params(("id" = JobId, Path)),
    responses((status = 200, body = Vec<Artifact>), WrongState, Rejection))]
pub(super) async fn list(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<JobId>,
) -> Result<Json<Vec<Artifact>>, Rejection> {
    Ok(Json(model::list(&ctx, &actor, id).await?))
}

/// The bytes of a file.
#[derive(utoipa::ToSchema)]
#[schema(value_type = String, format = Binary)]
#[expect(dead_code, reason = "stands for a stream in the description")]
struct Bytes(Vec<u8>);

/// Download a file
///
/// `ETag` is its SHA-256, hex.
#[utoipa::path(get, path = "/artifacts/{id}/content", tag = "jobs", operation_id = "download_artifact", params(("id" = ArtifactId, Path)),
    responses((status = 200, body = Bytes, content_type = "application/octet-stream"),
        WrongState, Rejection))]
pub(super) async fn content(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<ArtifactId>,
) -> Result<Response, Rejection> {
    let stored = model::take(&ctx, &actor, id).await?;
    let object = ctx.store.get(&stored.object).await.map_err(|error| Error::internal("reading a file", error))?;
    // Names of files contain letters, digits and `._-` only.
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_LENGTH, stored.artifact.size.to_string()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{}\"", stored.artifact.name)),
        (header::ETAG, format!("\"{}\"", stored.artifact.digest)),
        (header::CACHE_CONTROL, "private, no-store".to_owned()),
    ];
    Ok((headers, Body::from_stream(object.into_stream())).into_response())
}

/// Delete a file
///
/// The bytes go, and all copies of them in the consortium's jobs. The record stays, with the digest, the author, the time
/// and the reason. The files of a job that is not over, and models with which such a job begins or which it evaluates,
/// cannot be deleted.
#[utoipa::path(post, path = "/artifacts/{id}/deletion", tag = "jobs", operation_id = "delete_artifact", params(("id" = ArtifactId, Path)),
    request_body = StatedReason,
    responses((status = 200, body = Artifact), Rejection))]
pub(super) async fn delete(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<ArtifactId>,
    Json(stated): Json<StatedReason>,
) -> Result<Json<Artifact>, Rejection> {
    Ok(Json(model::delete(&ctx, &actor, id, &stated).await?))
}

/// Show a model: its line, its data, its privacy cost and its quality
///
/// The file is one of a finished `dp_sgd` job with which another job can begin.
#[utoipa::path(get, path = "/artifacts/{id}/model", tag = "jobs", operation_id = "get_model", params(("id" = ArtifactId, Path)),
    responses((status = 200, body = ModelRecord), WrongState, Rejection))]
pub(super) async fn record(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<ArtifactId>,
) -> Result<Json<ModelRecord>, Rejection> {
    Ok(Json(model::get(&ctx, &actor, id).await?))
}

/// The other model of a comparison.
#[derive(Debug, Clone, Copy, Deserialize, utoipa::IntoParams)]
pub(super) struct ComparisonQuery {
    /// The file of the other model.
    with: ArtifactId,
}

/// Compare two models of a consortium
///
/// Quality on shared test sets with 95 % intervals, the cost to each account, and the data and settings that differ.
#[utoipa::path(get, path = "/artifacts/{id}/model/comparison", tag = "jobs", operation_id = "compare_models", params(("id" = ArtifactId, Path), ComparisonQuery),
    responses((status = 200, body = ModelComparison), WrongState, Rejection))]
pub(super) async fn compare(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<ArtifactId>,
    Query(query): Query<ComparisonQuery>,
) -> Result<Json<ModelComparison>, Rejection> {
    Ok(Json(model::compare(&ctx, &actor, id, query.with).await?))
}

/// Download a model's card
///
/// Markdown: intended use, data, privacy guarantee in words, quality, limits and commands. The same model has the same
/// card until a job evaluates it, or the file is deleted.
#[utoipa::path(get, path = "/artifacts/{id}/model/card", tag = "jobs", operation_id = "get_model_card", params(("id" = ArtifactId, Path)),
    responses((status = 200, body = String, content_type = "text/markdown"),
        WrongState, Rejection))]
pub(super) async fn card(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<ArtifactId>,
) -> Result<Response, Rejection> {
    let card = model::card(&ctx, &actor, id).await?;
    let headers = [
        (header::CONTENT_TYPE, "text/markdown; charset=utf-8".to_owned()),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"model-card.md\"".to_owned()),
        (header::CACHE_CONTROL, "private, no-store".to_owned()),
    ];
    Ok((headers, card).into_response())
}

/// Download a model as an MLflow model
///
/// A tar archive: `MLmodel`, the ONNX graph, the safetensors file and the card. `mlflow.onnx.load_model` and
/// `mlflow.pyfunc.load_model` read the folder `model` in it. Models of at most 256 MiB.
#[utoipa::path(get, path = "/artifacts/{id}/model/archive", tag = "jobs", operation_id = "download_model_archive", params(("id" = ArtifactId, Path)),
    responses((status = 200, body = Bytes, content_type = "application/x-tar"),
        WrongState, Rejection))]
pub(super) async fn archive(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<ArtifactId>,
) -> Result<Response, Rejection> {
    let archive = model::archive(&ctx, &actor, id).await?;
    let headers = [
        (header::CONTENT_TYPE, "application/x-tar".to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"model-{id}.tar\"")),
        (header::CACHE_CONTROL, "private, no-store".to_owned()),
    ];
    Ok((headers, archive).into_response())
}
