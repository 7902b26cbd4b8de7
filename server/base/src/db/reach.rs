//! Steps before the first connection: the SQLite file is created for its owner only, and a PostgreSQL server that
//! refuses connections is reported at once.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use sea_orm::sqlx::postgres::{PgConnectOptions, PgConnection};
use sea_orm::sqlx::sqlite::SqliteConnectOptions;
use sea_orm::sqlx::{self, ConnectOptions as _, Connection as _};
use sea_orm::{DbErr, RuntimeErr};

use super::PATIENCE;

/// The pause between two attempts to reach PostgreSQL.
const PAUSE: Duration = Duration::from_secs(1);

/// Ensures that the database accepts connections.
///
/// # Errors
/// If the SQLite file cannot be created, or PostgreSQL accepts no connection within [`PATIENCE`]: with its address and
/// reason.
pub(super) async fn prepare(url: &str) -> Result<(), DbErr> {
    if url.starts_with("sqlite:") {
        let options: SqliteConnectOptions = url.parse().map_err(connection_error)?;
        let path = options.get_filename();
        let opened = own_file(path);
        return opened.map_err(|error| refusal(format!("the SQLite file {}: {error}", path.display())));
    }
    reach(&url.parse().map_err(connection_error)?, PATIENCE).await
}

pub(super) fn connection_error(error: sqlx::Error) -> DbErr {
    DbErr::Conn(RuntimeErr::SqlxError(error.into()))
}

const fn refusal(reason: String) -> DbErr {
    DbErr::Conn(RuntimeErr::Internal(reason))
}

/// Tries to connect until `patience` has passed; the first failure is logged at once. A wrong password or name is
/// final.
async fn reach(options: &PgConnectOptions, patience: Duration) -> Result<(), DbErr> {
    let place = format_address(options);
    let end = Instant::now() + patience;
    for attempt in 1.. {
        let remaining = end.saturating_duration_since(Instant::now());
        let Err(error) = connect_once(options, remaining).await else { return Ok(()) };
        let is_starting = |code: &str| matches!(code, "53300" | "57P03");
        let is_final = match &error {
            sqlx::Error::Database(error) => !error.code().is_some_and(|code| is_starting(&code)),
            sqlx::Error::Io(_) => false,
            _ => true,
        };
        if is_final || Instant::now() + PAUSE >= end {
            return Err(refusal(format!("PostgreSQL at {place}: {error}")));
        }
        if attempt == 1 {
            tracing::warn!(database.address = place, %error, "PostgreSQL takes no connection; trying again for 20 s");
        }
        tokio::time::sleep(PAUSE).await;
    }
    unreachable!("the loop ends by returning")
}

/// Connects once.
///
/// # Errors
/// If PostgreSQL does not accept the connection within `patience`: with its address and reason.
pub(super) async fn reach_once(options: &PgConnectOptions, patience: Duration) -> Result<(), DbErr> {
    let reached = connect_once(options, patience).await;
    reached.map_err(|error| refusal(format!("PostgreSQL at {}: {error}", format_address(options))))
}

async fn connect_once(options: &PgConnectOptions, patience: Duration) -> Result<(), sqlx::Error> {
    match tokio::time::timeout(patience, options.connect()).await {
        Ok(connection) => PgConnection::close(connection?).await,
        Err(_) => Err(sqlx::Error::Io(io::ErrorKind::TimedOut.into())),
    }
}

fn format_address(options: &PgConnectOptions) -> String {
    options
        .get_socket()
        .map_or_else(|| format!("{}:{}", options.get_host(), options.get_port()), |socket| socket.display().to_string())
}

/// Creates a missing file for its owner only, and restricts an existing one that others can read. SQLite applies the
/// mode to its other files.
fn own_file(path: &Path) -> io::Result<()> {
    // The name of a database in memory.
    if path.as_os_str().is_empty() || path.to_string_lossy().starts_with("file:") {
        return Ok(());
    }
    let mut options = std::fs::OpenOptions::new();
    // An existing file is not opened: closing it would release the locks that other connections of this process hold on
    // it.
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    #[cfg(unix)]
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        close_file(Path::new(&name))?;
    }
    Ok(())
}

/// Removes the file's permissions for all but its owner.
#[cfg(unix)]
fn close_file(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;

    match std::fs::metadata(path) {
        Ok(metadata) if metadata.permissions().mode().trailing_zeros() >= 6 => Ok(()),
        Ok(_) => {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
            tracing::warn!(file = %path.display(), "other users of this machine could read the tables; now only their owner can");
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{own_file, prepare, reach};

    #[cfg(unix)]
    #[tokio::test]
    async fn sqlite_files_are_their_owners_alone_from_birth() {
        use std::os::unix::fs::PermissionsExt as _;

        use sea_orm::ConnectionTrait as _;

        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("one.sqlite");
        let db = super::super::Db::connect(&format!("sqlite://{}?mode=rwc", path.display())).await.expect("connected");
        db.writer.execute_unprepared("CREATE TABLE one (n INTEGER)").await.expect("written");
        let mode = |name: &str| {
            let file = dir.path().join(name);
            std::fs::metadata(file).expect("it is there").permissions().mode() & 0o777
        };
        for name in ["one.sqlite", "one.sqlite-wal", "one.sqlite-shm"] {
            assert_eq!(mode(name), 0o600, "{name}");
        }
        db.close().await.expect("closed");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("the file is ours");
        own_file(&path).expect("the file is ours");
        assert_eq!(mode("one.sqlite"), 0o600);
    }

    #[tokio::test]
    async fn sqlite_file_in_a_missing_folder_is_named() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let url = format!("sqlite://{}", dir.path().join("none/one.sqlite").display());
        let refused = prepare(&url).await.expect_err("there is no such folder").to_string();
        assert!(refused.contains("none/one.sqlite") && refused.contains("No such file"), "{refused}");
    }

    #[tokio::test]
    async fn postgres_that_refuses_connections_is_named_with_the_reason() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        drop(listener);
        let options = format!("postgres://u@{address}/x").parse().expect("an address");
        let refused = reach(&options, Duration::from_millis(10)).await.expect_err("nobody listens").to_string();
        assert!(refused.contains(&format!("PostgreSQL at {address}")), "{refused}");
        assert!(refused.contains("refused"), "{refused}");
    }
}
