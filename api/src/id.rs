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
    /// A key with which a program acts for a member.
    ApiKeyId;
    /// A key with which a steward approves jobs.
    ApprovalKeyId;
    /// A passkey with which a member signs in.
    PasskeyId;
    /// An identity at a sign-in provider.
    IdentityId;
    /// A worker daemon at a site.
    WorkerId;
    /// A registered dataset.
    DatasetId;
    /// A lineage: all versions of one dataset that may contain the same people. Its budget is for life.
    LineageId;
    /// A privacy account: (organization, lineage, unit, adjacency, observer).
    AccountId;
    /// A job.
    JobId;
    /// A job in preparation, for which no approval was requested.
    DraftId;
    /// A steward's standing limit, within which jobs are approved automatically.
    ApprovalLimitId;
    /// A stored file of a job: checkpoint, model, report.
    ArtifactId;
    /// A notification of a member.
    NotificationId;
    /// A question of a job: one text for annotators to label.
    QuestionId;
}
