//! The speed of the ledger: many clients reserve, then commit, then settle at once, through the same functions as workers
//! and stewards. A commit is a worker's call with one receipt, without the network: the checks of its lease and
//! signature, the charge, the log and the countersignature. A bare insert of one row on the same connections is measured
//! for comparison. For measurement only: the jobs are rows that nothing else uses.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ed25519_dalek::SigningKey;
use futures::future::try_join_all;
use sea_orm::{ActiveModelTrait as _, ConnectionTrait as _, DbBackend, IntoActiveModel as _, Statement};
use serde::Serialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use undertone_api::id::{DatasetId, JobId, LineageId, OrganizationId, WorkerId};
use undertone_api::job::{Charge, JobState, Spec, dp_sgd};
use undertone_api::plan::AccountKey;
use undertone_api::signed::{Receipt, Signed};
use undertone_privacy::ledger::{Budget, GridKind};
use undertone_privacy::mechanism::EVALUATOR_VERSION;
use undertone_privacy::{Adjacency, Delta, Epsilon, Event, NoiseMultiplier, PrivacyUnit, SamplingRate};
use uuid::Uuid;

use super::account;
use super::{ChargeRequest, reserve, settle};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::model::column::{JsonColumn, to_json};
use crate::model::participant::{ApprovalState, PartState};
use crate::model::{budget, job, lease, organization, participant, worker};
use crate::service::log;
use crate::service::receipt::countersign;

/// The size of a bare row, bytes: the same as of a ledger row.
const BARE: usize = 500;

/// The durations of one kind of transaction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BenchFigures {
    /// `bare`, `reserve`, `commit` or `settle`.
    pub operation: &'static str,
    /// The number of concurrent clients.
    pub clients: usize,
    /// The number of transactions.
    pub transactions: usize,
    /// The rate over all clients, which did nothing else in the meantime.
    pub per_second: f64,
    /// The median in milliseconds, including waiting.
    pub p50_ms: f64,
    /// The 99th percentile in milliseconds.
    pub p99_ms: f64,
}

/// One client: a site with an account of its own.
struct BenchClient {
    key: SigningKey,
    organization: OrganizationId,
    worker: WorkerId,
    dataset: DatasetId,
    lineage: LineageId,
    charge: Charge,
    jobs: Vec<Uuid>,
}

/// Returns the database's own settings for the durability of a commit.
///
/// # Errors
/// When the database does not answer.
pub async fn durability(ctx: &Ctx) -> Result<String, Error> {
    let settings: &[&str] = match ctx.db.read().get_database_backend() {
        DbBackend::Postgres => &["SHOW fsync", "SHOW synchronous_commit", "SHOW full_page_writes"],
        // The settings of the writing connection; those of the readers do not matter.
        _ => &["PRAGMA journal_mode", "PRAGMA synchronous"],
    };
    let mut values = Vec::new();
    for setting in settings {
        let (name, statement) =
            (setting.to_lowercase(), Statement::from_string(ctx.db.read().get_database_backend(), *setting));
        let value = ctx.db.write("ask", async |tx| Ok(tx.query_one_raw(statement.clone()).await?)).await?;
        let value = value.and_then(|row| {
            row.try_get_by_index::<String>(0)
                .or_else(|_| row.try_get_by_index::<i32>(0).map(|number| number.to_string()))
                .ok()
        });
        let name = name.split(' ').next_back().unwrap_or_default().to_owned();
        values.push(format!("{name}={}", value.unwrap_or_default()));
    }
    Ok(values.join(" "))
}

/// Inserts one row of a table without keys or triggers, `each` times by each client.
///
/// # Errors
/// When the database refuses.
pub async fn bare(ctx: &Ctx, clients: usize, each: usize) -> Result<BenchFigures, Error> {
    let table = "CREATE TABLE IF NOT EXISTS bench_row (number BIGINT NOT NULL, content TEXT NOT NULL)";
    ctx.db.write("bench", async |tx| Ok(tx.execute_unprepared(table).await?)).await?;
    let content = "0".repeat(BARE);
    let insert = format!("INSERT INTO bench_row VALUES (1, '{content}')");
    let client = |_| {
        let (ctx, insert) = (ctx.clone(), insert.clone());
        async move {
            let mut times = Vec::with_capacity(each);
            for _ in 0..each {
                let start = Instant::now();
                ctx.db.write("bench", async |tx| Ok(tx.execute_unprepared(&insert).await?)).await?;
                times.push(start.elapsed());
            }
            Ok::<_, Error>(times)
        }
    };
    together("bare", (0..clients).map(client)).await
}

