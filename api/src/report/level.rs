//! ε at a level: the guarantee of the releases for single records, and for a speaker's whole data.

use serde::{Deserialize, Serialize};
use undertone_privacy::level::{self, LevelError};
use undertone_privacy::pld::Plan;
use undertone_privacy::{Adjacency, Delta, Epsilon, Event, OrderGrid, PrivacyUnit, convert, mechanism};

use crate::dataset::SizeClass;
use crate::job::transcription::window::ONE_WORD;

/// The least ε that is meaningless: an observer of the releases can distinguish presence from absence almost always,
/// since e to this many nats is a factor of five hundred million.
pub const MEANINGLESS: f64 = 20.0;

/// The derivation of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = LevelHow))]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum LevelDerivation {
    /// The job protected this level.
    Protected,
    /// The job protected single records. One speaker may have at most this number, by the size classes of the dataset.
    /// A separate coin decided the draw of each of them (Ganesh 2024).
    Group {
        /// The number of records.
        records: u64,
    },
    /// The job protected speakers. A change of one record is a replacement of one speaker.
    Part,
    /// The job protected a limited number of words. A whole recording may have more, and so has no guarantee.
    Whole,
}

/// ε at one level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = PrivacyLevel))]
pub struct PrivacyLevel {
    /// The level: records, speakers (users), or words.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::unit))]
    pub unit: PrivacyUnit,
    /// The derivation of the figure.
    #[serde(flatten)]
    pub how: LevelDerivation,
    /// The tight ε of the closed job, rounded up; absent if there is none.
    #[serde(default)]
    pub epsilon: Option<f64>,
    /// ε by the accountant of the ledgers, rounded up; only for the level at which they count.
    #[serde(default)]
    pub renyi: Option<f64>,
    /// Whether the figure is a useful bound. It is not if it is absent or above 20.
    pub meaningful: bool,
    /// The figure, or the reason for its absence, in a sentence.
    pub said: String,
}

/// The releases of a dataset, with the facts that their guarantee depends on.
#[derive(Debug, Clone, Copy)]
pub struct DatasetReleases<'a> {
    /// The protected level.
    pub unit: PrivacyUnit,
    /// The adjacency.
    pub adjacency: Adjacency,
    /// One of them.
    pub event: &'a Event,
    /// Their number.
    pub count: u64,
    /// δ of the account that pays.
    pub delta: Delta,
    /// The approximate number of training records of the dataset.
    pub records: SizeClass,
    /// The approximate number of its training speakers.
    pub speakers: SizeClass,
}

/// The words for the dataset's content.
#[derive(Debug, Clone, Copy)]
struct ContentWords {
    record: &'static str,
    person: &'static str,
    all: &'static str,
    /// The unit of a record's owner.
    unit: PrivacyUnit,
    /// d, for releases that protect words; else 0.
    words: u32,
}

impl ContentWords {
    /// Returns the words for an event: only query logs release samples with a threshold.
    fn from_event(event: &Event) -> Self {
        let (record, person, all, unit) = if matches!(event, Event::SampledThreshold { .. }) {
            ("row", "user", "everything one user asked", PrivacyUnit::User)
        } else {
            ("recording", "speaker", "everything one speaker said", PrivacyUnit::Speaker)
        };
        let words = hidden_words(event);
        Self { record, person, all, unit, words }
    }
}

/// Returns d of the histogram in an event; 0 without one.
fn hidden_words(event: &Event) -> u32 {
    match event {
        Event::TruncatedLaplace { distance, .. } => distance.get(),
        Event::Composed { events } => events.iter().map(hidden_words).max().unwrap_or(0),
        _ => 0,
    }
}

impl PrivacyLevel {
    /// Returns both levels of the releases: records first.
    pub fn compute_levels(releases: &DatasetReleases<'_>) -> Vec<Self> {
        let own = Self::compute_protected(releases);
        match releases.unit {
            PrivacyUnit::Record => vec![own, Self::compute_person(releases)],
            PrivacyUnit::Speaker | PrivacyUnit::User => vec![Self::compute_record(releases), own],
            PrivacyUnit::Words => {
                let why_not = "only counts of its pieces by word are protected";
                vec![
                    own,
                    Self::assemble(
                        PrivacyUnit::Record,
                        LevelDerivation::Whole,
                        None,
                        ContentWords::from_event(releases.event),
                        why_not,
                    ),
                ]
            }
        }
    }

