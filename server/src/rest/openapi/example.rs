//! Adds an example to every body: from the schema, else from `examples.json`, else derived from the names and types of
//! its fields. A test validates each against its schema and sends it to its operation.

use serde_json::{Map, Value, json};

/// Examples by the name of a schema.
const WRITTEN: &str = include_str!("examples.json");
/// The depth limit for recursive schemas.
const DEEPEST: usize = 24;
const ID: &str = "0193493b-5c00-7000-8000-000000000001";
const MOMENT: &str = "2026-11-20T12:00:00Z";

/// Adds an example to every request body and every body of a successful response.
pub(super) fn add(document: &mut Value) {
    let schemas = document["components"]["schemas"].as_object().cloned().unwrap_or_default();
    let written: Map<String, Value> = serde_json::from_str(WRITTEN).unwrap_or_default();
    let examples = Examples { schemas: &schemas, written: &written };
    let Some(paths) = document["paths"].as_object_mut() else { return };
    let operations = paths.values_mut().filter_map(Value::as_object_mut).flat_map(|all| all.values_mut());
    for operation in operations {
        if let Some(body) = operation.get_mut("requestBody") {
            examples.fill(body);
        }
        if let Some(responses) = operation["responses"].as_object_mut() {
            responses
                .iter_mut()
                .filter(|(status, _)| status.starts_with('2'))
                .for_each(|(_, response)| examples.fill(response));
        }
    }
}

struct Examples<'a> {
    schemas: &'a Map<String, Value>,
    written: &'a Map<String, Value>,
}

impl Examples<'_> {
    /// Adds an example to each media type of a body.
    fn fill(&self, body: &mut Value) {
        let Some(content) = body.get_mut("content").and_then(Value::as_object_mut) else { return };
        for (kind, media) in content {
            if media.get("example").is_none() && media.get("examples").is_none() {
                media["example"] = match kind.as_str() {
                    "application/x-ndjson" | "text/csv" if media["schema"]["type"] == "string" => {
                        json!("{\"text\":\"how do I renew my card\",\"label\":\"renewal\"}\n")
                    }
                    _ => self.build("", &media["schema"], 0),
                };
            }
        }
    }

    /// Returns an example for a field with this name and schema.
    fn build(&self, field: &str, schema: &Value, depth: usize) -> Value {
        if depth > DEEPEST {
            return Value::Null;
        }
        if let Some(example) = schema.get("example").or_else(|| schema["examples"].get(0)) {
            return example.clone();
        }
        if let Some(name) = schema["$ref"].as_str().and_then(|to| to.rsplit('/').next()) {
            let written = self.written.get(name);
            let inner = || self.schemas.get(name).map_or(Value::Null, |schema| self.build(field, schema, depth + 1));
            return written.cloned().unwrap_or_else(inner);
        }
        if let Some(value) = schema.get("const").or_else(|| schema["enum"].get(0)) {
            return value.clone();
        }
        if let Some(variants) = schema["oneOf"].as_array().or_else(|| schema["anyOf"].as_array()) {
            let real = variants.iter().find(|variant| variant["type"] != "null");
            let inner = real.map_or(Value::Null, |variant| self.build(field, variant, depth + 1));
            return merged(inner, self.fields(schema, depth));
        }
        if let Some(parts) = schema["allOf"].as_array() {
            let whole = parts
                .iter()
                .fold(self.fields(schema, depth), |whole, part| merged(self.build(field, part, depth + 1), whole));
            return whole;
        }
        match kind(schema) {
            "object" if field == "event" && schema.get("properties").is_none() => release(),
            "object" => self.fields(schema, depth),
            "array" => match schema.get("prefixItems").and_then(Value::as_array) {
                Some(items) => items.iter().map(|item| self.build(field, item, depth + 1)).collect(),
                None => json!([self.build(field, &schema["items"], depth + 1)]),
            },
            "string" => json!(text(field, schema)),
            "integer" => whole(field, schema),
            "number" => json!(number(field)),
            "boolean" => json!(field == "operator" || field == "admitted"),
            _ if schema.get("properties").is_some() => self.fields(schema, depth),
            _ => json!({}),
        }
    }

    /// Returns the fields of an object; without `next`, as on the last page of a list.
    fn fields(&self, schema: &Value, depth: usize) -> Value {
        let Some(properties) = schema["properties"].as_object() else { return json!({}) };
        let fields = properties.iter().filter(|(name, _)| *name != "next");
        fields.map(|(name, schema)| (name.clone(), self.build(name, schema, depth + 1))).collect::<Map<_, _>>().into()
    }
}

/// Returns a release with the parameters of its mechanism, which have no schema in the document.
fn release() -> Value {
    json!({ "event": "poisson_sampled_gaussian", "sampling_rate": 0.05, "noise_multiplier": 1.5 })
}

/// Merges two objects; a value that is not an object takes precedence.
fn merged(one: Value, other: Value) -> Value {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => Value::Object(other.into_iter().chain(one).collect()),
        (one, _) => one,
    }
}

/// Returns the type of a schema that may also be null.
fn kind(schema: &Value) -> &str {
    match &schema["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).find(|kind| *kind != "null").unwrap_or_default(),
        one => one.as_str().unwrap_or_default(),
    }
}

fn whole(field: &str, schema: &Value) -> Value {
    let least = schema["minimum"].as_i64().unwrap_or(0);
    let usual = match field {
        "status" => 200,
        "size" => 1_048_576,
        "frames" | "records" => 4_096,
        _ => 3,
    };
    json!(schema["maximum"].as_i64().map_or(usual, |most| most.min(usual)).max(least))
}

fn number(field: &str) -> f64 {
    match field {
        "delta" => 1e-6,
        "epsilon" | "limit" => 8.0,
        "accuracy" | "share" | "spent_fraction" => 0.25,
        _ => 0.5,
    }
}

fn text(field: &str, schema: &Value) -> String {
    let hex = || "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08".to_owned();
    match schema["format"].as_str() {
        Some("uuid") => return ID.to_owned(),
        Some("date-time") => return MOMENT.to_owned(),
        Some("date") => return MOMENT[..10].to_owned(),
        Some("email") => return "ada@example.org".to_owned(),
        _ => {}
    }
    match field {
        "email" => "ada@example.org".to_owned(),
        "password" => "correct horse battery staple".to_owned(),
        "digest" | "hash" | "manifest" | "receipt" | "public_key" | "leaf" | "root" | "model" | "initial_model"
        | "encoder" => hex(),
        "name" | "dataset_name" => "Elderly speakers".to_owned(),
        "organization_name" => "Northern Clinic".to_owned(),
        "title" => "A first model".to_owned(),
        "kind" => "dp_sgd".to_owned(),
        "unit" => "speaker".to_owned(),
        "adjacency" => "add_remove".to_owned(),
        "version" => "0.1.0".to_owned(),
        "series" => "private".to_owned(),
        "label" => "for the linguist in Leeds".to_owned(),
        "link" => "https://undertone.example.org/accept/5d1f".to_owned(),
        "reason" | "statement" | "now" | "description" | "message" | "detail" => {
            "in a sentence, for others to read".to_owned()
        }
        _ => "as it is".to_owned(),
    }
}
