//! The daemon: registers the site's datasets, asks for offers, answers proposals, runs work.
//!
//! It runs on tokio; each run has its own thread. All important state is written to disk before it takes effect, so the
//! process may end at any point and start again. The server then offers unfinished work anew; the ledger and the outbox
//! record its progress. The daemon makes no decision about releases; `site` does.

mod desk;
mod errand;
mod exchange;
mod hold;
mod keeping;
mod known_proposals;
mod lease;
mod log;
mod part;
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

use crate::config::queries::Queries;
use crate::config::transcription::Transcription;
use crate::config::{Config, ConfigError};
use crate::gateway::{Gateway, GatewayError, Offer, Patience, Work};
use crate::queries::scratch;
use crate::site::admission::{ManifestFault, SiteIdentity};
use crate::site::clock::{self, Clock};
use crate::site::consent;
use crate::site::datasets::{self, DatasetsError, LocalDataset};
use crate::site::folder::{Folder, FolderError};
use crate::site::keys::{KeyError, SiteKey};
use crate::site::ledger::{Ledger, LedgerError};
use crate::site::policy::{Policy, PolicyError};
use crate::site::rotation::ChangeError;
use crate::site::server_trust::ServerTrust;
use crate::site::store::{Store, StoreError};

use known_proposals::KnownProposals;
use lease::Lease;
use witness::Watch;

pub use desk::{Verdict, consider, judge, told, untold};
pub use errand::{Errand, Letter, Uncountersigned};
pub use keeping::take_in;
#[cfg(test)]
pub(crate) use keeping::{MOST_SHOWN, MOST_SHOWN_BYTES};
#[cfg(test)]
pub(crate) use known_proposals::MOST_KNOWN;
#[cfg(test)]
pub(crate) use log::MOST_WAITING;
pub use part::{Look, close, closing, end_is_told, look, refuse, take_up};
pub use release_clock::{ClockRecord, ReleaseClock, SystemTimeline, Tick, Timeline};

/// The longest wait of the server for an offer.
const WAIT: Duration = Duration::from_secs(20);
/// The period of the search for decisions made at the terminal.
const LOOK: Duration = Duration::from_secs(2);
/// The period of the search for runs without a worker task.
const ORPHANS: Duration = Duration::from_mins(1);
/// The period of the search for changes of stewards' credentials.
const NOTICES: Duration = Duration::from_mins(1);
/// The time in which running threads have to stop when the daemon does.
pub(crate) const FAREWELL: Duration = Duration::from_secs(20);

/// The reason why the daemon does not start, or ends.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The configuration failed.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The folder failed.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The key failed.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The policy failed.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The ledger is inconsistent.
    #[error("the site's ledger cannot be used, so nothing may be released: see `undertone-worker ledger verify`")]
    Ledger(#[from] LedgerError),
    /// The datasets failed.
    #[error(transparent)]
    Datasets(#[from] DatasetsError),
    /// The change to the site's next key failed.
    #[error("the site's key could not be changed")]
    Change(#[from] ChangeError),
    /// The server does not accept this worker.
    #[error("the server does not accept this worker")]
    Gateway(#[from] GatewayError),
}

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
    timeline: Arc<dyn Timeline>,
    /// The engine for counting query logs.
    queries: Queries,
    /// The settings for transcribing recordings.
    transcription: Transcription,
    datasets: Mutex<Vec<LocalDataset>>,
    /// Held while the policy approves a job automatically: one job at a time, so that each sees the total of the
    /// earlier ones.
    standing: Mutex<()>,
    /// Held while the server is asked about its log: one question at a time.
    asking: tokio::sync::Mutex<()>,
    /// Held while a decision of the site's policy waits for its tick: no decision is sent meanwhile.
    deciding: tokio::sync::Mutex<()>,
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
        let gateway = Gateway::of(config, &folder, key.clone())?;
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
            standing: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
            deciding: tokio::sync::Mutex::default(),
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
        let (found, unusable) = datasets::scan(&self.folder, &self.store, &policy)?;
        for bad in unusable {
            tracing::warn!(dataset.name = bad.name, error = %bad.error, "a folder under data/ is no usable dataset");
        }
        self.hold(found.clone());
        Ok(found)
    }

    fn hold(&self, found: Vec<LocalDataset>) {
        *self.datasets.lock().unwrap_or_else(PoisonError::into_inner) = found;
    }

    /// Returns the rule and the pinned keys for approvals of jobs on the dataset called `name`.
    ///
    /// # Errors
    /// [`DaemonError`] when policy or database cannot be read.
    pub fn approval_of(&self, name: &str) -> Result<SiteApproval, DaemonError> {
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
        may_change_key &= keeping::change_key(&folder, &config, may_change_key, &stop).await?;
        if stop.is_cancelled() {
            return Ok(());
        }
        if let End::Stopped = open(folder, config, may_change_key, &stop).await? {
            return Ok(());
        }
    }
}

/// The reason for the end of a daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// It was stopped.
    Stopped,
    /// The site's key is due for a change, and no part is running.
    KeyIsDue,
}

