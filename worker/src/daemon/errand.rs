//! One part of a job as far as it is the site's own business: what was done before, permission, the vector on disk, what
//! goes with it, and the note that it arrived. Every step is finished when it returns; between any two of them the process
//! may die. Nothing here speaks to the server: the daemon carries the letters, in the simulation a bad network does.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rand_chacha::rand_core::Rng;
use undertone_api::job::Spec;
use undertone_api::job::audit::Finding;
use undertone_api::job::dp_sgd::Precision;
use undertone_api::signed::Signed;
use undertone_proto::vector;

use super::Site;
use crate::dp::randomness::{Purpose, Randomness};
use crate::dp::release::Outgoing;
use crate::fault;
use crate::queries::gate::OutgoingPool;
use crate::run::{Past, RunError};
use crate::site::admission::Examined;
use crate::site::audits::{self, AuditsError, Ground};
use crate::site::clearance::Clearance;
use crate::site::folder::create_private;
use crate::site::gate::{self, GateError};
use crate::site::holds;
use crate::site::ledger::LedgerError;
use crate::site::outbox::{Kept, Outbox, Parcel, receipts_to_send};
use crate::site::policy::{PolicyRefusal, Rules};
use crate::speech::transcribe::outbound::Sealed;

/// A clearance that was given and not yet used.
struct Pending {
    series: String,
    round: u32,
    receipt: Option<u64>,
    /// The digest of the receipt, that what leaves must carry.
    digest: Option<String>,
}

/// One part in hand.
pub struct Errand {
    examined: Examined,
    folder: PathBuf,
    outbox: Outbox,
    pending: Option<Pending>,
    /// What this life has put on disk and not sent yet: it need not be read again to be sent.
    fresh: Mutex<Option<Fresh>>,
}

/// A vector that is on disk, as it was written.
struct Fresh {
    series: String,
    round: u32,
    parcel: Parcel,
}

/// A stored vector or pool on its way, with every receipt that the server lacks up to the one that pays for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Letter {
    /// What is stored.
    pub parcel: Parcel,
    /// The receipts, oldest first.
    pub receipts: Vec<Signed>,
    /// Their numbers at this site.
    numbers: Vec<u64>,
}

fn failed(error: impl std::fmt::Display) -> RunError {
    RunError::Failed(error.to_string())
}

impl Errand {
    /// A part that was admitted, with its folder.
    ///
    /// # Errors
    /// [`RunError::Failed`] when the folder cannot be made.
    pub fn new(site: &Site, examined: Examined) -> Result<Self, RunError> {
        let folder = site.folder.work(examined.manifest.job, examined.dataset.id);
        create_private(&folder).map_err(failed)?;
        let outbox = Outbox::new(examined.manifest.job, examined.dataset.id, &folder);
        Ok(Self { examined, folder, outbox, pending: None, fresh: Mutex::default() })
    }

    /// The manifest and what this site knows about it.
    pub const fn examined(&self) -> &Examined {
        &self.examined
    }

    /// Its folder, kept across restarts.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// In how many bits vectors of a series travel, by the manifest.
    pub fn precision(&self, series: &str) -> Precision {
        let all = self.examined.manifest.spec.series(std::slice::from_ref(&self.examined.dataset));
        all.into_iter().find(|known| known.name == series).map_or_else(Precision::default, |known| known.precision)
    }

    /// What an earlier life did about a round.
    ///
    /// # Errors
    /// [`RunError::Failed`] when the site's disk cannot be read.
    pub fn past(&self, site: &Site, series: &str, round: u32) -> Result<Past, RunError> {
        Ok(match self.outbox.state(&site.store, series, round).map_err(failed)? {
            Kept::Nothing => Past::Untouched,
            Kept::Stored => Past::Stored,
            Kept::Accepted => Past::Accepted,
        })
    }

