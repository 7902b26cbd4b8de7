//! Hostile input to this crate's types: specs and request bodies, forged signed documents, leaves and proofs of a log.

mod body;
mod document;
mod proof;
mod spec;
