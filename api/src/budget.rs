//! Budgets and accounts as they are shown: every epsilon is rounded up, every "left" down.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use undertone_privacy::{Adjacency, Delta, Epsilon, Event, PrivacyUnit};

use crate::id::{AccountId, DatasetId, JobId};

/// A privacy account of a dataset's lineage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Account {
    /// Id.
    pub id: AccountId,
    /// Who is protected.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::unit))]
    pub unit: PrivacyUnit,
    /// Against which change.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::adjacency))]
    pub adjacency: Adjacency,
    /// The lifetime limit ε.
    #[cfg_attr(feature = "openapi", schema(value_type = f64, example = 8.0))]
    pub epsilon: Epsilon,
    /// The lifetime δ.
    #[cfg_attr(feature = "openapi", schema(value_type = f64, example = 1e-6))]
    pub delta: Delta,
    /// ε of everything released so far, at δ.
    pub spent: f64,
    /// ε of everything released and reserved, at δ.
    pub committed: f64,
    /// Part of the limit that is spent, by the most favourable order: 0 to 1.
    pub spent_fraction: f64,
    /// Part of the limit that is reserved and not yet spent: 0 to 1.
    pub reserved_fraction: f64,
    /// Releases that left in the clear because the owner opened the dataset for a comparison: recorded in the ledger, outside
    /// every ε above. An account that has nothing but these has a limit of 0.
    #[serde(default)]
    pub released_in_the_clear: u64,
}

/// A steward's decision on a dataset's lifetime limit for one unit. A limit may be raised, never lowered below what is
/// spent and reserved.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewBudget {
    /// Who is protected.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::unit))]
    pub unit: PrivacyUnit,
    /// ε for life: greater than 0, at most 10,000.
    #[cfg_attr(feature = "openapi", schema(value_type = f64, example = 8.0))]
    pub epsilon: Epsilon,
    /// δ for life: greater than 0, at most 0.01.
    #[cfg_attr(feature = "openapi", schema(value_type = f64, example = 1e-6))]
    pub delta: Delta,
}

/// What an account said no to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Refusal {
    /// The dataset.
    pub dataset: DatasetId,
    /// Its name.
    pub dataset_name: String,
    /// Who is protected.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::unit))]
    pub unit: PrivacyUnit,
    /// The limit ε at δ.
    pub limit: f64,
    /// δ of the limit.
    pub delta: f64,
    /// ε already spent and reserved, rounded up.
    pub spent: f64,
    /// ε that was asked for by itself, rounded up; absent when it is infinite.
    pub asked: Option<f64>,
    /// ε that spent, reserved and asked would come to, rounded up; absent when infinite.
    pub would_be: Option<f64>,
    /// Most releases of the asked kind that would still fit.
    pub releases_that_fit: u64,
}

/// What a row of the ledger records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// The worst case of a job was set aside.
    Reserve,
    /// One release was paid, before it left.
    Commit,
    /// What provably never left was given back.
    Settle,
}

/// A row of a dataset's ledger.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Entry {
    /// Position in the account's ledger, from 1.
    pub sequence: u64,
    /// The account.
    pub account: AccountId,
    /// What happened.
    pub kind: EntryKind,
    /// The job that caused it.
    pub job: JobId,
    /// The series and round of a commit: `private/17`.
    pub round: Option<String>,
    /// The release that was reserved, paid or given back, with exact parameters.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub event: Event,
    /// How many such releases.
    pub count: u64,
    /// Hash of the site's signed receipt, hex; for commits.
    pub receipt: Option<String>,
    /// Hash of this row and all before it, hex.
    pub hash: String,
    /// When.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub at: OffsetDateTime,
}
