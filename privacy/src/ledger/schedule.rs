//! Random schedules against an oracle of plain integers: in any order of operations, the ledger matches a sum over its
//! rows, the cap holds, and a refusal changes nothing.

#![expect(clippy::unwrap_used, reason = "constants of a test are in range")]

use proptest::prelude::*;

use super::{Account, Balance, Budget, GridKind, Headroom, LedgerError, Refusal, Reservation, ReservationId};
use crate::adjacency::Adjacency;
use crate::curve::Curve;
use crate::event::Event;
use crate::event::any::release;
use crate::fixed::Fixed;
use crate::unit::{Delta, Epsilon};

#[derive(Debug, Clone)]
enum LedgerStep {
    /// Parts per thousand of each order's share, and of the side δ; then the number of releases.
    Reserve {
        id: u128,
        parts: Vec<u16>,
        side: u16,
        releases: u64,
    },
    Commit {
        id: u128,
    },
    Settle {
        id: u128,
    },
    /// The process stops and restarts with its rows.
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<LedgerStep>> {
    let id = || 0u128..12;
    let reserve = (id(), prop::collection::vec(0u16..400, 8), 0u16..60, 0u64..6)
        .prop_map(|(id, parts, side, releases)| LedgerStep::Reserve { id, parts, side, releases });
    prop::collection::vec(
        prop_oneof![
            3 => reserve,
            6 => id().prop_map(|id| LedgerStep::Commit { id }),
            2 => id().prop_map(|id| LedgerStep::Settle { id }),
            1 => Just(LedgerStep::Restart),
        ],
        1..120,
    )
}

fn budgets() -> impl Strategy<Value = Budget> {
    (0.3f64..300.0, -14.0f64..-4.0).prop_map(|(epsilon, exponent)| {
        let epsilon = Epsilon::new(epsilon).unwrap();
        Budget::new(epsilon, Delta::new(libm::exp(exponent)).unwrap(), GridKind::for_epsilon(epsilon)).unwrap()
    })
}

/// The oracle's state of one reservation.
struct OracleRow {
    id: u128,
    cost: Vec<u128>,
    side: u128,
    releases: u128,
    committed: u128,
    settled: bool,
}

/// A ledger of plain integers.
struct IntegerOracle {
    shares: Vec<Option<u128>>,
    side: u128,
    rows: Vec<OracleRow>,
}

impl IntegerOracle {
    fn new(budget: &Budget) -> Self {
        let shares = budget.shares().into_iter().map(|share| share.map(Fixed::units)).collect();
        Self { shares, side: Fixed::floor(budget.side_delta().get()).units(), rows: Vec::new() }
    }

    fn sum(&self, of: impl Fn(&OracleRow) -> u128, order: Option<usize>) -> u128 {
        self.rows.iter().map(|row| of(row) * order.map_or(row.side, |order| row.cost[order])).sum()
    }

    fn count_charged(row: &OracleRow) -> u128 {
        if row.settled { row.committed } else { row.releases }
    }

    fn admits(&self, cost: &[u128], side: u128, releases: u128) -> bool {
        let fits = self.shares.iter().enumerate().any(|(order, share)| {
            share.is_some_and(|share| self.sum(Self::count_charged, Some(order)) + cost[order] * releases <= share)
        });
        fits && self.sum(Self::count_charged, None) + side * releases <= self.side
    }

    fn is_capped(&self) -> bool {
        self.admits(&vec![0; self.shares.len()], 0, 1)
    }

