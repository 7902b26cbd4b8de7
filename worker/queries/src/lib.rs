//! Query logs at the site: from rows on disk to the few questions that may leave it.
//!
//! Data flow in one direction, and each module is one stage. No module of this crate opens a socket. Apart from the
//! site's own report, no module of this crate shows a query that did not pass the gate. Released and unreleased texts
//! have different types: a sample, a nominated string or a row of a private log cannot be passed to a classifier, a
//! ranking or an exchange.

#[cfg(feature = "bench")]
pub mod bench;
pub mod config;
pub mod count;
pub mod dataset;
#[cfg(test)]
mod fuzz;
pub mod log;
pub mod prepare;
pub mod synthesize;

pub mod forecast;
pub mod gate;
pub mod released;
pub mod sample;
pub mod scratch;
pub mod sketch;

pub mod acquire;
pub mod annotators;
pub mod classifier;
pub mod rehearsal;

pub use undertone_worker_site::normalize;
