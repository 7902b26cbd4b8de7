//! The console's log, for which WebDriver has no standard command.

use fantoccini::wd::WebDriverCompatibleCommand;
use serde_json::Value;

/// Chromium's command that reads and clears the console.
#[derive(Debug)]
pub(super) struct ReadConsole;

impl WebDriverCompatibleCommand for ReadConsole {
    fn endpoint(&self, base: &url::Url, session: Option<&str>) -> Result<url::Url, url::ParseError> {
        base.join(&format!("session/{}/se/log", session.unwrap_or_default()))
    }

    fn method_and_body(&self, _: &url::Url) -> (http::Method, Option<String>) {
        (http::Method::POST, Some(r#"{"type":"browser"}"#.to_owned()))
    }
}

/// Chromium's warning when a page was drawn some seconds after its font arrived: a sign of the machine's load, not a
/// defect of the page.
const SLOW: &str = "was preloaded using link preload but not used within a few seconds";

/// Returns the warnings and errors of a log, as text.
pub(super) fn complaints(log: &Value) -> Vec<String> {
    let entries = log.as_array().into_iter().flatten();
    let grave = entries.filter(|entry| matches!(entry["level"].as_str(), Some("SEVERE" | "WARNING")));
    let messages = grave.map(|entry| entry["message"].as_str().unwrap_or_default().to_owned());
    messages.filter(|message| !message.contains(SLOW)).collect()
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
            { "level": "WARNING", "message": format!("a font {SLOW}") },
        ]);
        assert_eq!(complaints(&log), ["gone", "odd"]);
    }
}
