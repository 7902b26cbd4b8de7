//! Parsing of the forms about a job's state.

use time::{Duration, OffsetDateTime};
use undertone_api::job::{Job, JobState, NewApprovalLimit, NewDraft};
use undertone_api::problem::{Problem, Violation};
use undertone_privacy::Epsilon;

use crate::request::Answer;

/// Returns the notice after a hold has ended.
pub(in crate::call) fn goes_on(job: &Job) -> String {
    if job.summary.state == JobState::Paused {
        "Your hold has ended. The job stays paused: others hold it.".to_owned()
    } else {
        "The job goes on where it was; its workers are asked back.".to_owned()
    }
}

/// Parses a draft from a form.
pub(in crate::call) fn drafted(title: String, kind: String, spec: &str) -> Answer<NewDraft> {
    match serde_json::from_str(spec) {
        Ok(spec) => Ok(NewDraft { title, kind, spec }),
        Err(error) => Err(Problem::validation(vec![Violation::new("spec", format!("this is no JSON: {error}"))])),
    }
}

/// Parses an approval limit from a form, which always has a total: `days` from `now`.
pub(in crate::call) fn approval_limit(
    now: OffsetDateTime,
    epsilon: f64,
    total_epsilon: f64,
    days: i64,
    kinds: Vec<String>,
) -> Answer<NewApprovalLimit> {
    let read = |field: &str, value: f64| {
        Epsilon::new(value).map_err(|error| Problem::validation(vec![Violation::new(field, error.to_string())]))
    };
    let (epsilon, total_epsilon) = (read("epsilon", epsilon)?, Some(read("total_epsilon", total_epsilon)?));
    let until = now.saturating_add(Duration::days(days.clamp(0, 100_000)));
    Ok(NewApprovalLimit { epsilon, total_epsilon, kinds, until })
}

#[cfg(test)]
mod tests {
    use time::OffsetDateTime;

    use super::{approval_limit, drafted};

    #[test]
    fn a_spec_that_is_no_json_says_where() {
        let problem = drafted(String::new(), "dp_sgd".to_owned(), "{\"unit\":").expect_err("it is cut off");
        assert!(
            problem.violations[0].field == "spec" && problem.violations[0].message.contains("line 1"),
            "{problem:?}"
        );
    }

    #[test]
    fn a_limit_that_is_no_number_is_refused_by_name() {
        for (epsilon, total, field) in [(-1.0, 2.0, "epsilon"), (0.5, f64::NAN, "total_epsilon")] {
            let read = approval_limit(OffsetDateTime::UNIX_EPOCH, epsilon, total, 30, Vec::new());
            assert_eq!(read.expect_err("less than nothing").violations[0].field, field);
        }
    }
}
