//! `config check`: prints the worker's interpretation of `config.toml` and all errors in it.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Subcommand;

use super::CommandFailure;
use super::table::format_table;
use crate::config::ConfigError;
use crate::config::check::{self, ConfigMistake};
use crate::site::folder::Folder;
use crate::site::policy::Policy;

/// Check the worker's own configuration.
#[derive(Debug, Subcommand)]
pub(super) enum ConfigAction {
    /// Check every key of config.toml, and policy.toml, and show the values in force.
    Check {
        /// Check this file instead of the site's config.toml and policy.toml.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
}

pub(super) fn check(folder: &Folder, file: Option<&Path>, out: &mut dyn Write) -> Result<(), CommandFailure> {
    let path = file.map_or_else(|| folder.config(), Path::to_owned);
    if !path.exists() {
        return Err(match file {
            Some(path) => format!("{} does not exist", path.display()).into(),
            None => ConfigError::NotEnrolled(folder.root().to_owned()).into(),
        });
    }
    let report = check::check(&path)?;
    if !report.mistakes.is_empty() {
        let count = report.mistakes.len();
        for ConfigMistake { line, key, problem } in &report.mistakes {
            let position = line.map_or_else(String::new, |line| format!(":{line}"));
            let key = if key.is_empty() { String::new() } else { format!(" `{key}`:") };
            writeln!(out, "{}{position}:{key} {problem}", path.display())?;
        }
        let noun = if count == 1 { "mistake" } else { "mistakes" };
        return Err(format!("{count} {noun} in {}: the worker does not start with this file", path.display()).into());
    }
    let rows: Vec<Vec<String>> = report
        .keys
        .into_iter()
        .map(|key| {
            let source = if key.is_set { "file" } else { "built in" };
            vec![key.name, key.value, source.to_owned(), key.meaning.to_owned()]
        })
        .collect();
    write!(out, "{} is valid.\n\n{}", path.display(), format_table(&["KEY", "VALUE", "FROM", "MEANING"], &rows))?;
    if file.is_none() {
        Policy::load(&folder.policy())?;
        writeln!(out, "\n{} is valid: `policy show` prints its rules.", folder.policy().display())?;
    }
    Ok(())
}
