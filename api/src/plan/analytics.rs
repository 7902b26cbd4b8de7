//! Plans of an `analytics` job: one vector of each site, charged once, by its noise, which is the same at all sites.

use undertone_privacy::NoiseMultiplier;

use super::{PlanParameter, RoundedKind};
use crate::id::DatasetId;
use crate::job::analytics::Spec;

impl RoundedKind for Spec {
    const ROUND: &'static str = "analysis";
    const NOISE_IS_SHARED: bool = true;

    fn rounds(&self) -> u32 {
        1
    }

    fn value(&self, knob: PlanParameter, dataset: DatasetId) -> Option<f64> {
        match knob {
            PlanParameter::Noise if self.is_participant(dataset) => Some(self.noise_multiplier.get()),
            _ => None,
        }
    }

    fn set(&mut self, knob: PlanParameter, dataset: DatasetId, value: f64) {
        if knob == PlanParameter::Noise
            && self.is_participant(dataset)
            && let Ok(z) = NoiseMultiplier::new(value)
        {
            self.noise_multiplier = z;
        }
    }

    fn field(&self, _knob: PlanParameter, _dataset: DatasetId) -> String {
        "spec.noise_multiplier".to_owned()
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "constants of a test are in range")]

    use undertone_privacy::ledger::{Balance, Budget, GridKind};
    use undertone_privacy::{Adjacency, Delta, Epsilon, NoiseMultiplier};

    use super::super::{AccountBalances, AccountKey, PricedPlan, offers};
    use crate::job::analytics::tests;

    #[test]
    fn offer_has_the_least_noise_that_fits() {
        let mut spec = tests::example().0;
        spec.noise_multiplier = NoiseMultiplier::new(0.5).unwrap();
        let datasets = tests::datasets();
        let mut balances = AccountBalances::default();
        for (dataset, epsilon) in datasets.iter().zip([1.0, 3.0]) {
            let key = AccountKey::new(dataset.organization, dataset.lineage, spec.unit, Adjacency::ZeroOut);
            let epsilon = Epsilon::new(epsilon).unwrap();
            let budget = Budget::new(epsilon, Delta::new(1e-6).unwrap(), GridKind::for_epsilon(epsilon)).unwrap();
            balances.add(key, Balance::new(Some(budget)));
        }
        let offered = offers(&spec, &datasets, &balances);
        assert_eq!(offered.len(), 1, "{offered:?}");
        let fitting = offered[0].apply(&spec);
        let is_admitted = |spec| PricedPlan::from_spec(spec, &datasets, &balances).unwrap().admitted();
        assert!(is_admitted(&fitting) && !is_admitted(&spec));
        // The noise of the offer is what the errors grow by.
        let error = |spec: &crate::job::analytics::Spec| spec.expected_errors(&datasets).unwrap()[0].overall;
        let ratio = fitting.noise_multiplier.get() / spec.noise_multiplier.get();
        assert!((error(&fitting) / error(&spec) - ratio).abs() < 1e-9);
    }
}
