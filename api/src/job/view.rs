//! Jobs as they are displayed and proposed.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::diagnosis::Diagnosis;
use super::{Charge, Hold, Purpose, Report, Spec, State};
use crate::budget::Refusal;
use crate::dataset::Visibility;
use crate::id::{ConsortiumId, DatasetId, JobId, OrganizationId};
use crate::signed::{Consent, SignedApproval};

/// A job to be proposed to the owners of its datasets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewJob {
    /// Title: 1 to 100 characters.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 100))]
    pub title: String,
    /// What is to be done.
    #[serde(flatten)]
    pub spec: Spec,
}

/// An approval by an owner.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Approve {
    /// The steward's signed approval. Datasets whose site verifies signatures need one.
    #[serde(default)]
    pub signature: Option<SignedApproval>,
}

/// A refusal by an owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Refuse {
    /// Why, for the proposer to read: 1 to 1,000 characters.
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
    pub state: State,
    /// Who proposed it.
    pub proposed_by: String,
    /// Rounds closed, over all series.
    pub rounds_done: u32,
    /// Rounds in all.
    pub rounds: u32,
    /// When it was proposed.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: OffsetDateTime,
}

/// A job in full.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Job {
    /// What the list shows.
    #[serde(flatten)]
    pub summary: JobSummary,
    /// What is to be done.
    pub spec: Spec,
    /// SHA-256 of the signed manifest, hex.
    pub manifest: String,
    /// The datasets and how each stands.
    pub participants: Vec<Participant>,
    /// Why it was refused or failed, in words.
    pub reason: Option<String>,
    /// The figures when a budget refused it.
    pub refusals: Vec<Refusal>,
    /// When the first worker began.
    #[serde(default, with = "time::serde::rfc3339::option")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub started_at: Option<OffsetDateTime>,
    /// When it was over.
    #[serde(default, with = "time::serde::rfc3339::option")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub finished_at: Option<OffsetDateTime>,
    /// The result.
    pub report: Option<Report>,
    /// When it is refused by itself unless all have answered by then; absent when it is no longer proposed.
    #[serde(default, with = "time::serde::rfc3339::option")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub answer_by: Option<OffsetDateTime>,
    /// Who holds it, oldest first; it is paused while anybody does.
    #[serde(default)]
    pub holds: Vec<Hold>,
    /// What keeps it from going on, and what can be done about it; empty when all is well, and when it is over.
    #[serde(default)]
    pub diagnoses: Vec<Diagnosis>,
}

/// An owner's answer to a proposed job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "approval", rename_all = "snake_case")]
pub enum Approval {
    /// Public data: nobody has to agree.
    NotNeeded,
    /// Not answered yet.
    Pending,
    /// Agreed.
    Approved {
        /// A steward's name, or "site policy".
        by: String,
    },
    /// Refused.
    Refused {
        /// A steward's name, or "site policy".
        by: String,
        /// Why.
        reason: String,
    },
}

/// How a participant's worker stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ParticipantState {
    /// No worker has taken the lease.
    Waiting,
    /// A worker holds the lease and is heard of.
    Running,
    /// A worker holds the lease and has fallen silent.
    Silent,
    /// Done, reservation settled.
    Done,
    /// Gave up.
    Failed,
}

/// A dataset in a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Participant {
    /// The dataset.
    pub dataset: DatasetId,
    /// Its name.
    pub dataset_name: String,
    /// Its owner.
    pub organization: OrganizationId,
    /// The owner's name.
    pub organization_name: String,
    /// Who may learn what from it.
    pub visibility: Visibility,
    /// Participates, or only measures.
    pub purpose: Purpose,
    /// The owner's answer.
    #[serde(flatten)]
    pub approval: Approval,
    /// While the answer is awaited: why a steward is asked although a limit lets jobs pass, or is asked again. For those who
    /// may see the limits of the dataset's owner; events, which all who see the job share, leave it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_because: Option<String>,
    /// What the owner's consent rests on; absent while there is none, and for public data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consent: Option<Consent>,
    /// How its worker stands.
    pub state: ParticipantState,
    /// What the job charges it at worst.
    pub charge: Option<Charge>,
    /// Releases paid so far.
    pub releases: u64,
    /// ε of as many releases as were paid so far, at δ, by this job alone, rounded up. A figure of progress: no promise about a job
    /// that is stopped for what it released. That is [`Self::epsilon_reserved`].
    pub epsilon_spent: Option<f64>,
    /// ε of all the releases reserved, at δ, by this job alone, rounded up.
    pub epsilon_reserved: Option<f64>,
    /// δ of both: that of the dataset's account.
    pub delta: Option<f64>,
}

/// A figure measured on a public test set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Measurement {
    /// The series: an arm of the comparison.
    pub series: String,
    /// After which round; 0 is before the first.
    pub round: u32,
    /// Name of the test set.
    pub test: String,
    /// Frames measured.
    pub frames: u64,
    /// Part of the frames classified right: 0 to 1.
    pub accuracy: f64,
    /// Mean cross-entropy in nats.
    pub loss: f64,
}

/// One participant's submission in a round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Submission {
    /// The participant.
    pub dataset: DatasetId,
    /// When it was accepted; absent while it is awaited.
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
    /// From 1.
    pub round: u32,
    /// When it opened.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub opened_at: OffsetDateTime,
    /// When it is, or was, due.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub deadline: OffsetDateTime,
    /// When it closed.
    #[serde(default, with = "time::serde::rfc3339::option")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub closed_at: Option<OffsetDateTime>,
    /// Each participant's part.
    pub submissions: Vec<Submission>,
}

/// How far a series is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SeriesProgress {
    /// Its name.
    pub series: String,
    /// Rounds closed.
    pub done: u32,
    /// Rounds in all.
    pub rounds: u32,
}

/// A running job, as its page shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Progress {
    /// The job's state.
    pub state: State,
    /// A sentence of what is going on, or what it waits for.
    pub now: String,
    /// Each series.
    pub series: Vec<SeriesProgress>,
    /// The open round and the last closed ones, newest first, at most 20.
    pub rounds: Vec<RoundView>,
    /// All measurements, oldest first.
    pub measurements: Vec<Measurement>,
    /// The participants.
    pub participants: Vec<Participant>,
}
