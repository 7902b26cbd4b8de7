//! The components of pages. A component renders its arguments; none calls an operation.

pub mod chart;
pub(crate) mod download;
pub mod gauge;
pub mod said;

#[cfg(feature = "ssr")]
pub(crate) mod drawing;
#[cfg(feature = "ssr")]
pub(crate) mod files;
#[cfg(feature = "ssr")]
pub mod form;
#[cfg(feature = "ssr")]
pub mod frame;
#[cfg(feature = "ssr")]
pub(crate) mod log_lines;
#[cfg(feature = "ssr")]
pub(crate) mod passkey;
#[cfg(feature = "ssr")]
mod qr;
#[cfg(feature = "ssr")]
pub(crate) mod retire;
#[cfg(feature = "ssr")]
pub(crate) mod secret;

pub mod copy;
pub mod keys;
