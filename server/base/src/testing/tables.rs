//! Databases with the server's tables. The migrations run once in a process for each kind of database, and each test
//! gets a copy: they take longer than most tests.

use std::fs;
use std::path::Path;

use tokio::sync::OnceCell;
use uuid::Uuid;

use super::{PostgresDatabase, administer};
use crate::db::Db;

/// The file of a SQLite database with the tables.
static SQLITE: OnceCell<Vec<u8>> = OnceCell::const_new();
/// The name of a PostgreSQL database with the tables.
static POSTGRES: OnceCell<String> = OnceCell::const_new();

/// Writes a SQLite database with the tables to `path`, which must not exist.
pub async fn write_sqlite(path: &Path) {
    let content = SQLITE.get_or_init(make_sqlite).await;
    assert!(!path.exists(), "{} exists", path.display());
    fs::write(path, content).expect("a database can be written");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("its owner may change its mode");
    }
}

async fn make_sqlite() -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("undertone.sqlite");
    let db = Db::connect(&format!("sqlite://{}?mode=rwc", path.display())).await.expect("the database answers");
    db.migrate().await.expect("the tables are made");
    db.close().await.expect("closed");
    // The end of the last connection writes the log of changes into the file.
    assert!(!path.with_extension("sqlite-wal").exists(), "the file has all tables");
    fs::read(&path).expect("a database can be read")
}

/// Returns the name of a database with the tables on the PostgreSQL server `server`. It stays there: a server for tests
/// lives as long as their run.
pub(super) async fn postgres_template(server: &str) -> &'static str {
    POSTGRES.get_or_init(|| make_postgres(server)).await
}

async fn make_postgres(server: &str) -> String {
    let template =
        PostgresDatabase { server: server.to_owned(), name: format!("undertone_tables_{}", Uuid::now_v7().simple()) };
    administer(server, &format!("CREATE DATABASE {}", template.name)).await;
    let db = Db::connect(&template.url()).await.expect("the database answers");
    db.migrate().await.expect("the tables are made");
    db.close().await.expect("closed");
    template.name
}
