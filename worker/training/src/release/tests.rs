#![expect(clippy::unwrap_used, reason = "the numbers of a test are in range")]

use undertone_privacy::{Event, NoiseMultiplier, SamplingRate};

use super::{Outgoing, ReleaseError};
use crate::clip::ClippedSum;
use crate::clip::grid::Clip;
use crate::per_unit::PerUnit;
use crate::randomness::{Purpose, Randomness};
use crate::sampler::Sampler;
use undertone_worker_site::clearance::{Clearance, PublicProof, ReleaseGrant};

const LENGTH: usize = 40_000;

fn event(q: f64, z: f64) -> Event {
    Event::PoissonSampledGaussian {
        sampling_rate: SamplingRate::new(q).unwrap(),
        noise_multiplier: NoiseMultiplier::new(z).unwrap(),
    }
}

fn empty(q: f64, z: f64, bound: f64) -> ClippedSum {
    let batch = Sampler::new(0, SamplingRate::new(q).unwrap()).draw_fresh();
    ClippedSum::begin(&batch, Clip::new(bound, NoiseMultiplier::new(z).unwrap()).unwrap(), LENGTH)
}

fn granted(event: Event) -> Clearance {
    Clearance::Granted(ReleaseGrant::in_test(event))
}

fn noise(seed: u8) -> Randomness {
    Randomness::in_test(Purpose::Noise, seed)
}

#[test]
fn an_empty_batch_releases_noise_of_the_right_size() {
    let (z, bound, expected) = (0.8, 2.0, 5.0);
    let release = empty(0.25, z, bound).release(expected, granted(event(0.25, z)), &noise(1)).unwrap();
    let squares = release.vector().iter().map(|value| f64::from(*value).powi(2));
    let deviation = (squares.sum::<f64>() / LENGTH as f64).sqrt();
    assert!((deviation / (z * bound / expected) - 1.0).abs() < 0.02, "{deviation}");
}

#[test]
fn a_payment_for_another_event_releases_nothing() {
    for wrong in [event(0.25, 1.0), event(0.5, 2.0), Event::NonPrivate] {
        let error = empty(0.25, 2.0, 1.0).release(1.0, granted(wrong), &noise(1)).unwrap_err();
        assert!(matches!(error, ReleaseError::WrongEvent { .. }), "{error}");
    }
}

#[test]
fn release_divides_by_the_expected_batch() {
    let (z, units) = (0.001, 3);
    let batch = Sampler::new(units, SamplingRate::ONE).draw_fresh();
    let clip = Clip::new(10.0, NoiseMultiplier::new(z).unwrap()).unwrap();
    let sum = PerUnit::new(vec![1.0; units * 4], 4).clip(&batch, clip);
    let release = sum.release(12.0, granted(event(1.0, z)), &noise(2)).unwrap();
    for value in release.vector() {
        assert!((value - 0.25).abs() < 0.01, "{value}");
    }
}

#[test]
fn public_data_may_be_released_with_noise_and_without_payment() {
    let published = Clearance::Public(PublicProof::in_test());
    let release = empty(0.25, 1.0, 1.0).release(1.0, published, &noise(1)).unwrap();
    assert!(release.vector().iter().any(|value| value.abs() > 0.1));
    assert!(Outgoing::from(release).grant().is_none());
}

#[test]
fn two_releases_have_different_noise() {
    let draw = || {
        let clearance = granted(event(1.0, 1.0));
        empty(1.0, 1.0, 1.0).release(1.0, clearance, &Randomness::from_os(Purpose::Noise)).unwrap()
    };
    assert_ne!(draw().vector(), draw().vector());
}

#[test]
fn strides_of_one_release_have_different_noise() {
    let clearance = granted(event(1.0, 1.0));
    let release = empty(1.0, 1.0, 1.0).release(1.0, clearance, &noise(3)).unwrap();
    let (first, second) = release.vector().split_at(super::STRIDE);
    assert_ne!(first[..100], second[..100]);
}

#[test]
fn coordinates_of_other_sites_are_zero() {
    let release = || empty(1.0, 1.0, 1.0).release(1.0, granted(event(1.0, 1.0)), &noise(5)).unwrap();
    let (whole, kept) = (release(), release().keep_only(&[2..4, 7..9]));
    for (place, (own, kept)) in whole.vector().iter().zip(kept.vector()).enumerate() {
        let expected = if matches!(place, 2 | 3 | 7 | 8) { *own } else { 0.0 };
        assert!(kept.to_bits() == expected.to_bits(), "{place}: {kept} instead of {expected}");
    }
    assert!(Outgoing::from(kept).grant().is_some());
}

#[test]
fn an_expected_batch_of_nothing_is_an_error() {
    for expected in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let clearance = granted(event(1.0, 1.0));
        assert!(matches!(
            empty(1.0, 1.0, 1.0).release(expected, clearance, &noise(4)),
            Err(ReleaseError::ExpectedBatch(_))
        ));
    }
}

#[test]
fn exact_vector_needs_public_data_or_its_own_grant() {
    let exact = |clearance| Outgoing::exact(vec![1.0, 2.0], clearance);
    assert!(exact(Clearance::Public(PublicProof::in_test())).unwrap().grant().is_none());
    assert!(exact(granted(Event::NonPrivate)).unwrap().grant().is_some());
    let error = exact(granted(event(0.1, 1.0))).unwrap_err();
    assert!(matches!(error, ReleaseError::NotExact(_)), "{error}");
}
