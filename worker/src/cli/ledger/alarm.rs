//! `ledger alarm`: shows contradictions in the server's log, and records a steward's decision to resume releases.

use std::io::Write;

use clap::Subcommand;
use time::OffsetDateTime;

use crate::cli::CommandFailure;
use crate::site::folder::Folder;
use crate::site::store::Store;
use crate::site::witness::alarm::{self, ServerAlarm};

pub(super) use crate::site::witness::alarm::open;

/// Show and clear alarms about the server's log.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum AlarmAction {
    /// Show every alarm with its evidence.
    Show,
    /// Resume releases: this site accepts the server's present log, and requires a new proof for every receipt. The alarm and
    /// its evidence are kept.
    Clear {
        /// The cause, and the person who vouches for it; stored with the alarm.
        #[arg(long)]
        reason: String,
    },
}

pub(super) fn run(
    folder: &Folder,
    action: &AlarmAction,
    now: OffsetDateTime,
    out: &mut dyn Write,
) -> Result<(), CommandFailure> {
    let store = Store::open(&folder.ledger())?;
    match action {
        AlarmAction::Show => show(&store, out),
        AlarmAction::Clear { reason } => clear(&store, reason, now, out),
    }
}

/// Describes an open alarm, with the remedy.
pub(super) fn describe(open: &ServerAlarm) -> String {
    format!(
        "Alarm {} is open since {}: {}. Nothing leaves this site. Run `ledger alarm show`, ask the server's operator for the cause, then run `ledger alarm clear --reason ...`",
        open.id, open.at, open.problem
    )
}

fn show(store: &Store, out: &mut dyn Write) -> Result<(), CommandFailure> {
    let all = store.read(alarm::all)?;
    if all.is_empty() {
        writeln!(out, "The server's log has never contradicted this site's records.")?;
    }
    for alarm in all {
        writeln!(out, "Alarm {}, {}: {}", alarm.id, alarm.at, alarm.problem)?;
        match &alarm.cleared {
            None => writeln!(out, "Open: nothing leaves this site.")?,
            Some(cleared) => writeln!(out, "Cleared {}: {}", cleared.at, cleared.reason)?,
        }
        let evidence: serde_json::Value = serde_json::from_str(&alarm.evidence)?;
        writeln!(out, "{}\n", serde_json::to_string_pretty(&evidence)?)?;
    }
    Ok(())
}

fn clear(store: &Store, reason: &str, now: OffsetDateTime, out: &mut dyn Write) -> Result<(), CommandFailure> {
    let reason = reason.trim();
    if !(1..=1000).contains(&reason.chars().count()) {
        return Err("--reason: 1 to 1,000 characters: the cause, and the person who vouches for it".into());
    }
    match alarm::clear(store, reason, now)? {
        0 => Err("no alarm is open".into()),
        _ => Ok(writeln!(
            out,
            "Releases can continue. The server must prove again that its log contains every receipt."
        )?),
    }
}
