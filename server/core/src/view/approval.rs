//! Views for stewards who decide about jobs.

pub mod review;
pub mod waiting;
