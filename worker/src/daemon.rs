//! The daemon: registers the site's datasets, asks for offers, answers proposals, runs work.
//!
//! It runs on tokio; each run has its own thread. All important state is written to disk before it takes effect, so the
//! process may end at any point and start again. The server then offers unfinished work anew; the ledger and the outbox
//! record its progress. The daemon makes no decision about releases; `site` does.

mod decisions;
mod departure;
mod error;
mod exchange;
mod group;
mod hold;
mod known_proposals;
mod lease;
mod log;
mod maintenance;
mod part;
mod part_end;
mod part_session;
mod peers;
mod release_clock;
mod witness;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use undertone_api::dataset::DatasetRegistration;
use undertone_api::id::{DatasetId, JobId};
use undertone_api::signed::{SignedError, SiteApproval};

use crate::config::Config;
use crate::config::queries::Queries;
use crate::config::transcription::TranscriptionSettings;
use crate::gateway::{Gateway, GatewayError, LONGEST_PAUSE, OfferedWork, ServerOffer, pauses};
use crate::queries::scratch;
use crate::site::admission::{ManifestFault, SiteIdentity};
use crate::site::clock::{self, Clock};
use crate::site::consent;
use crate::site::datasets::{self, LocalDataset};
use crate::site::folder::Folder;
use crate::site::keys::SiteKey;
use crate::site::ledger::Ledger;
use crate::site::policy::{Policy, PolicyError};
use crate::site::server_trust::ServerTrust;
use crate::site::store::Store;

use known_proposals::KnownProposals;
use lease::Lease;
use witness::LogWatch;

pub use decisions::{ProposalVerdict, acknowledge, consider, judge, pending_decisions};
pub use error::DaemonError;
#[cfg(test)]
pub(crate) use known_proposals::MOST_KNOWN;
#[cfg(test)]
pub(crate) use log::MOST_WAITING;
pub use maintenance::import_receipts;
#[cfg(test)]
pub(crate) use maintenance::{MOST_EVIDENCE, MOST_SHOWN, MOST_SHOWN_BYTES};
pub use part::{WorkExamination, begin_part, examine_work, refuse_work};
pub use part_end::{acknowledge_end, close_part, final_receipts};
pub use part_session::{AcceptedGroup, PartSession, Submission, UncountersignedReceipts};
pub use release_clock::{ClockRecord, ClockTick, ReleaseClock, ReleaseTimeline, SystemTimeline};

/// The longest wait of the server for an offer.
const WAIT: Duration = Duration::from_secs(20);
/// The period of the search for decisions made at the terminal.
const LOOK: Duration = Duration::from_secs(2);
/// The period of the search for runs without a worker task.
const ORPHANS: Duration = Duration::from_mins(1);
/// The period of the search for changes of stewards' credentials.
const NOTICES: Duration = Duration::from_mins(1);
/// The time in which running threads have to stop when the daemon does.
pub(crate) const SHUTDOWN: Duration = Duration::from_secs(20);

/// The open site: everything that a part of the daemon may need.
pub struct Site {
    folder: Folder,
    identity: SiteIdentity,
    key: SiteKey,
    store: Arc<Store>,
    ledger: Ledger,
    gateway: Gateway,
    clock: Clock,
    /// The timeline of the release clocks.
    timeline: Arc<dyn ReleaseTimeline>,
    /// The engine for counting query logs.
    queries: Queries,
    /// The settings for transcribing recordings.
    transcription: TranscriptionSettings,
    datasets: Mutex<Vec<LocalDataset>>,
    /// Held while the policy approves a job automatically: one job at a time, so that each sees the total of the
    /// earlier ones.
    approval_lock: Mutex<()>,
    /// Held while the server is asked about its log: one question at a time.
    question_lock: tokio::sync::Mutex<()>,
    /// Held while a decision of the site's policy waits for its tick: no decision is sent meanwhile.
    decision_lock: tokio::sync::Mutex<()>,
}

impl Site {
    /// Locks the site for this process and opens its database, with the time of `clock`. It does not contact the
    /// server.
    ///
    /// # Errors
    /// [`DaemonError`] when another process has the lock, or a part of the site cannot be used.
    pub fn open(folder: Folder, config: &Config, clock: Clock) -> Result<Self, DaemonError> {
        let lock = folder.lock()?;
        let key = SiteKey::load(&folder.key())?;
        let store = Arc::new(Store::open(&folder.ledger())?);
        let ledger = Ledger::open(Arc::clone(&store), lock, key.clone(), config.worker, Arc::clone(&clock))?;
        let ledger = ledger.with_anchor(config.ledger_anchor());
        let gateway = Gateway::for_site(config, &folder, key.clone())?;
        let server_key = gateway.server_keys().cloned().unwrap_or_else(|| ServerTrust::new(&config.server_key));
        let identity = SiteIdentity { worker: config.worker, organization: config.organization, server_key };
        Ok(Self {
            folder,
            identity,
            key,
            store,
            ledger,
            gateway,
            clock,
            timeline: Arc::new(SystemTimeline::default()),
            queries: config.queries.clone(),
            transcription: config.transcription.clone(),
            datasets: Mutex::default(),
            approval_lock: Mutex::default(),
            question_lock: tokio::sync::Mutex::default(),
            decision_lock: tokio::sync::Mutex::default(),
        })
    }

