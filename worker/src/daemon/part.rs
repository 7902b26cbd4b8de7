//! One part of one job, from its lease to its end: approval, reservation, run, settlement, report.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};
use tokio_util::sync::CancellationToken;
use undertone_api::dataset::Visibility;
use undertone_api::id::{DatasetId, JobId};
use undertone_api::job::log::{Fault, Phase};
use undertone_api::problem::Code;
use undertone_api::signed::Signed;

use super::exchange::{Handed, SiteExchange};
use super::lease::{End, Lease};
use super::log::{PartLog, fault_of};
use super::release_clock::ReleaseClock;
use super::{Held, Site, desk, hold, witness};
use crate::fault;
use crate::gateway::{GatewayError, Patience, Work};
use crate::run::{self, RunError};
use crate::site::admission::ExaminedManifest;
use crate::site::jobs::{self, RunOutcome, RunRow};
use crate::site::ledger::LedgerError;
use crate::site::outbox::{self, ReleaseOutbox};
use crate::site::policy::{is_exact, units_of};
use crate::site::store::StoreError;

/// The period of the search for an answer at the terminal.
const LOOK: Duration = Duration::from_secs(1);
/// The time for which a part is kept after its end could not be sent, so that it is not offered again at once.
const HOLD: Duration = Duration::from_secs(30);

/// The result of an examination of offered work.
pub enum Look {
    /// It may run.
    Go(Box<ExaminedManifest>),
    /// It has ended before, with this outcome.
    Ended(RunOutcome),
    /// The site refuses it.
    Refused(String),
    /// It comes under another job's document, or a forged one.
    Alien(String),
    /// The decision at the site's terminal is missing, or the site holds the job.
    Waits(Box<ExaminedManifest>),
}

/// Works on a part until the part or its lease ends, or the daemon stops.
pub(super) async fn run(site: &Arc<Site>, work: Work, lease: &Arc<Lease>, slots: &Semaphore) {
    let Some(job) = desk::job_of(site, &work.manifest) else { return };
    let dataset = work.dataset;
    let log = PartLog::of(site, lease, &work.manifest);
    let keep = async {
        lease.keep(&site.gateway, work.lease_time).await;
        // After the end of the lease, the part ends by itself.
        std::future::pending::<()>().await;
    };
    let begun = CancellationToken::new();
    let watch = async {
        hold::watch(site, lease, job, dataset, &begun).await;
        std::future::pending::<()>().await;
    };
    let part = async {
        let outcome = whole(site, &work, lease, slots, job, &begun, &log).await;
        log.ends(&outcome);
        log.last_words().await;
        match outcome {
            Ok(Some(outcome)) => {
                if !end(site, job, dataset, &lease.token(), &outcome).await {
                    tokio::select! {
                        () = tokio::time::sleep(HOLD) => {}
                        () = lease.stop.cancelled() => {}
                    }
                }
            }
            Ok(None) => tracing::info!(job.id = %job, dataset.id = %dataset, reason = lease.reason(), "run put down"),
            Err(error) => {
                tracing::error!(job.id = %job, dataset.id = %dataset, error = %error, "the site's own disk fails; nothing is released");
                tokio::select! {
                    () = tokio::time::sleep(HOLD) => {}
                    () = lease.stop.cancelled() => {}
                }
            }
        }
    };
    tokio::select! {
        () = part => {}
        () = keep => {}
        () = watch => {}
        () = log.carry() => {}
    }
}