/// Reserves `jobs` times by each client, each on its own account; then commits `releases` times for each reservation;
/// then settles them.
///
/// # Errors
/// When the database refuses.
pub async fn ledger(ctx: &Ctx, clients: usize, jobs: usize, releases: u64) -> Result<Vec<BenchFigures>, Error> {
    let mut fleet = Vec::with_capacity(clients);
    for _ in 0..clients {
        fleet.push(Arc::new(BenchClient::new(ctx, jobs, releases).await?));
    }
    // Signed before the clock starts: signing is the site's work.
    let receipts = fleet.iter().map(|client| client.receipts(ctx)).collect::<Result<Vec<_>, _>>()?;
    let each = || fleet.iter().map(Arc::clone);
    let reserve = together("reserve", each().map(|client| client.reserve(ctx.clone()))).await?;
    let commit =
        together("commit", each().zip(receipts).map(|(client, receipts)| client.commit(ctx.clone(), receipts)));
    let commit = commit.await?;
    let settle = together("settle", each().map(|client| client.settle(ctx.clone()))).await?;
    Ok(vec![reserve, commit, settle])
}

/// Runs a client's transactions of one kind concurrently with those of the others.
async fn together<W>(operation: &'static str, clients: impl Iterator<Item = W>) -> Result<BenchFigures, Error>
where
    W: Future<Output = Result<Vec<Duration>, Error>> + Send + 'static,
{
    let began = Instant::now();
    let all = try_join_all(clients.map(spawned)).await?;
    Ok(figures(operation, all.len(), all.concat(), began.elapsed()))
}

async fn spawned<T: Send + 'static>(work: impl Future<Output = Result<T, Error>> + Send + 'static) -> Result<T, Error> {
    tokio::spawn(work).await.map_err(|error| Error::internal("measuring", error))?
}

fn figures(operation: &'static str, clients: usize, mut times: Vec<Duration>, took: Duration) -> BenchFigures {
    times.sort_unstable();
    let at = |part: f64| {
        let index = ((times.len() as f64 * part) as usize).min(times.len().saturating_sub(1));
        times.get(index).map_or(0.0, |time| time.as_secs_f64() * 1e3)
    };
    let per_second = times.len() as f64 / took.as_secs_f64();
    BenchFigures { operation, clients, transactions: times.len(), per_second, p50_ms: at(0.5), p99_ms: at(0.99) }
}

