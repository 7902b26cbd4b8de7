//! Values of a source, and their integer codes in the declared kind of a column.
//!
//! The code of a value depends on the value and on the declaration, on nothing else. A value that the kind cannot hold
//! rejects its row; a text outside the declared categories is a missing value.

use std::collections::HashMap;

use time::UtcOffset;
use undertone_api::table::{CalendarDate, ColumnKind, LONGEST_CATEGORY};

use crate::quarantine::RejectReason;

/// The longest id of a unit, bytes.
pub const LONGEST_UNIT: usize = 1024;
/// The longest text of a number or a date, bytes.
const LONGEST_NUMBER: usize = 400;
/// The least and the first excluded integer of 64 bits, as real numbers: both are exact.
const INTEGERS: [f64; 2] = [-9_223_372_036_854_775_808.0, 9_223_372_036_854_775_808.0];
const SECONDS_A_DAY: i64 = 86_400;

/// A value of a source.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum SourceValue {
    /// No value.
    #[default]
    Missing,
    /// A text, also of a number or a date.
    Text(String),
    /// A text of more than [`LONGEST_UNIT`] bytes; it is not kept.
    LongText,
    /// Bytes that are not UTF-8; they are not kept.
    NoText,
    /// A boolean.
    Boolean(bool),
    /// An integer.
    Integer(i64),
    /// An integer beyond 64 bits.
    LargeInteger,
    /// A real number, possibly NaN or infinite.
    Real(f64),
    /// Days since 1970-01-01.
    Date(i64),
    /// Seconds since 1970-01-01 of a clock without a zone.
    LocalTime(i64),
    /// Seconds since 1970-01-01, UTC.
    Instant(i64),
}

/// The code of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// There is no value.
    Missing,
    /// The text is not declared; it counts as missing.
    Undeclared,
    /// The code, within the declared range.
    Value(i64),
}

/// Encodes the values of one column.
#[derive(Debug, Clone)]
pub struct ColumnEncoder {
    kind: ColumnKind,
    categories: HashMap<String, i64>,
    zone: Option<UtcOffset>,
}

impl ColumnEncoder {
    /// Returns the encoder of a kind. Times in a zone become dates of `zone`.
    pub fn new(kind: &ColumnKind, zone: Option<UtcOffset>) -> Self {
        let categories = match kind {
            ColumnKind::Category { values } => values.iter().cloned().zip(0..).collect(),
            _ => HashMap::new(),
        };
        Self { kind: kind.clone(), categories, zone }
    }

    /// Returns the declared kind.
    pub const fn kind(&self) -> &ColumnKind {
        &self.kind
    }

    /// Appends the codes of a value, [`ColumnKind::code_count`] of them. Returns false for a text that is not declared.
    ///
    /// # Errors
    /// The reason why its row cannot be used.
    pub fn encode_codes(&self, value: &SourceValue, codes: &mut Vec<Option<i64>>) -> Result<bool, RejectReason> {
        if let (ColumnKind::Text { .. }, SourceValue::Text(text)) = (&self.kind, value) {
            let grams = self.kind.encode_text(text).into_iter().map(Some);
            codes.extend(grams.chain(std::iter::repeat(None)).take(self.kind.code_count()));
            return Ok(true);
        }
        let code = self.encode(value)?;
        let first = if let Code::Value(code) = code { Some(code) } else { None };
        codes.extend(std::iter::once(first).chain(std::iter::repeat(None)).take(self.kind.code_count()));
        Ok(code != Code::Undeclared)
    }

