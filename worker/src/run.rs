//! The execution of jobs at a site: the second interface of a job kind.
//!
//! A run is ordinary blocking code on a separate thread. [`Exchange`] is its only access to external services. Its only
//! outputs of data are [`Outgoing`] vectors, [`OutgoingPool`]s of questions and [`SealedSounds`] batches of sounds,
//! which cannot be made without a [`Clearance`]. The exchange stores them, pays for them, has the server countersign
//! the payment, and then sends them. To add a kind: `run/<kind>.rs` with `impl Run`, and its line in [`run`].

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use undertone_api::id::{DatasetId, QuestionId};
use undertone_api::job::audit::{AuditFinding, AuditPlan};
use undertone_api::job::{Measurement, Report, Spec};
use undertone_api::signed::{Manifest, ManifestParticipant};
use undertone_privacy::PrivacyUnit;

use crate::config::queries::Queries;
use crate::config::transcription::TranscriptionSettings;
use crate::dp::randomness::{Purpose, Randomness};
use crate::dp::release::Outgoing;
use crate::queries::gate::OutgoingPool;
use crate::queries::released::Released;
use crate::site::clearance::{Clearance, PublicProof};
use crate::site::clock::Clock;
use crate::site::store::is_disk_failure;
use crate::speech::transcribe::outbound::{DeliveryResult, OutboundError, SealedSounds};
use crate::speech::transcribe::provider::line::ProviderLine;

pub mod active_learning;
pub mod dp_sgd;
pub mod transcription;

pub use undertone_proto::question::AnswerLine;

/// The reason of a run's end without a result.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The job was cancelled, or the lease was lost: stop quietly, keep the work folder.
    #[error("the job was stopped: {0}")]
    Stopped(String),
    /// The site's ledger or policy refuses to continue.
    #[error("the site refuses: {0}")]
    Refused(String),
    /// The site's disk is full or fails: the part waits, and resumes as after a crash once the disk is repaired.
    #[error("{0}")]
    Disk(String),
    /// The data, the spec or the machine have a problem.
    #[error("{0}")]
    Failed(String),
}

impl RunError {
    /// Converts an error to the end of a run: the part waits after a disk failure, and fails otherwise.
    pub(crate) fn from_failure(error: impl std::error::Error + 'static) -> Self {
        let text = error.to_string();
        Self::from_secret_failure(&error, text)
    }

    /// Returns the end as [`Self::from_failure`] does, with `text` in place of an error that names what no log may.
    pub(crate) fn from_secret_failure(error: &(dyn std::error::Error + 'static), text: String) -> Self {
        if is_disk_failure(error) { Self::Disk(text) } else { Self::Failed(text) }
    }
}

/// The server's average of a round.
#[derive(Debug, Clone, PartialEq)]
pub struct Average {
    /// The weighted mean of the submissions.
    pub mean: Vec<f32>,
    /// The number of contributors.
    pub contributors: u32,
}

/// The progress of a round in an earlier process of this run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Past {
    /// There is none.
    Untouched,
    /// The finished vector is on disk: `resend` pays for it unless it is paid, and sends the identical bits.
    Stored,
    /// The server has it.
    Accepted,
    /// It was paid, and its bytes are not at this site: they can never be sent again, and they are never replaced.
    Lost,
}

/// The settings for transcribing recordings of a site, and the folder of the results.
#[derive(Clone)]
pub struct Transcribing {
    /// The site's configuration.
    pub settings: TranscriptionSettings,
    /// The site's folder, to which paths of the configuration are relative.
    pub site: PathBuf,
    /// The folder of transcripts and of the site's own report: a folder of the job, for its owner only.
    pub results: PathBuf,
    /// The worker's environment, for keys in variables.
    pub environment: fn(&str) -> Option<OsString>,
    /// The clock.
    pub clock: Clock,
}

/// All external services of a running job. Calls block; they retry network errors until the lease is lost.
pub trait Exchange {
    /// Returns the signed manifest under which it runs.
    fn manifest(&self) -> &Manifest;

    /// Returns this participant's entry in it.
    fn own(&self) -> &ManifestParticipant;

    /// Returns the run's folder for checkpoints, kept across restarts of the worker.
    fn folder(&self) -> &Path;

