//! The work that `make bench NAME=accounting` times, natively and in the browser's engine.

use undertone_privacy::ledger::{Account, Budget, Cost, GridKind, ReservationId};
use undertone_privacy::pld::Plan;
use undertone_privacy::{
    Adjacency, Delta, Epsilon, Event, NoiseMultiplier, OrderGrid, SamplingRate, convert, mechanism,
};

/// Runs of a Poisson-sampled Gaussian: sampling rate, noise multiplier, steps.
pub type Runs = Vec<(f64, f64, u64)>;

/// The δ at which the ε of compositions is computed.
pub const DELTA: f64 = 1e-6;

/// Returns the compositions, by name.
pub fn compositions() -> [(&'static str, Runs); 3] {
    let varied = |i: u32| (0.002 * f64::from(i + 1), 0.8 + 0.2 * f64::from(i), 200 * u64::from(i + 1));
    [
        ("one job of 100000 steps: q=0.01 z=1", vec![(0.01, 1.0, 100_000)]),
        ("ten jobs, all different", (0..10).map(varied).collect()),
        ("little noise: q=0.064 z=0.098, 224 steps", vec![(0.064, 0.098, 224)]),
    ]
}

/// Returns the composition as an event.
///
/// # Panics
/// Never: the parameters are in range.
pub fn event(runs: &[(f64, f64, u64)]) -> Event {
    let run = |&(q, z, steps): &(f64, f64, u64)| {
        let sampling_rate = SamplingRate::new(q).expect("a rate");
        Event::PoissonSampledGaussian { sampling_rate, noise_multiplier: NoiseMultiplier::new(z).expect("a noise") }
            .times(steps)
    };
    Event::Composed { events: runs.iter().map(run).collect() }
}

/// Computes ε from Rényi curves on the grid of reports: curve and conversion.
///
/// # Panics
/// Never: every event here has a price.
pub fn renyi(event: &Event) -> f64 {
    let curve = mechanism::curve(event, Adjacency::AddRemove, &OrderGrid::reporting()).expect("a price");
    convert::epsilon(&curve, Delta::new(DELTA).expect("a delta")).map_or(f64::INFINITY, Epsilon::get)
}

/// Computes ε from privacy-loss distributions.
///
/// # Panics
/// Never: the distributions fit on a grid.
pub fn tight(event: &Event) -> f64 {
    let epsilon = Plan::of(event, Adjacency::AddRemove).epsilon(Delta::new(DELTA).expect("a delta"));
    epsilon.expect("a grid").map_or(f64::INFINITY, Epsilon::get)
}

/// The most rounds of one job at [`DELTA`], by each way of accounting.
#[derive(Debug, Clone, Copy)]
pub struct LedgerRounds {
    /// q.
    pub sampling_rate: f64,
    /// z.
    pub noise_multiplier: f64,
    /// The budget's ε.
    pub epsilon: f64,
    /// By the Rényi filter.
    pub renyi: u64,
    /// By the Gaussian filter, with all of the side mass.
    pub admitted: u64,
    /// By the tight number of a closed plan, which is no filter.
    pub tight: u64,
}

/// Computes the rounds of four jobs.
///
/// # Panics
/// Never: the parameters are in range.
pub fn ledger_rounds() -> [LedgerRounds; 4] {
    [(0.05, 1.0, 4.0), (0.05, 1.0, 8.0), (0.1, 1.5, 4.0), (0.01, 1.0, 2.0)].map(|(q, z, epsilon)| {
        let limit = (Epsilon::new(epsilon).expect("an epsilon"), Delta::new(DELTA).expect("a delta"));
        let account = |grid| Account::new(Some(Budget::new(limit.0, limit.1, grid).expect("a budget")));
        let round = event(&[(q, z, 1)]);
        let old = account(GridKind::Standard);
        let renyi = old.headroom().releases(&old.price(&round, Adjacency::ZeroOut).expect("a price"));
        let headroom = account(GridKind::Gaussian).headroom();
        let side = Delta::new(headroom.side_delta().to_f64_down()).expect("a delta");
        let admitted = headroom.certified_releases(&round, Adjacency::ZeroOut, side);
        let tight = most(|count| self::tight(&event(&[(q, z, count)])) <= epsilon);
        LedgerRounds { sampling_rate: q, noise_multiplier: z, epsilon, renyi, admitted, tight }
    })
}

/// Returns the greatest count that passes a test which fails from some count on.
fn most(passes: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0, 1);
    while passes(high) {
        (low, high) = (high, 2 * high);
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if passes(middle) { low = middle } else { high = middle }
    }
    low
}

/// An account with a long history of jobs with four events each (a reservation of three releases, two commits, a
/// settlement).
#[derive(Debug)]
pub struct Past {
    account: Account,
    cost: Cost,
    jobs: u128,
}

impl Past {
    /// Makes an account with `events` events, rounded up to whole jobs.
    ///
    /// # Panics
    /// Never: the budget has room for some ten million such releases.
    pub fn new(events: u64) -> Self {
        let limit = (Epsilon::new(10.0).expect("an epsilon"), Delta::new(DELTA).expect("a delta"));
        let budget = Budget::new(limit.0, limit.1, GridKind::Standard).expect("a budget");
        let account = Account::new(Some(budget));
        let noise_multiplier = NoiseMultiplier::new(10_000.0).expect("a noise");
        let cost = account.price(&Event::Gaussian { noise_multiplier }, Adjacency::AddRemove).expect("a price");
        let mut past = Self { account, cost, jobs: 0 };
        for _ in 0..events.div_ceil(4) {
            past.job(2);
        }
        past
    }

    /// Checks whether one more job would be admitted, for timing. Changes nothing.
    pub fn decide(&self) -> bool {
        self.account.balance().check(&self.cost, 3).is_ok()
    }

    /// Admits one more job, commits one release, and settles the rest, for timing.
    pub fn admit(&mut self) {
        self.job(1);
    }

    fn job(&mut self, commits: u32) {
        let id = ReservationId(self.jobs);
        self.jobs += 1;
        self.account.reserve(id, &self.cost, 3).expect("room for one more");
        for _ in 0..commits {
            self.account.commit(id).expect("a release is reserved");
        }
        self.account.settle(id).expect("it is reserved");
    }

    /// Returns the ε spent so far.
    pub fn spent(&self) -> f64 {
        self.account.epsilon_spent()
    }
}
