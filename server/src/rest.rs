//! REST: the URL table, and nothing else. Handlers are in one file per resource; they translate and call the service.
//!
//! To add an address: a documented handler in its resource's file, a line below; the OpenAPI snapshot will show it.

mod audit;
mod budget;
mod certificate;
mod consortium;
pub mod cookie;
mod dataset;
pub mod extract;
mod health;
mod invitation;
mod job;
mod ledger;
mod me;
mod model;
pub mod openapi;
mod organization;
mod plan;
pub mod problem;
mod question;
mod report;
mod schema;
mod session;
#[cfg(test)]
mod tests;
mod wrap;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::router::UtoipaMethodRouterExt as _;
use utoipa_axum::routes;

use crate::ctx::Ctx;

/// The addresses below `/api/v1`.
fn table() -> OpenApiRouter<Ctx> {
    OpenApiRouter::new()
        .routes(routes!(session::sign_in, session::sign_out))
        .routes(routes!(session::refresh))
        .routes(routes!(me::show))
        .routes(routes!(invitation::create))
        .routes(routes!(invitation::preview))
        .routes(routes!(invitation::accept))
        .routes(routes!(organization::list))
        .routes(routes!(organization::show))
        .routes(routes!(organization::members))
        .routes(routes!(organization::invitations))
        .routes(routes!(organization::workers, organization::enrol))
        .routes(routes!(consortium::list, consortium::found))
        .routes(routes!(consortium::show))
        .routes(routes!(consortium::overlap, consortium::attest))
        .routes(routes!(consortium::organizations))
        .routes(routes!(consortium::invitations))
        .routes(routes!(consortium::annotators))
        .routes(routes!(consortium::datasets))
        .routes(routes!(dataset::show))
        .routes(routes!(budget::set))
        .routes(routes!(ledger::entries))
        .routes(routes!(ledger::bundle))
        .routes(routes!(ledger::head))
        .routes(routes!(ledger::heads))
        .routes(routes!(ledger::consistency))
        .routes(routes!(plan::plan))
        .routes(routes!(job::list, job::propose))
        .routes(routes!(job::show))
        .routes(routes!(job::progress))
        .routes(routes!(job::cancel))
        .routes(routes!(job::approve))
        .routes(routes!(job::refuse))
        .routes(routes!(audit::list))
        .routes(routes!(audit::freezes))
        .routes(routes!(audit::clear))
        .routes(routes!(report::show))
        .routes(routes!(report::document))
        .routes(routes!(report::again))
        .routes(routes!(certificate::file))
        .routes(routes!(certificate::schema))
        .routes(routes!(question::asking))
        .routes(routes!(question::list))
        .routes(routes!(question::next))
        .routes(routes!(question::annotate))
        .routes(routes!(question::take_back))
        .routes(routes!(question::export))
        .routes(routes!(question::import).layer(DefaultBodyLimit::max(question::LARGEST_IMPORT)))
        .routes(routes!(model::list))
        .routes(routes!(model::content))
}

/// Every address that is not the dashboard's: `/api/v1`, its description, and health.
pub fn router(ctx: &Ctx) -> Router {
    let (api, document) = openapi::split(table());
    let api = wrap::api(ctx, api.with_state(ctx.clone()).merge(openapi::router(&document)));
    Router::new().nest("/api/v1", api).merge(health::router(ctx))
}

pub use wrap::outside;
