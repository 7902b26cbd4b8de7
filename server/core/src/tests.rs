//! Tests of `undertone-server-base` and `undertone-server-entity` that need a consortium, an operation or the sources of the
//! operations.

mod column;
mod external_signer;
mod policy;
mod provider;
