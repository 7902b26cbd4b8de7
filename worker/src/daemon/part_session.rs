//! The site's own side of one part of a job: earlier progress, permission, the vector on disk, its payment, the
//! server's countersignature of the payment, the submission, and its acknowledgement. Every step is complete when it
//! returns; between any two of them the process may crash. This module does not contact the server: the daemon sends
//! submissions, in the simulation over a bad network.
//!
//! The order is that of `privacy.md`, 14.6: [`clear`](PartSession::clear), make, store and
//! [`pay`](PartSession::pay_vector), have the payment countersigned ([`charge`](PartSession::charge)), send
//! ([`submission`](PartSession::submission), [`permit_departure`](PartSession::permit_departure)).

mod masked;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rand_chacha::rand_core::Rng;
use undertone_api::dataset::Visibility;
use undertone_api::job::Spec;
use undertone_api::job::audit::AuditFinding;
use undertone_api::job::dp_sgd::Precision;
use undertone_api::signed::{ReleaseTick, Signed};
use undertone_proto::vector;

use super::Site;
use super::departure::departure_reason;
use crate::dp::randomness::{Purpose, Randomness};
use crate::dp::release::Outgoing;
use crate::fault;
use crate::queries::gate::OutgoingPool;
use crate::run::{RoundProgress, RunError};
use crate::site::admission::ExaminedManifest;
use crate::site::audits::{self, AssessmentBasis, AuditsError};
use crate::site::clearance::{Clearance, DepartureProof, GrantId};
use crate::site::datasets::DatasetMeta;
use crate::site::folder::create_private;
use crate::site::gate::{self, GateError};
use crate::site::holds;
use crate::site::ledger::LedgerError;
use crate::site::outbox::{
    OutboxError, ReleaseOutbox, ReleaseProgress, StoredRelease, StoredVector, acknowledge, receipts_to_send,
};
use crate::site::policy::{DatasetRules, PolicyRefusal, units_of};
use crate::site::witness;
use crate::speech::transcribe::outbound::SealedSounds;

pub use masked::AcceptedGroup;
pub(super) use masked::step_failure;

/// The reason why a release can no longer be made or sent.
const LOST: &str = "it is paid, but this site no longer has its bytes: the ledger was restored from an older copy, or the disk lost \
                    them. The site never makes it a second time; propose a new job";

/// A granted, unused clearance.
struct UnusedClearance {
    series: String,
    round: u32,
    /// The grant that the release must carry; `None` for public data.
    grant: Option<GrantId>,
}

/// The state of one part.
pub struct PartSession {
    examined: ExaminedManifest,
    folder: PathBuf,
    outbox: ReleaseOutbox,
    clearance: Option<UnusedClearance>,
    /// The vector that this process stored and has not sent yet: it need not be read again.
    unsent: Mutex<Option<UnsentVector>>,
    /// The tick of the release clock at which the part's next release is paid.
    tick: Mutex<Option<ReleaseTick>>,
}

/// A vector that is on disk and paid, as it was written.
struct UnsentVector {
    series: String,
    round: u32,
    parcel: StoredVector,
}

/// A stored vector or pool to send, with every receipt that the server lacks up to the one that pays for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Submission {
    /// The stored bytes.
    pub parcel: StoredVector,
    /// The receipts, oldest first.
    pub receipts: Vec<Signed>,
    /// Their numbers at this site.
    numbers: Vec<u64>,
}

/// Receipts that the server has to countersign before a release leaves, oldest first; the last one pays for it.
#[derive(Debug, Clone, PartialEq)]
pub struct UncountersignedReceipts {
    /// The receipts.
    pub receipts: Vec<Signed>,
    /// Their numbers at this site.
    numbers: Vec<u64>,
}

/// Separates a refusal by the rules from a failing disk: after a disk failure the same job may continue.
fn gate_failure(error: GateError) -> RunError {
    match error {
        GateError::Ledger(error @ (LedgerError::Store(_) | LedgerError::Books(_))) => RunError::from_failure(error),
        refusal => RunError::refused(refusal),
    }
}

fn lost_release(series: &str, round: u32) -> RunError {
    RunError::refused(format!("{series}/{round}: {LOST}"))
}

impl PartSession {
    /// Makes the state of an admitted part, with its folder.
    ///
    /// # Errors
    /// [`RunError::Failed`] when the folder cannot be made.
    pub fn new(site: &Site, examined: ExaminedManifest) -> Result<Self, RunError> {
        let folder = site.folder.work(examined.manifest.job, examined.dataset.id);
        create_private(&folder).map_err(RunError::from_failure)?;
        let outbox = ReleaseOutbox::new(examined.manifest.job, examined.dataset.id, &folder);
        Ok(Self { examined, folder, outbox, clearance: None, unsent: Mutex::default(), tick: Mutex::default() })
    }

