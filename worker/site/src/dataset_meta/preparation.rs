//! The record of computations across privacy units in a dataset's preparation.
//!
//! A row of a dataset should depend only on its recording (or its line of a log) and on the options. Some options
//! compute over several rows. On private data they are rejected, or they remove a unit from those that a job may
//! protect. The record lists the used options, because the site's policy decides later whether data are private.

use serde::{Deserialize, Serialize};
use undertone_api::dataset::{Visibility, usual_units};
use undertone_privacy::PrivacyUnit;

/// The origin of a dataset's number of classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClassSource {
    /// Stated before the labels were read (`--classes`), or there are no classes.
    #[default]
    Declared,
    /// An existing map (`--class-map`, `--phone-map`).
    Map,
    /// The model of the aligner that made the labels.
    Aligner,
    /// Counted in the labels.
    Labels,
}

/// The computations of a preparation across privacy units.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PreparationRecord {
    /// Options and conditions that made the rows of one unit depend on other units, whatever the unit.
    pub across_units: Vec<String>,
    /// Options that made a record depend on other records of the same speaker and user.
    pub across_records: Vec<String>,
    /// The origin of the number of classes.
    pub class_source: ClassSource,
}

impl PreparationRecord {
    /// Returns the units whose rows depend on nothing outside the unit, ascending, of a dataset of speech.
    ///
    /// The answer depends on the options alone, never on the data, because it leaves the site when a dataset is
    /// registered.
    pub fn speech_units(&self, has_users: bool) -> Vec<PrivacyUnit> {
        if !self.across_units.is_empty() {
            return Vec::new();
        }
        let independent = |unit: &PrivacyUnit| *unit != PrivacyUnit::Record || self.across_records.is_empty();
        usual_units().into_iter().filter(independent).chain(has_users.then_some(PrivacyUnit::User)).collect()
    }

    /// Returns the units whose rows depend on nothing outside the unit, ascending, of a query log.
    pub fn query_units(&self, has_users: bool) -> Vec<PrivacyUnit> {
        if !self.across_units.is_empty() {
            return Vec::new();
        }
        let records = self.across_records.is_empty().then_some(PrivacyUnit::Record);
        records.into_iter().chain(has_users.then_some(PrivacyUnit::User)).collect()
    }

    /// Returns the used options and conditions that require public data, as text. Returns `None` if there are none, or
    /// if the dataset is public.
    pub fn conflict_with(&self, visibility: Visibility) -> Option<String> {
        let option = (self.class_source == ClassSource::Labels).then_some("classes counted in the labels");
        let causes: Vec<&str> = self.across_units.iter().map(String::as_str).chain(option).collect();
        (visibility != Visibility::Public && !causes.is_empty()).then(|| causes.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use undertone_api::dataset::Visibility;
    use undertone_privacy::PrivacyUnit;

    use super::{ClassSource, PreparationRecord};

    #[test]
    fn options_take_away_the_units_they_mix() {
        let plain = PreparationRecord::default();
        let (record, speaker, user) = (PrivacyUnit::Record, PrivacyUnit::Speaker, PrivacyUnit::User);
        assert_eq!(plain.speech_units(false), [record, speaker]);
        assert_eq!(plain.speech_units(true), [record, speaker, user]);
        assert_eq!((plain.query_units(false), plain.query_units(true)), (vec![record], vec![record, user]));
        let first = PreparationRecord { across_records: vec!["--first".to_owned()], ..plain.clone() };
        assert_eq!((first.speech_units(true), first.query_units(true)), (vec![speaker, user], vec![user]));
        let record = PreparationRecord { across_units: vec!["--least-frames".to_owned()], ..plain };
        assert!(record.speech_units(true).is_empty() && record.query_units(true).is_empty());
    }

    #[test]
    fn public_options_conflict_with_private_data_only() {
        let plain = PreparationRecord::default();
        let labels = PreparationRecord { class_source: ClassSource::Labels, ..plain.clone() };
        let range = PreparationRecord { across_units: vec!["--speaker-range".to_owned()], ..plain.clone() };
        for visibility in [Visibility::Private, Visibility::Open] {
            assert_eq!(plain.conflict_with(visibility), None);
            assert_eq!(labels.conflict_with(visibility).as_deref(), Some("classes counted in the labels"));
            assert_eq!(range.conflict_with(visibility).as_deref(), Some("--speaker-range"));
        }
        assert_eq!((labels.conflict_with(Visibility::Public), range.conflict_with(Visibility::Public)), (None, None));
    }
}
