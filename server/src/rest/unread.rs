//! Explains a JSON body from which the operation's type cannot be read. The body is compared with the schema that the OpenAPI document
//! shows, so that every field that is missing, of another type or unknown is named at once, with its path. Where the schema admits the
//! body, the first failure of reading it is named.
//!
//! Of a choice between several objects, those count whose tags (`"kind": "..."`) the body bears. Where several count, only what is
//! wrong with all of them is named.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use serde_path_to_error::Segment;
use undertone_api::problem::Violation;
use utoipa::ToSchema;

/// Most violations of an answer.
const MOST: usize = 100;
/// The path of a violation of the body as a whole.
const WHOLE: &str = "body";
/// Most references that lead from one to the next.
const LONGEST_CHAIN: usize = 8;

/// Returns everything wrong with a body that is not a `T`; nothing for one that is no JSON.
pub(super) fn explain<T: DeserializeOwned + ToSchema>(body: &[u8]) -> Vec<Violation> {
    let Ok(value) = serde_json::from_slice::<Value>(body) else { return Vec::new() };
    let mut violations = Vec::new();
    SchemaComponents::of_type::<T>().compare("", &to_json(&T::schema()), &value, &mut violations);
    if violations.is_empty() {
        violations.extend(first_failure::<T>(&value));
    }
    violations.truncate(MOST);
    for whole in violations.iter_mut().filter(|violation| violation.field.is_empty()) {
        WHOLE.clone_into(&mut whole.field);
    }
    violations
}

/// Returns the first failure of reading a `T`, at its path; nothing where the path leads to no field.
fn first_failure<T: DeserializeOwned>(value: &Value) -> Option<Violation> {
    let error = serde_path_to_error::deserialize::<_, T>(value).err()?;
    let segments = error.path().iter().filter_map(|segment| match segment {
        Segment::Seq { index } => Some(index.to_string()),
        Segment::Map { key } => Some(key.clone()),
        Segment::Enum { variant } => Some(variant.clone()),
        Segment::Unknown => None,
    });
    let field = segments.collect::<Vec<_>>().join(".");
    (!field.is_empty()).then(|| Violation::new(field, error.into_inner().to_string()))
}

fn to_json(schema: &impl serde::Serialize) -> Value {
    // A schema is made of plain strings, numbers and lists, which always have a JSON form.
    serde_json::to_value(schema).unwrap_or_default()
}

/// The schemas to which others refer, by name.
struct SchemaComponents(Map<String, Value>);

impl SchemaComponents {
    /// Returns the schemas to which that of a type refers.
    fn of_type<T: ToSchema>() -> Self {
        let mut schemas = Vec::new();
        T::schemas(&mut schemas);
        Self(schemas.into_iter().map(|(name, schema)| (name, to_json(&schema))).collect())
    }

    /// Follows the references of a schema.
    fn resolve<'a>(&'a self, schema: &'a Value) -> &'a Value {
        let mut schema = schema;
        for _ in 0..LONGEST_CHAIN {
            let name = schema["$ref"].as_str().and_then(|reference| reference.rsplit('/').next());
            let Some(next) = name.and_then(|name| self.0.get(name)) else { break };
            schema = next;
        }
        schema
    }

    /// Adds everything wrong with the value of the field at a path.
    fn compare(&self, path: &str, schema: &Value, value: &Value, violations: &mut Vec<Violation>) {
        let schema = self.resolve(schema);
        if violations.len() >= MOST {
            return;
        }
        for part in parts(schema) {
            self.compare(path, part, value, violations);
        }
        if let Some(variants) = variants(schema) {
            self.compare_variants(path, variants, value, violations);
        }
        if !has_type(schema, value) {
            let expected = self.describe(schema);
            violations.push(Violation::new(path, format!("this is {}: give {expected}", kind(value))));
            return;
        }
        if schema["enum"].as_array().is_some_and(|allowed| !allowed.contains(value)) {
            violations.push(Violation::new(path, format!("give {}", self.describe(schema))));
            return;
        }
        match value {
            Value::Object(fields) => self.compare_fields(path, schema, fields, violations),
            Value::Array(items) if schema["items"].is_object() => {
                for (index, item) in items.iter().enumerate() {
                    self.compare(&join(path, &index.to_string()), &schema["items"], item, violations);
                }
            }
            _ => {}
        }
    }

    fn compare_fields(&self, path: &str, schema: &Value, fields: &Map<String, Value>, violations: &mut Vec<Violation>) {
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        for name in required.filter(|name| !fields.contains_key(*name)) {
            let expected = self.describe(&schema["properties"][name]);
            violations.push(Violation::new(join(path, name), format!("it is missing: give {expected}")));
        }
        for (name, value) in fields {
            let others = &schema["additionalProperties"];
            match schema["properties"].get(name) {
                Some(property) => self.compare(&join(path, name), property, value, violations),
                None if others.is_object() => self.compare(&join(path, name), others, value, violations),
                None if *others == Value::Bool(false) => {
                    violations.push(Violation::new(join(path, name), "there is no such field: leave it out"));
                }
                None => {}
            }
        }
    }