    /// Asks policy and ledger for permission to send one vector or pool; what is charged is on disk when this returns.
    ///
    /// # Errors
    /// [`RunError::Refused`] when policy or ledger say no, [`RunError::Failed`] when the disk fails or the round was released
    /// already.
    pub fn clear(&mut self, site: &Site, series: &str, round: u32) -> Result<Clearance, RunError> {
        match self.past(site, series, round)? {
            Past::Untouched => {}
            Past::Stored | Past::Accepted => {
                return Err(RunError::Failed(format!("{series}/{round} was released already: send it again instead")));
            }
        }
        // Nothing is paid for what may not leave; the run comes back when the site lets it go on.
        self.is_free(site)?;
        let refused = |error: &dyn std::fmt::Display| RunError::Refused(error.to_string());
        let policy = site.policy().map_err(|error| {
            // Where the file lies is for this site's log, and the refusal for whoever proposed the job.
            tracing::error!(error = %error, "the policy cannot be read: nothing may leave");
            RunError::Refused("this site's policy cannot be read, so nothing may leave here".to_owned())
        })?;
        let rules = policy.rules(&self.examined.local.name);
        self.judge_cost(site, &rules).map_err(|refusal| refused(&refusal))?;
        let cleared =
            gate::clear(&site.ledger, &rules, &self.examined, series, round, (site.clock)()).map_err(|error| {
                match error {
                    // The disk, not the rules: the same job may go on when it is mended.
                    GateError::Ledger(error @ (LedgerError::Store(_) | LedgerError::Books(_))) => failed(error),
                    refusal => refused(&refusal),
                }
            })?;
        let digest = match &cleared.clearance {
            Clearance::Paid(spent) => Some(spent.receipt().digest()),
            Clearance::Public(_) => None,
        };
        self.pending = Some(Pending { series: series.to_owned(), round, receipt: cleared.receipt, digest });
        Ok(cleared.clearance)
    }

    /// Whether the part may cost as much money as it could. Recordings may have been replaced by longer ones since it was admitted:
    /// judged is what lies there now, and where nothing can be read any more, and so nothing sent, what was admitted.
    fn judge_cost(&self, site: &Site, rules: &Rules) -> Result<(), PolicyRefusal> {
        let Examined { manifest, local, dataset, .. } = &self.examined;
        let spec = &manifest.spec;
        if !matches!(spec, Spec::Transcription(_)) {
            return Ok(());
        }
        let now = local.as_it_lies().map(|now| now.as_seen(dataset.id, dataset.organization, dataset.worker));
        rules.judge_cost(spec, now.as_ref().unwrap_or(dataset), &site.transcription.providers)
    }

    /// Puts a vector on disk that was cleared for this round; it may be sent when this returns.
    ///
    /// # Errors
    /// [`RunError::Refused`] when it was not cleared, [`RunError::Failed`] when the disk fails.
    pub fn keep(&mut self, site: &Site, series: &str, round: u32, vector: &Outgoing) -> Result<(), RunError> {
        let cleared = self.cleared("vector", series, round, vector.receipt())?;
        fault::point(fault::BEFORE_STORE);
        // Rounded and packed once: what is on disk is what travels, however often.
        let mut chance = Randomness::from_os(Purpose::Rounding).stream(0);
        let bytes = vector::write(vector.vector(), self.precision(series), || chance.next_u32()).map_err(failed)?;
        let length = vector.vector().len() as u64;
        let digest = self.outbox.keep(&site.store, series, round, &bytes, length, cleared.receipt).map_err(failed)?;
        let parcel = Parcel { bytes, length, digest, receipt: cleared.receipt };
        self.fresh = Mutex::new(Some(Fresh { series: series.to_owned(), round, parcel }));
        fault::point(fault::AFTER_STORE);
        Ok(())
    }

    /// Puts a pool of questions on disk that was cleared for this round; it may be sent when this returns, and is sent as these
    /// bytes however often.
    ///
    /// # Errors
    /// [`RunError::Refused`] when it was not cleared, [`RunError::Failed`] when the disk fails.
    pub fn keep_pool(&mut self, site: &Site, series: &str, round: u32, pool: &OutgoingPool) -> Result<(), RunError> {
        let cleared = self.cleared("pool", series, round, pool.receipt())?;
        fault::point(fault::BEFORE_STORE);
        self.outbox
            .keep(&site.store, series, round, pool.bytes(), pool.questions(), cleared.receipt)
            .map_err(failed)?;
        fault::point(fault::AFTER_STORE);
        Ok(())
    }

