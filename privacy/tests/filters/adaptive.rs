//! A simulated analyst, who selects every job from all earlier outputs, stops at will, and retries after a refusal.
//! Jobs have few outcomes, so every transcript can be enumerated, and the loss of all of them together is exact.

#![expect(clippy::unwrap_used, reason = "constants of a test are in range")]

use proptest::prelude::*;
use undertone_privacy::gaussian::GaussianProfile;
use undertone_privacy::ledger::{Account, Budget, GridKind, Headroom, ReservationId};
use undertone_privacy::{Adjacency, Curve, Delta, Epsilon, Event, Fixed, Order, OrderGrid, mechanism};

use crate::sums::{BasicFilter, GdpFilter};

/// The probability of an outcome with the person, and without.
pub(crate) type Outcome = (f64, f64);

/// A job: randomized response, with some probability of revealing everything. Its ε is a number of tenths, its δ of
/// thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct RandomizedJob {
    pub(crate) tenths: u16,
    pub(crate) thousandths: u16,
}

impl RandomizedJob {
    pub(crate) fn event(self) -> Event {
        let epsilon = Epsilon::new(f64::from(self.tenths) / 10.0).unwrap();
        if self.thousandths == 0 {
            return Event::Pure { epsilon };
        }
        Event::Approximate { epsilon, delta: Delta::new(f64::from(self.thousandths) / 1000.0).unwrap() }
    }

    pub(crate) fn outcomes(self) -> Vec<Outcome> {
        let all = f64::from(self.thousandths) / 1000.0;
        let truth = (1.0 - all) / (1.0 + (-f64::from(self.tenths) / 10.0).exp());
        let lie = 1.0 - all - truth;
        let revealed = [(all, 0.0), (0.0, all)];
        [(truth, lie), (lie, truth)].into_iter().chain(revealed.into_iter().filter(|_| all > 0.0)).collect()
    }
}

/// The rule that halts the analyst.
#[derive(Debug, Clone)]
enum HaltingRule {
    Account(Account),
    /// One order, Σρ(α) ≤ B(α).
    OneOrder {
        room: Headroom,
        spent: Curve,
    },
    Basic(BasicFilter),
    /// No rule.
    None,
}

impl HaltingRule {
    /// Charges a job, if the rule admits it.
    fn charge(&mut self, job: RandomizedJob, id: u128) -> bool {
        match self {
            Self::Account(account) => {
                let cost = account.price(&job.event(), Adjacency::AddRemove).unwrap();
                // Two releases are reserved; the second is never made and is returned.
                let reserved = account.reserve(ReservationId(id), &cost, 2);
                if reserved.is_err() && account.reserve(ReservationId(id), &cost, 1).is_err() {
                    return false;
                }
                account.commit(ReservationId(id)).unwrap();
                account.settle(ReservationId(id)).unwrap();
                true
            }
            Self::OneOrder { room, spent } => {
                let cost = mechanism::curve(&job.event(), Adjacency::AddRemove, room.grid()).unwrap();
                let admitted = room.after(spent).admits(&cost);
                if admitted {
                    *spent = spent.add(&cost).unwrap();
                }
                admitted
            }
            Self::Basic(filter) => {
                let decimal = |part: u16, whole: u32| format!("{part}e-{whole}").parse().unwrap();
                filter.charge(decimal(job.tenths, 1), decimal(job.thousandths, 3))
            }
            Self::None => true,
        }
    }
}

/// The analyst selects the next job as a function of all earlier outputs, represented by one number, and of their
/// evidence about the person. After a refusal it tries the other jobs. It stops at random or when no job is admitted.
#[derive(Debug, Clone)]
struct SimulatedAnalyst {
    menu: Vec<RandomizedJob>,
    seed: u64,
    depth: u32,
    /// Asks for the largest jobs when the person seems to be present, as an analyst who wants certainty does.
    greedy: bool,
}

pub(crate) fn mix(state: u64, input: u64) -> u64 {
    let mix = (state ^ input).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mix ^ (mix >> 29)
}

impl SimulatedAnalyst {
    /// Returns every transcript with its two probabilities, under this filter.
    fn play(&self, filter: &HaltingRule) -> Vec<Outcome> {
        let mut transcripts = Vec::new();
        self.explore(filter.clone(), self.seed, 0, (1.0, 1.0), &mut transcripts);
        transcripts
    }

    fn explore(
        &self,
        mut filter: HaltingRule,
        shown: u64,
        depth: u32,
        (p, q): Outcome,
        transcripts: &mut Vec<Outcome>,
    ) {
        let first = if self.greedy && p > q { 0 } else { shown as usize % self.menu.len() };
        let wishes = (0..self.menu.len()).map(|offset| self.menu[(first + offset) % self.menu.len()]);
        let bored = shown.is_multiple_of(23);
        let job = wishes.filter(|_| depth < self.depth && !bored).find(|&job| filter.charge(job, u128::from(depth)));
        let Some(job) = job else {
            transcripts.push((p, q));
            return;
        };
        for (index, outcome) in job.outcomes().into_iter().enumerate() {
            let both = (p * outcome.0, q * outcome.1);
            self.explore(filter.clone(), mix(shown, index as u64 + 1), depth + 1, both, transcripts);
        }
    }
}

fn analysts(with_delta: bool) -> impl Strategy<Value = SimulatedAnalyst> {
    let job = (1u16..15, 0u16..if with_delta { 12 } else { 1 })
        .prop_map(|(tenths, thousandths)| RandomizedJob { tenths, thousandths });
    let depth = if with_delta { 5 } else { 9 };
    (prop::collection::vec(job, 2..6), any::<u64>(), any::<bool>()).prop_map(move |(mut menu, seed, greedy)| {
        menu.sort_by_key(|job| std::cmp::Reverse(job.tenths));
        SimulatedAnalyst { menu, seed, depth, greedy }
    })
}

