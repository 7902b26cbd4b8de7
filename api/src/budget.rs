//! Budgets and accounts for display: every epsilon is rounded up, every remainder down.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use undertone_privacy::ledger::{Balance, FilterKind, JobCertificate, Promise, Promises};
use undertone_privacy::{Adjacency, Delta, Epsilon, Event, PrivacyUnit};

use crate::id::{AccountId, DatasetId, JobId};

/// A privacy account of a dataset's lineage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Account {
    /// Id.
    pub id: AccountId,
    /// The protected unit.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::unit))]
    pub unit: PrivacyUnit,
    /// The adjacency that names the account. An `add_remove` account also counts charges under `zero_out`, which cost
    /// the same.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::adjacency))]
    pub adjacency: Adjacency,
    /// The lifetime limit ε.
    #[cfg_attr(feature = "openapi", schema(value_type = f64, example = 8.0))]
    pub epsilon: Epsilon,
    /// The lifetime δ.
    #[cfg_attr(feature = "openapi", schema(value_type = f64, example = 1e-6))]
    pub delta: Delta,
    /// The filter by which the account admits jobs.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::filter))]
    pub filter: FilterKind,
    /// ε of all releases so far, at δ.
    pub spent: f64,
    /// ε of all releases and reservations, at δ.
    pub committed: f64,
    /// The spent part of the limit at the most favourable order: 0 to 1.
    pub spent_fraction: f64,
    /// The part of the limit that is reserved and not yet spent: 0 to 1.
    pub reserved_fraction: f64,
    /// Exact releases of a dataset that its owner opened for a comparison. The ledger records them, and no ε above
    /// covers them. An account that has nothing but these has a limit of 0.
    #[serde(default)]
    pub released_in_the_clear: u64,
    /// Releases of the same data that the limit does not cover. They protect another unit, and were made before this
    /// limit was set or before each job was charged to every limit. The limit bounds the releases of all other jobs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncovered: Vec<UncoveredReleases>,
}

/// An account with its full balance, from which the ledger decides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Standing))]
pub struct AccountStanding {
    /// The protected unit.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::unit))]
    pub unit: PrivacyUnit,
    /// The adjacency, the change that the guarantee covers.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::adjacency))]
    pub adjacency: Adjacency,
    /// The limit and, at every order, the spent and reserved loss, in the ledger's fixed-point numbers.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub balance: Balance,
}

/// Releases that a limit does not cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = UncoveredReleases))]
pub struct UncoveredReleases {
    /// Their protected unit.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::unit))]
    pub unit: PrivacyUnit,
    /// The number of jobs that made them.
    pub jobs: u64,
    /// The number of releases.
    pub releases: u64,
}

/// A limit under which an account released something.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PromisedLimit {
    /// ε.
    pub epsilon: f64,
    /// δ.
    pub delta: f64,
}

impl PromisedLimit {
    /// Returns the promises of an account.
    pub fn from_promises(promises: &Promises) -> Vec<Self> {
        let limit = |promise: &Promise| Self { epsilon: promise.epsilon.get(), delta: promise.delta.get() };
        promises.all().iter().map(limit).collect()
    }

    /// Returns ε and δ of everything released under all of these limits, each sum rounded up.
    pub fn combine(limits: &[Self]) -> (f64, f64) {
        let sum = |number: fn(&Self) -> f64| match limits {
            [one] => number(one),
            all => all.iter().fold(0.0, |sum, limit| add_up(sum, number(limit))),
        };
        (sum(|limit| limit.epsilon), sum(|limit| limit.delta))
    }
}

/// Returns a + b, rounded up: the rounding error of the sum is known exactly (Knuth's two-sum).
fn add_up(a: f64, b: f64) -> f64 {
    let sum = a + b;
    let other = sum - a;
    let error = (a - (sum - other)) + (b - other);
    if error > 0.0 { sum.next_up() } else { sum }
}

/// A steward's decision on a dataset's lifetime limit for one unit. A steward may raise a limit, but never lower it
/// below the spent and reserved part.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewBudget {
    /// The protected unit.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::unit))]
    pub unit: PrivacyUnit,
    /// The lifetime ε: greater than 0, at most 10,000.
    #[cfg_attr(feature = "openapi", schema(value_type = f64, example = 8.0))]
    pub epsilon: Epsilon,
    /// The lifetime δ: greater than 0, at most 0.01.
    #[cfg_attr(feature = "openapi", schema(value_type = f64, example = 1e-6))]
    pub delta: Delta,
    /// The filter by which the account admits jobs; absent for that of the account, or `renyi` for its first limit. It cannot
    /// change once a job was reserved under it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::filter))]
    pub filter: Option<FilterKind>,
}

