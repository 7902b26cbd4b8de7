//! The JSON Schemas (draft 2020-12) of the documents that commands print with `--json`, derived from the types of the
//! contract.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, json};
use undertone_api::consortium::Consortium;
use undertone_api::dataset::Dataset;
use undertone_api::event::JobEvent;
use undertone_api::job::{Job, JobSummary};
use undertone_api::problem::Problem;
use utoipa::ToSchema;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;

use crate::command::{fetch, plan, sign_in, sign_out, verify};

/// The commands with a document, and `problem`: the document of a refusal.
pub(crate) const NAMES: [&str; 11] =
    ["sign-in", "sign-out", "consortia", "datasets", "plan", "propose", "jobs", "watch", "fetch", "verify", "problem"];

/// Returns the schema of a command's document. `watch` prints a document in each line.
pub(crate) fn describe(command: &str) -> Value {
    match command {
        "sign-in" => describe_one::<sign_in::SignedIn>(command),
        "sign-out" => describe_one::<sign_out::SignedOut>(command),
        "consortia" => describe_list::<Consortium>(command),
        "datasets" => describe_list::<Dataset>(command),
        "plan" => describe_one::<plan::PlanAnswer>(command),
        "propose" => describe_one::<Job>(command),
        "jobs" => describe_list::<JobSummary>(command),
        "watch" => describe_one::<JobEvent>(command),
        "fetch" => describe_list::<fetch::FetchedFile>(command),
        "verify" => describe_one::<verify::VerificationReport>(command),
        _ => describe_one::<Problem>("problem"),
    }
}

fn describe_one<T: ToSchema>(command: &str) -> Value {
    let reference = reference_to::<T>();
    complete::<T>(command, reference)
}

fn describe_list<T: ToSchema>(command: &str) -> Value {
    let list = json!({ "type": "array", "items": reference_to::<T>() });
    complete::<T>(command, list)
}

fn reference_to<T: ToSchema>() -> Value {
    json!({ "$ref": format!("#/$defs/{}", T::name()) })
}

/// Adds the definitions to the root of a schema.
fn complete<T: ToSchema>(command: &str, mut root: Value) -> Value {
    let mut schemas: Vec<(String, RefOr<Schema>)> = vec![(T::name().into_owned(), T::schema())];
    T::schemas(&mut schemas);
    let definitions: BTreeMap<String, Value> =
        schemas.into_iter().map(|(name, schema)| (name, make_local(to_value(&schema)))).collect();
    root["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    root["title"] = json!(format!("undertone {command} --json"));
    root["$defs"] = json!(definitions);
    root
}

fn to_value(schema: &impl Serialize) -> Value {
    // A schema consists of plain strings, numbers and lists, which always have a JSON form.
    serde_json::to_value(schema).unwrap_or_default()
}

/// Converts references to components of an OpenAPI document into local ones.
fn make_local(schema: Value) -> Value {
    match schema {
        Value::Object(fields) => fields
            .into_iter()
            .map(|(name, value)| match (name.as_str(), value) {
                ("$ref", Value::String(to)) => (name, json!(to.replace("#/components/schemas/", "#/$defs/"))),
                (_, value) => (name, make_local(value)),
            })
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(items) => items.into_iter().map(make_local).collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::{NAMES, describe};

    fn collect_references<'a>(schema: &'a Value, found: &mut BTreeSet<&'a str>) {
        match schema {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str));
                fields.values().for_each(|value| collect_references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| collect_references(value, found)),
            _ => {}
        }
    }

    #[test]
    fn each_reference_has_its_definition() {
        for name in NAMES {
            let schema = describe(name);
            let mut references = BTreeSet::new();
            collect_references(&schema, &mut references);
            assert!(!references.is_empty(), "{name}");
            for reference in references {
                let definition = reference.strip_prefix('#').and_then(|path| schema.pointer(path));
                assert!(definition.is_some(), "{name}: {reference}");
            }
        }
    }
}
