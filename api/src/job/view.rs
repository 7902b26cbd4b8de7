//! Jobs as they are displayed and proposed.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::diagnosis::Diagnosis;
use super::{Charge, DatasetUse, Departure, Hold, JobState, PartyTerms, Report, Spec};
use crate::budget::BudgetRefusal;
use crate::dataset::Visibility;
use crate::id::{ConsortiumId, DatasetId, JobId, OrganizationId};
use crate::question::QuestionProgress;
use crate::signed::{Consent, ModelOrigin, SignedApproval};

/// A job to be proposed to the owners of its datasets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewJob {
    /// Title: 1 to 100 characters.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 100))]
    pub title: String,
    /// The spec of the job.
    #[serde(flatten)]
    pub spec: Spec,
}

/// An owner's approval.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Approve))]
#[serde(deny_unknown_fields)]
pub struct ApproveRequest {
    /// The steward's signed approval. Datasets whose site verifies signatures need one.
    #[serde(default)]
    pub signature: Option<SignedApproval>,
    /// The answer to the terms that the proposal leaves to this dataset's owner. An omitted term keeps the proposal's
    /// value. With a signature the signed answer counts, and this one must be absent or equal to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terms: Option<PartyTerms>,
}

/// An owner's refusal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Refuse))]
pub struct RefuseRequest {
    /// The reason, for the proposer to read: 1 to 1,000 characters.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 1000))]
    pub reason: String,
}

/// A job in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobSummary {
    /// Id.
    pub id: JobId,
    /// Consortium.
    pub consortium: ConsortiumId,
    /// Title.
    pub title: String,
    /// Kind.
    pub kind: String,
    /// State.
    pub state: JobState,
    /// The name of the proposer.
    pub proposed_by: String,
    /// Closed rounds, over all series.
    pub rounds_done: u32,
    /// Rounds in all.
    pub rounds: u32,
    /// When it was proposed.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: OffsetDateTime,
}

/// A job with questions, in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AskingJob {
    /// The fields that lists show.
    #[serde(flatten)]
    pub summary: JobSummary,
    /// The progress of its questions.
    pub asking: QuestionProgress,
}

/// A job with all details.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Job {
    /// The fields that lists show.
    #[serde(flatten)]
    pub summary: JobSummary,
    /// The spec of the job.
    pub spec: Spec,
    /// The origin of the registry model with which it begins; absent for a job that begins with none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_model: Option<ModelOrigin>,
    /// SHA-256 of the signed manifest, hex.
    pub manifest: String,
    /// The datasets and their states.
    pub participants: Vec<JobParticipant>,
    /// Why it was refused or failed, in words.
    pub reason: Option<String>,
    /// The figures of the budgets that refused it.
    pub refusals: Vec<BudgetRefusal>,
    /// When the first worker began.
    #[serde(default, with = "time::serde::rfc3339::option")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub started_at: Option<OffsetDateTime>,
    /// When it ended.
    #[serde(default, with = "time::serde::rfc3339::option")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub finished_at: Option<OffsetDateTime>,
    /// The result.
    pub report: Option<Report>,
    /// The time at which it is refused automatically unless all owners have answered; absent if it is not in the state
    /// `proposed`.
    #[serde(default, with = "time::serde::rfc3339::option")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub answer_by: Option<OffsetDateTime>,
    /// Its holds, oldest first. It is paused while it has one.
    #[serde(default)]
    pub holds: Vec<Hold>,
    /// Its obstacles and their remedies; empty if there are none, and if it is over.
    #[serde(default)]
    pub diagnoses: Vec<Diagnosis>,
}

/// An owner's answer to a proposed job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "approval", rename_all = "snake_case")]
pub enum Approval {
    /// Public data need no approval.
    NotNeeded,
    /// Not answered yet.
    Pending,
    /// Approved.
    Approved {
        /// A steward's name, or "site policy".
        by: String,
    },
    /// Refused.
    Refused {
        /// A steward's name, or "site policy".
        by: String,
        /// The reason.
        reason: String,
    },
}

