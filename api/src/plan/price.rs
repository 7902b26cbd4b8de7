//! The charges of a plan to every account, and each account's answer: computed once, on copies of the balances.

use std::cell::RefCell;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use undertone_privacy::ledger::{Balance, Cost, FilterKind, Headroom, LedgerError, ReservationId};
use undertone_privacy::{Event, Fixed, mechanism};

use super::PlanParameter;
use super::balances::{AccountBalances, AccountKey};
use crate::dataset::Dataset;
use crate::id::DatasetId;
use crate::job::{Charge, JobKind};

/// The most rounds of a job.
pub(super) const MOST_ROUNDS: u32 = 100_000;

/// A job kind whose cost is counted in rounds: each charged dataset pays one release a round, and the releases in
/// reserve.
pub trait RoundedKind: JobKind {
    /// The singular name of a round in counts.
    const ROUND: &'static str = "round";

    /// Whether a job has one noise multiplier for all datasets.
    const NOISE_IS_SHARED: bool = false;

    /// Returns the rounds in which releases are charged; 0 if there are none.
    fn rounds(&self) -> u32;

    /// Returns the noisy steps of each party in a round, all in its one release.
    fn steps(&self) -> u32 {
        1
    }

    /// Returns a dataset's number; `None` if it has none.
    fn value(&self, knob: PlanParameter, dataset: DatasetId) -> Option<f64>;

    /// Sets a dataset's number; the number of rounds is set for all datasets. A number out of range changes nothing.
    fn set(&mut self, knob: PlanParameter, dataset: DatasetId, value: f64);

    /// Returns the path of the number in the spec: `spec.participants.2.sampling_rate`.
    fn field(&self, knob: PlanParameter, dataset: DatasetId) -> String;
}

/// A charged dataset.
#[derive(Debug, Clone)]
pub struct ChargedDataset {
    /// The dataset.
    pub dataset: DatasetId,
    /// Its name.
    pub name: String,
    /// n, the public number of its units.
    pub units: u64,
}

/// The charge of a payer.
#[derive(Debug, Clone)]
struct PayerCharge {
    charge: Charge,
    /// The cost of one release on the account's orders; `None` if the event has no price there, and under the Gaussian
    /// filter, which charges the job as a whole.
    cost: Option<Cost>,
    /// Whether the job has a price for the account's unit.
    is_priced: bool,
}

/// The state of an account after a plan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProjectedAccount {
    /// ε of spent, reserved and requested together, by the account's own gauge, rounded up; infinite if none covers it.
    pub epsilon: f64,
    /// The used part of the filter's budget, rounded up; above 1 if it does not fit.
    pub fraction: f64,
    /// Whether the account would admit it.
    pub fits: bool,
}

/// An account and every dataset of the plan that pays from it. Two versions of a dataset share one.
#[derive(Debug, Clone)]
pub struct AccountQuote {
    /// The balance.
    pub balance: Balance,
    /// The datasets that pay from it.
    pub payers: Vec<ChargedDataset>,
    /// The charge of each payer.
    dues: Vec<PayerCharge>,
    headroom: Headroom,
    /// Under the Gaussian filter: the total cost by the number of more rounds, because a certificate takes milliseconds.
    certified: RefCell<BTreeMap<i64, Option<Cost>>>,
}

impl AccountQuote {
    /// Makes an account without payers.
    fn new(balance: Balance) -> Self {
        Self {
            headroom: balance.headroom(),
            balance,
            payers: Vec::new(),
            dues: Vec::new(),
            certified: RefCell::new(BTreeMap::new()),
        }
    }

    /// Makes an account that pays one charge.
    pub fn paying(balance: &Balance, charge: &Charge) -> Self {
        let mut quote = Self::new(balance.clone());
        quote.charge(charge.clone());
        quote
    }

    /// Makes an account without a price for a charge, which it does not admit.
    pub(super) fn refusing(balance: &Balance, charge: &Charge) -> Self {
        let mut quote = Self::new(balance.clone());
        quote.refuse(charge.clone());
        quote
    }

    fn charge(&mut self, charge: Charge) {
        let cost = mechanism::curve(&charge.event, charge.adjacency, self.balance.grid()).ok();
        let is_priced = cost.is_some() || self.balance.filter() == FilterKind::Gaussian;
        self.dues.push(PayerCharge { charge, cost, is_priced });
    }

    /// Adds a charge without a price.
    fn refuse(&mut self, charge: Charge) {
        self.dues.push(PayerCharge { charge, cost: None, is_priced: false });
    }