    /// Adds what is wrong with a value whichever of the variants was meant.
    fn compare_variants(&self, path: &str, variants: &[Value], value: &Value, violations: &mut Vec<Violation>) {
        let alike: Vec<&Value> = variants.iter().filter(|variant| has_type(self.resolve(variant), value)).collect();
        if alike.is_empty() {
            let expected = self.describe_variants(variants);
            violations.push(Violation::new(path, format!("this is {}: give {expected}", kind(value))));
            return;
        }
        if let Some(violation) = self.compare_tags(path, &alike, value) {
            violations.push(violation);
            return;
        }
        let mut each = alike.into_iter().filter(|variant| self.fits(variant, value)).map(|variant| {
            let mut own = Vec::new();
            self.compare(path, variant, value, &mut own);
            own
        });
        let first = each.next().unwrap_or_default();
        let others: Vec<Vec<Violation>> = each.collect();
        let is_common = |one: &Violation| others.iter().all(|other| other.contains(one));
        violations.extend(first.into_iter().filter(is_common));
    }

    /// Returns the violation of an object that lacks the tag which tells the variants apart, or has another.
    fn compare_tags(&self, path: &str, variants: &[&Value], value: &Value) -> Option<Violation> {
        let mut tags: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
        for variant in variants {
            for (name, tag) in self.tags(variant) {
                tags.entry(name).or_default().push(tag);
            }
        }
        let fields = value.as_object()?;
        tags.retain(|_, allowed| allowed.len() == variants.len());
        tags.into_iter().find_map(|(name, allowed)| {
            let expected = one_of(&allowed);
            match fields.get(name) {
                None => Some(Violation::new(join(path, name), format!("it is missing: give {expected}"))),
                Some(given) if !allowed.contains(&given) => {
                    Some(Violation::new(join(path, name), format!("give {expected}")))
                }
                Some(_) => None,
            }
        })
    }

    /// Returns whether a value may be meant as an instance of a schema: its type, and its tags.
    fn fits(&self, schema: &Value, value: &Value) -> bool {
        let schema = self.resolve(schema);
        let is_allowed = || schema["enum"].as_array().is_none_or(|allowed| allowed.contains(value));
        parts(schema).iter().all(|part| self.fits(part, value))
            && variants(schema).is_none_or(|variants| variants.iter().any(|variant| self.fits(variant, value)))
            && has_type(schema, value)
            && is_allowed()
            && self.tags(schema).all(|(name, tag)| value.get(name).is_none_or(|given| given == tag))
    }

    /// Returns the fields of an object that have one value only.
    fn tags<'a>(&'a self, schema: &'a Value) -> impl Iterator<Item = (&'a str, &'a Value)> {
        let properties = self.resolve(schema)["properties"].as_object().into_iter().flatten();
        properties.filter_map(|(name, property)| match property["enum"].as_array()?.as_slice() {
            [only] => Some((name.as_str(), only)),
            _ => None,
        })
    }

    /// Describes the values that a schema admits, for the sentence "give ...".
    fn describe(&self, schema: &Value) -> String {
        let schema = self.resolve(schema);
        if let Some(allowed) = schema["enum"].as_array() {
            return one_of(&allowed.iter().collect::<Vec<_>>());
        }
        if let Some(variants) = variants(schema) {
            return self.describe_variants(variants);
        }
        let names = types(schema).into_iter().filter(|name| *name != "null").map(|name| match name {
            "string" => "a text",
            "integer" => "a whole number",
            "number" => "a number",
            "boolean" => "true or false",
            "array" => "a list",
            _ => "an object",
        });
        let names: Vec<&str> = names.collect();
        match (names.is_empty(), parts(schema).is_empty()) {
            (false, _) => names.join(" or "),
            (true, false) => "an object".to_owned(),
            (true, true) => "a value".to_owned(),
        }
    }

    fn describe_variants(&self, variants: &[Value]) -> String {
        let mut words = Vec::new();
        for variant in variants.iter().filter(|variant| types(self.resolve(variant)) != ["null"]) {
            let description = self.describe(variant);
            if !words.contains(&description) {
                words.push(description);
            }
        }
        words.join(" or ")
    }
}

/// Returns the schemas of which a value has to satisfy each.
fn parts(schema: &Value) -> &[Value] {
    schema["allOf"].as_array().map_or(&[], Vec::as_slice)
}

/// Returns the schemas of which a value has to satisfy one.
fn variants(schema: &Value) -> Option<&[Value]> {
    let list = schema["oneOf"].as_array().or_else(|| schema["anyOf"].as_array());
    list.map(Vec::as_slice)
}

/// Returns the types that a schema names.
fn types(schema: &Value) -> Vec<&str> {
    match &schema["type"] {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn has_type(schema: &Value, value: &Value) -> bool {
    let types = types(schema);
    types.is_empty()
        || types.iter().any(|name| match *name {
            "null" => value.is_null(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "string" => value.is_string(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            _ => true,
        })
}

/// Describes a value, for the sentence "this is ...".
const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn one_of(values: &[&Value]) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let values: Vec<String> = values.iter().map(|value| format!("`{}`", text(value))).collect();
    if values.len() == 1 { values.concat() } else { format!("one of {}", values.join(", ")) }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