    /// Returns the manifest and this site's knowledge about it.
    pub const fn examined(&self) -> &ExaminedManifest {
        &self.examined
    }

    /// Returns its folder, kept across restarts.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the number of bits per value of a series on the wire, by the manifest.
    pub fn precision(&self, series: &str) -> Precision {
        let all = self.examined.manifest.spec.series(std::slice::from_ref(&self.examined.dataset));
        all.into_iter().find(|known| known.name == series).map_or_else(Precision::default, |known| known.precision)
    }

    /// Returns the progress of a round in an earlier process.
    ///
    /// # Errors
    /// [`RunError::Failed`] when the site's disk cannot be read.
    pub fn past(&self, site: &Site, series: &str, round: u32) -> Result<RoundProgress, RunError> {
        Ok(match self.outbox.state(&site.store, series, round).map_err(RunError::from_failure)? {
            ReleaseProgress::Nothing => RoundProgress::Untouched,
            ReleaseProgress::Unpaid(_) | ReleaseProgress::Stored => RoundProgress::Stored,
            ReleaseProgress::Accepted => RoundProgress::Accepted,
            ReleaseProgress::Gone if self.has_one_vector(series) => RoundProgress::Lost,
            // The round is paid again if the job reserved for that, and then made anew.
            ReleaseProgress::Gone if self.may_pay_again(site, series)? => RoundProgress::Untouched,
            ReleaseProgress::Lost | ReleaseProgress::Gone => RoundProgress::Lost,
        })
    }

    /// Returns whether a round of a series has one vector: it is masked, or all releases are charged as a whole.
    fn has_one_vector(&self, series: &str) -> bool {
        let is_whole = || self.examined.release(series).is_some_and(|event| event.whole_releases().is_some());
        self.masked_group(series).is_some() || is_whole()
    }

    fn may_pay_again(&self, site: &Site, series: &str) -> Result<bool, RunError> {
        let (Some(under), Some(event)) = (self.examined.release_context(), self.examined.release(series)) else {
            return Ok(true);
        };
        match site.ledger.check_release(&under, &event) {
            Err(error @ (LedgerError::Store(_) | LedgerError::Books(_))) => Err(RunError::from_failure(error)),
            Err(LedgerError::Rule(_)) => Ok(false),
            // Other reasons against it are reported when it is requested.
            Ok(()) | Err(_) => Ok(true),
        }
    }

    /// Asks policy and ledger for permission to make one vector, pool or batch. Nothing is charged.
    ///
    /// # Errors
    /// [`RunError::Refused`] when policy or ledger refuse, [`RunError::Failed`] when the disk fails or the round was
    /// released already.
    pub fn clear(&mut self, site: &Site, series: &str, round: u32) -> Result<Clearance, RunError> {
        match self.past(site, series, round)? {
            RoundProgress::Untouched => {}
            RoundProgress::Stored | RoundProgress::Accepted => {
                return Err(RunError::failed(format!("{series}/{round} is released already: resend it")));
            }
            RoundProgress::Lost => return Err(lost_release(series, round)),
        }
        // Nothing is made that may not leave; the run resumes when the site releases the hold.
        self.check_hold(site)?;
        let rules = self.current_rules(site)?;
        let clearance = gate::clear(&site.ledger, &rules, &self.examined, series, round, (site.clock)());
        let clearance = clearance.map_err(gate_failure)?;
        let grant = clearance.grant().cloned();
        self.clearance = Some(UnusedClearance { series: series.to_owned(), round, grant });
        Ok(clearance)
    }

    /// Returns the current rules for the dataset, if they allow the part's highest cost in money.
    fn current_rules(&self, site: &Site) -> Result<DatasetRules, RunError> {
        let policy = site.policy().map_err(|error| {
            // The path of the file is for this site's log only; the proposer reads the refusal.
            tracing::error!(error = %error, "the policy cannot be read: nothing can leave");
            RunError::refused("this site's policy cannot be read, so nothing can leave here")
        })?;
        let units = units_of(&self.examined.local, &site.datasets());
        let rules = policy.rules(&self.examined.local.name).for_units(&units);
        self.judge_cost(site, &rules).map_err(RunError::refused)?;
        Ok(rules)
    }

