//! Decoders that others wrote, at work on files that others wrote: where one panics the file is refused, and the worker goes on.
//!
//! Only for a decoder that is thrown away afterwards: nobody knows what it left half done.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// What `work` gives; `None` when it panicked.
pub fn contained<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}

#[cfg(test)]
mod tests {
    use super::contained;

    #[test]
    fn a_panic_is_nothing_and_everything_else_is_itself() {
        assert_eq!(contained(|| 7), Some(7));
        assert_eq!(contained(|| "x".parse::<u8>().expect("a number")), None);
    }
}
