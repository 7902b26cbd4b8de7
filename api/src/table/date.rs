//! Calendar dates without times and zones.

use std::fmt;

use serde::{Deserialize, Serialize};
use time::{Date, Month};

/// The Julian day of 1970-01-01.
const EPOCH: i64 = 2_440_588;

/// Why a text is no date.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no date: write year, month and day as 2026-01-31, in the years 1 to 9999")]
pub struct DateError(String);

/// A date: days since 1970-01-01, in the years 1 to 9999. As text `2026-01-31`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(value_type = String, format = Date))]
#[serde(try_from = "String", into = "String")]
pub struct CalendarDate(i32);

impl CalendarDate {
    /// Parses `2026-01-31`.
    ///
    /// # Errors
    /// [`DateError`] for another form, and for a date outside the years 1 to 9999.
    pub fn parse(text: &str) -> Result<Self, DateError> {
        Self::parse_parts(text).ok_or_else(|| DateError(text.chars().take(40).collect()))
    }

    fn parse_parts(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let is_form = bytes.len() == 10
            && bytes.iter().enumerate().all(|(place, byte)| match place {
                4 | 7 => *byte == b'-',
                _ => byte.is_ascii_digit(),
            });
        if !is_form {
            return None;
        }
        let year: i32 = text.get(..4)?.parse().ok()?;
        let month = Month::try_from(text.get(5..7)?.parse::<u8>().ok()?).ok()?;
        let date = Date::from_calendar_date(year, month, text.get(8..)?.parse().ok()?).ok()?;
        (year >= 1).then(|| Self::from_date(date))
    }

    fn from_date(date: Date) -> Self {
        Self(date.to_julian_day() - EPOCH as i32)
    }

    /// Returns the date of a number of days since 1970-01-01.
    ///
    /// # Errors
    /// [`DateError`] outside the years 1 to 9999.
    pub fn from_days(days: i64) -> Result<Self, DateError> {
        let date = days.checked_add(EPOCH).and_then(|day| i32::try_from(day).ok());
        let date =
            date.and_then(|day| Date::from_julian_day(day).ok()).filter(|date| (1..=9999).contains(&date.year()));
        date.map(Self::from_date).ok_or_else(|| DateError(format!("day {days}")))
    }

    /// Returns the days since 1970-01-01.
    pub const fn days(self) -> i64 {
        self.0 as i64
    }

    /// Returns year, month (1 to 12) and day of the month.
    pub fn to_parts(self) -> (i32, u8, u8) {
        let date = Date::from_julian_day(self.0 + EPOCH as i32).unwrap_or(Date::MIN);
        (date.year(), date.month().into(), date.day())
    }
}

impl fmt::Display for CalendarDate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.to_parts();
        write!(formatter, "{year:04}-{month:02}-{day:02}")
    }
}

impl TryFrom<String> for CalendarDate {
    type Error = DateError;

    fn try_from(text: String) -> Result<Self, DateError> {
        Self::parse(&text)
    }
}

impl From<CalendarDate> for String {
    fn from(date: CalendarDate) -> Self {
        date.to_string()
    }
}
