//! Datasets: the part of their description that may be known outside their site.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use undertone_privacy::PrivacyUnit;

use crate::budget::Account;
use crate::id::{DatasetId, LineageId, OrganizationId, WorkerId};
use crate::signed::{ApprovalRule, SiteApproval};
use crate::table::TableSchema;

/// The visibility of a dataset. Its site declares it; the server only displays it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Visibility {
    /// Only differentially private releases leave the site.
    #[default]
    Private,
    /// Private, but the owner allows exact gradients for the comparison with open pooling.
    Open,
    /// Published data: exact gradients and metrics may leave the site.
    Public,
}

/// The content of a dataset. A job kind works on one content and refuses the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = DatasetContent))]
#[serde(rename_all = "snake_case")]
pub enum DatasetContent {
    /// Recordings with aligned labels. Records are utterances.
    #[default]
    Speech,
    /// A query log. Records are its rows: each has a text, its number of occurrences, and possibly a user and a label.
    Queries,
    /// Recordings to be transcribed, without labels. Records are recordings.
    Recordings,
    /// A table of rows with typed columns and a column of units. Records are rows.
    Table,
}

impl DatasetContent {
    /// Returns whether the content is speech, the only content of older records. JSON then omits the field.
    pub fn is_speech(&self) -> bool {
        *self == Self::Speech
    }

    /// Returns the name for display.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Speech => "speech",
            Self::Queries => "queries",
            Self::Recordings => "recordings",
            Self::Table => "table",
        }
    }

    /// Returns what a dataset contains, after the verb "contains".
    pub const fn noun(self) -> &'static str {
        match self {
            Self::Speech => "speech",
            Self::Queries => "queries",
            Self::Recordings => "recordings",
            Self::Table => "the rows of a table",
        }
    }
}

/// An approximate size: 1, 2 or 5 times a power of ten. Every division by n uses this number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct SizeClass(pub u64);

impl SizeClass {
    /// Returns the class nearest to `count` on a logarithmic scale; at least 1.
    pub fn from_count(count: u64) -> Self {
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

    /// Returns the least count in this class.
    pub fn least(self) -> u64 {
        let is_in_class = |count: u64| Self::from_count(count) == self;
        let (mut low, mut high) = (0, self.0);
        // `of` is monotone in the count, so the counts of a class are a range that ends at or above its number.
        while low < high {
            let middle = low + (high - low) / 2;
            if is_in_class(middle) { high = middle } else { low = middle + 1 }
        }
        low
    }

    /// Returns the greatest count in this class.
    pub fn most(self) -> u64 {
        let (mut low, mut high) = (self.0, self.0.saturating_mul(4));
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if Self::from_count(middle) == self { low = middle } else { high = middle - 1 }
        }
        low
    }
}

/// A registered dataset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Dataset {
    /// Id.
    pub id: DatasetId,
    /// Its lineage. All versions in the lineage share one budget.
    pub lineage: LineageId,
    /// The owner.
    pub organization: OrganizationId,
    /// The owner's name.
    pub organization_name: String,
    /// The worker that serves it.
    pub worker: WorkerId,
    /// Name, unique at its organization.
    pub name: String,
    /// The visibility.
    pub visibility: Visibility,
    /// The content.
    #[serde(default, skip_serializing_if = "DatasetContent::is_speech")]
    pub content: DatasetContent,
    /// Coefficients in a frame; 0 for queries and recordings.
    pub inputs: u32,
    /// Classes of the labels, as declared for private data. For queries: distinct labels of public data, else 0. For
    /// recordings: 0.
    pub classes: u32,
    /// The approximate number of training records (utterances, rows of a log, recordings).
    pub records: SizeClass,
    /// The approximate number of training speakers; 1 for queries, which have none, and for recordings, where speakers
    /// are not counted.
    pub speakers: SizeClass,
    /// The approximate number of test records; 0 if none are held out.
    pub test_records: u64,
    /// The approximate length of all recordings in seconds; absent for other content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<SizeClass>,
    /// The approximate number of training users (the subjects of the owner's id column, such as patients or sessions);
    /// absent without such a column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<SizeClass>,
    /// The declared columns of a table; absent for other content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<TableSchema>,
    /// The units that its data keep apart, ascending. A job may protect only these. Features normalized by speaker do
    /// not keep records apart.
    #[serde(default = "usual_units", skip_serializing_if = "are_usual_units")]
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::units))]
    pub units: Vec<PrivacyUnit>,
    /// The approval that its site requires before it runs a job, as the site reports it; absent if the site does not
    /// report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalRule>,
    /// Its privacy accounts: one for each unit with a budget.
    pub accounts: Vec<Account>,
    /// When it was registered.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: OffsetDateTime,
}