/// Runs the worker under one key of the site.
async fn open(
    folder: Folder,
    config: Config,
    may_change_key: bool,
    stop: &CancellationToken,
) -> Result<End, DaemonError> {
    let site = Arc::new(Site::open(folder, &config, clock::system())?);
    // Private rows that a crashed gate left are deleted before anything else.
    let swept = scratch::sweep(&site.folder.all_work())?;
    if swept > 0 {
        tracing::warn!(folders = swept, "private rows that a crash had left were deleted");
    }
    tracing::info!(worker.id = %config.worker, worker.name = config.worker_name, server = config.server.address(), "worker started");
    let mut daemon = Daemon {
        site,
        slots: Arc::new(Semaphore::new(config.concurrent_runs)),
        stop: stop.child_token(),
        known: KnownProposals::new(),
        watch: Watch::default(),
        registered: HashMap::new(),
        held: Arc::default(),
        fewer: Arc::default(),
        parts: JoinSet::new(),
        may_change_key,
        config,
    };
    let ended = daemon.serve().await;
    daemon.farewell().await;
    tracing::info!("worker stopped");
    ended
}

/// A part that runs at this worker.
struct HeldPart {
    /// Digest of the manifest under which it runs.
    manifest: String,
    lease: Arc<Lease>,
}

type Held = Arc<Mutex<HashMap<(JobId, DatasetId), HeldPart>>>;

struct Daemon {
    site: Arc<Site>,
    slots: Arc<Semaphore>,
    stop: CancellationToken,
    /// Digests of the manifests that this process has considered.
    known: KnownProposals,
    /// The time of the last check of the server's log, on the present connection.
    watch: Watch,
    /// The registrations of datasets that this process has sent to the server.
    registered: HashMap<String, DatasetRegistration>,
    held: Held,
    /// Notified when a part ends.
    fewer: Arc<Notify>,
    parts: JoinSet<()>,
    /// False after the server has refused the site's next key in this process.
    may_change_key: bool,
    config: Config,
}

impl Daemon {
    async fn serve(&mut self) -> Result<End, DaemonError> {
        let site = Arc::clone(&self.site);
        self.parts.spawn(every(LOOK, self.stop.clone(), move || {
            let site = Arc::clone(&site);
            async move {
                desk::tell(&site).await;
                hold::tell(&site).await;
            }
        }));
        let site = Arc::clone(&self.site);
        self.parts.spawn(every(NOTICES, self.stop.clone(), move || {
            let site = Arc::clone(&site);
            async move { keeping::take_credential_notices(&site).await }
        }));
        let site = Arc::clone(&self.site);
        self.parts.spawn(every(peers::EVERY, self.stop.clone(), move || {
            let site = Arc::clone(&site);
            async move { peers::exchange_heads(&site).await }
        }));
        let (site, held) = (Arc::clone(&self.site), Arc::clone(&self.held));
        self.parts.spawn(every(ORPHANS, self.stop.clone(), move || {
            let (site, held) = (Arc::clone(&site), Arc::clone(&held));
            async move { part::bury(&site, &held).await }
        }));
        let mut patience = Patience::default();
        while !self.stop.is_cancelled() {
            let stop = self.stop.clone();
            let turn = tokio::select! {
                turn = self.turn() => turn,
                () = stop.cancelled() => return Ok(End::Stopped),
            };
            match turn {
                Ok(()) => patience = Patience::default(),
                Err(DaemonError::Gateway(error)) if error.is_final() => return Err(error.into()),
                Err(error) => {
                    if matches!(error, DaemonError::Gateway(GatewayError::Unreachable(_))) {
                        // The server may have been restored from a backup meanwhile. It offers nothing until this site
                        // has compared its receipts.
                        self.watch.forget();
                    }
                    let pause = patience.pause();
                    let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
                    tracing::warn!(error = %error, cause, pause_ms = pause.as_millis() as u64, "trying again");
                    tokio::select! {
                        () = tokio::time::sleep(pause) => {}
                        () = stop.cancelled() => return Ok(End::Stopped),
                    }
                }
            }
            while self.parts.try_join_next().is_some() {}
            if self.key_is_due()? {
                return Ok(End::KeyIsDue);
            }
        }
        Ok(End::Stopped)
    }

    /// Returns whether the key is due for a change, and no part is running.
    fn key_is_due(&self) -> Result<bool, DaemonError> {
        let idle = self.held.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        let Site { folder, store, clock, .. } = &*self.site;
        Ok(self.may_change_key && idle && keeping::key_is_due(folder, store, &self.config, clock())?)
    }

