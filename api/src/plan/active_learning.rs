//! Plans of an `active_learning` job: one pool of questions of each private log, by its sampling rate β, its threshold
//! k and its charged ε. The following rounds of questions cost nothing and are not counted here.

use std::num::NonZeroU32;

use undertone_privacy::kanon::least_epsilon;
use undertone_privacy::{Epsilon, SamplingRate};

use super::offer::ThreeDigits;
use super::price::{Priced, Purse};
use super::{Books, Knob, Offered, Rounded};
use crate::dataset::Dataset;
use crate::id::DatasetId;
use crate::job::Kind as _;
use crate::job::active_learning::{Gate, Spec};

/// The greatest threshold of an offer, equal to the greatest of a job.
const MOST: u32 = 1_000_000;

impl Rounded for Spec {
    const ROUND: &'static str = "pool";

    fn rounds(&self) -> u32 {
        u32::from(self.participants.iter().any(|party| party.gate.is_some()))
    }

    fn value(&self, knob: Knob, dataset: DatasetId) -> Option<f64> {
        let gate = self.party(dataset)?.gate?;
        match knob {
            Knob::SamplingRate => Some(gate.sampling_rate.get()),
            Knob::Threshold => Some(f64::from(gate.threshold.get())),
            Knob::Epsilon => Some(gate.epsilon.get()),
            Knob::Rounds | Knob::Noise | Knob::Delta => None,
        }
    }

    fn set(&mut self, knob: Knob, dataset: DatasetId, value: f64) {
        let theirs = self.participants.iter_mut().filter(|party| party.dataset == dataset);
        for gate in theirs.filter_map(|party| party.gate.as_mut()) {
            match knob {
                Knob::SamplingRate => gate.sampling_rate = SamplingRate::new(value).unwrap_or(gate.sampling_rate),
                Knob::Threshold => gate.threshold = NonZeroU32::new(value as u32).unwrap_or(gate.threshold),
                Knob::Epsilon => gate.epsilon = Epsilon::new(value).unwrap_or(gate.epsilon),
                Knob::Rounds | Knob::Noise | Knob::Delta => {}
            }
        }
    }

    fn field(&self, knob: Knob, dataset: DatasetId) -> String {
        let index = self.participants.iter().position(|party| party.dataset == dataset).unwrap_or(0);
        let field = match knob {
            Knob::Threshold => "threshold",
            Knob::Epsilon => "epsilon",
            Knob::SamplingRate | Knob::Rounds | Knob::Noise | Knob::Delta => "sampling_rate",
        };
        format!("spec.participants.{index}.gate.{field}")
    }
}

/// Returns the nearest plans that every account admits. Each changes one kind of number at the payers of the refusing
/// accounts: higher thresholds, smaller samples, or a smaller ε. Empty if the plan is admitted or has no price, or if
/// an account has no budget.
pub(super) fn offers(spec: &Spec, datasets: &[Dataset], books: &Books) -> Vec<Offered> {
    let Some(plan) = Priced::of(spec, datasets, books).filter(|plan| plan.budgeted() && !plan.admitted()) else {
        return Vec::new();
    };
    let wrong = spec.check(datasets).len();
    let holds = |offered: &Offered| {
        let changed = offered.apply(spec);
        let admitted = Priced::of(&changed, datasets, books).is_some_and(|plan| plan.admitted());
        admitted && changed.check(datasets).len() <= wrong
    };
    let search = PoolSearch { spec, datasets, books, plan: &plan };
    let knobs = [Knob::Threshold, Knob::SamplingRate, Knob::Epsilon];
    knobs.into_iter().filter_map(|knob| search.adjust_accounts(knob)).filter(holds).collect()
}

struct PoolSearch<'a> {
    spec: &'a Spec,
    datasets: &'a [Dataset],
    books: &'a Books,
    plan: &'a Priced,
}

