//! Plans of an `active_learning` job: one pool of questions of each private log, by its sampling rate β, its threshold
//! k and its charged ε. The following rounds of questions cost nothing and are not counted here. Of a private lead, all
//! trainings together count as its pool, and of a private test set all measurements, by their noise multiplier z.

use std::num::NonZeroU32;

use undertone_privacy::kanon::{Shown, least_epsilon};
use undertone_privacy::{Epsilon, NoiseMultiplier, SamplingRate};

use super::offer::{OfferSearch, ThreeDigits, select_offers};
use super::price::AccountQuote;
use super::{AccountBalances, FittingChange, PlanParameter, RoundedKind};
use crate::dataset::Dataset;
use crate::id::DatasetId;
use crate::job::active_learning::Spec;

/// The greatest threshold of an offer, equal to the greatest of a job.
const MOST: u32 = 1_000_000;
/// The greatest noise multiplier of an offer, in hundredths, equal to the greatest of a job.
const MOST_NOISE: u32 = 102_400;
/// The least ε of an offer.
const LEAST_EPSILON: f64 = 1e-3;

impl RoundedKind for Spec {
    const ROUND: &'static str = "pool";

    fn rounds(&self) -> u32 {
        u32::from(self.participants.iter().any(|party| party.gate.is_some()))
    }

    fn value(&self, knob: PlanParameter, dataset: DatasetId) -> Option<f64> {
        let training = self.private_training(dataset).map(|training| training.noise_multiplier);
        let test = self.private_test_on(dataset).map(|test| test.noise_multiplier);
        if let Some(noise_multiplier) = training.or(test) {
            return (knob == PlanParameter::Noise).then(|| noise_multiplier.get());
        }
        let gate = self.party(dataset)?.gate?;
        match knob {
            PlanParameter::SamplingRate => Some(gate.sampling_rate.get()),
            PlanParameter::Threshold => Some(f64::from(gate.threshold.get())),
            PlanParameter::Epsilon => Some(gate.epsilon.get()),
            PlanParameter::Rounds | PlanParameter::Noise | PlanParameter::Delta => None,
        }
    }

    fn set(&mut self, knob: PlanParameter, dataset: DatasetId, value: f64) {
        let is_test = self.private_test_on(dataset).is_some();
        if is_test || self.private_training(dataset).is_some() {
            let noise_multiplier = if is_test {
                self.private_test.as_mut().map(|test| &mut test.noise_multiplier)
            } else {
                self.private_lead.as_mut().map(|training| &mut training.noise_multiplier)
            };
            if let (PlanParameter::Noise, Some(z)) = (knob, noise_multiplier) {
                *z = NoiseMultiplier::new(value).unwrap_or(*z);
            }
            return;
        }
        let theirs = self.participants.iter_mut().filter(|party| party.dataset == dataset);
        for gate in theirs.filter_map(|party| party.gate.as_mut()) {
            match knob {
                PlanParameter::SamplingRate => {
                    gate.sampling_rate = SamplingRate::new(value).unwrap_or(gate.sampling_rate);
                }
                PlanParameter::Threshold => gate.threshold = NonZeroU32::new(value as u32).unwrap_or(gate.threshold),
                PlanParameter::Epsilon => gate.epsilon = Epsilon::new(value).unwrap_or(gate.epsilon),
                PlanParameter::Rounds | PlanParameter::Noise | PlanParameter::Delta => {}
            }
        }
    }

    fn field(&self, knob: PlanParameter, dataset: DatasetId) -> String {
        if self.private_training(dataset).is_some() {
            return "spec.private_lead.noise_multiplier".to_owned();
        }
        if self.private_test_on(dataset).is_some() {
            return "spec.private_test.noise_multiplier".to_owned();
        }
        let index = self.participants.iter().position(|party| party.dataset == dataset).unwrap_or(0);
        let field = match knob {
            PlanParameter::Threshold => "threshold",
            PlanParameter::Epsilon => "epsilon",
            PlanParameter::SamplingRate | PlanParameter::Rounds | PlanParameter::Noise | PlanParameter::Delta => {
                "sampling_rate"
            }
        };
        format!("spec.participants.{index}.gate.{field}")
    }
}

