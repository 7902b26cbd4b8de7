//! `ledger alarm`: shows contradictions in the server's log, and records a steward's decision to resume releases.

use std::io::Write;

use clap::Subcommand;
use time::OffsetDateTime;

use crate::cli::Failure;
use crate::site::folder::Folder;
use crate::site::store::Store;
use crate::site::witness::alarm::{self, ServerAlarm};

pub(super) use crate::site::witness::alarm::open;

/// What the server's log contradicts.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Action {
    /// Show every alarm with the documents that raised it.
    Show,
    /// Let releases go on: the server's log is believed as it is from now on, and every receipt has to be proved to be in it
    /// again. The alarm and its documents are kept.
    Clear {
        /// What happened, and who vouches for it; kept with the alarm.
        #[arg(long)]
        reason: String,
    },
}

pub(super) fn run(folder: &Folder, action: &Action, now: OffsetDateTime, out: &mut dyn Write) -> Result<(), Failure> {
    let store = Store::open(&folder.ledger())?;
    match action {
        Action::Show => show(&store, out),
        Action::Clear { reason } => clear(&store, reason, now, out),
    }
}

/// Describes an open alarm, with the remedy.
pub(super) fn words(open: &ServerAlarm) -> String {
    format!(
        "Alarm {} is open since {}: {}. Nothing leaves this site. Read `ledger alarm show`, ask the server's operator what happened, then `ledger alarm clear --reason ...`",
        open.id, open.at, open.problem
    )
}

fn show(store: &Store, out: &mut dyn Write) -> Result<(), Failure> {
    let all = store.read(alarm::all)?;
    if all.is_empty() {
        writeln!(out, "The server's log never contradicted anything that this site holds.")?;
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

fn clear(store: &Store, reason: &str, now: OffsetDateTime, out: &mut dyn Write) -> Result<(), Failure> {
    let reason = reason.trim();
    if !(1..=1000).contains(&reason.chars().count()) {
        return Err("--reason: 1 to 1,000 characters: what happened, and who vouches for it".into());
    }
    match alarm::clear(store, reason, now)? {
        0 => Err("no alarm is open".into()),
        _ => Ok(writeln!(out, "Releases may go on. Every receipt will be proved to be in the server's log again.")?),
    }
}
