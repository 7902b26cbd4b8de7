//! The console's log, which WebDriver has no standard word for.

use fantoccini::wd::WebDriverCompatibleCommand;
use serde_json::Value;

/// Chromium's command that reads the console and empties it.
#[derive(Debug)]
pub(super) struct Read;

impl WebDriverCompatibleCommand for Read {
    fn endpoint(&self, base: &url::Url, session: Option<&str>) -> Result<url::Url, url::ParseError> {
        base.join(&format!("session/{}/se/log", session.unwrap_or_default()))
    }

    fn method_and_body(&self, _: &url::Url) -> (http::Method, Option<String>) {
        (http::Method::POST, Some(r#"{"type":"browser"}"#.to_owned()))
    }
}

/// The warnings and errors of a log, as text.
pub(super) fn complaints(log: &Value) -> Vec<String> {
    let entries = log.as_array().into_iter().flatten();
    let grave = entries.filter(|entry| matches!(entry["level"].as_str(), Some("SEVERE" | "WARNING")));
    grave.map(|entry| entry["message"].as_str().unwrap_or_default().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_warnings_and_errors_are_complaints() {
        let log = serde_json::json!([
            { "level": "INFO", "message": "hello" },
            { "level": "SEVERE", "message": "gone" },
            { "level": "WARNING", "message": "odd" },
        ]);
        assert_eq!(complaints(&log), ["gone", "odd"]);
    }
}
