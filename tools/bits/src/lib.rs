//! Results on which server, worker and browser must agree to the last bit, computed natively in the tests and as wasm
//! in a browser's engine (`.ci/bits.sh` builds it with the flags of the dashboard's bundle). This crate also contains
//! the work that `make bench NAME=accounting` times in both.
//!
//! The tests of `privacy` decide correctness, not this crate. Parameters come from a fixed seed.

mod curves;
mod decisions;
mod facts;
mod guarantees;
mod plans;
mod seed;
#[cfg(target_arch = "wasm32")]
mod wasm;
pub mod work;

pub use facts::Facts;

/// Computes all results, in one fixed order.
pub fn facts() -> Facts {
    let mut facts = Facts::default();
    curves::record(&mut facts);
    guarantees::record(&mut facts);
    plans::record(&mut facts);
    decisions::record(&mut facts);
    facts
}
