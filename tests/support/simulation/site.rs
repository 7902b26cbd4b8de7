//! A site's process: the worker's real modules on the site's real disk. Each step is an action of the daemon between
//! two moments at which it could crash. The order is that of the daemon and of a run: look and take up the work; for
//! every round check earlier progress, check whether it is closed, clear, store, send, fetch the average; then close,
//! and report the end.

mod part;

use std::collections::{BTreeMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use time::{Duration, OffsetDateTime};
use undertone_api::id::{DatasetId, JobId, WorkerId};
use undertone_api::problem::Code;
use undertone_api::signed::Manifest;
use undertone_server_core::service::offer::WorkOffer;
use undertone_worker::config::Config;
use undertone_worker::daemon::{self, Site};
use undertone_worker::fault::{self, FailurePlan, SimulatedCrash};
use undertone_worker::gateway::OfferedWork;
use undertone_worker::site::folder::Folder;
use undertone_worker::site::jobs::{self, RunOutcome};
use undertone_worker::site::ledger::{self, LedgerError};
use undertone_worker::site::restore;

use self::part::{PartProgress, PartStage};
use super::audit::site::SiteAuditor;
use super::broken::BrokenRule;
use super::ground::{START, SimulatedParty, open_site};
use super::message::{CallOutcome, ServerAnswer, WorkerCall};
use super::network::SimulatedNetwork;
use super::{Failed, StopReason};

/// The last backup, and the last copy of the ledger, in the site's folder.
const BACKUP: &str = "site.backup";
const COPY: &str = "copy.db";

/// One run of the process.
struct WorkerProcess {
    site: Site,
    known: HashSet<String>,
    parts: BTreeMap<(JobId, DatasetId), PartProgress>,
}

/// A site, with its process running or not.
#[expect(clippy::struct_excessive_bools, reason = "each is an accident of its own")]
pub(super) struct SiteProcess {
    pub(super) name: &'static str,
    pub(super) worker: WorkerId,
    pub(super) root: PathBuf,
    config: Config,
    /// Microseconds since the start.
    clock: Arc<AtomicI64>,
    life: Option<WorkerProcess>,
    /// An accident planned for the next step.
    pub(super) planned: Option<FailurePlan>,
    full: bool,
    pub(super) books: SiteAuditor,
    broken: Option<BrokenRule>,
    /// Whether this run has compared its ledger with the server's receipts.
    compared: bool,
    /// An older copy of the ledger was restored, and is not compared yet.
    pub(super) outdated: bool,
    /// Whether there is a copy to restore.
    has_copy: bool,
}

/// The way in which an older copy is restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RestoreMode {
    /// By the documented commands, in place.
    InPlace,
    /// By the documented commands, on a machine without its work folder.
    NewMachine,
    /// The ledger's file alone, manually.
    ByHand,
}

/// The result of a step; `None` when the process does not run or crashed.
type Stepped<T> = Result<Option<T>, StopReason>;

impl SiteProcess {
    pub(super) fn new(party: &SimulatedParty, root: PathBuf, broken: Option<BrokenRule>) -> Result<Self, Failed> {
        let books = SiteAuditor::open(&root, party.key.clone())?;
        let (name, worker, config) = (party.name, party.worker, party.config.clone());
        let clock = Arc::new(AtomicI64::new(0));
        Ok(Self {
            name,
            worker,
            root,
            config,
            clock,
            life: None,
            planned: None,
            full: false,
            books,
            broken,
            compared: false,
            outdated: false,
            has_copy: false,
        })
    }

    pub(super) const fn is_alive(&self) -> bool {
        self.life.is_some()
    }

    /// Advances its clock.
    pub(super) fn pass(&self, time: Duration) {
        self.clock.fetch_add(time.whole_microseconds() as i64, Ordering::SeqCst);
    }

    /// Starts the process from its disk; the ledger must be unchanged.
    pub(super) fn start(&mut self) -> Result<(), StopReason> {
        if self.life.is_some() {
            return Ok(());
        }
        let before = self.books.rows()?;
        let clock = Arc::clone(&self.clock);
        let now = move || -> OffsetDateTime { START + Duration::microseconds(clock.load(Ordering::SeqCst)) };
        let site = open_site(&self.root, &self.config, now)?;
        site.find_datasets().map_err(Failed::from)?;
        if self.full {
            site.store().bound(1).map_err(Failed::from)?;
        }
        self.life = Some(WorkerProcess { site, known: HashSet::new(), parts: BTreeMap::new() });
        // A site that breaks the rule omits the comparison.
        self.compared = self.broken == Some(BrokenRule::RestoreIsNotCompared);
        if self.books.rows()? != before {
            return Err(StopReason::Wrong("starting a worker changed its ledger".to_owned()));
        }
        Ok(())
    }

    /// Ends the process immediately.
    pub(super) fn kill(&mut self) {
        self.life = None;
        self.planned = None;
    }

