//! One part of one job, from its lease to its end: approval, reservation, run, settlement, report.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};
use tokio_util::sync::CancellationToken;
use undertone_api::dataset::Visibility;
use undertone_api::id::JobId;
use undertone_api::job::log::{Fault, Phase};

use super::decisions::{ApprovalVerdict, ProposalVerdict};
use super::departure::departure_reason;
use super::exchange::{RunResults, SiteExchange};
use super::lease::{Lease, LeaseEnd};
use super::log::{PartLog, classify_fault};
use super::part_end::end_part;
use super::release_clock::ReleaseClock;
use super::{Site, decisions, departure, hold};
use crate::gateway::OfferedWork;
use crate::run::{self, RunError};
use crate::site::admission::ExaminedManifest;
use crate::site::jobs::{self, RunOutcome, RunRow};
use crate::site::ledger::LedgerError;
use crate::site::policy::{is_exact, units_of};

/// The period of the search for an answer at the terminal.
const LOOK: Duration = Duration::from_secs(1);
/// The time for which a part is kept after its end could not be sent, so that it is not offered again at once.
const HOLD: Duration = Duration::from_secs(30);

/// The result of an examination of offered work.
pub enum WorkExamination {
    /// It may run.
    Ready(Box<ExaminedManifest>),
    /// It has ended before, with this outcome.
    Ended(RunOutcome),
    /// The site refuses it.
    Refused(String),
    /// It comes under another job's document, or a forged one.
    Foreign(String),
    /// The decision at the site's terminal is missing, or the site holds the job.
    Waiting(Box<ExaminedManifest>),
}

/// A part under its lease.
struct LeasedPart<'a> {
    site: &'a Arc<Site>,
    work: &'a OfferedWork,
    lease: &'a Arc<Lease>,
    job: JobId,
    log: &'a PartLog,
}

/// The end of a run on its thread.
struct RunEnd {
    result: Result<(), RunError>,
    results: RunResults,
    /// The clock of its releases; `None` when the run did not start.
    release_clock: Option<Arc<ReleaseClock>>,
}

impl RunEnd {
    /// Returns the end of a run that did not start.
    fn without_start(error: RunError) -> Self {
        Self { result: Err(error), results: RunResults::default(), release_clock: None }
    }
}

/// Works on a part until the part or its lease ends, or the daemon stops.
pub(super) async fn run_part(site: &Arc<Site>, work: OfferedWork, lease: &Arc<Lease>, slots: &Semaphore) {
    let Some(job) = decisions::verified_job(site, &work.manifest) else { return };
    let dataset = work.dataset;
    let log = PartLog::for_manifest(site, lease, &work.manifest);
    let renewal = async {
        lease.keep_alive(&site.gateway, work.lease_time).await;
        // After the end of the lease, the part ends by itself.
        std::future::pending::<()>().await;
    };
    let start = CancellationToken::new();
    let watch = async {
        hold::stop_when_held(site, lease, job, dataset, &start).await;
        std::future::pending::<()>().await;
    };
    let part = async {
        let leased = LeasedPart { site, work: &work, lease, job, log: &log };
        let outcome = leased.run(slots, &start).await;
        log.record_end(&outcome);
        log.flush().await;
        // The server then knows the reason for the end before the end itself.
        departure::send_departures(site).await;
        match outcome {
            Ok(Some(outcome)) => {
                if !end_part(site, job, dataset, &lease.token(), &outcome).await {
                    delay_next_offer(lease).await;
                }
            }
            Ok(None) => {
                tracing::info!(job.id = %job, dataset.id = %dataset, reason = lease.reason(), "the run stopped without an outcome");
            }
            Err(error) => {
                tracing::error!(job.id = %job, dataset.id = %dataset, error = %error, "the site's own disk fails; nothing is released");
                delay_next_offer(lease).await;
            }
        }
    };
    tokio::select! {
        () = part => {}
        () = renewal => {}
        () = watch => {}
        () = log.send_events() => {}
    }
}

/// Keeps the part for [`HOLD`], so that it is not offered again at once.
async fn delay_next_offer(lease: &Lease) {
    tokio::select! {
        () = tokio::time::sleep(HOLD) => {}
        () = lease.stop.cancelled() => {}
    }
}

