//! The dashboard: pages rendered in the server, islands of them alive in the browser.
//!
//! Every page works before (and without) wasm: it is plain HTML with plain forms. Islands add what needs a browser: the
//! planner's live cost, a running job's charts. What pages may ask is `Backend`; what a browser may ask of the server
//! directly is in [`call`]. No rule lives here: pages show what the service decided.
//!
//! With the feature `ssr` this is the server's half (pages, [`shell`](fn@shell), assets); with `hydrate` it is what the
//! browser loads: the islands and what they are made of. To add a page: a function in `page`, a line in `shell`. To add a
//! job kind's face: [`kind`].

// Views are deep types.
#![recursion_limit = "256"]

pub mod answer;
#[cfg(feature = "ssr")]
pub mod asset;
#[cfg(feature = "ssr")]
pub mod backend;
pub mod call;
pub mod component;
#[cfg(all(test, feature = "ssr"))]
mod fixture;
pub mod kind;
pub mod live;
#[cfg(feature = "ssr")]
mod page;
pub mod path;
#[cfg(feature = "ssr")]
mod query;
#[cfg(feature = "ssr")]
mod screen;
#[cfg(feature = "ssr")]
mod shell;
pub mod standing;
#[cfg(feature = "ssr")]
mod viewer;
pub mod words;

#[cfg(feature = "ssr")]
pub use asset::{Asset, assets};
#[cfg(feature = "ssr")]
pub use backend::{
    Accounts, Answer, Backend, Cookies, Entered, Glance, Insight, Life, Newest, PasskeyCeremony, Passkeys,
    RetirementSubject, Retirements, SignInProvider, Told, Waiting,
};
#[cfg(feature = "ssr")]
pub use page::report_document;
#[cfg(feature = "ssr")]
pub use shell::{App, shell};
pub use standing::Standing;

/// Where the bundle starts: wakes the islands of the page.
#[cfg(feature = "hydrate")]
#[wasm_bindgen::prelude::wasm_bindgen]
pub fn hydrate() {
    console_error_panic_hook::set_once();
    leptos::mount::hydrate_islands();
}