    /// Makes a backup of the site, and a copy of its ledger; returns false when it cannot be read.
    pub(super) fn copy(&mut self) -> Result<bool, StopReason> {
        let Some(life) = self.life.as_ref().filter(|_| !self.outdated) else { return Ok(false) };
        let (backup, ledger) = (self.root.join(BACKUP), self.root.join(COPY));
        for path in [&backup, &ledger] {
            if path.exists() {
                std::fs::remove_file(path).map_err(Failed::from)?;
            }
        }
        life.site.store().copy_to(&ledger).map_err(Failed::from)?;
        restore::backup(&Folder::new(&self.root), &backup, None, START).map_err(Failed::from)?;
        self.has_copy = true;
        Ok(true)
    }

    /// Ends the process and restores the copy; returns false when there is none.
    pub(super) fn put_back(&mut self, how: RestoreMode) -> Result<bool, StopReason> {
        if !self.has_copy {
            return Ok(false);
        }
        self.kill();
        self.books.close()?;
        let folder = Folder::new(&self.root);
        if how == RestoreMode::ByHand {
            for name in ["ledger.db", "ledger.db-wal", "ledger.db-shm"] {
                let path = self.root.join(name);
                if path.exists() {
                    std::fs::remove_file(path).map_err(Failed::from)?;
                }
            }
            std::fs::copy(self.root.join(COPY), folder.ledger()).map_err(Failed::from)?;
        } else {
            let put = restore::restore(&folder, &self.root.join(BACKUP), None, true, START).map_err(Failed::from)?;
            if let Some(aside) = put.replaced {
                std::fs::remove_dir_all(aside).map_err(Failed::from)?;
            }
        }
        let work = self.root.join("work");
        if how == RestoreMode::NewMachine && work.exists() {
            std::fs::remove_dir_all(work).map_err(Failed::from)?;
        }
        self.books.reopen(&self.root)?;
        self.outdated = self.broken != Some(BrokenRule::RestoreIsNotCompared);
        Ok(true)
    }

    /// Compares the ledger with the server's receipts, as the daemon does before any other request; returns false while
    /// there is no answer.
    pub(super) async fn compare(&mut self, network: &mut SimulatedNetwork) -> Result<bool, StopReason> {
        let Some(life) = self.life.as_ref().filter(|_| !self.compared) else { return Ok(self.compared) };
        let mut after = ledger::length(life.site.store()).map_err(Failed::from)?.saturating_sub(1);
        let mut receipts = Vec::new();
        loop {
            network.trace.note(format!("{} compares its ledger", self.name));
            match network.carry(self.worker, WorkerCall::Receipts { after }).await? {
                CallOutcome::Said(ServerAnswer::Signed(page)) if page.is_empty() => break,
                CallOutcome::Said(ServerAnswer::Signed(page)) => {
                    after += page.len() as u64;
                    receipts.extend(page);
                }
                _ => return Ok(false),
            }
        }
        let imported =
            self.live(|life| daemon::import_receipts(&life.site, &receipts).map_err(|error| error.to_string()))?;
        if self.note_outcome(network, "compared", imported).is_none() {
            return Ok(false);
        }
        if let Some(Err(LedgerError::Alarm { problem, .. })) =
            self.life.as_ref().map(|life| life.site.ledger().check_quiet())
        {
            return Err(StopReason::Wrong(format!("{} takes an honest server for a liar: {problem}", self.name)));
        }
        (self.compared, self.outdated) = (true, false);
        Ok(true)
    }

    /// Fills its disk, or frees space again.
    pub(super) fn fill(&mut self, full: bool) -> Result<(), StopReason> {
        self.full = full;
        if let Some(life) = &self.life {
            life.site.store().bound(if full { 1 } else { u32::MAX - 1 }).map_err(Failed::from)?;
        }
        Ok(())
    }

