//! Versions of data with several writers: a write based on an outdated state is rejected, in the transaction of the
//! write.
//!
//! A version is a hash of the displayed content, so no table stores one. REST transfers it as `ETag` and `If-Match`,
//! gRPC in fields.

use serde::Serialize;
use sha2::{Digest as _, Sha256};
use undertone_api::problem::Code;

use crate::error::Error;

/// Returns the version of displayed bytes.
pub fn hash_bytes(shown: &[u8]) -> String {
    // 128 bits: a collision helps only a caller with access to both states.
    hex::encode(&Sha256::digest(shown)[..16])
}

/// Returns the version of content displayed as JSON.
///
/// # Errors
/// When it cannot be written as JSON.
pub fn compute_version<T: Serialize + ?Sized>(shown: &T) -> Result<String, Error> {
    serde_json::to_vec(shown)
        .map(|bytes| hash_bytes(&bytes))
        .map_err(|error| Error::internal("comparing versions", error))
}

/// The state that the caller expects.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ExpectedVersion {
    /// Any state.
    #[default]
    Anything,
    /// One of these versions.
    OneOf(Vec<String>),
}

impl ExpectedVersion {
    /// Checks that the present state is one that the caller expects.
    ///
    /// # Errors
    /// `precondition_failed` when it is not.
    pub fn check<T: Serialize + ?Sized>(&self, now: &T) -> Result<(), Error> {
        let Self::OneOf(versions) = self else { return Ok(()) };
        if versions.contains(&compute_version(now)?) {
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
    use super::{ExpectedVersion, hash_bytes};

    #[test]
    fn a_state_that_was_not_read_is_not_written_on() {
        assert!(ExpectedVersion::Anything.check("x").is_ok());
        let read = ExpectedVersion::OneOf(vec![hash_bytes(b"\"x\"")]);
        assert!(read.check("x").is_ok());
        assert!(read.check("y").is_err());
    }
}
