//! The nearest plan that fits: one number changed, all others as requested. The search queries the accounts themselves,
//! so each offer is admitted and the next step toward the refused plan is not.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use undertone_privacy::SamplingRate;
use undertone_privacy::ledger::FilterKind;

use super::price::{AccountQuote, PricedPlan, RoundedKind};
use super::release::{GaussianRelease, MOST_NOISE, least_noise};
use super::{AccountBalances, PlanChange, PlanOffer};
use crate::dataset::Dataset;
use crate::id::DatasetId;
use crate::job::NewJob;

/// A parameter of a plan that an offer can change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Knob))]
#[serde(rename_all = "snake_case")]
pub enum PlanParameter {
    /// Rounds, in steps of 1.
    Rounds,
    /// Noise multipliers z, in steps of 0.001.
    Noise,
    /// Sampling rates q or β, in steps of the third digit.
    SamplingRate,
    /// Thresholds k of sampling with a threshold, in steps of 1.
    Threshold,
    /// The ε at which a release with a threshold is charged, in steps of the third digit.
    Epsilon,
    /// δ of the noise of a word histogram, in steps of the third digit.
    Delta,
}

/// A change that fits.
#[derive(Debug, Clone, PartialEq)]
pub struct FittingChange {
    /// The changed kind of number.
    pub knob: PlanParameter,
    /// Dataset, path, requested number, and fitting number. For rounds there is one entry, with any of the payers.
    pub values: Vec<(DatasetId, String, f64, f64)>,
    /// The offer in a sentence.
    pub sentence: String,
}

impl FittingChange {
    /// Returns the plan with the change.
    pub fn apply<K: RoundedKind>(&self, spec: &K) -> K {
        let mut changed = spec.clone();
        self.values.iter().for_each(|(dataset, _, _, to)| changed.set(self.knob, *dataset, *to));
        changed
    }

    pub(super) fn into_offer(self, job: NewJob) -> PlanOffer {
        let dataset = |dataset| (self.knob != PlanParameter::Rounds).then_some(dataset);
        let change = |(id, field, from, to)| PlanChange { field, dataset: dataset(id), from, to };
        PlanOffer {
            knob: self.knob,
            changes: self.values.into_iter().map(change).collect(),
            sentence: self.sentence,
            job,
        }
    }
}

/// Returns the nearest plans that every account admits: fewer rounds with noise and rates as requested; more noise for
/// the payers of refusing accounts, in all rounds; lower sampling rates for them, at least one expected unit a round.
/// Empty if the plan is admitted or has no price, or if an account has no budget.
pub fn offers<K: RoundedKind>(spec: &K, datasets: &[Dataset], balances: &AccountBalances) -> Vec<FittingChange> {
    select_offers(spec, datasets, balances, |search| {
        [
            search.reduce_rounds(),
            search.adjust_accounts(PlanParameter::Noise),
            search.adjust_accounts(PlanParameter::SamplingRate),
        ]
    })
}

/// Returns those of a kind's `candidates` that can be proposed: the spec has no new violations, and every account admits it.
/// Empty if the plan is admitted or has no price, or if an account has no budget.
pub(super) fn select_offers<K: RoundedKind, C: IntoIterator<Item = Option<FittingChange>>>(
    spec: &K,
    datasets: &[Dataset],
    balances: &AccountBalances,
    candidates: impl FnOnce(&OfferSearch<'_, K>) -> C,
) -> Vec<FittingChange> {
    let Some(plan) = PricedPlan::from_spec(spec, datasets, balances).filter(|plan| plan.budgeted() && !plan.admitted())
    else {
        return Vec::new();
    };
    let wrong = spec.check(datasets).len();
    let can_be_proposed = |offered: &FittingChange| {
        let changed = offered.apply(spec);
        let admitted = PricedPlan::from_spec(&changed, datasets, balances).is_some_and(|plan| plan.admitted());
        admitted && changed.check(datasets).len() <= wrong
    };
    let candidates = candidates(&OfferSearch { spec, datasets, balances, plan: &plan });
    candidates.into_iter().flatten().filter(can_be_proposed).collect()
}

/// The search for a number that the accounts of a refused plan admit.
pub(super) struct OfferSearch<'a, K> {
    pub(super) spec: &'a K,
    pub(super) datasets: &'a [Dataset],
    pub(super) balances: &'a AccountBalances,
    pub(super) plan: &'a PricedPlan,
}