    /// Runs an action of the site's process, which may crash during it.
    fn live<T>(&mut self, act: impl FnOnce(&mut WorkerProcess) -> T) -> Stepped<T> {
        let Some(life) = self.life.as_mut() else { return Ok(None) };
        fault::plan(self.planned.take());
        let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| act(life)));
        fault::plan(None);
        match outcome {
            Ok(outcome) => Ok(Some(outcome)),
            Err(payload) if payload.is::<SimulatedCrash>() => {
                self.kill();
                Ok(None)
            }
            Err(payload) => std::panic::resume_unwind(payload),
        }
    }

    /// Returns the number of active parts.
    pub(super) fn in_hand(&self) -> usize {
        self.life.as_ref().map_or(0, |life| life.parts.len())
    }

    /// Checks that the process's state agrees with its disk.
    pub(super) fn agrees(&self) -> Result<(), StopReason> {
        self.life.as_ref().map_or(Ok(()), |life| self.books.agrees(life.site.ledger()))
    }

    /// Requests an offer, and processes it.
    pub(super) async fn turn(&mut self, network: &mut SimulatedNetwork) -> Result<bool, StopReason> {
        if !self.compare(network).await? {
            return Ok(self.life.is_some());
        }
        let Some(life) = &self.life else { return Ok(false) };
        let decided = life.known.iter().cloned().collect();
        let leases = life.parts.values().map(|part| part.work.lease.clone()).collect();
        network.trace.note(format!("{} asks for an offer", self.name));
        let outcome = network.carry(self.worker, WorkerCall::NextOffer { decided, leases }).await?;
        let CallOutcome::Said(ServerAnswer::Offer(offer)) = outcome else { return Ok(true) };
        match *offer {
            WorkOffer::Nothing => {}
            WorkOffer::Proposal { manifest, dataset } => {
                let considered = self.live(|life| {
                    let outcome = daemon::consider(&life.site, &manifest, dataset);
                    if outcome.is_ok() {
                        life.known.insert(manifest.digest());
                    }
                    outcome
                })?;
                self.note_outcome(
                    network,
                    "considered",
                    considered.map(|outcome| outcome.map_err(|error| error.to_string())),
                );
            }
            WorkOffer::Work { manifest, dataset, lease, steward, approval } => {
                let job = manifest.open::<Manifest>(&self.config.server_key).map_err(Failed::from)?.job;
                let Some(life) = self.life.as_mut() else { return Ok(true) };
                let lease_time = std::time::Duration::from_mins(1);
                let approval = approval.map(|approval| *approval);
                let work = OfferedWork { manifest, dataset, lease, lease_time, steward, approval };
                if let Some(part) = life.parts.get_mut(&(job, dataset)) {
                    part.work.lease = work.lease;
                } else {
                    let part = PartProgress { work, stage: PartStage::Look, session: None, done: 0 };
                    life.parts.insert((job, dataset), part);
                }
            }
        }
        Ok(true)
    }

    /// Records the outcome of an action in the trace.
    fn note_outcome<T>(
        &self,
        network: &mut SimulatedNetwork,
        what: &str,
        done: Option<Result<T, String>>,
    ) -> Option<T> {
        match done {
            None => network.trace.more(&format!("{} died", self.name)),
            Some(Err(error)) => {
                network.trace.more(&format!("{what}: failed"));
                network.trace.aside(&error);
            }
            Some(Ok(value)) => {
                network.trace.more(what);
                return Some(value);
            }
        }
        None
    }

    /// Sends pending decisions.
    pub(super) async fn tell(&mut self, network: &mut SimulatedNetwork) -> Result<bool, StopReason> {
        if !self.compare(network).await? {
            return Ok(self.life.is_some());
        }
        let waiting = self.live(|life| daemon::pending_decisions(&life.site).unwrap_or_default())?.unwrap_or_default();
        if waiting.is_empty() {
            return Ok(false);
        }
        network.trace.note(format!("{} tells its decisions", self.name));
        for (decided, signed) in waiting {
            match network.carry(self.worker, WorkerCall::Decide(signed)).await? {
                CallOutcome::Nothing => return Ok(true),
                CallOutcome::No(code, _) if transient(code) => return Ok(true),
                CallOutcome::Said(_) | CallOutcome::No(..) => {}
            }
            let acknowledgement = self.live(|life| daemon::acknowledge(&life.site, &decided))?;
            self.note_outcome(network, "told", acknowledgement.map(|done| done.map_err(|error| error.to_string())));
        }
        Ok(true)
    }

    /// Asks the server about runs that the process does not work on.
    pub(super) async fn bury(&mut self, network: &mut SimulatedNetwork) -> Result<bool, StopReason> {
        if !self.compare(network).await? {
            return Ok(self.life.is_some());
        }
        let open = self.live(|life| jobs::open_runs(life.site.store()).unwrap_or_default())?.unwrap_or_default();
        let is_running = |life: &WorkerProcess, job, dataset| life.parts.contains_key(&(job, dataset));
        let orphans: Vec<_> = open
            .into_iter()
            .filter(|(job, dataset, _)| self.life.as_ref().is_some_and(|life| !is_running(life, *job, *dataset)))
            .collect();
        if orphans.is_empty() {
            return Ok(false);
        }
        for (job, dataset, lease) in orphans {
            network.trace.note(format!("{} asks about a run that nobody works on", self.name));
            let outcome = network.carry(self.worker, WorkerCall::Renew { lease: lease.clone() }).await?;
            if let CallOutcome::Said(ServerAnswer::GoesOn(false, reason)) = outcome {
                let outcome = RunOutcome::Stopped { reason };
                let closed = self.live(|life| daemon::close_part(&life.site, job, dataset, &outcome))?;
                if self
                    .note_outcome(network, "closed", closed.map(|done| done.map_err(|error| error.to_string())))
                    .is_some()
                {
                    self.finish(network, job, dataset, lease, &outcome).await?;
                }
            }
        }
        Ok(true)
    }
}

/// Returns whether the same call may succeed later, as `GatewayError::is_transient` does.
const fn transient(code: Code) -> bool {
    matches!(code, Code::Unavailable | Code::Internal | Code::NotReady | Code::RateLimited | Code::Unauthenticated)
}
