//! The description of `/api/v1`: OpenAPI 3.1, made from the handlers, served at `/api/v1/openapi.json`.
//!
//! What handlers say by their attributes is completed here for all of them alike: `answer` adds the ways in which each fails and
//! the headers around it, `example` an example for every body; `flat` says unions so that generators of clients can read them. An example that no machine would think of stands in
//! `openapi/examples.json`, by the name of its schema.

mod answer;
mod example;
mod flat;
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

use crate::ctx::Ctx;

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Undertone",
        description = "A consortium's server: organizations, datasets with lifetime privacy budgets, and jobs of which \
                       only differentially private results leave a site.\n\n\
                       Programs send an API key, `Authorization: Bearer udk_...`, made under Settings. Failures are problem \
                       documents (RFC 9457) with the codes of the schema `Code`. Lists come in pages of 1 to 200: pass `next` as \
                       `cursor`. A POST may bear an `Idempotency-Key`: sent again within 24 hours it is not done again and \
                       answers the same; where the answer is shown once, the key is refused with 400. What is read has an `ETag`: `If-None-Match` spares reading it again, `If-Match` \
                       refuses to write on what somebody else has changed.",
        license(name = "MIT OR Apache-2.0")
    ),
    // The last two are named by a parameter only, which does not bring its schema.
    components(schemas(
        undertone_api::problem::Problem,
        undertone_api::question::ExportFormat,
        crate::service::audit_log::Format
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

/// The routes and what their handlers say of them.
pub(super) fn split(table: OpenApiRouter<Ctx>) -> (Router<Ctx>, OpenApi) {
    OpenApiRouter::with_openapi(Document::openapi()).merge(table).split_for_parts()
}

/// What the handlers say, as they say it. [`described`] is what is served.
pub fn document() -> OpenApi {
    split(super::table()).1
}

/// The description, as it is served.
pub fn described() -> Value {
    complete(&document())
}

/// What the handlers say, completed.
pub(super) fn complete(document: &OpenApi) -> Value {
    // A description is made of plain strings, numbers and lists, which always have a JSON form.
    let mut document = serde_json::to_value(document).unwrap_or_default();
    flat::add(&mut document);
    answer::add(&mut document);
    example::add(&mut document);
    document
}

/// `/openapi.json`.
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
