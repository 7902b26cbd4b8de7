//! `/jobs/{id}/artifacts` and `/artifacts`: the files of a job, the model above all.

use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use object_store::ObjectStoreExt as _;
use undertone_api::id::{ArtifactId, JobId};
use undertone_api::model::Artifact;
use undertone_api::problem::Problem;

use super::extract::{Caller, Json, Path};
use super::problem::Rejection;
use crate::ctx::Ctx;
use crate::error::Error;
use crate::service::model;

/// List a job's files, by name
#[utoipa::path(get, path = "/jobs/{id}/artifacts", tag = "jobs", params(("id" = JobId, Path)),
    responses((status = 200, body = Vec<Artifact>), (status = "default", body = Problem, content_type = "application/problem+json")))]
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

/// Take a file away
///
/// `ETag` is its SHA-256, hex.
#[utoipa::path(get, path = "/artifacts/{id}/content", tag = "jobs", params(("id" = ArtifactId, Path)),
    responses((status = 200, body = Bytes, content_type = "application/octet-stream"),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn content(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<ArtifactId>,
) -> Result<Response, Rejection> {
    let stored = model::take(&ctx, &actor, id).await?;
    let object = ctx.store.get(&stored.object).await.map_err(|error| Error::internal("reading a file", error))?;
    // Names of files are of letters, digits and `._-` only.
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_LENGTH, stored.artifact.size.to_string()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{}\"", stored.artifact.name)),
        (header::ETAG, format!("\"{}\"", stored.artifact.digest)),
        (header::CACHE_CONTROL, "private, no-store".to_owned()),
    ];
    Ok((headers, Body::from_stream(object.into_stream())).into_response())
}
