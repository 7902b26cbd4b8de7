//! The ledger's log, the stored second factors, and conditions that require an operator.

use time::{Duration, OffsetDateTime};

use super::folder::ServerKeys;
use super::report::Examination;
use undertone_server_core::db::Db;
use undertone_server_core::error::Error;
use undertone_server_core::service::alarm::{AlarmCounts, count_alarms};
use undertone_server_core::service::factor::count_locked_out;
use undertone_server_core::service::log::{LogEnd, examine_end};

/// The age above which the newest backup is reported, because a restore would lose this much of the ledger.
pub(super) const BACKUP_AGE: Duration = Duration::days(7);

/// Checks the contents of the tables with the server's keys.
pub(super) async fn check(db: &Db, keys: &ServerKeys, now: OffsetDateTime, report: &mut Examination) {
    if let Some(key) = &keys.signing {
        match examine_end(db, key).await {
            Ok(end) => judge_log(&end, report),
            Err(error) => unreadable("log", error, report),
        }
    }
    if keys.factor.is_some() {
        match count_locked_out(db, keys.factor.as_ref()).await {
            Ok((all, 0)) => report.pass("second factors", format!("factor.key decrypts all {all}")),
            Ok((all, locked)) => report.fail(
                "second factors",
                format!("factor.key decrypts {} of {all}: {locked} members cannot sign in", all - locked),
                "restore the factor.key of this database",
            ),
            Err(error) => unreadable("second factors", error, report),
        }
    }
    match count_alarms(db, now).await {
        Ok(counts) => judge_alarms(&counts, now, report),
        Err(error) => unreadable("alarms", error, report),
    }
}

fn unreadable(check: &'static str, error: Error, report: &mut Examination) {
    report.fail(check, error.into_problem().detail, "check the database's own log");
}

fn judge_log(end: &LogEnd, report: &mut Examination) {
    match end {
        LogEnd::Empty => report.pass("log", "it has not begun"),
        LogEnd::Sound { size, at } => {
            report.pass("log", format!("the newest head covers {size} leaves, signed on {}", at.date()));
        }
        LogEnd::Broken(reason) => {
            let remedy = "stop the server, run `undertone-server verify`, and install the right key or a backup";
            report.fail("log", reason.clone(), remedy);
        }
    }
}

/// Judges the conditions at `now`.
pub(super) fn judge_alarms(counts: &AlarmCounts, now: OffsetDateTime, report: &mut Examination) {
    const CHECK: &str = "alarms";
    if counts.later_heads > 0 {
        let detail =
            format!("{} sites verified a later head than this database has: it is an older copy", counts.later_heads);
        report.fail(CHECK, detail, "stop the server and restore the newest copy; no site releases results to this one");
    }
    if counts.frozen_lineages > 0 {
        let detail = format!("the accounts of {} datasets are frozen after an audit", counts.frozen_lineages);
        report.warn(CHECK, detail, "their stewards find the reason on the dataset's page");
    }
    if counts.late_rounds > 0 {
        let detail = format!("{} rounds are open after their deadline", counts.late_rounds);
        report.warn(CHECK, detail, "the pages of the jobs name the sites that are missing");
    }
    match counts.operators {
        0 => report.warn(CHECK, "there is no operator", "open the link that the server printed at its start"),
        1 => report.warn(CHECK, "there is one operator", "invite another one under *Settings, Accounts and operators*"),
        _ => {}
    }
    match counts.newest_backup {
        Some(at) if now - at <= BACKUP_AGE => {
            report.pass("backup", format!("the newest was made on {}", at.date()));
        }
        Some(at) => report.warn(
            "backup",
            format!("the newest is {} days old", (now - at).whole_days()),
            "run `undertone-server backup` every day",
        ),
        None => report.warn("backup", "no backup exists", "run `undertone-server backup` every day"),
    }
    if counts.later_heads == 0 {
        report.pass(CHECK, "no site has a later head");
    }
}