    /// Returns the folder of a dataset of this site.
    ///
    /// # Errors
    /// [`RunError::Failed`] when it is not at this site.
    fn dataset(&self, id: DatasetId) -> Result<PathBuf, RunError>;

    /// Returns the progress of this round in an earlier process.
    ///
    /// # Errors
    /// [`RunError::Failed`] when the site's disk cannot be read.
    fn past(&self, series: &str, round: u32) -> Result<Past, RunError>;

    /// Returns whether the server has closed this round already, so that it accepts nothing more and nothing should be
    /// paid for it: after a long absence. An exchange without this knowledge returns false.
    ///
    /// # Errors
    /// [`RunError::Stopped`] when the job or the lease ends.
    fn closed(&mut self, series: &str, round: u32) -> Result<bool, RunError> {
        let _ = (series, round);
        Ok(false)
    }

    /// Returns the public length in frames to which units of this kind are cut; `None` for public data, which are not
    /// cut.
    fn longest_unit(&self, unit: PrivacyUnit) -> Option<usize> {
        let _ = unit;
        None
    }

    /// Returns the public bound of this participant's recordings in seconds, if it has one.
    fn longest_recordings(&self) -> Option<u64> {
        None
    }

    /// Fixes the period of the part's release clock, before the first private computation. `measure` returns the
    /// longest time of the computation, from public input alone. It is called if neither the site's policy nor an
    /// earlier process of the run has fixed the period, and never for public data.
    ///
    /// # Errors
    /// [`RunError::Refused`] when the job's rounds close before the first tick, and any error of `measure`.
    fn fix_period(&mut self, measure: &mut dyn FnMut() -> Result<Duration, RunError>) -> Result<(), RunError> {
        let _ = measure;
        Ok(())
    }

    /// Returns fresh randomness of the operating system. A rehearsal on public data uses repeatable randomness.
    fn chance(&mut self, purpose: Purpose) -> Randomness {
        Randomness::from_os(purpose)
    }

    /// Asks the site for permission to make one vector, pool or batch: its rules allow it and its ledger has a
    /// reservation, or its policy marks the data as public. Nothing is charged before the release is finished.
    ///
    /// # Errors
    /// [`RunError::Refused`] when ledger or policy refuse.
    fn clear(&mut self, series: &str, round: u32) -> Result<Clearance, RunError>;

    /// Stores the vector durably, pays for it, has the server countersign the payment, then sends it.
    ///
    /// # Errors
    /// [`RunError::Refused`] when it was not cleared for this round or ledger or policy refuse now,
    /// [`RunError::Stopped`] when the lease is lost.
    fn send(&mut self, series: &str, round: u32, vector: Outgoing) -> Result<(), RunError>;

    /// Sends the stored vector of an earlier process again: identical bits, paid once.
    ///
    /// # Errors
    /// [`RunError::Stopped`] when the lease is lost, [`RunError::Failed`] when nothing is stored.
    fn resend(&mut self, series: &str, round: u32) -> Result<(), RunError>;

    /// Waits for the round to close and fetches the average.
    ///
    /// # Errors
    /// [`RunError::Stopped`] when the job or the lease ends.
    fn average(&mut self, series: &str, round: u32) -> Result<Average, RunError>;

    /// Stores a named file of the job at the server. Permitted for the lead (public data), and for files that follow
    /// from averages alone.
    ///
    /// # Errors
    /// [`RunError::Stopped`] when the lease is lost.
    fn put(&mut self, name: &str, content: Vec<u8>) -> Result<(), RunError>;

    /// Waits for a named file of the job and fetches it.
    ///
    /// # Errors
    /// [`RunError::Stopped`] when the job or the lease ends.
    fn get(&mut self, name: &str) -> Result<Vec<u8>, RunError>;

    /// Reports a figure measured on public data; the server accepts figures from the lead only.
    ///
    /// # Errors
    /// [`RunError::Stopped`] when the lease is lost.
    fn measure(&mut self, measurement: Measurement) -> Result<(), RunError>;

