//! The proof that a balance follows from its rows: all rows are read, priced and added again.

use std::collections::BTreeMap;

use sea_orm::{ColumnTrait as _, ConnectionTrait, EntityTrait as _, QueryFilter as _, QueryOrder as _};
use undertone_api::budget::EntryKind;
use undertone_privacy::ledger::{Balance, JobCertificate, JobCost, Reservation, ReservationId};
use undertone_privacy::mechanism;
use undertone_privacy::{Adjacency, Event};
use uuid::Uuid;

use super::chain;
use crate::error::Error;
use crate::model::{account, ledger_entry};

/// An account computed from its rows.
#[derive(Debug, Clone, PartialEq)]
pub struct RebuiltAccount {
    /// The spent and reserved sums.
    pub balance: Balance,
    /// The number of exact releases.
    pub in_the_clear: u64,
    /// Hash of the last row.
    pub head: String,
}

/// The state of one reservation during the pass over the rows.
struct ReservationState {
    event: Event,
    certificate: Option<JobCertificate>,
    releases: u64,
    committed: u64,
    in_the_clear: u64,
    settled: bool,
}

/// Computes an account from its rows alone. Only the budget, which is a decision and not a sum, is taken from the
/// account.
///
/// # Errors
/// When the chain is broken, when a row contradicts those before it, or when a row was priced by another version of the
/// formulas.
pub async fn rebuild(connection: &impl ConnectionTrait, id: Uuid) -> Result<RebuiltAccount, Error> {
    let row = account::Entity::find_by_id(id).one(connection).await?;
    let row = row.ok_or_else(|| Error::not_found("account"))?;
    let stored: Balance = row.balance()?;
    let adjacency: Adjacency = row.adjacency()?;
    let rows = ledger_entry::Entity::find()
        .filter(ledger_entry::Column::AccountId.eq(id))
        .order_by_asc(ledger_entry::Column::Sequence)
        .all(connection)
        .await?;
    if let Some(sequence) = chain::broken_at(&rows) {
        return Err(contradiction(format!("the chain of account {id} is broken at row {sequence}")));
    }
    let mut parts: BTreeMap<(Uuid, Uuid), ReservationState> = BTreeMap::new();
    for row in &rows {
        follow(&mut parts, row)?;
    }
    let mut reservations = Vec::new();
    let mut in_the_clear = 0;
    for (part, id) in parts.values().zip(0_u128..) {
        in_the_clear += part.in_the_clear;
        if part.event == Event::NonPrivate {
            continue;
        }
        if let Some(certificate) = &part.certificate {
            certificate.verify(&part.event, adjacency).map_err(contradiction)?;
        }
        let certificate = part.certificate.as_ref();
        let cost = JobCost::from_row(&part.event, part.releases, adjacency, stored.grid(), certificate);
        let cost = cost.map_err(contradiction)?;
        reservations.push(
            Reservation::from_job(ReservationId(id), cost, part.releases, part.committed, part.settled)
                .map_err(contradiction)?,
        );
    }
    let balance = Balance::rebuilt(stored.budget().copied(), &reservations).map_err(contradiction)?;
    Ok(RebuiltAccount { balance, in_the_clear, head: rows.last().map_or_else(chain::origin, |row| row.hash.clone()) })
}

fn follow(parts: &mut BTreeMap<(Uuid, Uuid), ReservationState>, row: &ledger_entry::Model) -> Result<(), Error> {
    if !mechanism::can_verify(&row.evaluator) {
        return Err(contradiction(format!("row {} was priced by {}", row.sequence, row.evaluator)));
    }
    let key = (row.job_id, row.dataset_id);
    match (row.kind()?, parts.get_mut(&key)) {
        (EntryKind::Reserve, None) => {
            let releases = row.count as u64;
            let part = ReservationState {
                event: row.event()?,
                certificate: row.certificate()?,
                releases,
                committed: 0,
                in_the_clear: 0,
                settled: false,
            };
            parts.insert(key, part);
        }
        (EntryKind::Commit, Some(part)) if !part.settled => {
            let event: Event = row.event()?;
            if event == part.event {
                part.committed += row.count as u64;
            } else if event != Event::NonPrivate {
                return Err(contradiction(format!("row {} commits another release than was reserved", row.sequence)));
            }
            if event == Event::NonPrivate {
                part.in_the_clear += row.count as u64;
            }
        }
        (EntryKind::Settle, Some(part)) if !part.settled => {
            if part.event != Event::NonPrivate && part.releases.checked_sub(part.committed) != Some(row.count as u64) {
                return Err(contradiction(format!("row {} settles what was not left", row.sequence)));
            }
            part.settled = true;
        }
        _ => return Err(contradiction(format!("row {} does not follow from the rows before it", row.sequence))),
    }
    Ok(())
}

fn contradiction(error: impl std::fmt::Display) -> Error {
    Error::internal("rebuilding an account from its rows", error.to_string())
}
