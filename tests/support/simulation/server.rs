//! The server's processes: the real service layer, opened from its disk, killed at any point, opened again. On
//! PostgreSQL there are two of them on one database.

use std::panic::AssertUnwindSafe;
use std::path::Path;

use futures::FutureExt as _;
use time::Duration;
use undertone_api::id::WorkerId;
use undertone_server_core::ctx::{ManualClock, Random};
use undertone_server_core::error::Error;
use undertone_server_core::fault::{self, FailureKind, FailurePlan, SimulatedCrash};
use undertone_server_core::service::offer::OfferRequest;
use undertone_server_core::service::round::{VectorHeader, VectorUpload};
use undertone_server_core::service::{approval, finish, lease, offer, receipt, round, witness};
use undertone_server_core::{Config, Ctx};

use super::Failed;
use super::ground::{START, SimulationCopy, addresses, server_config};
use super::message::{CallOutcome, ServerAnswer, WorkerCall};

/// The number of pages that a full disk leaves free.
const ROOM: u32 = 1;

/// One process, running or not.
pub(super) struct SimulatedServer {
    config: Config,
    clock: ManualClock,
    seed: u64,
    lives: u64,
    pub(super) ctx: Option<Ctx>,
    /// An accident planned for the next call.
    pub(super) planned: Option<FailurePlan>,
    /// A vector that has arrived completely, but is not processed.
    arriving: Option<VectorUpload>,
}

impl SimulatedServer {
    pub(super) fn new(plot: &SimulationCopy, seed: u64) -> Self {
        Self {
            config: server_config(plot.root(), &plot.database),
            clock: ManualClock::starting_at(START),
            seed,
            lives: 0,
            ctx: None,
            planned: None,
            arriving: None,
        }
    }

    /// Returns the folder of its data.
    pub(super) fn data(&self) -> &Path {
        &self.config.data_dir
    }

    /// Starts the process, if it does not run.
    pub(super) async fn start(&mut self) -> Result<(), Failed> {
        if self.ctx.is_none() {
            self.lives += 1;
            let random = Random::seeded(self.seed.wrapping_mul(1_000_003).wrapping_add(self.lives));
            let opened =
                undertone_server_core::open(self.config.clone(), self.clock.clock(), random, None, addresses()).await?;
            self.ctx = Some(opened);
        }
        Ok(())
    }

    /// Ends the process immediately. Uncommitted state is lost.
    pub(super) async fn kill(&mut self) -> Result<(), Failed> {
        self.arriving = None;
        self.planned = None;
        if let Some(ctx) = self.ctx.take() {
            ctx.db.clone().close().await?;
        }
        Ok(())
    }

    /// Advances its clock.
    pub(super) fn pass(&self, time: Duration) {
        self.clock.advance(time);
    }

    /// Fills its disk, or frees space again.
    pub(super) async fn fill(&self, full: bool) -> Result<(), Failed> {
        if let Some(ctx) = &self.ctx {
            ctx.db.bound(if full { ROOM } else { u32::MAX - 1 }).await?;
        }
        Ok(())
    }

    /// Runs an action of the server process, which may crash during it.
    pub(super) async fn live<T>(
        &mut self,
        act: impl AsyncFnOnce(&Ctx) -> Result<T, Error>,
    ) -> Result<Option<Result<T, Error>>, Failed> {
        let Some(ctx) = self.ctx.clone() else { return Ok(None) };
        fault::plan(self.planned.take());
        let outcome = AssertUnwindSafe(act(&ctx)).catch_unwind().await;
        fault::plan(None);
        match outcome {
            Ok(outcome) => Ok(Some(outcome)),
            Err(payload) if payload.is::<SimulatedCrash>() => {
                drop(ctx);
                self.kill().await?;
                Ok(None)
            }
            Err(payload) => std::panic::resume_unwind(payload),
        }
    }

    /// Answers a message of a worker with an authenticated session.
    pub(super) async fn serve(&mut self, worker: WorkerId, message: WorkerCall) -> Result<CallOutcome, Failed> {
        let answer = self
            .live(async |ctx| {
                fault::point(fault::RECEIVED);
                let answer = answer(ctx, worker, message).await;
                fault::point(fault::BEFORE_ANSWER);
                answer
            })
            .await?;
        Ok(call_outcome(answer))
    }

