//! Datasets, as much of them as may be known outside their site.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::budget::Account;
use crate::id::{DatasetId, LineageId, OrganizationId, WorkerId};

/// Who may learn what from a dataset. Declared at the site; the server only shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Visibility {
    /// Only differentially private releases leave the site.
    #[default]
    Private,
    /// Private, but its owner allows exact gradients for the comparison with open pooling.
    Open,
    /// Published anyway: exact gradients and metrics may leave the site.
    Public,
}

/// A size, told only roughly: 1, 2 or 5 times a power of ten. The number that stands for n in every division.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct SizeClass(pub u64);

impl SizeClass {
    /// The class nearest to `count` on a logarithmic scale; at least 1.
    pub fn of(count: u64) -> Self {
        let mut best = 1_u64;
        let mut power = 1_u64;
        loop {
            for step in [1, 2, 5] {
                let candidate = power.saturating_mul(step);
                let ratio = |c: u64| (c.max(count) as f64) / (c.min(count).max(1) as f64);
                if ratio(candidate) < ratio(best) {
                    best = candidate;
                }
            }
            if power >= count || power > u64::MAX / 10 {
                return Self(best);
            }
            power *= 10;
        }
    }
}

/// A registered dataset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Dataset {
    /// Id.
    pub id: DatasetId,
    /// Its line of versions; the budget belongs to the line.
    pub lineage: LineageId,
    /// Owner.
    pub organization: OrganizationId,
    /// The owner's name.
    pub organization_name: String,
    /// The worker that holds it.
    pub worker: WorkerId,
    /// Name, unique at its organization.
    pub name: String,
    /// Who may learn what.
    pub visibility: Visibility,
    /// Coefficients in a frame.
    pub inputs: u32,
    /// Classes of the labels.
    pub classes: u32,
    /// Training records (utterances), roughly.
    pub records: SizeClass,
    /// Training speakers, roughly.
    pub speakers: SizeClass,
    /// Test records held out, roughly; 0 when none are.
    pub test_records: u64,
    /// Its privacy accounts: one for each unit that has a budget.
    pub accounts: Vec<Account>,
    /// When it was registered.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: OffsetDateTime,
}

/// What a site tells of a dataset when it registers it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registration {
    /// Name, unique at its organization.
    pub name: String,
    /// Its line of versions, made at the site when the line began.
    pub lineage: LineageId,
    /// Who may learn what.
    pub visibility: Visibility,
    /// Coefficients in a frame.
    pub inputs: u32,
    /// Classes of the labels.
    pub classes: u32,
    /// Training records, roughly.
    pub records: SizeClass,
    /// Training speakers, roughly.
    pub speakers: SizeClass,
    /// Test records, roughly; 0 when none are held out.
    pub test_records: u64,
}

#[cfg(test)]
mod tests {
    use super::SizeClass;

    #[test]
    fn a_size_class_is_one_two_or_five_times_a_power_of_ten() {
        for (count, class) in
            [(0, 1), (1, 1), (2, 2), (3, 2), (4, 5), (6, 5), (8, 10), (27, 20), (350, 500), (948, 1000)]
        {
            assert_eq!(SizeClass::of(count).0, class, "{count}");
        }
    }
}
