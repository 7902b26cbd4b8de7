#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]
#![expect(clippy::float_cmp, reason = "what was never charged is exactly 0")]

mod answers;
mod carried;
mod life;
mod pools;