    /// Pays for a stored release by its digest; returns the number of the receipt, `None` for public data.
    fn pay(&self, site: &Site, release: &StoredRelease) -> Result<Option<u64>, RunError> {
        self.check_hold(site)?;
        let rules = self.current_rules(site)?;
        let tick = *self.tick.lock().unwrap_or_else(PoisonError::into_inner);
        let release = release.clone().with_tick(tick);
        gate::pay(&site.ledger, &rules, &self.examined, &release, (site.clock)()).map_err(gate_failure)
    }

    /// Judges the part's highest cost in money. Longer recordings may have replaced those of the admission, so the
    /// current ones are judged. If they cannot be read, nothing can be sent, and the admitted ones are judged.
    fn judge_cost(&self, site: &Site, rules: &DatasetRules) -> Result<(), PolicyRefusal> {
        let ExaminedManifest { manifest, local, dataset, .. } = &self.examined;
        let spec = &manifest.spec;
        if !matches!(spec, Spec::Transcription(_)) {
            return Ok(());
        }
        let current = local
            .rescan::<DatasetMeta>()
            .map(|current| current.to_dataset(dataset.id, dataset.organization, dataset.worker));
        rules.judge_cost(spec, current.as_ref().unwrap_or(dataset), &site.transcription.providers)
    }

    /// Stores a vector that was made for this round, then pays for it. It may be sent once the server has countersigned
    /// the payment.
    ///
    /// # Errors
    /// [`RunError::Refused`] when it was not cleared for this round, or policy or ledger refuse now;
    /// [`RunError::Failed`] when the disk fails.
    pub fn pay_vector(&mut self, site: &Site, series: &str, round: u32, vector: &Outgoing) -> Result<(), RunError> {
        let bytes = self.encode(series, round, vector)?;
        self.store_and_pay(site, series, round, bytes, vector.vector().len() as u64)
    }

    /// Stores a vector that was made for this round. [`PartSession::charge`] pays for it when it may leave.
    ///
    /// # Errors
    /// [`RunError::Refused`] when it was not cleared for this round, [`RunError::Failed`] when the disk fails.
    pub fn store_vector(&mut self, series: &str, round: u32, vector: &Outgoing) -> Result<(), RunError> {
        let bytes = self.encode(series, round, vector)?;
        self.store(series, round, &bytes, vector.vector().len() as u64).map(|_| ())
    }

    /// Stores a pool of questions that was made for this round. [`PartSession::charge`] pays for it when it may leave.
    ///
    /// # Errors
    /// As [`PartSession::store_vector`].
    pub fn store_pool(&mut self, series: &str, round: u32, pool: &OutgoingPool) -> Result<(), RunError> {
        self.consume_clearance("pool", series, round, pool.grant())?;
        self.store(series, round, pool.bytes(), pool.questions()).map(|_| ())
    }

    /// Sets the tick of the release clock for the next payment: receipts state it.
    pub fn set_tick(&self, tick: ReleaseTick) {
        *self.tick.lock().unwrap_or_else(PoisonError::into_inner) = Some(tick);
    }

    /// Encodes a vector that was cleared for this round, in its wire form.
    fn encode(&mut self, series: &str, round: u32, vector: &Outgoing) -> Result<Vec<u8>, RunError> {
        self.consume_clearance("vector", series, round, vector.grant())?;
        // The vector is rounded and packed once: every transmission sends the bytes on disk.
        let mut rng = Randomness::from_os(Purpose::Rounding).stream(0);
        vector::write(vector.vector(), self.precision(series), || rng.next_u32()).map_err(RunError::from_failure)
    }

    fn store(&self, series: &str, round: u32, bytes: &[u8], length: u64) -> Result<StoredRelease, RunError> {
        fault::point(fault::BEFORE_STORE);
        let release = self.outbox.store(series, round, bytes, length).map_err(RunError::from_failure)?;
        fault::point(fault::AFTER_STORE);
        Ok(release)
    }

    /// Stores a pool of questions that was made for this round, then pays for it. Once the server has countersigned the
    /// payment, exactly these bytes may be sent any number of times.
    ///
    /// # Errors
    /// As [`PartSession::pay_vector`].
    pub fn pay_pool(&mut self, site: &Site, series: &str, round: u32, pool: &OutgoingPool) -> Result<(), RunError> {
        self.consume_clearance("pool", series, round, pool.grant())?;
        self.store_and_pay(site, series, round, pool.bytes().to_vec(), pool.questions())
    }

    fn store_and_pay(
        &mut self,
        site: &Site,
        series: &str,
        round: u32,
        bytes: Vec<u8>,
        length: u64,
    ) -> Result<(), RunError> {
        let release = self.store(series, round, &bytes, length)?;
        let receipt = self.pay(site, &release)?;
        let parcel = StoredVector { bytes, length, digest: release.digest().to_owned(), receipt };
        self.unsent = Mutex::new(Some(UnsentVector { series: series.to_owned(), round, parcel }));
        Ok(())
    }

