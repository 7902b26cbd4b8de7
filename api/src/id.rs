//! Identifiers: UUIDs of version 7, one type for each subject, so that ids of different subjects cannot be confused.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(value_type = Uuid))]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;
            fn from_str(text: &str) -> Result<Self, uuid::Error> {
                Uuid::parse_str(text).map(Self)
            }
        }

        impl From<Uuid> for $name {
            fn from(value: Uuid) -> Self {
                Self(value)
            }
        }
    )*};
}

ids! {
    /// A person who signs in.
    MemberId;
    /// An organization: the owner of datasets and workers.
    OrganizationId;
    /// A consortium: organizations that learn together.
    ConsortiumId;
    /// An invitation or other one-time link.
    InvitationId;
    /// A signed-in session (a family of rotating refresh tokens).
    SessionId;
    /// A key by which a program asks for a member.
    ApiKeyId;
    /// A key with which a steward approves jobs.
    ApprovalKeyId;
    /// A passkey with which a member signs in.
    PasskeyId;
    /// An identity at a provider of sign-ins.
    IdentityId;
    /// A worker daemon at a site.
    WorkerId;
    /// A registered dataset.
    DatasetId;
    /// The line of versions of one dataset that may hold the same people; its budget is for life.
    LineageId;
    /// A privacy account: (organization, lineage, unit, adjacency, observer).
    AccountId;
    /// A job.
    JobId;
    /// A job that nobody was asked about yet.
    DraftId;
    /// A steward's standing word on which jobs need not be asked about.
    ApprovalLimitId;
    /// A stored file of a job: checkpoint, model, report.
    ArtifactId;
    /// Something that a member is told.
    NotificationId;
    /// A question of a job: one text that people are asked to label.
    QuestionId;
}
