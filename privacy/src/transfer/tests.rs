//! Every dataset of a tiny population and every transcript of every sequence of jobs: the exact losses of a record and
//! a speaker are compared with the admissions of their accounts.

#![expect(clippy::unwrap_used, reason = "constants of a test are in range")]

use proptest::prelude::*;

use super::{TransferError, event_at};
use crate::PrivacyUnit::{Record, Speaker, User, Words};
use crate::adjacency::{Adjacency, PrivacyUnit};
use crate::event::Event;
use crate::ledger::{Account, Budget, GridKind, ReservationId};
use crate::unit::{Delta, Epsilon};

/// One speaker's records: each is absent, or is a yes or a no.
type Speech = [Option<bool>; 2];

/// A job: one answer about the speaker, by a mechanism of few outcomes. The other speakers cancel out: they are the same in both
/// datasets, and their noise is a part of the mechanism.
#[derive(Debug, Clone, Copy, PartialEq)]
enum SpeakerJob {
    /// For each record present, randomized response of ε; an absent record answers like a coin. Each outcome is a pair of answers.
    Records { tenths: u16 },
    /// The sign of the speaker's sum by randomized response, or a coin for no sign.
    Speaker { tenths: u16 },
    /// The same for a speaker who is sampled with probability one half; without sampling, the answer is that of an
    /// absent speaker.
    Sampled { tenths: u16 },
    /// The clipped sum with noise of a discrete Gaussian, z = `tenths`/10, in a finite number of outcomes.
    Noisy { tenths: u16 },
}

impl SpeakerJob {
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

