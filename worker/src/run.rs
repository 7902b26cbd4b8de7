//! How jobs run at a site: the second face of a job kind.
//!
//! A run is ordinary blocking code on a thread of its own. All it may ask of the world is [`Exchange`]; all that it can send of
//! data are [`Outgoing`] vectors, [`OutgoingPool`]s of questions and [`SealedSounds`] batches of sounds, which cannot be made without a
//! [`Clearance`]. The exchange stores them, pays for them, has the server countersign the payment, and then sends them. To add a kind: `run/<kind>.rs` with `impl Run`,
//! and its line in [`run`].

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use undertone_api::id::{DatasetId, QuestionId};
use undertone_api::job::audit::{Audited, Finding};
use undertone_api::job::{Measurement, Report, Spec};
use undertone_api::signed::{Manifest, ManifestParticipant};
use undertone_privacy::PrivacyUnit;

use crate::config::queries::Queries;
use crate::config::transcription::Transcription;
use crate::dp::randomness::{Purpose, Randomness};
use crate::dp::release::Outgoing;
use crate::queries::gate::OutgoingPool;
use crate::queries::released::Released;
use crate::site::clearance::{Clearance, Published};
use crate::site::clock::Clock;
use crate::site::store::is_disk_failure;
use crate::speech::transcribe::outbound::{DeliveryResult, OutboundError, SealedSounds};
use crate::speech::transcribe::provider::line::ProviderLine;

pub mod active_learning;
pub mod dp_sgd;
pub mod transcription;

pub use undertone_proto::question::Answered;

/// Why a run ended without a result.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The job was cancelled, or the lease went to somebody else: stop quietly, keep the work folder.
    #[error("the job was stopped: {0}")]
    Stopped(String),
    /// The site's ledger or policy refuses to go on.
    #[error("the site refuses: {0}")]
    Refused(String),
    /// The site's disk is full or fails: the part waits, and goes on as after a crash when the disk is mended.
    #[error("{0}")]
    Disk(String),
    /// Something is wrong with the data, the spec or the machine.
    #[error("{0}")]
    Failed(String),
}

impl RunError {
    /// Returns the end of a run that met this error: the part waits where a disk is behind it, and fails otherwise.
    pub(crate) fn from_failure(error: impl std::error::Error + 'static) -> Self {
        let text = error.to_string();
        Self::from_secret_failure(&error, text)
    }

    /// Returns the end as [`Self::from_failure`] does, with `text` in place of an error that names what no log may.
    pub(crate) fn from_secret_failure(error: &(dyn std::error::Error + 'static), text: String) -> Self {
        if is_disk_failure(error) { Self::Disk(text) } else { Self::Failed(text) }
    }
}

/// An answer of the server's averaging.
#[derive(Debug, Clone, PartialEq)]
pub struct Average {
    /// Weighted mean of the submissions.
    pub mean: Vec<f32>,
    /// How many contributed.
    pub contributors: u32,
}

/// How far an earlier life of this run got with a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Past {
    /// Nothing of it exists.
    Untouched,
    /// The finished vector is on disk: `resend` pays for it if nobody did, and sends the identical bits.
    Stored,
    /// The server has it.
    Accepted,
    /// It was paid, and its bytes are not at this site: they can never be sent again, and nothing is made in their place.
    Lost,
}

/// With what recordings of a site are transcribed, and where what they say is written.
#[derive(Clone)]
pub struct Transcribing {
    /// The site's configuration of it.
    pub settings: Transcription,
    /// The site's folder, from which paths of the configuration start.
    pub site: PathBuf,
    /// Where transcripts and the site's own report go: a folder of the job, for its owner alone.
    pub results: PathBuf,
    /// The worker's environment, for keys that lie there.
    pub environment: fn(&str) -> Option<OsString>,
    /// The clock.
    pub clock: Clock,
}

/// What a running job may ask of the world. Calls block; network trouble is retried inside until the lease is lost.
pub trait Exchange {
    /// The signed order under which it runs.
    fn manifest(&self) -> &Manifest;

    /// This participant's entry in it.
    fn own(&self) -> &ManifestParticipant;

    /// A folder of its own for checkpoints, kept across restarts of the worker.
    fn folder(&self) -> &Path;

    /// Where a dataset of this site lies.
    ///
    /// # Errors
    /// [`RunError::Failed`] when it is not at this site.
    fn dataset(&self, id: DatasetId) -> Result<PathBuf, RunError>;

    /// What an earlier life did about this round.
    ///
    /// # Errors
    /// [`RunError::Failed`] when the site's disk cannot be read.
    fn past(&self, series: &str, round: u32) -> Result<Past, RunError>;