    /// Receives all bytes of a vector, and stops before they are processed.
    pub(super) async fn receive(&mut self, worker: WorkerId, message: WorkerCall) -> Result<(), Failed> {
        if let WorkerCall::Submit { lease, series, round, letter } = message {
            let incoming = self.live(async |ctx| receive(ctx, worker, lease, series, round, letter).await).await?;
            if let Some(Ok(incoming)) = incoming {
                self.arriving = Some(incoming);
            }
        }
        Ok(())
    }

    /// Drops the vector that is arriving, because its sender is gone.
    pub(super) fn drop_arriving(&mut self) {
        self.arriving = None;
    }

    /// Processes the vector that has arrived; no sender waits for the answer. Returns `None` when there is none.
    pub(super) async fn decide_late(&mut self) -> Result<Option<CallOutcome>, Failed> {
        let Some(incoming) = self.arriving.take() else { return Ok(None) };
        let answer = self.live(async |ctx| incoming.accept(ctx).await.map(|_| ServerAnswer::Done)).await?;
        Ok(Some(call_outcome(answer)))
    }
}

fn call_outcome(answer: Option<Result<ServerAnswer, Error>>) -> CallOutcome {
    match answer {
        Some(Ok(answer)) => CallOutcome::Said(answer),
        Some(Err(error)) => {
            let problem = error.into_problem();
            CallOutcome::No(problem.code, problem.detail)
        }
        None => CallOutcome::Nothing,
    }
}

/// Answers a message as the gateway does, with one service call each.
async fn answer(ctx: &Ctx, worker: WorkerId, message: WorkerCall) -> Result<ServerAnswer, Error> {
    match message {
        WorkerCall::NextOffer { decided, leases } => {
            let asking = OfferRequest { wait_seconds: 0, decided, leases };
            Ok(ServerAnswer::Offer(Box::new(offer::next(ctx, worker, &asking).await?)))
        }
        WorkerCall::Decide(decision) => approval::decide(ctx, worker, &decision).await.map(|()| ServerAnswer::Done),
        WorkerCall::Countersign { lease, receipts } => {
            receipt::countersign(ctx, worker, &lease, &receipts).await.map(ServerAnswer::Signed)
        }
        WorkerCall::Receipts { after } => witness::receipts(ctx, worker, after).await.map(ServerAnswer::Signed),
        WorkerCall::Submit { lease, series, round, letter } => {
            receive(ctx, worker, lease, series, round, letter).await?.accept(ctx).await.map(|_| ServerAnswer::Done)
        }
        WorkerCall::Average { lease, series, round } => {
            Ok(ServerAnswer::Closed(round::average(ctx, worker, &lease, &series, round, 0).await?.is_some()))
        }
        WorkerCall::Renew { lease } => {
            let renewal = lease::renew(ctx, worker, &lease).await?;
            Ok(ServerAnswer::GoesOn(renewal.go_on, renewal.reason))
        }
        WorkerCall::Finish { lease, outcome, receipts } => {
            finish::finish(ctx, worker, &lease, &outcome, &receipts).await.map(|_| ServerAnswer::Done)
        }
    }
}

async fn receive(
    ctx: &Ctx,
    worker: WorkerId,
    lease: String,
    series: String,
    round: u32,
    letter: undertone_worker::daemon::Submission,
) -> Result<VectorUpload, Error> {
    let header = VectorHeader {
        lease,
        series,
        round,
        length: letter.parcel.length,
        size: letter.parcel.bytes.len() as u64,
        offset: 0,
        digest: letter.parcel.digest.clone(),
        receipts: letter.receipts,
    };
    let mut incoming = round::begin(ctx, worker, header).await?;
    incoming.write(&letter.parcel.bytes).await?;
    Ok(incoming)
}

/// Returns the plan of a crash of the process or a failure of its disk.
pub(super) const fn plan(death: bool, after: u64) -> FailurePlan {
    FailurePlan { accident: if death { FailureKind::Crash } else { FailureKind::Disk }, after }
}