/// The state of a participant's worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ParticipantState {
    /// No worker has taken the lease.
    Waiting,
    /// A worker holds the lease and is connected.
    Running,
    /// A worker holds the lease and has lost its connection.
    Silent,
    /// The part is done and its reservation settled.
    Done,
    /// The part failed.
    Failed,
    /// The party left the job, and its worker has not yet accounted for its releases.
    Leaving,
    /// The party left the job, and its reservation is settled.
    Left,
}

/// A dataset in a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Participant))]
pub struct JobParticipant {
    /// The dataset.
    pub dataset: DatasetId,
    /// Its name.
    pub dataset_name: String,
    /// Its owner.
    pub organization: OrganizationId,
    /// The owner's name.
    pub organization_name: String,
    /// The visibility of the dataset.
    pub visibility: Visibility,
    /// The use of the dataset: as a participant, or only for measurements.
    pub purpose: DatasetUse,
    /// The owner's answer.
    #[serde(flatten)]
    pub approval: Approval,
    /// While the answer is pending: why a steward must answer although a limit covers jobs, or must answer again. Only
    /// callers who may see the owner's limits receive it. Events omit it, because all members who see the job share
    /// them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_because: Option<String>,
    /// The basis of the owner's consent; absent without consent, and for public data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consent: Option<Consent>,
    /// The state of its worker.
    pub state: ParticipantState,
    /// The party's departure; absent unless it left the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub departure: Option<Departure>,
    /// The job's worst-case charge to it.
    pub charge: Option<Charge>,
    /// Releases paid so far.
    pub releases: u64,
    /// ε of the releases paid so far, at δ, by this job alone, rounded up. It shows progress only, and is no guarantee
    /// for a job that is stopped because of its releases. For that, see `epsilon_reserved`.
    pub epsilon_spent: Option<f64>,
    /// ε of all the releases reserved, at δ, by this job alone, rounded up.
    pub epsilon_reserved: Option<f64>,
    /// δ of both figures, from the dataset's account.
    pub delta: Option<f64>,
}

/// A figure measured on a public test set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Measurement {
    /// The series: an arm of the comparison.
    pub series: String,
    /// The round before the measurement; 0 is before the first round.
    pub round: u32,
    /// Name of the test set.
    pub test: String,
    /// The measured frames.
    pub frames: u64,
    /// The share of the frames that are classified correctly: 0 to 1.
    pub accuracy: f64,
    /// Mean cross-entropy in nats.
    pub loss: f64,
}

/// One participant's submission in a round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Submission))]
pub struct RoundSubmission {
    /// The participant.
    pub dataset: DatasetId,
    /// When it was accepted; absent while it is pending.
    #[serde(default, with = "time::serde::rfc3339::option")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub accepted_at: Option<OffsetDateTime>,
    /// Whether the deadline passed without it.
    pub late: bool,
}

/// A round of a series.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RoundView {
    /// The series.
    pub series: String,
    /// Its number, from 1.
    pub round: u32,
    /// When it opened.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub opened_at: OffsetDateTime,
    /// Its deadline.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub deadline: OffsetDateTime,
    /// When it closed.
    #[serde(default, with = "time::serde::rfc3339::option")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub closed_at: Option<OffsetDateTime>,
    /// Each participant's submission.
    pub submissions: Vec<RoundSubmission>,
}

/// The progress of a series.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SeriesProgress {
    /// Its name.
    pub series: String,
    /// Closed rounds.
    pub done: u32,
    /// Rounds in all.
    pub rounds: u32,
}

/// The progress of a running job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Progress))]
pub struct JobProgress {
    /// The job's state.
    pub state: JobState,
    /// The current activity or obstacle, in a sentence.
    pub now: String,
    /// Each series.
    pub series: Vec<SeriesProgress>,
    /// The open round and the last closed ones, newest first, at most 20.
    pub rounds: Vec<RoundView>,
    /// All measurements, oldest first.
    pub measurements: Vec<Measurement>,
    /// The participants.
    pub participants: Vec<JobParticipant>,
}