impl LeasedPart<'_> {
    /// Runs the part up to its outcome; `None` when it stopped without one. Cancels `start` when it may run.
    async fn run(&self, slots: &Semaphore, start: &CancellationToken) -> Result<Option<RunOutcome>, LedgerError> {
        let Self { site, work, lease, job, log } = *self;
        let _slot;
        let examined = match self.await_decision().await? {
            None | Some(WorkExamination::Waiting(_)) => return self.stop_outcome(),
            Some(WorkExamination::Ended(outcome)) => return Ok(Some(outcome)),
            Some(WorkExamination::Foreign(reason)) => {
                log.record_fault(Fault::ForeignManifest);
                reject_work(site, work, job, reason).await;
                return Ok(None);
            }
            Some(WorkExamination::Refused(reason)) => {
                let is_terminal = decisions::is_terminal_refusal(site, &work.manifest, job, work.dataset, &reason)?;
                log.record_fault(if is_terminal { Fault::RefusedAtTerminal } else { Fault::RefusedByPolicy });
                let outcome = refuse_work(site, work, job, &lease.token(), reason)?;
                decisions::send_decisions(site).await;
                return Ok(Some(outcome));
            }
            Some(WorkExamination::Ready(examined)) => examined,
        };
        start.cancel();
        if slots.available_permits() == 0 {
            log.record_phase(Phase::AwaitsSlot);
        }
        tokio::select! {
            slot = slots.acquire() => _slot = slot,
            () = lease.stop.cancelled() => return self.stop_outcome(),
        }
        if let Some(outcome) = begin_part(site, work, &examined, &lease.token())? {
            log.record_fault(Fault::RefusedByLedger);
            decisions::send_decisions(site).await;
            return Ok(Some(outcome));
        }
        tracing::info!(job.id = %job, job.kind = examined.manifest.spec.kind(), dataset.name = examined.local.name, "the run begins");
        log.record_phase(Phase::Begun);
        let is_public = examined.local.visibility == Visibility::Public;
        let RunEnd { result, results, release_clock } = self.execute(*examined).await;
        if let Some(release_clock) = release_clock.filter(|_| !is_public) {
            // The end of a part with private data (done, failed or stopped) is reported on its clock, even after the
            // end of its lease.
            release_clock.wait_with_end(&lease.shutdown).await;
        }
        Ok(match result {
            Ok(()) => {
                tracing::info!(job.id = %job, dataset.id = %work.dataset, "the run is done");
                Some(RunOutcome::Done { report: results.report, audit: results.audit })
            }
            Err(RunError::Stopped(_)) => self.stop_outcome()?,
            Err(RunError::Refused(problem)) => {
                tracing::warn!(job.id = %job, dataset.id = %work.dataset, reason = problem.with_causes(), "the site refuses to continue the run");
                log.record_fault(Fault::RefusedByPolicy);
                Some(RunOutcome::GaveUp { reason: problem.to_string() })
            }
            Err(RunError::Disk(problem)) => {
                let reason = problem.with_causes();
                tracing::error!(job.id = %job, dataset.id = %work.dataset, reason, "the site's own disk fails; the part continues after the repair");
                log.record_fault(classify_fault(&reason));
                delay_next_offer(lease).await;
                self.stop_outcome()?
            }
            Err(RunError::Failed(problem)) => {
                let reason = problem.with_causes();
                tracing::error!(job.id = %job, dataset.id = %work.dataset, reason, "the run failed");
                log.record_fault(classify_fault(&reason));
                // Errors about private data stay at this site: they may contain a recording's name or a figure. Causes
                // stay here in any case.
                let public_reason = if is_public {
                    problem.to_string()
                } else {
                    "the run failed; this site's own log states the cause".to_owned()
                };
                Some(RunOutcome::GaveUp { reason: public_reason })
            }
        })
    }

    /// Returns the outcome of a part that stopped: one if the job is over or this site has left it, `None` if the part
    /// may come back.
    fn stop_outcome(&self) -> Result<Option<RunOutcome>, LedgerError> {
        // A release is refused after a departure, even before the watch of the lease has read it.
        if let Some(reason) = departure_reason(self.site, self.job, self.work.dataset)? {
            return Ok(Some(RunOutcome::Stopped { reason }));
        }
        Ok(match self.lease.end() {
            Some(LeaseEnd::Over(reason)) => Some(RunOutcome::Stopped { reason: reason.clone() }),
            Some(LeaseEnd::Lost(_)) | None => None,
        })
    }

    /// Examines work until there is an answer; `None` when the lease ended first.
    async fn await_decision(&self) -> Result<Option<WorkExamination>, LedgerError> {
        let Self { site, work, lease, job, log } = *self;
        let mut has_reported = false;
        loop {
            // Each pass judges anew: policy and ledger may have changed since the last one.
            let examined = match examine_work(site, work, job)? {
                WorkExamination::Waiting(examined) => examined,
                WorkExamination::Ended(outcome) => {
                    decisions::send_decisions(site).await;
                    return Ok(Some(WorkExamination::Ended(outcome)));
                }
                answer => return Ok(Some(answer)),
            };
            if !has_reported {
                let reason = decisions::waiting_reason(site, &examined, work)?;
                hold::record_wait(site, &examined.digest, job, work.dataset, &reason)?;
                hold::send_holds(site).await;
                tracing::warn!(job.id = %examined.manifest.job, dataset.name = examined.local.name, reason = &*reason, "work waits for the operator of this site");
                log.record_phase(Phase::AwaitsTerminal);
                has_reported = true;
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                () = lease.stop.cancelled() => return Ok(None),
            }
        }
    }

    /// Runs the job on a separate thread.
    async fn execute(&self, examined: ExaminedManifest) -> RunEnd {
        let (end_sender, end) = oneshot::channel();
        let (clock_sender, release_clock) = oneshot::channel();
        let handle = Handle::current();
        let site = Arc::clone(self.site);
        let lease = Arc::clone(self.lease);
        let log = self.log.clone();
        let name = format!("run {}", examined.local.name);
        let thread = std::thread::Builder::new().name(name).spawn(move || {
            let spec = examined.manifest.spec.clone();
            let mut exchange = match SiteExchange::new(handle, site, lease, examined) {
                Ok(exchange) => exchange.with_log(log),
                Err(error) => return drop(end_sender.send((Err(error), RunResults::default()))),
            };
            // The receiver is gone when the daemon has stopped.
            drop(clock_sender.send(exchange.release_clock()));
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run::run(&spec, &mut exchange)))
                .unwrap_or_else(|_| Err(RunError::failed("the run panicked; the log has the place")));
            // The receiver is gone when the daemon has stopped.
            drop(end_sender.send((result, exchange.into_results())));
        });
        if let Err(error) = thread {
            return RunEnd::without_start(RunError::failed(format!("cannot start a thread: {error}")));
        }
        let lost_thread = || Err(RunError::failed("the run's thread is gone"));
        let (result, results) = end.await.unwrap_or_else(|_| (lost_thread(), RunResults::default()));
        RunEnd { result, results, release_clock: release_clock.await.ok() }
    }
}

