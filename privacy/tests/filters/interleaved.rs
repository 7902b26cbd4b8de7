//! The simulated analyst against the Gaussian filter: jobs of several releases, charged as a whole by their certificates, whose
//! releases the analyst interleaves with those of other jobs, as a function of all earlier outputs. Every transcript is enumerated.

#![expect(clippy::unwrap_used, reason = "constants of a test are in range")]

use std::cell::RefCell;
use std::collections::HashMap;

use proptest::prelude::*;
use undertone_privacy::ledger::{Account, Budget, GridKind, ReservationId, certify};
use undertone_privacy::{Adjacency, Curve, Delta, Epsilon};

use crate::adaptive::{Outcome, RandomizedJob, lost, mix};

const EPSILON: f64 = 2.0;
const DELTA: f64 = 0.1;

/// A job of some releases of randomized response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct WholeJob {
    release: RandomizedJob,
    releases: u16,
}

thread_local! {
    static COSTS: RefCell<HashMap<WholeJob, Curve>> = RefCell::default();
}

impl WholeJob {
    /// Returns its certificate at its own δ and four thousandths.
    fn cost(self) -> Curve {
        let compute = || {
            let side = f64::from(4 + self.release.thousandths * self.releases) / 1000.0;
            let side = Delta::new(side).unwrap();
            certify(&self.release.event(), self.releases.into(), Adjacency::AddRemove, side).unwrap()
        };
        COSTS.with_borrow_mut(|costs| costs.entry(self).or_insert_with(compute).clone())
    }
}

#[derive(Debug, Clone)]
struct InterleavingAnalyst {
    menu: Vec<WholeJob>,
    seed: u64,
    depth: u32,
    /// Asks for the largest jobs when the person seems to be present.
    greedy: bool,
}

/// The state after some outputs.
#[derive(Clone)]
struct OpenAccount {
    /// Without one, everything is admitted.
    account: Option<Account>,
    open: Vec<(ReservationId, WholeJob, u16)>,
}

impl OpenAccount {
    /// Opens a job, if it is admitted.
    fn admit(&mut self, job: WholeJob, id: ReservationId) -> bool {
        let releases = u64::from(job.releases);
        let is_admitted =
            self.account.as_mut().is_none_or(|account| account.reserve_whole(id, &job.cost(), releases).is_ok());
        if is_admitted {
            self.open.push((id, job, job.releases));
        }
        is_admitted
    }

    /// Commits a release of an open job.
    fn release(&mut self, index: usize) -> RandomizedJob {
        let (id, job, left) = self.open[index];
        if let Some(account) = &mut self.account {
            account.commit(id).unwrap();
        }
        if left == 1 {
            self.open.remove(index);
        } else {
            self.open[index].2 = left - 1;
        }
        job.release
    }
}

impl InterleavingAnalyst {
    fn play(&self, budget: Option<Budget>) -> Vec<Outcome> {
        let mut transcripts = Vec::new();
        let account = budget.map(|budget| Account::new(Some(budget)));
        self.explore(OpenAccount { account, open: Vec::new() }, self.seed, 0, (1.0, 1.0), &mut transcripts);
        transcripts
    }

    /// Selects the next release: of an open job, or the first of a new one.
    fn next(&self, state: &mut OpenAccount, shown: u64, depth: u32, evidence: bool) -> Option<RandomizedJob> {
        if depth >= self.depth || shown.is_multiple_of(23) {
            return None;
        }
        let continues = (shown >> 7).is_multiple_of(2) && !state.open.is_empty();
        if !continues {
            let first = if self.greedy && evidence { 0 } else { shown as usize % self.menu.len() };
            for offset in 0..self.menu.len() {
                let job = self.menu[(first + offset) % self.menu.len()];
                if state.admit(job, ReservationId(u128::from(depth))) {
                    return Some(state.release(state.open.len() - 1));
                }
            }
        }
        (!state.open.is_empty()).then(|| state.release(shown as usize % state.open.len()))
    }

    fn explore(&self, mut state: OpenAccount, shown: u64, depth: u32, (p, q): Outcome, transcripts: &mut Vec<Outcome>) {
        let Some(release) = self.next(&mut state, shown, depth, p > q) else {
            transcripts.push((p, q));
            return;
        };
        for (index, outcome) in release.outcomes().into_iter().enumerate() {
            let both = (p * outcome.0, q * outcome.1);
            self.explore(state.clone(), mix(shown, index as u64 + 1), depth + 1, both, transcripts);
        }
    }
}

fn analysts() -> impl Strategy<Value = InterleavingAnalyst> {
    let tenths = prop_oneof![Just(2u16), Just(5), Just(9), Just(13)];
    let thousandths = prop_oneof![3 => Just(0u16), 1 => Just(3)];
    let job = (tenths, thousandths, 1u16..4).prop_map(|(tenths, thousandths, releases)| WholeJob {
        release: RandomizedJob { tenths, thousandths },
        releases,
    });
    (prop::collection::vec(job, 1..5), any::<u64>(), any::<bool>()).prop_map(|(mut menu, seed, greedy)| {
        menu.sort_by_key(|job| std::cmp::Reverse(job.release.tenths));
        // Revealing jobs have four outcomes.
        let depth = if menu.iter().any(|job| job.release.thousandths > 0) { 5 } else { 9 };
        InterleavingAnalyst { menu, seed, depth, greedy }
    })
}

fn budget(epsilon: f64) -> Budget {
    Budget::new(Epsilon::new(epsilon).unwrap(), Delta::new(DELTA).unwrap(), GridKind::Gaussian).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn gaussian_account_keeps_budget_under_any_interleaving(analyst in analysts(), epsilon in 0.3f64..3.0) {
        let transcripts = analyst.play(Some(budget(epsilon)));
        prop_assert!(lost(&transcripts, epsilon) <= DELTA + 1e-12);
    }
}

#[test]
fn interleaving_analyst_uses_the_budget_and_exceeds_it_without_filter() {
    let job = |tenths, releases| WholeJob { release: RandomizedJob { tenths, thousandths: 0 }, releases };
    let analyst = InterleavingAnalyst { menu: vec![job(9, 2), job(5, 3), job(2, 3)], seed: 5, depth: 10, greedy: true };
    let halted = analyst.play(Some(budget(EPSILON)));
    let free = analyst.play(None);
    assert!(lost(&free, EPSILON) > 2.0 * DELTA, "{}", lost(&free, EPSILON));
    assert!(lost(&halted, EPSILON) <= DELTA && halted.len() > 8, "{} {}", lost(&halted, EPSILON), halted.len());
    let all: f64 = halted.iter().map(|(p, _)| p).sum();
    assert!((all - 1.0).abs() < 1e-9);
}