    /// Returns the probability of each outcome, given the speaker's data.
    fn outcomes(self, data: Option<Speech>) -> Vec<f64> {
        match self {
            Self::Records { tenths } => {
                let answers = data.unwrap_or([None, None]).map(|record| response(record, tenths));
                let both = |a: usize, b: usize| answers[0][a] * answers[1][b];
                vec![both(0, 0), both(0, 1), both(1, 0), both(1, 1)]
            }
            Self::Speaker { tenths } => response(sign(data), tenths).to_vec(),
            Self::Sampled { tenths } => {
                let there = response(sign(data), tenths);
                let absent = response(None, tenths);
                (0..2).map(|index| 0.5 * there[index] + 0.5 * absent[index]).collect()
            }
            Self::Noisy { tenths } => {
                let z = f64::from(tenths) / 10.0;
                let mean = clipped(data);
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

/// Returns ε of [`SpeakerJob::Sampled`] for a speaker present or absent: the larger of both directions.
fn sampled(tenths: u16) -> f64 {
    let [yes, no] = response(Some(true), tenths);
    let up = 0.5 * yes / 0.5 + 0.5;
    let down = 1.0 / (0.5 * no / 0.5 + 0.5);
    up.max(down).ln() * (1.0 + 1e-12)
}

/// Returns the probabilities of yes and no: a coin for an absent record, and for a present one as far from the coin as
/// ε allows. A yes and a no are nearly 2ε apart.
fn response(record: Option<bool>, tenths: u16) -> [f64; 2] {
    let rare = 0.5 * (-f64::from(tenths) / 10.0).exp();
    match record {
        None => [0.5, 0.5],
        Some(true) => [1.0 - rare, rare],
        Some(false) => [rare, 1.0 - rare],
    }
}

/// Returns the sum of the records, clipped to 1; 0 for an absent speaker.
fn clipped(data: Option<Speech>) -> f64 {
    let sum: i32 = data.iter().flatten().flatten().map(|yes| if *yes { 1 } else { -1 }).sum();
    f64::from(sum.clamp(-1, 1))
}

fn sign(data: Option<Speech>) -> Option<bool> {
    let sum = clipped(data);
    (sum != 0.0).then_some(sum > 0.0)
}

/// Returns every state of the speaker, and `None` for an absent one.
fn states() -> Vec<Option<Speech>> {
    let records = [None, Some(true), Some(false)];
    let speeches = records.iter().flat_map(|a| records.map(|b| Some([*a, b])));
    [None].into_iter().chain(speeches).collect()
}

/// Returns true if two states differ in one unit: one record added, removed or emptied, or the whole speaker.
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
struct TestSite {
    accounts: Vec<(PrivacyUnit, Account)>,
}

const EPSILON: f64 = 3.0;
const DELTA: f64 = 1e-2;

impl TestSite {
    fn new(limited: &[PrivacyUnit]) -> Self {
        let budget =
            Budget::new(Epsilon::new(EPSILON).unwrap(), Delta::new(DELTA).unwrap(), GridKind::Standard).unwrap();
        Self { accounts: limited.iter().map(|unit| (*unit, Account::new(Some(budget)))).collect() }
    }

    /// Charges the job to all accounts and returns true if all admit it; otherwise charges none.
    fn admit(&mut self, job: SpeakerJob, id: u128) -> bool {
        let mut accounts = Vec::new();
        for (unit, account) in &self.accounts {
            let Ok(event) = event_at(&job.event(), job.unit(), *unit) else { return false };
            let mut account = account.clone();
            let cost = account.price(&event, Adjacency::AddRemove).unwrap();
            if account.reserve(ReservationId(id), &cost, 1).is_err() {
                return false;
            }
            account.commit(ReservationId(id)).unwrap();
            accounts.push((*unit, account));
        }
        self.accounts = accounts;
        true
    }
}

/// Returns Σ max(P − e^ε Q, 0) over every transcript of the jobs.
fn lost(jobs: &[SpeakerJob], a: Option<Speech>, b: Option<Speech>) -> f64 {
    let mut transcripts = vec![(1.0, 1.0)];
    for job in jobs {
        let pairs: Vec<(f64, f64)> = job.outcomes(a).into_iter().zip(job.outcomes(b)).collect();
        transcripts = transcripts.iter().flat_map(|(p, q)| pairs.iter().map(move |(x, y)| (p * x, q * y))).collect();
    }
    transcripts.iter().map(|(p, q)| (p - EPSILON.exp() * q).max(0.0)).sum()
}

fn jobs() -> impl Strategy<Value = Vec<SpeakerJob>> {
    let job = (1u16..16, 0u8..4, 8u16..40).prop_map(|(tenths, kind, noise)| match kind {
        0 => SpeakerJob::Records { tenths },
        1 => SpeakerJob::Speaker { tenths },
        2 => SpeakerJob::Sampled { tenths },
        _ => SpeakerJob::Noisy { tenths: noise },
    });
    prop::collection::vec(job, 1..7)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn limited_units_stay_within_their_limits(
        jobs in jobs(), limited in prop::sample::subsequence(vec![Record, Speaker], 1..=2)
    ) {
        let mut site = TestSite::new(&limited);
        let admitted: Vec<SpeakerJob> = jobs
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

/// The former rule charged each job to the account of its own unit alone.
#[test]
fn independent_accounts_exceed_a_record_limit() {
    let mut records = TestSite::new(&[Record]);
    let mut speakers = TestSite::new(&[Speaker]);
    let mut admitted = Vec::new();
    for id in 0..5 {
        for (site, job) in
            [(&mut records, SpeakerJob::Records { tenths: 10 }), (&mut speakers, SpeakerJob::Speaker { tenths: 10 })]
        {
            if site.admit(job, id) {
                admitted.push(job);
            }
        }
    }
    let worst = |jobs: &[SpeakerJob]| lost(jobs, Some([None, None]), Some([Some(true), None]));
    let apart = worst(&admitted);
    assert!(apart > DELTA, "{} of {}: two limits were spent on one record", apart, admitted.len());
    let mut both = TestSite::new(&[Record, Speaker]);
    let together: Vec<SpeakerJob> =
        admitted.into_iter().zip(9_u128..).filter_map(|(job, id)| both.admit(job, id).then_some(job)).collect();
    assert!(worst(&together) <= DELTA && !together.is_empty());
}

#[test]
fn finer_unit_is_charged_and_coarser_unit_is_refused() {
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
fn pure_release_costs_record_twice_epsilon() {
    let grid = crate::curve::OrderGrid::standard();
    let cost = |event: &Event| crate::mechanism::curve(event, Adjacency::AddRemove, &grid).unwrap();
    let charge = event_at(&Event::Pure { epsilon: tenth(5) }, Speaker, Record).unwrap();
    assert_eq!(cost(&charge), cost(&Event::Pure { epsilon: tenth(10) }));
}
