//! Pools: the texts that a site releases for annotation. A pool is accepted like a vector: its charge is committed in
//! the transaction that accepts it, once, however often it is sent. The lead sees all pools when no more are awaited,
//! and from then on they do not change.

use std::time::Duration as Wait;

use object_store::path::Path;
use sea_orm::{ActiveModelTrait as _, EntityTrait as _, IntoActiveModel as _};
use time::{Duration, OffsetDateTime};
use undertone_api::dataset::Visibility;
use undertone_api::id::{DatasetId, JobId, WorkerId};
use undertone_api::problem::{Code, Violation};
use undertone_api::question::QuestionPlan;
use undertone_api::signed::Signed;
use undertone_proto::question::MAX_SIZE;
use uuid::Uuid;

use super::{POOLS, led, pools, read_plan};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::exchange::annotate::{self, StoredPool};
use crate::exchange::object::{self, ObjectUpload};
use crate::model::participant::PartState;
use crate::model::{asking, job, participant, pool};
use crate::rule::job::load_participants;
use crate::service::lease::{self, ActiveLease};
use crate::service::receipt;
use crate::service::round::{AcceptedSubmission, object_error};

/// The longest wait that a worker may request, seconds.
pub const LONGEST_WAIT: u32 = 60;
/// The interval of queries for changes by other replicas or by time.
pub(super) const LOOK_AGAIN: Wait = Wait::from_secs(1);

/// The header of a pool's upload.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolHeader {
    /// Fencing token.
    pub lease: String,
    /// The series.
    pub series: String,
    /// The round: 1.
    pub round: u32,
    /// Receipts that the server does not know yet, oldest first.
    pub receipts: Vec<Signed>,
    /// The size of its wire format, bytes.
    pub size: u64,
    /// SHA-256 of its wire format, hex.
    pub digest: String,
}

/// An upload of a pool in progress.
pub struct PoolUpload {
    header: PoolHeader,
    worker: WorkerId,
    held: ActiveLease,
    object: Path,
    upload: ObjectUpload,
}

/// An accepted pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptedPool {
    /// The dataset.
    pub dataset: DatasetId,
    /// The number of questions.
    pub questions: u64,
    /// The size of its wire format, bytes.
    pub size: u64,
    /// SHA-256 of its wire format, hex.
    pub digest: String,
    /// Its path in the object store.
    pub object: Path,
}

/// All pools of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobPools {
    /// The pools, in the order of the participants.
    pub pools: Vec<AcceptedPool>,
    /// The datasets without a pool.
    pub missing: Vec<DatasetId>,
}

/// The result for a pool.
enum PoolOutcome {
    New,
    Repeated,
    Other,
    Closed,
    Unpaid,
}

/// Begins the upload of a pool, and makes every check that does not need its bytes.
///
/// # Errors
/// `validation_failed` with every invalid field, `too_large`, `lease_lost`.
pub async fn begin(ctx: &Ctx, worker: WorkerId, header: PoolHeader) -> Result<PoolUpload, Error> {
    if header.size > MAX_SIZE {
        return Err(Error::problem(Code::TooLarge, format!("a pool has at most {MAX_SIZE} bytes")));
    }
    let (held, row) = lease::at_work(ctx.db.read(), worker, &header.lease).await?;
    let mut violations = Vec::new();
    if !object::is_digest(&header.digest) {
        violations.push(Violation::new("digest", "give a SHA-256 as 64 hex digits"));
    }
    if asks(&row, &held, &header.series)?.is_none() {
        violations.push(Violation::new("series", "this dataset asks nothing under this name"));
    }
    if header.round != 1 {
        violations.push(Violation::new("round", "a pool is sent once, in round 1"));
    }
    if !violations.is_empty() {
        return Err(Error::validation(violations));
    }
    lease::extend(ctx, &held, &header.lease).await?;
    let object = annotate::path(held.job, held.dataset, ctx.id::<Uuid>());
    let upload = ObjectUpload::begin(&ctx.store, &object, header.size, &header.digest).await.map_err(object_error)?;
    Ok(PoolUpload { header, worker, held, object, upload })
}

/// Returns the job's questions, if the lease's dataset releases texts under this name.
fn asks(row: &job::Model, held: &ActiveLease, series: &str) -> Result<Option<QuestionPlan>, Error> {
    Ok(read_plan(row).filter(|questions| questions.series == series && questions.asking.contains(&held.dataset)))
}

impl PoolUpload {
    /// Takes the next bytes.
    ///
    /// # Errors
    /// `bad_signature` when they do not match the header.
    pub async fn write(&mut self, data: &[u8]) -> Result<(), Error> {
        self.upload.write(data).await.map_err(object_error)
    }

