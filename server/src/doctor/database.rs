//! The database: availability, the version of its tables, its clock and connections, and the writer's turn.

use std::time::{Duration, Instant};

use time::OffsetDateTime;
use tokio::time::timeout;

use super::PATIENCE;
use super::report::Examination;
use undertone_server_core::config::Config;
use undertone_server_core::ctx::Clock;
use undertone_server_core::db::{CONCURRENT_WRITERS, Db, READERS, ServerFacts, connect_to_examine, probe_turn};

/// The wait for the writer's turn above which members and workers notice it.
pub(super) const SLOW_TURN: Duration = Duration::from_secs(1);
/// The tolerated difference between the clocks of server and database, seconds: tokens and leases last minutes.
pub(super) const SKEW: i64 = 2;
/// The difference above which deadlines and leases are wrong, seconds.
pub(super) const FAR: i64 = 30;
/// The age above which an open transaction prevents PostgreSQL from cleaning its tables.
const OLD_TRANSACTION: Duration = Duration::from_mins(10);
/// Connections of one server: one for the writer, the others for concurrent writes and for reading.
const CONNECTIONS: u64 = 1 + (CONCURRENT_WRITERS + READERS) as u64;

/// A database that answers.
pub(super) struct Tables {
    /// The connection, for reading.
    pub(super) db: Db,
    /// Whether a server has created its tables here.
    pub(super) has_begun: bool,
    /// Whether the tables match this program.
    pub(super) is_current: bool,
}

/// Checks the database; returns it if it answers.
pub(super) async fn check(config: &Config, clock: &Clock, report: &mut Examination) -> Option<Tables> {
    const CHECK: &str = "database";
    let url = config.database();
    let begun = Instant::now();
    let db = match timeout(PATIENCE * 2, connect_to_examine(&url, PATIENCE)).await {
        Ok(Ok(db)) => db,
        Ok(Err(error)) => {
            if let Some(file) = undertone_server_core::db::sqlite_file(&url).filter(|file| !file.exists()) {
                let remedy = "start the server, which makes it, or correct `database_url` or `data_dir`";
                report.warn(CHECK, format!("the SQLite file {} is not there yet", file.display()), remedy);
            } else {
                report.fail(CHECK, error.to_string(), "start the database, or correct `database_url`");
            }
            return None;
        }
        Err(_) => {
            report.fail(CHECK, "it does not answer in time", "look at the database and the network before it");
            return None;
        }
    };
    let has_begun = match timeout(PATIENCE, db.has_begun()).await {
        Ok(Ok(has_begun)) => has_begun,
        Ok(Err(error)) => {
            report.fail(CHECK, error.to_string(), "look at the database's own log");
            return None;
        }
        Err(_) => {
            report.fail(CHECK, "it does not answer in time", "look at the load of the database");
            return None;
        }
    };
    check_facts(&db, begun, clock, report).await;
    let is_current = has_begun && check_migrations(&db, report).await;
    if has_begun {
        check_turn(&url, report).await;
    } else {
        report.warn(CHECK, "it has no tables yet", "start the server, which makes them");
    }
    Some(Tables { db, has_begun, is_current })
}

async fn check_facts(db: &Db, begun: Instant, clock: &Clock, report: &mut Examination) {
    let facts = match timeout(PATIENCE, db.facts()).await {
        Ok(Ok(facts)) => facts,
        Ok(Err(error)) => {
            return report.warn(
                "database",
                error.to_string(),
                "let the server's role read pg_stat_activity and pg_locks",
            );
        }
        Err(_) => return report.fail("database", "it does not answer in time", "look at the load of the database"),
    };
    let took = begun.elapsed().as_millis();
    report.pass("database", format!("{}, {} MiB, answers after {took} ms", facts.version, facts.bytes >> 20));
    match &facts.server {
        Some(server) => {
            judge_skew(clock.now(), server.now, report);
            judge_server(server, report);
        }
        None => report.pass("clock", "the database has this machine's"),
    }
}

