//! The standard output: text or JSON. Texts of the server are written by other members, so control characters in them
//! never reach the terminal.

use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, Write};

use serde::Serialize;
use undertone_api::problem::Problem;

/// The output of a command.
pub(crate) struct CommandOutput<W> {
    output: W,
    is_json: bool,
}

/// The output of the program.
pub(crate) type StandardOutput = CommandOutput<io::Stdout>;

impl<W: Write> CommandOutput<W> {
    pub(crate) const fn new(output: W, is_json: bool) -> Self {
        Self { output, is_json }
    }

    /// Prints a document as JSON if the caller asked for it, and else its text.
    ///
    /// # Errors
    /// When the output cannot be written.
    pub(crate) fn print<T: Serialize>(&mut self, document: &T, text: impl FnOnce(&T) -> String) -> io::Result<()> {
        if self.is_json { self.print_json(document) } else { self.print_text(&text(document)) }
    }

    /// Prints a document of a series: one line of JSON if the caller asked for it, and else its text.
    ///
    /// # Errors
    /// When the output cannot be written.
    pub(crate) fn print_line<T: Serialize>(&mut self, document: &T, text: impl FnOnce(&T) -> String) -> io::Result<()> {
        if self.is_json {
            let line = serde_json::to_string(document)?;
            return self.write(&escape_json(&line));
        }
        self.print_text(&text(document))
    }

    /// Prints a document as JSON.
    ///
    /// # Errors
    /// When the output cannot be written.
    pub(crate) fn print_json<T: Serialize>(&mut self, document: &T) -> io::Result<()> {
        let text = format_json(document)?;
        self.write(&text)
    }

    /// Prints lines of text.
    ///
    /// # Errors
    /// When the output cannot be written.
    pub(crate) fn print_text(&mut self, text: &str) -> io::Result<()> {
        self.write(escape_controls(text).trim_end())
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        writeln!(self.output, "{text}")?;
        self.output.flush()
    }
}

