//! Approval limits: a steward's standing decision, kept by the server, to approve jobs within limits automatically.

use serde::{Deserialize, Serialize};
use time::{Duration, OffsetDateTime};
use undertone_privacy::{Adjacency, Epsilon, PrivacyUnit};

use super::Spec;
use crate::id::{ApprovalLimitId, DatasetId};
use crate::problem::Violation;

/// The longest validity of a limit, days.
pub const LONGEST_LIMIT_DAYS: i64 = 365;

/// The jobs that are approved automatically.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewApprovalLimit {
    /// The most ε that one job may cost by itself, at the account's δ: greater than 0.
    #[cfg_attr(feature = "openapi", schema(value_type = f64, example = 0.5))]
    pub epsilon: Epsilon,
    /// The most ε of all jobs approved by this limit together, for each unit and adjacency, at the account's δ: at
    /// least `epsilon`. Absent: no total, so that only the lifetime budget bounds their sum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<f64>, example = 2.0))]
    pub total_epsilon: Option<Epsilon>,
    /// The kinds of job that it covers: at least one.
    #[cfg_attr(feature = "openapi", schema(min_items = 1, example = json!(["dp_sgd"])))]
    pub kinds: Vec<String>,
    /// The end of its validity: within 365 days.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime, example = "2027-01-31T00:00:00Z"))]
    pub until: OffsetDateTime,
}

impl NewApprovalLimit {
    /// Returns the violations at `now`.
    pub fn check(&self, now: OffsetDateTime) -> Vec<Violation> {
        let mut violations = Vec::new();
        if !(self.epsilon.get() > 0.0 && self.epsilon.get().is_finite()) {
            violations.push(Violation::new("epsilon", "greater than 0: 0 would let nothing pass"));
        }
        if self.total_epsilon.is_some_and(|total| total < self.epsilon) {
            violations.push(Violation::new(
                "total_epsilon",
                "at least `epsilon`: below it, no job that may cost that much would pass; leave it out for no total",
            ));
        }
        if self.kinds.is_empty() || self.kinds.iter().any(|kind| !Spec::KINDS.contains(&kind.as_str())) {
            violations.push(Violation::new("kinds", format!("name some of {}", Spec::KINDS.join(", "))));
        }
        if self.until <= now || self.until > now.saturating_add(Duration::days(LONGEST_LIMIT_DAYS)) {
            violations.push(Violation::new("until", "a time to come, within 365 days"));
        }
        violations
    }
}

/// A present or former limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ApprovalLimit {
    /// Id.
    pub id: ApprovalLimitId,
    /// The dataset.
    pub dataset: DatasetId,
    /// The covered jobs.
    #[serde(flatten)]
    pub content: NewApprovalLimit,
    /// The steward who set it.
    pub set_by: String,
    /// When it was set.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub set_at: OffsetDateTime,
    /// Whether it applies now.
    pub in_force: bool,
    /// The member who withdrew it; absent if it was not withdrawn.
    #[serde(default)]
    pub withdrawn_by: Option<String>,
    /// The totals of the jobs approved by it, for each account. A limit that replaces another starts with none.
    #[serde(default)]
    pub approved: Vec<ApprovedTotal>,
}

/// The total of the jobs approved by a limit on one account: one sum, which the limit's total bounds. The figures cover
/// all these jobs together, composed as reports compose them, and rounded up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ApprovedTotal {
    /// The protected unit.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::unit))]
    pub unit: PrivacyUnit,
    /// The adjacency that names the account. An `add_remove` account also counts charges under `zero_out`.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::adjacency))]
    pub adjacency: Adjacency,
    /// δ of both figures, from the dataset's account.
    #[cfg_attr(feature = "openapi", schema(example = 1e-6))]
    pub delta: f64,
    /// The number of approved jobs.
    pub jobs: u64,
    /// ε of their releases so far; absent if no finite ε covers them.
    pub spent: Option<f64>,
    /// ε of their past and possible releases: a job that is over counts its releases, every other job its worst case.
    /// The limit's total bounds this figure; absent if no finite ε covers it.
    pub committed: Option<f64>,
}

#[cfg(test)]
mod tests {
    use time::{Duration, OffsetDateTime};
    use undertone_privacy::Epsilon;

    use super::NewApprovalLimit;

    #[test]
    fn a_limit_has_an_epsilon_a_kind_and_an_end_within_a_year() {
        let now = OffsetDateTime::UNIX_EPOCH;
        let limit = |epsilon: f64, kinds: &[&str], days| NewApprovalLimit {
            epsilon: Epsilon::new(epsilon).unwrap_or_else(|_| panic!("{epsilon} is an ε")),
            total_epsilon: None,
            kinds: kinds.iter().map(|kind| (*kind).to_owned()).collect(),
            until: now + Duration::days(days),
        };
        assert_eq!(limit(0.5, &["dp_sgd"], 365).check(now), []);
        let fields = |limit: NewApprovalLimit| limit.check(now).into_iter().map(|v| v.field).collect::<Vec<_>>();
        assert_eq!(fields(limit(0.0, &[], 0)), ["epsilon", "kinds", "until"]);
        assert_eq!(fields(limit(0.5, &["dp_sgd", "other"], 366)), ["kinds", "until"]);
        let with = |total: f64| {
            let total_epsilon = Some(Epsilon::new(total).unwrap_or_else(|_| panic!("{total} is an ε")));
            fields(NewApprovalLimit { total_epsilon, ..limit(0.5, &["dp_sgd"], 365) })
        };
        assert_eq!((with(0.5), with(0.499)), (Vec::new(), vec!["total_epsilon".to_owned()]));
    }

    #[test]
    fn a_limit_of_before_there_were_totals_has_none() {
        let text = r#"{"epsilon":0.5,"kinds":["dp_sgd"],"until":"2027-01-31T00:00:00Z"}"#;
        let old: NewApprovalLimit = serde_json::from_str(text).expect("it was a limit");
        assert_eq!(old.total_epsilon, None);
        assert_eq!(serde_json::to_string(&old).expect("JSON"), text, "and is written as it was");
    }
}
