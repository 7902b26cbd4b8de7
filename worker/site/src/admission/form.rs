//! Checks that a document contains no value that was ignored when it was parsed.
//!
//! A parser that ignores unknown fields could accept a request it never processed, such as a limit of a later version.
//! So every value of the signed text must reappear in the serialized form of the parsed document.

use serde::Serialize;
use serde_json::Value;

/// Returns the path of the first value in `text` that `read` does not contain; `None` when there is none.
pub(super) fn find_unread(text: &str, read: &impl Serialize) -> Option<String> {
    let (Ok(said), Ok(read)) = (serde_json::from_str(text), serde_json::to_value(read)) else {
        return Some("(all of it)".to_owned());
    };
    find_difference(&said, &read, String::new())
}

fn find_difference(said: &Value, read: &Value, path: String) -> Option<String> {
    match (said, read) {
        (Value::Object(said), Value::Object(read)) => said.iter().find_map(|(key, value)| {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            match read.get(key) {
                Some(read) => find_difference(value, read, path),
                // An absent field and `null` are equal.
                None => (!value.is_null()).then_some(path),
            }
        }),
        (Value::Array(said), Value::Array(read)) if said.len() == read.len() => said
            .iter()
            .zip(read)
            .enumerate()
            .find_map(|(index, (said, read))| find_difference(said, read, format!("{path}[{index}]"))),
        // 1 and 1.0 are equal; two integers are equal only when all their digits are.
        (Value::Number(a), Value::Number(b)) if a.is_f64() != b.is_f64() => (a.as_f64() != b.as_f64()).then_some(path),
        _ => (said != read).then_some(path),
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    use super::find_unread;

    #[derive(Serialize, Deserialize)]
    struct ReadDocument {
        number: f64,
        whole: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        extra: Option<Vec<u8>>,
    }

    #[test]
    fn ignored_value_is_reported_with_its_path() {
        for (text, place) in [
            (r#"{"number": 1, "whole": 1}"#, None),
            (r#"{"number": 1.0, "whole": 18446744073709551615, "extra": null}"#, None),
            (r#"{"number": 1, "whole": 1, "extra": [1, 2]}"#, None),
            (r#"{"number": 1, "whole": 1, "more": null}"#, None),
            (r#"{"number": 1, "whole": 1, "more": 0}"#, Some("more")),
            (r#"{"number": 1, "whole": 1, "more": {"deep": [false]}}"#, Some("more")),
        ] {
            let read: ReadDocument = serde_json::from_str(text).expect("it can be read");
            assert_eq!(find_unread(text, &read).as_deref(), place, "{text}");
        }
    }
}