    /// Registers new datasets, asks for one offer, and handles it.
    async fn turn(&mut self) -> Result<(), DaemonError> {
        if self.watch.is_due((self.site.clock)(), self.site.gateway.sessions()) {
            // The comparison comes before any offer: an older copy of the ledger would admit expenses a second time.
            keeping::compare(&self.site).await?;
            keeping::recognize(&self.site).await;
            if witness::ask(&self.site).await {
                // The question itself may have signed in.
                self.watch.asked((self.site.clock)(), self.site.gateway.sessions());
            }
            // Before anything is offered as well: a peer may have seen receipts that the server hides.
            peers::exchange_heads(&self.site).await;
        }
        self.register().await?;
        let decided = self.known.to_vec();
        let leases: Vec<String> = {
            let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            held.values().map(|part| part.lease.token()).collect()
        };
        let offer = tokio::select! {
            offer = self.site.gateway.next_offer(WAIT, &decided, &leases) => offer?,
            // The pending call names ended parts as held, and would not receive them until its wait ends. The server
            // repeats a lost offer to a worker that does not name the part as held.
            () = self.fewer.notified() => return Ok(()),
        };
        match offer {
            Offer::Nothing => {}
            Offer::Proposal { manifest, dataset } => {
                // No decision is sent before its tick, and the next offer is requested after it.
                let _deciding = self.site.deciding.lock().await;
                let opened = self.site.timeline.now();
                desk::consider(&self.site, &manifest, dataset)?;
                let tick = Tick::first_after(opened, release_clock::DECISIONS, self.site.timeline.now());
                tick.await_on(&*self.site.timeline, &self.stop).await;
                self.known.add(manifest.digest());
                desk::tell_now(&self.site).await;
            }
            Offer::Work(work) => self.begin(work),
        }
        Ok(())
    }

    /// Registers datasets that are new or have changed.
    async fn register(&mut self) -> Result<(), DaemonError> {
        let mut found = self.site.find_datasets()?;
        for local in &mut found {
            let told =
                DatasetRegistration { approval: Some(self.site.approval_of(&local.name)?), ..local.registration() };
            if self.registered.get(&local.name) != Some(&told) {
                let id = self.site.gateway.register(&told).await?;
                datasets::note_registered(&self.site.store, &local.name, id)?;
                local.id = Some(id);
                tracing::info!(dataset.name = local.name, dataset.id = %id, "dataset registered");
                if let Some(notice) = datasets::legacy_notice(local) {
                    let remedy = notice.remedy();
                    tracing::warn!(dataset.name = local.name, remedy, "the dataset {notice}");
                }
                self.registered.insert(local.name.clone(), told);
            }
        }
        self.site.hold(found);
        Ok(())
    }

    /// Starts a part, or passes its new lease to the running one.
    fn begin(&mut self, work: Work) {
        let (own, claimed) = (desk::job_of(&self.site, &work.manifest), desk::claimed_job(&work.manifest));
        let Some(job) = own.or(claimed) else {
            tracing::error!(dataset.id = %work.dataset, "work under something that is no manifest; it is ignored");
            return;
        };
        let (place, manifest) = ((job, work.dataset), work.manifest.digest());
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let known = held.get(&place);
        if let Some(part) = known.filter(|part| own.is_some() && part.manifest == manifest) {
            part.lease.replace(work.lease);
            return;
        }
        let site = Arc::clone(&self.site);
        if own.is_none() || known.is_some() {
            let fault = match known {
                Some(part) if own.is_some() => ManifestFault::Changed(part.manifest.clone()),
                _ => ManifestFault::Signature(SignedError::Forged),
            };
            self.parts.spawn(async move { part::turn_away(&site, &work, job, fault.to_string()).await });
            return;
        }
        let lease = Lease::new(work.lease.clone(), self.stop.child_token()).with_shutdown(self.stop.clone());
        let lease = Arc::new(lease);
        held.insert(place, HeldPart { manifest, lease: Arc::clone(&lease) });
        drop(held);
        let (slots, held, fewer) = (Arc::clone(&self.slots), Arc::clone(&self.held), Arc::clone(&self.fewer));
        self.parts.spawn(async move {
            Box::pin(part::run(&site, work, &lease, &slots)).await;
            held.lock().unwrap_or_else(PoisonError::into_inner).remove(&place);
            fewer.notify_one();
        });
    }

    /// Waits up to [`FAREWELL`] for the parts to end; an unfinished part is as safe as after a crash.
    async fn farewell(&mut self) {
        self.stop.cancel();
        if !ended(&mut self.parts).await {
            tracing::warn!("a run is still busy; it will go on from its checkpoint when the worker is started again");
        }
    }
}

/// Returns whether all parts end within [`FAREWELL`].
async fn ended(parts: &mut JoinSet<()>) -> bool {
    let all = async { while parts.join_next().await.is_some() {} };
    tokio::time::timeout(FAREWELL, all).await.is_ok()
}

async fn every<F: Future<Output = ()>>(pause: Duration, stop: CancellationToken, act: impl Fn() -> F) {
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
