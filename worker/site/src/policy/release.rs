//! The times of releases: `jobs.release_period_seconds` and `longest_unit_seconds` (`privacy.md`, 14.7).
//!
//! Both are public numbers, fixed before private data are read. The period is the distance between two ticks of a
//! part's release clock. The longest unit bounds the contribution of one unit to the time of a round, so that a period
//! can be computed without reading private data: longer units are cut.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use undertone_api::job::Spec;
use undertone_api::job::dp_sgd::Arm;
use undertone_privacy::PrivacyUnit;

use super::PolicyRefusal;

/// Shortest period. Writing, paying and waking up take some milliseconds, more under load. A shorter period would be
/// missed for reasons unrelated to the data, and would hide less than the machine's own jitter.
pub const SHORTEST_PERIOD: Duration = Duration::from_millis(50);
/// Longest period: the longest deadline of a round.
pub const LONGEST_PERIOD: Duration = Duration::from_hours(24);
/// Shortest public length of a unit.
pub const SHORTEST_UNIT: Duration = Duration::from_millis(100);
/// Longest public length of a unit.
pub const LONGEST_UNIT: Duration = Duration::from_hours(24);
/// Feature frames per second.
const FRAMES_PER_SECOND: f64 = 100.0;
/// Default length of the longest record, seconds: the default limit of `data prepare` for recordings.
pub(super) const LONGEST_RECORD: f64 = 60.0;
/// Default length of the longest speaker or user, seconds.
pub(super) const LONGEST_PERSON: f64 = 600.0;

/// A number of seconds outside of the range of a period or a length.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("{seconds} seconds are out of range: between {least} and {most}")]
pub struct SecondsError {
    seconds: f64,
    least: f64,
    most: f64,
}

fn check_range(seconds: f64, least: Duration, most: Duration) -> Result<f64, SecondsError> {
    let (least, most) = (least.as_secs_f64(), most.as_secs_f64());
    // A comparison with NaN is false.
    if seconds >= least && seconds <= most { Ok(seconds) } else { Err(SecondsError { seconds, least, most }) }
}

/// Distance between two ticks of a release clock: whole milliseconds, between [`SHORTEST_PERIOD`] and
/// [`LONGEST_PERIOD`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct ReleasePeriod(Duration);

impl ReleasePeriod {
    /// Returns the shortest period that covers `time`, rounded up to a millisecond; `None` if it exceeds the longest
    /// period.
    pub fn covering(time: Duration) -> Option<Self> {
        let millis = u64::try_from(time.as_nanos().div_ceil(1_000_000)).ok()?;
        let period = Duration::from_millis(millis).max(SHORTEST_PERIOD);
        (period <= LONGEST_PERIOD).then_some(Self(period))
    }

    /// Returns the period as a duration.
    pub const fn as_duration(self) -> Duration {
        self.0
    }

    /// Returns the number of milliseconds.
    pub fn as_millis(self) -> u64 {
        u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns the number of seconds.
    pub const fn as_seconds(self) -> f64 {
        self.0.as_secs_f64()
    }
}

impl TryFrom<f64> for ReleasePeriod {
    type Error = SecondsError;

    fn try_from(seconds: f64) -> Result<Self, SecondsError> {
        let seconds = check_range(seconds, SHORTEST_PERIOD, LONGEST_PERIOD)?;
        let outside =
            SecondsError { seconds, least: SHORTEST_PERIOD.as_secs_f64(), most: LONGEST_PERIOD.as_secs_f64() };
        Self::covering(Duration::from_secs_f64(seconds)).ok_or(outside)
    }
}

impl From<ReleasePeriod> for f64 {
    fn from(period: ReleasePeriod) -> Self {
        period.as_seconds()
    }
}

/// The policy's periods, by kind of job.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<String, ReleasePeriod>", into = "BTreeMap<String, ReleasePeriod>")]
pub struct ReleasePeriods(BTreeMap<String, ReleasePeriod>);

impl ReleasePeriods {
    /// Returns the period of a kind of job; `None` where it is to be measured.
    pub fn of_kind(&self, kind: &str) -> Option<ReleasePeriod> {
        self.0.get(kind).copied()
    }

