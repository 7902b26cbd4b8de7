//! The privacy loss of all jobs approved by a limit, which the limit's total bounds.
//!
//! The figures are composed, not added: the Rényi losses of all jobs are summed on the orders of reports and converted
//! to ε once. One job alone thus costs exactly its stated ε, and all jobs together have an ε at the account's δ. A sum
//! of ε, each at the whole δ, would not be a guarantee at that δ. The figures decide only about automatic approval; the
//! ledger decides about spending. Every limited unit has its own sum, and each job counts in all sums by its charge for
//! that unit: ε spent for one unit is not available again for another.

use std::collections::{BTreeMap, HashMap, HashSet};

use sea_orm::sea_query::{Expr, Query};
use sea_orm::{ColumnTrait as _, ConnectionTrait, EntityTrait as _, QueryFilter as _, QuerySelect};
use undertone_api::budget::Account;
use undertone_api::id::DatasetId;
use undertone_api::job::{ApprovedTotal, Charge, JobState};
use undertone_privacy::transfer::event_at;
use undertone_privacy::{Adjacency, Event, PrivacyUnit};
use uuid::Uuid;

use crate::error::Error;
use crate::model::column::EnumColumn;
use crate::model::{approval_limit, job, participant, reservation};
use crate::service::ledger::epsilon_together;

/// The releases of all jobs approved by one limit.
#[derive(Debug, Default)]
pub(super) struct ApprovedReleases(BTreeMap<(PrivacyUnit, Adjacency), UnitReleases>);

/// The releases of one unit, on the account of one relation.
#[derive(Debug, Default)]
struct UnitReleases {
    jobs: u64,
    events: Vec<EventReleases>,
}

/// Releases of one event.
#[derive(Debug)]
struct EventReleases {
    event: Event,
    /// The number of charges for releases that were made.
    spent: u64,
    /// The number of charges for releases that were made or may still be made.
    committed: u64,
}

impl ApprovedReleases {
    /// Returns the releases of jobs approved by a limit, from the ledger. A settled job counts its actual releases, one
    /// that ended before its reservation counts nothing, every other its worst case.
    pub(super) async fn load(connection: &impl ConnectionTrait, limit: Uuid) -> Result<Self, Error> {
        let mut passed = each(connection, participant::Column::LimitId.eq(limit)).await?;
        Ok(passed.remove(&limit).unwrap_or_default())
    }

    /// Returns the releases for every limit that a dataset ever had, by the limit's id, without limits that approved
    /// nothing. The number of queries does not depend on the number of limits.
    pub(super) async fn load_each(
        connection: &impl ConnectionTrait,
        dataset: DatasetId,
    ) -> Result<HashMap<Uuid, Self>, Error> {
        let limits = Query::select()
            .column(approval_limit::Column::Id)
            .from(approval_limit::Entity)
            .and_where(approval_limit::Column::DatasetId.eq(dataset.0))
            .take();
        each(connection, participant::Column::LimitId.in_subquery(limits)).await
    }

    fn count(&mut self, charge: Charge, spent: u64, committed: u64) {
        let (spent, committed) = (charge.event.count_charges(spent), charge.event.count_charges(committed));
        let sum = self.0.entry((charge.unit, charge.adjacency.account())).or_default();
        sum.jobs += 1;
        // Jobs repeat: there are few distinct events, and each is priced once.
        match sum.events.iter_mut().find(|known| known.event == charge.event) {
            Some(known) => {
                known.spent = known.spent.saturating_add(spent);
                known.committed = known.committed.saturating_add(committed);
            }
            None => sum.events.push(EventReleases { event: charge.event, spent, committed }),
        }
    }

    /// Returns ε at δ of all approved jobs plus the charge's worst case, as charged to the charge's unit; `None` when
    /// no finite ε covers them.
    pub(super) fn with(&self, charge: &Charge, delta: f64) -> Option<f64> {
        let before = self.events_at(charge.unit, |known| known.committed)?;
        let before = before.iter().map(|(event, count)| (event, *count));
        epsilon_together(
            before.chain([(&charge.event, charge.event.count_charges(charge.releases))]),
            charge.adjacency,
            delta,
        )
    }

    /// Returns the events as charged to the account of `unit`, with the number of releases from `count`; `None` when an
    /// event has no price there.
    fn events_at(&self, unit: PrivacyUnit, count: impl Fn(&EventReleases) -> u64) -> Option<Vec<(Event, u64)>> {
        let mut all = Vec::new();
        for (&(protected, _), sum) in &self.0 {
            for known in &sum.events {
                match (count(known), event_at(&known.event, protected, unit)) {
                    (0, _) => {}
                    (releases, Ok(event)) => all.push((event, releases)),
                    (_, Err(_)) => return None,
                }
            }
        }
        Some(all)
    }

    /// Returns the figures for display, each at δ of the dataset's account.
    pub(super) fn to_totals(&self, accounts: &[Account]) -> Vec<ApprovedTotal> {
        let jobs = self.0.values().map(|sum| sum.jobs).sum();
        let of = |account: &Account| {
            let (unit, adjacency, delta) = (account.unit, account.adjacency, account.delta.get());
            let epsilon = |count: fn(&EventReleases) -> u64| {
                let events = self.events_at(unit, count)?;
                epsilon_together(events.iter().map(|(event, count)| (event, *count)), adjacency, delta)
            };
            let (spent, committed) = (epsilon(|known| known.spent), epsilon(|known| known.committed));
            ApprovedTotal { unit, adjacency, delta, jobs, spent, committed }
        };
        accounts.iter().filter(|account| jobs > 0 && account.delta.get() > 0.0).map(of).collect()
    }
}

