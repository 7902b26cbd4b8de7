//! The services of a running job. Each job kind takes the traits that it needs; only the daemon's type offers all.
//!
//! Calls block. They retry network errors until the lease is lost.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use undertone_api::id::{DatasetId, QuestionId};
use undertone_api::job::audit::{AuditFinding, AuditPlan};
use undertone_api::job::{Measurement, Report};
use undertone_api::signed::{Manifest, ManifestParticipant};
use undertone_privacy::PrivacyUnit;
use undertone_proto::question::AnswerLine;

use super::RunError;
use crate::config::queries::Queries;
use crate::config::transcription::TranscriptionSettings;
use crate::dp::randomness::{Purpose, Randomness};
use crate::dp::release::{GroupNoise, NoisySum, Outgoing};
use crate::queries::gate::OutgoingPool;
use crate::queries::released::Released;
use crate::site::clearance::{Clearance, PublicProof};
use crate::site::clock::Clock;
use crate::speech::transcribe::outbound::{DeliveryResult, OutboundError, SealedSounds};
use crate::speech::transcribe::provider::line::ProviderLine;

/// The key of one release and of one average: a round of a series of the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RoundKey<'a> {
    /// The name of the series.
    pub series: &'a str,
    /// The round, from 1.
    pub round: u32,
}

impl<'a> RoundKey<'a> {
    /// Returns the key of a round.
    pub const fn new(series: &'a str, round: u32) -> Self {
        Self { series, round }
    }
}

/// Writes `series/round`.
impl fmt::Display for RoundKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.series, self.round)
    }
}

/// The progress of a round in an earlier process of this run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoundProgress {
    /// There is none.
    Untouched,
    /// The finished release is on disk: sending it again pays for it unless it is paid, and sends the identical bits.
    Stored,
    /// The server has it.
    Accepted,
    /// It was paid, and its bytes are not at this site: they can never be sent again, and they are never replaced.
    Lost,
}

/// The server's average of a round.
#[derive(Debug, Clone, PartialEq)]
pub struct RoundAverage {
    /// The weighted mean of the submissions.
    pub mean: Vec<f32>,
    /// The number of contributors.
    pub contributors: u32,
}

/// The settings for transcribing recordings of a site, and the folder of the results.
#[derive(Clone)]
pub struct TranscriptionSite {
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

/// The services that every run needs: the job, its data, permission for releases, randomness and the end.
pub trait RunContext {
    /// Returns the signed manifest under which the job runs.
    fn manifest(&self) -> &Manifest;

    /// Returns this participant's entry in the manifest.
    fn participant(&self) -> &ManifestParticipant;

    /// Returns the run's folder for checkpoints, kept across restarts of the worker.
    fn folder(&self) -> &Path;

    /// Returns the folder in which the site's operator puts model files for jobs; `None` where there is none.
    fn models(&self) -> Option<PathBuf> {
        None
    }

    /// Returns the folder of a dataset of this site.
    ///
    /// # Errors
    /// [`RunError::Failed`] when it is not at this site, [`RunError::Refused`] when this part may not read it.
    fn dataset(&self, id: DatasetId) -> Result<PathBuf, RunError>;

    /// Returns the site's confirmation that a dataset is public, for computations on it in the clear.
    ///
    /// # Errors
    /// [`RunError::Refused`] when the site's policy does not mark it as public, [`RunError::Failed`] when it is not at
    /// this site.
    fn confirm_public(&self, id: DatasetId) -> Result<PublicProof, RunError>;