/// The refusal of a request by an account.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Refusal))]
pub struct BudgetRefusal {
    /// The dataset.
    pub dataset: DatasetId,
    /// Its name.
    pub dataset_name: String,
    /// The protected unit.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::unit))]
    pub unit: PrivacyUnit,
    /// The limit ε at δ.
    pub limit: f64,
    /// δ of the limit.
    pub delta: f64,
    /// ε already spent and reserved, rounded up.
    pub spent: f64,
    /// The requested ε by itself, rounded up; absent if it is infinite.
    pub asked: Option<f64>,
    /// ε of the spent, reserved and requested releases together, rounded up; absent if it is infinite.
    pub would_be: Option<f64>,
    /// The most releases of the requested kind that would still fit.
    pub releases_that_fit: u64,
    /// Why the job has no price for this unit, and the remedy; absent if the figures are the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The exceeded part of the budget; absent in refusals from before this field existed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exceeded: Option<ExceededPart>,
    /// The figures of the exceeded part of δ for releases with a δ of their own; absent if another part is exceeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side_delta: Option<SideDelta>,
}

/// The part of a budget that a job exceeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ExceededPart {
    /// The account has no budget.
    NoBudget,
    /// ε at the budget's δ: `would_be` is over `limit`.
    Epsilon,
    /// The part of δ for releases with a δ of their own: see `side_delta`. ε may have room.
    SideDelta,
    /// The job's loss is infinite: it makes a release without noise.
    InfiniteLoss,
    /// The job has no price for this unit: see `reason`.
    NoPrice,
}

/// The part of δ that an account keeps for releases with a δ of their own, apart from the δ at which ε is measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SideDelta {
    /// The limit.
    pub limit: f64,
    /// The spent and reserved part of it, rounded up.
    pub committed: f64,
    /// The part that the job requests, rounded up.
    pub asked: f64,
}

impl SideDelta {
    /// Returns the figures as a phrase, to three decimals: used δ is rounded up, the limit down.
    pub fn phrase(&self) -> String {
        format!(
            "{} of {} is spent or reserved and the job asks {}",
            decimal(self.committed, f64::ceil),
            decimal(self.limit, f64::floor),
            decimal(self.asked, f64::ceil)
        )
    }
}

/// Returns a positive number with four significant digits, rounded by `round`.
fn decimal(number: f64, round: fn(f64) -> f64) -> String {
    if number <= 0.0 {
        return "0".to_owned();
    }
    let exact = format!("{number:e}");
    // Use the fewest digits: most limits are short, and the phrase repeats them as they were entered.
    if exact.len() <= "1.234e-10".len() {
        return exact;
    }
    let scale = 10_f64.powi(3 - number.log10().floor() as i32);
    format!("{:.3e}", round(number * scale) / scale)
}

/// The kind of a row of the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// A reservation of a job's worst case.
    Reserve,
    /// A payment for one release, before the release leaves.
    Commit,
    /// A return of reserved releases that provably never left.
    Settle,
}

/// A row of a dataset's ledger.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Entry))]
pub struct LedgerEntry {
    /// Position in the account's ledger, from 1.
    pub sequence: u64,
    /// The account.
    pub account: AccountId,
    /// The kind of row.
    pub kind: EntryKind,
    /// The job that caused it.
    pub job: JobId,
    /// The series and round of a commit: `private/17`.
    pub round: Option<String>,
    /// The reserved, paid or returned release, with exact parameters.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub event: Event,
    /// The number of these releases.
    pub count: u64,
    /// The certificate of a reservation on an account with the filter `gaussian`: μ² and δ₀ as units of 2⁻⁶⁴, and the number
    /// of releases that they cover together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub certificate: Option<JobCertificate>,
    /// Hash of the site's signed receipt, hex; for commits.
    pub receipt: Option<String>,
    /// Hash of this row and all previous ones, hex.
    pub hash: String,
    /// The time.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub at: OffsetDateTime,
}

#[cfg(test)]
mod tests {
    use super::SideDelta;

    #[test]
    fn side_delta_figures_round_toward_refusal() {
        let exceeded = SideDelta { limit: 0.002_512_345_6, committed: 0.001_800_000_000_000_1, asked: 1e-3 };
        assert_eq!(exceeded.phrase(), "1.801e-3 of 2.512e-3 is spent or reserved and the job asks 1e-3");
        let unused = SideDelta { limit: 2.5e-3, committed: 0.0, asked: 2.6e-3 };
        assert_eq!(unused.phrase(), "0 of 2.5e-3 is spent or reserved and the job asks 2.6e-3");
    }
}
