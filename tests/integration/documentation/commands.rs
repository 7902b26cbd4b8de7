//! Command lines: subcommands and options exist in the programs, and `make` has the named targets.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
};

use support::workspace;

use super::pages::{extract_fenced, extract_inline_code, load_all};
use crate::claims::places;

/// The programs whose command lines are checked.
const PROGRAMS: [&str; 3] = ["undertone-worker", "undertone-server", "undertone"];

/// The `--help` of a program, by subcommand.
struct ProgramManual {
    program: PathBuf,
    pages: BTreeMap<Vec<String>, String>,
}

impl ProgramManual {
    fn new(name: &str) -> Self {
        let program = workspace::program(name).unwrap_or_else(|error| panic!("{error}"));
        Self { program, pages: BTreeMap::new() }
    }

    /// Returns the help of a subcommand.
    fn page(&mut self, command: &[String]) -> &str {
        let program = &self.program;
        self.pages.entry(command.to_vec()).or_insert_with(|| places::help(program, command))
    }

    /// Returns the first argument that the program does not know.
    fn unknown_argument(&mut self, arguments: &[String]) -> Option<String> {
        let mut command = Vec::new();
        let mut is_value = false;
        for argument in arguments {
            let page = self.page(&command);
            if argument.starts_with("--") {
                let name = argument.split('=').next().unwrap_or(argument);
                let Some(takes_value) = find_option(page, name) else { return Some(argument.clone()) };
                is_value = takes_value && !argument.contains('=');
                continue;
            }
            let was_value = std::mem::take(&mut is_value);
            let subcommands = places::subcommands(page);
            if subcommands.contains(argument) {
                command.push(argument.clone());
            } else if !subcommands.is_empty() && !was_value {
                return Some(argument.clone());
            }
        }
        None
    }
}

/// Returns whether an option takes a value; `None` when the help does not have it.
fn find_option(help: &str, name: &str) -> Option<bool> {
    let lines = help.lines().map(str::trim).filter(|line| line.starts_with('-'));
    lines
        .filter_map(|line| line.split("  ").next())
        .find_map(|usage| usage.split([' ', ',', '=', '[']).any(|word| word == name).then(|| usage.contains('<')))
}

/// Returns the commands of a shell script: continued lines joined, comments, environment and `sudo` removed.
fn parse_commands(script: &str) -> Vec<Vec<String>> {
    let joined = script.replace("\\\n", " ");
    let lines = joined.lines().map(split_words).map(|words| strip_environment(&words).to_vec());
    lines.filter(|words| !words.is_empty()).collect()
}

/// Splits a line at blanks outside quotes, up to a comment.
fn split_words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut quote, mut has_word) = (String::new(), None, false);
    for c in line.chars() {
        match (c, quote) {
            ('#', None) if !has_word => break,
            ('"' | '\'', None) => (quote, has_word) = (Some(c), true),
            (c, Some(open)) if c == open => quote = None,
            (c, None) if c.is_whitespace() => {
                if std::mem::take(&mut has_word) {
                    words.push(std::mem::take(&mut word));
                }
            }
            (c, _) => {
                word.push(c);
                has_word = true;
            }
        }
    }
    if has_word {
        words.push(word);
    }
    words
}

/// Removes `sudo`, `-u USER`, `env` and `NAME=VALUE` before a command.
fn strip_environment(words: &[String]) -> &[String] {
    match words {
        [first, _, rest @ ..] if first == "-u" => strip_environment(rest),
        [first, rest @ ..] if first == "sudo" || first == "env" || first.contains('=') => strip_environment(rest),
        words => words,
    }
}

/// Returns every command of the documents with the document that has it: lines of `sh` blocks, and inline code.
fn collect_commands() -> Vec<(String, Vec<String>)> {
    let mut commands = Vec::new();
    for page in load_all() {
        let scripts = extract_fenced(&page.text, "sh").into_iter().chain(extract_inline_code(&page));
        for command in scripts.flat_map(|script| parse_commands(&script)) {
            commands.push((page.path.clone(), command));
        }
    }
    commands
}

#[test]
fn command_lines_have_known_subcommands_and_options() {
    let mut manuals: BTreeMap<&str, ProgramManual> =
        PROGRAMS.into_iter().map(|name| (name, ProgramManual::new(name))).collect();
    let (mut checked, mut broken) = (0, Vec::new());
    for (path, command) in collect_commands() {
        let Some(manual) = manuals.get_mut(command[0].as_str()) else { continue };
        checked += 1;
        if let Some(argument) = manual.unknown_argument(&command[1..]) {
            broken.push(format!("{path}: `{}`: {argument}", command.join(" ")));
        }
    }
    assert!(checked > 150, "only {checked} command lines: the test is blind");
    assert_eq!(broken, [""; 0]);
}

#[test]
fn make_targets_exist() {
    let makefile = fs::read_to_string(workspace::root().join("Makefile")).expect("a text file");
    let rules = makefile.lines().filter(|line| !line.starts_with(['\t', '.', '#']));
    let targets: BTreeSet<&str> = rules.filter_map(|line| line.split_once(':')).map(|(target, _)| target).collect();
    let (mut mentions, mut broken) = (BTreeSet::new(), Vec::new());
    for (path, command) in collect_commands().into_iter().filter(|(_, command)| command[0] == "make") {
        for target in command[1..].iter().filter(|word| !word.contains('=')) {
            if !targets.contains(target.as_str()) {
                broken.push(format!("{path}: make {target}"));
            }
            mentions.insert(target.clone());
        }
    }
    assert_eq!(broken, [""; 0]);
    assert!(mentions.len() > 8, "{mentions:?}");
    let help = makefile.split("help:").last().expect("a rule");
    let is_listed = |target: &str| target == "help" || help.contains(&format!("'make {target}"));
    let unlisted: Vec<&str> = targets.into_iter().filter(|target| !is_listed(target)).collect();
    assert_eq!(unlisted, [""; 0], "`make help` does not list them");
}

#[test]
fn scripts_are_split_into_commands() {
    let script = "sudo -u site env A=1 tool --x \"two words\" \\\n    y   # why\n# nothing\n\nmake z";
    assert_eq!(parse_commands(script), [vec!["tool", "--x", "two words", "y"], vec!["make", "z"]]);
}

#[test]
fn options_are_found_by_name() {
    let help = "Options:\n      --site <FOLDER>  Uses --other\n  -q, --quick\n          --third\n";
    assert_eq!(find_option(help, "--site"), Some(true));
    assert_eq!(find_option(help, "--quick"), Some(false));
    assert_eq!(find_option(help, "--other"), None);
}
