//! `undertone`: see [`undertone_cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    undertone_cli::main(std::env::args_os())
}
