//! The use of the limits of accounts.

use std::collections::{HashMap, HashSet};

use sea_orm::{ColumnTrait as _, ConnectionTrait, EntityTrait as _, QueryFilter as _};
use undertone_api::budget::{Account, UncoveredReleases};
use undertone_api::id::{LineageId, OrganizationId};
use undertone_privacy::PrivacyUnit;
use undertone_privacy::ledger::Balance;
use uuid::Uuid;

use crate::error::Error;
use crate::model::{account, reservation};
use crate::service::ledger::account as accounts;

/// Returns the accounts of lineages, for display. An account that only records exact releases of its owner has a limit
/// of 0.
pub(crate) async fn load_accounts(
    connection: &impl ConnectionTrait,
    lineages: Vec<LineageId>,
) -> Result<HashMap<(OrganizationId, LineageId), Vec<Account>>, Error> {
    let mut all: HashMap<_, Vec<Account>> = HashMap::new();
    let rows = accounts::of_lineages(connection, lineages.into_iter().map(|lineage| lineage.0).collect()).await?;
    let mut uncovered = count_uncovered(connection, &rows).await?;
    for row in rows {
        let account = Account { uncovered: uncovered.remove(&row.id).unwrap_or_default(), ..to_account(&row)? };
        all.entry((row.organization_id.into(), row.lineage_id.into())).or_default().push(account);
    }
    Ok(all)
}

/// Returns the releases that each account does not cover: those of jobs on another account of the same lineage that
/// were not charged to it.
async fn count_uncovered(
    connection: &impl ConnectionTrait,
    rows: &[account::Model],
) -> Result<HashMap<Uuid, Vec<UncoveredReleases>>, Error> {
    let beside = |row: &&account::Model, other: &account::Model| {
        row.id != other.id && (row.organization_id, row.lineage_id) == (other.organization_id, other.lineage_id)
    };
    let several: Vec<_> = rows.iter().filter(|row| rows.iter().any(|other| beside(row, other))).collect();
    let mut all: HashMap<Uuid, Vec<UncoveredReleases>> = HashMap::new();
    if several.is_empty() {
        return Ok(all);
    }
    let reserved = reservation::Entity::find()
        .filter(reservation::Column::AccountId.is_in(several.iter().map(|row| row.id)))
        .all(connection)
        .await?;
    let reserved_keys: HashSet<_> = reserved.iter().map(|row| (row.account_id, row.job_id, row.dataset_id)).collect();
    for part in reserved.iter().filter(|part| part.own && !part.in_the_clear && part.committed > 0) {
        let Some(own) = several.iter().find(|row| row.id == part.account_id) else { continue };
        let unit: PrivacyUnit = own.unit()?;
        for row in several.iter().filter(|row| beside(row, own)) {
            if reserved_keys.contains(&(row.id, part.job_id, part.dataset_id)) {
                continue;
            }
            let (known, releases) = (all.entry(row.id).or_default(), part.committed as u64);
            match known.iter_mut().find(|known| known.unit == unit) {
                Some(known) => (known.jobs, known.releases) = (known.jobs + 1, known.releases + releases),
                None => known.push(UncoveredReleases { unit, jobs: 1, releases }),
            }
        }
    }
    Ok(all)
}

/// Converts an account for display.
pub(super) fn to_account(row: &account::Model) -> Result<Account, Error> {
    let balance: Balance = row.balance()?;
    let summary = balance.summary();
    let none = |error| Error::internal("showing an account without a budget", error);
    Ok(Account {
        id: row.id.into(),
        unit: row.unit()?,
        adjacency: row.adjacency()?,
        epsilon: summary.limit.map_or_else(|| 0.0.try_into().map_err(none), Ok)?,
        delta: summary.delta.map_or_else(|| 0.0.try_into().map_err(none), Ok)?,
        filter: balance.filter(),
        spent: summary.spent_epsilon,
        committed: summary.committed_epsilon,
        spent_fraction: summary.spent_fraction,
        reserved_fraction: summary.reserved_fraction,
        released_in_the_clear: row.in_the_clear as u64,
        uncovered: Vec::new(),
    })
}