    fn compute_protected(releases: &DatasetReleases<'_>) -> Self {
        let DatasetReleases { unit, adjacency, event, count, delta, .. } = *releases;
        let count = event.count_charges(count);
        let mut plan = Plan::new();
        plan.add(event, adjacency, count);
        let curve = mechanism::curve(event, adjacency, &OrderGrid::reporting());
        let renyi = curve.ok().and_then(|curve| convert::epsilon(&curve.times(count), delta)).map(Epsilon::get);
        // If the losses have no grid, only the Rényi bound is available.
        let tight = plan.epsilon(delta).ok().flatten().map(Epsilon::get);
        let epsilon = [tight, renyi].into_iter().flatten().reduce(f64::min);
        let level = Self::assemble(
            unit,
            LevelDerivation::Protected,
            epsilon,
            ContentWords::from_event(event),
            "the mechanism hides nothing",
        );
        Self { renyi, ..level }
    }

    /// Returns the level of a person's whole data, where single records are protected.
    fn compute_person(releases: &DatasetReleases<'_>) -> Self {
        let DatasetReleases { event, count, delta, records, speakers, .. } = *releases;
        // Every other speaker has at least one record.
        let most = records.most().saturating_sub(speakers.least().max(1) - 1).max(1);
        let how = LevelDerivation::Group { records: most };
        let data = ContentWords::from_event(event);
        let unit = data.unit;
        match level::of_group(event, count, most, delta) {
            Ok(epsilon) => Self::assemble(unit, how, epsilon.map(Epsilon::get), data, "the mechanism hides nothing"),
            Err(error @ (LevelError::Hopeless | LevelError::Pld(_) | LevelError::NoFormula(_))) => {
                Self::assemble(unit, how, None, data, &error.to_string())
            }
        }
    }

    /// Returns the level of one record, where speakers are protected.
    fn compute_record(releases: &DatasetReleases<'_>) -> Self {
        let DatasetReleases { event, count, delta, .. } = *releases;
        match level::of_part(event, count, delta) {
            Ok(epsilon) => {
                let epsilon = epsilon.map(Epsilon::get);
                Self::assemble(
                    PrivacyUnit::Record,
                    LevelDerivation::Part,
                    epsilon,
                    ContentWords::from_event(event),
                    "the mechanism hides nothing",
                )
            }
            Err(error) => Self::assemble(
                PrivacyUnit::Record,
                LevelDerivation::Part,
                None,
                ContentWords::from_event(event),
                &error.to_string(),
            ),
        }
    }