/// Rejects work under a document that is not the manifest of its job: with a signed refusal and the end of the lease.
/// The site's records, reservations and runs under the job's own manifest do not change.
pub(super) async fn reject_work(site: &Site, work: &OfferedWork, job: JobId, reason: String) {
    tracing::error!(job.id = %job, dataset.id = %work.dataset, reason, "the worker refuses a forbidden request of the server");
    if let Err(error) = decisions::refuse(site, &work.manifest, job, work.dataset, &reason) {
        return tracing::error!(job.id = %job, error = %error, "cannot record a refusal");
    }
    decisions::send_decisions(site).await;
    // It is sent once: after a loss, the work is offered and rejected again.
    if let Err(error) = site.gateway.finish(&work.lease, &RunOutcome::GaveUp { reason }, &[]).await {
        tracing::warn!(job.id = %job, error = %error, "the server does not accept the return of a lease");
    }
}

/// Examines offered work once: the document's signature, the part's earlier end, the contents, policy, ledger, and
/// approval.
///
/// # Errors
/// [`LedgerError`] when the site's own disk fails; that is no answer to an offer.
pub fn examine_work(site: &Site, work: &OfferedWork, job: JobId) -> Result<WorkExamination, LedgerError> {
    if let Some(reason) = decisions::find_document_fault(site, &work.manifest)? {
        return Ok(WorkExamination::Foreign(reason));
    }
    let earlier = jobs::run(&site.store, job, work.dataset)?;
    if let Some(RunRow { ended: Some(outcome), is_acknowledged, .. }) = earlier {
        if is_acknowledged {
            tracing::error!(job.id = %job, dataset.id = %work.dataset, "the server offers work whose end it has acknowledged");
            let reason = "the job is over at this site; propose a new one";
            decisions::refuse(site, &work.manifest, job, work.dataset, reason)?;
        }
        return Ok(WorkExamination::Ended(outcome));
    }
    if let Some(reason) = departure_reason(site, job, work.dataset)? {
        jobs::record_start(&site.store, job, work.dataset, &work.lease)?;
        return Ok(WorkExamination::Ended(RunOutcome::Stopped { reason }));
    }
    let (examined, rules) = match decisions::judge(site, &work.manifest, work.dataset)? {
        ProposalVerdict::Allowed(examined, rules) => (examined, rules),
        ProposalVerdict::Refused(reason) => return Ok(WorkExamination::Refused(reason)),
    };
    if examined.manifest.awaits_terms() {
        let reason = "the manifest still leaves terms to the parties: this site runs the final one, with every answer";
        return Ok(WorkExamination::Refused(reason.to_owned()));
    }
    let approval = decisions::judge_approval(site, &examined, &rules, work)?;
    let is_held = hold::update_hold(site, &examined, approval != ApprovalVerdict::Pending)?;
    Ok(match approval {
        ApprovalVerdict::Approved if is_held => WorkExamination::Waiting(examined),
        ApprovalVerdict::Approved => WorkExamination::Ready(examined),
        ApprovalVerdict::Refused(reason) => WorkExamination::Refused(reason),
        ApprovalVerdict::Pending => WorkExamination::Waiting(examined),
    })
}

