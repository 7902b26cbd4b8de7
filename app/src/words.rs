//! Formats of numbers, times and states. Every spent ε is rounded up, every remainder down.

use time::OffsetDateTime;
use undertone_api::dataset::Visibility;
use undertone_api::member::Role;
use undertone_api::plan::PlanAccount;
use undertone_privacy::ledger::FilterKind;
use undertone_privacy::{Adjacency, Event};

mod unit;

pub use unit::{DUMMY_DETECTION, any_one, each, gauge_noun, unit, unit_meaning, unit_measurement};

/// The meaning of ε, for the hover of its first mention on a page.
pub const EPSILON: &str =
    "ε bounds the effect of any one unit on what others see: probabilities change by a factor of at most e to the ε";
/// The meaning of δ.
pub const DELTA: &str = "δ, the probability with which the guarantee of ε may fail";

/// The meaning of the length of a budget's gauge.
pub const SHARE: &str = "The part of the limit ε that is spent or reserved; the bar shows it. Several jobs cost less together than the sum of their ε, so the room can be larger than it looks.";

/// Formats the used part of a budget, in whole percent rounded up: `11 %`.
pub fn share(fraction: f64) -> String {
    format!("{} %", (fraction.clamp(0.0, 1.0) * 100.0 - 1e-9).ceil() as u64)
}

/// Formats a spent, requested or reserved ε: rounded up. Two decimals below 100, none from 1,000, never fewer than two
/// significant digits.
pub fn epsilon(value: f64) -> String {
    round_toward(value, RoundingDirection::Up)
}

/// Formats a remaining ε: rounded down.
pub fn epsilon_left(value: f64) -> String {
    round_toward(value, RoundingDirection::Down)
}

/// Formats a limit: exactly as it was set, up to four decimals.
pub fn limit(value: f64) -> String {
    let text = format!("{value:.4}");
    let trimmed = text.trim_end_matches('0').trim_end_matches('.');
    let decimals = trimmed.split_once('.').map_or(0, |(_, tail)| tail.len());
    if decimals < 2 { group(&format!("{value:.2}")) } else { group(trimmed) }
}

#[derive(Clone, Copy, PartialEq)]
enum RoundingDirection {
    Up,
    Down,
}

fn round_toward(value: f64, toward: RoundingDirection) -> String {
    if value.is_nan() || value == f64::INFINITY {
        return "∞".to_owned();
    }
    let value = value.max(0.0);
    let decimals: u8 = match value {
        v if v == 0.0 || (0.1..100.0).contains(&v) => 2,
        v if v >= 1000.0 => 0,
        v if v >= 100.0 => 1,
        // Two significant digits of a small number; numbers below a millionth are not distinguished.
        v => ((1.0 - v.log10().floor()) as u8).min(6),
    };
    let step = 10_f64.powi(-i32::from(decimals));
    let decimals = usize::from(decimals);
    let mut text = format!("{value:.decimals$}");
    // If the nearest decimal is on the wrong side, use the next one. Its distance is one last digit.
    let nearest: f64 = text.parse().unwrap_or(value);
    match toward {
        RoundingDirection::Up if nearest < value => text = format!("{:.decimals$}", nearest + step),
        RoundingDirection::Down if nearest > value => text = format!("{:.decimals$}", (nearest - step).max(0.0)),
        _ => {}
    }
    group(&text)
}

/// Inserts commas between thousands.
fn group(text: &str) -> String {
    let (whole, tail) = text.split_once('.').map_or((text, None), |(whole, tail)| (whole, Some(tail)));
    let digits = whole.len();
    let mut out = String::with_capacity(text.len() + digits / 3);
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (digits - index) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    if let Some(tail) = tail {
        out.push('.');
        out.push_str(tail);
    }
    out
}

/// Formats a δ as a power of ten: `10⁻⁶`, `2.5·10⁻⁷`.
pub fn delta(value: f64) -> String {
    if value <= 0.0 {
        return "0".to_owned();
    }
    let text = format!("{value:.2e}");
    let Some((mantissa, exponent)) = text.split_once('e') else { return text };
    let mantissa = mantissa.trim_end_matches('0').trim_end_matches('.');
    let power: String = exponent.chars().map(superscript).collect();
    if mantissa == "1" { format!("10{power}") } else { format!("{mantissa}·10{power}") }
}