/// Runs the part up to its outcome; `None` when it stopped without one.
async fn whole(
    site: &Arc<Site>,
    work: &Work,
    lease: &Arc<Lease>,
    slots: &Semaphore,
    job: JobId,
    begun: &CancellationToken,
    log: &PartLog,
) -> Result<Option<RunOutcome>, LedgerError> {
    let _slot;
    let examined = match before(site, work, lease, job, log).await? {
        None | Some(Look::Waits(_)) => return Ok(stopped(lease)),
        Some(Look::Ended(outcome)) => return Ok(Some(outcome)),
        Some(Look::Alien(reason)) => {
            log.fault(Fault::ForeignManifest);
            turn_away(site, work, job, reason).await;
            return Ok(None);
        }
        Some(Look::Refused(reason)) => {
            let terminal = desk::refused_at_terminal(site, &work.manifest, job, work.dataset, &reason)?;
            log.fault(if terminal { Fault::RefusedAtTerminal } else { Fault::RefusedByPolicy });
            let outcome = refuse(site, work, job, &lease.token(), reason)?;
            desk::tell(site).await;
            return Ok(Some(outcome));
        }
        Some(Look::Go(examined)) => examined,
    };
    begun.cancel();
    if slots.available_permits() == 0 {
        log.phase(Phase::AwaitsSlot);
    }
    tokio::select! {
        slot = slots.acquire() => _slot = slot,
        () = lease.stop.cancelled() => return Ok(stopped(lease)),
    }
    if let Some(outcome) = take_up(site, work, &examined, &lease.token())? {
        log.fault(Fault::RefusedByLedger);
        desk::tell(site).await;
        return Ok(Some(outcome));
    }
    tracing::info!(job.id = %job, job.kind = examined.manifest.spec.kind(), dataset.name = examined.local.name, "run begins");
    log.phase(Phase::Begun);
    let public = examined.local.visibility == Visibility::Public;
    let (ended, Handed { report, audit }, release_clock) = execute(site, *examined, lease, log).await;
    if let Some(release_clock) = release_clock.filter(|_| !public) {
        // The end of a part with private data (done, failed or stopped) is reported on its clock, even after the end of
        // its lease.
        release_clock.wait_with_end(&lease.shutdown).await;
    }
    Ok(match ended {
        Ok(()) => {
            tracing::info!(job.id = %job, dataset.id = %work.dataset, "run done");
            Some(RunOutcome::Done { report, audit })
        }
        Err(RunError::Stopped(_)) => stopped(lease),
        Err(RunError::Refused(problem)) => {
            tracing::warn!(job.id = %job, dataset.id = %work.dataset, reason = problem.with_causes(), "run refused by the site");
            log.fault(Fault::RefusedByPolicy);
            Some(RunOutcome::GaveUp { reason: problem.to_string() })
        }
        Err(RunError::Disk(problem)) => {
            let reason = problem.with_causes();
            tracing::error!(job.id = %job, dataset.id = %work.dataset, reason, "the site's own disk fails; the part goes on when it is mended");
            log.fault(fault_of(&reason));
            tokio::select! {
                () = tokio::time::sleep(HOLD) => {}
                () = lease.stop.cancelled() => {}
            }
            stopped(lease)
        }
        Err(RunError::Failed(problem)) => {
            let reason = problem.with_causes();
            tracing::error!(job.id = %job, dataset.id = %work.dataset, reason, "run failed");
            log.fault(fault_of(&reason));
            // Errors about private data stay at this site: they may contain a recording's name or a figure. Causes stay
            // here in any case.
            let text =
                if public { problem.to_string() } else { "the run failed; this site's own log says why".to_owned() };
            Some(RunOutcome::GaveUp { reason: text })
        }
    })
}

/// Rejects work under a document that is not the manifest of its job: with a signed refusal and the end of the lease.
/// The site's records, reservations and runs under the job's own manifest do not change.
pub(super) async fn turn_away(site: &Site, work: &Work, job: JobId, reason: String) {
    tracing::error!(job.id = %job, dataset.id = %work.dataset, reason, "the server asked for something it may not");
    if let Err(error) = desk::refuse(site, &work.manifest, job, work.dataset, &reason) {
        return tracing::error!(job.id = %job, error = %error, "a refusal could not be noted");
    }
    desk::tell(site).await;
    // It is sent once: after a loss, the work is offered and rejected again.
    if let Err(error) = site.gateway.finish(&work.lease, &RunOutcome::GaveUp { reason }, &[]).await {
        tracing::warn!(job.id = %job, error = %error, "the server does not take a lease back");
    }
}

