//! Text of the document as HTML: escaped, backticks as code, blank lines between paragraphs.

use std::fmt::Write as _;

use serde_json::Value;

/// Escapes all markup in a text.
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

/// Renders one line; text between backticks becomes code.
pub(super) fn line(text: &str) -> String {
    let mut html = String::new();
    for (index, part) in text.split('`').enumerate() {
        let part = escaped(part);
        let _ = if index % 2 == 1 { write!(html, "<code>{part}</code>") } else { write!(html, "{part}") };
    }
    html
}

/// Renders paragraphs.
pub(super) fn paragraphs(text: &str) -> String {
    let parts = text.split("\n\n").map(str::trim).filter(|part| !part.is_empty());
    parts.fold(String::new(), |html, part| html + "<p>" + &line(part) + "</p>")
}

/// Renders a value as code.
pub(super) fn code(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => serde_json::to_string_pretty(other).unwrap_or_default(),
    };
    format!("<pre><code>{}</code></pre>", escaped(&text))
}
