//! Text of the description as HTML: escaped, backticks as code, blank lines between paragraphs.

use std::fmt::Write as _;

use serde_json::Value;

/// A text in which nothing is markup.
pub(super) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

/// One line: what stands between backticks is code.
pub(super) fn line(text: &str) -> String {
    let mut html = String::new();
    for (index, part) in text.split('`').enumerate() {
        let part = escaped(part);
        let _ = if index % 2 == 1 { write!(html, "<code>{part}</code>") } else { write!(html, "{part}") };
    }
    html
}

/// Paragraphs.
pub(super) fn paragraphs(text: &str) -> String {
    let parts = text.split("\n\n").map(str::trim).filter(|part| !part.is_empty());
    parts.fold(String::new(), |html, part| html + "<p>" + &line(part) + "</p>")
}

/// A value as it is written.
pub(super) fn code(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => serde_json::to_string_pretty(other).unwrap_or_default(),
    };
    format!("<pre><code>{}</code></pre>", escaped(&text))
}
