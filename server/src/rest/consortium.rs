//! `/consortia`: organizations that learn together.

use axum::extract::State;
use axum::http::StatusCode;
use undertone_api::consortium::{Consortium, NewConsortium, NewOverlap, OverlapRule};
use undertone_api::dataset::Dataset;
use undertone_api::id::ConsortiumId;
use undertone_api::organization::{Invitation, Organization, Purpose};
use undertone_api::page::{Page, PageQuery};
use undertone_api::problem::Problem;

use super::extract::{Caller, Json, Path, Query, cut};
use super::problem::Rejection;
use crate::ctx::Ctx;
use crate::service::{consortium, dataset, invitation, organization};

/// List the consortia one takes part in, by name
#[utoipa::path(get, path = "/consortia", tag = "consortia", params(PageQuery),
    responses((status = 200, body = Page<Consortium>), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn list(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<Consortium>>, Rejection> {
    let all = consortium::list(&ctx, &actor).await?;
    Ok(Json(cut(all, &page, |item| item.id.0)?))
}

/// Found a consortium
#[utoipa::path(post, path = "/consortia", tag = "consortia", request_body = NewConsortium,
    responses((status = 201, body = Consortium), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn found(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Json(new): Json<NewConsortium>,
) -> Result<(StatusCode, Json<Consortium>), Rejection> {
    Ok((StatusCode::CREATED, Json(consortium::found(&ctx, &actor, &new).await?)))
}

/// See a consortium
#[utoipa::path(get, path = "/consortia/{id}", tag = "consortia", params(("id" = ConsortiumId, Path)),
    responses((status = 200, body = Consortium), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn show(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<ConsortiumId>,
) -> Result<Json<Consortium>, Rejection> {
    Ok(Json(consortium::get(&ctx, &actor, id).await?))
}

/// List what was declared about people who may be in several of its organizations, the last first
#[utoipa::path(get, path = "/consortia/{id}/overlap", tag = "consortia", params(("id" = ConsortiumId, Path)),
    responses((status = 200, body = Vec<OverlapRule>), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn overlap(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<ConsortiumId>,
) -> Result<Json<Vec<OverlapRule>>, Rejection> {
    Ok(Json(consortium::history(&ctx, &actor, id).await?))
}

/// Declare in how many of its organizations one person may be
///
/// Holds for certificates made from now on; changes none made before.
#[utoipa::path(post, path = "/consortia/{id}/overlap", tag = "consortia", params(("id" = ConsortiumId, Path)), request_body = NewOverlap,
    responses((status = 201, body = OverlapRule), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn attest(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<ConsortiumId>,
    Json(new): Json<NewOverlap>,
) -> Result<(StatusCode, Json<OverlapRule>), Rejection> {
    Ok((StatusCode::CREATED, Json(consortium::attest(&ctx, &actor, id, &new).await?)))
}

/// List its organizations, by name
#[utoipa::path(get, path = "/consortia/{id}/organizations", tag = "consortia", params(("id" = ConsortiumId, Path), PageQuery),
    responses((status = 200, body = Page<Organization>), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn organizations(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<ConsortiumId>,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<Organization>>, Rejection> {
    let all = organization::in_consortium(&ctx, &actor, id).await?;
    Ok(Json(cut(all, &page, |item| item.id.0)?))
}

/// List the links that bring organizations in, newest first
#[utoipa::path(get, path = "/consortia/{id}/invitations", tag = "consortia", params(("id" = ConsortiumId, Path), PageQuery),
    responses((status = 200, body = Page<Invitation>), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn invitations(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<ConsortiumId>,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<Invitation>>, Rejection> {
    let purpose = Purpose::Organization { consortium: id };
    let all = invitation::list(&ctx, &actor, &purpose).await?;
    Ok(Json(cut(all, &page, |item| item.id.0)?))
}

/// List the links that bring annotators in, newest first
#[utoipa::path(get, path = "/consortia/{id}/annotators/invitations", tag = "consortia", params(("id" = ConsortiumId, Path), PageQuery),
    responses((status = 200, body = Page<Invitation>), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn annotators(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<ConsortiumId>,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<Invitation>>, Rejection> {
    let purpose = Purpose::Annotator { consortium: id };
    let all = invitation::list(&ctx, &actor, &purpose).await?;
    Ok(Json(cut(all, &page, |item| item.id.0)?))
}

/// List its datasets with their accounts
#[utoipa::path(get, path = "/consortia/{id}/datasets", tag = "consortia", params(("id" = ConsortiumId, Path), PageQuery),
    responses((status = 200, body = Page<Dataset>), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn datasets(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<ConsortiumId>,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<Dataset>>, Rejection> {
    let all = dataset::list(&ctx, &actor, id).await?;
    Ok(Json(cut(all, &page, |item| item.id.0)?))
}
