//! Commits of releases in memory, on the accounts of one or more parts of jobs, and their rows in a few statements. So
//! the number of statements does not grow with the number of releases that one transaction counts.

use std::collections::{BTreeMap, BTreeSet};

use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait as _, EntityTrait as _, ExprTrait as _, IntoActiveModel as _, QueryFilter as _};
use time::OffsetDateTime;
use undertone_api::budget::EntryKind;
use undertone_api::log::LogLeaf;
use undertone_privacy::Event;
use undertone_privacy::ledger::LedgerError;
use uuid::Uuid;

use super::account::{self, NewEntry, OpenAccount};
use super::{ProvenRelease, part};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::column::to_json;
use crate::model::{ledger_entry, reservation};
use crate::service::log::{self, leaf};

/// The reservations and accounts of parts, while their transaction is the single writer.
#[derive(Default)]
pub(crate) struct OpenCharges {
    /// The reservations of each job and dataset, as stored; that of the protected unit first.
    reservations: BTreeMap<(Uuid, Uuid), Vec<reservation::Model>>,
    accounts: BTreeMap<Uuid, OpenAccount>,
    changes: ChargeChanges,
}

/// The changes since the rows were loaded.
#[derive(Default)]
struct ChargeChanges {
    /// The releases counted on each reservation.
    committed: BTreeMap<Uuid, i64>,
    accounts: BTreeSet<Uuid>,
    entries: Vec<ledger_entry::Model>,
}

/// The state before some commits, to undo them.
struct ChargeMark {
    committed: BTreeMap<Uuid, i64>,
    changed_accounts: BTreeSet<Uuid>,
    entries: usize,
    accounts: Vec<(Uuid, OpenAccount)>,
}

impl OpenCharges {
    /// Loads the reservations of datasets in jobs, with their accounts.
    ///
    /// # Errors
    /// When the database fails, or a stored value cannot be read.
    pub(crate) async fn load(tx: &Tx, parts: impl IntoIterator<Item = (Uuid, Uuid)>) -> Result<Self, Error> {
        let mut charges = Self::default();
        for (row, account) in account::reservations(tx, parts).await? {
            if let std::collections::btree_map::Entry::Vacant(place) = charges.accounts.entry(account.id) {
                place.insert(OpenAccount::from_row(account)?);
            }
            charges.reservations.entry((row.job_id, row.dataset_id)).or_default().push(row);
        }
        Ok(charges)
    }

