//! The gate of every vector, every pool of questions and every batch of sounds. [`clear`] returns the clearance that
//! making a release requires. [`pay`] charges the stored release; without it nothing can be sent.
//!
//! Both consult the current policy file and the ledger. Public data need no payment, open data are recorded as released
//! without noise, all other releases are charged.

use time::OffsetDateTime;
use undertone_api::dataset::Visibility;
use undertone_privacy::Event;

use super::admission::ExaminedManifest;
use super::clearance::{Clearance, PublicProof, ReleaseGrant};
use super::ledger::Ledger;
use super::ledger::error::LedgerError;
use super::ledger::release_context::ReleaseContext;
use super::outbox::StoredRelease;
use super::policy::{DatasetRules, PolicyRefusal, is_exact, word};

/// Reasons why nothing may leave.
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
    /// The manifest has expired.
    #[error("the job's manifest held until {0}: nothing leaves under it any more")]
    Expired(OffsetDateTime),
    /// The policy has changed since the job was admitted.
    #[error("this site's policy now says that the dataset is {now}, and the job was admitted when it was {before}")]
    Visibility {
        /// The visibility now.
        now: &'static str,
        /// The visibility at admission.
        before: &'static str,
    },
    /// The series has no release of the dataset.
    #[error("the job charges nothing for this dataset in `{0}`, so nothing of it may leave there")]
    NotCharged(String),
    /// The policy refuses.
    #[error(transparent)]
    Policy(#[from] PolicyRefusal),
    /// The ledger refuses, or failed.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// The error when a dataset is not public.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "this site's policy says that the dataset is {0}: only public data can be rehearsed with, at no cost to anybody"
)]
pub struct NotPublic(pub &'static str);

/// Returns the proof that a dataset is public, for a rehearsal that sends nothing.
///
/// # Errors
/// [`NotPublic`] when the policy has another visibility.
pub fn prove_public(rules: &DatasetRules) -> Result<PublicProof, NotPublic> {
    if rules.visibility == Visibility::Public { Ok(PublicProof::new()) } else { Err(NotPublic(word(rules.visibility))) }
}

/// Requests the clearance for one vector, pool or batch, at `now`. Nothing is charged.
///
/// # Errors
/// [`GateError`] when policy or ledger refuse.
pub fn clear(
    ledger: &Ledger,
    rules: &DatasetRules,
    examined: &ExaminedManifest,
    series: &str,
    round: u32,
    now: OffsetDateTime,
) -> Result<Clearance, GateError> {
    let Some((under, event)) = admit(ledger, rules, examined, series, round, now)? else {
        return Ok(Clearance::Public(PublicProof::new()));
    };
    if !is_exact(&event) {
        ledger.check_release(&under, &event)?;
    }
    Ok(Clearance::Granted(ReleaseGrant::new(event)))
}

/// Pays for a stored release at `now`, and records the reference to its bytes. Returns the number of the receipt,
/// `None` for public data. Everything is on disk when this returns.
///
/// # Errors
/// [`GateError`] when policy or ledger refuse. In that case nothing was charged.
pub fn pay(
    ledger: &Ledger,
    rules: &DatasetRules,
    examined: &ExaminedManifest,
    release: &StoredRelease,
    now: OffsetDateTime,
) -> Result<Option<u64>, GateError> {
    let Some((under, event)) = admit(ledger, rules, examined, release.series(), release.round(), now)? else {
        ledger.refer_public(release)?;
        return Ok(None);
    };
    let payment = if is_exact(&event) {
        ledger.publish(&under, rules.visibility, &event, release)?
    } else {
        ledger.commit(&under, &event, release)?
    };
    Ok(Some(payment.receipt))
}

/// Returns the charge of one release in a round, by all rules except those of the ledger's books; `None` for public
/// data.
fn admit(
    ledger: &Ledger,
    rules: &DatasetRules,
    examined: &ExaminedManifest,
    series: &str,
    round: u32,
    now: OffsetDateTime,
) -> Result<Option<(ReleaseContext, Event)>, GateError> {
    if !examined.rounds(series).is_some_and(|rounds| (1..=rounds).contains(&round)) {
        return Err(GateError::NoRound { series: series.to_owned(), round });
    }
    ledger.check_quiet()?;
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
    match (examined.release_context(), examined.release(series)) {
        (Some(under), Some(event)) => Ok(Some((under, event))),
        _ => Err(GateError::NotCharged(series.to_owned())),
    }
}
