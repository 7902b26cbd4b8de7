//! The gate: asked before every vector, every pool of questions and every batch of sounds, it gives the clearance without which nothing can be sent.
//!
//! It asks the policy file, as it stands now, and then the ledger, which pays. Public data need no payment, open data are
//! recorded as released in the clear, all else is charged.

use time::OffsetDateTime;
use undertone_api::dataset::Visibility;

use super::admission::Examined;
use super::clearance::{Clearance, Published};
use super::ledger::{Ledger, LedgerError};
use super::policy::{PolicyRefusal, Rules, is_exact, word};

/// Why nothing may leave.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// The job has no such round.
    #[error("the job has no round {round} of `{series}`")]
    NoRound {
        /// The series.
        series: String,
        /// The round.
        round: u32,
    },
    /// Too late.
    #[error("the job's manifest held until {0}: nothing leaves under it any more")]
    Expired(OffsetDateTime),
    /// The policy says otherwise than when the job was admitted.
    #[error("this site's policy now says that the dataset is {now}, and the job was admitted when it was {before}")]
    Visibility {
        /// What it says.
        now: &'static str,
        /// What it said.
        before: &'static str,
    },
    /// Nothing of the dataset leaves in this series.
    #[error("the job charges nothing for this dataset in `{0}`, so nothing of it may leave there")]
    NotCharged(String),
    /// The policy refuses.
    #[error(transparent)]
    Policy(#[from] PolicyRefusal),
    /// The ledger refuses, or fails.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// Why there is no word for public data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "this site's policy says that the dataset is {0}: only public data can be rehearsed with, at no cost to anybody"
)]
pub struct NotPublic(pub &'static str);

/// The site's word that a dataset is public, for a rehearsal that sends nothing.
///
/// # Errors
/// [`NotPublic`] when the policy says otherwise.
pub fn published(rules: &Rules) -> Result<Published, NotPublic> {
    if rules.visibility == Visibility::Public { Ok(Published::new()) } else { Err(NotPublic(word(rules.visibility))) }
}

/// A clearance, and the number of the receipt that was written for it.
#[derive(Debug)]
pub struct Cleared {
    /// To be used up by making the vector.
    pub clearance: Clearance,
    /// The receipt; `None` for public data.
    pub receipt: Option<u64>,
}

/// Asks for permission to send one vector, or one pool, at `now`.
///
/// # Errors
/// [`GateError`] when policy or ledger say no; nothing was charged then.
pub fn clear(
    ledger: &Ledger,
    rules: &Rules,
    examined: &Examined,
    series: &str,
    round: u32,
    now: OffsetDateTime,
) -> Result<Cleared, GateError> {
    if !examined.rounds(series).is_some_and(|rounds| (1..=rounds).contains(&round)) {
        return Err(GateError::NoRound { series: series.to_owned(), round });
    }
    ledger.is_quiet()?;
    if let Some(until) = examined.not_after().filter(|until| *until < now) {
        return Err(GateError::Expired(until));
    }
    let before = examined.local.visibility;
    if rules.visibility != before {
        return Err(GateError::Visibility { now: word(rules.visibility), before: word(before) });
    }
    rules.judge(&examined.manifest.spec, examined.charge.as_ref())?;
    if before == Visibility::Public {
        return Ok(Cleared { clearance: Clearance::Public(Published::new()), receipt: None });
    }
    let (Some(under), Some(event)) = (examined.under(), examined.release(series)) else {
        return Err(GateError::NotCharged(series.to_owned()));
    };
    // A pool is one release, and so is a batch for others than the server, and its job reserved one: what a crash left paid and
    // unused pays for it.
    let left = if examined.pays_once(series) { ledger.unspent(&under, &event, series, round)? } else { None };
    let paid = match left {
        Some(paid) => paid,
        None if is_exact(&event) => ledger.publish(&under, before, &event, series, round)?,
        None => ledger.commit(&under, &event, series, round)?,
    };
    Ok(Cleared { clearance: Clearance::Paid(paid.spent), receipt: Some(paid.receipt) })
}