    /// Returns the code of a value; that of a text is [`Self::encode_codes`]'s alone.
    ///
    /// # Errors
    /// The reason why its row cannot be used.
    pub fn encode(&self, value: &SourceValue) -> Result<Code, RejectReason> {
        if let SourceValue::Text(text) = value {
            let text = text.trim();
            return if text.is_empty() { Ok(Code::Missing) } else { self.encode_text(text) };
        }
        let found = match (&self.kind, value) {
            (_, SourceValue::Missing) => return Ok(Code::Missing),
            (_, SourceValue::LongText) => return Err(RejectReason::LongText),
            (_, SourceValue::NoText) | (ColumnKind::Text { .. }, _) => return Err(RejectReason::Encoding),
            (ColumnKind::Boolean, SourceValue::Boolean(value)) => i64::from(*value),
            (ColumnKind::Boolean, SourceValue::Integer(value @ (0 | 1))) => *value,
            (ColumnKind::Boolean, _) => return Err(RejectReason::Boolean),
            (ColumnKind::Integer { .. }, SourceValue::Boolean(value)) => self.clamp(i64::from(*value)),
            (ColumnKind::Integer { .. }, SourceValue::Integer(value)) => self.clamp(*value),
            (ColumnKind::Integer { .. }, SourceValue::Real(value)) => self.clamp(to_integer(*value)?),
            (ColumnKind::Integer { .. }, _) => return Err(RejectReason::Integer),
            (ColumnKind::Real { .. }, SourceValue::Boolean(value)) => self.encode_real(f64::from(u8::from(*value)))?,
            (ColumnKind::Real { .. }, SourceValue::Integer(value)) => self.encode_real(*value as f64)?,
            (ColumnKind::Real { .. }, SourceValue::Real(value)) => self.encode_real(*value)?,
            (ColumnKind::Real { .. }, _) => return Err(RejectReason::Real),
            (ColumnKind::Category { .. }, SourceValue::Integer(value)) => {
                return Ok(self.find_category(&value.to_string()));
            }
            (ColumnKind::Category { .. }, SourceValue::Boolean(value)) => {
                return Ok(self.find_category(if *value { "true" } else { "false" }));
            }
            (ColumnKind::Key { .. }, SourceValue::Integer(value)) => return Ok(self.find_key(&value.to_string())),
            (ColumnKind::Category { .. } | ColumnKind::Key { .. }, _) => return Ok(Code::Undeclared),
            (ColumnKind::Date { .. }, SourceValue::Date(days)) => self.encode_days(*days)?,
            (ColumnKind::Date { .. }, SourceValue::LocalTime(seconds)) => {
                self.encode_days(seconds.div_euclid(SECONDS_A_DAY))?
            }
            (ColumnKind::Date { .. }, SourceValue::Instant(seconds)) => self.encode_instant(*seconds)?,
            (ColumnKind::Date { .. }, _) => return Err(RejectReason::Date),
        };
        Ok(Code::Value(found))
    }

    fn encode_text(&self, text: &str) -> Result<Code, RejectReason> {
        if let ColumnKind::Category { .. } = self.kind {
            return if text.len() > LONGEST_CATEGORY {
                Err(RejectReason::LongText)
            } else {
                Ok(self.find_category(text))
            };
        }
        if let ColumnKind::Key { .. } = self.kind {
            return Ok(self.find_key(text));
        }
        if text.len() > LONGEST_NUMBER {
            return Err(RejectReason::LongText);
        }
        let code = match &self.kind {
            ColumnKind::Boolean => i64::from(parse_boolean(text).ok_or(RejectReason::Boolean)?),
            ColumnKind::Integer { .. } => {
                let value = match text.parse() {
                    Ok(value) => value,
                    Err(_) => to_integer(text.parse().map_err(|_| RejectReason::Integer)?)?,
                };
                self.clamp(value)
            }
            ColumnKind::Real { .. } => self.encode_real(text.parse().map_err(|_| RejectReason::Real)?)?,
            ColumnKind::Date { .. } => match parse_time(text).ok_or(RejectReason::Date)? {
                SourceValue::Instant(seconds) => self.encode_instant(seconds)?,
                SourceValue::LocalTime(seconds) => self.encode_days(seconds.div_euclid(SECONDS_A_DAY))?,
                SourceValue::Date(days) => self.encode_days(days)?,
                _ => return Err(RejectReason::Date),
            },
            ColumnKind::Category { .. } => return Ok(self.find_category(text)),
            ColumnKind::Key { .. } => return Ok(self.find_key(text)),
            ColumnKind::Text { .. } => return Err(RejectReason::Encoding),
        };
        Ok(Code::Value(code))
    }

