//! The history of a dataset's accounts: each limit and each row of the ledger in the order of the log, priced again,
//! and the final use by each job.
//!
//! Nothing is decided here. A point is the account's state at that time: from the stored events, with the present
//! formulas.

use std::collections::{BTreeMap, HashMap};

use sea_orm::{ColumnTrait as _, ConnectionTrait, EntityTrait as _, QueryFilter as _, QueryOrder as _};
use time::OffsetDateTime;
use undertone_api::budget::EntryKind;
use undertone_api::id::{DatasetId, JobId};
use undertone_api::ledger::{AccountHistory, HistoryPoint, JobShare};
use undertone_api::problem::Code;
use undertone_privacy::curve::Curve;
use undertone_privacy::ledger::{Balance, Budget, JobCost, Reservation, ReservationId};
use undertone_privacy::{Adjacency, Event};
use uuid::Uuid;

use super::account;
use super::promises::of_steps;
use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::model::column::ColumnEnum as _;
use crate::model::{account as account_row, budget, ledger_entry, log_leaf};
use crate::service::dataset;

/// The highest number of rows of an account that are priced for its history.
pub(super) const MOST_ROWS: i64 = 50_000;
/// The approximate number of points of a history.
pub(super) const POINTS: usize = 400;

/// Returns the histories of a dataset's accounts.
///
/// # Errors
/// 404 and 403 as usual, `too_large` for an account with too many rows: read its rows themselves.
pub async fn history(ctx: &Ctx, actor: &Actor, id: DatasetId) -> Result<Vec<AccountHistory>, Error> {
    let dataset = dataset::get(ctx, actor, id).await?;
    policy::check(actor, Operation::ReadLedger, Place::Organization(dataset.organization))?;
    let tx = ctx.db.snapshot().await?;
    let mut all = Vec::new();
    for row in account::of_lineages(&tx, vec![dataset.lineage.0]).await? {
        if row.organization_id == dataset.organization.0 {
            all.push(load_history(&tx, &row, MOST_ROWS, POINTS).await?);
        }
    }
    tx.rollback().await?;
    Ok(all)
}

/// A step in the history of an account.
pub(super) enum HistoryStep {
    Limit(OffsetDateTime, Budget),
    Entry(Box<ledger_entry::Model>),
}

/// The reserved and paid releases of a job.
struct JobReleases {
    job: Uuid,
    cost: JobCost,
    releases: u64,
    committed: u64,
    settled: bool,
}

/// Returns the history of one account of at most `most` rows, in about `wanted` points.
pub(super) async fn load_history(
    connection: &impl ConnectionTrait,
    row: &account_row::Model,
    most: i64,
    wanted: usize,
) -> Result<AccountHistory, Error> {
    if row.entries > most {
        let detail = format!("this account has {} rows, more than the {most} that a history is made of", row.entries);
        return Err(Error::problem(Code::TooLarge, format!("{detail}: read the rows themselves, page by page")));
    }
    let steps = steps(connection, vec![row.id]).await?.remove(&row.id).unwrap_or_default();
    build_history(row, &steps, wanted)
}

/// Returns the history of an account from its steps, in about `wanted` points.
pub(super) fn build_history(
    row: &account_row::Model,
    steps: &[HistoryStep],
    wanted: usize,
) -> Result<AccountHistory, Error> {
    let adjacency: Adjacency = row.adjacency()?;
    let mut budget: Option<Budget> = None;
    let mut parts: BTreeMap<(Uuid, Uuid), JobReleases> = BTreeMap::new();
    let mut points = Vec::new();
    for (step, is_point) in steps.iter().zip(select_points(steps, wanted)) {
        let (at, entry) = match step {
            HistoryStep::Limit(at, limits) => {
                budget = Some(*limits);
                (*at, None)
            }
            HistoryStep::Entry(entry) => {
                follow(&mut parts, entry, adjacency, budget)?;
                (entry.at, Some(&**entry))
            }
        };
        if is_point {
            let summary = balance(budget, &parts)?.summary();
            points.push(HistoryPoint {
                at,
                kind: entry.map(ledger_entry::Model::kind).transpose()?,
                job: entry.map(|entry| JobId(entry.job_id)),
                limit: summary.limit.map_or(0.0, f64::from),
                delta: summary.delta.map_or(0.0, f64::from),
                spent: summary.spent_epsilon,
                committed: summary.committed_epsilon,
                left: summary.left_epsilon,
            });
        }
    }
    Ok(AccountHistory {
        account: row.id.into(),
        unit: row.unit()?,
        adjacency,
        points,
        jobs: shares(budget, &parts)?,
        promises: of_steps(steps)?,
        rows: row.entries as u64,
    })
}

/// Returns the steps of accounts, each in the order of the log.
pub(super) async fn steps(
    connection: &impl ConnectionTrait,
    ids: Vec<Uuid>,
) -> Result<HashMap<Uuid, Vec<HistoryStep>>, Error> {
    let entries =
        ledger_entry::Entity::find().filter(ledger_entry::Column::AccountId.is_in(ids.clone())).all(connection).await?;
    let limits = budget::Entity::find().filter(budget::Column::AccountId.is_in(ids.clone())).all(connection).await?;
    let leaves = log_leaf::Entity::find()
        .filter(log_leaf::Column::AccountId.is_in(ids))
        .order_by_asc(log_leaf::Column::Position)
        .all(connection)
        .await?;
    let mut entries: BTreeMap<(Uuid, i64), ledger_entry::Model> =
        entries.into_iter().map(|entry| ((entry.account_id, entry.sequence), entry)).collect();
    let mut limits: BTreeMap<Uuid, budget::Model> = limits.into_iter().map(|limit| (limit.id, limit)).collect();
    let mut steps: HashMap<Uuid, Vec<HistoryStep>> = HashMap::new();
    for leaf in leaves {
        let account = leaf.account_id;
        if let Some(entry) = leaf.sequence.and_then(|sequence| entries.remove(&(account, sequence))) {
            steps.entry(account).or_default().push(HistoryStep::Entry(Box::new(entry)));
        } else if let Some(limit) = leaf.budget_id.and_then(|id| limits.remove(&id)) {
            steps.entry(account).or_default().push(HistoryStep::Limit(limit.set_at, limit.limits()?));
        }
    }
    Ok(steps)
}

