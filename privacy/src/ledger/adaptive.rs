//! The analyst at work: chooses every job from all that was shown before, stops when it likes, tries again when refused. Jobs
//! have few outcomes, so every transcript can be enumerated, and what all of them together lose is exact.

#![expect(clippy::unwrap_used, reason = "constants of a test are in range")]

use proptest::prelude::*;

use super::{Account, BasicFilter, Budget, GdpFilter, GridKind, Headroom, ReservationId};
use crate::adjacency::Adjacency;
use crate::curve::{Curve, OrderGrid};
use crate::event::Event;
use crate::fixed::Fixed;
use crate::gaussian::GaussianProfile;
use crate::mechanism;
use crate::unit::{Delta, Epsilon, Order};

/// How likely an outcome is with the person, and without.
type Outcome = (f64, f64);

/// A job: randomized response, with a chance of telling everything. Its ε is a number of tenths, its δ of thousandths.
#[derive(Debug, Clone, Copy)]
struct Job {
    tenths: u16,
    thousandths: u16,
}

impl Job {
    fn event(self) -> Event {
        let epsilon = Epsilon::new(f64::from(self.tenths) / 10.0).unwrap();
        if self.thousandths == 0 {
            return Event::Pure { epsilon };
        }
        Event::Approximate { epsilon, delta: Delta::new(f64::from(self.thousandths) / 1000.0).unwrap() }
    }

    fn outcomes(self) -> Vec<Outcome> {
        let all = f64::from(self.thousandths) / 1000.0;
        let truth = (1.0 - all) / (1.0 + (-f64::from(self.tenths) / 10.0).exp());
        let lie = 1.0 - all - truth;
        let told = [(all, 0.0), (0.0, all)];
        [(truth, lie), (lie, truth)].into_iter().chain(told.into_iter().filter(|_| all > 0.0)).collect()
    }
}

/// Whatever halts the analyst.
#[derive(Debug, Clone)]
enum Filter {
    Account(Account),
    /// One order, Σρ(α) ≤ B(α).
    OneOrder {
        room: Headroom,
        spent: Curve,
    },
    Basic(BasicFilter),
    /// Nothing halts.
    None,
}

