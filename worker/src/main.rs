//! `undertone-worker`: see [`undertone_worker::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    // This comes first, before any thread: the allocator's settings decide half of the speed of training.
    undertone_worker::memory::keep_large_blocks();
    undertone_worker::cli::main(std::env::args_os())
}
