//! What the server sends by itself: security notices by e-mail and to a webhook. Effects only; which notices are sent, and when
//! again, is decided in `service::delivery`.

mod mail;
mod resolver;
mod webhook;

use time::OffsetDateTime;
use uuid::Uuid;

use crate::config::Config;

pub use mail::Mailer;
pub use webhook::Webhook;
#[cfg(test)]
pub(crate) use webhook::sign;

/// A notice on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboundNotice {
    /// Id; the same at every attempt, so that a receiver can recognize a repetition.
    pub id: Uuid,
    /// The member whom it is for.
    pub member: Uuid,
    /// The word of its kind.
    pub kind: String,
    /// Its kind, for people.
    pub label: &'static str,
    /// The notice, a sentence.
    pub text: String,
    /// When it happened.
    pub at: OffsetDateTime,
}

/// Why a notice did not arrive. Answers are not repeated here: they may hold addresses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OutboundError {
    /// The configuration, or the member's address, cannot be used.
    #[error("{0} cannot be used")]
    Unusable(&'static str),
    /// The other side did not answer, or the connection could not be trusted.
    #[error("no connection to the {0}")]
    Unreachable(&'static str),
    /// The other side did not accept it.
    #[error("the {channel} answered {status}")]
    Refused {
        /// Which side.
        channel: &'static str,
        /// Its status code.
        status: u16,
    },
}

/// The ways out that are configured.
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