/// Returns the outcome of a part after the end of its lease: one if the job is over, `None` if it may come back.
fn stopped(lease: &Lease) -> Option<RunOutcome> {
    match lease.end() {
        Some(End::Over(reason)) => Some(RunOutcome::Stopped { reason: reason.clone() }),
        Some(End::Lost(_)) | None => None,
    }
}

/// Examines work until there is an answer; `None` when the lease ended first.
async fn before(
    site: &Site,
    work: &Work,
    lease: &Lease,
    job: JobId,
    log: &PartLog,
) -> Result<Option<Look>, LedgerError> {
    let mut told = false;
    loop {
        // Each pass judges anew: policy and ledger may have changed since the last one.
        let examined = match look(site, work, job)? {
            Look::Waits(examined) => examined,
            Look::Ended(outcome) => {
                desk::tell(site).await;
                return Ok(Some(Look::Ended(outcome)));
            }
            answer => return Ok(Some(answer)),
        };
        if !told {
            let reason = desk::why_it_waits(site, &examined, work)?;
            hold::wait(site, &examined.digest, job, work.dataset, reason)?;
            hold::tell(site).await;
            tracing::warn!(job.id = %examined.manifest.job, dataset.name = examined.local.name, reason, "work waits for `undertone-worker approve` at this site");
            log.phase(Phase::AwaitsTerminal);
            told = true;
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = lease.stop.cancelled() => return Ok(None),
        }
    }
}

/// Examines offered work once: the document's signature, the part's earlier end, the contents, policy, ledger, and
/// approval.
///
/// # Errors
/// [`LedgerError`] when the site's own disk fails; that is no answer to an offer.
pub fn look(site: &Site, work: &Work, job: JobId) -> Result<Look, LedgerError> {
    if let Some(reason) = desk::alien(site, &work.manifest)? {
        return Ok(Look::Alien(reason));
    }
    let before = jobs::run(&site.store, job, work.dataset)?;
    if let Some(RunRow { ended: Some(outcome), is_acknowledged: told, .. }) = before {
        if told {
            tracing::error!(job.id = %job, dataset.id = %work.dataset, "the server offers work whose end it has been told");
            let reason = "the job is over at this site; propose a new one";
            desk::refuse(site, &work.manifest, job, work.dataset, reason)?;
        }
        return Ok(Look::Ended(outcome));
    }
    let (examined, rules) = match desk::judge(site, &work.manifest, work.dataset)? {
        desk::Verdict::Allowed(examined, rules) => (examined, rules),
        desk::Verdict::Refused(reason) => return Ok(Look::Refused(reason)),
    };
    let approval = desk::approval(site, &examined, &rules, work)?;
    let held = hold::after(site, &examined, approval.is_some())?;
    Ok(match approval {
        Some(Ok(())) if held => Look::Waits(examined),
        Some(Ok(())) => Look::Go(examined),
        Some(Err(reason)) => Look::Refused(reason),
        None => Look::Waits(examined),
    })
}

/// Records that the site refuses a part: a refusal to send, and the part's end.
///
/// # Errors
/// [`LedgerError`] when the site's own disk fails.
pub fn refuse(site: &Site, work: &Work, job: JobId, lease: &str, reason: String) -> Result<RunOutcome, LedgerError> {
    tracing::warn!(job.id = %job, dataset.id = %work.dataset, reason, "work refused");
    desk::refuse(site, &work.manifest, job, work.dataset, &reason)?;
    jobs::record_start(&site.store, job, work.dataset, lease)?;
    Ok(RunOutcome::GaveUp { reason })
}

/// Begins an admitted part: records its lease, and reserves its worst case. Returns `None` when it can run; its end
/// when the site's ledger refuses.
///
/// # Errors
/// [`LedgerError`] when the site's own disk fails.
pub fn take_up(
    site: &Site,
    work: &Work,
    examined: &ExaminedManifest,
    lease: &str,
) -> Result<Option<RunOutcome>, LedgerError> {
    let job = examined.manifest.job;
    jobs::record_start(&site.store, job, work.dataset, lease)?;
    let Err(reason) = reserve(site, examined)? else { return Ok(None) };
    desk::refuse(site, &work.manifest, job, work.dataset, &reason)?;
    Ok(Some(RunOutcome::GaveUp { reason }))
}