/// Judges the difference between the clocks of this machine and of the database.
pub(super) fn judge_skew(own: OffsetDateTime, other: OffsetDateTime, report: &mut Examination) {
    const CHECK: &str = "clock";
    let seconds = (own - other).whole_seconds();
    let detail = match seconds {
        0 => "agrees with the database's to the second".to_owned(),
        1.. => format!("{seconds} s ahead of the database's"),
        _ => format!("{} s behind the database's", -seconds),
    };
    let remedy = "set both clocks by NTP (`timedatectl set-ntp true`)";
    match seconds.abs() {
        0..=SKEW => report.pass(CHECK, detail),
        seconds if seconds <= FAR => report.warn(CHECK, detail, remedy),
        _ => report.fail(CHECK, detail, remedy),
    }
}

/// Judges connections, locks and transactions of PostgreSQL.
pub(super) fn judge_server(server: &ServerFacts, report: &mut Examination) {
    let ServerFacts { used_connections: used, most_connections: most, waiting_writers, oldest_transaction, .. } =
        *server;
    let detail = format!("{used} of {most} connections are in use; a server needs {CONNECTIONS}");
    if most.saturating_sub(used) < CONNECTIONS {
        report.warn("connections", detail, "raise max_connections of PostgreSQL, or end clients that are not needed");
    } else {
        report.pass("connections", detail);
    }
    let detail = format!(
        "{waiting_writers} writers wait for their turn; the oldest transaction is {} s old",
        oldest_transaction.as_secs()
    );
    if oldest_transaction > OLD_TRANSACTION {
        let remedy = "find it in pg_stat_activity by xact_start; an export or a forgotten session keeps tables from being cleaned";
        report.warn("locks", detail, remedy);
    } else {
        report.pass("locks", detail);
    }
}

/// Compares the tables with those of this program; returns whether they match.
async fn check_migrations(db: &Db, report: &mut Examination) -> bool {
    match timeout(PATIENCE, db.migrations()).await {
        Ok(Ok(applied)) => judge_migrations(&applied, &Db::list_migrations(), report),
        Ok(Err(error)) => {
            report.fail("migrations", error.to_string(), "look at the database's own log");
            false
        }
        Err(_) => {
            report.fail("migrations", "the database does not answer in time", "look at the load of the database");
            false
        }
    }
}

/// Compares the migrations of the database with those of this program; returns whether they match.
pub(super) fn judge_migrations(applied: &[String], known: &[String], report: &mut Examination) -> bool {
    const CHECK: &str = "migrations";
    let unknown: Vec<&str> = applied.iter().filter(|one| !known.contains(one)).map(String::as_str).collect();
    let waiting: Vec<&str> = known.iter().filter(|one| !applied.contains(one)).map(String::as_str).collect();
    if let Some(newest) = unknown.last() {
        let detail = format!("the tables are of a later program: it does not know {newest}");
        report.warn(CHECK, detail, "use the program that made them; one version before works until it is replaced");
    }
    if let Some(first) = waiting.first() {
        let detail = format!("{} wait, the first is {first}", waiting.len());
        report.warn(CHECK, detail, "make a backup, then start the server or run `undertone-server migrate`");
    }
    let is_current = unknown.is_empty() && waiting.is_empty();
    if is_current {
        report.pass(CHECK, format!("{} applied, none waits", applied.len()));
    }
    is_current
}

async fn check_turn(url: &str, report: &mut Examination) {
    match timeout(PATIENCE * 2, probe_turn(url, PATIENCE)).await {
        Ok(Ok(waited)) => judge_turn(waited, report),
        Ok(Err(error)) => {
            let remedy = "look for a long transaction (undertone_transaction_duration_seconds, pg_stat_activity), and at the disk";
            report.fail("writer", format!("the writer's turn does not come: {error}"), remedy);
        }
        Err(_) => report.fail("writer", "the writer's turn does not come in time", "look at the load of the database"),
    }
}

/// Judges the time that a writer waited for its turn.
pub(super) fn judge_turn(waited: Duration, report: &mut Examination) {
    let detail = format!("a writer waits {} ms for its turn", waited.as_millis());
    if waited > SLOW_TURN {
        report.warn("writer", detail, "find the transaction that takes long by undertone_transaction_duration_seconds");
    } else {
        report.pass("writer", detail);
    }
}
