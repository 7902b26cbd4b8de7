//! Notifications about the progress of jobs.

use undertone_api::job::JobState;

use super::notice::{MemberNotice, tell};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::job;
use crate::model::participant::ApprovalState;
use crate::rule::job::load_participants;
use crate::service::ledger::account::limited;

/// The spent and reserved fraction of a budget from which on it is almost used up.
const NEARLY_USED: f64 = 0.9;

/// Notifies the stewards whose answer a job needs.
///
/// # Errors
/// When the database fails.
pub(crate) async fn proposed(ctx: &Ctx, tx: &Tx, job: &job::Model) -> Result<(), Error> {
    for part in load_participants(tx, job.id.into()).await? {
        if part.approval == ApprovalState::Pending {
            tell(ctx, tx, MemberNotice::JobWaits { job, part: &part }).await?;
        }
    }
    Ok(())
}

/// Notifies about the end of a job.
///
/// # Errors
/// When the database fails.
pub(crate) async fn ended(ctx: &Ctx, tx: &Tx, job: &job::Model, how: JobState) -> Result<(), Error> {
    let parts = load_participants(tx, job.id.into()).await?;
    tell(ctx, tx, MemberNotice::JobOver { job, parts: &parts, state: how }).await
}

/// Notifies the stewards of budgets that a job's reservation almost uses up.
///
/// # Errors
/// When the database fails.
pub(crate) async fn reserved(ctx: &Ctx, tx: &Tx, job: &job::Model) -> Result<(), Error> {
    for part in load_participants(tx, job.id.into()).await? {
        let Some(charge) = part.charge.as_deref() else { continue };
        if charge.is_in_the_clear() {
            continue;
        }
        // The job was charged to every limited unit.
        for (unit, balance) in limited(tx, part.organization_id.into(), part.lineage_id.into()).await? {
            let used = balance.summary().committed_fraction;
            if used >= NEARLY_USED {
                tell(ctx, tx, MemberNotice::BudgetLow { job, part: &part, unit, left: 1.0 - used }).await?;
            }
        }
    }
    Ok(())
}

/// Notifies about a job's certificate.
///
/// # Errors
/// When the database fails.
pub(crate) async fn certified(ctx: &Ctx, tx: &Tx, job: &job::Model) -> Result<(), Error> {
    let parts = load_participants(tx, job.id.into()).await?;
    tell(ctx, tx, MemberNotice::CertificateReady { job, parts: &parts }).await
}
