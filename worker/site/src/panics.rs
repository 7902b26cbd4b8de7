//! Contains panics of third-party decoders on untrusted files: the file is rejected, and the worker continues.
//!
//! Use it only with a decoder that is discarded afterwards, because its state after a panic is unknown.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Returns the result of `work`; `None` when it panicked.
pub fn catch_panic<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}

#[cfg(test)]
mod tests {
    use super::catch_panic;

    #[test]
    fn panic_returns_none_and_a_result_is_passed_on() {
        assert_eq!(catch_panic(|| 7), Some(7));
        assert_eq!(catch_panic(|| "x".parse::<u8>().expect("a number")), None);
    }
}