fn superscript(c: char) -> char {
    match c {
        '-' => '⁻',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        '0'..='9' => char::from_u32(u32::from(c) - u32::from('0') + 0x2070).unwrap_or(c),
        other => other,
    }
}

/// Formats a count: `12,345`.
pub fn count(value: u64) -> String {
    group(&value.to_string())
}

/// Formats a count with its noun: `1 round`, `2,000 rounds`.
pub fn plural(value: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(value), if value == 1 { "" } else { "s" })
}

/// Formats the number of charges of an event, by the form of each: `44 releases`, `44 rounds of 20 releases each`.
pub fn releases(paid: u64, event: &Event) -> String {
    let each = |event: &Event| match event {
        Event::Repeated { count, .. } => plural(*count, "release"),
        _ => "1 release".to_owned(),
    };
    match event {
        Event::Repeated { .. } => format!("{} of {} each", plural(paid, "round"), each(event)),
        Event::BandedGaussian { .. } => format!("{}, charged together", plural(paid, "release")),
        Event::Selected { of, .. } => {
            format!("{}, each the best of several runs of {}", plural(paid, "round"), each(of))
        }
        _ => plural(paid, "release"),
    }
}

/// Formats a list of names in words, in their order: `a, b and c`.
pub fn join_names(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [head @ .., last] => format!("{} and {last}", head.join(", ")),
    }
}

/// Formats a proportion with one decimal: `41.2 %`.
pub fn percent(value: f64) -> String {
    format!("{:.1} %", value * 100.0)
}

/// Formats a difference of proportions in percentage points, with its sign: `+1.25`, `−0.40`.
pub fn points(difference: f64) -> String {
    format!("{:+.2}", difference * 100.0).replace('-', "−")
}

/// Formats a size in bytes: `6.9 MB`.
pub fn bytes(value: u64) -> String {
    let mut size = value as f64;
    let mut unit = "bytes";
    for next in ["kB", "MB", "GB", "TB"] {
        if size < 1000.0 {
            break;
        }
        size /= 1000.0;
        unit = next;
    }
    if unit == "bytes" { plural(value, "byte") } else { format!("{size:.1} {unit}") }
}

