//! API keys: programs authenticate with them as a member. This module holds their scopes and their lifetime.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::id::ApiKeyId;
use crate::member::check_name;
use crate::problem::Violation;

/// The prefix of every key. It makes a leaked key recognizable.
pub const PREFIX: &str = "udk_";
/// The longest lifetime of a key, days.
pub const MOST_DAYS: u32 = 365;
/// The most keys that a member may have at a time.
pub const MOST_KEYS: u64 = 20;

/// A part of its owner's permissions that a key can have. Every key may read. No key reaches accounts, roles,
/// invitations, enrolment of workers, retirement, keys and second factors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum KeyScope {
    /// Read consortia, organizations, datasets, jobs and their results.
    Read,
    /// Plan, propose, pause, retry and cancel jobs.
    Jobs,
    /// Approve and refuse jobs for the datasets of one's organization.
    Approvals,
    /// Set budgets, clear freezes.
    Datasets,
    /// See, answer, export and import the questions of jobs.
    Questions,
    /// Read and export ledgers and the heads of the log.
    Ledger,
    /// Download models and other files of jobs.
    Models,
    /// Found consortia, and declare their rule about people in several organizations.
    Consortia,
}

impl KeyScope {
    /// All scopes, in display order.
    pub const ALL: &'static [Self] = &[
        Self::Read,
        Self::Jobs,
        Self::Approvals,
        Self::Datasets,
        Self::Questions,
        Self::Ledger,
        Self::Models,
        Self::Consortia,
    ];

    /// Returns the scope's name in JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Jobs => "jobs",
            Self::Approvals => "approvals",
            Self::Datasets => "datasets",
            Self::Questions => "questions",
            Self::Ledger => "ledger",
            Self::Models => "models",
            Self::Consortia => "consortia",
        }
    }
}

/// A key to be created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(example = json!({ "name": "nightly export", "scopes": ["read", "ledger"], "days": 90 })))]
#[serde(deny_unknown_fields)]
pub struct NewApiKey {
    /// Its purpose, in the owner's words: 1 to 100 characters.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 100))]
    pub name: String,
    /// Its scopes: at least one.
    #[cfg_attr(feature = "openapi", schema(min_items = 1))]
    pub scopes: Vec<KeyScope>,
    /// Its lifetime in days: 1 to 365.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 365))]
    pub days: u32,
}

impl NewApiKey {
    /// Returns every violation; none if the input is valid.
    pub fn check(&self) -> Vec<Violation> {
        let mut violations = Vec::new();
        check_name("name", &self.name, &mut violations);
        if self.scopes.is_empty() {
            violations.push(Violation::new("scopes", "name at least one scope, such as `read`"));
        }
        for (index, scope) in self.scopes.iter().enumerate() {
            if self.scopes[..index].contains(scope) {
                violations.push(Violation::new(format!("scopes.{index}"), "name each scope once"));
            }
        }
        if !(1..=MOST_DAYS).contains(&self.days) {
            violations.push(Violation::new("days", format!("use 1 to {MOST_DAYS}, not {}", self.days)));
        }
        violations
    }
}

/// A key in its owner's view.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ApiKey {
    /// Id: the part of the key between `udk_` and the second `_`, without hyphens.
    pub id: ApiKeyId,
    /// Its purpose, in the owner's words.
    pub name: String,
    /// Its scopes.
    pub scopes: Vec<KeyScope>,
    /// The key itself, only in the response that creates it: `Authorization: Bearer udk_...`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// When it was created.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: OffsetDateTime,
    /// When it expires.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub expires_at: OffsetDateTime,
    /// When it was last used, to the minute.
    #[serde(with = "time::serde::rfc3339::option", default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub last_used_at: Option<OffsetDateTime>,
    /// When it was revoked, if it was.
    #[serde(with = "time::serde::rfc3339::option", default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub revoked_at: Option<OffsetDateTime>,
}

impl std::fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiKey").field("id", &self.id).field("scopes", &self.scopes).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::{KeyScope, NewApiKey};

    #[test]
    fn every_violation_of_a_new_key_is_named() {
        let wrong = NewApiKey { name: " ".to_owned(), scopes: vec![KeyScope::Read, KeyScope::Read], days: 366 };
        let fields: Vec<String> = wrong.check().into_iter().map(|violation| violation.field).collect();
        assert_eq!(fields, ["name", "scopes.1", "days"]);
        let none = NewApiKey { name: "x".to_owned(), scopes: Vec::new(), days: 0 };
        let fields: Vec<String> = none.check().into_iter().map(|violation| violation.field).collect();
        assert_eq!(fields, ["scopes", "days"]);
        let good = NewApiKey { name: "x".to_owned(), scopes: KeyScope::ALL.to_vec(), days: 365 };
        assert_eq!(good.check(), []);
    }

    #[test]
    fn scope_word_is_its_json() {
        for scope in KeyScope::ALL {
            assert_eq!(serde_json::to_value(scope).expect("JSON"), scope.word());
        }
    }
}
