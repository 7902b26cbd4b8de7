//! `undertone-worker`: see [`undertone_worker::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    // First of all, while there are no threads: what the allocator keeps decides half of the speed of training.
    undertone_worker::memory::keep_large_blocks();
    undertone_worker::cli::main(std::env::args_os())
}