/// Reserves the worst case; the inner error is the site's refusal.
fn reserve(site: &Site, examined: &ExaminedManifest) -> Result<Result<(), String>, LedgerError> {
    let Some(under) = examined.release_context().filter(|under| !is_exact(&under.charge.event)) else {
        return Ok(Ok(()));
    };
    let units = units_of(&examined.local, &site.datasets());
    let rules = site.policy().ok().map(|policy| policy.rules(&examined.local.name).for_units(&units));
    let Some(limits) = rules.and_then(|rules| rules.unit_limits(under.charge.unit).ok()) else {
        return Ok(Err("this site has set no budget for the job's privacy unit".to_owned()));
    };
    match site.ledger.reserve(&under, limits) {
        Ok(()) => Ok(Ok(())),
        Err(error @ (LedgerError::Store(_) | LedgerError::Books(_) | LedgerError::Signing(_))) => Err(error),
        Err(refusal) => Ok(Err(format!("this site's ledger refuses: {refusal}"))),
    }
}

/// Runs the job on a separate thread; returns its result, its report and audit, and its release clock.
async fn execute(
    site: &Arc<Site>,
    examined: ExaminedManifest,
    lease: &Arc<Lease>,
    log: &PartLog,
) -> (Result<(), RunError>, Handed, Option<Arc<ReleaseClock>>) {
    let (done, ended) = oneshot::channel();
    let (clock_sender, release_clock) = oneshot::channel();
    let (site, lease, handle, log) = (Arc::clone(site), Arc::clone(lease), Handle::current(), log.clone());
    let name = format!("run {}", examined.local.name);
    let thread = std::thread::Builder::new().name(name).spawn(move || {
        let spec = examined.manifest.spec.clone();
        let mut exchange = match SiteExchange::new(handle, site, lease, examined) {
            Ok(exchange) => exchange.with_log(log),
            Err(error) => return drop(done.send((Err(error), Handed::default()))),
        };
        // The receiver is gone when the daemon has stopped.
        drop(clock_sender.send(exchange.release_clock()));
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run::run(&spec, &mut exchange)))
            .unwrap_or_else(|_| Err(RunError::failed("the run panicked; the log has the place")));
        // The receiver is gone when the daemon has stopped.
        drop(done.send((ended, exchange.into_handed())));
    });
    if let Err(error) = thread {
        return (Err(RunError::failed(format!("no thread could be started: {error}"))), Handed::default(), None);
    }
    let gone = |_| (Err(RunError::failed("the run's thread is gone")), Handed::default());
    let (ended, handed) = ended.await.unwrap_or_else(gone);
    (ended, handed, release_clock.await.ok())
}

/// Ends a part: records the outcome, settles, informs the server with the last receipts, and cleans up. Returns true
/// when the server knows.
async fn end(site: &Site, job: JobId, dataset: DatasetId, lease: &str, outcome: &RunOutcome) -> bool {
    match ended(site, job, dataset, lease, outcome).await {
        Ok(told) => told,
        Err(error) => {
            tracing::error!(job.id = %job, dataset.id = %dataset, error = %error, "the end of a run could not be noted");
            false
        }
    }
}

async fn ended(
    site: &Site,
    job: JobId,
    dataset: DatasetId,
    lease: &str,
    outcome: &RunOutcome,
) -> Result<bool, LedgerError> {
    close(site, job, dataset, outcome)?;
    let (numbers, receipts) = closing(site)?;
    let Some(countersignatures) = finish(site, lease, outcome, &receipts).await else { return Ok(false) };
    end_is_told(site, job, dataset, &numbers)?;
    witness::after(site, &receipts, &countersignatures).await;
    Ok(true)
}