/// Returns the releases by limit, of the participants that match `chosen`.
async fn each(connection: &impl ConnectionTrait, chosen: Expr) -> Result<HashMap<Uuid, ApprovedReleases>, Error> {
    let mut passed: HashMap<Uuid, ApprovedReleases> = HashMap::new();
    let parts = participant::Entity::find().filter(chosen.clone()).all(connection).await?;
    if parts.is_empty() {
        return Ok(passed);
    }
    let mut jobs = participant::Entity::find().select_only().column(participant::Column::JobId).filter(chosen);
    let jobs = QuerySelect::query(&mut jobs).to_owned();
    let reserved: HashMap<(Uuid, Uuid), reservation::Model> = reservation::Entity::find()
        .filter(reservation::Column::JobId.in_subquery(jobs.clone()))
        .filter(reservation::Column::Own.eq(true))
        .all(connection)
        .await?
        .into_iter()
        .map(|row| ((row.job_id, row.dataset_id), row))
        .collect();
    let states: Vec<(Uuid, EnumColumn<JobState, job::Entity>)> = job::Entity::find()
        .select_only()
        .column(job::Column::Id)
        .column(job::Column::State)
        .filter(job::Column::Id.in_subquery(jobs))
        .into_tuple()
        .all(connection)
        .await?;
    let mut over = HashSet::new();
    for (id, state) in states {
        if state.is_over() {
            over.insert(id);
        }
    }
    for part in parts {
        let Some(limit) = part.limit_id else { continue };
        let Some(charge) = part.charge.as_deref() else { continue };
        let (spent, committed) = match reserved.get(&(part.job_id, part.dataset_id)) {
            Some(row) if row.settled => (row.committed as u64, row.committed as u64),
            Some(row) => (row.committed as u64, row.releases as u64),
            None if over.contains(&part.job_id) => (0, 0),
            None => (0, charge.releases),
        };
        passed.entry(limit).or_default().count(charge.clone(), spent, committed);
    }
    Ok(passed)
}

#[cfg(test)]
mod tests {
    use undertone_api::job::Charge;
    use undertone_privacy::{Adjacency, Event, NoiseMultiplier, PrivacyUnit};

    use super::ApprovedReleases;

    const DELTA: f64 = 1e-5;

    fn charge(unit: PrivacyUnit, noise: f64, releases: u64) -> Charge {
        let noise_multiplier = NoiseMultiplier::new(noise).expect("greater than 0");
        Charge { unit, adjacency: Adjacency::ZeroOut, event: Event::Gaussian { noise_multiplier }, releases }
    }

    #[test]
    fn add_remove_and_zero_out_charges_are_one_sum() {
        let new = charge(PrivacyUnit::Speaker, 4.0, 2);
        let old = Charge { adjacency: Adjacency::AddRemove, ..new.clone() };
        let (mut one, mut both) = (ApprovedReleases::default(), ApprovedReleases::default());
        one.count(new.clone(), 0, 2);
        both.count(old, 0, 2);
        assert_eq!(both.with(&new, DELTA), one.with(&new, DELTA), "what passed before the change still counts");
    }

    #[test]
    fn a_total_is_not_spent_twice_by_switching_units() {
        let record = charge(PrivacyUnit::Record, 8.0, 2);
        let alone = ApprovedReleases::default().with(&record, DELTA);
        let mut passed = ApprovedReleases::default();
        passed.count(charge(PrivacyUnit::Speaker, 8.0, 2), 0, 2);
        // For a record of a speaker two changes count: four times the square, the same as half the noise.
        let together = passed.with(&record, DELTA);
        let same = ApprovedReleases::default().with(&charge(PrivacyUnit::Record, 8.0, 10), DELTA);
        assert!(together > alone && (together.unwrap_or(0.0) - same.unwrap_or(1.0)).abs() < 1e-9);
        // A release that protects records bounds nothing for a speaker: no total covers it.
        let speaker = charge(PrivacyUnit::Speaker, 4.0, 2);
        passed.count(record, 2, 2);
        assert_eq!(passed.with(&speaker, DELTA), None);
    }

    #[test]
    fn different_events_compose_to_the_same_sum_in_any_order() {
        let (one, other) = (charge(PrivacyUnit::Record, 4.0, 3), charge(PrivacyUnit::Record, 8.0, 5));
        let with = |before: &Charge, now: &Charge| {
            let mut passed = ApprovedReleases::default();
            passed.count(before.clone(), 0, before.releases);
            passed.with(now, DELTA).expect("noise has a finite price")
        };
        let together = with(&one, &other);
        assert!((together - with(&other, &one)).abs() < f64::EPSILON);
        // 3/16 + 5/64 is the loss of seventeen releases at 8.
        let same = ApprovedReleases::default().with(&charge(PrivacyUnit::Record, 8.0, 17), DELTA).expect("finite");
        assert!((together - same).abs() < 1e-9, "{together} {same}");
    }
}
