//! Retirement: the end of access for a worker, a member, an organization or an account, with a reason; and restoration.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::id::MemberId;
use crate::member::{Member, Role};
use crate::problem::Violation;

/// The longest reason for a retirement or a restoration, characters.
pub const LONGEST_REASON: usize = 500;

/// The reason for retiring or restoring.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(example = json!({ "reason": "the machine was stolen" })))]
#[serde(deny_unknown_fields)]
pub struct StatedReason {
    /// 1 to 500 printable characters. The audit log and the announcement repeat it.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 500))]
    pub reason: String,
}

impl StatedReason {
    /// Returns the violations; none if the reason is valid.
    pub fn check(&self) -> Vec<Violation> {
        let length = self.reason.trim().chars().count();
        if (1..=LONGEST_REASON).contains(&length) && !self.reason.chars().any(char::is_control) {
            return Vec::new();
        }
        let message = format!("state a reason of 1 to {LONGEST_REASON} printable characters, not {length}");
        vec![Violation::new("reason", message)]
    }
}

/// A retirement in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Retirement {
    /// When it began.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub at: OffsetDateTime,
    /// The member who decided it.
    pub by: MemberId,
    /// Their reason.
    pub reason: String,
    /// Whether the organization's own admins may end it. Only the consortium or an operator may end a retirement that
    /// they decided.
    pub is_own: bool,
}

/// A member whose roles at an organization are retired.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RetiredMember {
    /// The member, without roles there.
    pub member: Member,
    /// The roles that a restoration returns.
    pub roles: Vec<Role>,
    /// The retirement.
    pub retirement: Retirement,
}

/// An account in the view of operators.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AccountState {
    /// The member.
    pub member: Member,
    /// The retirement in force, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retirement: Option<Retirement>,
}

#[cfg(test)]
mod tests {
    use super::{LONGEST_REASON, StatedReason};

    #[test]
    fn reason_has_one_to_500_printable_characters() {
        let accepts = |reason: &str| StatedReason { reason: reason.to_owned() }.check().is_empty();
        assert!(accepts("é") && accepts(&"é".repeat(LONGEST_REASON)));
        for reason in ["", "  ", "two\nlines", &"é".repeat(LONGEST_REASON + 1)] {
            assert!(!accepts(reason), "{reason:?}");
        }
    }
}