    fn find_category(&self, text: &str) -> Code {
        self.categories.get(text).map_or(Code::Undeclared, |code| Code::Value(*code))
    }

    /// Returns the code of a key; a text that is no key, or too long a one, is not declared.
    fn find_key(&self, text: &str) -> Code {
        self.kind.encode_key(text).map_or(Code::Undeclared, Code::Value)
    }

    fn clamp(&self, value: i64) -> i64 {
        let (least, most) = self.kind.code_range();
        value.clamp(least, most)
    }

    fn encode_real(&self, value: f64) -> Result<i64, RejectReason> {
        if value.is_finite() { self.kind.encode_real(value).ok_or(RejectReason::Real) } else { Err(RejectReason::Real) }
    }

    fn encode_days(&self, days: i64) -> Result<i64, RejectReason> {
        let date = CalendarDate::from_days(days).map_err(|_| RejectReason::Date)?;
        self.kind.encode_date(date).ok_or(RejectReason::Date)
    }

    /// Returns the code of the date that clocks of the declared zone show.
    fn encode_instant(&self, seconds: i64) -> Result<i64, RejectReason> {
        let zone = self.zone.ok_or(RejectReason::Zone)?;
        let local = seconds.checked_add(i64::from(zone.whole_seconds())).ok_or(RejectReason::Date)?;
        self.encode_days(local.div_euclid(SECONDS_A_DAY))
    }
}

/// Returns a real number as an integer, if it is one of 64 bits.
fn to_integer(value: f64) -> Result<i64, RejectReason> {
    let [least, beyond] = INTEGERS;
    let is_whole = value.is_finite() && value.fract() == 0.0 && value >= least && value < beyond;
    if is_whole { Ok(value as i64) } else { Err(RejectReason::Integer) }
}

fn parse_boolean(text: &str) -> Option<bool> {
    let is_one_of = |words: [&str; 4]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
    if is_one_of(["true", "t", "1", "yes"]) {
        Some(true)
    } else if is_one_of(["false", "f", "0", "no"]) {
        Some(false)
    } else {
        None
    }
}

/// Parses a date, or a date and a time with or without a zone: `2026-01-31`, `2026-01-31 23:59:59.5+01:00`.
fn parse_time(text: &str) -> Option<SourceValue> {
    let days = CalendarDate::parse(text.get(..10)?).ok()?.days();
    let Some(rest) = text.get(10..).filter(|rest| !rest.is_empty()) else { return Some(SourceValue::Date(days)) };
    let rest = rest.strip_prefix(['T', 't', ' '])?;
    let place = rest.find(['Z', 'z', '+', '-']).unwrap_or(rest.len());
    let (clock, zone) = rest.split_at(place);
    let seconds = days * SECONDS_A_DAY + parse_clock(clock.trim_end())?;
    match zone {
        "" => Some(SourceValue::LocalTime(seconds)),
        "Z" | "z" => Some(SourceValue::Instant(seconds)),
        zone => Some(SourceValue::Instant(seconds - i64::from(parse_zone(zone)?.whole_seconds()))),
    }
}

/// Parses `23:59`, `23:59:59` or `23:59:59.25` to seconds of the day; a leap second is the last second of its minute.
fn parse_clock(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    if fraction.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let mut fields = whole.split(':').map(parse_pair);
    let hours = fields.next()?.filter(|hours| *hours < 24)?;
    let minutes = fields.next()?.filter(|minutes| *minutes < 60)?;
    let seconds = match fields.next() {
        None => 0,
        Some(seconds) => seconds.filter(|seconds| *seconds <= 60)?.min(59),
    };
    fields.next().is_none().then_some(hours * 3600 + minutes * 60 + seconds)
}