    /// Notes that a sealed batch is about to leave for others than the server: from then on its payment is used up. It must have
    /// been cleared for this round, by this life or by one that died before it could note it. On disk when this returns; said
    /// again of the same batch, nothing changes.
    ///
    /// # Errors
    /// [`RunError::Refused`] when it was not cleared, is held, or is another batch than was noted, [`RunError::Failed`] when
    /// the disk fails.
    pub fn depart(&mut self, site: &Site, series: &str, round: u32, batch: &Sealed) -> Result<(), RunError> {
        if let Some(held) =
            holds::held(&site.store, self.examined.manifest.job, self.examined.dataset.id).map_err(failed)?
        {
            return Err(RunError::Stopped(format!("this site holds the job: {}", held.word.reason)));
        }
        if self.past(site, series, round)? != Past::Untouched {
            let noted = self.outbox.parcel(&site.store, series, round).map_err(failed)?;
            let same = noted.bytes == batch.digest().as_bytes();
            let other = || RunError::Refused(format!("another batch was paid for under {series}/{round}"));
            return if same { Ok(()) } else { Err(other()) };
        }
        let in_hand =
            self.pending.as_ref().is_some_and(|pending| (pending.series.as_str(), pending.round) == (series, round));
        if !in_hand {
            // Paid by an earlier life: nothing was noted to leave under that payment, so it is found again.
            drop(self.clear(site, series, round)?);
        }
        let cleared = self.cleared("batch", series, round, batch.receipt())?;
        let sounds: usize = (0..batch.recipients().len() as u32).map(|provider| batch.lengths(provider).count()).sum();
        let bytes = batch.digest().as_bytes();
        self.outbox.keep(&site.store, series, round, bytes, sounds as u64, cleared.receipt).map_err(failed)?;
        Ok(())
    }

    /// The clearance in hand, when it is for this round and was used up by what carries this receipt.
    fn cleared(&mut self, what: &str, series: &str, round: u32, receipt: Option<&Signed>) -> Result<Pending, RunError> {
        let digest = receipt.map(Signed::digest);
        let cleared = self
            .pending
            .take()
            .filter(|pending| (pending.series.as_str(), pending.round, &pending.digest) == (series, round, &digest));
        cleared.ok_or_else(|| RunError::Refused(format!("the {what} was not cleared for {series}/{round}")))
    }

    /// What is to be sent for a round: the bits on disk, and receipts.
    ///
    /// # Errors
    /// [`RunError::Stopped`] while the site holds the job, [`RunError::Failed`] when nothing is stored for it, or the disk fails.
    pub fn letter(&self, site: &Site, series: &str, round: u32) -> Result<Letter, RunError> {
        // What was paid for before waits on disk as well.
        self.is_free(site)?;
        let fresh = self.fresh.lock().unwrap_or_else(PoisonError::into_inner).take();
        let parcel = match fresh.filter(|fresh| (fresh.series.as_str(), fresh.round) == (series, round)) {
            Some(fresh) => fresh.parcel,
            None => self.outbox.parcel(&site.store, series, round).map_err(failed)?,
        };
        let waiting = match parcel.receipt {
            Some(receipt) => receipts_to_send(&site.store, receipt, Some(receipt)).map_err(failed)?,
            None => Vec::new(),
        };
        let (numbers, receipts) = waiting.into_iter().unzip();
        Ok(Letter { parcel, receipts, numbers })
    }

    /// Whether nobody at the site holds the job.
    fn is_free(&self, site: &Site) -> Result<(), RunError> {
        let held = holds::held(&site.store, self.examined.manifest.job, self.examined.dataset.id).map_err(failed)?;
        let stopped = |held: holds::Held| RunError::Stopped(format!("this site holds the job: {}", held.word.reason));
        held.map_or(Ok(()), |held| Err(stopped(held)))
    }

    /// Makes what the promised audit found the site's word, and freezes the account when it disproves the claim; all on disk
    /// when this returns. What was stated before stands.
    ///
    /// # Errors
    /// [`RunError::Failed`] when it is not what was promised, or the disk fails.
    pub fn state(&self, site: &Site, finding: &Finding) -> Result<Signed, RunError> {
        let under = self.examined.under().ok_or_else(|| failed(AuditsError::NotPromised))?;
        let delta = site.ledger.delta(&under).map_err(failed)?.ok_or_else(|| failed(LedgerError::NotReserved))?;
        let ground = Ground::of(&self.examined, delta).map_err(failed)?;
        let (signed, _) = audits::state(&site.store, &site.key, &ground, finding, (site.clock)()).map_err(failed)?;
        Ok(signed)
    }

    /// Notes that the server has a letter: the vector, or at least that it was paid for.
    ///
    /// # Errors
    /// [`RunError::Failed`] when the disk fails; the same letter is sent again then.
    pub fn arrived(&self, site: &Site, series: &str, round: u32, letter: &Letter) -> Result<(), RunError> {
        self.outbox.accepted(&site.store, series, round, &letter.numbers).map_err(failed)
    }
}
