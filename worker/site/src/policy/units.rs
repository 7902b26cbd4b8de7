//! The lifetime limits that a job is charged to; the job must have a price for each of them.
//!
//! A limit bounds the releases of all jobs about its unit (`privacy.md`, 14.1). So a job needs room under the limit of
//! the unit that it protects and under every other limit of the dataset; otherwise it is refused.

use undertone_api::job::Charge;
use undertone_privacy::PrivacyUnit;
use undertone_privacy::ledger::{Account, LedgerError, ReservationId};

use super::{DatasetRules, LifetimeLimit, LifetimeLimits, PolicyRefusal};
use crate::datasets::LocalDataset;

/// The lifetime limits that a job on a dataset is charged to.
#[derive(Debug, Clone, PartialEq)]
pub struct UnitLimits {
    /// The limit of the unit that the job protects.
    pub own: LifetimeLimit,
    /// The limits of all other units.
    pub others: Vec<(PrivacyUnit, LifetimeLimit)>,
}

impl From<&Self> for UnitLimits {
    fn from(limits: &Self) -> Self {
        limits.clone()
    }
}

#[cfg(any(test, feature = "testing"))]
impl From<&LifetimeLimit> for UnitLimits {
    /// Makes the limits of a dataset with a single one.
    fn from(own: &LifetimeLimit) -> Self {
        Self { own: *own, others: Vec::new() }
    }
}

impl LifetimeLimits {
    /// Returns the limit of one unit.
    pub const fn limit(&self, unit: PrivacyUnit) -> Option<LifetimeLimit> {
        match unit {
            PrivacyUnit::Record => self.record,
            PrivacyUnit::Speaker => self.speaker,
            PrivacyUnit::User => self.user,
            PrivacyUnit::Words => self.words,
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&'static str, LifetimeLimit)> {
        [("record", self.record), ("speaker", self.speaker), ("user", self.user), ("words", self.words)]
            .into_iter()
            .filter_map(|(name, limit)| limit.map(|limit| (name, limit)))
    }
}

/// Returns the units whose limits apply to `local`: those that can be protected in its data, and those of other
/// datasets of its lineage, which has the same people. Words cannot be converted to the other units: once a lineage is
/// charged for words, the others are excluded, and vice versa.
pub fn units_of(local: &LocalDataset, datasets: &[LocalDataset]) -> Vec<PrivacyUnit> {
    let is_words = |unit: &PrivacyUnit| *unit == PrivacyUnit::Words;
    let mut units = local.facts.units.clone();
    for other in datasets.iter().filter(|other| other.lineage == local.lineage) {
        for unit in &other.facts.units {
            if !units.contains(unit) && local.facts.units.iter().any(|own| is_words(own) == is_words(unit)) {
                units.push(*unit);
            }
        }
    }
    units
}

impl DatasetRules {
    /// Restricts these rules to data in which `units` can be protected. A limit of another unit promises nothing about
    /// such data.
    #[must_use]
    pub fn for_units(mut self, units: &[PrivacyUnit]) -> Self {
        let keep = |unit, limit: Option<LifetimeLimit>| limit.filter(|_| units.contains(&unit));
        self.limits = LifetimeLimits {
            record: keep(PrivacyUnit::Record, self.limits.record),
            speaker: keep(PrivacyUnit::Speaker, self.limits.speaker),
            user: keep(PrivacyUnit::User, self.limits.user),
            words: keep(PrivacyUnit::Words, self.limits.words),
        };
        self
    }

    /// Returns the lifetime limits that a job which protects `unit` is charged to.
    ///
    /// # Errors
    /// [`PolicyRefusal::NoLimit`] when that unit has none.
    pub fn unit_limits(&self, unit: PrivacyUnit) -> Result<UnitLimits, PolicyRefusal> {
        let own = self.limits.limit(unit).ok_or(PolicyRefusal::NoLimit(unit))?;
        let others = [PrivacyUnit::Record, PrivacyUnit::Speaker, PrivacyUnit::User, PrivacyUnit::Words];
        let others = others.into_iter().filter(|other| *other != unit);
        Ok(UnitLimits { own, others: others.filter_map(|other| Some((other, self.limits.limit(other)?))).collect() })
    }

