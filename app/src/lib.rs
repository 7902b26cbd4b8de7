//! The dashboard: pages rendered on the server, with interactive islands in the browser.
//!
//! Every page works before (and without) wasm: it is plain HTML with plain forms. Islands add features that need a
//! browser: the planner's live cost, a running job's charts. Pages and the server functions of [`call`] call the
//! operations of `undertone_server_core::service`, with the caller of a `DashboardRequest`. There are no rules here: pages show
//! the decisions of these operations.
//!
//! With the feature `ssr` this is the server's half (pages, [`shell`](fn@shell), assets); with `hydrate` it is the
//! browser's half: the islands and their components, without `undertone_server_core`. The islands of the planner and the
//! prices of plans are in a bundle of their own (`planner`), which [`path::PLANNER_BUNDLE`] names. To add a page: a function in `page`, a line
//! in `shell`. To add the display of a job kind: [`kind`].

// Views have deep types.
#![recursion_limit = "256"]

pub mod answer;
#[cfg(feature = "ssr")]
pub mod asset;
pub mod call;
pub mod component;
pub mod fault;
mod fetch;
#[cfg(any(feature = "ssr", feature = "planner"))]
pub mod kind;
pub mod live;
#[cfg(feature = "ssr")]
mod message;
#[cfg(feature = "ssr")]
mod page;
#[cfg(feature = "ssr")]
mod page_context;
pub mod path;
#[cfg(feature = "ssr")]
mod query;
#[cfg(feature = "ssr")]
mod reply;
#[cfg(feature = "ssr")]
mod request;
#[cfg(feature = "ssr")]
mod screen;
#[cfg(feature = "ssr")]
mod shell;
pub mod standing;
#[cfg(all(test, feature = "ssr"))]
mod testing;
#[cfg(feature = "ssr")]
mod tour;
#[cfg(feature = "ssr")]
mod viewer;
pub mod words;

#[cfg(feature = "ssr")]
pub use asset::{Asset, assets};
#[cfg(feature = "ssr")]
pub use page::{OfferedAccount, offer_accounts, report_document};
#[cfg(feature = "ssr")]
pub use request::DashboardRequest;
#[cfg(feature = "ssr")]
pub use shell::{App, shell};
#[cfg(feature = "ssr")]
pub use tour::{TourStop, offer_tour};

/// Starts the bundle: hydrates the islands of the page.
#[cfg(feature = "hydrate")]
#[wasm_bindgen::prelude::wasm_bindgen]
pub fn hydrate() {
    console_error_panic_hook::set_once();
    leptos::mount::hydrate_islands();
}
