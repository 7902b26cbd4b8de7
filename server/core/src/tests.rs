//! Tests of `undertone-server-base` that need a consortium, an operation or the sources of the operations.

mod external_signer;
mod policy;
mod provider;
