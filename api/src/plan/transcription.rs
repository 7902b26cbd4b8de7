//! Plans of a `transcription` job: one histogram, charged once, by its ε and its δ. A smaller ε or δ costs dummies
//! instead of budget, which an offer states.

use undertone_privacy::histogram::TruncatedLaplace;
use undertone_privacy::{Delta, Epsilon};

use super::offer::ThreeDigits;
use super::price::Priced;
use super::{Books, Knob, Offered, Rounded};
use crate::dataset::Dataset;
use crate::id::DatasetId;
use crate::job::Kind as _;
use crate::job::transcription::Spec;

/// The least ε of an offer, in thousandths, equal to the least of a job.
const LEAST_THOUSANDTHS: u64 = 10;
/// The least δ of an offer.
const LEAST_DELTA: f64 = 1e-9;

impl Rounded for Spec {
    const ROUND: &'static str = "transcription";

    fn rounds(&self) -> u32 {
        1
    }

    fn value(&self, knob: Knob, dataset: DatasetId) -> Option<f64> {
        let of = Some(self.participant).filter(|party| party.dataset == dataset)?;
        match knob {
            Knob::Epsilon => Some(of.epsilon.get()),
            Knob::Delta => Some(of.delta.get()),
            Knob::Rounds | Knob::Noise | Knob::SamplingRate | Knob::Threshold => None,
        }
    }

    fn set(&mut self, knob: Knob, dataset: DatasetId, value: f64) {
        if self.participant.dataset != dataset {
            return;
        }
        let of = &mut self.participant;
        match knob {
            Knob::Epsilon => of.epsilon = Epsilon::new(value).unwrap_or(of.epsilon),
            Knob::Delta => of.delta = Delta::new(value).unwrap_or(of.delta),
            Knob::Rounds | Knob::Noise | Knob::SamplingRate | Knob::Threshold => {}
        }
    }

    fn field(&self, knob: Knob, _dataset: DatasetId) -> String {
        let field = if knob == Knob::Delta { "delta" } else { "epsilon" };
        format!("spec.participant.{field}")
    }
}

/// Returns the nearest plans that the account admits, each with one number changed: a smaller ε, or a smaller δ. Empty
/// if the plan is admitted or has no price, or if the account has no budget.
pub(super) fn offers(spec: &Spec, datasets: &[Dataset], books: &Books) -> Vec<Offered> {
    if Priced::of(spec, datasets, books).is_none_or(|plan| !plan.budgeted() || plan.admitted()) {
        return Vec::new();
    }
    let wrong = spec.check(datasets).len();
    let with = |knob: Knob, value: f64| {
        let mut changed = spec.clone();
        changed.set(knob, spec.participant.dataset, value);
        changed
    };
    let fits = |knob: Knob, value: f64| {
        let changed = with(knob, value);
        Priced::of(&changed, datasets, books).is_some_and(|plan| plan.admitted())
    };
    let epsilon =
        greatest_fit(LEAST_THOUSANDTHS, (spec.participant.epsilon.get() * 1000.0).ceil() as u64, |thousandths| {
            fits(Knob::Epsilon, thousandths as f64 / 1000.0)
        });
    let (mut low, mut high) = (ThreeDigits::round_up(LEAST_DELTA), ThreeDigits::round_up(spec.participant.delta.get()));
    let delta = (low < high && fits(Knob::Delta, low.value())).then(|| {
        while let Some(middle) = low.midpoint(high) {
            if fits(Knob::Delta, middle.value()) { low = middle } else { high = middle }
        }
        low.value()
    });
    let changes = [(Knob::Epsilon, epsilon.map(|thousandths| thousandths as f64 / 1000.0)), (Knob::Delta, delta)];
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

fn build_change(spec: &Spec, knob: Knob, to: f64, changed: &Spec, datasets: &[Dataset]) -> Offered {
    let dataset = spec.participant.dataset;
    let name =
        datasets.iter().find(|candidate| candidate.id == dataset).map_or("", |candidate| candidate.name.as_str());
    let from = spec.value(knob, dataset).unwrap_or_default();
    let what = if knob == Knob::Delta { "δ" } else { "ε" };
    let dummies = |spec: &Spec| spec.noise().map_or(0.0, TruncatedLaplace::mean);
    let sentence = format!(
        "{what} {to} instead of {from} for {name}, with {:.1} dummies of each word at each provider instead of {:.1}; everything else \
         as asked.",
        dummies(changed),
        dummies(spec)
    );
    Offered { knob, values: vec![(dataset, spec.field(knob, dataset), from, to)], sentence }
}

#[cfg(test)]
mod tests;
