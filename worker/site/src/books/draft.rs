//! Accounts under construction.

use std::collections::BTreeMap;

use time::OffsetDateTime;
use undertone_api::budget::EntryKind;
use undertone_api::id::JobId;
use undertone_privacy::PrivacyUnit;
use undertone_privacy::ledger::{Account, Budget, JobCost, Reservation};
use undertone_privacy::transfer::event_at;

use super::{AccountBook, AccountKey, BooksError, JobReservation, LedgerEntry, reservation_id};

/// An account under construction, while its rows are read.
#[derive(Default)]
pub(super) struct AccountDraft {
    budget: Option<Budget>,
    jobs: BTreeMap<JobId, (JobReservation, u64, bool)>,
    first: Option<OffsetDateTime>,
    last: Option<OffsetDateTime>,
}

impl AccountDraft {
    pub(super) fn take(&mut self, row: LedgerEntry, protects: PrivacyUnit, sequence: u64) -> Result<(), BooksError> {
        let wrong = |problem: &str| Err(BooksError::Row { sequence, problem: problem.to_owned() });
        let job = self.jobs.get_mut(&row.job);
        match (row.kind, job) {
            (EntryKind::Reserve, None) => {
                if row.budget.is_none() {
                    return wrong("reserves without a budget");
                }
                self.budget = row.budget;
                let LedgerEntry { event, count: releases, certificate, manifest, dataset, .. } = row;
                let reserved = JobReservation { event, protects, releases, certificate, manifest, dataset };
                self.jobs.insert(row.job, (reserved, 0, false));
            }
            (EntryKind::Reserve, Some(_)) => return wrong("reserves a second time for one job"),
            (_, None) => return wrong("has no reservation before it"),
            (EntryKind::Commit, Some((reserved, committed, settled))) => {
                if *settled || row.count != 1 || row.event != reserved.event {
                    return wrong("commits what was not reserved");
                }
                *committed += 1;
                self.first = self.first.or(Some(row.at));
                self.last = Some(row.at);
            }
            (EntryKind::Settle, Some((reserved, committed, settled))) => {
                if *settled || row.count != reserved.releases.saturating_sub(*committed) {
                    return wrong("gives back what was not left");
                }
                *settled = true;
            }
        }
        Ok(())
    }

    pub(super) fn finish(self, key: AccountKey) -> Result<AccountBook, BooksError> {
        let Self { budget, jobs, first, last } = self;
        let grid = Account::new(budget).balance().grid().clone();
        let rows = jobs
            .iter()
            .map(|(job, (reserved, committed, settled))| {
                let JobReservation { event, releases, certificate, .. } = reserved;
                let cost = JobCost::from_row(event, *releases, key.adjacency(), &grid, certificate.as_ref())?;
                Ok(Reservation::from_job(reservation_id(*job), cost, *releases, *committed, *settled)?)
            })
            .collect::<Result<Vec<_>, BooksError>>()?;
        let account = Account::rebuilt(budget, rows)?;
        let jobs = jobs.into_iter().map(|(job, (reserved, _, _))| (job, reserved)).collect();
        Ok(AccountBook { account, jobs, first, last })
    }
}

/// Charges every account for jobs of its lineage that protect other units and were never charged to it, where they have
/// a price. These are jobs from before the account began, and jobs of workers that charged the job's own unit alone.
pub(super) fn take_in(drafts: &mut BTreeMap<AccountKey, AccountDraft>) {
    let mut missing = Vec::new();
    for (key, draft) in &*drafts {
        for (own, other) in drafts.iter().filter(|(own, _)| own.is_sibling(*key)) {
            for (job, (reserved, committed, settled)) in &other.jobs {
                if reserved.protects != own.unit || draft.jobs.contains_key(job) {
                    continue;
                }
                if let Ok(event) = event_at(&reserved.event, own.unit, key.unit) {
                    let reserved = JobReservation { event, certificate: None, ..reserved.clone() };
                    missing.push((*key, *job, (reserved, *committed, *settled)));
                }
            }
        }
    }
    for (key, job, part) in missing {
        drafts.entry(key).or_default().jobs.insert(job, part);
    }
}
