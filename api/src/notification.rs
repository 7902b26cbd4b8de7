//! Notifications of members: pending decisions, and events that concern them.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::id::{ConsortiumId, DatasetId, JobId, NotificationId, OrganizationId};

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $label:literal;)*) => {
        /// The event of a notification.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        #[serde(rename_all = "snake_case")]
        pub enum NotificationKind { $($(#[$doc])* $name,)* }

        impl NotificationKind {
            /// Every kind, in the order of the list.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Returns the text for display.
            pub const fn label(self) -> &'static str {
                match self { $(Self::$name => $label,)* }
            }
        }
    };
}

kinds! {
    /// A job waits for the member's approval.
    JobWaits = "a job waits for your decision";
    /// A job was refused.
    JobRefused = "a job was refused";
    /// A job has finished.
    JobFinished = "a job has finished";
    /// A job has failed or was cancelled.
    JobFailed = "a job has failed or was cancelled";
    /// A worker has fallen silent while a job needs it.
    WorkerSilent = "a worker has fallen silent";
    /// Less than a tenth of a budget is left.
    BudgetLow = "a budget is nearly used";
    /// An audit has frozen a dataset.
    DatasetFrozen = "an audit has frozen a dataset";
    /// A certificate was made.
    CertificateReady = "a certificate is ready";
    /// An invitation was accepted.
    InvitationAccepted = "an invitation was accepted";
    /// A new sign-in method was added to the member's account, or methods were removed.
    AccountChanged = "what opens your account has changed";
    /// The credentials of the member, or of a member of an organization that they administer, were reset or changed.
    CredentialsChanged = "credentials were reset or changed";
    /// Access of a worker, a member, an organization or an account was retired or restored.
    AccessRetired = "access was retired or restored";
    /// The member signed in from a new network or browser.
    SignInNew = "a sign-in from a new place";
    /// A caller gave wrong codes of the member's second factor.
    SecondFactorFailed = "wrong codes of your second factor";
    /// A site's key was replaced by another.
    SiteKeyRotated = "a site's key was rotated";
}

impl NotificationKind {
    /// Returns whether members may switch it off. Notices about security stay on, so that a thief of a session cannot
    /// mute them.
    pub const fn can_be_switched_off(self) -> bool {
        !matches!(
            self,
            Self::AccountChanged
                | Self::CredentialsChanged
                | Self::AccessRetired
                | Self::SignInNew
                | Self::SecondFactorFailed
                | Self::SiteKeyRotated
        )
    }
}

/// A notification of a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Notification {
    /// Id.
    pub id: NotificationId,
    /// Its event.
    pub kind: NotificationKind,
    /// The event as a sentence.
    pub text: String,
    /// The consortium in which it happened.
    pub consortium: Option<ConsortiumId>,
    /// The job of the event.
    pub job: Option<JobId>,
    /// The dataset of the event.
    pub dataset: Option<DatasetId>,
    /// The organization of the event.
    pub organization: Option<OrganizationId>,
    /// When it happened.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub at: OffsetDateTime,
    /// When the member marked it as read; absent while it is new.
    #[serde(default, with = "time::serde::rfc3339::option")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub read_at: Option<OffsetDateTime>,
}

/// A filter of notifications.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
pub struct NotificationQuery {
    /// Whether to return only new ones.
    #[serde(default)]
    pub unread: Option<bool>,
    /// Only those of one kind.
    #[serde(default)]
    pub kind: Option<NotificationKind>,
    /// The `next` of the previous page.
    #[serde(default)]
    pub cursor: Option<String>,
    /// Notifications on a page: 1 to 200, 50 by default.
    #[serde(default)]
    pub limit: Option<u32>,
}

/// The number of new notifications.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Unread))]
pub struct UnreadCount {
    /// The number.
    pub unread: u64,
}

/// The notifications that a member has switched off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NotificationSwitches {
    /// The kinds that the member does not receive; all others are on.
    pub off: Vec<NotificationKind>,
}
