//! U+0000 in input. SQLite stores it in texts and PostgreSQL does not, so every interface refuses it and both databases
//! behave alike.
//!
//! Each interface checks the form of its texts: plain ([`refuse_in_texts`]), inside JSON ([`refuse_in_json`]) or
//! percent-encoded in an address or a form ([`refuse_encoded`]). To add a form: a function that finds the character in
//! it without a copy.

use undertone_api::problem::Code;

use crate::error::Error;

/// The message for callers that send the character.
pub(crate) const REFUSED: &str = "a text holds the character U+0000, which cannot be kept: leave it out";

/// Refuses the character in texts.
///
/// # Errors
/// `malformed` if one contains it.
pub fn refuse_in_texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<(), Error> {
    refuse(texts.into_iter().any(|text| text.contains('\0')))
}

/// Refuses the character in the texts of JSON, or of JSON lines, where only an escape can represent it. The parser
/// reports invalid JSON.
///
/// # Errors
/// `malformed` if there is such an escape.
pub fn refuse_in_json(json: &[u8]) -> Result<(), Error> {
    let mut rest = json;
    while let Some(place) = rest.iter().position(|byte| *byte == b'\\') {
        let escaped = &rest[place + 1..];
        if escaped.starts_with(b"u0000") {
            return refuse(true);
        }
        // An escaped backslash does not begin an escape.
        rest = escaped.get(1..).unwrap_or_default();
    }
    Ok(())
}

/// Refuses the character in percent-encoded input: an address, a form.
///
/// # Errors
/// `malformed` if it occurs, encoded or plain.
pub fn refuse_encoded(encoded: &[u8]) -> Result<(), Error> {
    // A percent sign itself is `%25`, so these three characters have no other meaning.
    refuse(encoded.contains(&0) || encoded.windows(3).any(|three| three == b"%00"))
}

fn refuse(contains_nul: bool) -> Result<(), Error> {
    if contains_nul { Err(Error::problem(Code::Malformed, REFUSED)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::{refuse_encoded, refuse_in_json, refuse_in_texts};

    #[test]
    fn nul_is_refused_in_every_form() {
        assert!(refuse_in_texts(["a", "b\0"]).is_err());
        assert!(refuse_in_texts(["a", "\\u0000", "%00", ""]).is_ok());
        for input in [r#"{"a":"\u0000"}"#, r#"{"\u0000":1}"#, r#""\\\u0000""#, r#""\n\u0000""#] {
            assert!(refuse_in_json(input.as_bytes()).is_err(), "{input}");
            let text = serde_json::from_str::<serde_json::Value>(input).expect("JSON").to_string();
            assert!(refuse_in_json(text.as_bytes()).is_err(), "{text}");
        }
        for input in [r#""\\u0000""#, r#""\u00001""#, r#""\u0001""#, r#""u0000""#, "\"\\", ""] {
            let holds = serde_json::from_str::<String>(input).is_ok_and(|text| text.contains('\0'));
            assert_eq!(refuse_in_json(input.as_bytes()).is_err(), holds, "{input}");
        }
        assert!(refuse_encoded(b"a=%00").is_err() && refuse_encoded(b"\0").is_err());
        assert!(refuse_encoded(b"a=%2500&b=%0a%30").is_ok());
    }
}
