//! The numbers that limit messages, and the senders to which their bytes are charged.

use std::net::IpAddr;
use std::time::Duration;

use undertone_api::id::{MemberId, WorkerId};

/// The highest number of bytes of one message of a recognized caller: enough for a header with some thousands of
/// receipts.
pub(crate) const LARGEST_MESSAGE: usize = 16 << 20;
/// The highest number of bytes of a stranger's message: enrolment, sign-in and key rotation are far smaller.
pub(crate) const LARGEST_OF_STRANGER: usize = 64 << 10;
/// The time for a message to arrive while the server waits for it; large messages get more, see [`MESSAGE_RATE`].
pub(crate) const MESSAGE_TIME: Duration = Duration::from_mins(1);
/// Bytes of a message for each additional second.
pub(crate) const MESSAGE_RATE: usize = 64 << 10;
/// The highest number of bytes of strangers' messages in memory: in total, and from one address.
pub(crate) const STRANGER_BYTES: (usize, usize) = (32 << 20, 4 << 20);
/// The highest number of bytes of recognized callers' messages in memory: in total, and of one caller.
pub(crate) const RECOGNIZED_BYTES: (usize, usize) = (256 << 20, 64 << 20);

/// The limits of messages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MessageLimits {
    /// See [`LARGEST_OF_STRANGER`].
    pub(crate) largest_of_stranger: usize,
    /// See [`MESSAGE_TIME`].
    pub(crate) time: Duration,
    /// See [`STRANGER_BYTES`].
    pub(crate) stranger_bytes: (usize, usize),
    /// See [`RECOGNIZED_BYTES`].
    pub(crate) recognized_bytes: (usize, usize),
}

impl Default for MessageLimits {
    fn default() -> Self {
        Self {
            largest_of_stranger: LARGEST_OF_STRANGER,
            time: MESSAGE_TIME,
            stranger_bytes: STRANGER_BYTES,
            recognized_bytes: RECOGNIZED_BYTES,
        }
    }
}

/// The caller to which the bytes of a message are charged.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum MessageSender {
    /// A worker with a session.
    Worker(WorkerId),
    /// A member with a session or a key.
    Member(MemberId),
    /// The network of an unauthenticated caller.
    Stranger(IpAddr),
}