    /// Whether the server has closed this round already, so that nothing more can be added to it and nothing should be paid
    /// for it: after a long absence. An exchange that cannot know says no.
    ///
    /// # Errors
    /// [`RunError::Stopped`] when the job or the lease ends.
    fn closed(&mut self, series: &str, round: u32) -> Result<bool, RunError> {
        let _ = (series, round);
        Ok(false)
    }

    /// Returns the public length in frames to which units of this kind are cut; `None` for public data, which are taken whole.
    fn longest_unit(&self, unit: PrivacyUnit) -> Option<usize> {
        let _ = unit;
        None
    }

    /// Returns the public length of this participant's recordings in seconds, at most; `None` where it has none.
    fn longest_recordings(&self) -> Option<u64> {
        None
    }

    /// Fixes the period of the part's release clock, before the first private computation. `measure` returns the time that the
    /// computation takes at worst, from public input alone; it is called where neither the site's policy nor an earlier life of
    /// the run has fixed the period, and never for public data.
    ///
    /// # Errors
    /// [`RunError::Refused`] when the job's rounds close before the first tick, and what `measure` says.
    fn fix_period(&mut self, measure: &mut dyn FnMut() -> Result<Duration, RunError>) -> Result<(), RunError> {
        let _ = measure;
        Ok(())
    }

    /// Fresh randomness: of the operating system. A rehearsal on public data has a repeatable one.
    fn chance(&mut self, purpose: Purpose) -> Randomness {
        Randomness::from_os(purpose)
    }

    /// Asks the site for permission to make one vector, pool or batch: its rules allow it and its ledger holds it reserved, or its
    /// policy marks the data as public. Nothing is charged before it is finished.
    ///
    /// # Errors
    /// [`RunError::Refused`] when ledger or policy say no.
    fn clear(&mut self, series: &str, round: u32) -> Result<Clearance, RunError>;

    /// Stores the vector durably, pays for it, has the server countersign the payment, then sends it.
    ///
    /// # Errors
    /// [`RunError::Refused`] when it was not cleared for this round or ledger or policy say no now, [`RunError::Stopped`] when the
    /// lease is lost.
    fn send(&mut self, series: &str, round: u32, vector: Outgoing) -> Result<(), RunError>;

    /// Sends the stored vector of an earlier life again: identical bits, paid once.
    ///
    /// # Errors
    /// [`RunError::Stopped`] when the lease is lost, [`RunError::Failed`] when nothing is stored.
    fn resend(&mut self, series: &str, round: u32) -> Result<(), RunError>;

    /// Waits for the round to close and fetches the average.
    ///
    /// # Errors
    /// [`RunError::Stopped`] when the job or the lease ends.
    fn average(&mut self, series: &str, round: u32) -> Result<Average, RunError>;

    /// Stores a named file of the job at the server. Only the lead (public data), or what follows from averages alone.
    ///
    /// # Errors
    /// [`RunError::Stopped`] when the lease is lost.
    fn put(&mut self, name: &str, content: Vec<u8>) -> Result<(), RunError>;

    /// Waits for a named file of the job and fetches it.
    ///
    /// # Errors
    /// [`RunError::Stopped`] when the job or the lease ends.
    fn get(&mut self, name: &str) -> Result<Vec<u8>, RunError>;

    /// Reports a figure measured on public data; the server refuses figures from anyone but the lead.
    ///
    /// # Errors
    /// [`RunError::Stopped`] when the lease is lost.
    fn measure(&mut self, measurement: Measurement) -> Result<(), RunError>;

    /// Hands in the job's report; the lead does, at the end.
    ///
    /// # Errors
    /// [`RunError::Stopped`] when the lease is lost.
    fn report(&mut self, report: Report) -> Result<(), RunError>;

    /// The audit that the manifest promises of this participant's releases, by this site's own facts.
    fn audited(&self) -> Option<Audited> {
        None
    }

    /// Hands in what the promised audit found, once the audited series is over. The site works out what it says about the
    /// claim, signs it, keeps it, and freezes the account when the claim is disproved; all that is on disk when this returns.
    /// Said twice, the first finding stands.
    ///
    /// # Errors
    /// [`RunError::Failed`] when the finding is not one of the audit that was promised, or the site's disk refuses.
    fn audit(&mut self, finding: Finding) -> Result<(), RunError> {
        let _ = finding;
        Err(RunError::Failed("the manifest promises no audit".to_owned()))
    }

    /// What counts the query logs of this site.
    fn counting(&self) -> Queries {
        Queries::default()
    }