impl BenchClient {
    /// Makes a site with an account, a limit, and jobs that only the ledger uses.
    async fn new(ctx: &Ctx, jobs: usize, releases: u64) -> Result<Self, Error> {
        let wrong = |error: &dyn std::fmt::Display| Error::internal("preparing a measurement", error.to_string());
        let event = Event::PoissonSampledGaussian {
            sampling_rate: SamplingRate::new(1.0 / 1024.0).map_err(|error| wrong(&error))?,
            noise_multiplier: NoiseMultiplier::new(50.0).map_err(|error| wrong(&error))?,
        };
        let charge = Charge { unit: PrivacyUnit::Record, adjacency: Adjacency::ZeroOut, event, releases };
        let client = Self {
            key: SigningKey::from_bytes(&ctx.random.bytes()),
            organization: ctx.id(),
            worker: ctx.id(),
            dataset: ctx.id(),
            lineage: ctx.id(),
            charge,
            jobs: (0..jobs).map(|_| ctx.id()).collect(),
        };
        let epsilon = Epsilon::new(100.0).map_err(|error| wrong(&error))?;
        let delta = Delta::new(1e-6).map_err(|error| wrong(&error))?;
        let limits = Budget::new(epsilon, delta, GridKind::for_epsilon(epsilon)).map_err(|error| wrong(&error))?;
        ctx.db
            .write("bench", async |tx| {
                let name = format!("client {}", client.organization);
                let row = organization::Model { id: client.organization.0, name, created_at: ctx.now() };
                row.into_active_model().insert(tx).await?;
                client.worker_row(ctx)?.into_active_model().insert(tx).await?;
                let mut account = account::open(ctx, tx, client.account()).await?;
                let began = account.begin(tx).await?;
                account.balance.set_budget(limits).map_err(|error| wrong(&error))?;
                let set = budget::Model {
                    id: ctx.id::<Uuid>(),
                    account_id: account.id(),
                    epsilon: 100.0,
                    delta: 1e-6,
                    limits: to_json(&limits)?,
                    set_by: Uuid::nil(),
                    set_at: ctx.now(),
                };
                let leaves: Vec<_> = began.into_iter().chain([log::leaf::of_limit(&set)]).collect();
                set.into_active_model().insert(tx).await?;
                log::append(ctx, tx, &leaves).await?;
                account.save(tx).await?;
                for id in &client.jobs {
                    client.job_row(ctx, *id)?.into_active_model().insert(tx).await?;
                    client.part_row(*id)?.into_active_model().insert(tx).await?;
                    client.lease_row(ctx, *id).into_active_model().insert(tx).await?;
                }
                Ok(())
            })
            .await?;
        Ok(client)
    }

    const fn account(&self) -> AccountKey {
        let Charge { unit, adjacency, .. } = self.charge;
        AccountKey::new(self.organization, self.lineage, unit, adjacency)
    }

    fn worker_row(&self, ctx: &Ctx) -> Result<worker::Model, Error> {
        Ok(worker::Model {
            id: self.worker.0,
            organization_id: self.organization.0,
            name: "client".to_owned(),
            public_key: hex::encode(self.key.verifying_key().as_bytes()),
            version: String::new(),
            kinds: JsonColumn::new(Vec::new())?,
            created_at: ctx.now(),
            last_seen_at: None,
            retired_at: None,
            replaces: None,
        })
    }

    fn job_row(&self, ctx: &Ctx, id: Uuid) -> Result<job::Model, Error> {
        let series = serde_json::from_value(json!([{
            "series": {
                "name": "private", "rounds": self.charge.releases, "quorum": 1, "deadline_seconds": 60,
                "weights": [[self.dataset, 1.0]],
            },
            "releases": [[self.dataset, self.charge.event]],
        }]))
        .map_err(|error| Error::internal("planning the rounds of a measurement", error))?;
        Ok(job::Model {
            id,
            consortium_id: Uuid::nil(),
            title: String::new(),
            kind: "bench".to_owned(),
            spec: JsonColumn::new(empty_spec(self.charge.unit))?,
            series: JsonColumn::new(series)?,
            state: JobState::Running.into(),
            manifest: "{}".to_owned(),
            signature: String::new(),
            digest: hex::encode(Sha256::digest(b"{}")),
            proposer_id: Uuid::nil(),
            proposed_by: String::new(),
            rounds_done: 0,
            rounds: self.charge.releases as i32,
            reason: None,
            refusals: JsonColumn::new(Vec::new())?,
            report: None,
            created_at: ctx.now(),
            started_at: Some(ctx.now()),
            finished_at: None,
            asks: false,
            answer_by: None,
            not_after: None,
            paused_at: None,
            paused_for: 0,
        })
    }

    fn part_row(&self, job_id: Uuid) -> Result<participant::Model, Error> {
        Ok(participant::Model {
            job_id,
            dataset_id: self.dataset.0,
            position: 0,
            lineage_id: self.lineage.0,
            organization_id: self.organization.0,
            worker_id: self.worker.0,
            dataset_name: "data".to_owned(),
            organization_name: "client".to_owned(),
            visibility: undertone_api::dataset::Visibility::Private.into(),
            purpose: undertone_api::job::DatasetUse::Participate.into(),
            charge: Some(JsonColumn::new(self.charge.clone())?),
            approval: ApprovalState::Approved.into(),
            approval_by: None,
            approval_reason: None,
            steward_approved: true,
            limit_id: None,
            site_answered: true,
            consent: None,
            state: PartState::Running.into(),
            releases: 0,
        })
    }