    /// Returns the policy of the file's current content, with the same limits for datasets of one lineage.
    fn policy(&self) -> Result<Policy, PolicyError> {
        let policy = Policy::load(&self.folder.policy())?;
        let lines = datasets::dataset_lineages(&self.store).map_err(|error| PolicyError::Lineages(Box::new(error)))?;
        Ok(policy.with_lineages(&lines))
    }

    /// Returns the datasets of the last scan.
    pub fn datasets(&self) -> Vec<LocalDataset> {
        self.datasets.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Scans for datasets, and keeps the result.
    ///
    /// # Errors
    /// [`DaemonError`] when folder, policy or database cannot be read.
    pub fn find_datasets(&self) -> Result<Vec<LocalDataset>, DaemonError> {
        let policy = self.policy()?;
        let (datasets, unusable) = datasets::scan(&self.folder, &self.store, &policy)?;
        for folder in unusable {
            tracing::warn!(dataset.name = folder.name, error = %folder.error, "a folder under data/ is no usable dataset");
        }
        self.set_datasets(datasets.clone());
        Ok(datasets)
    }

    fn set_datasets(&self, datasets: Vec<LocalDataset>) {
        *self.datasets.lock().unwrap_or_else(PoisonError::into_inner) = datasets;
    }

    /// Returns the rule and the pinned keys for approvals of jobs on the dataset called `name`.
    ///
    /// # Errors
    /// [`DaemonError`] when policy or database cannot be read.
    pub fn approval_rule(&self, name: &str) -> Result<SiteApproval, DaemonError> {
        let rule = self.policy()?.rules(name).approval.into();
        let keys = consent::pinned_keys(&self.store)?.into_iter().map(|pinned| pinned.key).collect();
        Ok(SiteApproval { rule, keys })
    }

    /// Returns the site's database.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the site's ledger.
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }
}

/// Runs the worker at `site` until `stop` is cancelled. May be called from any tokio runtime.
///
/// # Errors
/// [`DaemonError`] when it cannot start, or the server permanently refuses it.
pub async fn run(site: &Path, stop: CancellationToken) -> Result<(), DaemonError> {
    let mut may_change_key = true;
    loop {
        let folder = Folder::new(site);
        let config = Config::load(&folder)?;
        // An unreadable policy refuses everything; the error is better reported now.
        Policy::load(&folder.policy())?;
        may_change_key &= maintenance::change_key(&folder, &config, may_change_key, &stop).await?;
        if stop.is_cancelled() {
            return Ok(());
        }
        if let DaemonEnd::Stopped = run_with_key(folder, config, may_change_key, &stop).await? {
            return Ok(());
        }
    }
}

/// The reason for the end of a daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DaemonEnd {
    /// It was stopped.
    Stopped,
    /// The site's key is due for a change, and no part is running.
    KeyIsDue,
}

/// Runs the worker under one key of the site.
async fn run_with_key(
    folder: Folder,
    config: Config,
    may_change_key: bool,
    stop: &CancellationToken,
) -> Result<DaemonEnd, DaemonError> {
    let site = Arc::new(Site::open(folder, &config, clock::system())?);
    // Private rows that a crashed gate left are deleted before anything else.
    let folders = scratch::sweep(&site.folder.all_work())?;
    if folders > 0 {
        tracing::warn!(folders, "the worker deleted private rows of a crashed process");
    }
    tracing::info!(worker.id = %config.worker, worker.name = config.worker_name, server = config.server.address(), "worker started");
    let mut daemon = Daemon {
        site,
        slots: Arc::new(Semaphore::new(config.concurrent_runs)),
        stop: stop.child_token(),
        known: KnownProposals::new(),
        watch: LogWatch::default(),
        registrations: HashMap::new(),
        parts: Arc::default(),
        part_ended: Arc::default(),
        tasks: JoinSet::new(),
        may_change_key,
        config,
    };
    let result = daemon.serve().await;
    daemon.shutdown().await;
    tracing::info!("worker stopped");
    result
}