/// Closes a part at this site: records its outcome, and returns the unpaid rest of its reservation.
///
/// # Errors
/// [`LedgerError`] when the site's own disk fails; close it again then.
pub fn close(site: &Site, job: JobId, dataset: DatasetId, outcome: &RunOutcome) -> Result<(), LedgerError> {
    // The outcome comes first: after the settlement the run can never resume.
    jobs::record_outcome(&site.store, job, dataset, outcome)?;
    fault::point(fault::BEFORE_SETTLE);
    let left = site.ledger.settle_job(job, Some(dataset))?;
    fault::point(fault::AFTER_SETTLE);
    tracing::info!(job.id = %job, dataset.id = %dataset, releases = left, "reservation settled");
    Ok(())
}

/// Returns the receipts for the end of a part, with their numbers: all that the server lacks.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn closing(site: &Site) -> Result<(Vec<u64>, Vec<Signed>), StoreError> {
    Ok(outbox::receipts_to_send(&site.store, u64::MAX, None)?.into_iter().unzip())
}

/// Records that the server knows the end of a part and has its receipts, and removes the part's files.
///
/// # Errors
/// [`StoreError`] when the database fails; the end is sent again then.
pub fn end_is_told(site: &Site, job: JobId, dataset: DatasetId, receipts: &[u64]) -> Result<(), StoreError> {
    outbox::acknowledge(&site.store, receipts)?;
    jobs::acknowledge_outcome(&site.store, job, dataset)?;
    let folder = site.folder.work(job, dataset);
    if let Err(error) = ReleaseOutbox::new(job, dataset, &folder).clear() {
        tracing::warn!(job.id = %job, error = %error, "sent vectors could not be removed");
    }
    if let Err(error) = run::forget(&folder) {
        tracing::warn!(job.id = %job, error = %error, "what was left of recordings could not be removed");
    }
    Ok(())
}

/// Sends the end of a part; returns the server's countersignatures if it succeeds.
async fn finish(site: &Site, lease: &str, outcome: &RunOutcome, receipts: &[Signed]) -> Option<Vec<Signed>> {
    let told = match (tell(site, lease, outcome, receipts).await, outcome) {
        (Err(error), RunOutcome::Done { .. }) if error.code() != Some(Code::LeaseLost) => {
            tracing::error!(error = %error, "the server does not take the end of the run");
            let gave_up = RunOutcome::GaveUp { reason: format!("the server did not take the result: {error}") };
            tell(site, lease, &gave_up, receipts).await
        }
        (told, _) => told,
    };
    match told {
        Ok(countersignatures) => Some(countersignatures),
        Err(error) => {
            tracing::warn!(error = %error, "the end of a run could not be told");
            None
        }
    }
}

async fn tell(
    site: &Site,
    lease: &str,
    outcome: &RunOutcome,
    receipts: &[Signed],
) -> Result<Vec<Signed>, GatewayError> {
    let stop = CancellationToken::new();
    let told = Patience::default().keep_trying("finish", &stop, || site.gateway.finish(lease, outcome, receipts)).await;
    told.unwrap_or_else(|| Err(GatewayError::Unreachable("nobody waits any more".to_owned())))
}

/// Asks the server about unfinished runs without a task here, and ends those of finished jobs.
pub(super) async fn bury(site: &Arc<Site>, held: &Held) {
    let open = match jobs::open_runs(&site.store) {
        Ok(open) => open,
        Err(error) => return tracing::error!(error = %error, "unfinished runs could not be read"),
    };
    for (job, dataset, lease) in open {
        if held.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&(job, dataset)) {
            continue;
        }
        if let Ok(renewal) = site.gateway.renew(&lease).await
            && !renewal.go_on
        {
            tracing::info!(job.id = %job, dataset.id = %dataset, reason = renewal.reason, "the job ended while nobody worked on it here");
            end(site, job, dataset, &lease, &RunOutcome::Stopped { reason: renewal.reason }).await;
        }
    }
}