    /// Returns whether the account charges each job as a whole, or one of these.
    fn is_whole(&self) -> bool {
        let is_mechanism = |due: &PayerCharge| due.charge.event.whole_releases().is_some();
        self.balance.filter() == FilterKind::Gaussian || self.dues.iter().any(is_mechanism)
    }

    /// Returns whether every charge has a price.
    pub fn is_priced(&self) -> bool {
        self.total(0).is_some()
    }

    /// Returns the charge of each payer, in their order.
    pub fn charges(&self) -> impl Iterator<Item = &Charge> {
        self.dues.iter().map(|due| &due.charge)
    }

    /// Returns the most releases, one of each payer, that fit into the remainder, without the plan's own number of
    /// them.
    pub fn releases_that_fit(&self) -> u64 {
        if self.is_whole() {
            let planned = self.dues.iter().map(|due| due.charge.releases).max().unwrap_or(0);
            let fits = |releases: u64| {
                let change = i64::try_from(releases).ok().zip(i64::try_from(planned).ok());
                change.is_some_and(|(releases, planned)| self.admits(releases - planned))
            };
            return largest(planned, u64::from(MOST_ROUNDS), fits);
        }
        self.round().map_or(0, |round| self.headroom.releases(&round))
    }

    /// Returns the names of the payers as a list in words.
    pub fn names(&self) -> String {
        self.payers.iter().map(|payer| payer.name.as_str()).collect::<Vec<_>>().join(" and ")
    }

    /// Returns the total cost of all payers, with `change` rounds' releases more; `None` if one has no price.
    fn total(&self, change: i64) -> Option<Cost> {
        if self.is_whole() {
            if let Some(known) = self.certified.borrow().get(&change) {
                return known.clone();
            }
            let cost = self.certify(change);
            self.certified.borrow_mut().insert(change, cost.clone());
            return cost;
        }
        let zero = Cost::zero(self.balance.grid());
        self.dues.iter().try_fold(zero, |sum, due| {
            let releases = due.charge.releases.saturating_add_signed(change);
            sum.add(&due.cost.as_ref()?.times(releases)).ok()
        })
    }

    /// Returns the cost of all payers, each as a job of its own after those before it.
    fn certify(&self, change: i64) -> Option<Cost> {
        let mut balance = self.balance.clone();
        let mut sum = Cost::zero(self.balance.grid());
        for due in &self.dues {
            if !due.is_priced {
                return None;
            }
            let Charge { event, adjacency, releases, .. } = &due.charge;
            let releases = releases.saturating_add_signed(change);
            let event = event.with_planned_releases(releases);
            let cost = balance.job_cost(&event, releases, *adjacency).ok()?;
            sum = sum.add(&cost.total(releases)).ok()?;
            // A job that does not fit leaves the rest to the others: the sum does not fit either.
            let _ = balance.reserve_job(ReservationId(0), &cost, releases);
        }
        Some(sum)
    }

    /// Returns the cost of one round to all payers; `None` if one has no price.
    fn round(&self) -> Option<Cost> {
        let zero = Cost::zero(self.balance.grid());
        self.dues.iter().try_fold(zero, |sum, due| sum.add(due.cost.as_ref()?).ok())
    }

    /// Returns whether the remainder of the account suffices, by the ledger's own check.
    fn admits(&self, change: i64) -> bool {
        self.total(change).is_some_and(|total| self.balance.check(&total, 1).is_ok())
    }

    /// Returns whether the losses of the plan fit into the remainder, whatever its side mass.
    pub(super) fn loss_fits(&self) -> bool {
        let loss_alone = self.total(0).and_then(|total| {
            let losses = total.losses().map(|(_, loss)| loss).collect();
            Cost::from_fixed(total.grid(), losses, Fixed::ZERO).ok()
        });
        loss_alone.is_some_and(|loss| self.balance.check(&loss, 1).is_ok())
    }

    /// Returns the side mass of the plan as a multiple of the remaining one, rounded up; infinite if the plan has no
    /// price.
    pub(super) fn side_excess(&self) -> f64 {
        match self.total(0).map(|total| total.side_delta()) {
            None => f64::INFINITY,
            Some(Fixed::ZERO) => 0.0,
            Some(side) => side.to_f64_up() / self.headroom.side_delta().to_f64_down(),
        }
    }