/// Returns whether an error means that the reader of the output left.
pub(crate) fn is_closed_pipe(error: &(dyn Error + Send + Sync + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Returns whether a character can change the state of a terminal or the order of the text.
fn is_unsafe(c: char) -> bool {
    (c.is_control() && c != '\n') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Replaces characters that can change the state of a terminal, and the ends of lines: for a cell of a table or a finding.
pub(crate) fn escape_line(text: &str) -> String {
    text.chars().map(|c| if c == '\n' || is_unsafe(c) { '\u{fffd}' } else { c }).collect()
}

/// Replaces characters that can change the state of a terminal, and keeps the ends of lines.
pub(crate) fn escape_controls(text: &str) -> String {
    text.chars().map(|c| if is_unsafe(c) { '\u{fffd}' } else { c }).collect()
}

/// Returns a document as indented JSON in which control characters are escaped.
///
/// # Errors
/// When the document has no JSON form.
pub(crate) fn format_json<T: Serialize>(document: &T) -> serde_json::Result<String> {
    Ok(escape_json(&serde_json::to_string_pretty(document)?))
}

/// Escapes the control characters that JSON permits in strings. Outside strings JSON has none but line ends.
fn escape_json(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unsafe(c) {
            // Writing to a string cannot fail.
            let _ = write!(escaped, "\\u{:04x}", u32::from(c));
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// Returns a refusal of the server: its title and code, each violated field, each budget that refused, and the remedy.
pub(crate) fn format_problem(problem: &Problem) -> String {
    let mut text = format!("{} ({})", problem.title, problem.code.slug());
    for violation in &problem.violations {
        let _ = write!(text, "\n  {}: {}", violation.field, violation.message);
    }
    for refusal in &problem.refusals {
        let unit = format!("{:?}", refusal.unit).to_lowercase();
        let _ = write!(
            text,
            "\n  {}: the budget of each {unit} is ε = {} at δ = {}, with {} spent and reserved; the job asks for {}",
            refusal.dataset_name,
            refusal.limit,
            refusal.delta,
            round_up(refusal.spent),
            refusal.asked.map_or("an infinite ε".to_owned(), round_up),
        );
        if let Some(reason) = &refusal.reason {
            let _ = write!(text, ": {reason}");
        }
    }
    if problem.violations.is_empty() {
        let _ = write!(text, "\n  {}", problem.detail);
    }
    if let Some(seconds) = problem.retry_after {
        let _ = write!(text, "\n  repeat the command in {seconds} seconds");
    }
    text
}

/// Returns a table with a header; the last column is not padded. A cell is one line.
pub(crate) fn format_table(head: &[&str], rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| escape_line(cell)).collect()).collect();
    let mut widths: Vec<usize> = head.iter().map(|cell| cell.chars().count()).collect();
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded: Vec<_> = cells.zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        padded.join("  ").trim_end().to_owned() + "\n"
    };
    let mut text = line(&mut head.iter().copied());
    for row in &rows {
        text += &line(&mut row.iter().map(String::as_str));
    }
    text
}

/// Formats a loss, rounded up in its last digit: the displayed expense is never below the true one.
pub(crate) fn round_up(value: f64) -> String {
    if value.is_finite() { format!("{:.4}", (value * 1e4).ceil() / 1e4) } else { "infinite".to_owned() }
}

/// Formats a remainder, rounded down in its last digit.
pub(crate) fn round_down(value: f64) -> String {
    format!("{:.4}", (value * 1e4).floor() / 1e4)
}

/// Returns the word of a value whose JSON form is a string: `dp_sgd`, `finished`.
pub(crate) fn format_word<T: Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};

    use undertone_api::problem::{Code, Problem, Violation};

    use super::{CommandOutput, escape_line, format_problem, format_table, is_closed_pipe, round_down, round_up};

    fn print(title: &str, is_json: bool) -> String {
        let mut bytes = Vec::new();
        CommandOutput::new(&mut bytes, is_json).print(&title, |title| (*title).to_owned()).expect("written");
        String::from_utf8(bytes).expect("UTF-8")
    }

    #[test]
    fn control_characters_never_reach_the_terminal() {
        let title = "a\u{1b}[2Jb\u{9b}31m\u{202e}c\r";
        for text in [print(title, false), print(title, true)] {
            assert!(text.chars().all(|c| c == '\n' || !super::is_unsafe(c)), "{text:?}");
        }
        let read: String = serde_json::from_str(&print(title, true)).expect("JSON");
        assert_eq!(read, title);
        assert_eq!(print("Größe ε", false), "Größe ε\n");
    }

    #[test]
    fn cell_is_one_line() {
        let forged = "north\nFINISHED\r\tx";
        let text = format_table(&["A"], &[vec![forged.to_owned()]]);
        assert_eq!(text, "A\nnorth\u{fffd}FINISHED\u{fffd}\u{fffd}x\n");
        assert_eq!(escape_line("Größe ε"), "Größe ε");
    }

    #[test]
    fn refusal_names_fields_and_remedy() {
        let invalid = Problem::validation(vec![Violation::new("spec.participants.2.clip", "between 0 and 1")]);
        let text = format_problem(&invalid);
        assert_eq!(
            text,
            "Some of the input cannot be accepted (validation_failed)\n  spec.participants.2.clip: between 0 and 1"
        );
        let busy = Problem::new(Code::RateLimited, "wait").with_retry_after(7);
        assert!(format_problem(&busy).ends_with("  wait\n  repeat the command in 7 seconds"));
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let text = format_table(&["A", "LONG"], &[vec!["wide".to_owned(), "x".to_owned()]]);
        assert_eq!(text, "A     LONG\nwide  x\n");
    }

    #[test]
    fn expenses_round_up_and_remainders_round_down() {
        assert_eq!((round_up(1.000_01), round_down(1.000_09)), ("1.0001".to_owned(), "1.0000".to_owned()));
        assert_eq!(round_up(f64::INFINITY), "infinite");
    }

    #[test]
    fn closed_pipe_is_recognized() {
        struct ClosedPipe;
        impl Write for ClosedPipe {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let error = CommandOutput::new(ClosedPipe, false).print_text("x").expect_err("no reader");
        assert!(is_closed_pipe(&error));
        assert!(!is_closed_pipe(&io::Error::from(io::ErrorKind::StorageFull)));
    }
}
