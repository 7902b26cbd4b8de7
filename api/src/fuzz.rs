//! Hostile input at the contract: specs and bodies as programs may send them, signed documents as nobody signed them, leaves
//! and proofs of a log.

mod body;
mod document;
mod proof;
mod spec;
