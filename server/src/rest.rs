//! REST: the URL table, and nothing else. Handlers are in one file per resource and translate only.

mod health;
pub mod problem;

use axum::Router;

use crate::ctx::Ctx;

/// Every address that is not the dashboard's.
pub fn router(ctx: &Ctx) -> Router {
    health::router(ctx)
}
