//! `backup` and `restore`: writes a site to one file, and restores it from there.

use std::io::Write;
use std::path::{Path, PathBuf};

use age::secrecy::SecretString;
use clap::Args;
use time::OffsetDateTime;

use super::Failure;
use crate::site::folder::Folder;
use crate::site::restore::{self, BackupSummary};

/// The lowest number of characters of a passphrase.
pub(crate) const SHORTEST: usize = 12;

/// Write ledger, key, policy, configuration and the descriptions of datasets to a file.
#[derive(Debug, Args)]
pub(super) struct Backup {
    /// The file; it must not be there yet. Its owner alone may read it.
    file: PathBuf,
    /// A file whose first line is the passphrase that seals the backup (as `age` does): at least 12 characters.
    #[arg(long, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,
    /// Leave the backup unsealed, with the site's KEY in it as it is: a reader of the file can act as this site.
    #[arg(long, conflicts_with = "passphrase_file")]
    unsealed: bool,
}

/// Put a backup in place.
#[derive(Debug, Args)]
pub(super) struct Restore {
    /// The file.
    file: PathBuf,
    /// A file whose first line is the passphrase that the backup was sealed with.
    #[arg(long, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,
    /// Move the site that is here aside, into a folder beside it. Nothing of it is deleted.
    #[arg(long)]
    replace: bool,
}

impl Backup {
    pub(super) fn run(&self, folder: &Folder, now: OffsetDateTime, out: &mut dyn Write) -> Result<(), Failure> {
        crate::config::Config::load(folder)?;
        let secret = self.secret()?;
        let sealed = secret.is_some();
        let kept = restore::backup(folder, &self.file, secret, now)?;
        writeln!(out, "{} holds {}.", self.file.display(), words(&kept))?;
        writeln!(
            out,
            "{} The data are not in it. What is spent after this is not in it either: after a restore nothing leaves until the\nworker has compared the ledger with the receipts that the server has.",
            if sealed {
                "It is sealed."
            } else {
                "The site's KEY is in it as it is: keep it where nobody else can read it."
            }
        )?;
        Ok(())
    }
}

impl Backup {
    /// Returns the passphrase; `None` where the caller accepted an unsealed backup explicitly.
    fn secret(&self) -> Result<Option<SecretString>, Failure> {
        let secret = passphrase(self.passphrase_file.as_deref())?;
        if secret.is_none() && !self.unsealed {
            return Err("a backup holds the site's key: seal it with --passphrase-file FILE, or give --unsealed when \
                        the file lies where nobody but this site's admins can read it; nothing was written"
                .into());
        }
        Ok(secret)
    }
}

impl Restore {
    pub(super) fn run(&self, folder: &Folder, now: OffsetDateTime, out: &mut dyn Write) -> Result<(), Failure> {
        let secret = passphrase(self.passphrase_file.as_deref())?;
        let kept = restore::restore(folder, &self.file, secret, self.replace, now)?;
        writeln!(out, "{} is as it was at {}: {}.", folder.root().display(), kept.at, words(&kept))?;
        if let Some(aside) = &kept.replaced {
            writeln!(out, "What was here lies in {}.", aside.display())?;
        }
        writeln!(
            out,
            "Nothing leaves until the worker has compared the ledger with the receipts that the server has: start it now. Receipts\nthat the ledger lacks are taken in as spent, and nothing is ever sent by them again; `ledger show` tells how many. What jobs reserved\nthat were open in the backup is never given back. The data were never in the backup."
        )?;
        Ok(())
    }
}

fn words(kept: &BackupSummary) -> String {
    let last = if kept.last.is_empty() { String::new() } else { format!(", the last {}", kept.last) };
    format!("{} receipts{last}, and {} descriptions of datasets", kept.receipts, kept.datasets)
}

pub(super) fn passphrase(file: Option<&Path>) -> Result<Option<SecretString>, Failure> {
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
    use super::{Backup, SHORTEST, passphrase};

    #[test]
    fn a_passphrase_has_twelve_characters_or_is_refused() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("passphrase");
        let read = |characters: usize| {
            std::fs::write(&path, format!("{}\n", "ä".repeat(characters))).expect("the folder is writable");
            passphrase(Some(&path))
        };
        assert!(read(SHORTEST).is_ok_and(|phrase| phrase.is_some()));
        assert!(read(SHORTEST - 1).is_err_and(|failure| failure.error.to_string().contains("at least 12")));
    }

    #[test]
    fn backup_without_passphrase_needs_the_word_for_it() {
        let backup = |unsealed| Backup { file: "site.backup".into(), passphrase_file: None, unsealed };
        let refused = backup(false).secret().err().map(|failure| failure.error.to_string()).unwrap_or_default();
        assert!(refused.contains("--passphrase-file") && refused.contains("--unsealed"), "{refused}");
        assert!(backup(true).secret().is_ok_and(|secret| secret.is_none()));
    }
}
