//! Every dataset of a tiny population, every transcript of every sequence of jobs: what a record and a speaker lose is computed
//! exactly and held against what their accounts admitted.

#![expect(clippy::unwrap_used, reason = "constants of a test are in range")]

use proptest::prelude::*;

use super::{TransferError, event_at};
use crate::PrivacyUnit::{Record, Speaker, User, Words};
use crate::adjacency::{Adjacency, PrivacyUnit};
use crate::event::Event;
use crate::ledger::{Account, Budget, GridKind, ReservationId};
use crate::unit::{Delta, Epsilon};

/// One speaker's records: each is absent, or says yes or no.
type Speech = [Option<bool>; 2];

/// A job: one answer about the speaker, by a mechanism of few outcomes. The other speakers cancel out: they are the same in both
/// datasets, and their noise is a part of the mechanism.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Job {
    /// For each record present, randomized response of ε; an absent record answers like a coin. Each outcome is a pair of answers.
    Records { tenths: u16 },
    /// The sign of the speaker's sum, told by randomized response, or a coin for no sign.
    Speaker { tenths: u16 },
    /// The same of a speaker who is sampled with probability one half; unsampled, the answer is that of nobody.
    Sampled { tenths: u16 },
    /// The clipped sum with noise of a discrete Gaussian, z = `tenths`/10, cut into outcomes.
    Noisy { tenths: u16 },
}

impl Job {
    const fn unit(self) -> PrivacyUnit {
        match self {
            Self::Records { .. } => Record,
            Self::Speaker { .. } | Self::Sampled { .. } | Self::Noisy { .. } => Speaker,
        }
    }

    fn event(self) -> Event {
        match self {
            Self::Records { tenths } | Self::Speaker { tenths } => Event::Pure { epsilon: tenth(tenths) },
            Self::Sampled { tenths } => Event::Pure { epsilon: Epsilon::new(sampled(tenths)).unwrap() },
            Self::Noisy { tenths } => {
                let noise_multiplier = crate::unit::NoiseMultiplier::new(f64::from(tenths) / 10.0).unwrap();
                Event::Gaussian { noise_multiplier }
            }
        }
    }

    /// The probability of each outcome, given the speaker's data.
    fn outcomes(self, data: Option<Speech>) -> Vec<f64> {
        match self {
            Self::Records { tenths } => {
                let answers = data.unwrap_or([None, None]).map(|record| response(record, tenths));
                let both = |a: usize, b: usize| answers[0][a] * answers[1][b];
                vec![both(0, 0), both(0, 1), both(1, 0), both(1, 1)]
            }
            Self::Speaker { tenths } => response(sign(data), tenths).to_vec(),
            Self::Sampled { tenths } => {
                let (there, absent) = (response(sign(data), tenths), response(None, tenths));
                (0..2).map(|index| 0.5 * there[index] + 0.5 * absent[index]).collect()
            }
            Self::Noisy { tenths } => {
                let (z, mean) = (f64::from(tenths) / 10.0, clipped(data));
                let reach = (30.0 * z).ceil();
                let weights = |at: f64| -> Vec<f64> {
                    let count = (2.0 * reach) as i32;
                    (0..=count)
                        .map(|x| f64::from(x) - reach)
                        .map(|x| (-(x - at).powi(2) / (2.0 * z * z)).exp())
                        .collect()
                };
                let all: f64 = weights(0.0).iter().sum();
                let fine: Vec<f64> = weights(mean).into_iter().map(|weight| weight / all).collect();
                // Joining outcomes is post-processing.
                let middle = reach as usize;
                let cuts = [0, middle - 1, middle, middle + 1, middle + 2, fine.len()];
                cuts.windows(2).map(|cut| fine[cut[0]..cut[1]].iter().sum()).collect()
            }
        }
    }
}

fn tenth(tenths: u16) -> Epsilon {
    Epsilon::new(f64::from(tenths) / 10.0).unwrap()
}

/// ε of [`Job::Sampled`] for a speaker there or not: the larger of both directions.
fn sampled(tenths: u16) -> f64 {
    let [yes, no] = response(Some(true), tenths);
    let up = 0.5 * yes / 0.5 + 0.5;
    let down = 1.0 / (0.5 * no / 0.5 + 0.5);
    up.max(down).ln() * (1.0 + 1e-12)
}

