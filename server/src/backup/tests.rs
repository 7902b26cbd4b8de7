//! Tests that the restore checks a backup's secrets before a server starts with them.

use std::fs;
use std::path::{Path, PathBuf};

use age::secrecy::SecretString;
use tempfile::TempDir;

use super::database::DatabaseKind;
use super::{BackupError, read, write};
use crate::testing::{Person, TestApp};
use undertone_server_core::config::Config;

/// Makes a server whose operator has a second factor, and a folder for backups.
async fn server() -> (TestApp, Person, TempDir) {
    let app = TestApp::sqlite().await;
    let operator = app.operator().await;
    app.two_factor(&operator).await;
    (app, operator, tempfile::tempdir().expect("a temporary folder"))
}

fn passphrase() -> SecretString {
    SecretString::from("a passphrase of a test".to_owned())
}

/// Makes a backup of the server in its current state.
async fn backup(app: &TestApp, folder: &Path, name: &str) -> PathBuf {
    let file = folder.join(name);
    write::write(&app.ctx.config, &file, passphrase()).await.expect("it is written");
    file
}

/// Restores a backup into an empty folder, and returns the folder with the result.
async fn restore(app: &TestApp, file: &Path) -> (TempDir, Result<(), BackupError>) {
    let place = tempfile::tempdir().expect("a temporary folder");
    let config = Config { data_dir: place.path().to_owned(), ..app.ctx.config.clone() };
    let restored = read::read(&config, file, passphrase(), &[], "a test").await;
    let verdict = restored.map(|report| assert!(report.holds(), "{report}"));
    (place, verdict)
}

fn why(refused: Result<(), BackupError>) -> String {
    match refused {
        Err(BackupError::Contents { why, .. }) => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backup_with_another_second_factor_key_is_refused() {
    let (app, _operator, folder) = server().await;
    let good = backup(&app, folder.path(), "good").await;
    let key = app.data_dir().join("factor.key");
    let own = fs::read_to_string(&key).expect("the server made it");
    fs::write(&key, "ab".repeat(32)).expect("the folder is writable");
    let other = backup(&app, folder.path(), "other").await;
    fs::write(&key, "not a key").expect("the folder is writable");
    let broken = backup(&app, folder.path(), "broken").await;
    fs::remove_file(&key).expect("it is there");
    let without = backup(&app, folder.path(), "without").await;

    let (place, restored) = restore(&app, &good).await;
    restored.expect("its own key opens what is stored");
    assert_eq!(fs::read_to_string(place.path().join("factor.key")).expect("it is there"), own);
    for (file, name) in [
        (&other, "1 of 1 second factors were sealed by another factor.key"),
        (&without, "1 of 1 second factors"),
        (&broken, "factor.key is not a key file"),
    ] {
        let (place, refused) = restore(&app, file).await;
        let why = why(refused);
        assert!(why.contains(name), "{why}");
        assert!(!place.path().join("signing.key").exists(), "no server starts with it");
    }
    app.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backup_without_a_required_key_is_refused() {
    let app = TestApp::sqlite().await;
    app.operator().await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::remove_file(app.data_dir().join("factor.key")).expect("it is there");
    let early = backup(&app, folder.path(), "early").await;
    restore(&app, &early).await.1.expect("there is nothing that it would open");
    for name in ["token.key", "signing.key"] {
        let key = app.data_dir().join(name);
        let own = fs::read(&key).expect("the server made it");
        fs::remove_file(&key).expect("it is there");
        let without = backup(&app, folder.path(), name).await;
        fs::write(&key, own).expect("the folder is writable");
        assert!(why(restore(&app, &without).await.1).contains(name), "{name}");
    }
    app.close().await;
}

/// The copy of the tables lies unencrypted next to the backup until it is archived, and an operator's umask may make
/// new files readable by all.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unsealed_copy_of_the_tables_is_readable_by_its_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let app = TestApp::sqlite().await;
    app.operator().await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let copy = folder.path().join("tables");
    DatabaseKind::from_config(&app.ctx.config).copy(&copy).await.expect("it is written");
    let metadata = fs::metadata(&copy).expect("it is there");
    assert!(metadata.len() > 0);
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    let again = DatabaseKind::from_config(&app.ctx.config).copy(&copy).await;
    assert!(matches!(again, Err(BackupError::File { .. })), "{again:?}");
    app.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backup_and_restore_are_entries_of_the_audit_log() {
    use undertone_server_core::db::Db;
    use undertone_server_core::service::audit_log::{AuditAction, count};

    let app = TestApp::sqlite().await;
    app.operator().await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("server.backup");
    let secret = folder.path().join("secret");
    fs::write(&secret, "a passphrase of a test").expect("the folder is writable");
    let options = super::command::BackupOptions::new(file.clone(), secret);
    super::command::backup(&app.ctx.config, &options).await.expect("made");
    assert_eq!(count(&app.ctx.db, AuditAction::BackupMade).await, 1);
    let (place, restored) = restore(&app, &file).await;
    restored.expect("it holds");
    let restored = Config { data_dir: place.path().to_owned(), ..app.ctx.config.clone() };
    let db = Db::inspect(&restored.database()).await.expect("connected");
    assert_eq!(count(&db, AuditAction::BackupRestored).await, 1);
    db.close().await.expect("closed");
    app.close().await;
}
