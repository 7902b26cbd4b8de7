//! The OpenAPI 3.1 document of `/api/v1`, generated from the handlers and served at `/api/v1/openapi.json`.
//!
//! A handler declares its responses; `response` has those of errors. This module adds the parts that all operations share:
//! `answer` the error responses and headers, `example` an example for every body; `flat` rewrites unions for client
//! generators. Examples that cannot be generated are in `openapi/examples.json`, by the name of their schema.

mod answer;
mod example;
mod flat;
pub(super) mod response;
#[cfg(test)]
mod tests;

use axum::Router;
use axum::http::header;
use axum::routing::get;
use serde_json::Value;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::server::Server;
use utoipa::openapi::{OpenApi, SecurityRequirement};
use utoipa::{Modify, OpenApi as _};
use utoipa_axum::router::OpenApiRouter;

use undertone_server_core::ctx::Ctx;

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Undertone",
        description = "A consortium's server: organizations, datasets with lifetime privacy budgets, and jobs of which \
                       only differentially private results leave a site.\n\n\
                       Programs send an API key, `Authorization: Bearer udk_...`, from the page Settings. Failures are problem \
                       documents (RFC 9457) with the codes of the schema `Code`. Lists come in pages of 1 to 200: pass `next` as \
                       `cursor`. A POST may have an `Idempotency-Key`: a repetition within 24 hours has no effect and gets \
                       the same response. If the response is shown only once, the key is refused with 400. Every document has an \
                       `ETag`: `If-None-Match` avoids a second transfer, `If-Match` refuses a change of a version that the caller \
                       has not read.",
        license(name = "MIT OR Apache-2.0")
    ),
    // Only a parameter refers to the last two, which does not include their schemas.
    components(schemas(
        undertone_api::problem::Problem,
        undertone_api::question::ExportFormat,
        undertone_server_core::service::audit_log::AuditLogFormat
    )),
    modifiers(&Bearer)
)]
struct Document;

struct Bearer;

impl Modify for Bearer {
    fn modify(&self, document: &mut OpenApi) {
        let bearer = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some("An API key (`udk_...`), or the access token of a session."))
            .build();
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("bearer", SecurityScheme::Http(bearer));
        document.security = Some(vec![SecurityRequirement::new("bearer", Vec::<String>::new())]);
        document.servers = Some(vec![Server::new("/api/v1")]);
    }
}

/// Splits the table into its routes and the document of its handlers.
pub(super) fn split(table: OpenApiRouter<Ctx>) -> (Router<Ctx>, OpenApi) {
    OpenApiRouter::with_openapi(Document::openapi()).merge(table).split_for_parts()
}

/// Returns the document of the handlers only. [`described`] returns the served document.
pub fn document() -> OpenApi {
    split(super::table()).1
}

/// Returns the served document.
pub fn described() -> Value {
    complete(&document())
}

/// Completes the document of the handlers.
pub(super) fn complete(document: &OpenApi) -> Value {
    // A document consists of plain strings, numbers and lists, which always have a JSON form.
    let mut document = serde_json::to_value(document).unwrap_or_default();
    flat::add(&mut document);
    answer::add(&mut document);
    example::add(&mut document);
    document
}

/// Returns the route `/openapi.json`.
pub(super) fn router(document: &Value) -> Router {
    let text = serde_json::to_string_pretty(document).unwrap_or_default();
    Router::new().route(
        "/openapi.json",
        get(move || {
            let text = text.clone();
            async move { ([(header::CONTENT_TYPE, "application/json")], text) }
        }),
    )
}
