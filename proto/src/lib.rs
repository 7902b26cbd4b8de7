//! The gRPC wire between server and workers, and the conversions between its messages and the contract in `api`.
//!
//! Generated from `undertone/v1/*.proto`. Signed documents are transferred as the signed text.

mod convert;
pub mod document;
#[cfg(test)]
mod fuzz;
mod later;
mod log;
pub mod masked;
pub mod question;
pub mod vector;

/// Version 1 of the wire.
#[expect(missing_docs, clippy::allow_attributes, clippy::pedantic, reason = "generated; the .proto documents it")]
pub mod v1 {
    tonic::include_proto!("undertone.v1");
}

/// The descriptors, for gRPC reflection.
pub const DESCRIPTOR: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptor.bin"));

/// The highest number of data bytes in one streamed message.
pub const CHUNK: usize = 256 * 1024;

/// Metadata key with the server's problem as JSON ([`undertone_api::problem::Problem`]).
pub const PROBLEM_METADATA: &str = "undertone-problem-bin";

pub use convert::{to_problem, to_status};
pub use later::{RETRY_METADATA, retry_delay, to_retry_status};