/// Yes and no: a coin for nothing, and for something as far from the coin as ε allows. A yes and a no are nearly 2ε apart.
fn response(record: Option<bool>, tenths: u16) -> [f64; 2] {
    let rare = 0.5 * (-f64::from(tenths) / 10.0).exp();
    match record {
        None => [0.5, 0.5],
        Some(true) => [1.0 - rare, rare],
        Some(false) => [rare, 1.0 - rare],
    }
}

/// The sum of the records, clipped to 1; 0 for a speaker who is not there.
fn clipped(data: Option<Speech>) -> f64 {
    let sum: i32 = data.iter().flatten().flatten().map(|yes| if *yes { 1 } else { -1 }).sum();
    f64::from(sum.clamp(-1, 1))
}

fn sign(data: Option<Speech>) -> Option<bool> {
    let sum = clipped(data);
    (sum != 0.0).then_some(sum > 0.0)
}

/// Every state of the speaker, and `None` for one who is not there.
fn states() -> Vec<Option<Speech>> {
    let records = [None, Some(true), Some(false)];
    let speeches = records.iter().flat_map(|a| records.map(|b| Some([*a, b])));
    [None].into_iter().chain(speeches).collect()
}

/// Whether two states differ in one unit: one record added, removed or emptied, or the whole speaker.
fn neighbours(unit: PrivacyUnit, a: Option<Speech>, b: Option<Speech>) -> bool {
    match (unit, a, b) {
        (Speaker, None, Some(_)) | (Speaker, Some(_), None) => true,
        (Record, Some(a), Some(b)) => {
            let changed: Vec<_> = (0..2).filter(|index| a[*index] != b[*index]).collect();
            changed.len() == 1 && changed.iter().all(|index| a[*index].is_none() || b[*index].is_none())
        }
        _ => false,
    }
}

/// A site with limits at some units; every job is charged to each of them, or refused.
struct Site {
    accounts: Vec<(PrivacyUnit, Account)>,
}

const EPSILON: f64 = 3.0;
const DELTA: f64 = 1e-2;

impl Site {
    fn new(limited: &[PrivacyUnit]) -> Self {
        let budget =
            Budget::new(Epsilon::new(EPSILON).unwrap(), Delta::new(DELTA).unwrap(), GridKind::Standard).unwrap();
        Self { accounts: limited.iter().map(|unit| (*unit, Account::new(Some(budget)))).collect() }
    }

    /// Whether the job is admitted; all accounts are charged then, and none otherwise.
    fn admit(&mut self, job: Job, id: u128) -> bool {
        let mut charged = Vec::new();
        for (unit, account) in &self.accounts {
            let Ok(event) = event_at(&job.event(), job.unit(), *unit) else { return false };
            let mut account = account.clone();
            let cost = account.price(&event, Adjacency::AddRemove).unwrap();
            if account.reserve(ReservationId(id), &cost, 1).is_err() {
                return false;
            }
            account.commit(ReservationId(id)).unwrap();
            charged.push((*unit, account));
        }
        self.accounts = charged;
        true
    }
}

/// Σ max(P − e^ε Q, 0) over every transcript of the jobs.
fn lost(jobs: &[Job], a: Option<Speech>, b: Option<Speech>) -> f64 {
    let mut transcripts = vec![(1.0, 1.0)];
    for job in jobs {
        let pairs: Vec<(f64, f64)> = job.outcomes(a).into_iter().zip(job.outcomes(b)).collect();
        transcripts = transcripts.iter().flat_map(|(p, q)| pairs.iter().map(move |(x, y)| (p * x, q * y))).collect();
    }
    transcripts.iter().map(|(p, q)| (p - EPSILON.exp() * q).max(0.0)).sum()
}