impl<K: RoundedKind> OfferSearch<'_, K> {
    /// Returns the payers of an account whose numbers are beyond a bound, with the bound as their new number.
    pub(super) fn select_payers(
        &self,
        knob: PlanParameter,
        quote: &AccountQuote,
        bound: f64,
    ) -> Vec<(DatasetId, String, f64, f64)> {
        let is_raised = matches!(knob, PlanParameter::Noise | PlanParameter::Threshold);
        let beyond = |value: f64| if is_raised { value < bound } else { value > bound };
        let number = |dataset| self.spec.value(knob, dataset).filter(|value| beyond(*value));
        let payers = quote.payers.iter().map(|payer| payer.dataset);
        payers.filter_map(|dataset| Some((dataset, self.spec.field(knob, dataset), number(dataset)?, bound))).collect()
    }

    /// Prices the plan of an account's payers with the bound as their number.
    pub(super) fn price_payers(&self, knob: PlanParameter, quote: &AccountQuote, bound: f64) -> Option<PricedPlan> {
        let mut changed = self.spec.clone();
        for (dataset, _, _, to) in self.select_payers(knob, quote, bound) {
            changed.set(knob, dataset, to);
        }
        let theirs: Vec<Dataset> =
            self.datasets.iter().filter(|d| quote.payers.iter().any(|payer| payer.dataset == d.id)).cloned().collect();
        PricedPlan::from_spec(&changed, &theirs, self.balances)
    }

    /// Returns whether the account would admit the plan with the bound as its payers' number.
    pub(super) fn fits(&self, knob: PlanParameter, quote: &AccountQuote, bound: f64) -> bool {
        self.price_payers(knob, quote, bound).is_some_and(|plan| plan.admitted())
    }

    fn reduce_rounds(&self) -> Option<FittingChange> {
        let rounds = self.plan.bottleneck()?.rounds_that_fit;
        let payer = self.plan.quotes.first()?.payers.first()?;
        let requested = f64::from(self.plan.rounds);
        let sentence =
            format!("{rounds} round{} instead of {requested}, with this noise.", if rounds == 1 { "" } else { "s" });
        let values =
            vec![(payer.dataset, self.spec.field(PlanParameter::Rounds, payer.dataset), requested, f64::from(rounds))];
        (rounds > 0).then_some(FittingChange { knob: PlanParameter::Rounds, values, sentence })
    }

    /// Returns the nearest number for the payers of every refusing account; `None` if an account has none.
    fn adjust_accounts(&self, knob: PlanParameter) -> Option<FittingChange> {
        let mut values: Vec<(DatasetId, String, f64, f64)> = Vec::new();
        let refusing = || self.plan.quotes.iter().filter(|quote| !quote.project(0).fits);
        // A search over real numbers certifies a job at every step, which takes too long for a page.
        if refusing().any(|quote| quote.balance.filter() == FilterKind::Gaussian) {
            return None;
        }
        for quote in refusing() {
            let bound = match knob {
                PlanParameter::Noise => self.least_noise(quote)?,
                PlanParameter::SamplingRate => self.highest_rate(quote)?,
                PlanParameter::Rounds | PlanParameter::Threshold | PlanParameter::Epsilon | PlanParameter::Delta => {
                    return None;
                }
            };
            for moved in self.select_payers(knob, quote, bound) {
                // A dataset pays from several accounts; the strictest account decides.
                match values.iter_mut().find(|(dataset, ..)| *dataset == moved.0) {
                    Some(entry) if knob == PlanParameter::Noise => entry.3 = entry.3.max(moved.3),
                    Some(entry) => entry.3 = entry.3.min(moved.3),
                    None => values.push(moved),
                }
            }
        }
        if K::NOISE_IS_SHARED && knob == PlanParameter::Noise {
            // The account that requires the most noise decides for all datasets.
            let change = values.into_iter().max_by(|(.., one), (.., other)| one.total_cmp(other))?;
            let sentence = format!("Noise z {} instead of {} for all sites.", change.3, change.2);
            return Some(FittingChange { knob, values: vec![change], sentence });
        }
        let what = if knob == PlanParameter::Noise { "noise z" } else { "sampling rate q" };
        let mut sentence = String::new();
        for (index, (dataset, _, from, to)) in values.iter().enumerate() {
            let name = self.datasets.iter().find(|entry| entry.id == *dataset).map_or("", |entry| entry.name.as_str());
            let lead = if index == 0 { what } else { "," };
            let from = (from * 1e6).round() / 1e6;
            // Writing to a string cannot fail.
            let _ = write!(sentence, "{lead} {to} instead of {from} for {name}");
        }
        sentence.push_str(", in all the rounds.");
        (!values.is_empty()).then_some(FittingChange { knob, values, sentence: capital(&sentence) })
    }

    /// Returns the least noise for all payers of an account, in steps of a thousandth.
    fn least_noise(&self, quote: &AccountQuote) -> Option<f64> {
        const MOST: u64 = MOST_NOISE * 1000;
        let at = |thousandths: u64| thousandths as f64 / 1000.0;
        let fits = |thousandths: u64| self.fits(PlanParameter::Noise, quote, at(thousandths));
        let lowest = quote.payers.iter().filter_map(|payer| self.spec.value(PlanParameter::Noise, payer.dataset));
        let lowest = lowest.fold(f64::INFINITY, f64::min);
        if !lowest.is_finite() || !fits(MOST) {
            return None;
        }
        // A single payer's answer is known except for its last digit.
        let mut charges = quote.charges();
        if let (Some(charge), None) = (charges.next(), charges.next())
            && GaussianRelease::from_event(&charge.event).is_some_and(|release| !release.selected)
            && let Some(z) = least_noise(&quote.balance, charge)
        {
            let guess = ((z * 1000.0).ceil() as u64).clamp(1, MOST);
            if fits(guess) && !fits(guess - 1) {
                return Some(at(guess));
            }
        }
        let (mut low, mut high) = ((lowest * 1000.0).floor() as u64, MOST);
        while high - low > 1 {
            let middle = u64::midpoint(low, high);
            if fits(middle) { high = middle } else { low = middle }
        }
        Some(at(high))
    }

    /// Returns the highest sampling rate, to three digits, for all payers of an account.
    fn highest_rate(&self, quote: &AccountQuote) -> Option<f64> {
        let highest =
            quote.payers.iter().filter_map(|payer| self.spec.value(PlanParameter::SamplingRate, payer.dataset));
        let highest = highest.fold(0.0, f64::max);
        // A round needs at least one expected unit.
        let least = quote.payers.iter().map(|payer| 1.0 / payer.units.max(1) as f64).fold(0.0, f64::max);
        let fits = |digits: ThreeDigits| self.fits(PlanParameter::SamplingRate, quote, digits.value());
        let (mut low, mut high) = (ThreeDigits::round_up(least), ThreeDigits::round_up(highest));
        if low >= high || !fits(low) {
            return None;
        }
        while let Some(middle) = low.midpoint(high) {
            if fits(middle) { low = middle } else { high = middle }
        }
        Some(low.value())
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// A number of three digits: (100 + index mod 900) / 10^(12 − index div 900), from 10⁻¹⁰ up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ThreeDigits(u32);

impl ThreeDigits {
    /// Returns the least number of three digits that is not below a value in [10⁻¹⁰, 9.99].
    pub(super) fn round_up(value: f64) -> Self {
        let value = value.clamp(1.0 / SamplingRate::DENOMINATOR as f64, 9.99);
        // The logarithm finds the place up to one step to either side.
        let power = (value.log10().floor().max(-10.0) + 10.0) as u32;
        let mut digits = Self((power * 900).saturating_sub(1));
        while digits.value() < value * (1.0 - 1e-9) {
            digits.0 += 1;
        }
        digits
    }

    /// Returns the number: the nearest to its three digits.
    pub(super) fn value(self) -> f64 {
        let power = self.0 / 900;
        let digits = f64::from(100 + self.0 % 900);
        // Powers of ten up to 10²² are exact, so this is rounded once.
        digits / [1e12, 1e11, 1e10, 1e9, 1e8, 1e7, 1e6, 1e5, 1e4, 1e3, 1e2][power.min(10) as usize]
    }

    /// Returns the number `steps` below; `None` if there is none.
    pub(super) const fn step_down(self, steps: u32) -> Option<Self> {
        match self.0.checked_sub(steps) {
            Some(index) => Some(Self(index)),
            None => None,
        }
    }

    /// Returns a number in the middle; `None` between neighbours.
    pub(super) const fn midpoint(self, other: Self) -> Option<Self> {
        if other.0 > self.0 + 1 { Some(Self(u32::midpoint(self.0, other.0))) } else { None }
    }
}
