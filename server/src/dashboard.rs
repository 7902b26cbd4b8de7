//! The dashboard: pages, server functions under `/ui`, and files. This is the only module of the server that depends on
//! leptos. Every request gets its own [`DashboardRequest`], with which pages call the operations in process.

mod events;
mod files;
#[cfg(test)]
mod load_tests;
#[cfg(test)]
mod plan_tests;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any, get};
use leptos::config::LeptosOptions;
use undertone_app::{DashboardRequest, shell};

use crate::rest::cookie::identify;
use crate::rest::extract;
use crate::rest::problem::Rejection;
use files::AssetFiles;
use undertone_server_core::auth::{Actor, cookie};
use undertone_server_core::ctx::Ctx;
use undertone_server_core::nul_bytes;

/// The largest form of a page, bytes: 1 MiB.
const LARGEST_FORM: usize = 1 << 20;

/// Returns the router of pages, server functions and files. `dist` is the folder of the bundle; without it pages work,
/// but their islands do not.
///
/// # Errors
/// If the bundle cannot be read.
pub fn router(ctx: &Ctx, dist: Option<&Path>) -> std::io::Result<Router> {
    let files = Arc::new(AssetFiles::read(dist)?);
    // Generating the list also sets the executor of leptos.
    let pages = leptos_axum::generate_route_list(undertone_app::App);
    let people = pages.iter().fold(Router::new(), |router, route| router.route(route.path(), get(page)));
    let people = people
        .route("/ui/events", get(events::events))
        .route("/ui/{*function}", any(function))
        .fallback(get(page))
        .layer(DefaultBodyLimit::max(LARGEST_FORM))
        .layer(from_fn(without_nul))
        .layer(tower_http::limit::RequestBodyLimitLayer::new(LARGEST_FORM))
        .layer(from_fn_with_state(ctx.clone(), identify))
        .with_state(ctx.clone());
    // Files need no session: with so many concurrent requests, the session would be renewed many times.
    let files = Router::new()
        .route("/pkg/{*file}", get(files::serve))
        .route("/assets/{*file}", get(files::serve))
        .with_state(files);
    Ok(people.merge(files))
}

async fn page(State(ctx): State<Ctx>, request: Request<Body>) -> Response {
    let options = LeptosOptions::builder().output_name("undertone").site_pkg_dir("pkg").build();
    let render =
        leptos_axum::render_app_async_with_context(provide_request(&ctx, &request), move || shell(options.clone()));
    private(render(request).await)
}

async fn function(State(ctx): State<Ctx>, request: Request<Body>) -> Response {
    let context = provide_request(&ctx, &request);
    private(leptos_axum::handle_server_fns_with_context(context, request).await.into_response())
}

/// Returns every server function: method and address.
#[cfg(test)]
pub(crate) fn functions() -> std::collections::BTreeSet<String> {
    leptos::server_fn::axum::server_fn_paths().map(|(path, method)| format!("{method} {path}")).collect()
}

/// Returns the address of every page, as in the routes.
#[cfg(test)]
pub(crate) fn pages() -> std::collections::BTreeSet<String> {
    leptos_axum::generate_route_list(undertone_app::App).iter().map(|route| route.path().to_owned()).collect()
}

/// Returns a function that provides the pages with a request.
fn provide_request(ctx: &Ctx, request: &Request<Body>) -> impl Fn() + Clone + Send + Sync + 'static {
    let actor = request.extensions().get::<Actor>().cloned();
    let origin = extract::origin(ctx, request.headers(), request.extensions());
    let origin = origin.with_device(cookie::read_device(ctx, request.headers()));
    let half_token = cookie::read_half_session(ctx, request.headers());
    DashboardRequest::new(ctx.clone(), actor, origin, half_token).into_context()
}

/// Refuses U+0000 in addresses and forms, like the other interfaces; it cannot be typed.
async fn without_nul(request: Request<Body>, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    // The outer layer limits it as well.
    let Ok(body) = to_bytes(body, LARGEST_FORM).await else { return StatusCode::PAYLOAD_TOO_LARGE.into_response() };
    let address = parts.uri.to_string();
    match nul_bytes::refuse_encoded(address.as_bytes()).and_then(|()| nul_bytes::refuse_encoded(&body)) {
        Ok(()) => next.run(Request::from_parts(parts, Body::from(body))).await,
        Err(error) => Rejection::from(error).into_response(),
    }
}

/// Excludes responses from all caches, because they are for one member.
fn private(mut response: Response) -> Response {
    response.headers_mut().entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("private, no-store"));
    response
}