    /// Returns whether the policy sets no period.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Formats the periods as `policy show` prints them.
impl std::fmt::Display for ReleasePeriods {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_empty() {
            return f.write_str("measured when a job begins");
        }
        let all: Vec<String> = self.0.iter().map(|(kind, period)| format!("{kind} {}", period.as_seconds())).collect();
        write!(f, "{}; others measured", all.join(", "))
    }
}

/// An unknown kind of job.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("jobs.release_period_seconds: there is no kind of job `{0}`")]
pub struct UnknownKind(String);

impl TryFrom<BTreeMap<String, ReleasePeriod>> for ReleasePeriods {
    type Error = UnknownKind;

    fn try_from(periods: BTreeMap<String, ReleasePeriod>) -> Result<Self, UnknownKind> {
        match periods.keys().find(|kind| !Spec::KINDS.contains(&kind.as_str())) {
            Some(kind) => Err(UnknownKind(kind.clone())),
            None => Ok(Self(periods)),
        }
    }
}

impl From<ReleasePeriods> for BTreeMap<String, ReleasePeriod> {
    fn from(periods: ReleasePeriods) -> Self {
        periods.0
    }
}

/// Checks that the rounds of a job are open long enough for a release clock with this period. A release that is ready
/// in time leaves at the next tick, and must arrive before the deadline.
///
/// # Errors
/// [`PolicyRefusal::Period`] with both numbers.
pub fn judge_period(spec: &Spec, period: ReleasePeriod) -> Result<(), PolicyRefusal> {
    // A masked round takes no site that comes after half of its time.
    let is_masked = |series: &str| match spec {
        Spec::DpSgd(spec) => spec.masks().is_some() && series == Arm::Private.series(),
        _ => false,
    };
    let rounds = spec
        .series(&[])
        .into_iter()
        .map(|series| if is_masked(&series.name) { series.deadline_seconds / 2 } else { series.deadline_seconds });
    let shortest = rounds.chain(spec.questions().map(|questions| questions.deadline_seconds)).min();
    match shortest.filter(|deadline| period.as_seconds() >= f64::from(*deadline)) {
        Some(deadline) => Err(PolicyRefusal::Period { period: period.as_seconds(), deadline }),
        None => Ok(()),
    }
}

/// Length of a unit in seconds of sound: at least a tenth of a second, at most a day.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct UnitLength(f64);

impl UnitLength {
    /// Returns the number of whole frames of features, at least one.
    pub const fn frames(self) -> usize {
        (self.0 * FRAMES_PER_SECOND) as usize
    }
}

impl TryFrom<f64> for UnitLength {
    type Error = SecondsError;

    fn try_from(seconds: f64) -> Result<Self, SecondsError> {
        check_range(seconds, SHORTEST_UNIT, LONGEST_UNIT).map(Self)
    }
}

impl From<UnitLength> for f64 {
    fn from(length: UnitLength) -> Self {
        length.0
    }
}

/// Public upper bounds on the lengths of units. Longer units of private data are cut.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LongestUnits {
    /// For records (utterances).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<UnitLength>,
    /// For speakers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speaker: Option<UnitLength>,
    /// For users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<UnitLength>,
}

impl LongestUnits {
    /// Returns the length of one unit; by default `LONGEST_RECORD` or `LONGEST_PERSON`.
    pub fn of_unit(&self, unit: PrivacyUnit) -> UnitLength {
        let (declared, usual) = match unit {
            PrivacyUnit::Record | PrivacyUnit::Words => (self.record, LONGEST_RECORD),
            PrivacyUnit::Speaker => (self.speaker, LONGEST_PERSON),
            PrivacyUnit::User => (self.user, LONGEST_PERSON),
        };
        declared.unwrap_or(UnitLength(usual))
    }