    /// Pays for a sealed batch of sounds on disk, unless it is paid. Once the server has countersigned the payment, it
    /// may leave for recipients other than the server. Repeated calls for the same batch change nothing.
    ///
    /// # Errors
    /// [`RunError::Refused`] when policy or ledger refuse, it is another release than the job's, or another batch was
    /// paid; [`RunError::Stopped`] while the site holds the job, [`RunError::Failed`] when the disk fails.
    pub fn pay_batch(&self, site: &Site, series: &str, round: u32, batch: &SealedSounds) -> Result<(), RunError> {
        self.check_hold(site)?;
        let release = self.outbox.batch(series, round, batch);
        match self.outbox.batch_state(&site.store, &release).map_err(RunError::from_failure)? {
            ReleaseProgress::Nothing | ReleaseProgress::Unpaid(_) => {}
            ReleaseProgress::Stored | ReleaseProgress::Accepted => return Ok(()),
            ReleaseProgress::Gone => {
                return Err(RunError::refused(format!("another batch is paid under {series}/{round}")));
            }
            ReleaseProgress::Lost => return Err(lost_release(series, round)),
        }
        let event = batch.event();
        if self.examined.local.visibility != Visibility::Public && event != self.examined.release(series).as_ref() {
            return Err(RunError::refused(format!("the batch is not the release of {series}/{round}")));
        }
        self.pay(site, &release).map(|_| ())
    }

    /// Checks that a release carries the current clearance, and that this is for the round; consumes the clearance.
    fn consume_clearance(
        &mut self,
        release: &str,
        series: &str,
        round: u32,
        grant: Option<&GrantId>,
    ) -> Result<(), RunError> {
        let has_grant = |clearance: &UnusedClearance| match (&clearance.grant, grant) {
            (None, None) => true,
            (Some(one), Some(other)) => one.is_same(other),
            _ => false,
        };
        let clearance = self.clearance.take();
        let clearance = clearance.filter(|clearance| {
            (clearance.series.as_str(), clearance.round) == (series, round) && has_grant(clearance)
        });
        let refusal = || RunError::refused(format!("the {release} has no clearance for {series}/{round}"));
        clearance.map(|_| ()).ok_or_else(refusal)
    }

    /// Pays for the stored release of a round, unless it is paid, and returns the receipts that the server has to
    /// countersign before it leaves. Returns `None` when they are countersigned, or when there is nothing to pay.
    ///
    /// # Errors
    /// [`RunError::Stopped`] while the site holds the job, [`RunError::Refused`] when policy or ledger refuse,
    /// [`RunError::Failed`] when nothing is stored, or the disk fails.
    pub fn charge(&self, site: &Site, series: &str, round: u32) -> Result<Option<UncountersignedReceipts>, RunError> {
        // A paid release waits on disk as well.
        self.check_hold(site)?;
        let is_unsent = {
            let unsent = self.unsent.lock().unwrap_or_else(PoisonError::into_inner);
            unsent.as_ref().is_some_and(|unsent| (unsent.series.as_str(), unsent.round) == (series, round))
        };
        if !is_unsent
            && let ReleaseProgress::Unpaid(release) =
                self.outbox.state(&site.store, series, round).map_err(RunError::from_failure)?
        {
            self.pay(site, &release)?;
        }
        let Some(number) = self.outbox.receipt(&site.store, series, round).map_err(RunError::from_failure)? else {
            return Ok(None);
        };
        if witness::is_countersigned(&site.store, number).map_err(RunError::from_failure)? {
            return Ok(None);
        }
        let pending = receipts_to_send(&site.store, number, Some(number)).map_err(RunError::from_failure)?;
        let (numbers, receipts) = pending.into_iter().unzip();
        Ok(Some(UncountersignedReceipts { receipts, numbers }))
    }

    /// Stores the server's countersignatures of the receipts from [`PartSession::charge`]; they are on disk when this
    /// returns.
    ///
    /// # Errors
    /// [`RunError::Refused`] when they are invalid, which raises an alarm; [`RunError::Failed`] when some are missing,
    /// or the disk fails.
    pub fn store_countersignatures(
        &self,
        site: &Site,
        request: &UncountersignedReceipts,
        answer: &[Signed],
    ) -> Result<(), RunError> {
        let key = &site.identity.server_key;
        let contradiction =
            witness::record_countersignatures(&site.store, key, &request.receipts, answer, (site.clock)())
                .map_err(RunError::from_failure)?;
        if let Some(contradiction) = contradiction {
            tracing::error!(problem = %contradiction, "ALARM: the server's countersignature contradicts this site's ledger. Nothing leaves this site from now on");
            return Err(RunError::refused(contradiction.to_string()));
        }
        if answer.len() < request.receipts.len() {
            return Err(RunError::failed("the server has not countersigned every submitted receipt"));
        }
        acknowledge(&site.store, &request.numbers).map_err(RunError::from_failure)
    }

