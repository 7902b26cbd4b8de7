//! One simulated worker's part in a job: all steps of the daemon for a run, in its order. Each round: check whether it
//! is closed, pause in place of training, pay, noise, store, send with the receipts, prove them, fetch the mean. The
//! vector is a real release of an empty batch: noise, paid for in the site's ledger, or exact numbers of a public
//! dataset.

use std::sync::Arc;
use std::time::Duration;

use support::stage::TestResult;
use tokio::task::block_in_place;
use undertone_api::id::JobId;
use undertone_api::job::Spec;
use undertone_api::job::dp_sgd::Precision;
use undertone_api::job::log::SiteEvent;
use undertone_api::problem::Code;
use undertone_api::signed::Manifest;
use undertone_proto::v1::LogEvent;
use undertone_worker::daemon::{self, PartSession, WorkExamination};
use undertone_worker::dp::clip::{Clip, ClippedSum};
use undertone_worker::dp::randomness::{Purpose, Randomness};
use undertone_worker::dp::release::Outgoing;
use undertone_worker::dp::sampler::Sampler;
use undertone_worker::gateway::{AverageQuery, Download, OfferedWork};
use undertone_worker::site::clearance::Clearance;

use super::job;
use super::record::RequestRecord;
use super::worker::{self, SimulatedWorker, UTTERANCES, now, wait_for_answer};

/// The pause in place of a round's training.
pub(super) const TRAINING: Duration = Duration::from_secs(2);
/// The series of every job.
const SERIES: &str = "private";

/// A part under its lease.
struct LeasedPart {
    worker: Arc<SimulatedWorker>,
    work: OfferedWork,
    record: RequestRecord,
    job: JobId,
    precision: Precision,
    /// The number of the last line in the job's log.
    said: u64,
}

/// Works on a part until it ends, or is dropped.
pub(super) async fn run(worker: Arc<SimulatedWorker>, work: OfferedWork, record: RequestRecord) {
    let ended = tokio::select! {
        ended = rounds(&worker, &work, &record) => ended,
        ended = keep(&worker, &work, &record) => ended,
    };
    if let Err(error) = ended {
        record.failed("part in a job", &error);
    }
}

/// Renews the lease at every third of its duration.
async fn keep(worker: &SimulatedWorker, work: &OfferedWork, record: &RequestRecord) -> TestResult<()> {
    loop {
        tokio::time::sleep(work.lease_time / 3).await;
        let renewal = wait_for_answer(record, "Renew", || worker.gateway().renew(&work.lease)).await?;
        if !renewal.is_active {
            return Err(renewal.reason.into());
        }
    }
}

async fn rounds(worker: &Arc<SimulatedWorker>, work: &OfferedWork, record: &RequestRecord) -> TestResult<()> {
    let mut session = block_in_place(|| take_up(worker, work))?;
    let all = session.examined().rounds(SERIES).unwrap_or(0);
    let mut part = LeasedPart {
        worker: Arc::clone(worker),
        work: work.clone(),
        record: record.clone(),
        job: session.examined().manifest.job,
        precision: session.precision(SERIES),
        said: u64::try_from(now().unix_timestamp()).unwrap_or(0).saturating_mul(1_000_000),
    };
    for round in 1..=all {
        if part.is_closed(round).await? {
            continue;
        }
        tokio::time::sleep(TRAINING).await;
        block_in_place(|| release(worker, &mut session, round))?;
        part.send(&session, round).await?;
        part.fetch(round).await?;
    }
    Err("it had more rounds than the measurement was to last".into())
}

/// Examines offered work, and takes it up.
fn take_up(worker: &SimulatedWorker, work: &OfferedWork) -> TestResult<PartSession> {
    let job = work.manifest.open::<Manifest>(&worker.config().server_key)?.job;
    match daemon::examine_work(worker.site(), work, job)? {
        WorkExamination::Ready(examined) => {
            if daemon::begin_part(worker.site(), work, &examined, &work.lease)?.is_some() {
                return Err("the site's ledger refuses".into());
            }
            Ok(PartSession::new(worker.site(), *examined)?)
        }
        WorkExamination::Refused(reason) | WorkExamination::Foreign(reason) => Err(reason.into()),
        WorkExamination::Ended(_) => Err("the part has ended before".into()),
        WorkExamination::Waiting(_) => Err("nobody has approved it".into()),
    }
}

