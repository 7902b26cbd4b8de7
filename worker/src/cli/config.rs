//! `config check`: prints the worker's interpretation of `config.toml` and all errors in it.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Subcommand;

use super::Failure;
use super::table::table;
use crate::config::ConfigError;
use crate::config::check::{self, Mistake};
use crate::site::folder::Folder;
use crate::site::policy::Policy;

/// The worker's own configuration.
#[derive(Debug, Subcommand)]
pub(super) enum Action {
    /// Check every key of config.toml and the policy beside it; show what is in force.
    Check {
        /// Another file than the site's config.toml, to be checked by itself.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
}

pub(super) fn check(folder: &Folder, file: Option<&Path>, out: &mut dyn Write) -> Result<(), Failure> {
    let path = file.map_or_else(|| folder.config(), Path::to_owned);
    if !path.exists() {
        return Err(match file {
            Some(path) => format!("{} is not there", path.display()).into(),
            None => ConfigError::NotEnrolled(folder.root().to_owned()).into(),
        });
    }
    let checked = check::check(&path)?;
    if !checked.mistakes.is_empty() {
        let many = checked.mistakes.len();
        for Mistake { line, key, problem } in &checked.mistakes {
            let place = line.map_or_else(String::new, |line| format!(":{line}"));
            let key = if key.is_empty() { String::new() } else { format!(" `{key}`:") };
            writeln!(out, "{}{place}:{key} {problem}", path.display())?;
        }
        let noun = if many == 1 { "mistake" } else { "mistakes" };
        return Err(format!("{many} {noun} in {}: the worker does not start with it", path.display()).into());
    }
    let rows: Vec<Vec<String>> = checked
        .keys
        .into_iter()
        .map(|(key, value, said, meaning)| {
            let from = if said { "file" } else { "built in" };
            vec![key, value, from.to_owned(), meaning.to_owned()]
        })
        .collect();
    write!(out, "{} is right.\n\n{}", path.display(), table(&["KEY", "VALUE", "FROM", "MEANING"], &rows))?;
    if file.is_none() {
        Policy::load(&folder.policy())?;
        writeln!(out, "\n{} is right: `policy show` tells what it says.", folder.policy().display())?;
    }
    Ok(())
}
