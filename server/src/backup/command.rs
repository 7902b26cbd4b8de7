//! The command line: `undertone-server backup` and `undertone-server restore`.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::PathBuf;

use age::secrecy::SecretString;
use clap::Args;
use serde_json::json;

use super::{BackupContents, BackupEnd, BackupError, SHORTEST_PASSPHRASE, file_error, read, write};
use undertone_server_core::config::Config;
use undertone_server_core::ctx::Clock;
use undertone_server_core::db::Db;
use undertone_server_core::service::audit_log::{self, AuditAction};
use undertone_server_core::verify::Report;

/// A backup file and the source of its passphrase.
#[derive(Args)]
pub struct BackupOptions {
    /// The backup file.
    pub file: PathBuf,
    /// A file whose first line is the passphrase; `-` reads standard input.
    #[arg(long, value_name = "FILE")]
    pub passphrase_file: Option<PathBuf>,
    /// The passphrase, if there is no passphrase file.
    #[arg(long, hide = true, env = "UNDERTONE_BACKUP_PASSPHRASE", hide_env_values = true)]
    passphrase: Option<String>,
}

/// The options of `restore`.
#[derive(Args)]
pub struct RestoreOptions {
    /// The backup.
    #[command(flatten)]
    pub backup: BackupOptions,
    /// A signed head from a site (JSON: `payload` and `signature`) that the restored log must continue; may be repeated. Without a
    /// head, an outdated backup is accepted until the first site connects.
    #[arg(long, value_name = "FILE")]
    pub head: Vec<PathBuf>,
    /// The reason, which is sent to every site: 1 to 500 characters.
    #[arg(long, value_name = "TEXT", default_value = "restored from a backup")]
    pub reason: String,
}

impl BackupOptions {
    /// Makes the options of a backup at `file`, encrypted with the first line of another file.
    #[cfg(test)]
    pub(super) const fn new(file: PathBuf, passphrase_file: PathBuf) -> Self {
        Self { file, passphrase_file: Some(passphrase_file), passphrase: None }
    }

    fn passphrase(&self) -> Result<SecretString, BackupError> {
        let text = match &self.passphrase_file {
            Some(path) if path.as_os_str() == "-" => {
                let mut text = String::new();
                std::io::stdin().read_to_string(&mut text).map_err(file_error(path))?;
                text
            }
            Some(path) => std::fs::read_to_string(path).map_err(file_error(path))?,
            None => self.passphrase.clone().unwrap_or_default(),
        };
        let first = text.lines().next().unwrap_or_default().trim_end();
        if first.chars().count() < SHORTEST_PASSPHRASE {
            return Err(BackupError::Passphrase);
        }
        Ok(SecretString::from(first.to_owned()))
    }
}

/// Writes a backup of the configured server, which may be running, and returns a summary.
///
/// # Errors
/// [`BackupError`]; in that case there is no file.
pub async fn backup(config: &Config, options: &BackupOptions) -> Result<String, BackupError> {
    let passphrase = options.passphrase()?;
    let (contents, end) = write::write(config, &options.file, passphrase).await?;
    let mut summary = format!(
        "Backup written to {}: the tables, {} files of the data folder, {} objects of {} bytes.",
        options.file.display(),
        end.keys,
        end.objects,
        end.bytes
    );
    if end.gone > 0 {
        let _ = write!(
            summary,
            "\n{} objects of rounds that closed during the backup are omitted; they are not needed.",
            end.gone
        );
    }
    if let Err(error) = note(config, &contents, end).await {
        let _ = write!(summary, "\nCannot record the backup in the audit log: {error}");
    }
    if let Some(head) = contents.head {
        let _ = write!(summary, "\nIts ledger ends with {}", head.payload);
    }
    Ok(summary)
}

/// Records a backup in the audit log. A backup is also made if the database accepts no more writes, when it is needed
/// most.
async fn note(
    config: &Config,
    contents: &BackupContents,
    end: BackupEnd,
) -> Result<(), undertone_server_core::error::Error> {
    let db = Db::connect(&config.database()).await?;
    let detail = json!({ "objects": end.objects, "bytes": end.bytes, "program": contents.program });
    let noted = audit_log::note_command(&db, Clock::system().now(), AuditAction::BackupMade, detail).await;
    db.close().await?;
    noted
}

/// Restores a backup into the configured, empty places, and verifies its ledger. If the verification fails, the keys
/// are not put in place, so no server starts with it.
///
/// # Errors
/// [`BackupError`] if it cannot be restored. The report contains the failed checks.
pub async fn restore(config: &Config, options: &RestoreOptions) -> Result<Report, BackupError> {
    let passphrase = options.backup.passphrase()?;
    read::read(config, &options.backup.file, passphrase, &options.head, &options.reason).await
}

#[cfg(test)]
mod tests {
    use super::BackupOptions;
    use crate::backup::{BackupError, SHORTEST_PASSPHRASE};

    #[test]
    fn passphrase_under_twelve_characters_is_refused() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let read_passphrase = |text: String| {
            let file = dir.path().join("secret");
            std::fs::write(&file, text + "\nanother line, which is not read\n").expect("the folder is writable");
            BackupOptions { file: "server.backup".into(), passphrase_file: Some(file), passphrase: None }.passphrase()
        };
        assert!(read_passphrase("é".repeat(SHORTEST_PASSPHRASE)).is_ok());
        assert!(matches!(read_passphrase("é".repeat(SHORTEST_PASSPHRASE - 1)), Err(BackupError::Passphrase)));
        let blanks = "x".repeat(SHORTEST_PASSPHRASE - 1) + "  ";
        assert!(matches!(read_passphrase(blanks), Err(BackupError::Passphrase)), "blanks at the end are not counted");
    }
}
