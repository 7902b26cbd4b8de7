//! Rewrites objects that include the fields of one of several others. The handlers' document has them as "all of: one
//! of these, and that", which few client generators support. Here they become "one of these, each with all its fields".

use serde_json::{Map, Value, json};

/// The depth limit for recursive schemas.
const DEEPEST: usize = 8;

/// Rewrites every schema of that form. An inlined one is replaced by a reference.
pub(super) fn add(document: &mut Value) {
    let definitions = document["components"]["schemas"].as_object().cloned().unwrap_or_default();
    let Some(schemas) = document["components"]["schemas"].as_object_mut() else { return };
    for (name, schema) in schemas {
        if let Some(flat) = flattened(name, schema, &definitions) {
            *schema = flat;
        }
        for part in children(schema) {
            name_or_flatten(part, &definitions);
        }
    }
    for part in document.get_mut("paths").into_iter().flat_map(children) {
        name_or_flatten(part, &definitions);
    }
}

/// Returns the direct children of a value.
fn children(value: &mut Value) -> Vec<&mut Value> {
    match value {
        Value::Object(fields) => fields.values_mut().collect(),
        Value::Array(items) => items.iter_mut().collect(),
        _ => Vec::new(),
    }
}

fn name_or_flatten(value: &mut Value, definitions: &Map<String, Value>) {
    if value.get("allOf").is_some() && is_union(value, definitions, 0) {
        if let Some((name, _)) = definitions.iter().find(|(_, schema)| *schema == value) {
            *value = json!({ "$ref": format!("#/components/schemas/{name}") });
        } else if let Some(flat) = flattened("", value, definitions) {
            *value = flat;
        }
    }
    for part in children(value) {
        name_or_flatten(part, definitions);
    }
}

/// Returns a rewritten schema of that form; `None` for any other.
fn flattened(name: &str, schema: &Value, definitions: &Map<String, Value>) -> Option<Value> {
    if schema.get("allOf").is_none() || !is_union(schema, definitions, 0) {
        return None;
    }
    let variants = objects(schema, definitions, 0)?;
    let mut flat = json!({ "oneOf": variants.into_iter().map(|variant| titled(name, variant)).collect::<Vec<_>>() });
    if let Some(description) = schema.get("description") {
        flat["description"] = description.clone();
    }
    Some(flat)
}

fn resolved<'a>(schema: &'a Value, definitions: &'a Map<String, Value>) -> &'a Value {
    let name = schema["$ref"].as_str().and_then(|to| to.rsplit('/').next());
    name.and_then(|name| definitions.get(name)).unwrap_or(schema)
}

/// Returns whether a schema's parts include a choice between objects.
fn is_union(schema: &Value, definitions: &Map<String, Value>, depth: usize) -> bool {
    let schema = resolved(schema, definitions);
    let parts = schema["allOf"].as_array();
    schema["oneOf"].is_array()
        || depth < DEEPEST && parts.is_some_and(|parts| parts.iter().any(|part| is_union(part, definitions, depth + 1)))
}

/// Returns the possible objects of a schema; `None` if it may also be another type.
fn objects(schema: &Value, definitions: &Map<String, Value>, depth: usize) -> Option<Vec<Value>> {
    let schema = resolved(schema, definitions);
    if depth > DEEPEST {
        return None;
    }
    if let Some(variants) = schema["oneOf"].as_array() {
        let all: Option<Vec<_>> = variants.iter().map(|variant| objects(variant, definitions, depth + 1)).collect();
        return all.map(|all| all.into_iter().flatten().collect());
    }
    if let Some(parts) = schema["allOf"].as_array() {
        let mut whole = vec![json!({ "type": "object", "properties": {}, "required": [] })];
        for part in parts {
            let part = objects(part, definitions, depth + 1)?;
            whole = whole.iter().flat_map(|one| part.iter().map(|other| merged(one, other))).collect();
        }
        return Some(whole);
    }
    (schema["type"] == "object" && schema["properties"].is_object()).then(|| vec![schema.clone()])
}

/// Merges the fields of two objects.
fn merged(one: &Value, other: &Value) -> Value {
    let mut both = one.clone();
    if let (Some(fields), Some(more)) = (both["properties"].as_object_mut(), other["properties"].as_object()) {
        fields.extend(more.clone());
    }
    if let (Some(needed), Some(more)) = (both["required"].as_array_mut(), other["required"].as_array()) {
        needed.extend(more.iter().cloned());
    }
    if let Some(description) = other.get("description") {
        both["description"] = description.clone();
    }
    both
}

/// Adds a title to a variant: the name of the whole with the variant's discriminating word. A variant of an unnamed
/// schema gets none.
fn titled(name: &str, mut variant: Value) -> Value {
    if name.is_empty() {
        return variant;
    }
    let words = variant["properties"].as_object().into_iter().flatten().filter_map(|(_, field)| {
        let words = field["enum"].as_array()?;
        if let [one] = words.as_slice() { one.as_str().map(str::to_owned) } else { None }
    });
    let camel = |word: String| {
        let parts = word.split('_').filter_map(|part| {
            let mut letters = part.chars();
            letters.next().map(|first| first.to_uppercase().collect::<String>() + letters.as_str())
        });
        parts.collect::<String>()
    };
    variant["title"] = json!(words.map(camel).fold(name.replace('_', ""), |whole, word| whole + &word));
    variant
}
