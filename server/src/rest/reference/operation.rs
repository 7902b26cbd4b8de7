//! Operations on the reference page: parameters, bodies, responses, and a command to try each.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::schema;
use super::text::{code, escaped, line, paragraphs};

/// One operation of the document.
pub(super) struct Operation<'a> {
    path: &'a str,
    method: &'a str,
    definition: &'a Value,
    document: &'a Value,
}

/// Returns every operation, in the order of the addresses.
pub(super) fn all(document: &Value) -> Vec<Operation<'_>> {
    let Some(paths) = document["paths"].as_object() else { return Vec::new() };
    paths
        .iter()
        .flat_map(|(path, methods)| {
            methods.as_object().into_iter().flatten().map(move |(method, operation)| (path, method, operation))
        })
        .map(|(path, method, definition)| Operation { path, method, definition, document })
        .collect()
}

impl<'a> Operation<'a> {
    /// Returns the group of the operation.
    pub(super) fn group(&self) -> &'a str {
        self.definition["tags"][0].as_str().unwrap_or("others")
    }

    fn id(&self) -> &'a str {
        self.definition["operationId"].as_str().unwrap_or_default()
    }

    /// Writes its line in the contents.
    pub(super) fn entry(&self, page: &mut String) {
        let summary = line(self.definition["summary"].as_str().unwrap_or_default());
        let _ = write!(page, "<li><a href=\"#{}\">{summary}</a></li>", escaped(self.id()));
    }

    /// Writes its section.
    pub(super) fn section(&self, page: &mut String) {
        let id = escaped(self.id());
        let path = escaped(self.path);
        let method = self.method.to_uppercase();
        let _ = write!(
            page,
            "<section id=\"{id}\"><h3>{}</h3><p class=\"address\"><span class=\"method\">{method}</span> <code>/api/v1{path}</code> \
             <small>{id}</small></p>",
            line(self.definition["summary"].as_str().unwrap_or_default())
        );
        page.push_str(&paragraphs(self.definition["description"].as_str().unwrap_or_default()));
        self.parameters(page);
        if let Some(content) = self.definition["requestBody"]["content"].as_object() {
            page.push_str("<h4>Body</h4>");
            bodies(content, page);
        }
        page.push_str("<h4>Try it</h4>");
        page.push_str(&code(&json!(self.curl())));
        self.answers(page);
        page.push_str("</section>");
    }

    fn parameters(&self, page: &mut String) {
        let Some(parameters) = self.definition["parameters"].as_array().filter(|all| !all.is_empty()) else { return };
        page.push_str("<h4>Parameters</h4><table><thead><tr><th scope=\"col\">Name</th><th scope=\"col\">In</th><th scope=\"col\">Type</th><th scope=\"col\">Meaning</th></tr></thead><tbody>");
        for parameter in parameters {
            let _ = write!(
                page,
                "<tr><th scope=\"row\"><code>{}</code></th><td>{}</td><td>{}</td><td>{}</td></tr>",
                escaped(parameter["name"].as_str().unwrap_or_default()),
                escaped(parameter["in"].as_str().unwrap_or_default()),
                schema::describe_type(&parameter["schema"]),
                line(parameter["description"].as_str().unwrap_or_default())
            );
        }
        page.push_str("</tbody></table>");
    }

    fn answers(&self, page: &mut String) {
        let Some(responses) = self.definition["responses"].as_object() else { return };
        page.push_str("<h4>Answers</h4>");
        let (good, bad): (Vec<_>, Vec<_>) = responses.iter().partition(|(status, _)| status.starts_with(['2', '3']));
        for (status, response) in good {
            let description = line(response["description"].as_str().unwrap_or_default());
            let _ = write!(page, "<p><strong>{}</strong> {description}</p>", escaped(status));
            if let Some(content) = response["content"].as_object() {
                bodies(content, page);
            }
        }
        page.push_str("<details><summary>How it can fail</summary><dl>");
        for (status, response) in bad {
            let referenced = response["$ref"].as_str().and_then(|to| self.document.pointer(to.trim_start_matches('#')));
            let description = referenced.unwrap_or(response)["description"].as_str().unwrap_or_default();
            let _ = write!(page, "<dt>{}</dt><dd>{}</dd>", escaped(status), line(description));
        }
        page.push_str("</dl></details>");
    }

    /// Returns a command for a terminal. `$UNDERTONE` is the server's address, `$KEY` an API key.
    fn curl(&self) -> String {
        let method = self.method.to_uppercase();
        let mut line =
            format!("curl -X {method} \"$UNDERTONE/api/v1{}\"", self.path.replace('{', "$").replace('}', ""));
        if self.definition["security"] != json!([{}]) {
            line.push_str(" \\\n  -H \"Authorization: Bearer $KEY\"");
        }
        if let Some((kind, media)) =
            self.definition["requestBody"]["content"].as_object().and_then(|all| all.iter().next())
        {
            let body = match &media["example"] {
                Value::String(text) => text.clone(),
                example => example.to_string(),
            };
            let _ = write!(line, " \\\n  -H \"Content-Type: {kind}\" \\\n  --data '{}'", body.replace('\'', "'\\''"));
        }
        line
    }
}

/// Writes the media types of a body, each with its example.
fn bodies(content: &serde_json::Map<String, Value>, page: &mut String) {
    for (kind, media) in content {
        let _ = write!(page, "<p><code>{}</code>: {}</p>", escaped(kind), schema::describe_type(&media["schema"]));
        if let Some(example) = media.get("example") {
            page.push_str("<details><summary>Example</summary>");
            page.push_str(&code(example));
            page.push_str("</details>");
        }
    }
}