/// Records that the site refuses a part: a refusal to send, and the part's end.
///
/// # Errors
/// [`LedgerError`] when the site's own disk fails.
pub fn refuse_work(
    site: &Site,
    work: &OfferedWork,
    job: JobId,
    lease: &str,
    reason: String,
) -> Result<RunOutcome, LedgerError> {
    tracing::warn!(job.id = %job, dataset.id = %work.dataset, reason, "the site refuses work");
    decisions::refuse(site, &work.manifest, job, work.dataset, &reason)?;
    jobs::record_start(&site.store, job, work.dataset, lease)?;
    Ok(RunOutcome::GaveUp { reason })
}

/// Begins an admitted part: records its lease, and reserves its worst case. Returns `None` when it can run; its end
/// when the site's ledger refuses.
///
/// # Errors
/// [`LedgerError`] when the site's own disk fails.
pub fn begin_part(
    site: &Site,
    work: &OfferedWork,
    examined: &ExaminedManifest,
    lease: &str,
) -> Result<Option<RunOutcome>, LedgerError> {
    let job = examined.manifest.job;
    jobs::record_start(&site.store, job, work.dataset, lease)?;
    match reserve(site, examined)? {
        ReservationOutcome::Accepted => Ok(None),
        ReservationOutcome::Refused(reason) => {
            decisions::refuse(site, &work.manifest, job, work.dataset, &reason)?;
            Ok(Some(RunOutcome::GaveUp { reason }))
        }
    }
}

/// The answer of the site's ledger to a reservation.
enum ReservationOutcome {
    /// The worst case is reserved, or the part needs no reservation.
    Accepted,
    /// The site refuses, for this reason.
    Refused(String),
}

/// Reserves the worst case.
fn reserve(site: &Site, examined: &ExaminedManifest) -> Result<ReservationOutcome, LedgerError> {
    let Some(under) = examined.release_context().filter(|under| !is_exact(&under.charge.event)) else {
        return Ok(ReservationOutcome::Accepted);
    };
    let units = units_of(&examined.local, &site.datasets());
    let rules = site.policy().ok().map(|policy| policy.rules(&examined.local.name).for_units(&units));
    let Some(limits) = rules.and_then(|rules| rules.unit_limits(under.charge.unit).ok()) else {
        let reason = "this site has set no budget for the job's privacy unit".to_owned();
        return Ok(ReservationOutcome::Refused(reason));
    };
    match site.ledger.reserve(&under, limits) {
        Ok(()) => Ok(ReservationOutcome::Accepted),
        Err(error @ (LedgerError::Store(_) | LedgerError::Books(_) | LedgerError::Signing(_))) => Err(error),
        Err(refusal) => Ok(ReservationOutcome::Refused(format!("this site's ledger refuses: {refusal}"))),
    }
}