fn parse_pair(text: &str) -> Option<i64> {
    let is_pair = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
    is_pair.then(|| text.parse().ok()).flatten()
}

/// Parses an offset from UTC: `UTC`, `Z`, `+01`, `+0130` or `-05:30`.
pub fn parse_zone(text: &str) -> Option<UtcOffset> {
    if text.eq_ignore_ascii_case("utc") || text.eq_ignore_ascii_case("z") {
        return Some(UtcOffset::UTC);
    }
    let (sign, rest) = match text.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = match rest.len() {
        2 => (rest, "00"),
        4 => rest.split_at_checked(2)?,
        5 => rest.split_once(':')?,
        _ => return None,
    };
    let hours = parse_pair(hours).filter(|hours| *hours <= 18)?;
    let minutes = parse_pair(minutes).filter(|minutes| *minutes < 60)?;
    UtcOffset::from_whole_seconds(sign * i32::try_from(hours * 3600 + minutes * 60).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::{Code, ColumnEncoder, LONGEST_NUMBER, SourceValue, parse_zone};
    use crate::quarantine::RejectReason;
    use undertone_api::table::{CalendarDate, ColumnKind, LONGEST_CATEGORY};

    fn text(text: &str) -> SourceValue {
        SourceValue::Text(text.to_owned())
    }

    fn dates() -> ColumnKind {
        let date = |text| CalendarDate::parse(text).expect("a date");
        ColumnKind::Date { first: date("2000-01-01"), last: date("2030-12-31") }
    }

    #[test]
    fn overflow_and_values_that_are_not_finite_reject_the_row() {
        let integer = ColumnEncoder::new(&ColumnKind::Integer { least: 0, most: 120 }, None);
        for (value, code) in [("7", 7), ("-1", 0), ("9223372036854775807", 120), (" 12.0 ", 12), ("1e2", 100)] {
            assert_eq!(integer.encode(&text(value)), Ok(Code::Value(code)), "{value}");
        }
        for value in ["9223372036854775808", "1e19", "-1e300", "NaN", "inf", "7.5", "seven", "0x10"] {
            assert_eq!(integer.encode(&text(value)), Err(RejectReason::Integer), "{value}");
        }
        assert_eq!(integer.encode(&SourceValue::LargeInteger), Err(RejectReason::Integer));
        let real = ColumnEncoder::new(&ColumnKind::Real { least: 0.0, most: 10.0, step: 0.1 }, None);
        assert_eq!(real.encode(&SourceValue::Real(2.54)), Ok(Code::Value(25)));
        assert_eq!(real.encode(&text("1e300")), Ok(Code::Value(100)));
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(real.encode(&SourceValue::Real(value)), Err(RejectReason::Real));
            assert_eq!(real.encode(&text(&value.to_string())), Err(RejectReason::Real));
        }
        assert_eq!(real.encode(&text("1e999")), Err(RejectReason::Real), "it overflows to infinity");
        assert_eq!(real.encode(&text("")), Ok(Code::Missing));
    }

    #[test]
    fn texts_are_bounded_and_undeclared_ones_are_missing() {
        let kind = ColumnKind::Category { values: vec!["f".to_owned(), "m".to_owned()] };
        let category = ColumnEncoder::new(&kind, None);
        assert_eq!(category.encode(&text(" m ")), Ok(Code::Value(1)));
        assert_eq!(category.encode(&text("M")), Ok(Code::Undeclared));
        assert_eq!(category.encode(&text(&"x".repeat(LONGEST_CATEGORY))), Ok(Code::Undeclared));
        assert_eq!(category.encode(&text(&"x".repeat(LONGEST_CATEGORY + 1))), Err(RejectReason::LongText));
        assert_eq!(category.encode(&SourceValue::LongText), Err(RejectReason::LongText));
        assert_eq!(category.encode(&SourceValue::NoText), Err(RejectReason::Encoding));
        let integer = ColumnEncoder::new(&ColumnKind::Integer { least: 0, most: 9 }, None);
        assert_eq!(integer.encode(&text(&"0".repeat(LONGEST_NUMBER))), Ok(Code::Value(0)));
        assert_eq!(integer.encode(&text(&"0".repeat(LONGEST_NUMBER + 1))), Err(RejectReason::LongText));
        let boolean = ColumnEncoder::new(&ColumnKind::Boolean, None);
        let codes = ["yes", "F", "1"].map(|word| boolean.encode(&text(word)));
        assert_eq!(codes, [Ok(Code::Value(1)), Ok(Code::Value(0)), Ok(Code::Value(1))]);
        assert_eq!(boolean.encode(&text("2")), Err(RejectReason::Boolean));
    }

    #[test]
    fn keys_are_texts_or_integers_of_few_symbols() {
        let kind = ColumnKind::Key { longest: 6 };
        let key = ColumnEncoder::new(&kind, None);
        let code = |text: &str| Ok(Code::Value(kind.encode_key(text).expect("a key")));
        assert_eq!(key.encode(&text(" i21.4 ")), code("I21.4"));
        assert_eq!(key.encode(&SourceValue::Integer(4012)), code("4012"));
        for value in [text("I21.456"), text("I21;4"), text(&"x".repeat(LONGEST_NUMBER + 1)), SourceValue::Real(1.5)] {
            assert_eq!(key.encode(&value), Ok(Code::Undeclared), "{value:?}");
        }
        assert_eq!(key.encode(&text("  ")), Ok(Code::Missing));
        assert_eq!(key.encode(&SourceValue::NoText), Err(RejectReason::Encoding));
    }

    #[test]
    fn time_in_a_zone_is_a_date_of_the_declared_zone() {
        let day = |text: &str| Ok(Code::Value(CalendarDate::parse(text).expect("a date").days()));
        let plain = ColumnEncoder::new(&dates(), None);
        let zoned = ColumnEncoder::new(&dates(), parse_zone("+02:00"));
        for value in ["2026-01-31", "2026-01-31T23:59", "2026-01-31 23:59:60.5"] {
            assert_eq!(plain.encode(&text(value)), day("2026-01-31"), "{value}");
            assert_eq!(zoned.encode(&text(value)), day("2026-01-31"), "{value}");
        }
        for value in ["2026-01-31T22:00:00Z", "2026-02-01 00:00:00+02", "2026-01-31T17:00:00.25-05:00"] {
            assert_eq!(zoned.encode(&text(value)), day("2026-02-01"), "{value}");
            assert_eq!(plain.encode(&text(value)), Err(RejectReason::Zone), "{value}");
        }
        assert_eq!(zoned.encode(&SourceValue::Instant(1_769_896_800)), day("2026-02-01"));
        assert_eq!(plain.encode(&SourceValue::LocalTime(-1)), day("2000-01-01"), "clamped to the first date");
        for value in
            ["2026-02-30", "31.1.2026", "2026-01-31T24:00", "2026-01-31x", "2026-01-31T10:00+25:00", "é026-01-31"]
        {
            assert_eq!(zoned.encode(&text(value)), Err(RejectReason::Date), "{value}");
        }
        assert_eq!(zoned.encode(&SourceValue::Instant(i64::MAX)), Err(RejectReason::Date));
        assert_eq!(plain.encode(&SourceValue::Date(i64::MIN)), Err(RejectReason::Date));
    }

    #[test]
    fn zones_are_offsets_from_utc() {
        let seconds = |text: &str| parse_zone(text).map(time::UtcOffset::whole_seconds);
        assert_eq!(["UTC", "Z", "+01", "-0530", "+05:45"].map(seconds), [0, 0, 3600, -19_800, 20_700].map(Some));
        assert_eq!(["", "CET", "+1", "+19:00", "+01:60", "01:00"].map(seconds), [None; 6]);
    }
}
