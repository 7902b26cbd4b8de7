//! The accounts that a job charges: that of its protected unit, and that of every other limited unit of the lineage.
//!
//! Each limit bounds the releases of all jobs about its unit (`privacy.md`, 14.1), so a job is charged to all of them
//! or is refused. The charges of the other accounts follow from the charge in the manifest alone.

use sea_orm::ConnectionTrait;
use undertone_api::budget::BudgetRefusal;

use super::request::ChargeRequest;
use super::{account, figures};
use crate::error::Error;

/// The request of a job to one account.
#[derive(Debug, Clone)]
pub(super) struct AccountCharge {
    /// The charge, converted to this account's unit.
    pub(super) ask: ChargeRequest,
    /// Whether the account is that of the protected unit.
    pub(super) own: bool,
}

/// Returns the accounts that `asks` charge, and the refusals of the limits at which a job has no price.
pub(super) async fn accounts(
    connection: &impl ConnectionTrait,
    asks: &[ChargeRequest],
) -> Result<(Vec<AccountCharge>, Vec<BudgetRefusal>), Error> {
    let lineages = asks.iter().map(|ask| ask.lineage.0).collect();
    let limited = account::limited_of(connection, lineages).await?;
    let (mut charged, mut refusals) = (Vec::new(), Vec::new());
    for ask in asks {
        charged.push(AccountCharge { ask: ask.clone(), own: true });
        if ask.charge.is_in_the_clear() {
            continue;
        }
        for (unit, balance) in limited.get(&(ask.organization, ask.lineage)).into_iter().flatten() {
            if *unit == ask.charge.unit {
                continue;
            }
            match ask.charge.for_unit(*unit) {
                Ok(charge) => charged.push(AccountCharge { ask: ChargeRequest { charge, ..ask.clone() }, own: false }),
                Err(error) => {
                    refusals.push(figures::unpriced(balance, ask, *unit, ask.charge.explain_refusal(*unit, error)));
                }
            }
        }
    }
    Ok((charged, refusals))
}