/// Returns the larger of both directions' Σ max(P − e^ε Q, 0).
pub(crate) fn lost(transcripts: &[Outcome], epsilon: f64) -> f64 {
    let stick = |p: f64, q: f64| (p - epsilon.exp() * q).max(0.0);
    let there: f64 = transcripts.iter().map(|&(p, q)| stick(p, q)).sum();
    there.max(transcripts.iter().map(|&(p, q)| stick(q, p)).sum())
}

/// Returns the larger of both directions' Rényi divergence.
fn renyi(transcripts: &[Outcome], order: f64) -> f64 {
    let of = |p: f64, q: f64| if p == 0.0 { 0.0 } else { p.powf(order) * q.powf(1.0 - order) };
    let there: f64 = transcripts.iter().map(|&(p, q)| of(p, q)).sum();
    there.max(transcripts.iter().map(|&(p, q)| of(q, p)).sum()).ln() / (order - 1.0)
}

const EPSILON: f64 = 2.0;
const DELTA: f64 = 0.1;

fn account() -> HaltingRule {
    let epsilon = Epsilon::new(EPSILON).unwrap();
    let delta = Delta::new(DELTA).unwrap();
    HaltingRule::Account(Account::new(Some(Budget::new(epsilon, delta, GridKind::Standard).unwrap())))
}

proptest! {
    #[test]
    fn account_keeps_budget_under_any_adaptive_analyst(analyst in analysts(true)) {
        let transcripts = analyst.play(&account());
        prop_assert!(lost(&transcripts, EPSILON) <= DELTA + 1e-12);
    }

    #[test]
    fn releases_without_own_delta_keep_the_orders_delta(analyst in analysts(false)) {
        let transcripts = analyst.play(&account());
        prop_assert!(lost(&transcripts, EPSILON) <= 0.75 * DELTA + 1e-12);
    }

    #[test]
    fn one_order_filter_keeps_its_order(analyst in analysts(false), order in 1.1f64..20.0, epsilon in 1.0f64..4.0) {
        let grid = OrderGrid::new(vec![Order::new(order).unwrap()]).unwrap();
        let room = Headroom::of_filter(Epsilon::new(epsilon).unwrap(), Delta::new(0.3).unwrap(), &grid);
        let share = room.remaining().next().and_then(|(_, share)| share).map_or(0.0, Fixed::to_f64_down);
        let transcripts = analyst.play(&HaltingRule::OneOrder { room, spent: Curve::zero(&grid) });
        prop_assert!(renyi(&transcripts, order) <= share + 1e-9);
        prop_assert!(lost(&transcripts, epsilon) <= 0.3 + 1e-12);
    }

    #[test]
    fn basic_filter_keeps_its_sums(analyst in analysts(true)) {
        let filter = BasicFilter::new("1.6".parse().unwrap(), "0.03".parse().unwrap());
        prop_assert!(lost(&analyst.play(&HaltingRule::Basic(filter)), 1.6) <= 0.03 + 1e-12);
    }
}

#[test]
fn analyst_without_filter_exceeds_the_budget() {
    let menu = vec![RandomizedJob { tenths: 12, thousandths: 0 }, RandomizedJob { tenths: 3, thousandths: 0 }];
    let analyst = SimulatedAnalyst { menu, seed: 5, depth: 8, greedy: true };
    let free = analyst.play(&HaltingRule::None);
    let halted = analyst.play(&account());
    assert!(lost(&free, EPSILON) > 2.0 * DELTA);
    assert!(lost(&halted, EPSILON) <= DELTA && halted.len() > 2, "it was admitted something, and then halted");
    for transcripts in [free, halted] {
        let all: f64 = transcripts.iter().map(|(p, _)| p).sum();
        assert!((all - 1.0).abs() < 1e-9);
    }
}

/// A first Gaussian release, and a second whose noise depends on the output of the first, within the filter: by
/// quadrature over the first, with the second's profile in closed form.
#[test]
fn gaussian_filter_keeps_budget_under_adaptive_noise() {
    let epsilon = Epsilon::new(1.0).unwrap();
    let delta = Delta::new(1e-3).unwrap();
    let first = 4.0;
    let menu = [1.0, 3.4, 3.58, 3.7, 5.0, 20.0];
    let profile = |mu: f64, at: f64| {
        let of = |at: f64| GaussianProfile::new(mu, 1.0).unwrap().delta(Epsilon::new(at).unwrap());
        // A negative ε, by the other direction, which is the same for Gaussians.
        if at >= 0.0 { of(at) } else { 1.0 - at.exp() + at.exp() * of(-at) }
    };
    for turn in [-1.0, 0.0, 0.5, 1.0, 2.0] {
        let step = 1e-3;
        let total: f64 = (-12_000..=12_000)
            .map(|index| {
                let x = f64::from(index) * step;
                // The loss of the first release at an output, and the density of this output with the person.
                let mu = 1.0 / first;
                let density = (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
                let loss = mu * x + 0.5 * mu * mu;
                let mut filter = GdpFilter::new(epsilon, delta);
                assert!(filter.charge(first, 1));
                let wishes = menu.into_iter().rev().filter(|_| x < turn).chain(menu);
                let second = wishes.into_iter().find(|&noise| filter.charge(noise, 1));
                density * profile(second.map_or(0.0, |noise| 1.0 / noise), epsilon.get() - loss) * step
            })
            .sum();
        assert!(total <= delta.get() * (1.0 + 1e-9), "{turn}: {total}");
        assert!(total > 0.2 * delta.get(), "{turn}: most of the budget was used, {total}");
    }
}
