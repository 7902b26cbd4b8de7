//! Decisions of the ledger: long random schedules of reservations, commits and settlements on both frozen grids, and
//! the balance after each.

use undertone_privacy::ledger::{Account, Budget, GridKind, ReservationId};
use undertone_privacy::{Adjacency, Delta, Epsilon};

use crate::Facts;
use crate::seed::Seed;

const STEPS: u64 = 120;

pub(crate) fn record(facts: &mut Facts) {
    for (grid, epsilon) in [(GridKind::Standard, 8.0), (GridKind::Research, 600.0)] {
        for round in 0..3 {
            let mut seed = Seed::new(4000 + round);
            let limit = (Epsilon::new(epsilon).expect("in range"), Delta::new(1e-5).expect("in range"));
            let budget = Budget::new(limit.0, limit.1, grid).expect("a budget that admits something");
            let mut account = Account::new(Some(budget));
            for (order, left) in account.headroom().remaining() {
                let name = format!("{grid:?}, share at order {}", order.get());
                facts.fixed(&name, left.unwrap_or_default());
            }
            for step in 0..STEPS {
                let name = format!("{grid:?} schedule {round}, step {step}");
                facts.word(&name, schedule(&mut account, &mut seed, u128::from(step)));
                let summary = account.balance().summary();
                facts.number(&format!("{name}: spent"), summary.spent_epsilon);
                facts.number(&format!("{name}: committed"), summary.committed_epsilon);
                facts.number(&format!("{name}: fraction"), summary.committed_fraction);
            }
            facts.curve(&format!("{grid:?} schedule {round}: spent"), account.balance().spent());
            facts.curve(&format!("{grid:?} schedule {round}: reserved"), account.balance().reserved());
        }
    }
}

/// Runs one random step: returns 0 for refused, 1 reserved, 2 committed, 3 settled, 4 not possible.
fn schedule(account: &mut Account, seed: &mut Seed, fresh: u128) -> u64 {
    let some = ReservationId(u128::from(seed.below(1 + fresh as u64)));
    match seed.below(4) {
        0 => {
            let events = seed.events();
            let event = &events[seed.below(events.len() as u64) as usize];
            let Ok(cost) = account.price(event, Adjacency::AddRemove) else { return 4 };
            u64::from(account.reserve(ReservationId(fresh), &cost, 1 + seed.below(40)).is_ok())
        }
        1 | 2 => account.commit(some).map_or(4, |()| 2),
        _ => account.settle(some).map_or(4, |_| 3),
    }
}