/// Returns whether each step becomes a point: every step except commits, and as many commits as to leave about `wanted`
/// points; always the last commit of a sequence.
fn select_points(steps: &[HistoryStep], wanted: usize) -> Vec<bool> {
    let pays =
        |step: &HistoryStep| matches!(step, HistoryStep::Entry(entry) if entry.kind == EntryKind::Commit.to_text());
    let payments = steps.iter().filter(|step| pays(step)).count();
    let others = steps.len() - payments;
    let stride = payments.div_ceil(wanted.saturating_sub(others).max(1)).max(1);
    let mut number = 0;
    steps
        .iter()
        .enumerate()
        .map(|(index, step)| {
            if !pays(step) {
                return true;
            }
            number += 1;
            number % stride == 0 || steps.get(index + 1).is_none_or(|next| !pays(next))
        })
        .collect()
}

/// Applies a row. An exact release is outside of every balance.
fn follow(
    parts: &mut BTreeMap<(Uuid, Uuid), JobReleases>,
    row: &ledger_entry::Model,
    adjacency: Adjacency,
    budget: Option<Budget>,
) -> Result<(), Error> {
    let event: Event = row.event()?;
    if event == Event::NonPrivate {
        return Ok(());
    }
    let key = (row.job_id, row.dataset_id);
    match row.kind()? {
        EntryKind::Reserve => {
            let grid = Balance::new(budget).grid().clone();
            let certificate = row.certificate()?;
            let cost = JobCost::from_row(&event, row.count as u64, adjacency, &grid, certificate.as_ref())
                .map_err(|error| Error::internal("pricing a row of the ledger", error.to_string()))?;
            let part = JobReleases { job: row.job_id, cost, releases: row.count as u64, committed: 0, settled: false };
            parts.insert(key, part);
        }
        EntryKind::Commit => {
            if let Some(part) = parts.get_mut(&key) {
                part.committed += row.count as u64;
            }
        }
        EntryKind::Settle => {
            if let Some(part) = parts.get_mut(&key) {
                part.settled = true;
            }
        }
    }
    Ok(())
}

fn balance(budget: Option<Budget>, parts: &BTreeMap<(Uuid, Uuid), JobReleases>) -> Result<Balance, Error> {
    let wrong = |error| Error::internal("adding the rows of an account up", error);
    let reservations = parts.values().zip(0_u128..).map(|(part, id)| {
        Reservation::from_job(ReservationId(id), part.cost.clone(), part.releases, part.committed, part.settled)
    });
    let reservations = reservations.collect::<Result<Vec<_>, _>>().map_err(wrong)?;
    Balance::rebuilt(budget, &reservations).map_err(wrong)
}

/// Returns the use by each job, at the order that determines the remaining budget of the account.
fn shares(budget: Option<Budget>, parts: &BTreeMap<(Uuid, Uuid), JobReleases>) -> Result<Vec<JobShare>, Error> {
    let Some(limits) = budget else { return Ok(Vec::new()) };
    let whole = balance(budget, parts)?;
    let losses: Vec<f64> =
        whole.spent().losses().zip(whole.reserved().losses()).map(|(a, b)| a.1.plus(b.1).to_f64_up()).collect();
    let best = limits
        .shares()
        .into_iter()
        .enumerate()
        .filter_map(|(index, share)| share.map(|share| (index, share.to_f64_down())))
        .filter(|(_, share)| *share > 0.0)
        .min_by(|a, b| (losses[a.0] / a.1).total_cmp(&(losses[b.0] / b.1)));
    let Some((order, most)) = best else { return Ok(Vec::new()) };
    let part = |curve: &Curve| curve.losses().nth(order).map_or(0.0, |(_, loss)| loss.to_f64_up()) / most;
    let mut jobs: BTreeMap<Uuid, (f64, f64, u64, Vec<Reservation>)> = BTreeMap::new();
    for entry in parts.values() {
        let stored = |settled| {
            Reservation::from_job(ReservationId(0), entry.cost.clone(), entry.releases, entry.committed, settled)
                .map_err(|error| Error::internal("adding the rows of an account up", error))
        };
        let present = stored(entry.settled)?;
        let job = jobs.entry(entry.job).or_default();
        job.0 += part(&present.spent());
        job.1 += part(&present.open_cost());
        job.2 += entry.committed;
        job.3.push(stored(true)?);
    }
    let mut shares = Vec::with_capacity(jobs.len());
    for (job, (spent, reserved, releases, reservations)) in jobs {
        let alone = Balance::rebuilt(budget, &reservations).map_err(|error| Error::internal("pricing a job", error))?;
        shares.push(JobShare { job: job.into(), spent, reserved, releases, alone: alone.summary().spent_epsilon });
    }
    shares.sort_by(|a, b| (b.spent + b.reserved).total_cmp(&(a.spent + a.reserved)).then(a.job.cmp(&b.job)));
    Ok(shares)
}