    /// Returns the lease of a job, whose token is the job's id.
    fn lease_row(&self, ctx: &Ctx, job_id: Uuid) -> lease::Model {
        lease::Model {
            job_id,
            dataset_id: self.dataset.0,
            worker_id: self.worker.0,
            token: job_id.to_string(),
            number: 1,
            granted_at: ctx.now(),
            expires_at: ctx.now() + time::Duration::hours(1),
        }
    }

    async fn reserve(self: Arc<Self>, ctx: Ctx) -> Result<Vec<Duration>, Error> {
        let asks = [ChargeRequest {
            dataset: self.dataset,
            dataset_name: String::new(),
            organization: self.organization,
            lineage: self.lineage,
            charge: self.charge.clone(),
        }];
        let mut times = Vec::with_capacity(self.jobs.len());
        for id in &self.jobs {
            let start = Instant::now();
            let refusals = ctx.db.write("reserve", async |tx| reserve(&ctx, tx, *id, &asks).await).await?;
            times.push(start.elapsed());
            if !refusals.is_empty() {
                return Err(Error::internal("measuring", "the limit is too small for the measurement"));
            }
        }
        Ok(times)
    }

    async fn commit(self: Arc<Self>, ctx: Ctx, receipts: Vec<(Uuid, Signed)>) -> Result<Vec<Duration>, Error> {
        let mut times = Vec::with_capacity(receipts.len());
        for (job, signed) in receipts {
            let start = Instant::now();
            countersign(&ctx, self.worker, &job.to_string(), &[signed]).await?;
            times.push(start.elapsed());
        }
        Ok(times)
    }

    async fn settle(self: Arc<Self>, ctx: Ctx) -> Result<Vec<Duration>, Error> {
        let mut times = Vec::with_capacity(self.jobs.len());
        for id in &self.jobs {
            let start = Instant::now();
            ctx.db.write("settle", async |tx| settle(&ctx, tx, *id, self.dataset.0).await).await?;
            times.push(start.elapsed());
        }
        Ok(times)
    }

    /// Returns a receipt for each release of each job, signed by the site.
    fn receipts(&self, ctx: &Ctx) -> Result<Vec<(Uuid, Signed)>, Error> {
        let mut previous = hex::encode(Sha256::digest(b""));
        let rounds = self.jobs.iter().flat_map(|job| (1..=self.charge.releases).map(move |round| (*job, round)));
        let signed = rounds.zip(1..).map(|((job, round), sequence)| {
            let receipt = Receipt {
                sequence,
                previous: previous.clone(),
                worker: self.worker,
                dataset: self.dataset,
                lineage: self.lineage,
                job: JobId(job),
                manifest: hex::encode(Sha256::digest(b"{}")),
                series: "private".to_owned(),
                round: round as u32,
                attempt: 1,
                unit: self.charge.unit,
                adjacency: self.charge.adjacency,
                event: self.charge.event.clone(),
                evaluator: EVALUATOR_VERSION.to_owned(),
                at: ctx.now(),
                tick: None,
            };
            let signed = Signed::new(&receipt, &self.key);
            let signed = signed.map_err(|error| Error::internal("signing a receipt", error))?;
            previous = signed.digest();
            Ok((job, signed))
        });
        signed.collect()
    }
}

/// Returns a spec without rounds: the ledger reads the planned series.
fn empty_spec(unit: PrivacyUnit) -> Spec {
    Spec::DpSgd(dp_sgd::Spec {
        unit,
        model: dp_sgd::AcousticModel::lstm(1, None),
        initial_model: None,
        participants: Vec::new(),
        open_terms: Vec::new(),
        rehearsal: None,
        tests: Vec::new(),
        warm_start: dp_sgd::WarmStart { epochs: 1, batch: 1, learning_rate: 0.1, seed: 1 },
        open: None,
        private: None,
        audit: None,
        selection: None,
        secure_aggregation: None,
        weights: dp_sgd::AverageWeights::Equal,
        spare_releases: 0,
        checkpoint_every: 10,
    })
}
