//! Questions at the terminal. Secrets are read without an echo, and never from arguments, which other users can see.

use std::io::{self, BufRead as _, IsTerminal as _};

/// Asks for a text, which is shown while it is typed. If the standard input is no terminal, the answer is its next line.
///
/// # Errors
/// When the input ends before an answer.
pub(crate) fn ask(question: &str) -> io::Result<String> {
    if io::stdin().is_terminal() {
        eprint!("{question}: ");
    }
    read_line(question)
}

/// Asks for a secret without an echo. If the standard input is no terminal, the answer is its next line.
///
/// # Errors
/// When the input ends before an answer.
pub(crate) fn ask_secret(question: &str) -> io::Result<String> {
    if io::stdin().is_terminal() {
        return rpassword::prompt_password(format!("{question}: "));
    }
    read_line(question)
}

fn read_line(question: &str) -> io::Result<String> {
    let mut line = String::new();
    // The standard input is buffered for the process, so that the next question reads the next line.
    if io::stdin().lock().read_line(&mut line)? == 0 {
        let message = format!("the standard input has no line for: {question}");
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, message));
    }
    Ok(line.trim_end_matches(['\n', '\r']).to_owned())
}