/// Formats a plain number, up to four decimals: slider values, learning rates. A number below a thousandth has an
/// exponent, and up to four decimals before it.
pub fn number(value: f64) -> String {
    let trim = |text: &str| match text.split_once('.') {
        Some(_) => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        None => text.to_owned(),
    };
    if value == 0.0 || value.abs() >= 0.001 || !value.is_finite() {
        return trim(&format!("{value:.4}"));
    }
    let text = format!("{value:.4e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    format!("{}e{exponent}", trim(mantissa))
}

/// Formats a number with as many digits as an error of this size leaves meaningful: to two digits of the error.
pub fn to_error(value: f64, error: f64) -> String {
    let decimals = if error > 0.0 { (1.0 - error.log10().floor()).clamp(0.0, 9.0) } else { 4.0 };
    let text = format!("{value:.0$}", decimals as usize);
    if text.trim_start_matches('-').chars().all(|digit| matches!(digit, '0' | '.')) {
        return "0".to_owned();
    }
    text
}

/// Formats a number with all its digits, for a form's field: sent back, it is the same number.
pub fn all_digits(value: f64) -> String {
    if value != 0.0 && value.abs() < 0.001 { format!("{value:e}") } else { value.to_string() }
}

/// Formats a span of time in its largest suitable unit: `45 seconds`, `3 minutes`, `2 hours`.
pub fn duration(seconds: f64) -> String {
    let whole = seconds.max(0.0);
    for (length, noun) in [(86_400.0, "day"), (3600.0, "hour"), (60.0, "minute")] {
        if whole >= 1.5 * length || (whole >= length && noun == "day") {
            return plural((whole / length).round() as u64, noun);
        }
    }
    if whole > 0.0 && whole < 1.0 { "less than a second".to_owned() } else { plural(whole.round() as u64, "second") }
}

/// Formats a moment relative to `now`: `just now`, `3 minutes ago`, `in 2 hours`.
pub fn relative(at: OffsetDateTime, now: OffsetDateTime) -> String {
    let seconds = (now - at).as_seconds_f64();
    if seconds.abs() < 5.0 {
        "just now".to_owned()
    } else if seconds < 0.0 {
        format!("in {}", duration(-seconds))
    } else {
        format!("{} ago", duration(seconds))
    }
}

/// Formats a moment in full, in UTC: `20 November 2026, 18:03:12 UTC`.
pub fn exact(at: OffsetDateTime) -> String {
    let at = at.to_offset(time::UtcOffset::UTC);
    format!("{} {} {}, {:02}:{:02}:{:02} UTC", at.day(), at.month(), at.year(), at.hour(), at.minute(), at.second())
}

/// Formats the day of a moment, in UTC, to follow "since", "until" and "after": `20 November 2026`.
pub fn day(at: OffsetDateTime) -> String {
    let at = at.to_offset(time::UtcOffset::UTC);
    format!("{} {} {}", at.day(), at.month(), at.year())
}

/// Formats a moment for HTML's `datetime` attribute.
pub fn machine(at: OffsetDateTime) -> String {
    at.format(&time::format_description::well_known::Rfc3339).unwrap_or_default()
}

/// Returns the beginning of a digest.
pub fn short(digest: &str) -> String {
    digest.chars().take(12).collect()
}

/// Describes the effect of a job on one of the accounts that it charges.
pub fn account(account: &PlanAccount) -> String {
    let each = each(account.unit);
    let (Some(limit), Some(delta)) = (account.limit, account.delta) else {
        return format!("For {each}: no limit is set.");
    };
    match (&account.reason, account.after) {
        (Some(reason), _) => format!("For {each}: refused, because {reason}."),
        (None, Some(after)) => format!(
            "For {each}: from ε {} to ε {} of {} at δ {}{}.{}",
            epsilon(account.before),
            epsilon(after),
            self::limit(limit),
            self::delta(delta),
            if account.fits { "" } else { ", which does not fit" },
            account.rounds_that_fit.map_or_else(String::new, |rounds| match account.filter {
                FilterKind::Renyi => format!(" It admits {}.", plural(rounds.into(), "round")),
                FilterKind::Gaussian => {
                    format!(
                        " Its Gaussian filter admits {} and charges the job as a whole.",
                        plural(rounds.into(), "round")
                    )
                }
            })
        ),
        (None, None) => format!("For {each}: no ε covers it, so it exceeds the limit {}.", self::limit(limit)),
    }
}

/// Describes the adjacency.
pub const fn adjacency(adjacency: Adjacency) -> &'static str {
    match adjacency {
        Adjacency::AddRemove => "one added or removed",
        Adjacency::ZeroOut => "one emptied",
        Adjacency::ReplaceOne => "one replaced",
    }
}

/// Returns a visibility in one word.
pub const fn visibility(visibility: Visibility) -> &'static str {
    match visibility {
        Visibility::Private => "private",
        Visibility::Open => "open",
        Visibility::Public => "public",
    }
}

/// Describes the releases that a visibility permits.
pub const fn visibility_meaning(visibility: Visibility) -> &'static str {
    match visibility {
        Visibility::Private => "Only differentially private releases leave the site.",
        Visibility::Open => "Private, but its owner allows exact gradients for the comparison with open pooling.",
        Visibility::Public => "Published anyway: exact gradients and metrics may leave the site.",
    }
}