    /// Returns the state of the account after the plan, with `change` rounds more.
    pub fn project(&self, change: i64) -> ProjectedAccount {
        let infinite = ProjectedAccount { epsilon: f64::INFINITY, fraction: f64::INFINITY, fits: false };
        let Some(total) = self.total(change) else { return infinite };
        let mut copy = self.balance.clone();
        match copy.reserve(ReservationId(0), &total, 1) {
            Ok(_) => {
                let summary = copy.summary();
                ProjectedAccount {
                    epsilon: summary.committed_epsilon,
                    fraction: summary.committed_fraction,
                    fits: true,
                }
            }
            Err(LedgerError::Refused(refusal)) => {
                let would_be = refusal.shortfall().and_then(|shortfall| shortfall.would_be).unwrap_or(f64::INFINITY);
                let limit = self.balance.budget().map_or(0.0, |budget| budget.epsilon().get());
                ProjectedAccount { epsilon: would_be, fraction: (would_be / limit).max(1.0), fits: false }
            }
            Err(_) => infinite,
        }
    }

    /// Returns the remainder of the limit after the plan, rounded down; negative if it does not fit, `None` without a
    /// budget or if no ε covers the plan.
    pub fn remaining(&self) -> Option<f64> {
        let remainder = self.balance.budget()?.epsilon().get() - self.project(0).epsilon;
        // A difference other than 0 may have been rounded up by half a unit.
        remainder.is_finite().then(|| if remainder == 0.0 { 0.0 } else { remainder.next_down() })
    }

    /// Returns the remaining part of the filter's budget after the plan, rounded down; 0 if it does not fit.
    pub fn remaining_fraction(&self) -> f64 {
        let remainder = 1.0 - self.project(0).fraction;
        if remainder > 0.0 { remainder.next_down() } else { 0.0 }
    }

    /// Returns how many more rounds, and how many more jobs of the same kind, would fit after the plan.
    pub fn count_further(&self) -> (u64, u64) {
        if self.is_whole() {
            let Some(total) = self.total(0).filter(|_| self.admits(0)) else { return (0, 0) };
            let fits = |more: u64| i64::try_from(more).is_ok_and(|more| self.admits(more));
            let planned = self.dues.iter().map(|due| due.charge.releases).max().unwrap_or(1);
            let jobs = self.headroom.after(&total).releases(&total);
            return (largest(planned, u64::from(MOST_ROUNDS), fits), jobs);
        }
        match (self.round(), self.total(0)) {
            (Some(round), Some(total)) if self.admits(0) => {
                let headroom = self.headroom.after(&total);
                (headroom.releases(&round), headroom.releases(&total))
            }
            _ => (0, 0),
        }
    }

    /// Returns the most rounds that the account admits instead of `rounds`.
    pub(super) fn rounds_that_fit(&self, rounds: u32) -> u32 {
        let fits = |count: u32| self.admits(i64::from(count) - i64::from(rounds));
        if self.is_whole() {
            let fits = |count: u64| u32::try_from(count).is_ok_and(fits);
            return u32::try_from(largest(u64::from(rounds), u64::from(MOST_ROUNDS), fits)).unwrap_or(MOST_ROUNDS);
        }
        if !fits(1) {
            return 0;
        }
        let (mut low, mut high) = (1, MOST_ROUNDS + 1);
        while high - low > 1 {
            let middle = u32::midpoint(low, high);
            if fits(middle) { low = middle } else { high = middle }
        }
        low
    }
}

/// Returns the largest number from 1 to `most` that passes a test which fails from some number on, and 0 if none does. Numbers
/// near `near` are tried first: each test certifies a job.
pub(super) fn largest(near: u64, most: u64, passes: impl Fn(u64) -> bool) -> u64 {
    let near = near.clamp(1, most);
    let (mut low, mut high) = if passes(near) {
        let mut reach = near;
        while reach < most && passes((2 * reach).min(most)) {
            reach = (2 * reach).min(most);
        }
        (reach, (2 * reach).min(most + 1))
    } else {
        (0, near)
    };
    while high - low > 1 {
        let middle = u64::midpoint(low, high);
        if passes(middle) { low = middle } else { high = middle }
    }
    low
}

/// The account that determines how many rounds fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Bottleneck))]
pub struct LimitingAccount {
    /// The datasets that pay from it; nearly always one.
    pub datasets: Vec<DatasetId>,
    /// The most rounds that it admits.
    pub rounds_that_fit: u32,
    /// The most rounds that all other accounts would admit; absent if there are none.
    pub others: Option<u32>,
    /// The bottleneck in a sentence.
    pub sentence: String,
}

/// A plan with its charged accounts.
#[derive(Debug, Clone)]
pub struct PricedPlan {
    /// The requested rounds.
    pub rounds: u32,
    /// Noisy steps in each round.
    pub steps: u32,
    /// The singular name of a round.
    pub round: &'static str,
    /// Every account it charges, in the order of the participants.
    pub quotes: Vec<AccountQuote>,
}

