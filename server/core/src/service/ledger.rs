//! The consortium's ledger: reserve, commit and settle, over all accounts of a job; and the proof that the balances
//! follow from the rows.
//!
//! Rows contain events with exact parameters; every price is computed here, and none is taken from a caller. Exact
//! releases, which the owner of a dataset permitted, are recorded too, but outside the finite balance: a sum cannot
//! contain infinity. A job is charged to every limited unit of a dataset's lineage, or refused (`charged.rs`).
//! Functions that write take the caller's transaction, so that a charge and the release that it pays for commit
//! together.

pub mod account;
#[cfg(feature = "bench")]
pub mod bench;
mod chain;
mod charged;
pub(crate) mod charges;
mod explain;
mod figures;
pub mod frozen;
mod histories;
mod history;
mod newest;
mod promises;
mod read;
mod rebuild;
mod request;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use sea_orm::{
    ActiveModelTrait as _, ColumnTrait as _, ConnectionTrait, EntityTrait as _, IntoActiveModel as _, QueryFilter as _,
};
use undertone_api::budget::{BudgetRefusal, EntryKind};
use undertone_api::log::LogLeaf;
use undertone_api::plan::AccountKey;
use undertone_api::signed::Receipt;
use undertone_privacy::Event;
use undertone_privacy::ledger::{Balance, LedgerError, Reservation, ReservationId};
use uuid::Uuid;

use self::account::{NewEntry, OpenAccount};
use self::charged::AccountCharge;
use self::charges::OpenCharges;
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::column::to_json;
use crate::model::{self as entity, reservation};
use crate::service::log;

pub use explain::explain;
pub use figures::MOST_QUESTIONS;
pub(crate) use figures::{epsilon_alone, epsilon_together};
pub use histories::histories;
pub use history::history;
pub use newest::{NewestEntries, newest};
pub(crate) use promises::promises;
pub use read::{entries, search};
pub use rebuild::{RebuiltAccount, rebuild};
pub use request::ChargeRequest;

/// A commit that a receipt proves.
#[derive(Debug, Clone)]
pub struct ProvenRelease<'a> {
    /// The job.
    pub job: Uuid,
    /// The dataset.
    pub dataset: Uuid,
    /// The series of releases.
    pub series: &'a str,
    /// The round, from 1.
    pub round: u32,
    /// The attempt within the round, from 1.
    pub attempt: u32,
    /// The event as the site signed it.
    pub event: &'a Event,
    /// Digest of the receipt.
    pub receipt: &'a str,
}

impl<'a> ProvenRelease<'a> {
    /// Returns the release that a receipt with this digest is for.
    pub(crate) fn from_receipt(receipt: &'a Receipt, digest: &'a str) -> Self {
        Self {
            job: receipt.job.0,
            dataset: receipt.dataset.0,
            series: &receipt.series,
            round: receipt.round,
            attempt: receipt.attempt,
            event: &receipt.event,
            receipt: digest,
        }
    }
}

/// Returns the refusals that [`reserve`] would return now, without a change; empty when all accounts admit the job.
///
/// # Errors
/// `account_frozen` when an audit has frozen one of the lineages.
pub async fn check(connection: &impl ConnectionTrait, asks: &[ChargeRequest]) -> Result<Vec<BudgetRefusal>, Error> {
    frozen::refuse_frozen(connection, asks).await?;
    let (charged, mut refusals) = charged::accounts(connection, asks).await?;
    let asks = || charged.iter().map(|charged| &charged.ask).filter(|ask| !ask.charge.is_in_the_clear());
    let mut balances = account::balances(connection, &asks().map(ChargeRequest::key).collect()).await?;
    for ask in asks() {
        let balance = balances.entry(ask.key()).or_insert_with(|| Balance::new(None));
        let cost = match figures::price_question(balance, &ask.charge).await? {
            Ok(cost) => cost,
            Err(reason) => {
                refusals.push(figures::unpriced(balance, ask, ask.charge.unit, reason));
                continue;
            }
        };
        match balance.reserve_job(ReservationId(0), &cost, ask.charge.releases) {
            Ok(_) => {}
            Err(LedgerError::Refused(refused)) => {
                refusals.push(figures::whole_refusal(balance, &refused, ask).await?);
            }
            Err(error) => return Err(Error::internal("keeping an account", error)),
        }
    }
    Ok(refusals)
}