    /// Returns the permission for a sealed batch to leave for recipients other than the server: it is paid, and the
    /// server has countersigned the payment.
    ///
    /// # Errors
    /// [`RunError::Refused`] otherwise, [`RunError::Failed`] when the disk fails.
    pub fn permit_departure(
        &self,
        site: &Site,
        series: &str,
        round: u32,
        batch: &SealedSounds,
    ) -> Result<DepartureProof, RunError> {
        self.check_hold(site)?;
        self.outbox.departure(&site.store, series, round, batch).map_err(|error| match error {
            refusal @ (OutboxError::Missing { .. } | OutboxError::NotCountersigned { .. }) => {
                RunError::refused(refusal)
            }
            error => RunError::failed(error),
        })
    }

    /// Returns the submission of a round: the bytes on disk, and receipts.
    ///
    /// # Errors
    /// [`RunError::Stopped`] while the site holds the job, [`RunError::Failed`] when nothing is stored for it, its
    /// payment is not countersigned, or the disk fails.
    pub fn submission(&self, site: &Site, series: &str, round: u32) -> Result<Submission, RunError> {
        // A paid release waits on disk as well.
        self.check_hold(site)?;
        let unsent = self.unsent.lock().unwrap_or_else(PoisonError::into_inner).take();
        let parcel = match unsent.filter(|unsent| (unsent.series.as_str(), unsent.round) == (series, round)) {
            Some(unsent) => {
                self.outbox
                    .check_countersigned(&site.store, series, round, unsent.parcel.receipt)
                    .map_err(RunError::from_failure)?;
                unsent.parcel
            }
            None => self.outbox.parcel(&site.store, series, round).map_err(RunError::from_failure)?,
        };
        let pending = match parcel.receipt {
            Some(receipt) => receipts_to_send(&site.store, receipt, Some(receipt)).map_err(RunError::from_failure)?,
            None => Vec::new(),
        };
        let (numbers, receipts) = pending.into_iter().unzip();
        Ok(Submission { parcel, receipts, numbers })
    }

    /// Checks that the site neither holds the job nor has left it.
    fn check_hold(&self, site: &Site) -> Result<(), RunError> {
        let departure = departure_reason(site, self.examined.manifest.job, self.examined.dataset.id);
        if let Some(reason) = departure.map_err(RunError::from_failure)? {
            return Err(RunError::Stopped(reason.into()));
        }
        let hold = holds::current_hold(&site.store, self.examined.manifest.job, self.examined.dataset.id)
            .map_err(RunError::from_failure)?;
        let stop = |hold: holds::StoredHold| {
            RunError::Stopped(format!("this site holds the job: {}", hold.word.reason).into())
        };
        hold.map_or(Ok(()), |hold| Err(stop(hold)))
    }

    /// Signs the finding of the promised audit as the site's statement, and freezes the account when it disproves the
    /// claim; all is on disk when this returns. An earlier statement stays in force.
    ///
    /// # Errors
    /// [`RunError::Failed`] when it is not the promised audit, or the disk fails.
    pub fn sign_finding(&self, site: &Site, finding: &AuditFinding) -> Result<Signed, RunError> {
        let under = self.examined.release_context().ok_or_else(|| RunError::failed(AuditsError::NotPromised))?;
        let delta = site
            .ledger
            .delta(&under)
            .map_err(RunError::from_failure)?
            .ok_or_else(|| RunError::failed(LedgerError::NotReserved))?;
        let ground = AssessmentBasis::new(&self.examined, delta).map_err(RunError::from_failure)?;
        let (signed, _) =
            audits::state(&site.store, &site.key, &ground, finding, (site.clock)()).map_err(RunError::from_failure)?;
        Ok(signed)
    }

    /// Records that the server has a submission: the vector, or at least its payment.
    ///
    /// # Errors
    /// [`RunError::Failed`] when the disk fails; the same submission is sent again then.
    pub fn mark_received(
        &self,
        site: &Site,
        series: &str,
        round: u32,
        submission: &Submission,
    ) -> Result<(), RunError> {
        self.outbox.mark_accepted(&site.store, series, round, &submission.numbers).map_err(RunError::from_failure)
    }
}