/// Returns the nearest plans that every account admits. Each changes one kind of number at the payers of the refusing
/// accounts: higher thresholds, smaller samples, a smaller ε, or more noise of a private lead or test set. Empty if the
/// plan is admitted or has no price, or if an account has no budget.
pub(super) fn offers(spec: &Spec, datasets: &[Dataset], balances: &AccountBalances) -> Vec<FittingChange> {
    let knobs = [PlanParameter::Threshold, PlanParameter::SamplingRate, PlanParameter::Epsilon, PlanParameter::Noise];
    select_offers(spec, datasets, balances, |search| knobs.map(|knob| search.adjust_pools(knob)))
}

impl OfferSearch<'_, Spec> {
    fn adjust_pools(&self, knob: PlanParameter) -> Option<FittingChange> {
        let mut values = Vec::new();
        for quote in self.plan.quotes.iter().filter(|quote| !quote.project(0).fits) {
            let bound = match knob {
                PlanParameter::Threshold => self.least_threshold(quote)?,
                PlanParameter::SamplingRate => self.greatest_rate(quote)?,
                PlanParameter::Epsilon => self.greatest_epsilon(quote)?,
                PlanParameter::Noise => self.least_payer_noise(quote)?,
                PlanParameter::Rounds | PlanParameter::Delta => return None,
            };
            values.extend(self.select_payers(knob, quote, bound));
        }
        let what = match knob {
            PlanParameter::Threshold => "Threshold k",
            PlanParameter::SamplingRate => "Sampling rate β",
            PlanParameter::Noise => "Noise multiplier z",
            _ => "ε",
        };
        let each: Vec<String> =
            values.iter().map(|(dataset, _, from, to)| self.describe_change(*dataset, *from, *to)).collect();
        let sentence = format!("{what} {}; everything else as asked.", each.join(", "));
        (!values.is_empty()).then_some(FittingChange { knob, values, sentence })
    }

    fn describe_change(&self, dataset: DatasetId, from: f64, to: f64) -> String {
        let name = self
            .datasets
            .iter()
            .find(|candidate| candidate.id == dataset)
            .map_or("", |candidate| candidate.name.as_str());
        format!("{to} instead of {} for {name}", (from * 1e6).round() / 1e6)
    }

    /// Returns the least threshold for all payers of an account: δ falls with k.
    fn least_threshold(&self, quote: &AccountQuote) -> Option<f64> {
        let fits = |k: u32| self.fits(PlanParameter::Threshold, quote, f64::from(k));
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

    /// Returns the least noise multiplier, to hundredths, with which the account admits the plan; `None` if no payer of
    /// it is a private lead or test set. The loss falls with the noise.
    fn least_payer_noise(&self, quote: &AccountQuote) -> Option<f64> {
        let multipliers = quote.payers.iter().filter_map(|payer| self.spec.value(PlanParameter::Noise, payer.dataset));
        let noise = |hundredths: u32| f64::from(hundredths) / 100.0;
        let fits = |hundredths: u32| self.fits(PlanParameter::Noise, quote, noise(hundredths));
        let mut low = (multipliers.reduce(f64::max)? * 100.0) as u32;
        let mut high = (low * 2).max(1);
        while !fits(high) {
            if high >= MOST_NOISE {
                return None;
            }
            low = high;
            high = (high * 2).min(MOST_NOISE);
        }
        while high - low > 1 {
            let middle = u32::midpoint(low, high);
            if fits(middle) { high = middle } else { low = middle }
        }
        Some(noise(high))
    }

    /// Returns the greatest rate, to three digits, with which the account admits the plan.
    ///
    /// A smaller sample is a sample of a greater one, so the exact δ never rises when the rate falls (Li, Qardaji and Su
    /// 2012, Theorem 1). The published δ may, and is never below the exact one. So bisection with the exact δ finds the
    /// rate above which none is admitted; from there downward every rate is tried.
    fn greatest_rate(&self, quote: &AccountQuote) -> Option<f64> {
        let mut exactly_priced = self.spec.clone();
        for gate in exactly_priced.participants.iter_mut().filter_map(|party| party.gate.as_mut()) {
            if gate.shown == Shown::Counts {
                gate.shown = Shown::CountsTight;
            }
        }
        let Self { datasets, balances, plan, .. } = *self;
        let exact = OfferSearch { spec: &exactly_priced, datasets, balances, plan };
        let bottom = ThreeDigits::round_up(1.0 / SamplingRate::DENOMINATOR as f64);
        let top = self.below_highest(PlanParameter::SamplingRate, quote)?;
        let mut rate = greatest(bottom, top, |digits| exact.fits(PlanParameter::SamplingRate, quote, digits.value()))?;
        while rate > bottom && !self.fits(PlanParameter::SamplingRate, quote, rate.value()) {
            rate = rate.step_down(1)?;
        }
        self.fits(PlanParameter::SamplingRate, quote, rate.value()).then(|| rate.value())
    }

    /// Returns the greatest ε, to three digits and possible at each payer's gate, with which the account admits the
    /// plan.
    ///
    /// The loss falls when ε does, so bisection finds the ε above which none is admitted. Below it only δ refuses. δ of
    /// one application does not fall when ε does. δ of m applications to one unit is Σ e^(iε), i < m, times as great, so
    /// at a smaller ε' the side mass is at least e^(−(m−1)(ε−ε')) times that at ε. Where it is x times as great as its
    /// remainder, no ε' above ε − ln(x)/(m−1) is admitted, and the search skips these.
    fn greatest_epsilon(&self, quote: &AccountQuote) -> Option<f64> {
        let gates = || quote.payers.iter().filter_map(|payer| self.spec.party(payer.dataset)?.gate);
        let least =
            gates().map(|gate| least_epsilon(gate.shown, gate.sampling_rate.get())).fold(LEAST_EPSILON, f64::max);
        let bottom = ThreeDigits::round_up(least);
        let top = self.below_highest(PlanParameter::Epsilon, quote)?;
        let priced = |digits: ThreeDigits| self.price_payers(PlanParameter::Epsilon, quote, digits.value());
        let loss_fits = |digits| priced(digits).is_some_and(|plan| plan.quotes.iter().all(AccountQuote::loss_fits));
        let mut epsilon = greatest(bottom, top, loss_fits)?;
        // An account of another unit may count each row of a unit twice: one leaves, and another takes its place.
        let applications = 2.0 * gates().map(|gate| f64::from(gate.rows_per_unit.get())).fold(1.0, f64::max);
        while epsilon >= bottom {
            let plan = priced(epsilon)?;
            if plan.admitted() {
                return Some(epsilon.value());
            }
            let excess = plan.quotes.iter().map(AccountQuote::side_excess).fold(1.0, f64::max);
            let skipped = ThreeDigits::round_up(epsilon.value() - libm::log(excess) / (applications - 1.0));
            epsilon = epsilon.step_down(1)?.min(skipped);
        }
        None
    }

    /// Returns the number of three digits below the greatest number of an account's payers.
    fn below_highest(&self, knob: PlanParameter, quote: &AccountQuote) -> Option<ThreeDigits> {
        let highest = quote.payers.iter().filter_map(|payer| self.spec.value(knob, payer.dataset)).fold(0.0, f64::max);
        ThreeDigits::round_up(highest).step_down(1)
    }
}

/// Returns the greatest number from `bottom` to `top` that fits; every number below one that fits fits too. `None` if
/// none does.
fn greatest(bottom: ThreeDigits, top: ThreeDigits, fits: impl Fn(ThreeDigits) -> bool) -> Option<ThreeDigits> {
    if top < bottom || !fits(bottom) {
        return None;
    }
    if fits(top) {
        return Some(top);
    }
    let (mut low, mut high) = (bottom, top);
    while let Some(middle) = low.midpoint(high) {
        if fits(middle) { low = middle } else { high = middle }
    }
    Some(low)
}

#[cfg(test)]
mod tests;
