//! What jobs may ask of the server: **average** (vectors), **annotate** (questions) and **artifact** (files). The arithmetic and the bytes live here;
//! who may ask, and what it costs, is decided in `service`. Nothing here touches a table.
//!
//! To add a primitive: a file here for its bytes and arithmetic, a file in `service` for its rules.

pub mod annotate;
pub mod artifact;
pub mod average;
pub mod object;
pub(crate) mod spool;
pub mod upload;