fn jobs() -> impl Strategy<Value = Vec<Job>> {
    let job = (1u16..16, 0u8..4, 8u16..40).prop_map(|(tenths, kind, noise)| match kind {
        0 => Job::Records { tenths },
        1 => Job::Speaker { tenths },
        2 => Job::Sampled { tenths },
        _ => Job::Noisy { tenths: noise },
    });
    prop::collection::vec(job, 1..7)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn no_limited_unit_loses_more_than_its_limit(
        jobs in jobs(), limited in prop::sample::subsequence(vec![Record, Speaker], 1..=2)
    ) {
        let mut site = Site::new(&limited);
        let admitted: Vec<Job> = jobs
            .into_iter()
            .zip(0_u128..)
            .filter_map(|(job, id)| site.admit(job, id).then_some(job))
            .collect();
        for unit in limited {
            for a in states() {
                for b in states().into_iter().filter(|b| neighbours(unit, a, *b)) {
                    let lost = lost(&admitted, a, b);
                    prop_assert!(lost <= DELTA + 1e-9, "{:?} {:?} {:?}: {} by {:?}", unit, a, b, lost, admitted);
                }
            }
        }
    }

    #[test]
    fn one_job_is_within_its_event_at_every_unit(job in jobs().prop_map(|jobs| jobs[0])) {
        for unit in [Record, Speaker] {
            let Ok(event) = event_at(&job.event(), job.unit(), unit) else { continue };
            let grid = crate::curve::OrderGrid::standard();
            let cost = crate::mechanism::curve(&event, Adjacency::AddRemove, &grid).unwrap();
            for a in states() {
                for b in states().into_iter().filter(|b| neighbours(unit, a, *b)) {
                    let pairs: Vec<(f64, f64)> = job.outcomes(a).into_iter().zip(job.outcomes(b)).collect();
                    for (order, loss) in cost.losses() {
                        let order = order.get();
                        let moment: f64 = pairs.iter().map(|(p, q)| p.powf(order) * q.powf(1.0 - order)).sum();
                        let true_loss = moment.ln() / (order - 1.0);
                        prop_assert!(true_loss <= loss.to_f64_up() + 1e-9, "{:?} {:?} {}: {}", unit, job, order, true_loss);
                    }
                }
            }
        }
    }
}

/// Before: each job was charged to the account of its own unit alone.
#[test]
fn accounts_that_ignore_each_other_let_a_record_lose_more_than_its_limit() {
    let (mut records, mut speakers) = (Site::new(&[Record]), Site::new(&[Speaker]));
    let mut admitted = Vec::new();
    for id in 0..5 {
        for (site, job) in [(&mut records, Job::Records { tenths: 10 }), (&mut speakers, Job::Speaker { tenths: 10 })] {
            if site.admit(job, id) {
                admitted.push(job);
            }
        }
    }
    let worst = |jobs: &[Job]| lost(jobs, Some([None, None]), Some([Some(true), None]));
    let apart = worst(&admitted);
    assert!(apart > DELTA, "{} of {}: two limits were spent on one record", apart, admitted.len());
    let mut both = Site::new(&[Record, Speaker]);
    let together: Vec<Job> =
        admitted.into_iter().zip(9_u128..).filter_map(|(job, id)| both.admit(job, id).then_some(job)).collect();
    assert!(worst(&together) <= DELTA && !together.is_empty());
}

#[test]
fn a_finer_unit_is_charged_a_substitution_and_a_coarser_one_nothing() {
    let event = Event::Pure { epsilon: tenth(5) };
    let substituted = Event::Substituted { of: Box::new(event.clone()) };
    for (protected, limited) in [(Speaker, Record), (User, Record), (User, Speaker)] {
        assert_eq!(event_at(&event, protected, limited), Ok(substituted.clone()));
        let refused = TransferError::Coarser { protected: limited, limited: protected };
        assert_eq!(event_at(&event, limited, protected), Err(refused));
    }
    for unit in [Record, Speaker, User, Words] {
        assert_eq!(event_at(&event, unit, unit), Ok(event.clone()));
    }
    for unit in [Record, Speaker, User] {
        assert!(matches!(event_at(&event, Words, unit), Err(TransferError::Unrelated { .. })));
        assert!(matches!(event_at(&event, unit, Words), Err(TransferError::Unrelated { .. })));
    }
}

/// A pure release costs a finer unit twice its ε: a removal and an addition.
#[test]
fn a_pure_release_costs_a_record_of_a_protected_speaker_twice_its_epsilon() {
    let grid = crate::curve::OrderGrid::standard();
    let cost = |event: &Event| crate::mechanism::curve(event, Adjacency::AddRemove, &grid).unwrap();
    let charged = event_at(&Event::Pure { epsilon: tenth(5) }, Speaker, Record).unwrap();
    assert_eq!(cost(&charged), cost(&Event::Pure { epsilon: tenth(10) }));
}
