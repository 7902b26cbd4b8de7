//! worker
pub mod speech;