    fn row(&mut self, id: u128) -> Option<&mut OracleRow> {
        self.rows.iter_mut().find(|row| row.id == id)
    }
}

/// Returns the costs of a step, in units.
fn cost(budget: &Budget, parts: &[u16], side: u16) -> (Vec<u128>, u128) {
    let part = |whole: u128, parts: u16| whole / 1000 * u128::from(parts);
    let shares = budget.shares();
    // Where an order is dead, any cost will do.
    let losses = shares.iter().zip(parts).map(|(share, &parts)| part(share.map_or(1 << 64, Fixed::units), parts));
    (losses.collect(), part(Fixed::floor(budget.side_delta().get()).units(), side))
}

fn assert_sums(account: &Account, oracle: &IntegerOracle) {
    let balance = account.balance();
    for (order, ((_, spent), (_, reserved))) in balance.spent().losses().zip(balance.reserved().losses()).enumerate() {
        let committed = oracle.sum(|row| row.committed, Some(order));
        assert_eq!(spent.units(), committed);
        assert_eq!(spent.units() + reserved.units(), oracle.sum(IntegerOracle::count_charged, Some(order)));
    }
    assert_eq!(balance.spent().side_delta().units(), oracle.sum(|row| row.committed, None));
    assert!(oracle.is_capped(), "the cap is exceeded");

    let gauge = account.summary();
    let limit = gauge.limit.unwrap().get();
    assert!(0.0 <= gauge.spent_epsilon && gauge.spent_epsilon <= gauge.committed_epsilon);
    assert!(gauge.committed_epsilon <= limit, "{gauge:?}");
    assert!((gauge.spent_epsilon + gauge.reserved_epsilon + gauge.left_epsilon - limit).abs() <= 1e-12 * limit);
    assert!(gauge.spent_fraction <= gauge.committed_fraction && gauge.committed_fraction <= 1.0);
}

proptest! {
    #[test]
    fn ledger_matches_sum_over_rows(budget in budgets(), steps in steps()) {
        let mut account = Account::new(Some(budget));
        let mut oracle = IntegerOracle::new(&budget);
        for step in steps {
            let before = account.clone();
            let (expected, got) = match &step {
                LedgerStep::Reserve { id, parts, side, releases } => {
                    let (losses, side) = cost(&budget, parts, *side);
                    let grid = budget.grid().orders();
                    let fixed = losses.iter().map(|&units| Fixed::from_units(units)).collect();
                    let per_release = Curve::from_fixed(&grid, fixed, Fixed::from_units(side)).unwrap();
                    let free = oracle.row(*id).is_none();
                    let expected = free && oracle.admits(&losses, side, u128::from(*releases));
                    if expected {
                        let releases = u128::from(*releases);
                        oracle.rows.push(OracleRow { id: *id, cost: losses, side, releases, committed: 0, settled: false });
                    }
                    (expected, account.reserve(ReservationId(*id), &per_release, *releases))
                }
                LedgerStep::Commit { id } => {
                    let row = oracle.row(*id).filter(|row| !row.settled && row.committed < row.releases);
                    let expected = row.is_some();
                    if let Some(row) = row {
                        row.committed += 1;
                    }
                    (expected, account.commit(ReservationId(*id)))
                }
                LedgerStep::Settle { id } => {
                    let row = oracle.row(*id);
                    let open = row.as_ref().map(|row| if row.settled { 0 } else { row.releases - row.committed });
                    if let Some(row) = row {
                        row.settled = true;
                    }
                    let returned = account.settle(ReservationId(*id));
                    prop_assert_eq!(returned.as_ref().ok().map(|&count| u128::from(count)), open);
                    (open.is_some(), returned.map(|_| ()))
                }
                LedgerStep::Restart => {
                    let rows: Vec<String> = account.reservations().map(|row| serde_json::to_string(row).unwrap()).collect();
                    let stored = serde_json::to_string(account.balance()).unwrap();
                    let rows = rows.iter().map(|row| serde_json::from_str::<Reservation>(row).unwrap());
                    account = Account::rebuilt(Some(budget), rows).unwrap();
                    prop_assert_eq!(account.balance(), &serde_json::from_str::<Balance>(&stored).unwrap());
                    prop_assert_eq!(&account, &before);
                    (true, Ok(()))
                }
            };
            prop_assert_eq!(got.is_ok(), expected, "{:?}: {:?}", step, got);
            if got.is_err() {
                prop_assert_eq!(&account, &before, "a refusal changed something");
            }
            prop_assert!(account.epsilon_spent() >= before.epsilon_spent());
            assert_sums(&account, &oracle);
        }
    }

    #[test]
    fn headroom_count_is_admitted_and_one_more_is_refused(budget in budgets(), parts in prop::collection::vec(1u16..400, 8)) {
        let mut account = Account::new(Some(budget));
        let (losses, _) = cost(&budget, &parts, 0);
        let fixed = losses.iter().map(|&units| Fixed::from_units(units.max(1))).collect();
        let per_release = Curve::from_fixed(&budget.grid().orders(), fixed, Fixed::ZERO).unwrap();
        let most = account.headroom().releases(&per_release);
        let refused = account.reserve(ReservationId(1), &per_release, most + 1).unwrap_err();
        let LedgerError::Refused(Refusal::OverBudget(shortfall)) = refused else { panic!("{refused}") };
        prop_assert_eq!(shortfall.releases_that_fit, most);
        prop_assert!(shortfall.would_be.is_none_or(|epsilon| epsilon > shortfall.limit * (1.0 - 1e-9)));
        account.reserve(ReservationId(1), &per_release, most).unwrap();
        prop_assert_eq!(account.headroom().releases(&per_release), 0);
    }
}

/// Draws jobs of every kind of event: a number of releases of an event, of which some are committed, and settled or
/// not.
fn jobs() -> impl Strategy<Value = Vec<(Event, u64, u64, bool)>> {
    let nested = prop_oneof![
        6 => release(),
        1 => prop::collection::vec(release(), 0..3).prop_map(|events| Event::Composed { events }),
        1 => (0u64..9, release()).prop_map(|(count, of)| of.times(count)),
        1 => crate::event::any::event(),
    ];
    let job = (nested, 0u64..200, 0u64..200, any::<bool>())
        .prop_map(|(event, a, b, settled)| (event, a.max(b), a.min(b), settled));
    prop::collection::vec(job, 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn balance_bits_ignore_order_of_releases(
        jobs in jobs(), turns in prop::collection::vec(any::<prop::sample::Index>(), 40), kind in 0..2
    ) {
        let kind = if kind == 0 { GridKind::Standard } else { GridKind::Research };
        let epsilon = Epsilon::new(1e6).unwrap();
        let limit = Budget::with_side_delta(epsilon, Delta::new(0.9).unwrap(), Delta::new(0.5).unwrap(), kind).unwrap();
        // Priced and admitted events: an infinite cost, or a side mass that is too large, is neither.
        let mut account = Account::new(Some(limit));
        let mut rows: Vec<(ReservationId, Curve, u64, u64, bool)> = Vec::new();
        for (index, (event, releases, committed, settled)) in jobs.into_iter().enumerate() {
            let id = ReservationId(index as u128);
            let Ok(cost) = account.price(&event, Adjacency::AddRemove) else { continue };
            let before = account.clone();
            if account.reserve(id, &cost, releases).is_ok() {
                rows.push((id, cost, releases, committed, settled));
            } else {
                prop_assert_eq!(&account, &before);
            }
        }
        // Commits of all jobs interleaved, some settled at their end: in the drawn order, or one job after the other.
        let mut interleaved = account.clone();
        let mut remaining: Vec<u64> = rows.iter().map(|row| row.3).collect();
        let mut turns = turns.iter().cycle();
        while remaining.iter().any(|remaining| *remaining > 0) {
            let at = turns.next().map_or(0, |turn| turn.index(rows.len()));
            let at = (at..rows.len()).chain(0..at).find(|&at| remaining[at] > 0).unwrap();
            interleaved.commit(rows[at].0).unwrap();
            remaining[at] -= 1;
        }
        for (id, _, _, committed, _) in rows.iter().rev() {
            (0..*committed).for_each(|_| account.commit(*id).unwrap());
        }
        for (id, ..) in rows.iter().filter(|row| row.4) {
            interleaved.settle(*id).unwrap();
        }
        for (id, ..) in rows.iter().rev().filter(|row| row.4) {
            account.settle(*id).unwrap();
        }
        prop_assert_eq!(&account, &interleaved);
        // The balance equals the one of the counts, in any order of the rows.
        let stored = rows.iter().rev().map(|(id, cost, releases, committed, settled)| {
            Reservation::from_parts(*id, cost.clone(), *releases, *committed, *settled).unwrap()
        });
        prop_assert_eq!(&Account::rebuilt(Some(limit), stored).unwrap(), &account);
        for (order, (_, spent)) in account.balance().spent().losses().enumerate() {
            let of = |cost: &Curve| cost.losses().nth(order).unwrap().1.units();
            let sum: u128 = rows.iter().map(|row| of(&row.1) * u128::from(row.3)).sum();
            prop_assert_eq!(spent.units(), sum);
        }
        prop_assert_eq!(account.epsilon_spent().to_bits(), interleaved.epsilon_spent().to_bits());
    }
}

fn budget(epsilon: f64) -> Budget {
    Budget::new(Epsilon::new(epsilon).unwrap(), Delta::new(1e-6).unwrap(), GridKind::Standard).unwrap()
}

fn flat(nats: f64) -> Curve {
    let grid = GridKind::Standard.orders();
    Curve::from_fixed(&grid, vec![Fixed::ceil(nats); grid.len()], Fixed::ZERO).unwrap()
}

#[test]
fn account_without_budget_refuses_everything() {
    let mut account = Account::new(None);
    for cost in [flat(0.0), flat(1e-9), Curve::infinite(&GridKind::Standard.orders())] {
        let refused = account.reserve(ReservationId(1), &cost, 1);
        assert_eq!(refused, Err(LedgerError::Refused(Refusal::NoBudget)));
    }
    assert_eq!(account, Account::new(None));
}

#[test]
fn infinite_or_overflowing_cost_is_refused() {
    let mut account = Account::new(Some(budget(3.0)));
    let infinite = Curve::infinite(&GridKind::Standard.orders());
    assert_eq!(account.reserve(ReservationId(1), &infinite, 1), Err(Refusal::Infinite.into()));
    // Small at the orders that would decide, beyond all numbers at one that would not.
    let mut losses = vec![Fixed::ceil(1e-9); 8];
    losses[0] = Fixed::ceil(1e10);
    let lopsided = Curve::from_fixed(&GridKind::Standard.orders(), losses, Fixed::ZERO).unwrap();
    assert_eq!(account.reserve(ReservationId(1), &lopsided, u64::MAX), Err(Refusal::Infinite.into()));
    assert_eq!(account, Account::new(Some(budget(3.0))));
}

#[test]
fn cost_on_other_orders_is_refused() {
    let mut account = Account::new(Some(budget(3.0)));
    let cost = Curve::zero(&GridKind::Research.orders());
    assert!(matches!(account.reserve(ReservationId(1), &cost, 1), Err(LedgerError::Grid(_))));
}

#[test]
fn release_without_open_reservation_is_refused() {
    let mut account = Account::new(Some(budget(3.0)));
    let id = ReservationId(7);
    assert_eq!(account.commit(id), Err(LedgerError::Unknown(id)));
    account.reserve(id, &flat(0.1), 1).unwrap();
    assert_eq!(account.reserve(id, &flat(0.1), 1), Err(LedgerError::Duplicate(id)));
    account.commit(id).unwrap();
    assert_eq!(account.commit(id), Err(LedgerError::Exhausted { id, releases: 1 }));
    assert_eq!(account.settle(id), Ok(0));
    assert_eq!(account.commit(id), Err(LedgerError::Settled(id)));
}

#[test]
fn foreign_reservation_is_refused() {
    let mut here = Balance::new(Some(budget(3.0)));
    let mut there = Balance::new(Some(budget(3.0)));
    let mut foreign = there.reserve(ReservationId(1), &flat(0.1), 2).unwrap();
    let before = (here.clone(), foreign.clone());
    assert!(matches!(here.commit(&mut foreign), Err(LedgerError::Inconsistent(_))));
    assert!(matches!(here.settle(&mut foreign), Err(LedgerError::Inconsistent(_))));
    assert_eq!((here, foreign), before);
}

#[test]
fn settle_returns_only_unreleased_cost() {
    let mut account = Account::new(Some(budget(3.0)));
    account.reserve(ReservationId(1), &flat(0.1), 10).unwrap();
    for _ in 0..4 {
        account.commit(ReservationId(1)).unwrap();
    }
    assert_eq!(account.settle(ReservationId(1)), Ok(6));
    assert_eq!(account.balance().spent(), &flat(0.1).times(4));
    assert!(account.balance().reserved().is_zero());
    assert_eq!(account.settle(ReservationId(1)), Ok(0));
}

#[test]
fn budget_below_spent_refuses_until_raised() {
    let mut account = Account::new(Some(budget(5.0)));
    account.reserve(ReservationId(1), &flat(2.0), 1).unwrap();
    account.set_budget(budget(1.0)).unwrap();
    assert!(account.reserve(ReservationId(2), &flat(0.0), 1).is_err());
    assert!(account.summary().left_epsilon.abs() < f64::MIN_POSITIVE);
    account.commit(ReservationId(1)).unwrap();
    account.set_budget(budget(8.0)).unwrap();
    account.reserve(ReservationId(2), &flat(2.0), 1).unwrap();
    let research = Budget::new(Epsilon::new(100.0).unwrap(), Delta::new(1e-6).unwrap(), GridKind::Research).unwrap();
    assert!(matches!(account.set_budget(research), Err(LedgerError::Grid(_))));
}

#[test]
fn side_deltas_have_their_own_limit() {
    let mut account = Account::new(Some(budget(5.0)));
    let cost = flat(0.01).with_side_delta(1e-7);
    account.reserve(ReservationId(1), &cost, 2).unwrap();
    let refused = account.reserve(ReservationId(2), &cost, 1).unwrap_err();
    let LedgerError::Refused(Refusal::OverDelta(shortfall)) = refused else { panic!("{refused}") };
    assert!(shortfall.side_committed >= 2e-7 && shortfall.side_asked >= 1e-7);
    account.reserve(ReservationId(2), &flat(0.01), 1).unwrap();
}

#[test]
fn gauge_shows_the_most_used_part() {
    // A quarter of 1e-6 is for releases with a δ of their own: 2e-7 is four fifths of that, and hardly any ε.
    let mut account = Account::new(Some(budget(5.0)));
    account.reserve(ReservationId(1), &flat(0.001).with_side_delta(1e-7), 2).unwrap();
    account.commit(ReservationId(1)).unwrap();
    let gauge = account.summary();
    assert!((0.4..0.400_001).contains(&gauge.spent_fraction), "{gauge:?}");
    assert!((0.8..0.800_001).contains(&gauge.committed_fraction), "{gauge:?}");
    assert!(gauge.left_epsilon > 4.0, "{gauge:?}");
    // No such release fits any more: the gauge is full, though others still have room.
    account.reserve(ReservationId(2), &flat(0.001).with_side_delta(0.5e-7 * (1.0 - 1e-9)), 1).unwrap();
    assert!(account.summary().committed_fraction > 0.999_999, "{:?}", account.summary());
    account.reserve(ReservationId(3), &flat(1.0), 1).unwrap();
    // Where ε decides, the gauge shows ε.
    let mut other = Account::new(Some(budget(5.0)));
    other.reserve(ReservationId(1), &flat(1.0), 1).unwrap();
    let without = other.summary().committed_fraction;
    other.reserve(ReservationId(2), &flat(0.0).with_side_delta(1e-9), 1).unwrap();
    assert_eq!(other.summary().committed_fraction.to_bits(), without.to_bits());
}

#[test]
fn budget_without_a_usable_order_is_refused() {
    let delta = |delta: f64| Delta::new(delta).unwrap();
    let epsilon = Epsilon::new(0.01).unwrap();
    assert!(Budget::new(epsilon, delta(1e-6), GridKind::Standard).is_err());
    assert!(Budget::new(epsilon, delta(0.0), GridKind::Standard).is_err());
    assert!(Budget::with_side_delta(Epsilon::new(3.0).unwrap(), delta(1e-6), delta(1e-6), GridKind::Standard).is_err());
    assert!(serde_json::from_str::<Budget>(r#"{"epsilon":0.01,"delta":1e-6}"#).is_err());
    let read: Budget = serde_json::from_str(r#"{"epsilon":3.0,"delta":1e-6}"#).unwrap();
    assert_eq!(read, budget(3.0));
}

#[test]
fn refusal_reports_spent_requested_and_remaining() {
    let mut account = Account::new(Some(budget(3.0)));
    account.reserve(ReservationId(1), &flat(1.0), 1).unwrap();
    let LedgerError::Refused(refusal) = account.reserve(ReservationId(2), &flat(1.0), 3).unwrap_err() else { panic!() };
    let shortfall = refusal.shortfall().unwrap();
    assert!(shortfall.spent.abs() < f64::MIN_POSITIVE && shortfall.reserved > 1.0);
    assert!(shortfall.asked.unwrap() > 3.0 && shortfall.would_be.unwrap() > shortfall.asked.unwrap());
    assert_eq!(shortfall.releases_that_fit, 1);
    assert!(refusal.to_string().contains("1 such charges fit"), "{refusal}");
    let text = serde_json::to_string(&refusal).unwrap();
    assert_eq!(serde_json::from_str::<Refusal>(&text).unwrap(), refusal);
}

#[test]
fn account_headroom_equals_filter_headroom() {
    let epsilon = Epsilon::new(3.0).unwrap();
    let delta = Delta::new(1e-6).unwrap();
    let nothing = Delta::new(0.0).unwrap();
    let account = Account::new(Some(Budget::with_side_delta(epsilon, delta, nothing, GridKind::Standard).unwrap()));
    assert_eq!(account.headroom(), Headroom::of_filter(epsilon, delta, &GridKind::Standard.orders()));
    let text = serde_json::to_string(&account.headroom()).unwrap();
    assert_eq!(serde_json::from_str::<Headroom>(&text).unwrap(), account.headroom());
}
