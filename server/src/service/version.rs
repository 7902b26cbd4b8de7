//! Versions of what two may write: whoever read one state and writes on another is told so, in the transaction that writes.
//!
//! A version is a hash of what is shown, so no table keeps one. By REST it travels as `ETag` and `If-Match`, by gRPC in fields.

use serde::Serialize;
use sha2::{Digest as _, Sha256};
use undertone_api::problem::Code;

use crate::error::Error;

/// The version of bytes that are shown.
pub fn of_bytes(shown: &[u8]) -> String {
    // 128 bits: nobody gains by two states of one version but who could write both.
    hex::encode(&Sha256::digest(shown)[..16])
}

/// The version of something that is shown as JSON.
///
/// # Errors
/// When it cannot be written as JSON.
pub fn of<T: Serialize + ?Sized>(shown: &T) -> Result<String, Error> {
    serde_json::to_vec(shown)
        .map(|bytes| of_bytes(&bytes))
        .map_err(|error| Error::internal("comparing versions", error))
}

/// What the caller believes to be the present state.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Expected {
    /// Whatever it is.
    #[default]
    Anything,
    /// One of these versions.
    OneOf(Vec<String>),
}

impl Expected {
    /// Whether what is there now is what the caller believes.
    ///
    /// # Errors
    /// `precondition_failed` when it is not.
    pub fn check<T: Serialize + ?Sized>(&self, now: &T) -> Result<(), Error> {
        let Self::OneOf(versions) = self else { return Ok(()) };
        if versions.contains(&of(now)?) {
            return Ok(());
        }
        Err(Error::problem(
            Code::PreconditionFailed,
            "somebody changed this since you read it: read it again, and decide again",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::{Expected, of_bytes};

    #[test]
    fn a_state_that_was_not_read_is_not_written_on() {
        assert!(Expected::Anything.check("x").is_ok());
        let read = Expected::OneOf(vec![of_bytes(b"\"x\"")]);
        assert!(read.check("x").is_ok());
        assert!(read.check("y").is_err());
    }
}