/// Reserves all requests of a job, or none. Returns the refusals, empty when all is reserved.
///
/// # Errors
/// `account_frozen` when an audit has frozen one of the lineages.
pub async fn reserve(ctx: &Ctx, tx: &Tx, job: Uuid, asks: &[ChargeRequest]) -> Result<Vec<BudgetRefusal>, Error> {
    frozen::refuse_frozen(tx, asks).await?;
    let (charged, mut refusals) = charged::accounts(tx, asks).await?;
    let mut accounts: BTreeMap<AccountKey, OpenAccount> = BTreeMap::new();
    for key in charged.iter().map(|charged| charged.ask.key()).collect::<std::collections::BTreeSet<_>>() {
        accounts.insert(key, account::open(ctx, tx, key).await?);
    }
    let mut reserved = Vec::new();
    for AccountCharge { ask, own } in &charged {
        let Some(account) = accounts.get_mut(&ask.key()) else { continue };
        let id = ctx.id::<Uuid>();
        let in_the_clear = ask.charge.is_in_the_clear();
        let cost = match figures::price(&account.balance, &ask.charge).await? {
            Ok(cost) => cost,
            Err(reason) => {
                refusals.push(figures::unpriced(&account.balance, ask, ask.charge.unit, reason));
                continue;
            }
        };
        if !in_the_clear {
            match account.balance.reserve_job(ReservationId(id.as_u128()), &cost, ask.charge.releases) {
                Ok(_) => {}
                Err(LedgerError::Refused(refused)) => {
                    refusals.push(figures::whole_refusal(&account.balance, &refused, ask).await?);
                    continue;
                }
                Err(error) => return Err(Error::internal("keeping an account", error)),
            }
        }
        let certificate = if in_the_clear { None } else { cost.certificate(ask.charge.releases) };
        reserved.push((
            ask.key(),
            certificate.as_ref().map(to_json).transpose()?,
            reservation::Model {
                id,
                account_id: account.id(),
                job_id: job,
                dataset_id: ask.dataset.0,
                event: to_json(&ask.charge.event)?,
                per_release: to_json(cost.cost())?,
                in_the_clear,
                releases: i64::try_from(ask.charge.releases)
                    .map_err(|error| Error::internal("storing a count", error))?,
                committed: 0,
                settled: false,
                own: *own,
            },
        ));
    }
    if !refusals.is_empty() {
        return Ok(refusals);
    }
    let mut leaves = Vec::new();
    for account in accounts.values_mut() {
        leaves.extend(account.begin(tx).await?);
    }
    for (key, certificate, row) in reserved {
        let Some(account) = accounts.get_mut(&key) else { continue };
        let line = NewEntry {
            kind: EntryKind::Reserve,
            job,
            dataset: row.dataset_id,
            release: None,
            event: &row.event.clone(),
            count: row.releases as u64,
            receipt: None,
            certificate,
        };
        row.into_active_model().insert(tx).await?;
        leaves.push(account.append(tx, ctx.now(), line).await?);
    }
    for account in accounts.into_values() {
        account.save(tx).await?;
    }
    log::append(ctx, tx, &leaves).await?;
    Ok(refusals)
}

/// Moves one release from reserved to spent. Returns the position of its row in the log.
///
/// # Errors
/// `wrong_state` when the reservation is settled, `budget_exceeded` when all of it is spent: the release is not
/// counted, and the submission that it should pay for must not be accepted.
pub async fn commit(ctx: &Ctx, tx: &Tx, release: &ProvenRelease<'_>) -> Result<u64, Error> {
    let mut charges = OpenCharges::load(tx, [(release.job, release.dataset)]).await?;
    charges.commit(ctx.now(), std::slice::from_ref(release))?;
    // The release's own row is the first.
    charges.save(ctx, tx).await
}

/// Returns the unused part of a dataset's reservations in a job to the accounts, and closes them. Settling again
/// returns nothing.
///
/// # Errors
/// When the database fails, or a stored value cannot be read.
pub(crate) async fn settle(ctx: &Ctx, tx: &Tx, job: Uuid, dataset: Uuid) -> Result<(), Error> {
    let mut leaves = Vec::new();
    for (row, account) in account::reserved(tx, job, dataset).await? {
        if !row.settled {
            leaves.push(settle_one(ctx, tx, row, account).await?);
        }
    }
    if !leaves.is_empty() {
        log::append(ctx, tx, &leaves).await?;
    }
    Ok(())
}

async fn settle_one(ctx: &Ctx, tx: &Tx, row: reservation::Model, mut account: OpenAccount) -> Result<LogLeaf, Error> {
    let open = if row.in_the_clear {
        row.releases.saturating_sub(row.committed).max(0) as u64
    } else {
        let mut part = part(&row, 0)?;
        account.balance.settle(&mut part).map_err(|error| Error::internal("keeping an account", error))?
    };
    let line = NewEntry {
        kind: EntryKind::Settle,
        job: row.job_id,
        dataset: row.dataset_id,
        release: None,
        event: &row.event.clone(),
        count: open,
        receipt: None,
        certificate: None,
    };
    let leaf = account.append(tx, ctx.now(), line).await?;
    account.save(tx).await?;
    reservation::Model { settled: true, ..row }.into_active_model().reset_all().update(tx).await?;
    Ok(leaf)
}

/// Returns the reservation of a dataset in a job on the account of the unit that the job protects.
///
/// # Errors
/// When the database fails, or a stored value cannot be read.
pub async fn find_reservation(
    connection: &impl ConnectionTrait,
    job: Uuid,
    dataset: Uuid,
) -> Result<Option<reservation::Model>, Error> {
    Ok(reservation::Entity::find()
        .filter(reservation::Column::JobId.eq(job))
        .filter(reservation::Column::DatasetId.eq(dataset))
        .filter(reservation::Column::Own.eq(true))
        .one(connection)
        .await?)
}

/// Returns the reservations of a dataset in a job on the accounts of all units except the protected one, with these
/// accounts.
///
/// # Errors
/// When the database fails, or a stored value cannot be read.
pub(crate) async fn find_other_reservations(
    connection: &impl ConnectionTrait,
    job: Uuid,
    dataset: Uuid,
) -> Result<Vec<(reservation::Model, entity::account::Model)>, Error> {
    let rows = account::reservations(connection, [(job, dataset)]).await?;
    Ok(rows.into_iter().filter(|(row, _)| !row.own).collect())
}

/// Converts a row, with the releases counted since it was read, into the type of the privacy rules.
fn part(row: &reservation::Model, counted: i64) -> Result<Reservation, Error> {
    Reservation::from_job(
        ReservationId(row.id.as_u128()),
        row.cost()?,
        row.releases as u64,
        row.committed.saturating_add(counted) as u64,
        row.settled,
    )
    .map_err(|error| Error::internal("keeping an account", error))
}
