//! Plans of an `evaluation` job: one vector of histograms of each site, charged once, by its noise, which is the same at
//! all sites.

use undertone_privacy::NoiseMultiplier;

use super::{PlanParameter, RoundedKind};
use crate::id::DatasetId;
use crate::job::evaluation::Spec;

impl RoundedKind for Spec {
    const ROUND: &'static str = "evaluation";
    const NOISE_IS_SHARED: bool = true;

    fn rounds(&self) -> u32 {
        1
    }

    fn value(&self, knob: PlanParameter, dataset: DatasetId) -> Option<f64> {
        let is_noisy = self.is_participant(dataset) && !self.is_lead(dataset);
        match knob {
            PlanParameter::Noise if is_noisy => Some(self.noise_multiplier.get()),
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
    use uuid::Uuid;

    use super::super::{AccountBalances, AccountKey, PricedPlan, offers};
    use crate::id::{DatasetId, LineageId, OrganizationId};
    use crate::job::evaluation::{Party, tests};

    #[test]
    fn site_with_the_least_budget_decides_the_noise_of_all() {
        let mut spec = tests::example().0;
        let [lead, first] = tests::datasets();
        let mut second = first.clone();
        second.id = DatasetId(Uuid::from_u128(3));
        second.lineage = LineageId(Uuid::from_u128(103));
        second.organization = OrganizationId(Uuid::from_u128(203));
        spec.participants = [&lead, &first, &second].map(|dataset| Party { dataset: dataset.id }).to_vec();
        spec.noise_multiplier = NoiseMultiplier::new(0.3).unwrap();
        // The order in which the sites are asked must not matter.
        for epsilons in [[1.0, 5.0], [5.0, 1.0]] {
            let mut balances = AccountBalances::default();
            for (dataset, epsilon) in [&first, &second].into_iter().zip(epsilons) {
                let key = AccountKey::new(dataset.organization, dataset.lineage, spec.unit, Adjacency::ZeroOut);
                let epsilon = Epsilon::new(epsilon).unwrap();
                let budget = Budget::new(epsilon, Delta::new(1e-6).unwrap(), GridKind::for_epsilon(epsilon)).unwrap();
                balances.add(key, Balance::new(Some(budget)));
            }
            let datasets = [lead.clone(), first.clone(), second.clone()];
            let is_admitted = |noise: f64| {
                let mut changed = spec.clone();
                changed.noise_multiplier = NoiseMultiplier::new(noise).unwrap();
                PricedPlan::from_spec(&changed, &datasets, &balances).unwrap().admitted()
            };
            let offered = offers(&spec, &datasets, &balances);
            assert_eq!(offered.len(), 1, "{offered:?}");
            let [(_, _, from, to)] = offered[0].values[..] else { panic!("one number is changed: {offered:?}") };
            assert_eq!((from, offered[0].apply(&spec).noise_multiplier.get()), (0.3, to));
            assert!(is_admitted(to) && !is_admitted(to - 0.001), "{to}");
            assert!(offered[0].sentence.ends_with("instead of 0.3 for all sites."), "{}", offered[0].sentence);
        }
    }
}