    fn assemble(
        unit: PrivacyUnit,
        how: LevelDerivation,
        epsilon: Option<f64>,
        data: ContentWords,
        why_not: &str,
    ) -> Self {
        let ContentWords { record, person, all, words, .. } = data;
        let one_record = || format!("a single {record}");
        let (one, grounds) = match (unit, how) {
            (PrivacyUnit::Record, LevelDerivation::Part) => (
                one_record(),
                format!(
                    ": the job protects whole {person}s, and a {record} more or less counts as its {person} replaced"
                ),
            ),
            (PrivacyUnit::Record, _) => (one_record(), String::new()),
            (PrivacyUnit::Words, _) => (
                format!("{words} {} of pieces by word", if words == 1 { "count" } else { "counts" }),
                format!(
                    ", added and removed together, for a reader of counts only; one spoken word changes at most {ONE_WORD}"
                ),
            ),
            (PrivacyUnit::Speaker | PrivacyUnit::User, LevelDerivation::Group { records }) => (
                all.to_owned(),
                format!(
                    ": the job protects single {record}s, and by the dataset's size classes one {person} may have {records} of them"
                ),
            ),
            (PrivacyUnit::Speaker, _) => (all.to_owned(), String::new()),
            (PrivacyUnit::User, _) => ("everything one user brought".to_owned(), String::new()),
        };
        let meaningful = epsilon.is_some_and(|epsilon| epsilon <= MEANINGLESS);
        let sentence = match epsilon {
            Some(_) if meaningful => format!("Bounds what {one} can change{grounds}."),
            Some(_) => format!(
                "No meaningful bound on what {one} can change{grounds}; an ε above {MEANINGLESS} hides next to nothing."
            ),
            None => format!("No meaningful bound on what {one} can change{grounds} ({why_not})."),
        };
        Self { unit, how, epsilon, renyi: None, meaningful, said: sentence }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use undertone_privacy::{Adjacency, Delta, Event, NoiseMultiplier, PrivacyUnit, SamplingRate};

    use super::{DatasetReleases, LevelDerivation, PrivacyLevel};
    use crate::dataset::SizeClass;

    fn levels(unit: PrivacyUnit, z: f64, count: u64, records: u64, speakers: u64) -> Vec<PrivacyLevel> {
        let event = Event::PoissonSampledGaussian {
            sampling_rate: SamplingRate::new(0.1).unwrap(),
            noise_multiplier: NoiseMultiplier::new(z).unwrap(),
        };
        PrivacyLevel::compute_levels(&DatasetReleases {
            unit,
            adjacency: Adjacency::AddRemove,
            event: &event,
            count,
            delta: Delta::new(1e-6).unwrap(),
            records: SizeClass(records),
            speakers: SizeClass(speakers),
        })
    }

    #[test]
    fn protected_records_guarantee_speakers_nothing() {
        let both = levels(PrivacyUnit::Record, 1.5, 40, 500, 20);
        assert_eq!([both[0].unit, both[1].unit], [PrivacyUnit::Record, PrivacyUnit::Speaker]);
        let own = both[0].epsilon.unwrap();
        assert!(both[0].how == LevelDerivation::Protected && both[0].meaningful && own <= both[0].renyi.unwrap());
        // 707 records at most, 14 speakers at least.
        let LevelDerivation::Group { records } = both[1].how else { panic!("{:?}", both[1]) };
        assert_eq!(records, SizeClass(500).most() - SizeClass(20).least() + 1);
        assert!(!both[1].meaningful && both[1].said.starts_with("No meaningful bound"), "{:?}", both[1]);
        assert!(both[1].epsilon.is_none_or(|epsilon| epsilon > own));
    }

    #[test]
    fn protected_words_guarantee_recordings_nothing() {
        let event = Event::TruncatedLaplace {
            rate: undertone_privacy::Epsilon::new(0.1).unwrap(),
            shift: 150,
            distance: 10.try_into().unwrap(),
            partition: undertone_privacy::histogram::Partition::NONE,
        };
        let both = PrivacyLevel::compute_levels(&DatasetReleases {
            unit: PrivacyUnit::Words,
            adjacency: Adjacency::AddRemove,
            event: &event,
            count: 1,
            delta: Delta::new(1e-5).unwrap(),
            records: SizeClass(50),
            speakers: SizeClass(1),
        });
        assert_eq!([both[0].unit, both[1].unit], [PrivacyUnit::Words, PrivacyUnit::Record]);
        assert!(both[0].meaningful && both[0].epsilon.is_some_and(|epsilon| epsilon < 1.01), "{:?}", both[0]);
        assert!(both[0].said.contains("10 counts of pieces by word"), "{}", both[0].said);
        assert!(both[1].epsilon.is_none() && !both[1].meaningful && both[1].said.starts_with("No meaningful bound"));
    }

    #[test]
    fn levels_of_query_logs_name_no_recordings() {
        let event = Event::SampledThreshold {
            sampling_rate: SamplingRate::new(0.1).unwrap(),
            threshold: 20.try_into().unwrap(),
            epsilon: undertone_privacy::Epsilon::new(1.0).unwrap(),
            shown: undertone_privacy::kanon::Shown::Set,
            rows_per_unit: 1.try_into().unwrap(),
        };
        for unit in [PrivacyUnit::Record, PrivacyUnit::User] {
            let levels = PrivacyLevel::compute_levels(&DatasetReleases {
                unit,
                adjacency: Adjacency::AddRemove,
                event: &event,
                count: 1,
                delta: Delta::new(1e-6).unwrap(),
                records: SizeClass(1000),
                speakers: SizeClass(1),
            });
            assert_eq!(
                levels.iter().map(|level| level.unit).collect::<Vec<_>>(),
                [PrivacyUnit::Record, PrivacyUnit::User]
            );
            for level in levels {
                assert!(!level.said.contains("record") && !level.said.contains("speaker"), "{}", level.said);
            }
        }
    }

    #[test]
    fn speakers_with_one_record_equal_a_small_group() {
        let both = levels(PrivacyUnit::Record, 40.0, 4, 2, 2);
        assert!(both[1].meaningful && both[1].epsilon.unwrap() > both[0].epsilon.unwrap(), "{both:?}");
    }

    #[test]
    fn protected_speakers_bound_records_as_replacement() {
        let both = levels(PrivacyUnit::Speaker, 2.0, 40, 500, 20);
        assert_eq!((both[0].how, both[1].how), (LevelDerivation::Part, LevelDerivation::Protected));
        assert!(both[0].epsilon.unwrap() > both[1].epsilon.unwrap(), "{both:?}");
        assert!(both[0].said.contains("replaced") && both[1].said.contains("everything one speaker said"));
    }
}