    /// Reads every question, then commits the charge and accepts the pool, in one transaction.
    ///
    /// # Errors
    /// `validation_failed` or `too_large` for an invalid pool; `bad_signature` when the bytes do not match the header,
    /// or no receipt pays for them; `round_closed` when it is too late (its receipts are counted all the same),
    /// `already_exists` when another pool of the dataset was accepted.
    pub async fn accept(self, ctx: &Ctx) -> Result<AcceptedSubmission, Error> {
        let Self { header, worker, held, object, upload } = self;
        upload.finish().await.map_err(object_error)?;
        let result = take(ctx, worker, &header, &held, &object).await;
        if !matches!(result, Ok((PoolOutcome::New, _))) {
            object::remove(&ctx.store, &object).await.map_err(object_error)?;
        }
        let (accepted, countersignatures) = result?;
        match accepted {
            PoolOutcome::New => {
                ctx.changes().notify_job(held.job);
                Ok(AcceptedSubmission { repeated: false, countersignatures })
            }
            PoolOutcome::Repeated => Ok(AcceptedSubmission { repeated: true, countersignatures }),
            PoolOutcome::Other => Err(Error::problem(
                Code::AlreadyExists,
                "another pool of this dataset was accepted: a job draws one sample",
            )),
            PoolOutcome::Closed => Err(Error::problem(
                Code::RoundClosed,
                "the lead has the pools already, without this one; it stays paid",
            )),
            PoolOutcome::Unpaid => {
                Err(Error::problem(Code::BadSignature, "no receipt pays for this pool: send the one that does"))
            }
        }
    }
}

async fn take(
    ctx: &Ctx,
    worker: WorkerId,
    header: &PoolHeader,
    held: &ActiveLease,
    object: &Path,
) -> Result<(PoolOutcome, Vec<Signed>), Error> {
    let pool = StoredPool { dataset: held.dataset, object: object.clone() };
    let questions = annotate::count(&ctx.store, ctx.readings(), held.job, &pool).await.map_err(object_error)?;
    ctx.db
        .write("accept pool", async |tx| {
            // As with vectors: charges are counted even when the pool is refused. From here on a refusal is a value.
            let countersignatures = receipt::accept(ctx, tx, worker, &header.receipts).await?;
            Ok((accept(ctx, tx, worker, header, object, questions).await?, countersignatures))
        })
        .await
}

async fn accept(
    ctx: &Ctx,
    tx: &Tx,
    worker: WorkerId,
    header: &PoolHeader,
    object: &Path,
    questions: u64,
) -> Result<PoolOutcome, Error> {
    let (held, row) = lease::at_work(tx, worker, &header.lease).await?;
    let digest = header.digest.to_ascii_lowercase();
    let key = (held.job.0, held.dataset.0, header.series.clone(), header.round as i32);
    if let Some(before) = pool::Entity::find_by_id(key).one(tx).await? {
        return Ok(if before.digest == digest { PoolOutcome::Repeated } else { PoolOutcome::Other });
    }
    let part = participant::Entity::find_by_id((held.job.0, held.dataset.0)).one(tx).await?;
    let public = part.is_some_and(|part| part.visibility == Visibility::Public);
    let is_paid = receipt::pays_for(tx, &held, &header.series, header.round).await?;
    if !(public || is_paid) {
        return Ok(PoolOutcome::Unpaid);
    }
    if is_closed(tx, &row).await? {
        return Ok(PoolOutcome::Closed);
    }
    let row = pool::Model {
        job_id: held.job.0,
        dataset_id: held.dataset.0,
        series: header.series.clone(),
        round: header.round as i32,
        digest,
        object: object.to_string(),
        size: header.size as i64,
        questions: questions as i64,
        accepted_at: ctx.now(),
    };
    row.into_active_model().insert(tx).await?;
    tracing::info!(job.id = %held.job, questions, "a pool of questions was accepted");
    Ok(PoolOutcome::New)
}

/// Returns whether the lead has seen the pools.
pub(super) async fn is_closed(connection: &impl sea_orm::ConnectionTrait, row: &job::Model) -> Result<bool, Error> {
    Ok(asking::Entity::find_by_id((row.id, POOLS)).one(connection).await?.is_some())
}