    /// Returns these lengths, with unset ones taken from `general`.
    #[must_use]
    pub const fn or(self, general: Self) -> Self {
        Self {
            record: if self.record.is_some() { self.record } else { general.record },
            speaker: if self.speaker.is_some() { self.speaker } else { general.speaker },
            user: if self.user.is_some() { self.user } else { general.user },
        }
    }

    /// Returns whether no length is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Formats the lengths as `policy show` prints them.
impl std::fmt::Display for LongestUnits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let length = |unit| f64::from(self.of_unit(unit));
        let (record, speaker) = (length(PrivacyUnit::Record), length(PrivacyUnit::Speaker));
        write!(f, "record {record}, speaker {speaker}, user {}", length(PrivacyUnit::User))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::time::Duration;

    use undertone_privacy::PrivacyUnit;

    use super::{LONGEST_PERIOD, LongestUnits, ReleasePeriod, ReleasePeriods, SHORTEST_PERIOD, UnitLength};

    #[test]
    fn period_is_between_50_milliseconds_and_a_day() {
        assert_eq!((SHORTEST_PERIOD, LONGEST_PERIOD), (Duration::from_millis(50), Duration::from_hours(24)));
        for seconds in [0.05, 0.25, 86_400.0] {
            let period = ReleasePeriod::try_from(seconds).map(ReleasePeriod::as_duration);
            assert_eq!(period, Ok(Duration::from_secs_f64(seconds)));
        }
        for seconds in [0.049, 0.0, -1.0, 86_400.1, f64::NAN, f64::INFINITY] {
            assert!(ReleasePeriod::try_from(seconds).is_err(), "{seconds}");
        }
    }

    #[test]
    fn period_covers_the_time_that_was_measured() {
        let covering = |time| ReleasePeriod::covering(time).map(ReleasePeriod::as_duration);
        assert_eq!(covering(Duration::ZERO), Some(SHORTEST_PERIOD));
        assert_eq!(covering(Duration::from_micros(70_001)), Some(Duration::from_millis(71)));
        assert_eq!(covering(LONGEST_PERIOD), Some(LONGEST_PERIOD));
        assert_eq!(covering(LONGEST_PERIOD + Duration::from_nanos(1)), None);
    }

    #[test]
    fn period_of_an_unknown_kind_is_refused() {
        let parse = |text: &str| toml::from_str::<ReleasePeriods>(text);
        let periods = parse("dp_sgd = 2\ntranscription = 3600.0").unwrap();
        assert_eq!(periods.of_kind("dp_sgd"), Some(ReleasePeriod::try_from(2.0).unwrap()));
        assert_eq!(periods.of_kind("active_learning"), None);
        assert!(parse("dp_sdg = 2.0").is_err() && parse("dp_sgd = 0.0").is_err());
    }

    #[test]
    fn unit_length_falls_back_to_60_and_600_seconds() {
        let declared = LongestUnits { speaker: Some(UnitLength::try_from(120.0).unwrap()), ..LongestUnits::default() };
        let special = LongestUnits { record: Some(UnitLength::try_from(2.5).unwrap()), ..LongestUnits::default() };
        let frames = |lengths: LongestUnits, unit| lengths.of_unit(unit).frames();
        assert_eq!(frames(LongestUnits::default(), PrivacyUnit::Record), 6_000);
        assert_eq!(frames(LongestUnits::default(), PrivacyUnit::User), 60_000);
        let both = special.or(declared);
        assert_eq!((frames(both, PrivacyUnit::Record), frames(both, PrivacyUnit::Speaker)), (250, 12_000));
        for seconds in [0.0, 0.09, 86_401.0, f64::NAN] {
            assert!(UnitLength::try_from(seconds).is_err(), "{seconds}");
        }
    }
}
