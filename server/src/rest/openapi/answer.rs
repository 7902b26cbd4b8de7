//! Adds the common parts of all operations: error responses that follow from the method, the parameters and the body,
//! request and response headers, limits of parameters. `response` has the error responses that a handler declares.

use axum::http::Method;
use serde_json::{Map, Value, json};
use undertone_api::page::PageQuery;
use undertone_api::problem::{Code, Problem};

use super::response::{PROBLEM, component_name};
use crate::rest::once;

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// Completes every operation.
pub(super) fn add(document: &mut Value) {
    let mut responses = Map::new();
    for status in statuses_known() {
        responses.insert(component_name(status), problem(status));
    }
    document["components"]["responses"] = Value::Object(responses);
    let Some(paths) = document["paths"].as_object_mut() else { return };
    for (path, operations) in paths {
        for method in METHODS {
            if let Some(operation) = operations.get_mut(method) {
                complete(path, method, operation);
            }
        }
    }
}

fn complete(path: &str, method: &str, operation: &mut Value) {
    let known_caller = operation["security"] != json!([{}]);
    if let Some(parameters) = operation.get_mut("parameters").and_then(Value::as_array_mut) {
        parameters.iter_mut().for_each(tidy);
    }
    if known_caller && method == "post" && once::concerns(&Method::POST, path) {
        parameters(operation).push(json!({
            "name": "Idempotency-Key", "in": "header", "required": false,
            "description": "A key that makes the request repeatable: within 24 hours, a repetition with the same key has no effect and \
                            gets the same response. 1 to 255 visible ASCII characters, preferably a random UUID; a new one for each request.",
            "schema": { "type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$" },
        }));
    }
    let mut statuses = vec![429, 503];
    if method == "post" && once::tells_a_secret(path) {
        let description = operation["description"].as_str().map_or_else(String::new, |text| format!("{text}\n\n"));
        operation["description"] = json!(format!(
            "{description}The response is not stored: a request with an `Idempotency-Key` is refused with 400."
        ));
        statuses.push(400);
    }
    if known_caller {
        statuses.extend([401, 403]);
    }
    let has = |operation: &Value, place: &str| {
        operation["parameters"].as_array().is_some_and(|all| all.iter().any(|parameter| parameter["in"] == place))
    };
    if has(operation, "path") {
        statuses.push(404);
    }
    if has(operation, "query") {
        statuses.extend([400, 422]);
    }
    if operation["requestBody"].is_object() {
        statuses.extend([400, 413, 422]);
    }
    if method != "get" {
        statuses.push(409);
    }
    if operation["parameters"].as_array().is_some_and(|all| all.iter().any(|one| one["name"] == "If-Match")) {
        statuses.push(412);
    }
    succeed(method, operation);
    if method == "post" && has(operation, "header") {
        statuses.extend([409, 422]);
    }
    if let Some(responses) = operation["responses"].as_object_mut() {
        for status in statuses {
            let reference = json!({ "$ref": format!("#/components/responses/{}", component_name(status)) });
            responses.entry(status.to_string()).or_insert(reference);
        }
    }
}

/// Completes the successful responses.
fn succeed(method: &str, operation: &mut Value) {
    let Some(responses) = operation["responses"].as_object_mut() else { return };
    let mut read = false;
    for (status, response) in responses.iter_mut() {
        let description = match status.as_str() {
            "200" => "The request succeeded, with this result.",
            "201" => "The request created this.",
            "204" => "The request succeeded, without a body.",
            _ => continue,
        };
        if response["description"].as_str().is_none_or(str::is_empty) {
            response["description"] = json!(description);
        }
        if method == "get" && status == "200" && response["content"]["application/json"].is_object() {
            read = true;
            response["headers"]["ETag"] = json!({
                "description": "The version of the document, for `If-None-Match` and `If-Match`.",
                "schema": { "type": "string" },
            });
        }
    }
    if read {
        responses.insert(
            "304".to_owned(),
            json!({ "description": "The document still has the `ETag` of `If-None-Match`." }),
        );
        parameters(operation).push(json!({
            "name": "If-None-Match", "in": "header", "required": false,
            "description": "The `ETag` of the caller's copy. If it is current, the response has no body.",
            "schema": { "type": "string" },
        }));
    }
}

fn parameters(operation: &mut Value) -> &mut Vec<Value> {
    let place = &mut operation["parameters"];
    if !place.is_array() {
        *place = json!([]);
    }
    match place {
        Value::Array(parameters) => parameters,
        _ => unreachable!("it is an array now"),
    }
}

/// Makes an optional parameter non-nullable: it is omitted, never null. Adds the limits of page sizes.
fn tidy(parameter: &mut Value) {
    let name = parameter["name"].as_str().unwrap_or_default().to_owned();
    if parameter["in"] == "path" && parameter["description"].is_null() {
        parameter["description"] = json!(format!("The {}.", if name == "id" { "id" } else { &name }));
    }
    let schema = &mut parameter["schema"];
    if let Some(types) = schema["type"].as_array() {
        let remaining: Vec<Value> = types.iter().filter(|kind| *kind != "null").cloned().collect();
        schema["type"] = if let [one] = remaining.as_slice() { one.clone() } else { Value::Array(remaining) };
    }
    for variants in ["oneOf", "anyOf"] {
        let Some(all) = schema[variants].as_array() else { continue };
        let remaining: Vec<Value> = all.iter().filter(|variant| variant["type"] != "null").cloned().collect();
        if let [one] = remaining.as_slice() {
            *schema = one.clone();
            break;
        }
        schema[variants] = Value::Array(remaining);
    }
    if name == "limit" {
        schema["minimum"] = json!(1);
        schema["maximum"] = json!(PageQuery::MAX);
    }
}

fn statuses_known() -> Vec<u16> {
    let mut all: Vec<u16> = Code::ALL.iter().map(|code| code.http_status()).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Returns the response of a status: its problem codes, and one of them as an example.
fn problem(status: u16) -> Value {
    let codes: Vec<Code> = Code::ALL.iter().copied().filter(|code| code.http_status() == status).collect();
    let sentences: Vec<String> = codes.iter().map(|code| format!("`{}`: {}.", code.slug(), code.title())).collect();
    let example = codes.first().map(|code| Problem::new(*code, code.title()));
    let mut response = json!({
        "description": sentences.join(" "),
        "content": { PROBLEM: { "schema": { "$ref": "#/components/schemas/Problem" }, "example": example } },
    });
    if status == 429 || status == 503 {
        response["headers"]["Retry-After"] = json!({ "description": "Seconds after which the request may be repeated.", "schema": { "type": "integer" } });
    }
    response
}
