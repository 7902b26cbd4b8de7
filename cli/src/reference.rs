//! The manual pages, and the reference of the book, from the definition of the command line.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use clap::{Arg, Command};

/// The name of the Markdown file.
const MARKDOWN: &str = "undertone.md";

/// Writes a manual page for each command, and the reference in Markdown.
///
/// # Errors
/// When a file cannot be written.
pub(crate) fn write_manual(command: &Command, folder: &Path) -> io::Result<()> {
    clap_mangen::generate_to(command.clone(), folder)?;
    fs::write(folder.join(MARKDOWN), format_reference(command))
}

/// Returns the reference in Markdown.
fn format_reference(command: &Command) -> String {
    let mut command = command.clone();
    command.build();
    let mut text = format!("# The program undertone\n\n{}\n", describe(&command));
    text += "\n`undertone manual FOLDER` writes this page. [Use the command line](../how-to/use-the-command-line.md) shows the commands at work.\n";
    text += "\nExit statuses: 0 done; 1 failed, with the reason and the remedy in the message; 2 wrong arguments; 3 the answer is negative.\n";
    let globals: Vec<&Arg> = command.get_arguments().filter(|argument| argument.is_global_set()).collect();
    text += "\nOptions of each command:\n\n";
    text += &format_arguments(&globals);
    for subcommand in command.get_subcommands().filter(|subcommand| subcommand.get_name() != "help") {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n## undertone {}\n\n{}\n", subcommand.get_name(), describe(subcommand));
        let own: Vec<&Arg> = subcommand
            .get_arguments()
            .filter(|argument| !argument.is_global_set() && !["help", "version"].contains(&argument.get_id().as_str()))
            .collect();
        if !own.is_empty() {
            text.push('\n');
            text += &format_arguments(&own);
        }
    }
    text
}

/// Returns the long description of a command, or its short one with a full stop.
fn describe(command: &Command) -> String {
    let text = command.get_long_about().or_else(|| command.get_about()).map(ToString::to_string).unwrap_or_default();
    let text = text.trim_end_matches('.');
    format!("{text}.")
}

/// Returns a table of arguments.
fn format_arguments(arguments: &[&Arg]) -> String {
    let mut text = "| argument | meaning |\n|---|---|\n".to_owned();
    for argument in arguments {
        let mut meaning = argument.get_help().map(ToString::to_string).unwrap_or_default();
        if let Some(variable) = argument.get_env() {
            // Writing to a string cannot fail.
            let _ = write!(meaning, "; environment: `{}`", variable.to_string_lossy());
        }
        let values: Vec<String> =
            argument.get_possible_values().iter().map(|value| format!("`{}`", value.get_name())).collect();
        if !values.is_empty() && argument.get_action().takes_values() {
            let _ = write!(meaning, "; one of {}", values.join(", "));
        }
        let _ = writeln!(text, "| `{}` | {} |", format_usage(argument), meaning.replace('|', "\\|"));
    }
    text
}

/// Returns an argument as it is typed: `--model FILE`, `JOB`.
fn format_usage(argument: &Arg) -> String {
    let values: Vec<&str> =
        argument.get_value_names().unwrap_or_default().iter().map(clap::builder::Str::as_str).collect();
    let values = values.join(" ").replace('|', "\\|");
    match argument.get_long() {
        Some(long) if argument.get_action().takes_values() => format!("--{long} {values}"),
        Some(long) => format!("--{long}"),
        None => values,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use clap::CommandFactory as _;

    use super::{format_reference, write_manual};
    use crate::CommandLine;

    /// The page of the book. `undertone manual FOLDER` writes its new text.
    const PAGE: &str = "../docs/src/reference/undertone.md";

    #[test]
    fn page_of_the_book_is_the_command_line() {
        let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE)).expect("a page");
        assert_eq!(
            page,
            format_reference(&CommandLine::command()),
            "run `undertone manual FOLDER` and copy undertone.md"
        );
    }

    #[test]
    fn each_command_has_a_manual_page() {
        let folder = tempfile::tempdir().expect("a folder");
        write_manual(&CommandLine::command(), folder.path()).expect("written");
        for command in CommandLine::command().get_subcommands() {
            let path = folder.path().join(format!("undertone-{}.1", command.get_name()));
            let page = fs::read_to_string(&path).expect("a manual page");
            assert!(page.contains(".SH NAME"), "{}", command.get_name());
        }
        assert!(folder.path().join("undertone.1").exists());
    }

    #[test]
    fn command_line_is_consistent() {
        CommandLine::command().debug_assert();
    }
}