/// A part that runs at this worker.
struct HeldPart {
    /// Digest of the manifest under which it runs.
    manifest: String,
    lease: Arc<Lease>,
}

type HeldParts = Arc<Mutex<HashMap<(JobId, DatasetId), HeldPart>>>;

struct Daemon {
    site: Arc<Site>,
    slots: Arc<Semaphore>,
    stop: CancellationToken,
    /// Digests of the manifests that this process has considered.
    known: KnownProposals,
    /// The time of the last check of the server's log, on the present connection.
    watch: LogWatch,
    /// The registrations of datasets that this process has sent to the server.
    registrations: HashMap<String, DatasetRegistration>,
    /// The running parts.
    parts: HeldParts,
    /// Notified when a part ends.
    part_ended: Arc<Notify>,
    tasks: JoinSet<()>,
    /// False after the server has refused the site's next key in this process.
    may_change_key: bool,
    config: Config,
}

impl Daemon {
    async fn serve(&mut self) -> Result<DaemonEnd, DaemonError> {
        let site = Arc::clone(&self.site);
        self.tasks.spawn(run_periodically(LOOK, self.stop.clone(), move || {
            let site = Arc::clone(&site);
            async move {
                decisions::send_decisions(&site).await;
                departure::send_departures(&site).await;
                hold::send_holds(&site).await;
            }
        }));
        let site = Arc::clone(&self.site);
        self.tasks.spawn(run_periodically(NOTICES, self.stop.clone(), move || {
            let site = Arc::clone(&site);
            async move { maintenance::fetch_credential_notices(&site).await }
        }));
        let site = Arc::clone(&self.site);
        self.tasks.spawn(run_periodically(peers::EVERY, self.stop.clone(), move || {
            let site = Arc::clone(&site);
            async move { peers::exchange_heads(&site).await }
        }));
        let site = Arc::clone(&self.site);
        let parts = Arc::clone(&self.parts);
        self.tasks.spawn(run_periodically(ORPHANS, self.stop.clone(), move || {
            let site = Arc::clone(&site);
            let parts = Arc::clone(&parts);
            async move { part_end::report_orphans(&site, &parts).await }
        }));
        let mut next_pauses = pauses();
        while !self.stop.is_cancelled() {
            let stop = self.stop.clone();
            let result = tokio::select! {
                result = self.handle_next_offer() => result,
                () = stop.cancelled() => return Ok(DaemonEnd::Stopped),
            };
            match result {
                Ok(()) => next_pauses = pauses(),
                Err(DaemonError::Gateway(error)) if error.is_final() => return Err(error.into()),
                Err(error) => {
                    if matches!(error, DaemonError::Gateway(GatewayError::Unreachable(_))) {
                        // The server may have been restored from a backup meanwhile. It offers nothing until this site
                        // has compared its receipts.
                        self.watch.forget();
                    }
                    let pause = next_pauses.next().unwrap_or(LONGEST_PAUSE);
                    let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
                    tracing::warn!(error = %error, cause, pause_ms = pause.as_millis() as u64, "a request for an offer failed; the worker repeats it");
                    tokio::select! {
                        () = tokio::time::sleep(pause) => {}
                        () = stop.cancelled() => return Ok(DaemonEnd::Stopped),
                    }
                }
            }
            while self.tasks.try_join_next().is_some() {}
            if self.is_key_due()? {
                return Ok(DaemonEnd::KeyIsDue);
            }
        }
        Ok(DaemonEnd::Stopped)
    }

    /// Returns whether the key is due for a change, and no part is running.
    fn is_key_due(&self) -> Result<bool, DaemonError> {
        let is_idle = self.parts.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        let Site { folder, store, clock, .. } = &*self.site;
        Ok(self.may_change_key && is_idle && maintenance::is_key_due(folder, store, &self.config, clock())?)
    }

