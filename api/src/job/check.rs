//! Limits on numbers, with the same message for every kind: the field, the range, and the value. Tables of one job have
//! one encoder.

use crate::dataset::Dataset;

/// Checks that a number is in a closed range.
pub(super) fn check_range(say: &mut impl FnMut(&str, String), field: &str, value: f64, least: f64, most: f64) {
    if !(least..=most).contains(&value) {
        say(field, format!("from {least} to {most}, not {value}"));
    }
}

/// Checks that a number is above 0 and at most `most`.
pub(super) fn check_positive(say: &mut impl FnMut(&str, String), field: &str, value: f64, most: f64) {
    if !(value > 0.0 && value <= most) {
        say(field, format!("greater than 0 and at most {most}, not {value}"));
    }
}

/// Returns whether a text is a SHA-256 as 64 hex digits in lower case.
pub(super) fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns the problem of the first two tables whose columns come from different encoders. A table without an encoder
/// joins tables with one, because a job need not read the encoded columns.
pub(super) fn find_other_encoder<'a>(datasets: impl IntoIterator<Item = &'a Dataset>) -> Option<String> {
    let encoder = |dataset: &'a Dataset| Some((&dataset.name, dataset.table.as_ref()?.encoder.as_ref()?));
    let mut encoded = datasets.into_iter().filter_map(encoder);
    let (first, digest) = encoded.next()?;
    let (other, _) = encoded.find(|(_, other)| *other != digest)?;
    Some(format!(
        "`{first}` and `{other}` have columns of different encoders: encode both with one graph and one [encoder]"
    ))
}