impl PoolSearch<'_> {
    fn adjust_accounts(&self, knob: Knob) -> Option<Offered> {
        let mut values = Vec::new();
        for purse in self.plan.purses.iter().filter(|purse| !purse.after(0).fits) {
            let bound = match knob {
                Knob::Threshold => self.least_threshold(purse)?,
                Knob::SamplingRate => self.lower_number(knob, purse, |_| 1.0 / SamplingRate::DENOMINATOR as f64)?,
                Knob::Epsilon => self
                    .lower_number(knob, purse, |gate| least_epsilon(gate.shown, gate.sampling_rate.get()).max(1e-3))?,
                Knob::Rounds | Knob::Noise | Knob::Delta => return None,
            };
            values.extend(self.select_payers(knob, purse, bound));
        }
        let what = match knob {
            Knob::Threshold => "Threshold k",
            Knob::SamplingRate => "Sampling rate β",
            _ => "ε",
        };
        let each: Vec<String> =
            values.iter().map(|(dataset, _, from, to)| self.describe_change(*dataset, *from, *to)).collect();
        let sentence = format!("{what} {}; everything else as asked.", each.join(", "));
        (!values.is_empty()).then_some(Offered { knob, values, sentence })
    }

    fn describe_change(&self, dataset: DatasetId, from: f64, to: f64) -> String {
        let name = self
            .datasets
            .iter()
            .find(|candidate| candidate.id == dataset)
            .map_or("", |candidate| candidate.name.as_str());
        format!("{to} instead of {} for {name}", (from * 1e6).round() / 1e6)
    }

    /// Returns the payers of an account whose numbers are beyond a bound, with the bound as their new number.
    fn select_payers(&self, knob: Knob, purse: &Purse, bound: f64) -> Vec<(DatasetId, String, f64, f64)> {
        let beyond = |value: f64| if knob == Knob::Threshold { value < bound } else { value > bound };
        let number = |dataset| self.spec.value(knob, dataset).filter(|value| beyond(*value));
        let payers = purse.payers.iter().map(|payer| payer.dataset);
        payers.filter_map(|dataset| Some((dataset, self.spec.field(knob, dataset), number(dataset)?, bound))).collect()
    }

    /// Returns whether the account would admit the plan with the bound as its payers' number.
    fn fits(&self, knob: Knob, purse: &Purse, bound: f64) -> bool {
        let mut changed = self.spec.clone();
        for (dataset, _, _, to) in self.select_payers(knob, purse, bound) {
            changed.set(knob, dataset, to);
        }
        let theirs: Vec<Dataset> =
            self.datasets.iter().filter(|d| purse.payers.iter().any(|payer| payer.dataset == d.id)).cloned().collect();
        Priced::of(&changed, &theirs, self.books).is_some_and(|plan| plan.admitted())
    }

    /// Returns the least threshold for all payers of an account: δ falls with k.
    fn least_threshold(&self, purse: &Purse) -> Option<f64> {
        let fits = |k: u32| self.fits(Knob::Threshold, purse, f64::from(k));
        let mut high = 2;
        while !fits(high) {
            if high >= MOST {
                return None;
            }
            high = (high * 2).min(MOST);
        }
        let mut low = high / 2;
        while high - low > 1 {
            let middle = u32::midpoint(low, high);
            if fits(middle) { high = middle } else { low = middle }
        }
        Some(f64::from(high))
    }

    /// Returns a number, to three digits and at least `least` of each payer's gate, with which the account admits the
    /// plan; the next greater one is not admitted. Neither δ at a smaller rate nor the loss at a smaller ε is monotone,
    /// so numbers are tried from above in growing steps, then by bisection.
    fn lower_number(&self, knob: Knob, purse: &Purse, least: impl Fn(&Gate) -> f64) -> Option<f64> {
        let gates = || purse.payers.iter().filter_map(|payer| self.spec.party(payer.dataset)?.gate);
        let highest = purse.payers.iter().filter_map(|payer| self.spec.value(knob, payer.dataset)).fold(0.0, f64::max);
        let bottom = ThreeDigits::round_up(gates().map(|gate| least(&gate)).fold(0.0, f64::max));
        let fits = |digits: ThreeDigits| self.fits(knob, purse, digits.value());
        let mut high = ThreeDigits::round_up(highest);
        let mut step = 1;
        let mut low = high.step_down(step)?;
        while low > bottom && !fits(low) {
            step *= 2;
            (high, low) = (low, low.step_down(step)?.max(bottom));
        }
        if low < bottom || !fits(low) {
            return None;
        }
        while let Some(middle) = low.midpoint(high) {
            if fits(middle) { low = middle } else { high = middle }
        }
        Some(low.value())
    }
}

#[cfg(test)]
mod tests;
