//! Query logs at the site: from rows on disk to the few questions that may leave.
//!
//! The road is one way, and each room is one station of it. Nothing here opens a socket, and nothing here but the site's own
//! report shows a query that did not pass the gate. What was released and what was not are different types: a sample, a
//! nominated string or a row of a private log cannot be handed to a classifier, a ranking or an exchange.

pub mod bench;
pub mod count;
pub mod dataset;
#[cfg(test)]
mod fuzz;
pub mod log;
pub mod normalize;
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
