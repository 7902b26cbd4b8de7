//! The choice of δ₀, and the certificates of rows.

#![expect(clippy::unwrap_used, reason = "constants of a test are in range")]

use super::{CertificateError, FilterKind, JobCertificate, JobCost};
use crate::adjacency::Adjacency;
use crate::curve::OrderGrid;
use crate::event::Event;
use crate::fixed::Fixed;
use crate::ledger::{Balance, Budget, ReservationId};
use crate::unit::{Delta, Epsilon, NoiseMultiplier, SamplingRate};

fn balance(filter: FilterKind) -> Balance {
    let epsilon = Epsilon::new(4.0).unwrap();
    Balance::new(Some(Budget::new(epsilon, Delta::new(1e-6).unwrap(), filter.grid(epsilon)).unwrap()))
}

fn sampled(q: f64, z: f64) -> Event {
    Event::PoissonSampledGaussian {
        sampling_rate: SamplingRate::new(q).unwrap(),
        noise_multiplier: NoiseMultiplier::new(z).unwrap(),
    }
}

fn admits(balance: &mut Balance, event: &Event, releases: u64) -> bool {
    let cost = balance.job_cost(event, releases, Adjacency::ZeroOut).unwrap();
    balance.reserve_job(ReservationId(1), &cost, releases).is_ok()
}

#[test]
fn one_job_may_use_all_and_many_share_the_side_mass() {
    let event = sampled(0.05, 1.0);
    assert!(admits(&mut balance(FilterKind::Gaussian), &event, 93));
    assert!(!admits(&mut balance(FilterKind::Gaussian), &event, 94));
    let mut shared = balance(FilterKind::Gaussian);
    let event = sampled(0.05, 2.0);
    let admitted = (0..60).take_while(|_| admits(&mut shared, &event, 10)).count();
    let summary = shared.summary();
    assert!(
        admitted >= 40 && summary.side_delta <= 2.5e-7,
        "both limits last for about 42 jobs: {admitted} {summary:?}"
    );
}

#[test]
fn plain_gaussians_use_no_side_mass() {
    let mut balance = balance(FilterKind::Gaussian);
    let event = Event::Gaussian { noise_multiplier: NoiseMultiplier::new(8.0).unwrap() };
    assert!(admits(&mut balance, &event, 20));
    assert_eq!(balance.reserved().side_delta(), Fixed::ZERO);
    assert!(admits(&mut balance, &sampled(0.01, 2.0), 10));
}

