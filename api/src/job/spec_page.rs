//! Compares the table in a kind's `spec.md` with the fields of its spec.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

/// Returns the fields of `spec` that no row of the table on `page` names.
pub(super) fn unnamed_fields(page: &str, spec: &impl Serialize) -> Vec<String> {
    let mut names = BTreeSet::new();
    collect_names(&serde_json::to_value(spec).expect("a spec is JSON"), &mut names);
    assert!(names.len() > 10, "{names:?}");
    let before_example = page.split("## By example").next().unwrap_or_default();
    let table: String = before_example.lines().filter(|line| line.starts_with('|')).collect();
    names.retain(|name| !is_named(&table, name));
    names.into_iter().collect()
}

/// Returns whether the table has the field as code: alone, at the end or beginning of a path, or in a JSON object.
fn is_named(table: &str, name: &str) -> bool {
    ["`{}`", ".{}`", "…{}`", "`{}[]", "`{}.", "\"{}\""].iter().any(|form| table.contains(&form.replace("{}", name)))
}

/// Adds the names of all fields in a JSON value.
fn collect_names(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                names.insert(name.clone());
                collect_names(value, names);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_names(item, names)),
        _ => {}
    }
}

#[test]
fn field_without_row_is_reported() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"];
    let spec: serde_json::Map<String, Value> = names.iter().map(|name| ((*name).to_owned(), Value::Null)).collect();
    let page =
        "| `a` |\n| `x.b`, `…c` |\n| `d[].y` | `e.z` | `{\"f\"}` |\n| `g`, `h`, `i` |\n`j`\n## By example\n| `k` |";
    assert_eq!(unnamed_fields(page, &spec), ["j", "k"]);
}
