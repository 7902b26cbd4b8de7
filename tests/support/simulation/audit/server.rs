//! The consortium's tables, read over a connection that cannot write: with the same queries on SQLite and on
//! PostgreSQL.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use sea_orm::{ConnectionTrait as _, DbBackend, Statement, TryGetable as _};
use undertone_api::id::{DatasetId, JobId};
use undertone_api::job::JobState;
use undertone_privacy::ledger::Balance;
use undertone_privacy::{Adjacency, Event};
use undertone_server_core::Ctx;
use uuid::Uuid;

use super::super::{Failed, StopReason};
use super::record::{self, TableRecord, version};
use super::sums::{ReservationState, check_cap, projected};

/// Tables of record.
const RECORD: [&str; 7] = ["ledger_entry", "receipt", "budget", "decision", "log_leaf", "log_head", "countersignature"];

/// The state computed from the rows.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConsortiumState {
    /// The digests of each worker's receipts, in their order.
    pub(crate) receipts: BTreeMap<String, Vec<String>>,
    pub(crate) parts: BTreeMap<(JobId, DatasetId), ReservationState>,
    pub(crate) jobs: BTreeMap<JobId, JobState>,
}

impl ConsortiumState {
    /// Returns the jobs that have not ended.
    pub(crate) fn open_jobs(&self) -> impl Iterator<Item = JobId> {
        self.jobs.iter().filter(|(_, state)| !state.is_over()).map(|(job, _)| *job)
    }
}

/// The auditor of the consortium.
pub(crate) struct ConsortiumAuditor {
    /// The file; on PostgreSQL the servers' own read connections are used.
    file: Option<Connection>,
    version: i64,
    record: TableRecord,
    pub(crate) consortium: ConsortiumState,
}