    /// Registers new datasets, asks for one offer, and handles it.
    async fn handle_next_offer(&mut self) -> Result<(), DaemonError> {
        if self.watch.is_due((self.site.clock)(), self.site.gateway.sessions()) {
            // The comparison comes before any offer: an older copy of the ledger would admit expenses a second time.
            maintenance::compare_ledgers(&self.site).await?;
            maintenance::refresh_certificates(&self.site).await;
            if witness::check_log(&self.site).await {
                // The question itself may have signed in.
                self.watch.record((self.site.clock)(), self.site.gateway.sessions());
            }
            // Before anything is offered as well: a peer may have seen receipts that the server hides.
            peers::exchange_heads(&self.site).await;
        }
        self.register().await?;
        let decided = self.known.to_vec();
        let leases: Vec<String> = {
            let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
            parts.values().map(|part| part.lease.token()).collect()
        };
        let offer = tokio::select! {
            offer = self.site.gateway.next_offer(WAIT, &decided, &leases) => offer?,
            // The pending call names ended parts as held, and would not receive them until its wait ends. The server
            // repeats a lost offer to a worker that does not name the part as held.
            () = self.part_ended.notified() => return Ok(()),
        };
        match offer {
            ServerOffer::Nothing => {}
            ServerOffer::Proposal { manifest, dataset } => {
                // No decision is sent before its tick, and the next offer is requested after it.
                let _guard = self.site.decision_lock.lock().await;
                let start = self.site.timeline.now();
                decisions::consider(&self.site, &manifest, dataset)?;
                let tick = ClockTick::first_after(start, release_clock::DECISIONS, self.site.timeline.now());
                tick.wait(&*self.site.timeline, &self.stop).await;
                self.known.add(manifest.digest());
                decisions::send_decisions_now(&self.site).await;
            }
            ServerOffer::Work(work) => self.start_part(work),
        }
        Ok(())
    }

    /// Registers datasets that are new or have changed.
    async fn register(&mut self) -> Result<(), DaemonError> {
        let mut datasets = self.site.find_datasets()?;
        for local in &mut datasets {
            let approval = Some(self.site.approval_rule(&local.name)?);
            let registration = DatasetRegistration { approval, ..local.registration() };
            if self.registrations.get(&local.name) != Some(&registration) {
                let id = self.site.gateway.register(&registration).await?;
                datasets::note_registered(&self.site.store, &local.name, id)?;
                local.id = Some(id);
                tracing::info!(dataset.name = local.name, dataset.id = %id, "dataset registered");
                if let Some(notice) = datasets::legacy_notice(local) {
                    let remedy = notice.remedy();
                    tracing::warn!(dataset.name = local.name, remedy, "the dataset {notice}");
                }
                self.registrations.insert(local.name.clone(), registration);
            }
        }
        self.site.set_datasets(datasets);
        Ok(())
    }

    /// Starts a part, or passes its new lease to the running one.
    fn start_part(&mut self, work: OfferedWork) {
        let verified = decisions::verified_job(&self.site, &work.manifest);
        let Some(job) = verified.or_else(|| decisions::claimed_job(&work.manifest)) else {
            tracing::error!(dataset.id = %work.dataset, "the worker ignores offered work without a manifest");
            return;
        };
        let place = (job, work.dataset);
        let manifest = work.manifest.digest();
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let running = parts.get(&place);
        if let Some(part) = running.filter(|part| verified.is_some() && part.manifest == manifest) {
            part.lease.replace(work.lease);
            return;
        }
        let site = Arc::clone(&self.site);
        if verified.is_none() || running.is_some() {
            let fault = match running {
                Some(part) if verified.is_some() => ManifestFault::Changed(part.manifest.clone()),
                _ => ManifestFault::Signature(SignedError::Forged),
            };
            self.tasks.spawn(async move { part::reject_work(&site, &work, job, fault.to_string()).await });
            return;
        }
        let lease = Lease::new(work.lease.clone(), self.stop.child_token()).with_shutdown(self.stop.clone());
        let lease = Arc::new(lease);
        parts.insert(place, HeldPart { manifest, lease: Arc::clone(&lease) });
        drop(parts);
        let slots = Arc::clone(&self.slots);
        let parts = Arc::clone(&self.parts);
        let part_ended = Arc::clone(&self.part_ended);
        self.tasks.spawn(async move {
            Box::pin(part::run_part(&site, work, &lease, &slots)).await;
            parts.lock().unwrap_or_else(PoisonError::into_inner).remove(&place);
            part_ended.notify_one();
        });
    }

    /// Waits up to [`SHUTDOWN`] for the parts to end; an unfinished part is as safe as after a crash.
    async fn shutdown(&mut self) {
        self.stop.cancel();
        if !wait_for_tasks(&mut self.tasks).await {
            tracing::warn!("a run did not stop in time; it continues from its checkpoint after the next start");
        }
    }
}

/// Returns whether all tasks end within [`SHUTDOWN`].
async fn wait_for_tasks(tasks: &mut JoinSet<()>) -> bool {
    let all = async { while tasks.join_next().await.is_some() {} };
    tokio::time::timeout(SHUTDOWN, all).await.is_ok()
}

async fn run_periodically<F: Future<Output = ()>>(pause: Duration, stop: CancellationToken, act: impl Fn() -> F) {
    loop {
        tokio::select! {
            () = act() => {}
            () = stop.cancelled() => return,
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => return,
        }
    }
}

#[cfg(test)]
mod tests;