impl PricedPlan {
    /// Prices a plan; `None` if it has no rounds with charges, or no account is charged.
    pub fn from_spec<K: RoundedKind>(spec: &K, datasets: &[Dataset], balances: &AccountBalances) -> Option<Self> {
        let (mut keys, mut quotes): (Vec<AccountKey>, Vec<AccountQuote>) = (Vec::new(), Vec::new());
        for (id, _) in spec.datasets() {
            let Some(dataset) = datasets.iter().find(|dataset| dataset.id == id) else { continue };
            let charge = spec.cost(dataset).filter(|charge| charge.event != Event::NonPrivate);
            let Some(charge) = charge else { continue };
            let others = balances.limited(dataset, &charge).map(|(unit, _)| (unit, charge.for_unit(unit).ok()));
            let dues: Vec<_> = std::iter::once((charge.unit, Some(charge.clone()))).chain(others).collect();
            for (unit, due) in dues {
                let key = AccountKey::new(dataset.organization, dataset.lineage, unit, charge.adjacency);
                let index = keys.iter().position(|candidate| *candidate == key).unwrap_or_else(|| {
                    keys.push(key);
                    quotes
                        .push(AccountQuote::new(balances.balance(key).cloned().unwrap_or_else(|| Balance::new(None))));
                    quotes.len() - 1
                });
                let payer = ChargedDataset { dataset: id, name: dataset.name.clone(), units: spec.units(dataset) };
                quotes[index].payers.push(payer);
                match due {
                    Some(due) => quotes[index].charge(due),
                    None => quotes[index].refuse(charge.clone()),
                }
            }
        }
        let rounds = spec.rounds();
        let steps = spec.steps();
        (rounds > 0 && !quotes.is_empty()).then_some(Self { rounds, steps, round: K::ROUND, quotes })
    }

    /// Returns the account from which a dataset pays.
    pub fn find_quote(&self, dataset: DatasetId) -> Option<&AccountQuote> {
        self.quotes.iter().find(|quote| quote.payers.iter().any(|payer| payer.dataset == dataset))
    }

    /// Returns the expected passes over a dataset in so many rounds: in each step each unit takes part with the
    /// probability of the sampling rate.
    pub fn epochs(&self, rounds: u32, rate: f64) -> f64 {
        f64::from(rounds) * f64::from(self.steps) * rate
    }

    /// Returns whether every account admits the plan.
    pub fn admitted(&self) -> bool {
        self.quotes.iter().all(|quote| quote.admits(0))
    }

    /// Returns whether every account has a budget.
    pub fn budgeted(&self) -> bool {
        self.quotes.iter().all(|quote| quote.balance.budget().is_some())
    }

    /// Returns the most rounds that the account of `quote` admits.
    pub fn rounds_that_fit(&self, quote: &AccountQuote) -> u32 {
        quote.rounds_that_fit(self.rounds)
    }

    /// Returns the account that admits the fewest rounds; `None` if no account is charged.
    pub fn bottleneck(&self) -> Option<LimitingAccount> {
        let most: Vec<(u32, &AccountQuote)> =
            self.quotes.iter().map(|quote| (self.rounds_that_fit(quote), quote)).collect();
        let index = (0..most.len()).min_by_key(|index| most[*index].0)?;
        let (rounds_that_fit, quote) = most[index];
        // Accounts of other units from which the same datasets pay do not count as others.
        let payers = |quote: &AccountQuote| quote.payers.iter().map(|payer| payer.dataset).collect::<Vec<_>>();
        let others = (0..most.len()).filter(|other| payers(most[*other].1) != payers(quote));
        let next = others.min_by_key(|index| most[*index].0);
        let next = next.map(|next| most[next]);
        let admits = |rounds: u32| match rounds {
            0 => format!("not one {}", self.round),
            1 => format!("1 {}", self.round),
            MOST_ROUNDS.. => format!("100,000 {}s and more", self.round),
            n => format!("{n} {}s", self.round),
        };
        let rest =
            next.map(|(rounds, next)| format!(" The next limit is that of {}, with {}.", next.names(), admits(rounds)));
        Some(LimitingAccount {
            datasets: quote.payers.iter().map(|payer| payer.dataset).collect(),
            rounds_that_fit,
            others: next.map(|(rounds, _)| rounds),
            sentence: format!(
                "{} limits the plan: its budget admits {}.{}",
                quote.names(),
                admits(rounds_that_fit),
                rest.unwrap_or_default()
            ),
        })
    }
}
