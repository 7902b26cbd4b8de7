//! The description of `/api/v1`: OpenAPI 3.1, made from the handlers, served at `/api/v1/openapi.json`.

use axum::Router;
use axum::http::header;
use axum::routing::get;
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
                       only differentially private results leave a site. Failures are problem documents (RFC 9457) with \
                       the codes of the schema `Code`. Lists come in pages: pass `next` as `cursor`.",
        license(name = "MIT OR Apache-2.0")
    ),
    components(schemas(undertone_api::problem::Problem)),
    modifiers(&Bearer)
)]
struct Document;

struct Bearer;

impl Modify for Bearer {
    fn modify(&self, document: &mut OpenApi) {
        let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).bearer_format("JWT").build();
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("bearer", SecurityScheme::Http(bearer));
        document.security = Some(vec![SecurityRequirement::new("bearer", Vec::<String>::new())]);
        document.servers = Some(vec![Server::new("/api/v1")]);
    }
}

/// The routes and their description.
pub(super) fn split(table: OpenApiRouter<Ctx>) -> (Router<Ctx>, OpenApi) {
    OpenApiRouter::with_openapi(Document::openapi()).merge(table).split_for_parts()
}

/// The description, as it is served.
pub fn document() -> OpenApi {
    split(super::table()).1
}

/// `/openapi.json`.
pub(super) fn router(document: &OpenApi) -> Router {
    let text = document.to_pretty_json().unwrap_or_default();
    Router::new().route(
        "/openapi.json",
        get(move || {
            let text = text.clone();
            async move { ([(header::CONTENT_TYPE, "application/json")], text) }
        }),
    )
}
