//! Limits on numbers, said alike by every kind: the field, the range, and what was given.

/// That a number is in a closed range.
pub(super) fn within(say: &mut impl FnMut(&str, String), field: &str, value: f64, least: f64, most: f64) {
    if !(least..=most).contains(&value) {
        say(field, format!("from {least} to {most}, not {value}"));
    }
}

/// That a number is above 0 and at most `most`.
pub(super) fn positive(say: &mut impl FnMut(&str, String), field: &str, value: f64, most: f64) {
    if !(value > 0.0 && value <= most) {
        say(field, format!("greater than 0 and at most {most}, not {value}"));
    }
}
