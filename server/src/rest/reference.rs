//! `/api/v1/reference`: the reference of REST as a page for people. The server renders it from the OpenAPI document,
//! with one style sheet, without scripts and external resources, so the browser's own search finds everything.

mod operation;
mod schema;
#[cfg(test)]
mod tests;
mod text;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use axum::Router;
use axum::http::header;
use axum::routing::get;
use serde_json::Value;

use self::operation::Operation;
use self::text::{escaped, paragraphs};

const STYLE: &str = include_str!("reference/style.css");
/// The page may load its own style sheet and nothing else.
const POLICY: &str =
    "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Returns the routes `/reference` and `/reference.css`.
pub(super) fn router(document: &Value) -> Router {
    let page = page(document);
    let html = [(header::CONTENT_TYPE, "text/html; charset=utf-8"), (header::CONTENT_SECURITY_POLICY, POLICY)];
    let css = [(header::CONTENT_TYPE, "text/css; charset=utf-8")];
    Router::new()
        .route(
            "/reference",
            get(move || {
                let html = html.clone();
                let page = page.clone();
                async move { (html, page) }
            }),
        )
        .route("/reference.css", get(move || std::future::ready((css.clone(), STYLE))))
}

/// Renders the page.
fn page(document: &Value) -> String {
    let mut groups: BTreeMap<&str, Vec<Operation<'_>>> = BTreeMap::new();
    for operation in operation::all(document) {
        groups.entry(operation.group()).or_default().push(operation);
    }
    let title = escaped(document["info"]["title"].as_str().unwrap_or_default());
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\"><meta name=\"color-scheme\" content=\"light dark\"><title>{title}: REST \
         reference</title><link rel=\"stylesheet\" href=\"/api/v1/reference.css\"></head><body><a class=\"skip\" \
         href=\"#main\">Skip to the text</a><nav aria-label=\"Contents\"><p class=\"brand\">{title} REST</p>"
    );
    for (group, operations) in &groups {
        let _ = write!(page, "<details open><summary>{}</summary><ul>", escaped(group));
        for operation in operations {
            operation.entry(&mut page);
        }
        page.push_str("</ul></details>");
    }
    page.push_str("<p><a href=\"#schemas\">Schemas</a></p></nav><main id=\"main\">");
    let _ = write!(page, "<h1>{title} REST reference</h1>");
    page.push_str(&paragraphs(document["info"]["description"].as_str().unwrap_or_default()));
    page.push_str(
        "<p>The same for programs: <a href=\"/api/v1/openapi.json\"><code>/api/v1/openapi.json</code></a>, OpenAPI 3.1.</p>",
    );
    for (group, operations) in &groups {
        let _ = write!(page, "<h2 id=\"group-{}\">{}</h2>", escaped(&group.replace(' ', "-")), escaped(group));
        for operation in operations {
            operation.section(&mut page);
        }
    }
    schema::all(document, &mut page);
    page.push_str("</main></body></html>\n");
    page
}
