//! Tests that the document is complete and matches the server: its examples are sent unchanged.

use std::collections::BTreeSet;

use axum::http::{Method, StatusCode, header};
use boon::{Compiler, Schemas};
use serde_json::Value;

use super::described;
use crate::testing::on_both;

const AT: &str = "https://undertone.example/openapi.json";

/// Returns every operation: its address, its method, its description.
fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let paths = document["paths"].as_object().expect("paths");
    let all = paths.iter().flat_map(|(path, methods)| {
        let methods = methods.as_object().expect("methods").iter();
        methods.map(move |(method, operation)| (path.clone(), method.clone(), operation.clone()))
    });
    all.collect()
}

#[test]
fn operation_ids_are_unique_verb_phrases() {
    let mut ids = BTreeSet::new();
    for (path, method, operation) in operations(&described()) {
        let id = operation["operationId"].as_str().expect("an id").to_owned();
        let plain = id.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        assert!(plain && id.contains('_'), "{method} {path} is called {id}: use a verb and a noun");
        assert!(ids.insert(id.clone()), "{id} is the name of two operations");
    }
}

#[test]
fn every_operation_describes_its_responses() {
    for (path, method, operation) in operations(&described()) {
        let responses = operation["responses"].as_object().expect("responses");
        assert!(responses.keys().any(|status| status.starts_with('2')), "{method} {path}");
        assert!(responses.contains_key("429") && responses.contains_key("503"), "{method} {path}");
        for (status, response) in responses {
            let is_described = response["description"].is_string() || response["$ref"].is_string();
            assert!(is_described, "{method} {path} does not describe {status}");
        }
        if operation["security"] != serde_json::json!([{}]) {
            assert!(responses.contains_key("401") && responses.contains_key("403"), "{method} {path}");
        }
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            assert!(parameter["description"].is_string(), "{method} {path}: {}", parameter["name"]);
        }
    }
}

#[test]
fn every_reference_resolves() {
    fn look(document: &Value, value: &Value, broken: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                if let Some(to) = fields.get("$ref").and_then(Value::as_str)
                    && document.pointer(to.trim_start_matches('#')).is_none()
                {
                    broken.push(to.to_owned());
                }
                fields.values().for_each(|field| look(document, field, broken));
            }
            Value::Array(items) => items.iter().for_each(|item| look(document, item, broken)),
            _ => {}
        }
    }
    let document = described();
    let mut broken = Vec::new();
    look(&document, &document, &mut broken);
    assert_eq!(broken, [""; 0]);
    // Two types with one name would replace each other.
    assert_eq!(document["components"]["schemas"]["InvitationPurpose"]["oneOf"].as_array().map(Vec::len), Some(4));
}

/// Names of fields whose values are shown once.
const SHOWN_ONCE: [&str; 7] = ["link", "token", "secret", "codes", "half_token", "access_token", "refresh_token"];

/// Collects the names of all fields in a schema and in the schemas to which it refers.
fn fields(document: &Value, schema: &Value, seen: &mut BTreeSet<String>, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(parts) => {
            if let Some(to) = parts.get("$ref").and_then(Value::as_str)
                && seen.insert(to.to_owned())
            {
                let target = document.pointer(to.trim_start_matches('#')).expect("it is there");
                fields(document, target, seen, found);
            }
            let properties = parts.get("properties").and_then(Value::as_object);
            found.extend(properties.into_iter().flatten().map(|(name, _)| name.clone()));
            parts.values().for_each(|part| fields(document, part, seen, found));
        }
        Value::Array(items) => items.iter().for_each(|item| fields(document, item, seen, found)),
        _ => {}
    }
}

#[test]
fn stored_responses_contain_no_secret_fields() {
    let document = described();
    let mut refused = 0;
    for (path, method, operation) in operations(&document) {
        if method != "post" {
            continue;
        }
        let mut visited = BTreeSet::new();
        let mut names = BTreeSet::new();
        for (status, response) in operation["responses"].as_object().expect("responses") {
            if status.starts_with('2') {
                fields(&document, &response["content"], &mut visited, &mut names);
            }
        }
        let secret = SHOWN_ONCE.into_iter().find(|name| names.contains(*name));
        let mut parameters = operation["parameters"].as_array().into_iter().flatten();
        let bears_a_key = parameters.any(|parameter| parameter["name"] == "Idempotency-Key");
        assert!(
            secret.is_none() || !bears_a_key,
            "{path} answers with `{}`, which would be kept",
            secret.unwrap_or_default()
        );
        if crate::rest::once::tells_a_secret(&path) {
            refused += 1;
            assert!(!bears_a_key, "{path}");
            assert!(operation["description"].as_str().is_some_and(|said| said.contains("refused with 400")), "{path}");
            assert!(operation["responses"]["400"].is_object(), "{path}");
        }
    }
    assert_eq!(refused, 18, "every address that tells a secret is described");
}