    /// Submits the job's report; the lead does so at the end.
    ///
    /// # Errors
    /// [`RunError::Stopped`] when the lease is lost.
    fn report(&mut self, report: Report) -> Result<(), RunError>;

    /// Returns the audit that the manifest promises of this participant's releases, by this site's own facts.
    fn audited(&self) -> Option<AuditPlan> {
        None
    }

    /// Submits the finding of the promised audit, once the audited series is over. The site computes its statement
    /// about the claim, signs and stores it, and freezes the account when the claim is disproved; all that is on disk
    /// when this returns. If it is called twice, the first finding stands.
    ///
    /// # Errors
    /// [`RunError::Failed`] when the finding is not one of the promised audit, or the site's disk refuses.
    fn audit(&mut self, finding: AuditFinding) -> Result<(), RunError> {
        let _ = finding;
        Err(RunError::Failed("the manifest promises no audit".to_owned()))
    }

    /// Returns the engine settings for counting the query logs of this site.
    fn counting(&self) -> Queries {
        Queries::default()
    }

    /// Returns the site's confirmation that a dataset is public, for computations on it in the clear.
    ///
    /// # Errors
    /// [`RunError::Refused`] when the site's policy does not mark it as public.
    fn published(&self, id: DatasetId) -> Result<PublicProof, RunError> {
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

    /// Sends the stored pool of an earlier process again: identical bytes, paid once.
    ///
    /// # Errors
    /// [`RunError::Stopped`] when the lease is lost, [`RunError::Failed`] when nothing is stored.
    fn ask_again(&mut self, series: &str, round: u32) -> Result<(), RunError> {
        Err(asks_nothing(series, round))
    }

    /// Waits for the pools of all asking participants, or their deadline, and fetches the available ones. For the lead
    /// only.
    ///
    /// # Errors
    /// [`RunError::Stopped`] when the job or the lease ends.
    fn asked(&mut self) -> Result<Vec<Released>, RunError> {
        Err(asks_nothing("pool", 1))
    }

    /// Sends questions of the pools to the annotators, with their uncertainties: the greater, the earlier. A repetition
    /// of the same choice changes nothing. For the lead only.
    ///
    /// # Errors
    /// [`RunError::Stopped`] when the job or the lease ends.
    fn choose(&mut self, round: u32, chosen: &[(QuestionId, f64)]) -> Result<(), RunError> {
        let _ = chosen;
        Err(asks_nothing("questions", round))
    }

    /// Waits until the questions of a round are answered, or its deadline, and fetches every answer that was not
    /// withdrawn. For the lead only.
    ///
    /// # Errors
    /// [`RunError::Stopped`] when the job or the lease ends.
    fn answers(&mut self, round: u32) -> Result<Vec<AnswerLine>, RunError> {
        Err(asks_nothing("questions", round))
    }

    /// Returns this site's transcription settings.
    ///
    /// # Errors
    /// [`RunError::Failed`] without any.
    fn transcribing(&self) -> Result<Transcribing, RunError> {
        Err(RunError::Failed("no recordings are transcribed here".to_owned()))
    }

    /// Pays for a sealed batch unless it is paid, and has the server countersign the payment, before the first sound
    /// leaves. Then sends the unanswered sounds, each provider's part by its line, in the order of the batch's
    /// providers. A repeated call sends the remaining sounds: the identical bits, without a new charge.
    ///
    /// # Errors
    /// [`RunError::Refused`] when another batch was paid for this round or nothing may leave, [`RunError::Stopped`]
    /// when the lease is lost.
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

    /// Returns whether the run should end at the next opportunity; every other call also updates it.
    fn stopped(&self) -> bool;
}

/// Returns the error of an exchange without questions.
fn asks_nothing(series: &str, round: u32) -> RunError {
    RunError::Failed(format!("no questions can be exchanged here ({series}/{round})"))
}

/// The second interface of a job kind.
pub trait Run {
    /// Runs the job to its end, from the point where an earlier process stopped.
    ///
    /// # Errors
    /// [`RunError`] when it ends without a result.
    fn run(&self, exchange: &mut dyn Exchange) -> Result<(), RunError>;
}

/// Removes the private data of a finished part from its `folder`, after any outcome: first transcripts and sounds of
/// recordings. They have no further use.
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
