//! Drafts: jobs in preparation. No approval is requested for a draft, nothing of it is signed, and it may be
//! incomplete; it is returned with its remaining violations. Proposing it turns it into a job.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::Spec;
use crate::id::{ConsortiumId, DraftId, JobId, OrganizationId};
use crate::problem::Violation;

/// The longest spec of a draft as JSON, bytes.
pub const LONGEST_SPEC: usize = 256 * 1024;

/// The content of a draft.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewDraft {
    /// Title: at most 100 characters; may be empty.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 100, example = "Elderly speakers, second try"))]
    pub title: String,
    /// The job's kind; see the specs of jobs.
    #[cfg_attr(feature = "openapi", schema(example = "dp_sgd"))]
    pub kind: String,
    /// The job's spec, possibly incomplete: a JSON object of at most 256 KiB.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub spec: serde_json::Value,
}

impl NewDraft {
    /// Makes a draft of an existing job.
    ///
    /// # Errors
    /// If the spec has no JSON form.
    pub fn from_spec(title: &str, spec: &Spec) -> Result<Self, serde_json::Error> {
        let whole = serde_json::to_value(spec)?;
        Ok(Self { title: title.to_owned(), kind: spec.kind().to_owned(), spec: whole["spec"].clone() })
    }

    /// Returns the violations of a draft: its form only.
    pub fn check(&self) -> Vec<Violation> {
        let mut violations = Vec::new();
        if self.title.trim().chars().count() > 100 {
            violations.push(Violation::new("title", "at most 100 characters"));
        }
        if !Spec::KINDS.contains(&self.kind.as_str()) {
            violations.push(Violation::new("kind", format!("use one of {}", Spec::KINDS.join(", "))));
        }
        if !self.spec.is_object() {
            violations.push(Violation::new("spec", "give a JSON object; it may be incomplete, even empty: {}"));
        }
        if self.spec.to_string().len() > LONGEST_SPEC {
            violations.push(Violation::new("spec", "at most 256 KiB as JSON"));
        }
        violations
    }

    /// Returns the spec, if it is complete.
    ///
    /// # Errors
    /// The missing or malformed part, as a violation.
    pub fn parsed(&self) -> Result<Spec, Violation> {
        let whole = serde_json::json!({ "kind": self.kind, "spec": self.spec });
        serde_json::from_value(whole).map_err(|error| Violation::new("spec", format!("it is not complete: {error}")))
    }
}

/// A draft.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Draft))]
pub struct JobDraft {
    /// Id.
    pub id: DraftId,
    /// The consortium to which it would be proposed.
    pub consortium: ConsortiumId,
    /// The organization whose researchers may see, change, propose and delete it.
    pub organization: OrganizationId,
    /// The content.
    #[serde(flatten)]
    pub content: NewDraft,
    /// The member who created it.
    pub author: String,
    /// The job from which it was cloned.
    #[serde(default)]
    pub cloned_from: Option<JobId>,
    /// The version, counted from 1. A change states the version that it changes.
    pub version: u64,
    /// The violations that prevent its proposal now; empty if there are none.
    pub violations: Vec<Violation>,
    /// When it was created.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: OffsetDateTime,
    /// When it was last changed.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub updated_at: OffsetDateTime,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{LONGEST_SPEC, NewDraft};

    fn draft(kind: &str, spec: Value) -> NewDraft {
        NewDraft { title: String::new(), kind: kind.to_owned(), spec }
    }

    #[test]
    fn a_draft_may_be_empty_but_not_of_no_kind_nor_without_form() {
        assert_eq!(draft("dp_sgd", json!({})).check(), []);
        let fields = |draft: NewDraft| draft.check().into_iter().map(|violation| violation.field).collect::<Vec<_>>();
        assert_eq!(fields(draft("spelling", json!([]))), ["kind", "spec"]);
        assert_eq!(fields(draft("dp_sgd", json!({ "x": "y".repeat(LONGEST_SPEC) }))), ["spec"]);
        assert_eq!(fields(NewDraft { title: "x".repeat(101), ..draft("dp_sgd", json!({})) }), ["title"]);
    }

    #[test]
    fn missing_parts_of_a_draft_are_reported() {
        let lacks = draft("dp_sgd", json!({})).parsed().expect_err("nothing is there");
        assert!(lacks.field == "spec" && lacks.message.contains("missing field"), "{}", lacks.message);
    }
}