/// Makes a vector as a run does, stores it on the disk, and pays for it.
fn release(worker: &SimulatedWorker, session: &mut PartSession, round: u32) -> TestResult<()> {
    let Spec::DpSgd(spec) = session.examined().manifest.spec.clone() else {
        return Err("it is of another kind".into());
    };
    let own = session.examined().dataset.id;
    let noise = spec.party(own).copied().and_then(|party| Some((party.noise?, party.sampling_rate)));
    let vector = match (session.clear(worker.site(), SERIES, round)?, noise) {
        (clearance @ Clearance::Public(_), _) => Outgoing::exact(vec![1e-3; job::parameters()], clearance)?,
        (granted @ Clearance::Granted(_), Some((noise, rate))) => {
            let clip = Clip::new(noise.clip, noise.noise_multiplier)?;
            let sum = ClippedSum::begin(&Sampler::new(UTTERANCES, rate).draw_fresh(), clip, job::parameters());
            let expected = rate.get() * UTTERANCES as f64;
            sum.release(expected, granted, &Randomness::from_os(Purpose::Noise))?.into()
        }
        (Clearance::Granted(_), None) => return Err("granted, and there is no noise to add".into()),
    };
    Ok(session.pay_vector(worker.site(), SERIES, round, &vector)?)
}

impl LeasedPart {
    async fn is_closed(&self, round: u32) -> TestResult<bool> {
        let (gateway, lease, download) = (self.worker.gateway(), &self.work.lease, &Download::default());
        let query = AverageQuery { series: SERIES, round, precision: self.precision, wait: Duration::ZERO };
        let ask = || gateway.average(lease, query, download);
        Ok(wait_for_answer(&self.record, "Average without waiting", ask).await?.is_some())
    }

    /// Sends the stored vector of a round.
    async fn send(&mut self, session: &PartSession, round: u32) -> TestResult<()> {
        let (gateway, lease) = (self.worker.gateway(), &self.work.lease);
        if let Some(asked) = block_in_place(|| session.charge(self.worker.site(), SERIES, round))? {
            let countersign = || gateway.countersign(lease, &asked.receipts);
            let answer = wait_for_answer(&self.record, "Countersign", countersign).await?;
            block_in_place(|| session.store_countersignatures(self.worker.site(), &asked, &answer))?;
        }
        let letter = block_in_place(|| session.submission(self.worker.site(), SERIES, round))?;
        self.record.sets_out(self.job, round);
        let submit = || gateway.submit(lease, SERIES, round, &letter.parcel, &letter.receipts);
        let (countersignatures, event) = match wait_for_answer(&self.record, "Submit", submit).await {
            Ok(sent) => (sent.countersignatures, SiteEvent::Sent { series: 0, round, repeated: sent.is_repeated }),
            // The release stays paid.
            Err(error) if error.code() == Some(Code::RoundClosed) => {
                (Vec::new(), SiteEvent::Missed { series: 0, round })
            }
            Err(error) => return Err(error.into()),
        };
        block_in_place(|| session.mark_received(self.worker.site(), SERIES, round, &letter))?;
        self.worker.attest(&self.record, &letter.receipts, &countersignatures).await?;
        self.say(event).await;
        Ok(())
    }

    /// Waits for a round to close, and fetches its mean.
    async fn fetch(&mut self, round: u32) -> TestResult<()> {
        let download = Download::default();
        loop {
            let (gateway, lease) = (self.worker.gateway(), &self.work.lease);
            let query = AverageQuery { series: SERIES, round, precision: self.precision, wait: worker::WAIT };
            let mean = gateway.average(lease, query, &download).await;
            match mean {
                Ok(Some(_)) => break,
                Ok(None) => {}
                Err(error) if error.is_transient() => {
                    self.record.failed("Average", &error);
                    tokio::time::sleep(worker::AGAIN).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.record.arrives(self.job, round);
        self.say(SiteEvent::Received { series: 0, round }).await;
        Ok(())
    }

    /// Adds an event to the job's log; a rejected event is dropped, as in the daemon.
    async fn say(&mut self, event: SiteEvent) {
        self.said += 1;
        let at = now().unix_timestamp();
        let events = [LogEvent { sequence: self.said, at_unix: at, event: Some(event.into()) }];
        // A failure is counted.
        let _ = self.record.request("Log", self.worker.gateway().log(&self.work.lease, at, &events)).await;
    }
}