/// Returns the name of a role.
pub const fn role(role: Role) -> &'static str {
    match role {
        Role::ConsortiumAdmin => "consortium admin",
        Role::OrganizationAdmin => "organization admin",
        Role::DataSteward => "data steward",
        Role::Researcher => "researcher",
        Role::Auditor => "auditor",
        Role::Annotator => "annotator",
    }
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;
    use undertone_privacy::{Event, NoiseMultiplier};

    use super::{
        all_digits, bytes, count, delta, duration, epsilon, epsilon_left, exact, join_names, limit, number, percent,
        plural, relative, releases, share, to_error,
    };

    #[test]
    fn number_has_two_digits_of_its_error() {
        for (value, error, text) in [
            (3030.5721, 29.2, "3031"),
            (56.4635, 0.4968, "56.46"),
            (-0.001, 17.0, "0"),
            (12.5, 0.0, "12.5000"),
            (0.0123, 0.0123, "0.012"),
        ] {
            assert_eq!(to_error(value, error), text);
        }
    }

    #[test]
    fn spent_epsilon_is_rounded_up() {
        for value in [0.0, 1e-9, 0.001_23, 0.012, 0.1, 2.41, 2.410_000_1, 9.999, 99.991, 384.91, 4816.8] {
            let number: f64 = epsilon(value).replace(',', "").parse().expect("an epsilon is said as a number");
            assert!(number >= value, "{value} is said as {number}");
        }
    }

    #[test]
    fn remaining_epsilon_is_rounded_down() {
        for value in [0.0, 1e-9, 0.001_29, 0.019, 5.589_999, 99.999, 384.99, 4816.8] {
            let number: f64 = epsilon_left(value).replace(',', "").parse().expect("an epsilon is said as a number");
            assert!(number <= value, "{value} is said as {number}");
        }
    }

    #[test]
    fn decimal_epsilon_is_unchanged() {
        assert_eq!(epsilon(2.41), "2.41");
        assert_eq!(epsilon(2.410_000_1), "2.42");
        assert_eq!(epsilon_left(2.419_9), "2.41");
        assert_eq!(epsilon(0.0), "0.00");
        assert_eq!(epsilon(0.001_23), "0.0013");
        assert_eq!(epsilon(4816.2), "4,817");
        assert_eq!(epsilon(f64::INFINITY), "∞");
    }

    #[test]
    fn share_is_rounded_up() {
        assert_eq!([0.0, 0.104, 0.11, 0.999, 1.0].map(share), ["0 %", "11 %", "11 %", "100 %", "100 %"]);
    }

    #[test]
    fn limit_is_formatted_as_set() {
        assert_eq!(limit(8.0), "8.00");
        assert_eq!(limit(0.125), "0.125");
        assert_eq!(limit(10_000.0), "10,000.00");
    }

    #[test]
    fn delta_is_a_power_of_ten() {
        assert_eq!(delta(1e-6), "10⁻⁶");
        assert_eq!(delta(2.5e-7), "2.5·10⁻⁷");
        assert_eq!(delta(0.0), "0");
        assert_eq!(delta(1e-10), "10⁻¹⁰");
    }

    #[test]
    fn duration_uses_the_largest_suitable_unit() {
        assert_eq!(duration(0.0), "0 seconds");
        assert_eq!(duration(0.2), "less than a second");
        assert_eq!(duration(1.0), "1 second");
        assert_eq!(duration(61.0), "61 seconds");
        assert_eq!(duration(150.0), "3 minutes");
        assert_eq!(duration(7200.0), "2 hours");
        assert_eq!(duration(90_000.0), "1 day");
    }

    #[test]
    fn moment_is_formatted_relative_and_exact() {
        let now = datetime!(2026-11-20 18:03:12 UTC);
        assert_eq!(relative(datetime!(2026-11-20 18:00:12 UTC), now), "3 minutes ago");
        assert_eq!(relative(datetime!(2026-11-20 18:03:10 UTC), now), "just now");
        assert_eq!(relative(datetime!(2026-11-20 20:03:12 UTC), now), "in 2 hours");
        assert_eq!(exact(now), "20 November 2026, 18:03:12 UTC");
    }

    #[test]
    fn releases_are_described_by_their_event() {
        let step = Event::Gaussian { noise_multiplier: NoiseMultiplier::new(1.0).expect("a noise") };
        assert_eq!(releases(1, &step), "1 release");
        assert_eq!(releases(44, &step.clone().times(20)), "44 rounds of 20 releases each");
        assert_eq!(join_names(&["a", "b", "c"]), "a, b and c");
    }

    #[test]
    fn counts_and_sizes_are_grouped_and_shortened() {
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(plural(1, "round"), "1 round");
        assert_eq!(plural(2000, "round"), "2,000 rounds");
        assert_eq!(bytes(6_912_345), "6.9 MB");
        assert_eq!(bytes(1), "1 byte");
        assert_eq!(percent(0.4117), "41.2 %");
        assert_eq!(number(0.123_456), "0.1235");
        assert_eq!(number(0.1), "0.1");
        assert_eq!(number(0.000_1), "1e-4");
        assert_eq!(number(20.0), "20");
        assert_eq!(number(0.0), "0");
    }

    #[test]
    fn tiny_numbers_have_four_decimals_at_most() {
        assert_eq!(number(1.234_567_89e-7), "1.2346e-7");
        assert_eq!(number(-2.5e-5), "-2.5e-5");
        assert_eq!(number(1e-10), "1e-10");
    }

    #[test]
    fn number_with_all_digits_is_read_back_as_itself() {
        for value in [0.0, 1e-6, 1.234_567_89e-7, 0.001_234_567, 0.1, 20.0] {
            assert_eq!(all_digits(value).parse(), Ok(value));
        }
        assert_eq!(all_digits(1e-6), "1e-6");
    }
}
