//! A period of whole days in UTC, for the filters of logs: both days are included.

use time::macros::format_description;
use time::{Date, Duration, OffsetDateTime, Time};

/// Returns the start (inclusive) and the end (exclusive); `None` for an empty field. Calls `wrong` with the name of an
/// invalid field and the remedy.
pub(super) fn parse_period(
    since: &str,
    until: &str,
    mut wrong: impl FnMut(&str, &str),
) -> (Option<OffsetDateTime>, Option<OffsetDateTime>) {
    let mut day = |field: &str, text: &str| {
        parse_day(text).unwrap_or_else(|message| {
            wrong(field, message);
            None
        })
    };
    let since = day("since", since);
    let until = day("until", until);
    // The last day of the calendar has no end, and excludes nothing.
    (since, until.and_then(|day| day.checked_add(Duration::DAY)))
}

/// Parses a day and returns its first moment; `None` for an empty text.
fn parse_day(text: &str) -> Result<Option<OffsetDateTime>, &'static str> {
    match text.trim() {
        "" => Ok(None),
        text => Date::parse(text, format_description!("[year]-[month]-[day]"))
            .map(|date| Some(date.with_time(Time::MIDNIGHT).assume_utc()))
            .map_err(|_| "enter a day such as 2026-11-22"),
    }
}

#[cfg(test)]
mod tests {
    use super::parse_period;

    #[test]
    fn period_includes_its_last_day() {
        let (since, until) = parse_period("2026-11-20", " 2026-11-20", |field, _| panic!("{field} is a day"));
        assert_eq!((until.expect("given") - since.expect("given")).whole_hours(), 24);
        let (since, until) = parse_period("", "9999-12-31", |field, _| panic!("{field} is a day"));
        assert_eq!((since, until), (None, None), "no day comes after it");
    }

    #[test]
    fn invalid_day_is_named_with_the_remedy() {
        let mut messages = Vec::new();
        let none =
            parse_period("yesterday", "2026-02-30", |field, message| messages.push(format!("{field}: {message}")));
        assert_eq!(none, (None, None));
        assert_eq!(messages, ["since: enter a day such as 2026-11-22", "until: enter a day such as 2026-11-22"]);
    }
}