impl ConsortiumAuditor {
    /// Opens the SQLite file in a server's data folder, for reading.
    pub(crate) fn from_file(data: &Path) -> Result<Self, Failed> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        Ok(Self {
            file: Some(Connection::open_with_flags(data.join("undertone.sqlite"), flags)?),
            ..Self::from_service()
        })
    }

    /// Reads through any running server.
    pub(crate) fn from_service() -> Self {
        Self { file: None, version: -1, record: TableRecord::default(), consortium: ConsortiumState::default() }
    }

    /// Checks the tables if they can be read and have changed; returns true when they had.
    pub(crate) async fn check(&mut self, ctx: Option<&Ctx>) -> Result<bool, StopReason> {
        if let Some(file) = &self.file {
            let now = version(file)?;
            if now == self.version {
                return Ok(false);
            }
            self.version = now;
        } else if ctx.is_none() {
            return Ok(false);
        }
        for table in RECORD {
            let lines = self.whole(ctx, table).await?;
            self.record.follows(table, lines).map_err(StopReason::Wrong)?;
        }
        self.consortium = self.read(ctx).await?;
        Ok(true)
    }

    async fn read(&self, ctx: Option<&Ctx>) -> Result<ConsortiumState, StopReason> {
        let mut consortium = ConsortiumState::default();
        for row in self.rows(ctx, "job", &["id", "state"], "id").await? {
            let state = serde_json::from_value(row[1].clone().into()).map_err(Failed::from)?;
            consortium.jobs.insert(id(&row[0])?.into(), state);
        }
        let receipts = self.receipts(ctx, &mut consortium).await?;
        let workers = self.participants(ctx).await?;
        self.entries(ctx, &mut consortium, &receipts, &workers).await?;
        self.leases(ctx, &consortium, &workers).await?;
        Ok(consortium)
    }

    /// Checks each worker's chain; returns the place that each receipt pays for.
    async fn receipts(
        &self,
        ctx: Option<&Ctx>,
        consortium: &mut ConsortiumState,
    ) -> Result<BTreeMap<String, Vec<String>>, StopReason> {
        let columns = ["worker_id", "sequence", "digest", "job_id", "dataset_id", "series", "round", "attempt"];
        let mut places = BTreeMap::new();
        for row in self.rows(ctx, "receipt", &columns, "worker_id, sequence").await? {
            let chain = consortium.receipts.entry(row[0].clone()).or_default();
            chain.push(row[2].clone());
            if row[1] != chain.len().to_string() {
                return Err(StopReason::Wrong("a chain of receipts at the consortium has a gap".to_owned()));
            }
            places.insert(row[2].clone(), row[3..].to_vec());
        }
        Ok(places)
    }

    /// Returns the worker of every participant with a charge.
    async fn participants(&self, ctx: Option<&Ctx>) -> Result<BTreeMap<(JobId, DatasetId), String>, StopReason> {
        let mut workers = BTreeMap::new();
        for row in self
            .rows(ctx, "participant", &["job_id", "dataset_id", "worker_id", "charge"], "job_id, dataset_id")
            .await?
        {
            if !row[3].is_empty() {
                workers.insert((id(&row[0])?.into(), id(&row[1])?.into()), row[2].clone());
            }
        }
        Ok(workers)
    }

    /// Checks the ledger: every account's rows, its cap and its balance, and that every receipt is counted once.
    async fn entries(
        &self,
        ctx: Option<&Ctx>,
        consortium: &mut ConsortiumState,
        receipts: &BTreeMap<String, Vec<String>>,
        workers: &BTreeMap<(JobId, DatasetId), String>,
    ) -> Result<(), StopReason> {
        let columns =
            ["account_id", "kind", "job_id", "dataset_id", "series", "round", "attempt", "event", "count", "receipt"];
        let mut accounts: BTreeMap<String, BTreeMap<(JobId, DatasetId), ReservationState>> = BTreeMap::new();
        let mut used_receipts = BTreeSet::new();
        for row in self.rows(ctx, "ledger_entry", &columns, "account_id, sequence").await? {
            let place = (id(&row[2])?.into(), id(&row[3])?.into());
            let event: Event = serde_json::from_str(&row[7]).map_err(Failed::from)?;
            let count: u64 = row[8].parse().map_err(Failed::from)?;
            let parts = accounts.entry(row[0].clone()).or_default();
            match (row[1].as_str(), parts.get_mut(&place)) {
                ("reserve", None) => {
                    let worker = workers.get(&place).cloned().unwrap_or_default();
                    parts.insert(place, ReservationState { worker, ..ReservationState::new(event, count) });
                }
                ("commit", Some(part)) => {
                    part.commit(&event).map_err(StopReason::Wrong)?;
                    if !used_receipts.insert(row[9].clone()) {
                        return Err(StopReason::Wrong("a receipt was counted twice".to_owned()));
                    }
                    let place_key = [&row[2..4], &row[4..7]].concat();
                    if count != 1 || receipts.get(&row[9]) != Some(&place_key) {
                        return Err(StopReason::Wrong("a release was counted without its receipt".to_owned()));
                    }
                }
                ("settle", Some(part)) => part.settle(count).map_err(StopReason::Wrong)?,
                _ => {
                    return Err(StopReason::Wrong(
                        "a row of the consortium's ledger has no reservation, or a second one".to_owned(),
                    ));
                }
            }
        }
        if used_receipts.len() != receipts.len() {
            return Err(StopReason::Wrong(format!(
                "{} receipts are kept and {} counted",
                receipts.len(),
                used_receipts.len()
            )));
        }
        for row in self.rows(ctx, "account", &["id", "balance"], "id").await? {
            let balance: Balance = serde_json::from_str(&row[1]).map_err(Failed::from)?;
            let parts = accounts.remove(&row[0]).unwrap_or_default();
            projected(balance.spent(), balance.reserved(), Adjacency::ZeroOut, parts.values())?
                .map_err(StopReason::Wrong)?;
            if let Some(budget) = balance.budget() {
                check_cap(budget, Adjacency::ZeroOut, parts.values())?.map_err(StopReason::Wrong)?;
            } else if !parts.is_empty() {
                return Err(StopReason::Wrong("something is reserved on an account without a budget".to_owned()));
            }
            consortium.parts.extend(parts);
        }
        Ok(())
    }

    /// Checks that no lease lacks a reservation, and that no private vector was accepted without a payment.
    async fn leases(
        &self,
        ctx: Option<&Ctx>,
        consortium: &ConsortiumState,
        workers: &BTreeMap<(JobId, DatasetId), String>,
    ) -> Result<(), StopReason> {
        for row in self.rows(ctx, "lease", &["job_id", "dataset_id"], "job_id, dataset_id").await? {
            let place = (id(&row[0])?.into(), id(&row[1])?.into());
            if workers.contains_key(&place) && !consortium.parts.contains_key(&place) {
                return Err(StopReason::Wrong("there is a lease, and nothing was reserved for it".to_owned()));
            }
        }
        let columns = ["job_id", "dataset_id", "series", "round"];
        let paid_places: BTreeSet<Vec<String>> =
            self.rows(ctx, "receipt", &columns, "worker_id, sequence").await?.into_iter().collect();
        for row in self.rows(ctx, "submission", &columns, "job_id, dataset_id").await? {
            let place = (id(&row[0])?.into(), id(&row[1])?.into());
            if workers.contains_key(&place) && !paid_places.contains(&row) {
                return Err(StopReason::Wrong("a vector was accepted, and no receipt pays for it".to_owned()));
            }
        }
        Ok(())
    }

    /// Returns columns of a table as text, with ids in hex.
    async fn rows(
        &self,
        ctx: Option<&Ctx>,
        table: &str,
        columns: &[&str],
        order: &str,
    ) -> Result<Vec<Vec<String>>, Failed> {
        if let Some(file) = &self.file {
            return record::rows(file, &format!("SELECT {} FROM {table} ORDER BY {order}", columns.join(", ")));
        }
        let column = |name: &&str| {
            let text = format!("coalesce({name}::text, '')");
            if name.ends_with("id") { format!("replace({text}, '-', '')") } else { text }
        };
        let fields = columns.iter().map(column).collect::<Vec<_>>().join(", ");
        let sql = format!("SELECT ARRAY[{fields}] FROM {table} ORDER BY {order}");
        query_rows(ctx, sql).await
    }

    /// Returns every row of a table as one text.
    async fn whole(&self, ctx: Option<&Ctx>, table: &'static str) -> Result<Vec<String>, Failed> {
        if let Some(file) = &self.file {
            let rows = record::rows(file, &format!("SELECT * FROM {table}"))?;
            return Ok(rows.into_iter().map(|row| row.join("\u{1f}")).collect());
        }
        Ok(query_rows(ctx, format!("SELECT ARRAY[t::text] FROM {table} t")).await?.into_iter().flatten().collect())
    }
}

/// Returns the rows of a PostgreSQL query that selects one text array.
async fn query_rows(ctx: Option<&Ctx>, sql: String) -> Result<Vec<Vec<String>>, Failed> {
    let Some(ctx) = ctx else { return Ok(Vec::new()) };
    let rows = ctx.db.read().query_all_raw(Statement::from_string(DbBackend::Postgres, sql)).await?;
    rows.iter().map(|row| Ok(Vec::<String>::try_get_by(row, 0_usize).map_err(sea_orm::DbErr::from)?)).collect()
}

fn id(hex: &str) -> Result<Uuid, Failed> {
    Ok(Uuid::parse_str(hex)?)
}
