//! The results of the checks, as lines and as JSON.

use std::fmt;

use serde::Serialize;

/// The state of one checked item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckState {
    /// No action is needed.
    Ok,
    /// The server works, but an operator should act.
    Warn,
    /// The server does not work, or not safely.
    Fail,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckResult {
    /// The checked part, a word or two.
    pub check: &'static str,
    /// The state.
    pub state: CheckState,
    /// The fact behind the state.
    pub detail: String,
    /// The remedy of a fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// The results so far, in the order of the checks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Examination {
    results: Vec<CheckResult>,
}

impl Examination {
    pub(super) fn pass(&mut self, check: &'static str, detail: impl Into<String>) {
        self.results.push(CheckResult { check, state: CheckState::Ok, detail: detail.into(), remedy: None });
    }

    pub(super) fn warn(&mut self, check: &'static str, detail: impl Into<String>, remedy: impl Into<String>) {
        self.add(check, CheckState::Warn, detail.into(), remedy.into());
    }

    pub(super) fn fail(&mut self, check: &'static str, detail: impl Into<String>, remedy: impl Into<String>) {
        self.add(check, CheckState::Fail, detail.into(), remedy.into());
    }

    fn add(&mut self, check: &'static str, state: CheckState, detail: String, remedy: String) {
        self.results.push(CheckResult { check, state, detail, remedy: Some(remedy) });
    }

    /// Returns the results in the order of the checks.
    pub fn results(&self) -> &[CheckResult] {
        &self.results
    }

    /// Returns whether the server works, that is, no check failed.
    pub fn holds(&self) -> bool {
        self.count(CheckState::Fail) == 0
    }

    fn count(&self, state: CheckState) -> usize {
        self.results.iter().filter(|result| result.state == state).count()
    }

    /// Returns the results as one JSON object: `ok`, `warn` and `fail` with their counts, and `checks`.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "ok": self.count(CheckState::Ok),
            "warn": self.count(CheckState::Warn),
            "fail": self.count(CheckState::Fail),
            "checks": self.results,
        })
    }
}

impl fmt::Display for Examination {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.results.iter().map(|result| result.check.len()).max().unwrap_or(0);
        for CheckResult { check, state, detail, remedy } in &self.results {
            let word = match state {
                CheckState::Ok => "ok  ",
                CheckState::Warn => "warn",
                CheckState::Fail => "FAIL",
            };
            writeln!(formatter, "{word}  {check:width$}  {}", detail.replace('\n', "; "))?;
            if let Some(remedy) = remedy {
                writeln!(formatter, "      {:width$}  -> {remedy}", "")?;
            }
        }
        let warn = self.count(CheckState::Warn);
        let fail = self.count(CheckState::Fail);
        write!(formatter, "{} ok, {warn} warnings, {fail} failed", self.count(CheckState::Ok))
    }
}

#[cfg(test)]
mod tests {
    use super::Examination;

    #[test]
    fn report_lists_remedies_and_counts() {
        let mut report = Examination::default();
        report.pass("database", "answers");
        assert!(report.holds());
        report.warn("disk", "3 GiB free", "make room");
        assert!(report.holds(), "a warning is no failure");
        report.fail("keys", "signing.key is\nmissing", "restore it");
        assert!(!report.holds());
        let text = report.to_string();
        assert_eq!(
            text,
            "ok    database  answers\nwarn  disk      3 GiB free\n                -> make room\nFAIL  keys      signing.key is; missing\n                -> restore it\n1 ok, 1 warnings, 1 failed"
        );
        let json = report.to_json();
        assert_eq!((json["ok"].as_u64(), json["warn"].as_u64(), json["fail"].as_u64()), (Some(1), Some(1), Some(1)));
        assert_eq!(json["checks"][2]["state"], "fail");
        assert_eq!(json["checks"][2]["remedy"], "restore it");
        assert!(json["checks"][0].get("remedy").is_none());
    }
}
