//! Messages that the server sends on its own: security notices by e-mail and to a webhook. This module only sends;
//! `service::delivery` decides about notices and retries.

mod mail;
mod resolver;
mod webhook;

use time::OffsetDateTime;
use uuid::Uuid;

use crate::config::Config;

pub use mail::Mailer;
pub use webhook::Webhook;
pub use webhook::sign;

/// The address of the page with a member's notifications.
pub(crate) const NOTIFICATIONS_PAGE: &str = "/notifications";

/// A notice to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboundNotice {
    /// The id, which is the same at every attempt, so that a receiver can recognize a repetition.
    pub id: Uuid,
    /// The recipient.
    pub member: Uuid,
    /// The word of the kind.
    pub kind: String,
    /// The label of the kind, for people.
    pub label: &'static str,
    /// The notice, a sentence.
    pub text: String,
    /// The time of the event.
    pub at: OffsetDateTime,
}

/// A reason why a notice was not delivered. It excludes the response, which may contain addresses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OutboundError {
    /// The configuration, or the member's address, cannot be used.
    #[error("{0} cannot be used")]
    Unusable(&'static str),
    /// The receiver did not answer, or its connection could not be verified.
    #[error("no connection to the {0}")]
    Unreachable(&'static str),
    /// The receiver refused the notice.
    #[error("the {channel} answered {status}")]
    Refused {
        /// The kind of receiver.
        channel: &'static str,
        /// The receiver's status code.
        status: u16,
    },
}

/// The configured channels.
pub struct Channels {
    /// E-mail.
    pub mail: Option<Mailer>,
    /// The webhook.
    pub webhook: Option<Webhook>,
}

impl Channels {
    /// Makes the channels of a configuration.
    ///
    /// # Errors
    /// [`OutboundError::Unusable`] names the part that cannot be used.
    pub fn new(config: &Config) -> Result<Self, OutboundError> {
        Ok(Self { mail: Mailer::new(&config.mail)?, webhook: Webhook::new(&config.webhook)? })
    }
}
