//! Plans of a `transcription` job: one histogram, charged once, by its ε and its δ. A smaller ε or δ costs dummies
//! instead of budget, which an offer states.

use undertone_privacy::histogram::TruncatedLaplace;
use undertone_privacy::{Delta, Epsilon};

use super::offer::ThreeDigits;
use super::price::PricedPlan;
use super::{AccountBalances, FittingChange, PlanParameter, RoundedKind};
use crate::dataset::Dataset;
use crate::id::DatasetId;
use crate::job::JobKind as _;
use crate::job::transcription::Spec;

/// The least ε of an offer, in thousandths, equal to the least of a job.
const LEAST_THOUSANDTHS: u64 = 10;
/// The least δ of an offer.
const LEAST_DELTA: f64 = 1e-9;

impl RoundedKind for Spec {
    const ROUND: &'static str = "transcription";

    fn rounds(&self) -> u32 {
        1
    }

    fn value(&self, knob: PlanParameter, dataset: DatasetId) -> Option<f64> {
        let of = Some(self.participant).filter(|party| party.dataset == dataset)?;
        match knob {
            PlanParameter::Epsilon => Some(of.epsilon.get()),
            PlanParameter::Delta => Some(of.delta.get()),
            PlanParameter::Rounds | PlanParameter::Noise | PlanParameter::SamplingRate | PlanParameter::Threshold => {
                None
            }
        }
    }

    fn set(&mut self, knob: PlanParameter, dataset: DatasetId, value: f64) {
        if self.participant.dataset != dataset {
            return;
        }
        let of = &mut self.participant;
        match knob {
            PlanParameter::Epsilon => of.epsilon = Epsilon::new(value).unwrap_or(of.epsilon),
            PlanParameter::Delta => of.delta = Delta::new(value).unwrap_or(of.delta),
            PlanParameter::Rounds | PlanParameter::Noise | PlanParameter::SamplingRate | PlanParameter::Threshold => {}
        }
    }

    fn field(&self, knob: PlanParameter, _dataset: DatasetId) -> String {
        let field = if knob == PlanParameter::Delta { "delta" } else { "epsilon" };
        format!("spec.participant.{field}")
    }
}

/// Returns the nearest plans that the account admits, each with one number changed: a smaller ε, or a smaller δ. Empty
/// if the plan is admitted or has no price, or if the account has no budget.
pub(super) fn offers(spec: &Spec, datasets: &[Dataset], balances: &AccountBalances) -> Vec<FittingChange> {
    if PricedPlan::from_spec(spec, datasets, balances).is_none_or(|plan| !plan.budgeted() || plan.admitted()) {
        return Vec::new();
    }
    let wrong = spec.check(datasets).len();
    let with = |knob: PlanParameter, value: f64| {
        let mut changed = spec.clone();
        changed.set(knob, spec.participant.dataset, value);
        changed
    };
    let fits = |knob: PlanParameter, value: f64| {
        let changed = with(knob, value);
        PricedPlan::from_spec(&changed, datasets, balances).is_some_and(|plan| plan.admitted())
    };
    // A choice of words with noise keeps its part of ε.
    let choice = spec.vocabulary.selection_epsilon().map_or(0.0, Epsilon::get);
    let least = LEAST_THOUSANDTHS + (choice * 1000.0).ceil() as u64;
    let epsilon = greatest_fit(least, (spec.participant.epsilon.get() * 1000.0).ceil() as u64, |thousandths| {
        fits(PlanParameter::Epsilon, thousandths as f64 / 1000.0)
    });
    let (mut low, mut high) = (ThreeDigits::round_up(LEAST_DELTA), ThreeDigits::round_up(spec.participant.delta.get()));
    let delta = (low < high && fits(PlanParameter::Delta, low.value())).then(|| {
        while let Some(middle) = low.midpoint(high) {
            if fits(PlanParameter::Delta, middle.value()) { low = middle } else { high = middle }
        }
        low.value()
    });
    let changes = [
        (PlanParameter::Epsilon, epsilon.map(|thousandths| thousandths as f64 / 1000.0)),
        (PlanParameter::Delta, delta),
    ];
    changes
        .into_iter()
        .filter_map(|(knob, value)| Some((knob, value?)))
        .filter(|(knob, value)| fits(*knob, *value) && with(*knob, *value).check(datasets).len() <= wrong)
        .map(|(knob, value)| build_change(spec, knob, value, &with(knob, value), datasets))
        .collect()
}

/// Returns the greatest number below `high` that fits, if `low` does.
fn greatest_fit(low: u64, high: u64, fits: impl Fn(u64) -> bool) -> Option<u64> {
    let (mut low, mut high) = (low, high);
    if low >= high || !fits(low) {
        return None;
    }
    while high - low > 1 {
        let middle = u64::midpoint(low, high);
        if fits(middle) { low = middle } else { high = middle }
    }
    Some(low)
}

fn build_change(spec: &Spec, knob: PlanParameter, to: f64, changed: &Spec, datasets: &[Dataset]) -> FittingChange {
    let dataset = spec.participant.dataset;
    let name =
        datasets.iter().find(|candidate| candidate.id == dataset).map_or("", |candidate| candidate.name.as_str());
    let from = spec.value(knob, dataset).unwrap_or_default();
    let what = if knob == PlanParameter::Delta { "δ" } else { "ε" };
    let dummies = |spec: &Spec| spec.noise().map_or(0.0, TruncatedLaplace::mean);
    let sentence = format!(
        "{what} {to} instead of {from} for {name}, with {:.1} dummies of each word at each provider instead of {:.1}; everything else \
         as asked.",
        dummies(changed),
        dummies(spec)
    );
    FittingChange { knob, values: vec![(dataset, spec.field(knob, dataset), from, to)], sentence }
}

#[cfg(test)]
mod tests;
