//! Consortia: organizations that train together, and their declaration about people who may be in several of them.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use undertone_privacy::ledger::Overlap;

use crate::id::{ConsortiumId, OrganizationId};
use crate::problem::Violation;

/// A consortium.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Consortium {
    /// Id.
    pub id: ConsortiumId,
    /// Name, unique on the server.
    pub name: String,
    /// Its subject, one paragraph.
    pub description: String,
    /// Its organizations.
    pub organizations: Vec<OrganizationId>,
    /// In how many of them one person may be. The rule decides which total the consortium may state.
    #[serde(default)]
    pub overlap: OverlapRule,
    /// When it was founded.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: OffsetDateTime,
}

/// A consortium to be founded. Its founder becomes consortium admin. The founder's organization, named here or created
/// with the consortium, becomes its first member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewConsortium {
    /// Name: 1 to 100 characters.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 100))]
    pub name: String,
    /// Description: up to 1,000 characters.
    #[serde(default)]
    pub description: String,
    /// The founding organization, if it exists already.
    #[serde(default)]
    pub organization: Option<OrganizationId>,
    /// The name of the founding organization, if it is to be created: 1 to 100 characters.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 100))]
    pub organization_name: Option<String>,
}

/// Changes to a consortium. Absent fields stay as they are.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct EditConsortium {
    /// Name: 1 to 100 characters.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 100))]
    pub name: Option<String>,
    /// Description: up to 1,000 characters.
    #[serde(default)]
    pub description: Option<String>,
}

/// The cross-organization rule in force and its author. The default has no author: people may be in any number of
/// organizations.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct OverlapRule {
    /// In how many organizations' data one person may be.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::overlap))]
    pub overlap: Overlap,
    /// The grounds, in the author's words; empty for the default.
    pub statement: String,
    /// The author of the declaration; absent for the default.
    pub attested_by: Option<String>,
    /// When it was declared; absent for the default.
    #[serde(default, with = "time::serde::rfc3339::option")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub attested_at: Option<OffsetDateTime>,
}

/// A declaration about people who may be in several organizations. Every declaration is stored with its author and
/// time. It applies to later certificates and changes no earlier one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewOverlap {
    /// In how many organizations' data one person may be.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::overlap))]
    pub overlap: Overlap,
    /// The grounds: 10 to 1,000 characters, unless the declaration restores the default.
    #[serde(default)]
    pub statement: String,
}

impl NewOverlap {
    /// The fewest characters of a statement.
    pub const SHORTEST: usize = 10;
    /// The most characters of a statement.
    pub const LONGEST: usize = 1000;
    /// The most organizations that a declaration may name.
    pub const MOST: u32 = 1000;

    /// Returns every violation.
    pub fn check(&self) -> Vec<Violation> {
        let mut violations = Vec::new();
        let length = self.statement.trim().chars().count();
        if self.overlap != Overlap::default() && length < Self::SHORTEST {
            violations.push(Violation::new(
                "statement",
                format!(
                    "say in at least {} characters how it is known; this claim lowers what is promised",
                    Self::SHORTEST
                ),
            ));
        }
        if length > Self::LONGEST {
            violations
                .push(Violation::new("statement", format!("use up to {} characters, not {length}", Self::LONGEST)));
        }
        if let Overlap::Overlapping { at_most: Some(most) } = self.overlap {
            if most < 2 {
                violations.push(Violation::new("overlap", "at least 2; for 1 declare that people are disjoint"));
            } else if most > Self::MOST {
                violations.push(Violation::new("overlap", format!("at most {}", Self::MOST)));
            }
        }
        violations
    }
}

#[cfg(test)]
mod tests {
    use undertone_privacy::ledger::Overlap;

    use super::{NewOverlap, OverlapRule};

    fn fields(overlap: Overlap, statement: &str) -> Vec<String> {
        let new = NewOverlap { overlap, statement: statement.to_owned() };
        new.check().into_iter().map(|violation| violation.field).collect()
    }

    #[test]
    fn a_claim_needs_grounds_and_the_default_none() {
        assert_eq!(fields(Overlap::Disjoint, "so it is"), ["statement"]);
        assert_eq!(fields(Overlap::Disjoint, "different countries"), [""; 0]);
        assert_eq!(fields(Overlap::default(), ""), [""; 0]);
        assert_eq!(fields(Overlap::default(), &"x".repeat(1001)), ["statement"]);
    }

    #[test]
    fn overlap_bound_must_be_meaningful() {
        for (most, wrong) in [(0, true), (1, true), (2, false), (1000, false), (1001, true)] {
            let names = fields(Overlap::Overlapping { at_most: Some(most) }, "counted by the ministry");
            assert_eq!(names == ["overlap"], wrong, "{most}");
        }
    }

    #[test]
    fn consortium_without_declaration_adds_up() {
        let rule = OverlapRule::default();
        assert_eq!((rule.overlap.most(3), rule.attested_by), (3, None));
    }
}