    /// Returns the progress of a round in an earlier process.
    ///
    /// # Errors
    /// [`RunError::Failed`] when the site's disk cannot be read.
    fn round_progress(&self, key: RoundKey<'_>) -> Result<RoundProgress, RunError>;

    /// Fixes the period of the part's release clock, before the first private computation. `measure` returns the
    /// longest time of the computation, from public input alone. It is called if neither the site's policy nor an
    /// earlier process of the run has fixed the period, and never for public data.
    ///
    /// # Errors
    /// [`RunError::Refused`] when the job's rounds close before the first tick, and any error of `measure`.
    fn fix_period(&mut self, measure: &mut dyn FnMut() -> Result<Duration, RunError>) -> Result<(), RunError>;

    /// Draws fresh randomness of the operating system. A rehearsal on public data draws repeatable randomness.
    fn draw_randomness(&mut self, purpose: Purpose) -> Randomness {
        Randomness::from_os(purpose)
    }

    /// Asks the site for permission to make one vector, pool or batch: its rules allow it and its ledger has a
    /// reservation, or its policy marks the data as public. Nothing is charged before the release is finished.
    ///
    /// # Errors
    /// [`RunError::Refused`] when ledger or policy refuse.
    fn clear(&mut self, key: RoundKey<'_>) -> Result<Clearance, RunError>;

    /// Submits the job's report, at the end.
    ///
    /// # Errors
    /// [`RunError::Refused`] when it would reveal private data.
    fn submit_report(&mut self, report: Report) -> Result<(), RunError>;

    /// Returns whether the run should end at the next opportunity; every other call also updates it.
    fn is_stopped(&self) -> bool;
}

/// Rounds of vectors that the server averages.
pub trait Averaging: RunContext {
    /// Returns the public length in frames to which units of this kind are cut; `None` for public data, which are not
    /// cut.
    fn longest_unit(&self, unit: PrivacyUnit) -> Option<usize>;

    /// Returns whether the server has closed this round already, so that it accepts nothing more and nothing should be
    /// paid for it: after a long absence.
    ///
    /// # Errors
    /// [`RunError::Stopped`] when the job or the lease ends.
    fn is_closed(&mut self, key: RoundKey<'_>) -> Result<bool, RunError>;

    /// Stores the vector durably, pays for it, has the server countersign the payment, then sends it.
    ///
    /// # Errors
    /// [`RunError::Refused`] when it was not cleared for this round or ledger or policy refuse now,
    /// [`RunError::Stopped`] when the lease is lost.
    fn send_vector(&mut self, key: RoundKey<'_>, vector: Outgoing) -> Result<(), RunError>;

    /// Sends the stored vector of an earlier process again: identical bits, paid once.
    ///
    /// # Errors
    /// [`RunError::Stopped`] when the lease is lost, [`RunError::Failed`] when nothing is stored.
    fn resend_vector(&mut self, key: RoundKey<'_>) -> Result<(), RunError>;

    /// Waits for the round to close and fetches the average.
    ///
    /// # Errors
    /// [`RunError::Stopped`] when the job or the lease ends.
    fn fetch_average(&mut self, key: RoundKey<'_>) -> Result<RoundAverage, RunError>;

    /// Returns the masked rounds of a series; `None` where this participant's vectors are sent as they are.
    fn masking(&mut self, series: &str) -> Option<&mut dyn MaskedAveraging>;

    /// Returns the audit that the manifest promises of this participant's releases, by this site's own facts.
    fn promised_audit(&self) -> Option<AuditPlan>;

    /// Submits the finding of the promised audit, once the audited series is over. The site computes its statement
    /// about the claim, signs and stores it, and freezes the account when the claim is disproved; all that is on disk
    /// when this returns. If it is called twice, the first finding stands.
    ///
    /// # Errors
    /// [`RunError::Failed`] when the finding is not one of the promised audit, or the site's disk refuses.
    fn submit_finding(&mut self, finding: AuditFinding) -> Result<(), RunError>;
}

/// Rounds in which the server learns the sum of a group of sites, and no vector of a single site. Their average is
/// fetched as any other ([`Averaging::fetch_average`]).
pub trait MaskedAveraging: Averaging {
    /// Returns the noise of this site in a masked sum, if it accepts the group now.
    ///
    /// # Errors
    /// [`RunError::Refused`] when its policy does not allow the group, or a key of the group is not pinned.
    fn group_noise(&self) -> Result<GroupNoise, RunError>;

    /// Continues the round of an earlier process from its stored sum: the same bytes, paid once. Returns whether the
    /// round needs nothing more of this site; false when no sum was stored, so that the round can begin.
    ///
    /// # Errors
    /// The errors of [`MaskedAveraging::send_sum`].
    fn resume_masked(&mut self, key: RoundKey<'_>) -> Result<bool, RunError>;

    /// Stores the noisy sum durably, agrees on masks with the group, stores the masked vector and pays for it, has the
    /// server countersign the payment, sends it, and opens the sum with the other sites. Returns also when the round
    /// closed without this site.
    ///
    /// # Errors
    /// [`RunError::Refused`] when the sum was not cleared for this round, ledger or policy refuse now, or the server or a
    /// site of the group breaks the protocol; [`RunError::Stopped`] when the lease is lost.
    fn send_sum(&mut self, key: RoundKey<'_>, sum: NoisySum) -> Result<(), RunError>;
}

/// Files and figures of the job at the server.
pub trait Artifacts: RunContext {
    /// Stores a named file of the job at the server. Permitted for the lead (public data), and for files that follow
    /// from averages alone.
    ///
    /// # Errors
    /// [`RunError::Stopped`] when the lease is lost.
    fn put_file(&mut self, name: &str, content: Vec<u8>) -> Result<(), RunError>;

    /// Waits for a named file of the job and fetches it.
    ///
    /// # Errors
    /// [`RunError::Stopped`] when the job or the lease ends.
    fn fetch_file(&mut self, name: &str) -> Result<Vec<u8>, RunError>;

    /// Reports a figure measured on public data; the server accepts figures from the lead only.
    ///
    /// # Errors
    /// [`RunError::Stopped`] when the lease is lost.
    fn report_measurement(&mut self, measurement: Measurement) -> Result<(), RunError>;
}

/// Pools of questions to annotators, and their answers.
pub trait Questions: RunContext {
    /// Returns the engine settings for counting the query logs of this site.
    fn query_settings(&self) -> Queries;

    /// Stores a pool of questions durably, pays for it, has the server countersign the payment, then sends it.
    ///
    /// # Errors
    /// [`RunError::Refused`] when it was not cleared for this round, [`RunError::Stopped`] when the lease is lost.
    fn send_pool(&mut self, key: RoundKey<'_>, pool: OutgoingPool) -> Result<(), RunError>;

    /// Sends the stored pool of an earlier process again: identical bytes, paid once.
    ///
    /// # Errors
    /// [`RunError::Stopped`] when the lease is lost, [`RunError::Failed`] when nothing is stored.
    fn resend_pool(&mut self, key: RoundKey<'_>) -> Result<(), RunError>;

    /// Waits for the pools of all asking participants, or their deadline, and fetches the available ones. For the lead
    /// only.
    ///
    /// # Errors
    /// [`RunError::Stopped`] when the job or the lease ends.
    fn fetch_pools(&mut self) -> Result<Vec<Released>, RunError>;

    /// Sends questions of the pools to the annotators, with their uncertainties: the greater, the earlier. A repetition
    /// of the same choice changes nothing. For the lead only.
    ///
    /// # Errors
    /// [`RunError::Stopped`] when the job or the lease ends.
    fn choose_questions(&mut self, round: u32, choice: &[(QuestionId, f64)]) -> Result<(), RunError>;

    /// Waits until the questions of a round are answered, or its deadline, and fetches every answer that was not
    /// withdrawn. For the lead only.
    ///
    /// # Errors
    /// [`RunError::Stopped`] when the job or the lease ends.
    fn fetch_answers(&mut self, round: u32) -> Result<Vec<AnswerLine>, RunError>;
}

/// Sealed batches of sounds to recipients other than the server.
pub trait Outbound: RunContext {
    /// Returns the public bound of this participant's recordings in seconds, if it has one.
    fn longest_recordings(&self) -> Option<u64>;

    /// Returns this site's transcription settings.
    fn transcription_site(&self) -> TranscriptionSite;

    /// Pays for a sealed batch unless it is paid, and has the server countersign the payment, before the first sound
    /// leaves. Then sends the unanswered sounds, each provider's part by its line, in the order of the batch's
    /// providers. A repeated call sends the remaining sounds: the identical bits, without a new charge.
    ///
    /// # Errors
    /// [`RunError::Refused`] when another batch was paid for this round or nothing may leave, [`RunError::Stopped`]
    /// when the lease is lost.
    fn dispatch_batch(
        &mut self,
        key: RoundKey<'_>,
        batch: &Arc<SealedSounds>,
        lines: &[ProviderLine],
    ) -> Result<Vec<Result<DeliveryResult, OutboundError>>, RunError>;
}

/// All services, for the daemon, which runs jobs of every kind.
pub trait Exchange: Averaging + Artifacts + Questions + Outbound {}

impl<T: Averaging + Artifacts + Questions + Outbound> Exchange for T {}
