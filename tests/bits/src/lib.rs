//! What server, worker and browser must agree on to the last bit, worked out by whoever runs this: natively in the tests,
//! and as wasm in a browser's engine (`.ci/bits.sh` builds it with the flags of the dashboard's bundle). The same module
//! holds the work that `make bench NAME=accounting` times in both.
//!
//! Nothing here decides what is right; that is for the tests of `privacy`. Parameters come from a fixed seed.

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

/// Everything, in one fixed order.
pub fn facts() -> Facts {
    let mut facts = Facts::default();
    curves::record(&mut facts);
    guarantees::record(&mut facts);
    plans::record(&mut facts);
    decisions::record(&mut facts);
    facts
}