    /// The site's word that a dataset is public, for what is computed of it in the clear.
    ///
    /// # Errors
    /// [`RunError::Refused`] when the site's policy says otherwise.
    fn published(&self, id: DatasetId) -> Result<Published, RunError> {
        Err(RunError::Refused(format!("nothing here says that dataset {id} is public")))
    }

    /// Stores a pool of questions durably, pays for it, has the server countersign the payment, then sends it.
    ///
    /// # Errors
    /// [`RunError::Refused`] when it was not cleared for this round, [`RunError::Stopped`] when the lease is lost.
    fn ask(&mut self, series: &str, round: u32, pool: OutgoingPool) -> Result<(), RunError> {
        drop(pool);
        Err(asks_nothing(series, round))
    }

    /// Sends the stored pool of an earlier life again: identical bytes, paid once.
    ///
    /// # Errors
    /// [`RunError::Stopped`] when the lease is lost, [`RunError::Failed`] when nothing is stored.
    fn ask_again(&mut self, series: &str, round: u32) -> Result<(), RunError> {
        Err(asks_nothing(series, round))
    }

    /// Waits for the pools of all participants that ask, or their deadline, and fetches what came. Only the lead.
    ///
    /// # Errors
    /// [`RunError::Stopped`] when the job or the lease ends.
    fn asked(&mut self) -> Result<Vec<Released>, RunError> {
        Err(asks_nothing("pool", 1))
    }

    /// Puts questions of the pools to the annotators, with how uncertain they are: the greater, the earlier. Said again, the
    /// same choice changes nothing. Only the lead.
    ///
    /// # Errors
    /// [`RunError::Stopped`] when the job or the lease ends.
    fn choose(&mut self, round: u32, chosen: &[(QuestionId, f64)]) -> Result<(), RunError> {
        let _ = chosen;
        Err(asks_nothing("questions", round))
    }

    /// Waits until the questions of a round are answered, or its deadline, and fetches every answer that was not taken back.
    /// Only the lead.
    ///
    /// # Errors
    /// [`RunError::Stopped`] when the job or the lease ends.
    fn answers(&mut self, round: u32) -> Result<Vec<Answered>, RunError> {
        Err(asks_nothing("questions", round))
    }

    /// With what recordings of this site are transcribed.
    ///
    /// # Errors
    /// [`RunError::Failed`] where none are.
    fn transcribing(&self) -> Result<Transcribing, RunError> {
        Err(RunError::Failed("no recordings are transcribed here".to_owned()))
    }

    /// Pays for a sealed batch if nobody did and has the server countersign the payment, before the first sound leaves; then
    /// sends what is not answered, each provider its part by its line, in the order of the batch's providers. Said again it
    /// sends what is left: the identical bits, without a new charge.
    ///
    /// # Errors
    /// [`RunError::Refused`] when another batch was paid for this round or nothing may leave, [`RunError::Stopped`] when the lease
    /// is lost.
    fn dispatch(
        &mut self,
        series: &str,
        round: u32,
        batch: &Arc<SealedSounds>,
        lines: &[ProviderLine],
    ) -> Result<Vec<Result<DeliveryResult, OutboundError>>, RunError> {
        let _ = (batch, lines);
        Err(RunError::Refused(format!("nothing leaves from here but to the server ({series}/{round})")))
    }

    /// Whether the run should end at the next chance; also kept up to date by every other call.
    fn stopped(&self) -> bool;
}

/// What an exchange says that carries no questions.
fn asks_nothing(series: &str, round: u32) -> RunError {
    RunError::Failed(format!("no questions can be exchanged here ({series}/{round})"))
}

/// The second face of a job kind.
pub trait Run {
    /// Runs the job to its end, from wherever an earlier life of it stopped.
    ///
    /// # Errors
    /// [`RunError`] when it ends without a result.
    fn run(&self, exchange: &mut dyn Exchange) -> Result<(), RunError>;
}

/// Removes what runs leave of private data in the `folder` of a part that is over, however it ended: first transcripts and sounds of
/// recordings. Nothing can come of them any more.
///
/// # Errors
/// [`RunError::Failed`] when the disk refuses.
pub fn forget(folder: &Path) -> Result<(), RunError> {
    transcription::forget(folder)
}

/// Runs a job of any kind.
///
/// # Errors
/// [`RunError`] when it ends without a result.
pub fn run(spec: &Spec, exchange: &mut dyn Exchange) -> Result<(), RunError> {
    match spec {
        Spec::DpSgd(spec) => spec.run(exchange),
        Spec::ActiveLearning(spec) => spec.run(exchange),
        Spec::Transcription(spec) => spec.run(exchange),
    }
}