    /// Checks that a charge stays within the limit per job for every limited unit.
    ///
    /// # Errors
    /// [`PolicyRefusal`], in words for the proposer.
    pub(super) fn judge_units(&self, charge: &Charge) -> Result<(), PolicyRefusal> {
        let limits = self.unit_limits(charge.unit)?;
        self.judge_alone(charge, limits.own)?;
        self.judge_insider(charge, limits.own)?;
        for (unit, limit) in limits.others {
            let refused = |error| PolicyRefusal::OtherUnit(charge.explain_refusal(unit, error));
            self.judge_alone(&charge.for_unit(unit).map_err(refused)?, limit)?;
        }
        Ok(())
    }

    /// Checks that a charge by itself stays within the limit per job, at the δ of its unit's lifetime limit.
    fn judge_alone(&self, charge: &Charge, limit: LifetimeLimit) -> Result<(), PolicyRefusal> {
        let per_job = LifetimeLimit { epsilon: self.most_epsilon_per_job, ..limit }.budget(None)?;
        let mut alone = Account::new(Some(per_job));
        let cost = alone.balance().job_cost(&charge.event, charge.releases, charge.adjacency)?;
        let refused = |error: LedgerError| PolicyRefusal::PerJob {
            unit: charge.unit,
            most: self.most_epsilon_per_job.get(),
            source: Box::new(error),
        };
        alone.reserve_job(ReservationId(0), &cost, charge.releases).map_err(refused)
    }
}

#[cfg(test)]
mod tests {
    use undertone_privacy::PrivacyUnit;

    use std::path::Path;

    use super::super::{DatasetRules, LifetimeLimits, Policy, PolicyRefusal, TEMPLATE};
    use super::units_of;
    use crate::testing::{charge, gaussian, limit};

    fn limited(record: bool, speaker: bool) -> DatasetRules {
        let of = |limited: bool, epsilon| limited.then(|| limit(epsilon));
        let limits =
            LifetimeLimits { record: of(record, 30.0), speaker: of(speaker, 8.0), ..LifetimeLimits::default() };
        let template = Policy::parse(TEMPLATE, Path::new("policy.toml")).expect("the template is a policy");
        DatasetRules { limits, ..template.rules("ward-7") }
    }

    #[test]
    fn record_job_beside_a_speaker_limit_is_refused() {
        let record = undertone_api::job::Charge { unit: PrivacyUnit::Record, ..charge(gaussian(40.0), 1) };
        assert_eq!(limited(true, false).judge_units(&record), Ok(()));
        let refused = limited(true, true).judge_units(&record);
        let Err(PolicyRefusal::OtherUnit(why)) = refused else { panic!("{refused:?}") };
        assert!(why.contains("limit for the unit `speaker`") && why.contains("propose the job with the unit"), "{why}");
        assert_eq!(limited(true, true).for_units(&[PrivacyUnit::Record]).judge_units(&record), Ok(()));
    }

    #[test]
    fn limits_hold_for_the_units_of_every_dataset_of_the_lineage() {
        let of = |units: &[PrivacyUnit]| {
            let mut dataset = crate::testing::local(undertone_api::dataset::Visibility::Private);
            dataset.facts.units = units.to_vec();
            dataset
        };
        let (record, speaker, words) = (PrivacyUnit::Record, PrivacyUnit::Speaker, PrivacyUnit::Words);
        let (rows, speech, sounds) = (of(&[record]), of(&[record, speaker]), of(&[words]));
        let all = [rows.clone(), speech.clone(), sounds.clone()];
        assert_eq!(units_of(&rows, &all), [record, speaker], "the same people are kept apart under another name");
        assert_eq!((units_of(&speech, &all), units_of(&sounds, &all)), (vec![record, speaker], vec![words]));
        let elsewhere =
            crate::datasets::LocalDataset { lineage: undertone_api::id::LineageId(uuid::Uuid::nil()), ..speech };
        assert_eq!(units_of(&rows, &[rows.clone(), elsewhere]), [record]);
    }

    #[test]
    fn speaker_job_beside_a_record_limit_needs_room_in_both() {
        let speaker = charge(gaussian(40.0), 1);
        assert_eq!(limited(true, true).judge_units(&speaker), Ok(()));
        let alone = limited(false, true);
        let largest = (1..200_u64).rev().find(|count| alone.judge_units(&charge(gaussian(8.0), *count)).is_ok());
        let largest = charge(gaussian(8.0), largest.expect("one release fits"));
        let refused = limited(true, true).judge_units(&largest);
        assert!(matches!(refused, Err(PolicyRefusal::PerJob { unit: PrivacyUnit::Record, .. })), "{refused:?}");
        assert_eq!(alone.unit_limits(PrivacyUnit::Record), Err(PolicyRefusal::NoLimit(PrivacyUnit::Record)));
    }
}
