//! `/jobs/{id}/certificate` and `/schemas`: the privacy cost of a job, as a file for verification elsewhere.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use undertone_api::id::JobId;
use undertone_api::signed::CertificateFile;

use super::extract::{Caller, Json, Path};
use super::openapi::response::WrongState;
use super::problem::Rejection;
use super::schema;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::service::certificate;

/// Download a job's certificate with its evidence
///
/// `undertone-server certificate verify FILE` checks it without this server.
#[utoipa::path(get, path = "/jobs/{id}/certificate", tag = "jobs", operation_id = "get_certificate", params(("id" = JobId, Path)),
    responses((status = 200, body = CertificateFile), WrongState, Rejection))]
pub(super) async fn file(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<JobId>,
) -> Result<Json<CertificateFile>, Rejection> {
    Ok(Json(certificate::take(&ctx, &actor, id).await?))
}

/// Show the JSON Schema of a certificate's file
#[utoipa::path(get, path = "/schemas/certificate.json", tag = "jobs", operation_id = "get_certificate_schema", security(()),
    responses((status = 200, body = Object, content_type = "application/schema+json"),
        Rejection))]
pub(super) async fn schema() -> Response {
    ([(header::CONTENT_TYPE, "application/schema+json")], schema::certificate().to_string()).into_response()
}
