//! Conversion of contract documents to `google.protobuf.Struct` and back: JSON that gRPC clients in every language can
//! inspect.
//!
//! A Struct has one kind of number, an IEEE double; every number of the contract is one, or an integer below 2⁵³.

use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value as Wire};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Number, Value};

/// Converts a document to a Struct; returns `None` for a value that is not a JSON object.
pub fn to_struct<T: Serialize>(document: &T) -> Option<Struct> {
    match serde_json::to_value(document).ok()? {
        Value::Object(fields) => Some(object(fields)),
        _ => None,
    }
}

/// Parses the document in a Struct.
///
/// # Errors
/// If it is not a document of this type: the position and the reason.
pub fn read<T: DeserializeOwned>(document: &Struct) -> Result<T, serde_json::Error> {
    serde_json::from_value(json(document))
}

/// Converts a Struct to JSON.
pub fn json(document: &Struct) -> Value {
    Value::Object(document.fields.iter().map(|(name, value)| (name.clone(), plain(value))).collect())
}

fn object(fields: Map<String, Value>) -> Struct {
    Struct { fields: fields.into_iter().map(|(name, value)| (name, wire(value))).collect() }
}

fn wire(value: Value) -> Wire {
    let kind = match value {
        Value::Null => Kind::NullValue(0),
        Value::Bool(truth) => Kind::BoolValue(truth),
        Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or(f64::NAN)),
        Value::String(text) => Kind::StringValue(text),
        Value::Array(items) => Kind::ListValue(ListValue { values: items.into_iter().map(wire).collect() }),
        Value::Object(fields) => Kind::StructValue(object(fields)),
    };
    Wire { kind: Some(kind) }
}

fn plain(value: &Wire) -> Value {
    match &value.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::BoolValue(truth)) => Value::Bool(*truth),
        Some(Kind::NumberValue(number)) => Value::from(whole(*number)),
        Some(Kind::StringValue(text)) => Value::String(text.clone()),
        Some(Kind::ListValue(list)) => Value::Array(list.values.iter().map(plain).collect()),
        Some(Kind::StructValue(fields)) => json(fields),
    }
}

/// Converts a number to JSON: 200 and not 200.0, because counts are parsed as integers. `None` (null) for NaN and
/// infinity.
fn whole(number: f64) -> Option<Number> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let zero_with_sign = number == 0.0 && number.is_sign_negative();
    if number.fract() == 0.0 && number.abs() < EXACT && !zero_with_sign {
        return Some(Number::from(number as i64));
    }
    Number::from_f64(number)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{read, to_struct};

    #[test]
    fn document_survives_the_wire() {
        let document = json!({
            "text": "ε", "none": null, "yes": true, "count": 200, "below": -3, "exact": 0.1, "small": 1e-300,
            "list": [1, "two", { "three": [] }], "inner": { "deep": { "deeper": 9_007_199_254_740_991_u64 } },
        });
        let wire = to_struct(&document).expect("an object");
        assert_eq!(read::<Value>(&wire).expect("any JSON"), document);
    }

    #[test]
    fn counts_are_read_as_integers_and_fractions_are_not() {
        #[derive(serde::Deserialize)]
        struct TestCounts {
            #[expect(dead_code, reason = "it is about whether it is read")]
            count: u32,
        }
        assert!(read::<TestCounts>(&to_struct(&json!({ "count": 200.0 })).expect("an object")).is_ok());
        assert!(read::<TestCounts>(&to_struct(&json!({ "count": 200.5 })).expect("an object")).is_err());
    }

    #[test]
    fn non_object_is_no_document() {
        assert!(to_struct(&[1, 2]).is_none() && to_struct(&"text").is_none());
    }
}
