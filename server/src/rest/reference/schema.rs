//! Schemas on the reference page: their fields, words and limits, with links to other schemas.

use std::fmt::Write as _;

use serde_json::Value;

use super::text::{escaped, line, paragraphs};

/// Writes every schema, by name.
pub(super) fn all(document: &Value, page: &mut String) {
    page.push_str("<h2 id=\"schemas\">Schemas</h2>");
    let Some(schemas) = document["components"]["schemas"].as_object() else { return };
    for (name, schema) in schemas {
        let _ = write!(page, "<section id=\"schema-{0}\"><h3>{0}</h3>", escaped(name));
        page.push_str(&paragraphs(schema["description"].as_str().unwrap_or_default()));
        body(schema, page);
        page.push_str("</section>");
    }
}

/// Writes the content of a schema.
fn body(schema: &Value, page: &mut String) {
    if schema["properties"].is_object() {
        fields(schema, page);
    }
    for (key, phrase) in [("oneOf", "One of"), ("anyOf", "Any of"), ("allOf", "All of")] {
        let Some(parts) = schema[key].as_array() else { continue };
        let _ = write!(page, "<p>{phrase}:</p><ul>");
        for part in parts {
            let _ =
                write!(page, "<li>{} {}", describe_type(part), line(part["description"].as_str().unwrap_or_default()));
            if part["properties"].is_object() {
                fields(part, page);
            }
            page.push_str("</li>");
        }
        page.push_str("</ul>");
    }
    if schema["properties"].is_null() && ["oneOf", "anyOf", "allOf"].iter().all(|key| schema[*key].is_null()) {
        let _ = write!(page, "<p>{}</p>", describe_type(schema));
    }
}

fn fields(schema: &Value, page: &mut String) {
    let Some(properties) = schema["properties"].as_object() else { return };
    let needed = schema["required"].as_array();
    page.push_str("<table><thead><tr><th scope=\"col\">Field</th><th scope=\"col\">Type</th><th scope=\"col\">Meaning</th></tr></thead><tbody>");
    for (name, field) in properties {
        let optional =
            if needed.is_some_and(|all| all.iter().any(|one| one == name)) { "" } else { " <small>optional</small>" };
        let _ = write!(
            page,
            "<tr><th scope=\"row\"><code>{}</code>{optional}</th><td>{}</td><td>{}</td></tr>",
            escaped(name),
            describe_type(field),
            line(field["description"].as_str().unwrap_or_default())
        );
    }
    page.push_str("</tbody></table>");
}

/// Returns a short description of a type, with links.
pub(super) fn describe_type(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|to| to.rsplit('/').next()) {
        return format!("<a href=\"#schema-{0}\">{0}</a>", escaped(name));
    }
    if let Some(words) = schema["enum"].as_array() {
        let words: Vec<String> = words.iter().map(|word| format!("<code>{}</code>", escaped(&plain(word)))).collect();
        return words.join(" | ");
    }
    for key in ["oneOf", "anyOf"] {
        if let Some(parts) = schema[key].as_array() {
            return parts.iter().map(describe_type).collect::<Vec<_>>().join(" | ");
        }
    }
    if let Some(parts) = schema["allOf"].as_array() {
        return parts.iter().map(describe_type).collect::<Vec<_>>().join(" &amp; ");
    }
    let kinds = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().map(plain).collect::<Vec<_>>().join(" | "),
        Value::Null => "object".to_owned(),
        kind => plain(kind),
    };
    let mut text =
        if kinds.contains("array") { format!("list of {}", describe_type(&schema["items"])) } else { escaped(&kinds) };
    if let Some(format) = schema["format"].as_str() {
        let _ = write!(text, " <small>{}</small>", escaped(format));
    }
    let limits: Vec<String> =
        [("minimum", "from"), ("maximum", "to"), ("minLength", "at least"), ("maxLength", "at most")]
            .iter()
            .filter(|(key, _)| schema[*key].is_number())
            .map(|(key, text)| format!("{text} {}", schema[*key]))
            .collect();
    if !limits.is_empty() {
        let _ = write!(text, " <small>{}</small>", limits.join(" "));
    }
    text
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
