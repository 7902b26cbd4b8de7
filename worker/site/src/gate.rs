//! The gate: asked before every vector, every pool of questions and every batch of sounds. [`clear`] gives the clearance without which
//! nothing can be made, and [`pay`] charges what was made and stored, without which nothing can be sent.
//!
//! Both ask the policy file, as it stands then, and the ledger. Public data need no payment, open data are recorded as released in
//! the clear, all else is charged.

use time::OffsetDateTime;
use undertone_api::dataset::Visibility;
use undertone_privacy::Event;

use super::admission::Examined;
use super::clearance::{Clearance, Published, ReleaseGrant};
use super::ledger::{Ledger, LedgerError, Under};
use super::outbox::StoredRelease;
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

/// Asks for permission to make one vector, one pool or one batch, at `now`. Nothing is charged.
///
/// # Errors
/// [`GateError`] when policy or ledger say no.
pub fn clear(
    ledger: &Ledger,
    rules: &Rules,
    examined: &Examined,
    series: &str,
    round: u32,
    now: OffsetDateTime,
) -> Result<Clearance, GateError> {
    let Some((under, event)) = admit(ledger, rules, examined, series, round, now)? else {
        return Ok(Clearance::Public(Published::new()));
    };
    if !is_exact(&event) {
        ledger.check_release(&under, &event)?;
    }
    Ok(Clearance::Granted(ReleaseGrant::new(event)))
}

/// Pays for a release that was made and stored, at `now`, and refers to its bytes. Gives the number of the receipt, `None` for
/// public data; all of it is on disk when this returns.
///
/// # Errors
/// [`GateError`] when policy or ledger say no; nothing was charged then.
pub fn pay(
    ledger: &Ledger,
    rules: &Rules,
    examined: &Examined,
    release: &StoredRelease,
    now: OffsetDateTime,
) -> Result<Option<u64>, GateError> {
    let Some((under, event)) = admit(ledger, rules, examined, release.series(), release.round(), now)? else {
        ledger.refer_public(release)?;
        return Ok(None);
    };
    let paid = if is_exact(&event) {
        ledger.publish(&under, rules.visibility, &event, release)?
    } else {
        ledger.commit(&under, &event, release)?
    };
    Ok(Some(paid.receipt))
}

/// What one release in a round must be charged, by everything but the ledger's books; `None` for public data.
fn admit(
    ledger: &Ledger,
    rules: &Rules,
    examined: &Examined,
    series: &str,
    round: u32,
    now: OffsetDateTime,
) -> Result<Option<(Under, Event)>, GateError> {
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
        return Ok(None);
    }
    match (examined.under(), examined.release(series)) {
        (Some(under), Some(event)) => Ok(Some((under, event))),
        _ => Err(GateError::NotCharged(series.to_owned())),
    }
}