    /// Moves releases from reserved to spent, all or none, in memory. Returns the place of each release's row among the
    /// leaves that [`OpenCharges::save`] appends.
    ///
    /// # Errors
    /// As `ledger::commit`; then nothing has changed.
    pub(crate) fn commit(&mut self, at: OffsetDateTime, releases: &[ProvenRelease<'_>]) -> Result<Vec<u64>, Error> {
        let mark = self.mark(releases);
        let places: Result<Vec<_>, Error> = releases.iter().map(|release| self.commit_one(at, release)).collect();
        if places.is_err() {
            self.undo(mark);
        }
        places
    }

    fn commit_one(&mut self, at: OffsetDateTime, release: &ProvenRelease<'_>) -> Result<u64, Error> {
        let place = self.changes.entries.len() as u64;
        let Self { reservations, accounts, changes } = self;
        let rows = reservations.get(&(release.job, release.dataset)).map(Vec::as_slice).unwrap_or_default();
        let (own, others) = rows.split_first().filter(|(row, _)| row.own).ok_or_else(|| {
            Error::wrong_state("nothing was ever reserved for this release: the job has not been admitted")
        })?;
        // An exact release of a job with charged ones (the open arm of a comparison) uses nothing of the reservation.
        let in_the_clear = *release.event == Event::NonPrivate;
        let account = open_account(accounts, own)?;
        if in_the_clear {
            if own.settled {
                return Err(settled());
            }
            account.count_in_the_clear();
        } else {
            spend(own, changes, account)?;
        }
        let event = to_json(release.event)?;
        let counted = i64::from(in_the_clear == own.in_the_clear);
        changes.append(own, account, at, line(release, &event, Some(release.receipt)), counted)?;
        if !in_the_clear {
            // A release counts on the account of every other limited unit as well. The receipt is for the unit that the
            // job protects, and only that unit's row names it; these rows name the same job, series, round and attempt.
            for row in others {
                let account = open_account(accounts, row)?;
                spend(row, changes, account)?;
                changes.append(row, account, at, line(release, &row.event, None), 1)?;
            }
        }
        Ok(place)
    }

    /// Writes the changes and appends them to the log, with one signed head. Returns the position of the first leaf.
    ///
    /// # Errors
    /// When the database fails, or a stored value cannot be read.
    pub(crate) async fn save(self, ctx: &Ctx, tx: &Tx) -> Result<u64, Error> {
        let Self { accounts, changes, .. } = self;
        let leaves: Vec<_> = changes.entries.iter().map(|row| LogLeaf::Entry(leaf::of_entry(row))).collect();
        if !changes.entries.is_empty() {
            let rows = changes.entries.into_iter().map(ledger_entry::Model::into_active_model);
            ledger_entry::Entity::insert_many(rows).exec_without_returning(tx).await?;
        }
        let changed = accounts.into_iter().filter(|(id, _)| changes.accounts.contains(id)).map(|(_, account)| account);
        OpenAccount::save_all(tx, changed).await?;
        let mut by_count: BTreeMap<i64, Vec<Uuid>> = BTreeMap::new();
        for (id, count) in changes.committed {
            by_count.entry(count).or_default().push(id);
        }
        for (count, ids) in by_count {
            reservation::Entity::update_many()
                .col_expr(reservation::Column::Committed, Expr::col(reservation::Column::Committed).add(count))
                .filter(reservation::Column::Id.is_in(ids))
                .exec(tx)
                .await?;
        }
        log::append(ctx, tx, &leaves).await
    }

    /// Returns the state of all that these releases may change.
    fn mark(&self, releases: &[ProvenRelease<'_>]) -> ChargeMark {
        let rows = releases.iter().filter_map(|release| self.reservations.get(&(release.job, release.dataset)));
        let touched: BTreeSet<Uuid> = rows.flatten().map(|row| row.account_id).collect();
        let accounts = touched.into_iter().filter_map(|id| Some((id, self.accounts.get(&id)?.clone()))).collect();
        ChargeMark {
            committed: self.changes.committed.clone(),
            changed_accounts: self.changes.accounts.clone(),
            entries: self.changes.entries.len(),
            accounts,
        }
    }

    fn undo(&mut self, mark: ChargeMark) {
        self.changes.committed = mark.committed;
        self.changes.accounts = mark.changed_accounts;
        self.changes.entries.truncate(mark.entries);
        self.accounts.extend(mark.accounts);
    }
}

impl ChargeChanges {
    /// Appends a row to an account, and counts `counted` releases on a reservation.
    fn append(
        &mut self,
        row: &reservation::Model,
        account: &mut OpenAccount,
        at: OffsetDateTime,
        line: NewEntry<'_>,
        counted: i64,
    ) -> Result<(), Error> {
        self.entries.push(account.next_entry(at, line)?);
        self.accounts.insert(account.id());
        if counted != 0 {
            *self.committed.entry(row.id).or_default() += counted;
        }
        Ok(())
    }
}

fn open_account<'a>(
    accounts: &'a mut BTreeMap<Uuid, OpenAccount>,
    row: &reservation::Model,
) -> Result<&'a mut OpenAccount, Error> {
    accounts
        .get_mut(&row.account_id)
        .ok_or_else(|| Error::internal("reading an account", "a reservation names one that is not there"))
}

fn line<'a>(release: &ProvenRelease<'a>, event: &'a str, receipt: Option<&'a str>) -> NewEntry<'a> {
    NewEntry {
        kind: EntryKind::Commit,
        job: release.job,
        dataset: release.dataset,
        release: Some((release.series, release.round, release.attempt)),
        event,
        count: 1,
        receipt,
        certificate: None,
    }
}

/// Moves one release of a reservation from reserved to spent, in memory.
fn spend(row: &reservation::Model, changes: &ChargeChanges, account: &mut OpenAccount) -> Result<(), Error> {
    let counted = changes.committed.get(&row.id).copied().unwrap_or_default();
    account.balance.commit(&mut part(row, counted)?).map_err(|error| match error {
        LedgerError::Settled(_) => settled(),
        LedgerError::Exhausted { releases, .. } => Error::problem(
            undertone_api::problem::Code::BudgetExceeded,
            format!("all {releases} releases that were reserved for this dataset are spent"),
        ),
        other => Error::internal("committing a release", other),
    })
}

fn settled() -> Error {
    Error::wrong_state("the job is over and settled: nothing more can be released under it")
}