/// The description of a dataset that a site sends to register it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DatasetRegistration {
    /// Name, unique at its organization.
    pub name: String,
    /// Its lineage (line of versions), made at the site with the first version.
    pub lineage: LineageId,
    /// Its visibility.
    pub visibility: Visibility,
    /// The kind of its data.
    #[serde(default, skip_serializing_if = "DatasetContent::is_speech")]
    pub content: DatasetContent,
    /// Coefficients in a frame; 0 for queries and recordings.
    pub inputs: u32,
    /// Classes of the labels, as declared if private. For queries: distinct labels of public data, else 0. For
    /// recordings: 0.
    pub classes: u32,
    /// The approximate number of training records.
    pub records: SizeClass,
    /// The approximate number of training speakers; 1 for queries, which have none, and for recordings, where speakers
    /// are not counted.
    pub speakers: SizeClass,
    /// The approximate number of test records; 0 if none are held out.
    pub test_records: u64,
    /// The approximate length of all recordings, seconds; `None` for other content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<SizeClass>,
    /// The approximate number of training users; `None` without a column of users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<SizeClass>,
    /// The declared columns of a table; `None` for other content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<TableSchema>,
    /// The units that its data keep apart, ascending.
    #[serde(default = "usual_units", skip_serializing_if = "are_usual_units")]
    pub units: Vec<PrivacyUnit>,
    /// How the site approves jobs on it; `None` from workers that do not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<SiteApproval>,
}

/// Returns the units that speech keeps apart by default: records and speakers.
pub fn usual_units() -> Vec<PrivacyUnit> {
    vec![PrivacyUnit::Record, PrivacyUnit::Speaker]
}

fn are_usual_units(units: &[PrivacyUnit]) -> bool {
    units == usual_units()
}

impl Dataset {
    /// Returns n, the approximate number of these units. For public data without a column of users, speakers count as
    /// users, because public data need no protection. Words are not counted outside the site, so the number of
    /// recordings stands in for them.
    pub fn count(&self, unit: PrivacyUnit) -> SizeClass {
        match unit {
            PrivacyUnit::Record | PrivacyUnit::Words => self.records,
            PrivacyUnit::Speaker => self.speakers,
            PrivacyUnit::User => self.users.unwrap_or(self.speakers),
        }
    }

    /// Returns whether a unit's data depend on that unit alone, so that a job can protect it.
    pub fn keeps_apart(&self, unit: PrivacyUnit) -> bool {
        self.units.contains(&unit)
    }
}

#[cfg(test)]
mod tests {
    use super::{DatasetContent, DatasetRegistration, SizeClass, usual_units};

    #[test]
    fn a_size_class_is_one_two_or_five_times_a_power_of_ten() {
        for (count, class) in
            [(0, 1), (1, 1), (2, 2), (3, 2), (4, 5), (6, 5), (8, 10), (27, 20), (350, 500), (948, 1000)]
        {
            assert_eq!(SizeClass::from_count(count).0, class, "{count}");
        }
    }

    #[test]
    fn size_class_covers_its_least_to_its_most() {
        for class in [1, 2, 5, 10, 20, 50, 1000, 500_000] {
            let class = SizeClass(class);
            let (least, most) = (class.least(), class.most());
            assert!(least <= class.0 && class.0 <= most);
            assert!(SizeClass::from_count(least) == class && SizeClass::from_count(most) == class);
            assert!(least == 0 || SizeClass::from_count(least - 1) < class);
            assert!(SizeClass::from_count(most + 1) > class);
        }
    }
    #[test]
    fn registration_without_users_is_unchanged_by_json() {
        let old = r#"{"name":"ward-7","lineage":"00000000-0000-0000-0000-000000000001","visibility":"private","inputs":13,"classes":40,"records":500,"speakers":50,"test_records":0}"#;
        let registration: DatasetRegistration = serde_json::from_str(old).expect("an older worker's words");
        assert_eq!(
            (registration.users, registration.units.clone(), registration.content),
            (None, usual_units(), DatasetContent::Speech)
        );
        assert_eq!(serde_json::to_string(&registration).expect("it has a JSON form"), old);
    }
}