/// Waits up to `wait_seconds` for all pools of the job; `None` while some are awaited. Participants that have ended
/// their part without a pool are not awaited, nor is any after the deadline, if there is a pool at all.
///
/// # Errors
/// 403 for any worker but the lead's, `lease_lost` when the lease or the job has ended.
pub async fn wait_for_pools(
    ctx: &Ctx,
    worker: WorkerId,
    token: &str,
    wait_seconds: u32,
) -> Result<Option<JobPools>, Error> {
    let wait = Wait::from_secs(u64::from(wait_seconds.min(LONGEST_WAIT)));
    let end = tokio::time::Instant::now() + wait;
    let mut waiter = ctx.changes().subscribe_to_job(lease::find_lease(ctx.db.read(), worker, token).await?.job);
    loop {
        let (held, row) = lease::at_work(ctx.db.read(), worker, token).await?;
        lease::extend(ctx, &held, token).await?;
        let questions = led(&row, &held)?;
        if is_closed(ctx.db.read(), &row).await? || close_if_due(ctx, &row, &questions).await? {
            return Ok(Some(all(ctx, held.job, &questions).await?));
        }
        let remaining = end.saturating_duration_since(tokio::time::Instant::now());
        if remaining.is_zero() {
            return Ok(None);
        }
        tokio::select! {
            () = waiter.wait(remaining.min(LOOK_AGAIN)) => {}
            () = ctx.shutdown.cancelled() => return Ok(None),
        }
    }
}

async fn all(ctx: &Ctx, job: JobId, questions: &QuestionPlan) -> Result<JobPools, Error> {
    let rows = pools(ctx.db.read(), job, questions).await?;
    let missing = questions.asking.iter().filter(|dataset| rows.iter().all(|row| row.dataset_id != dataset.0));
    let missing = missing.copied().collect();
    let pool = |row: pool::Model| AcceptedPool {
        dataset: row.dataset_id.into(),
        questions: row.questions as u64,
        size: row.size as u64,
        digest: row.digest,
        object: row.object.into(),
    };
    Ok(JobPools { pools: rows.into_iter().map(pool).collect(), missing })
}

/// Returns the time from which on the pools are no longer awaited.
pub(super) fn deadline(ctx: &Ctx, row: &job::Model, questions: &QuestionPlan) -> OffsetDateTime {
    let began = row.started_at.unwrap_or_else(|| ctx.now()) + Duration::milliseconds(row.paused_for);
    began + Duration::seconds(i64::from(questions.deadline_seconds))
}

/// Returns the participants that still have a pool to send, in the order of the participants.
pub(super) async fn find_missing_participants(
    connection: &impl sea_orm::ConnectionTrait,
    row: &job::Model,
    questions: &QuestionPlan,
) -> Result<Vec<participant::Model>, Error> {
    let here = pools(connection, row.id.into(), questions).await?;
    let parts = load_participants(connection, row.id.into()).await?;
    let asks = |part: &participant::Model| questions.asking.contains(&part.dataset_id.into());
    let has_pool = |part: &participant::Model| here.iter().any(|pool| pool.dataset_id == part.dataset_id);
    let ended = |part: &participant::Model| part.state == PartState::Done || part.state.is_out();
    Ok(parts.into_iter().filter(|part| asks(part) && !has_pool(part) && !ended(part)).collect())
}

/// Closes the pools, if they are due: from then on they do not change.
async fn close_if_due(ctx: &Ctx, row: &job::Model, questions: &QuestionPlan) -> Result<bool, Error> {
    if !due(ctx, ctx.db.read(), row, questions).await? {
        return Ok(false);
    }
    let closed = ctx
        .db
        .write("close pools", async |tx| {
            if is_closed(tx, row).await? {
                return Ok(true);
            }
            if !due(ctx, tx, row, questions).await? {
                return Ok(false);
            }
            let count = pools(tx, row.id.into(), questions).await?.iter().map(|pool| pool.questions).sum();
            let closed = asking::Model {
                job_id: row.id,
                round: POOLS,
                questions: count,
                opened_at: row.started_at.unwrap_or_else(|| ctx.now()),
                deadline: deadline(ctx, row, questions),
                closed_at: Some(ctx.now()),
            };
            closed.into_active_model().insert(tx).await?;
            Ok(true)
        })
        .await?;
    ctx.changes().notify_job(row.id.into());
    Ok(closed)
}

async fn due(
    ctx: &Ctx,
    connection: &impl sea_orm::ConnectionTrait,
    row: &job::Model,
    questions: &QuestionPlan,
) -> Result<bool, Error> {
    let some = !pools(connection, row.id.into(), questions).await?.is_empty();
    let late = ctx.now() >= deadline(ctx, row, questions);
    Ok((some && late) || find_missing_participants(connection, row, questions).await?.is_empty())
}
