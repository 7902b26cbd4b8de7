//! Parsing of posted forms into the types of operations.

mod life;
mod passkey;

use undertone_api::budget::NewBudget;
use undertone_api::job::PartyTerms;
use undertone_api::problem::{Problem, Violation};
use undertone_api::question::ImportResult;
use undertone_api::signed::{ApprovalKey, SignedApproval};
use undertone_privacy::ledger::{FilterKind, Overlap};
use undertone_privacy::{Delta, Epsilon, PrivacyUnit};

use crate::request::Answer;

pub(super) use life::{approval_limit, drafted, goes_on};
pub(super) use passkey::{passkey_answer, passkey_ceremony, passkey_proof};

/// Parses a cross-organization rule from a form.
pub(in crate::call) fn overlap(choice: &str, most: u32) -> Answer<Overlap> {
    match choice {
        "disjoint" => Ok(Overlap::Disjoint),
        "everywhere" => Ok(Overlap::default()),
        "some" => Ok(Overlap::Overlapping { at_most: Some(most) }),
        _ => Err(Problem::validation(vec![Violation::new("overlap", "use `everywhere`, `some` or `disjoint`")])),
    }
}

/// Parses a budget from a form; an empty filter is that of the account.
pub(in crate::call) fn budget(unit: PrivacyUnit, (epsilon, delta): (f64, f64), filter: &str) -> Answer<NewBudget> {
    let mut violations = Vec::new();
    let filter = match [FilterKind::Renyi, FilterKind::Gaussian].into_iter().find(|known| known.word() == filter) {
        None if !filter.is_empty() => {
            violations.push(Violation::new("filter", format!("use `renyi` or `gaussian`, not `{filter}`")));
            None
        }
        filter => filter,
    };
    let parsed = (
        Epsilon::new(epsilon).map_err(|error| violations.push(Violation::new("epsilon", error.to_string()))),
        Delta::new(delta).map_err(|error| violations.push(Violation::new("delta", error.to_string()))),
    );
    match parsed {
        (Ok(epsilon), Ok(delta)) if violations.is_empty() => Ok(NewBudget { unit, epsilon, delta, filter }),
        _ => Err(Problem::validation(violations)),
    }
}

/// Parses an approval key from a form: a key file's line, or a browser's data of a new passkey.
pub(in crate::call) fn approval_key(
    line: &str,
    (algorithm, public_key): (i64, &str),
    credential: &str,
    origin: &str,
) -> Answer<ApprovalKey> {
    let (field, key) = if line.trim().is_empty() {
        ("public_key", ApprovalKey::from_browser(algorithm, public_key, credential, origin))
    } else {
        ("line", ApprovalKey::parse_line(line))
    };
    key.map_err(|error| Problem::validation(vec![Violation::new(field, error.to_string())]))
}

/// Parses a signed approval from a form; `None` for an empty field.
pub(in crate::call) fn signed_approval(text: &str) -> Answer<Option<SignedApproval>> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    let wrong = |_| {
        let message = "paste the whole line that `undertone-worker steward-key sign` has printed";
        Problem::validation(vec![Violation::new("signature", message)])
    };
    serde_json::from_str(text.trim()).map(Some).map_err(wrong)
}

/// Parses the answer to open terms in a form: JSON that the page wrote, or nothing.
pub(in crate::call) fn party_terms(text: &str) -> Answer<Option<PartyTerms>> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    let wrong = |_| {
        let message = "the answer to the open terms cannot be read: set them again on the review page";
        Problem::validation(vec![Violation::new("terms", message)])
    };
    serde_json::from_str(text.trim()).map(Some).map_err(wrong)
}

/// Describes the result of an import of labels.
pub(in crate::call) fn imported(imported: &ImportResult) -> String {
    let mut omissions = Vec::new();
    for (count, why) in [
        (imported.unknown_texts, "of texts that are not asked"),
        (imported.unknown_labels, "with labels that the job does not have"),
        (imported.too_late, "of questions that you have answered or that are closed"),
    ] {
        if count > 0 {
            omissions.push(format!("{} {why}", crate::words::count(count)));
        }
    }
    let summary = format!("{} taken.", crate::words::plural(imported.taken, "label"));
    if omissions.is_empty() { summary } else { format!("{summary} Left out: {}.", omissions.join(", ")) }
}

#[cfg(test)]
mod tests {
    use undertone_privacy::PrivacyUnit;
    use undertone_privacy::ledger::FilterKind;

    use super::budget;

    #[test]
    fn budget_out_of_range_names_every_field() {
        let problem = budget(PrivacyUnit::Speaker, (-1.0, 2.0), "zcdp").expect_err("all are out of range");
        let fields: Vec<_> = problem.violations.iter().map(|violation| violation.field.as_str()).collect();
        assert_eq!(fields, ["filter", "epsilon", "delta"]);
        assert!(problem.violations[0].message.contains("use `renyi` or `gaussian`, not `zcdp`"));
        let parsed = |filter| budget(PrivacyUnit::Speaker, (4.0, 1e-6), filter).expect("a budget").filter;
        assert_eq!((parsed(""), parsed("gaussian")), (None, Some(FilterKind::Gaussian)));
    }
}
