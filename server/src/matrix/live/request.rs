//! Builds requests from the OpenAPI document: addresses with existing ids, and bodies that match the schema.

use axum::body::Body;
use axum::http::{Request, header};
use serde_json::{Map, Value, json};
use undertone_api::plan::NewPlan;
use uuid::Uuid;

use super::scene::TestScene;
use crate::matrix::MatrixRow;
use crate::rest::openapi;

/// The greatest depth of a sample; optional fields are omitted, so only a malformed schema reaches it.
const DEEPEST: usize = 24;

/// A builder of requests.
pub(super) struct RequestBuilder(Value);

impl RequestBuilder {
    /// Uses the document as it is served.
    pub(super) fn new() -> Self {
        Self(serde_json::to_value(openapi::document()).expect("JSON"))
    }

    /// Builds the request of a row.
    pub(super) fn build(&self, row: &MatrixRow, scene: &TestScene, token: Option<&str>) -> Request<Body> {
        let (method, path) = row.route().split_once(' ').expect("a method and an address");
        let operation = &self.0["paths"][path][method.to_lowercase()];
        let mut request =
            Request::builder().method(method).uri(format!("/api/v1{}{}", filled(path, scene), self.query(operation)));
        if let Some(token) = token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let Some((kind, content)) =
            operation["requestBody"]["content"].as_object().and_then(|kinds| kinds.iter().next())
        else {
            return request.body(Body::empty()).expect("a request");
        };
        let text = match by_hand(row, scene) {
            Some(body) => body.to_string(),
            None if kind.contains("json") && !kind.contains("ndjson") => self.sample(&content["schema"], 0).to_string(),
            None => "\n".to_owned(),
        };
        request.header(header::CONTENT_TYPE, kind).body(Body::from(text)).expect("a request")
    }

    /// Returns the required query parameters.
    fn query(&self, operation: &Value) -> String {
        let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
        let required =
            parameters.iter().filter(|parameter| parameter["in"] == "query" && parameter["required"] == true);
        let pairs: Vec<String> = required
            .map(|parameter| {
                let value = self.sample(&parameter["schema"], 0);
                format!(
                    "{}={}",
                    parameter["name"].as_str().unwrap_or_default(),
                    value.as_str().map_or(value.to_string(), str::to_owned)
                )
            })
            .collect();
        if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
    }

    /// Returns a value of a schema with the required fields only.
    fn sample(&self, schema: &Value, depth: usize) -> Value {
        assert!(depth < DEEPEST, "a schema without an end: {schema}");
        let sample = |schema| self.sample(schema, depth + 1);
        if let Some(name) = schema["$ref"].as_str().and_then(|to| to.rsplit('/').next()) {
            return sample(&self.0["components"]["schemas"][name]);
        }
        if let Some(first) = schema["enum"].as_array().and_then(|values| values.first()) {
            return first.clone();
        }
        if let Some(parts) = schema["allOf"].as_array() {
            let all = parts.iter().map(sample).filter_map(|part| part.as_object().cloned());
            return Value::Object(all.flatten().collect());
        }
        for choice in ["oneOf", "anyOf"] {
            if let Some(first) = schema[choice].as_array().and_then(|all| all.iter().find(|one| one["type"] != "null"))
            {
                return sample(first);
            }
        }
        let kind = schema["type"].as_str().or_else(|| schema["type"].as_array()?.iter().find_map(Value::as_str));
        match kind {
            Some("object") => {
                let required = schema["required"].as_array().cloned().unwrap_or_default();
                let names = required.iter().filter_map(Value::as_str);
                names.map(|name| (name.to_owned(), sample(&schema["properties"][name]))).collect::<Map<_, _>>().into()
            }
            Some("array") if schema["minItems"].as_u64().unwrap_or(0) > 0 => json!([sample(&schema["items"])]),
            Some("array") => json!([]),
            Some("integer") => schema["minimum"].as_i64().unwrap_or(1).into(),
            Some("number") => json!(0.5),
            Some("boolean") => json!(true),
            Some("string") => match schema["format"].as_str() {
                Some("uuid") => json!(Uuid::nil()),
                Some("date-time") => json!("2026-11-20T12:00:00Z"),
                _ => schema["const"].as_str().map_or_else(|| json!("a text"), Into::into),
            },
            _ => json!({}),
        }
    }
}

/// Returns the bodies that must refer to objects of the scene.
fn by_hand(row: &MatrixRow, scene: &TestScene) -> Option<Value> {
    Some(match (row.route(), row.word()) {
        ("POST /invitations", Some("organization")) => {
            json!({ "purpose": "organization", "consortium": scene.consortium, "label": "x" })
        }
        ("POST /invitations", Some("annotator")) => {
            json!({ "purpose": "annotator", "consortium": scene.consortium, "label": "x" })
        }
        ("POST /invitations", Some("member")) => {
            json!({ "purpose": "member", "organization": scene.organization, "roles": ["researcher"], "label": "x" })
        }
        ("POST /invitations", Some("operator")) => json!({ "purpose": "operator", "label": "x" }),
        ("POST /me/passkeys/challenge", word) => json!({ "purpose": word }),
        // A missing reason is refused after the policy check: the other requests still need the organization.
        ("POST /consortia/{id}/organizations/{organization}/retirement", _) => json!({ "reason": "" }),
        ("PUT /datasets/{id}/budgets", _) => json!({ "unit": "speaker", "epsilon": 8.0, "delta": 1e-6 }),
        ("POST /plans", _) => value(&NewPlan { consortium: scene.consortium, job: scene.new_job.clone() }),
        ("POST /consortia/{id}/jobs", _) => value(&scene.new_job),
        ("POST /consortia/{id}/jobs/again", _) => value(&scene.report),
        _ => return None,
    })
}

/// Fills an address with the ids of the scene; `nil` for parameters without an object.
fn filled(path: &str, scene: &TestScene) -> String {
    let mut before = "";
    let parts = path.split('/').map(|part| {
        let filled = if part.starts_with('{') {
            match before {
                "consortia" => scene.consortium.to_string(),
                "organizations" => scene.organization.to_string(),
                "datasets" => scene.dataset.to_string(),
                "accounts" => scene.account.to_string(),
                "entries" => "1".to_owned(),
                "jobs" => scene.job.to_string(),
                "questions" => scene.question.to_string(),
                "artifacts" => scene.artifact.to_string(),
                "drafts" => scene.draft.to_string(),
                // Not `{token}`: the bearer of a link needs no authentication.
                "invitations" if part == "{invitation}" => {
                    let link = match path.split('/').nth(1) {
                        Some("consortia") => scene.link_over,
                        Some("operators") => scene.link_operator,
                        _ => scene.link_into,
                    };
                    link.to_string()
                }
                _ => Uuid::nil().to_string(),
            }
        } else {
            part.to_owned()
        };
        before = part;
        filled
    });
    parts.collect::<Vec<_>>().join("/")
}

fn value(body: &impl serde::Serialize) -> Value {
    serde_json::to_value(body).expect("JSON")
}
