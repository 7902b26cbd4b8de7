//! `lineage`: lists datasets that share lifetime accounts, and lets workers of an organization recognize the same data.

use std::io::Write;
use std::path::{Path, PathBuf};

use age::secrecy::SecretString;
use clap::Subcommand;
use time::OffsetDateTime;

use super::Failure;
use super::backup::passphrase;
use super::table::table;
use crate::config::Config;
use crate::site::folder::Folder;
use crate::site::lineage::{export, import, summarize};
use crate::site::store::Store;

/// Which datasets share accounts.
#[derive(Debug, Subcommand)]
pub(super) enum Action {
    /// Show the lineages that this site knows: their datasets, and by how much they are recognized.
    Show,
    /// Write the organization's keys and the fingerprints of all lineages to a sealed file, for another worker of the organization.
    ///
    /// Carry it there yourself: the server must not have it. Who opens it can try ids of people against it.
    Export {
        /// The file; it must not be there yet.
        file: PathBuf,
        /// A file whose first line is the passphrase that seals it (as `age` does): at least 12 characters.
        #[arg(long, value_name = "FILE")]
        passphrase_file: PathBuf,
    },
    /// Take in the lineages of another worker of the organization, so that its data are recognized here.
    ///
    /// Do it before you prepare data here, and again after the other worker has prepared new ones: what was never imported is not
    /// recognized.
    Import {
        /// The file.
        file: PathBuf,
        /// A file whose first line is the passphrase that it was sealed with.
        #[arg(long, value_name = "FILE")]
        passphrase_file: PathBuf,
    },
}

pub(super) fn run(folder: &Folder, action: &Action, now: OffsetDateTime, out: &mut dyn Write) -> Result<(), Failure> {
    Config::load(folder)?;
    match action {
        Action::Show => show(folder, out),
        Action::Export { file, passphrase_file } => {
            let lineages = export(folder, file, secret(passphrase_file)?, now)?;
            writeln!(
                out,
                "{} holds the keys of your organization and {lineages} lineages, sealed. Carry it to your other workers yourself, and\nimport it there before data are prepared.",
                file.display()
            )?;
            Ok(())
        }
        Action::Import { file, passphrase_file } => {
            let imported = import(folder, file, secret(passphrase_file)?, now)?;
            writeln!(
                out,
                "{} lineages are known here now, {} datasets of them new, with {} new keys.",
                imported.lineages, imported.datasets, imported.keys
            )?;
            for (one, other, overlap) in &imported.shared {
                writeln!(
                    out,
                    "WARNING: {one} and {other} share {overlap}, and each has accounts of its own: their budgets add up for these people."
                )?;
            }
            Ok(())
        }
    }
}

fn secret(path: &Path) -> Result<SecretString, Failure> {
    passphrase(Some(path))?.ok_or_else(|| "a passphrase is needed".into())
}

fn show(folder: &Folder, out: &mut dyn Write) -> Result<(), Failure> {
    let (lineages, keys) = summarize(&Store::open(&folder.ledger())?)?;
    if lineages.is_empty() {
        writeln!(out, "No lineage has begun here.")?;
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
        write!(out, "{}", table(&["DATASETS", "RECORDINGS", "PEOPLE", "ROWS", "LINEAGE"], &rows))?;
    }
    let keys = if keys.is_empty() { "none yet".to_owned() } else { keys.join(", ") };
    writeln!(out, "\nKeys of the organization: {keys}")?;
    Ok(())
}
