//! The primitives that the server provides to jobs: **average** (vectors), **annotate** (questions) and **artifact**
//! (files). This module contains the arithmetic and the bytes; `service` decides about access and cost. It accesses no
//! database table.
//!
//! To add a primitive: a file here for its bytes and arithmetic, a file in `service` for its rules.

pub mod annotate;
pub mod artifact;
pub mod average;
pub mod budget;
pub mod object;
pub mod spool;
pub mod upload;
