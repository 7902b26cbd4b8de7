//! The keys with which stewards approve jobs, as their owners list them at the server. The list is for convenience: a
//! site accepts a key only after the site's operator has pinned it at the site's terminal.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::id::ApprovalKeyId;
#[cfg(not(target_arch = "wasm32"))]
use crate::member::check_name;
#[cfg(not(target_arch = "wasm32"))]
use crate::problem::Violation;
use crate::signed::{ApprovalKey, KeyFingerprint};

/// The most approval keys of a member.
pub const MOST_OWN_APPROVAL_KEYS: u64 = 20;

/// A key to be listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewApprovalKey {
    /// The owner's name for the key: 1 to 100 characters.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 100))]
    pub label: String,
    /// The public key.
    pub key: ApprovalKey,
}

impl NewApprovalKey {
    /// Returns every violation.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn check(&self) -> Vec<Violation> {
        let mut violations = Vec::new();
        check_name("label", &self.label, &mut violations);
        if let Err(error) = self.key.check() {
            violations.push(Violation::new("key", error.to_string()));
        }
        violations
    }
}

/// A steward's key in its owner's view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OwnApprovalKey {
    /// Id.
    pub id: ApprovalKeyId,
    /// The owner's name for the key.
    pub label: String,
    /// The public key.
    pub key: ApprovalKey,
    /// Its fingerprint. The owner reads it to the site's operator.
    pub fingerprint: KeyFingerprint,
    /// The line that the site's operator pins.
    pub line: String,
    /// When it was listed.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: OffsetDateTime,
}
