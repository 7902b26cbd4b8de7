//! Changes to JSON that leave it valid JSON: a value is replaced, removed, duplicated, or renamed.

use serde_json::{Value, json};

use super::{Edit, LONGEST, NUMBERS, pick};

/// The depth to which a value is wrapped; parsers allow 128.
const DEEP: usize = 100;

/// Returns the document with one value changed; `None` where it is not JSON.
pub(super) fn changed(input: &[u8], edit: Edit) -> Option<Vec<u8>> {
    let mut document: Value = serde_json::from_slice(input).ok()?;
    let mut position = edit.at as usize % count(&document);
    visit(&mut document, &mut position, &mut |value| change(value, edit));
    let text = serde_json::to_vec(&document).ok()?;
    (text.len() <= LONGEST).then_some(text)
}

fn count(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(count).sum::<usize>(),
        Value::Object(fields) => 1 + fields.values().map(count).sum::<usize>(),
        _ => 1,
    }
}

/// Visits the value that has `remaining` values before it; returns true when it was found.
fn visit(value: &mut Value, remaining: &mut usize, change: &mut impl FnMut(&mut Value)) -> bool {
    if *remaining == 0 {
        change(value);
        return true;
    }
    *remaining -= 1;
    match value {
        Value::Array(items) => items.iter_mut().any(|item| visit(item, remaining, change)),
        Value::Object(fields) => fields.values_mut().any(|item| visit(item, remaining, change)),
        _ => false,
    }
}

fn change(value: &mut Value, edit: Edit) {
    let nth = |len: usize| (edit.value / 16) as usize % len.max(1);
    match (edit.amount % 12, &mut *value) {
        (0..=1, Value::Object(fields)) => {
            if let Some(name) = fields.keys().nth(nth(fields.len())).cloned() {
                fields.remove(&name);
            }
        }
        (2, Value::Object(fields)) => {
            if let Some(name) = fields.keys().nth(nth(fields.len())).cloned() {
                let moved = fields.remove(&name).unwrap_or_default();
                fields.insert(format!("{name}x"), moved);
            }
        }
        (0..=1, Value::Array(items)) if !items.is_empty() => {
            items.remove(nth(items.len()));
        }
        (2, Value::Array(items)) if !items.is_empty() => {
            let item = items[nth(items.len())].clone();
            let times = if edit.value % 16 == 15 { 3_000 } else { 1 };
            items.extend(std::iter::repeat_n(item, times));
        }
        (3, _) => {
            let inner = value.take();
            *value = (0..=(edit.value as usize % DEEP)).fold(inner, |inner, _| json!([inner]));
        }
        (4..=6, Value::Number(_)) | (4, _) => {
            let text = pick(&NUMBERS, edit.value).copied().unwrap_or_default();
            *value = serde_json::from_str(text).unwrap_or(Value::Null);
        }
        (5..=6, Value::String(text)) => {
            let more = pick(&TEXTS, edit.value).copied().unwrap_or_default();
            text.push_str(more);
        }
        _ => *value = hostile(edit.value),
    }
}

/// Strings that databases, pages and paths handle badly.
const TEXTS: [&str; 10] = [
    "\0",
    " ",
    "\n",
    "\u{202e}",
    "\u{1f600}",
    "'; --",
    "<b>",
    "%00",
    "\u{fffd}",
    "00000000-0000-0000-0000-000000000000",
];

fn hostile(value: u64) -> Value {
    match value / 16 % 12 {
        0 => Value::Null,
        1 => json!(value.is_multiple_of(2)),
        2 => json!([]),
        3 => json!({}),
        4 => json!(""),
        5 => json!("a".repeat(1 << (value % 17))),
        6 => json!(u64::MAX),
        7 => json!(i64::MIN),
        8 => json!(f64::MAX),
        9 => json!("9999-12-31T23:59:59.999999999Z"),
        10 => json!("-9999-01-01T00:00:00Z"),
        _ => pick(&TEXTS, value).map_or(Value::Null, |text| json!(text)),
    }
}