#[test]
fn units_and_adjacencies_are_enums_in_every_schema() {
    // The number of words in each list.
    const LISTS: [(&str, usize); 2] = [("unit", 4), ("adjacency", 3)];
    fn look(value: &Value, found: &mut Vec<(usize, Value)>) {
        match value {
            Value::Object(fields) => {
                if let Some(properties) = fields.get("properties").and_then(Value::as_object) {
                    let lists =
                        LISTS.into_iter().filter_map(|(name, words)| Some((words, properties.get(name)?.clone())));
                    found.extend(lists);
                }
                fields.values().for_each(|field| look(field, found));
            }
            Value::Array(items) => items.iter().for_each(|item| look(item, found)),
            _ => {}
        }
    }
    let mut lists = Vec::new();
    look(&described()["components"]["schemas"], &mut lists);
    assert!(lists.len() > 12, "{}", lists.len());
    for (words, schema) in lists {
        assert_eq!(schema["enum"].as_array().map(Vec::len), Some(words), "{schema}");
    }
}

/// Returns the first range that a text states: "1 to 10,000".
fn stated_range(text: &str) -> Option<(u64, u64)> {
    let number = |word: &str| word.trim_end_matches([',', ';', '.', ':', ')']).replace(',', "").parse::<u64>().ok();
    let words: Vec<&str> = text.split_whitespace().collect();
    words.windows(3).filter(|three| three[1] == "to").find_map(|three| Some((number(three[0])?, number(three[2])?)))
}

/// Compares the bounds of every field with the range that its description states; returns how many were compared.
fn compare_bounds(at: &str, value: &Value) -> usize {
    let mut compared = 0;
    if let Some(range) = value["description"].as_str().and_then(stated_range) {
        for (least, most) in [("minimum", "maximum"), ("minLength", "maxLength"), ("minItems", "maxItems")] {
            if let Some(bound) = value[most].as_u64() {
                assert_eq!(bound, range.1, "{most} of {at}");
                // The type alone gives a number without a sign the minimum 0.
                if let Some(bound) = value[least].as_u64().filter(|bound| *bound > 0) {
                    assert_eq!(bound, range.0, "{least} of {at}");
                }
                compared += 1;
            }
        }
    }
    let children: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(name, child)| (name.clone(), child)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(index, child)| (index.to_string(), child)).collect(),
        _ => Vec::new(),
    };
    compared + children.into_iter().map(|(name, child)| compare_bounds(&format!("{at}.{name}"), child)).sum::<usize>()
}

#[test]
fn bounds_are_those_that_the_text_states() {
    assert_eq!(stated_range("Seconds: 1 to 2,592,000 (30 days)."), Some((1, 2_592_000)));
    assert_eq!(stated_range("Fewest submissions: 1 to the number of contributors."), None);
    let compared = compare_bounds("schemas", &described()["components"]["schemas"]);
    assert!(compared > 40, "only {compared} bounds were compared");
}

#[test]
fn every_body_has_an_example_that_fits_its_schema() {
    let document = described();
    let mut schemas = Schemas::new();
    let mut compiler = Compiler::new();
    compiler.enable_format_assertions();
    compiler.add_resource(AT, document.clone()).expect("JSON");
    let mut wrong = Vec::new();
    let mut looked = 0;
    let mut look = |pointer: String| {
        let media = document.pointer(&pointer).expect("it is there");
        let Some(example) = media.get("example").or_else(|| media.get("examples")) else {
            wrong.push(format!("{pointer} has no example"));
            return;
        };
        looked += 1;
        let schema = compiler.compile(&format!("{AT}#{pointer}/schema"), &mut schemas).expect("a schema");
        if let Err(error) = schemas.validate(example, schema) {
            wrong.push(format!("{pointer}: {error:#}"));
        }
    };
    let escape = |text: &str| text.replace('~', "~0").replace('/', "~1");
    for (path, method, operation) in operations(&document) {
        let base = format!("/paths/{}/{method}", escape(&path));
        for kind in operation["requestBody"]["content"].as_object().into_iter().flatten().map(|(kind, _)| kind) {
            look(format!("{base}/requestBody/content/{}", escape(kind)));
        }
        for (status, response) in operation["responses"].as_object().into_iter().flatten() {
            if status.starts_with('2') {
                for kind in response["content"].as_object().into_iter().flatten().map(|(kind, _)| kind) {
                    look(format!("{base}/responses/{status}/content/{}", escape(kind)));
                }
            }
        }
    }
    assert!(looked > 60, "{looked}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

on_both! {
    /// Whatever the response, the server can read every example.
    async fn every_example_is_understood(app: &TestApp) {
        let bearer = app.operator().await.bearer();
        let mut count = 0;
        let mut wrong = Vec::new();
        for (path, method, operation) in operations(&described()) {
            let Some(media) = operation["requestBody"]["content"].get("application/json") else { continue };
            let address = path.split('/').map(|part| if part.starts_with('{') { "0193493b-5c00-7000-8000-000000000009" } else { part });
            let address = format!("/api/v1{}", address.collect::<Vec<_>>().join("/"));
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).expect("a method");
            let request = app.server.method(method.clone(), &address).add_header(header::AUTHORIZATION, &bearer);
            let response = request.json(&media["example"]).await;
            count += 1;
            let status = response.status_code();
            if status == StatusCode::BAD_REQUEST || status.is_server_error() {
                wrong.push(format!("{method} {path}: {}", response.text()));
            }
        }
        assert!(count > 12, "{count}");
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
