//! `backup` and `restore`: writes a site to one file, and restores it from there.

use std::io::Write;
use std::path::{Path, PathBuf};

use age::secrecy::SecretString;
use clap::Args;
use time::OffsetDateTime;

use super::CommandFailure;
use crate::site::folder::Folder;
use crate::site::restore::{self, BackupSummary};

/// The lowest number of characters of a passphrase.
pub(crate) const SHORTEST: usize = 12;

/// Write ledger, key, policy, configuration and dataset descriptions to a file.
#[derive(Debug, Args)]
pub(super) struct BackupCommand {
    /// The file to write; it must not exist yet. Its owner alone can read it.
    file: PathBuf,
    /// A file whose first line is the passphrase that seals the backup (as `age` does): at least 12 characters.
    #[arg(long, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,
    /// Write an unsealed backup, with the site's KEY in plain text: any reader of the file can act as this site.
    #[arg(long, conflicts_with = "passphrase_file")]
    unsealed: bool,
}

/// Restore a site from a backup.
#[derive(Debug, Args)]
pub(super) struct RestoreCommand {
    /// The backup file.
    file: PathBuf,
    /// A file whose first line is the passphrase with which the backup was sealed.
    #[arg(long, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,
    /// Move an existing site into a folder beside it. Nothing is deleted.
    #[arg(long)]
    replace: bool,
}

impl BackupCommand {
    pub(super) fn run(&self, folder: &Folder, now: OffsetDateTime, out: &mut dyn Write) -> Result<(), CommandFailure> {
        crate::config::Config::load(folder)?;
        let secret = self.read_secret()?;
        let is_sealed = secret.is_some();
        let contents = restore::backup(folder, &self.file, secret, now)?;
        writeln!(out, "{} holds {}.", self.file.display(), describe_contents(&contents))?;
        writeln!(
            out,
            "{} It contains neither the data nor later expenses: after a restore nothing leaves until the\nworker has compared the ledger with the server's receipts.",
            if is_sealed {
                "It is sealed."
            } else {
                "It is not sealed, and the site's KEY is in it in plain text: store it where only this site's admins can read it."
            }
        )?;
        Ok(())
    }
}

impl BackupCommand {
    /// Returns the passphrase; `None` where the caller accepted an unsealed backup explicitly.
    fn read_secret(&self) -> Result<Option<SecretString>, CommandFailure> {
        let secret = read_passphrase(self.passphrase_file.as_deref())?;
        if secret.is_none() && !self.unsealed {
            return Err("a backup contains the site's key, so nothing was written: seal it with --passphrase-file FILE, or add \
                        --unsealed if only this site's admins can read the file"
                .into());
        }
        Ok(secret)
    }
}

impl RestoreCommand {
    pub(super) fn run(&self, folder: &Folder, now: OffsetDateTime, out: &mut dyn Write) -> Result<(), CommandFailure> {
        let secret = read_passphrase(self.passphrase_file.as_deref())?;
        let contents = restore::restore(folder, &self.file, secret, self.replace, now)?;
        let site = folder.root().display();
        writeln!(out, "{site} is restored to its state of {}: {}.", contents.at, describe_contents(&contents))?;
        if let Some(aside) = &contents.replaced {
            writeln!(out, "The replaced site is in {}.", aside.display())?;
        }
        writeln!(
            out,
            "Nothing leaves until the worker has compared the ledger with the server's receipts: start it now. It imports receipts\nthat the ledger lacks as spent, and never sends their releases again; `ledger show` counts them. Reservations of jobs that were\nopen in the backup are never returned. The backup does not contain the data."
        )?;
        Ok(())
    }
}

fn describe_contents(contents: &BackupSummary) -> String {
    let last = if contents.last.is_empty() { String::new() } else { format!(", the last {}", contents.last) };
    format!("{} receipts{last}, and {} dataset descriptions", contents.receipts, contents.datasets)
}

pub(super) fn read_passphrase(file: Option<&Path>) -> Result<Option<SecretString>, CommandFailure> {
    let Some(path) = file else { return Ok(None) };
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let line = text.lines().next().unwrap_or_default();
    if line.chars().count() < SHORTEST {
        return Err(format!("{}: a passphrase has at least {SHORTEST} characters", path.display()).into());
    }
    Ok(Some(SecretString::from(line.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::{BackupCommand, SHORTEST, read_passphrase};

    #[test]
    fn passphrase_under_twelve_characters_is_refused() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("passphrase");
        let read = |characters: usize| {
            std::fs::write(&path, format!("{}\n", "ä".repeat(characters))).expect("the folder is writable");
            read_passphrase(Some(&path))
        };
        assert!(read(SHORTEST).is_ok_and(|phrase| phrase.is_some()));
        assert!(read(SHORTEST - 1).is_err_and(|failure| failure.error.to_string().contains("at least 12")));
    }

    #[test]
    fn backup_without_passphrase_requires_unsealed() {
        let backup = |unsealed| BackupCommand { file: "site.backup".into(), passphrase_file: None, unsealed };
        let message = backup(false).read_secret().err().map(|failure| failure.error.to_string()).unwrap_or_default();
        assert!(message.contains("--passphrase-file") && message.contains("--unsealed"), "{message}");
        assert!(backup(true).read_secret().is_ok_and(|secret| secret.is_none()));
    }
}
