//! `lineage`: lists datasets that share lifetime accounts, and lets workers of an organization recognize the same data.

use std::io::Write;
use std::path::{Path, PathBuf};

use age::secrecy::SecretString;
use clap::Subcommand;
use time::OffsetDateTime;

use super::CommandFailure;
use super::backup::read_passphrase;
use super::table::format_table;
use crate::config::Config;
use crate::site::folder::Folder;
use crate::site::lineage::{export, import, summarize};
use crate::site::store::Store;

/// Show which datasets share lifetime accounts, and exchange lineages.
#[derive(Debug, Subcommand)]
pub(super) enum LineageAction {
    /// Show the lineages that this site knows, with their datasets and the number of fingerprints.
    Show,
    /// Write the organization's keys and the fingerprints of all lineages to a sealed file, for another worker of the
    /// organization.
    ///
    /// Transfer the file yourself, not through the server. A person who opens it can test ids of people against it.
    Export {
        /// The file to write; it must not exist yet.
        file: PathBuf,
        /// A file whose first line is the passphrase that seals the file (as `age` does): at least 12 characters.
        #[arg(long, value_name = "FILE")]
        passphrase_file: PathBuf,
    },
    /// Import the lineages of another worker of the organization, so that this site recognizes its data.
    ///
    /// Import before you prepare data here, and again after the other worker has prepared new data: this site recognizes only
    /// imported lineages.
    Import {
        /// The exported file.
        file: PathBuf,
        /// A file whose first line is the passphrase with which the file was sealed.
        #[arg(long, value_name = "FILE")]
        passphrase_file: PathBuf,
    },
}

pub(super) fn run(
    folder: &Folder,
    action: &LineageAction,
    now: OffsetDateTime,
    out: &mut dyn Write,
) -> Result<(), CommandFailure> {
    Config::load(folder)?;
    match action {
        LineageAction::Show => show(folder, out),
        LineageAction::Export { file, passphrase_file } => {
            let lineages = export(folder, file, read_secret(passphrase_file)?, now)?;
            writeln!(
                out,
                "{} contains the keys of your organization and {lineages} lineages, sealed. Transfer it to your other workers yourself, and\nimport it there before you prepare data.",
                file.display()
            )?;
            Ok(())
        }
        LineageAction::Import { file, passphrase_file } => {
            let summary = import(folder, file, read_secret(passphrase_file)?, now)?;
            writeln!(
                out,
                "This site now knows {} lineages, with {} new datasets and {} new keys.",
                summary.lineages, summary.datasets, summary.keys
            )?;
            for (one, other, overlap) in &summary.shared {
                writeln!(
                    out,
                    "WARNING: {one} and {other} share {overlap}, but have separate accounts: their budgets add up for these people."
                )?;
            }
            Ok(())
        }
    }
}

fn read_secret(path: &Path) -> Result<SecretString, CommandFailure> {
    read_passphrase(Some(path))?.ok_or_else(|| "the command needs a passphrase".into())
}

fn show(folder: &Folder, out: &mut dyn Write) -> Result<(), CommandFailure> {
    let (lineages, keys) = summarize(&Store::open(&folder.ledger())?)?;
    if lineages.is_empty() {
        writeln!(out, "This site has no lineage.")?;
    } else {
        let rows: Vec<Vec<String>> = lineages
            .iter()
            .map(|lineage| {
                let names: Vec<String> = lineage
                    .datasets
                    .iter()
                    .map(|dataset| match &dataset.worker {
                        None => dataset.name.clone(),
                        Some(worker) => format!("{} ({worker})", dataset.name),
                    })
                    .collect();
                let more = if lineage.is_sample { "+" } else { "" };
                let count = |count: usize| format!("{count}{more}");
                let counts = lineage.counts;
                vec![
                    names.join(", "),
                    count(counts.recordings),
                    count(counts.people),
                    count(counts.rows),
                    lineage.id.to_string(),
                ]
            })
            .collect();
        write!(out, "{}", format_table(&["DATASETS", "RECORDINGS", "PEOPLE", "ROWS", "LINEAGE"], &rows))?;
    }
    let keys = if keys.is_empty() { "none yet".to_owned() } else { keys.join(", ") };
    writeln!(out, "\nKeys of the organization: {keys}")?;
    Ok(())
}
