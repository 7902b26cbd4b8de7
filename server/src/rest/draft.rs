//! `/drafts`: drafts of jobs.

use axum::extract::State;
use axum::http::StatusCode;
use undertone_api::id::{ConsortiumId, DraftId, JobId};
use undertone_api::job::{Job, JobDraft, NewDraft};
use undertone_api::page::{Page, PageQuery};

use super::etag::IfMatch;
use super::extract::{Caller, Json, Path, Query, take_page};
use super::problem::Rejection;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::service::job;

/// List the drafts of the caller's organization in a consortium, the last changed first
#[utoipa::path(get, path = "/consortia/{id}/drafts", tag = "jobs", operation_id = "list_drafts", params(("id" = ConsortiumId, Path), PageQuery),
    responses((status = 200, body = Page<JobDraft>), Rejection))]
pub(super) async fn list(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<ConsortiumId>,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<JobDraft>>, Rejection> {
    let drafts = job::draft_list(&ctx, &actor, id).await?;
    Ok(Json(take_page(drafts, &page, |draft| draft.id.0)?))
}

/// Create a draft of a job
#[utoipa::path(post, path = "/consortia/{id}/drafts", tag = "jobs", operation_id = "create_draft", params(("id" = ConsortiumId, Path)), request_body = NewDraft,
    responses((status = 201, body = JobDraft), Rejection))]
pub(super) async fn create(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<ConsortiumId>,
    Json(new): Json<NewDraft>,
) -> Result<(StatusCode, Json<JobDraft>), Rejection> {
    Ok((StatusCode::CREATED, Json(job::draft_create(&ctx, &actor, id, &new).await?)))
}

/// Show a draft and the violations that prevent its proposal
#[utoipa::path(get, path = "/drafts/{id}", tag = "jobs", operation_id = "get_draft", params(("id" = DraftId, Path)),
    responses((status = 200, body = JobDraft), Rejection))]
pub(super) async fn show(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<DraftId>,
) -> Result<Json<JobDraft>, Rejection> {
    Ok(Json(job::draft_get(&ctx, &actor, id).await?))
}

/// Replace the content of a draft
#[utoipa::path(put, path = "/drafts/{id}", tag = "jobs", operation_id = "update_draft", params(("id" = DraftId, Path),
        ("If-Match" = Option<String>, Header, description = "The `ETag` of the draft that the caller has read; absent to accept any version")),
    request_body = NewDraft,
    responses((status = 200, body = JobDraft), Rejection))]
pub(super) async fn update(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<DraftId>,
    IfMatch(expected): IfMatch,
    Json(new): Json<NewDraft>,
) -> Result<Json<JobDraft>, Rejection> {
    Ok(Json(job::draft_update(&ctx, &actor, id, &new, None, &expected).await?))
}

/// Delete a draft
#[utoipa::path(delete, path = "/drafts/{id}", tag = "jobs", operation_id = "delete_draft", params(("id" = DraftId, Path)),
    responses((status = 204), Rejection))]
pub(super) async fn delete(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<DraftId>,
) -> Result<StatusCode, Rejection> {
    job::draft_delete(&ctx, &actor, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Propose a draft to the owners of its datasets, which makes it a job
#[utoipa::path(post, path = "/drafts/{id}/propose", tag = "jobs", operation_id = "propose_draft", params(("id" = DraftId, Path)),
    responses((status = 201, body = Job), Rejection))]
pub(super) async fn propose(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<DraftId>,
) -> Result<(StatusCode, Json<Job>), Rejection> {
    Ok((StatusCode::CREATED, Json(job::draft_propose(&ctx, &actor, id).await?)))
}

/// Create a draft with a job's title and spec
#[utoipa::path(post, path = "/jobs/{id}/clone", tag = "jobs", operation_id = "clone_job", params(("id" = JobId, Path)),
    responses((status = 201, body = JobDraft), Rejection))]
pub(super) async fn of_job(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<JobId>,
) -> Result<(StatusCode, Json<JobDraft>), Rejection> {
    Ok((StatusCode::CREATED, Json(job::clone_spec(&ctx, &actor, id).await?)))
}