#[test]
fn row_with_a_certificate_is_read_and_verified() {
    let event = sampled(0.1, 1.5);
    let cost = balance(FilterKind::Gaussian).job_cost(&event, 30, Adjacency::ZeroOut).unwrap();
    let stated = cost.certificate(30).unwrap();
    let text = serde_json::to_string(&stated).unwrap();
    assert!(text.starts_with(r#"{"mu_squared":""#) && text.ends_with(r#"","covers":30}"#), "{text}");
    let read: JobCertificate = serde_json::from_str(&text).unwrap();
    let gaussian = OrderGrid::gaussian();
    let row = |releases, grid: &OrderGrid, certificate| {
        JobCost::from_row(&event, releases, Adjacency::ZeroOut, grid, certificate)
    };
    assert_eq!(row(30, &gaussian, Some(&read)), Ok(cost));
    assert_eq!(read.verify(&event, Adjacency::ZeroOut), Ok(()));
    assert!(matches!(read.verify(&sampled(0.1, 1.4), Adjacency::ZeroOut), Err(CertificateError::Wrong { .. })));
    let less = text.replacen(r#"":""#, r#"":"1"#, 1);
    let less: JobCertificate = serde_json::from_str(&less).unwrap();
    assert!(matches!(less.verify(&event, Adjacency::ZeroOut), Err(CertificateError::Wrong { .. })));
    assert_eq!(row(30, &gaussian, None), Err(CertificateError::Missing));
    assert_eq!(row(30, &OrderGrid::standard(), Some(&read)), Err(CertificateError::Unexpected));
    assert_eq!(row(29, &gaussian, Some(&read)), Err(CertificateError::Covers { covers: 30, releases: 29 }));
    let renyi = balance(FilterKind::Renyi).job_cost(&event, 30, Adjacency::ZeroOut).unwrap();
    assert_eq!((row(30, &OrderGrid::standard(), None), renyi.certificate(30)), (Ok(renyi.clone()), None));
}

#[test]
fn job_of_unknown_length_is_certified_release_by_release() {
    let event = sampled(0.1, 1.5);
    let balance = balance(FilterKind::Gaussian);
    let each = balance.cost_of_unplanned(&event, 30, Adjacency::ZeroOut).unwrap();
    let whole = balance.job_cost(&event, 30, Adjacency::ZeroOut).unwrap();
    let stated = each.certificate(30).unwrap();
    assert_eq!((stated.covers(), stated.verify(&event, Adjacency::ZeroOut)), (1, Ok(())));
    assert!(each.total(30).mu_squared() > whole.total(30).mu_squared());
    assert!(each.total(30).side_delta() <= balance.headroom().side_delta());
}

#[test]
fn loud_job_is_refused_before_it_is_composed() {
    let balance = balance(FilterKind::Gaussian);
    let refused = balance.job_cost(&sampled(0.05, 0.05), 100_000, Adjacency::ZeroOut).unwrap_err().to_string();
    assert!(refused.contains("at most 32 is certified: plan fewer rounds or more noise"), "{refused}");
    // Just below the bound it is searched for: a job of a mu of about 19.
    let cost = balance.job_cost(&sampled(0.05, 0.3), 1000, Adjacency::ZeroOut).unwrap();
    assert!(cost.cost().mu_squared().unwrap().to_f64_up() > 300.0);
    // More steps than are composed: the Rényi curve answers at once.
    let long = balance.job_cost(&sampled(1.0 / 65_536.0, 2.0), 1 << 40, Adjacency::ZeroOut);
    assert!(long.is_ok_and(|cost| cost.cost().mu_squared().is_some()));
}

#[test]
fn rounds_of_a_selection_are_certified_by_its_loss_distribution() {
    let runs = r#"{"distribution":"capped_negative_binomial","shape":0.0,"stopping":0.1,"most":20}"#;
    let best = |z: f64| Event::Selected { of: Box::new(sampled(0.05, z)), runs: serde_json::from_str(runs).unwrap() };
    // The Rényi sum of ten rounds is above ε = 10, and a filter with δ/8 for each order admits none of it.
    assert!(!admits(&mut balance(FilterKind::Renyi), &best(1.0), 4));
    assert!(admits(&mut balance(FilterKind::Gaussian), &best(1.0), 20));
    let balance = balance(FilterKind::Gaussian);
    let cost = balance.job_cost(&best(1.0), 20, Adjacency::ZeroOut).unwrap();
    let stated = cost.certificate(20).unwrap();
    assert_eq!(stated.verify(&best(1.0), Adjacency::ZeroOut), Ok(()));
    assert!(matches!(stated.verify(&best(0.9), Adjacency::ZeroOut), Err(CertificateError::Wrong { .. })));
    // A row of an earlier version states the certificate of the Rényi curve.
    let side = super::delta(cost.cost().side_delta());
    let earlier = super::certify_selections_by_curve(&best(1.0), 20, Adjacency::ZeroOut, side).unwrap();
    assert!(earlier.mu_squared() > cost.cost().mu_squared());
    let earlier = JobCertificate::new(&earlier, 20).unwrap();
    assert_eq!(earlier.verify(&best(1.0), Adjacency::ZeroOut), Ok(()));
    assert!(matches!(earlier.verify(&best(0.9), Adjacency::ZeroOut), Err(CertificateError::Wrong { .. })));
    assert!(super::certify_selections_by_curve(&sampled(0.05, 1.0), 20, Adjacency::ZeroOut, side).is_none());
    let refused = balance.job_cost(&best(0.1), 20_000, Adjacency::ZeroOut).unwrap_err().to_string();
    assert!(refused.contains("at most 32 is certified"), "{refused}");
}

#[test]
fn filters_have_stable_words() {
    for filter in [FilterKind::Renyi, FilterKind::Gaussian] {
        assert_eq!(serde_json::to_string(&filter).unwrap(), format!("{:?}", filter.word()));
        assert_eq!(filter.grid(Epsilon::new(700.0).unwrap()).filter(), filter);
    }
    let unknown = serde_json::from_str::<FilterKind>(r#""zcdp""#).unwrap_err().to_string();
    assert!(unknown.contains("unknown variant `zcdp`, expected `renyi` or `gaussian`"), "{unknown}");
}
