//! `/consortia`: organizations that learn together.

use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use undertone_api::consortium::{Consortium, EditConsortium, NewConsortium, NewOverlap, OverlapRule};
use undertone_api::dataset::{Dataset, DatasetContent, Visibility};
use undertone_api::id::{ConsortiumId, OrganizationId};
use undertone_api::organization::{Invitation, InvitationPurpose, Organization};
use undertone_api::page::{Page, PageQuery};

use super::etag::IfMatch;
use super::extract::{Caller, Json, Path, Query, take_page};
use super::problem::Rejection;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::service::{consortium, dataset, invitation, organization};

/// List the caller's consortia, by name
#[utoipa::path(get, path = "/consortia", tag = "consortia", operation_id = "list_consortia", params(PageQuery),
    responses((status = 200, body = Page<Consortium>), Rejection))]
pub(super) async fn list(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<Consortium>>, Rejection> {
    let all = consortium::list(&ctx, &actor).await?;
    Ok(Json(take_page(all, &page, |item| item.id.0)?))
}

/// Found a consortium
#[utoipa::path(post, path = "/consortia", tag = "consortia", operation_id = "found_consortium", request_body = NewConsortium,
    responses((status = 201, body = Consortium), Rejection))]
pub(super) async fn create(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Json(new): Json<NewConsortium>,
) -> Result<(StatusCode, Json<Consortium>), Rejection> {
    Ok((StatusCode::CREATED, Json(consortium::create(&ctx, &actor, &new).await?)))
}

/// Show a consortium
#[utoipa::path(get, path = "/consortia/{id}", tag = "consortia", operation_id = "get_consortium", params(("id" = ConsortiumId, Path)),
    responses((status = 200, body = Consortium), Rejection))]
pub(super) async fn show(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<ConsortiumId>,
) -> Result<Json<Consortium>, Rejection> {
    Ok(Json(consortium::get(&ctx, &actor, id).await?))
}

/// Change a consortium's name or description
#[utoipa::path(patch, path = "/consortia/{id}", tag = "consortia", operation_id = "edit_consortium", params(("id" = ConsortiumId, Path),
        ("If-Match" = Option<String>, Header, description = "The `ETag` of the consortium that the caller has read; absent to accept any version")),
    request_body = EditConsortium,
    responses((status = 200, body = Consortium), Rejection))]
pub(super) async fn edit(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<ConsortiumId>,
    IfMatch(expected): IfMatch,
    Json(edit): Json<EditConsortium>,
) -> Result<Json<Consortium>, Rejection> {
    Ok(Json(consortium::edit(&ctx, &actor, id, &edit, &expected).await?))
}

/// List the declarations about people in several of its organizations, newest first
#[utoipa::path(get, path = "/consortia/{id}/overlap", tag = "consortia", operation_id = "list_overlap_rules", params(("id" = ConsortiumId, Path)),
    responses((status = 200, body = Vec<OverlapRule>), Rejection))]
pub(super) async fn overlap(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<ConsortiumId>,
) -> Result<Json<Vec<OverlapRule>>, Rejection> {
    Ok(Json(consortium::history(&ctx, &actor, id).await?))
}

/// Declare in how many of its organizations one person may be
///
/// Applies to later certificates and changes no earlier one.
#[utoipa::path(post, path = "/consortia/{id}/overlap", tag = "consortia", operation_id = "attest_overlap", params(("id" = ConsortiumId, Path),
        ("If-Match" = Option<String>, Header, description = "The `ETag` of the declarations that the caller has read; absent to accept any version")), request_body = NewOverlap,
    responses((status = 201, body = OverlapRule), Rejection))]
pub(super) async fn attest(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<ConsortiumId>,
    IfMatch(expected): IfMatch,
    Json(new): Json<NewOverlap>,
) -> Result<(StatusCode, Json<OverlapRule>), Rejection> {
    Ok((StatusCode::CREATED, Json(consortium::attest_if(&ctx, &actor, id, &new, &expected).await?)))
}

/// List the organizations of a consortium, by name
#[utoipa::path(get, path = "/consortia/{id}/organizations", tag = "consortia", operation_id = "list_consortium_organizations", params(("id" = ConsortiumId, Path), PageQuery),
    responses((status = 200, body = Page<Organization>), Rejection))]
pub(super) async fn organizations(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<ConsortiumId>,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<Organization>>, Rejection> {
    let all = organization::in_consortium(&ctx, &actor, id).await?;
    Ok(Json(take_page(all, &page, |item| item.id.0)?))
}

/// List the links that invite organizations, newest first
#[utoipa::path(get, path = "/consortia/{id}/invitations", tag = "consortia", operation_id = "list_consortium_invitations", params(("id" = ConsortiumId, Path), PageQuery),
    responses((status = 200, body = Page<Invitation>), Rejection))]
pub(super) async fn invitations(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<ConsortiumId>,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<Invitation>>, Rejection> {
    let purpose = InvitationPurpose::Organization { consortium: id };
    let all = invitation::list(&ctx, &actor, &purpose).await?;
    Ok(Json(take_page(all, &page, |item| item.id.0)?))
}

/// List the links that invite annotators, newest first
#[utoipa::path(get, path = "/consortia/{id}/annotators/invitations", tag = "consortia", operation_id = "list_annotator_invitations", params(("id" = ConsortiumId, Path), PageQuery),
    responses((status = 200, body = Page<Invitation>), Rejection))]
pub(super) async fn annotators(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<ConsortiumId>,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<Invitation>>, Rejection> {
    let purpose = InvitationPurpose::Annotator { consortium: id };
    let all = invitation::list(&ctx, &actor, &purpose).await?;
    Ok(Json(take_page(all, &page, |item| item.id.0)?))
}

/// A filter of a consortium's datasets.
#[derive(Debug, Clone, Default, Deserialize, utoipa::IntoParams)]
pub(super) struct DatasetQuery {
    /// The `next` of the previous page.
    cursor: Option<String>,
    /// Items on a page: 1 to 200, 50 by default.
    limit: Option<u32>,
    /// Only datasets of this organization.
    organization: Option<OrganizationId>,
    /// Only datasets of this visibility.
    visibility: Option<Visibility>,
    /// Only datasets of this content.
    content: Option<DatasetContent>,
    /// Only datasets whose name contains this text, ignoring case.
    text: Option<String>,
}

/// List the datasets of a consortium with their accounts, by organization and name
#[utoipa::path(get, path = "/consortia/{id}/datasets", tag = "consortia", operation_id = "list_datasets", params(("id" = ConsortiumId, Path), DatasetQuery),
    responses((status = 200, body = Page<Dataset>), Rejection))]
pub(super) async fn datasets(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<ConsortiumId>,
    Query(query): Query<DatasetQuery>,
) -> Result<Json<Page<Dataset>>, Rejection> {
    let DatasetQuery { cursor, limit, organization, visibility, content, text } = query;
    let filter = dataset::DatasetFilter { organization, visibility, content, text };
    let all = dataset::search(&ctx, &actor, id, &filter).await?;
    Ok(Json(take_page(all, &PageQuery { cursor, limit }, |item| item.id.0)?))
}