impl Filter {
    /// Charges a job, if it is admitted.
    fn charge(&mut self, job: Job, id: u128) -> bool {
        match self {
            Self::Account(account) => {
                let cost = account.price(&job.event(), Adjacency::AddRemove).unwrap();
                // Two releases are reserved; the second is never made and is given back.
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

/// The analyst: which job next is a function of all that was shown, here of the number that stands for it and of what it says
/// about the person. When refused it tries the others, and stops at a whim or when nothing is admitted.
#[derive(Debug, Clone)]
struct Analyst {
    menu: Vec<Job>,
    seed: u64,
    depth: u32,
    /// Asks for the largest jobs when the person seems to be there, as one does who wants to be sure.
    greedy: bool,
}

fn mixed(state: u64, input: u64) -> u64 {
    let mixed = (state ^ input).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 29)
}

impl Analyst {
    /// Every transcript with its two probabilities, when this filter halts.
    fn play(&self, filter: &Filter) -> Vec<Outcome> {
        let mut transcripts = Vec::new();
        self.explore(filter.clone(), self.seed, 0, (1.0, 1.0), &mut transcripts);
        transcripts
    }

    fn explore(&self, mut filter: Filter, shown: u64, depth: u32, (p, q): Outcome, transcripts: &mut Vec<Outcome>) {
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
            self.explore(filter.clone(), mixed(shown, index as u64 + 1), depth + 1, both, transcripts);
        }
    }
}

fn analysts(with_delta: bool) -> impl Strategy<Value = Analyst> {
    let job =
        (1u16..15, 0u16..if with_delta { 12 } else { 1 }).prop_map(|(tenths, thousandths)| Job { tenths, thousandths });
    let depth = if with_delta { 5 } else { 9 };
    (prop::collection::vec(job, 2..6), any::<u64>(), any::<bool>()).prop_map(move |(mut menu, seed, greedy)| {
        menu.sort_by_key(|job| std::cmp::Reverse(job.tenths));
        Analyst { menu, seed, depth, greedy }
    })
}

/// The larger of both directions' Σ max(P − e^ε Q, 0).
fn lost(transcripts: &[Outcome], epsilon: f64) -> f64 {
    let stick = |p: f64, q: f64| (p - epsilon.exp() * q).max(0.0);
    let there: f64 = transcripts.iter().map(|&(p, q)| stick(p, q)).sum();
    there.max(transcripts.iter().map(|&(p, q)| stick(q, p)).sum())
}

/// The larger of both directions' Rényi divergence.
fn renyi(transcripts: &[Outcome], order: f64) -> f64 {
    let of = |p: f64, q: f64| if p == 0.0 { 0.0 } else { p.powf(order) * q.powf(1.0 - order) };
    let there: f64 = transcripts.iter().map(|&(p, q)| of(p, q)).sum();
    there.max(transcripts.iter().map(|&(p, q)| of(q, p)).sum()).ln() / (order - 1.0)
}

const EPSILON: f64 = 2.0;
const DELTA: f64 = 0.1;

fn account() -> Filter {
    let (epsilon, delta) = (Epsilon::new(EPSILON).unwrap(), Delta::new(DELTA).unwrap());
    Filter::Account(Account::new(Some(Budget::new(epsilon, delta, GridKind::Standard).unwrap())))
}

proptest! {
    #[test]
    fn whatever_the_analyst_chooses_an_account_keeps_its_budget(analyst in analysts(true)) {
        let transcripts = analyst.play(&account());
        prop_assert!(lost(&transcripts, EPSILON) <= DELTA + 1e-12);
    }

    #[test]
    fn releases_without_a_delta_of_their_own_keep_the_part_of_the_orders(analyst in analysts(false)) {
        let transcripts = analyst.play(&account());
        prop_assert!(lost(&transcripts, EPSILON) <= 0.75 * DELTA + 1e-12);
    }

    #[test]
    fn a_filter_of_one_order_keeps_that_order(analyst in analysts(false), order in 1.1f64..20.0, epsilon in 1.0f64..4.0) {
        let grid = OrderGrid::new(vec![Order::new(order).unwrap()]).unwrap();
        let room = Headroom::of_filter(Epsilon::new(epsilon).unwrap(), Delta::new(0.3).unwrap(), &grid);
        let share = room.left().next().and_then(|(_, share)| share).map_or(0.0, Fixed::to_f64_down);
        let transcripts = analyst.play(&Filter::OneOrder { room, spent: Curve::zero(&grid) });
        prop_assert!(renyi(&transcripts, order) <= share + 1e-9);
        prop_assert!(lost(&transcripts, epsilon) <= 0.3 + 1e-12);
    }

    #[test]
    fn the_basic_filter_keeps_its_sums(analyst in analysts(true)) {
        let filter = BasicFilter::new("1.6".parse().unwrap(), "0.03".parse().unwrap());
        prop_assert!(lost(&analyst.play(&Filter::Basic(filter)), 1.6) <= 0.03 + 1e-12);
    }
}

#[test]
fn without_a_filter_the_same_analyst_learns_more_than_the_budget() {
    let menu = vec![Job { tenths: 12, thousandths: 0 }, Job { tenths: 3, thousandths: 0 }];
    let analyst = Analyst { menu, seed: 5, depth: 8, greedy: true };
    let (free, halted) = (analyst.play(&Filter::None), analyst.play(&account()));
    assert!(lost(&free, EPSILON) > 2.0 * DELTA);
    assert!(lost(&halted, EPSILON) <= DELTA && halted.len() > 2, "it was admitted something, and then halted");
    for transcripts in [free, halted] {
        let all: f64 = transcripts.iter().map(|(p, _)| p).sum();
        assert!((all - 1.0).abs() < 1e-9);
    }
}

/// A first Gaussian release, and a second whose noise is chosen from what the first showed, within the filter: by quadrature
/// over the first, with the second's profile in closed form.
#[test]
fn the_gaussian_filter_keeps_its_budget_when_noise_is_chosen_from_what_was_shown() {
    let (epsilon, delta) = (Epsilon::new(1.0).unwrap(), Delta::new(1e-3).unwrap());
    let first = 4.0;
    let menu = [1.0, 3.4, 3.58, 3.7, 5.0, 20.0];
    let profile = |mu: f64, at: f64| {
        let of = |at: f64| GaussianProfile::of_mu(mu).delta(Epsilon::new(at).unwrap());
        // A negative ε, by the other direction, which is the same for Gaussians.
        if at >= 0.0 { of(at) } else { 1.0 - at.exp() + at.exp() * of(-at) }
    };
    for turn in [-1.0, 0.0, 0.5, 1.0, 2.0] {
        let step = 1e-3;
        let total: f64 = (-12_000..=12_000)
            .map(|index| {
                let x = f64::from(index) * step;
                // What the first release says of the person, and how likely that is when the person is there.
                let mu = 1.0 / first;
                let (density, loss) =
                    ((-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt(), mu * x + 0.5 * mu * mu);
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
