//! The dashboard: pages rendered in the server, islands of them alive in the browser.
//!
//! Every page works before (and without) wasm: it is plain HTML with plain forms. Islands add what needs a browser: the
//! planner's live cost, a running job's charts. What the pages may ask is [`Backend`]; what a browser may ask of the
//! server directly is in `call`. No rule lives here: pages show what the service decided.

#[cfg(feature = "ssr")]
pub mod backend;
pub mod standing;

#[cfg(feature = "ssr")]
pub use backend::{Answer, Backend, Cookies};
pub use standing::Standing;
