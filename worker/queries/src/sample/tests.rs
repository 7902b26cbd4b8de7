//! Tests of the properties of a sample (`privacy.md`, 6.6).
#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::HashMap;
use std::convert::Infallible;

use undertone_privacy::SamplingRate;

use super::coins::RateCoins;
use super::{CopySampler, MOST_COPIES, SampleError, draw};
use crate::scratch::ScratchFolder;
use undertone_worker_training::randomness::{Purpose, Randomness};

fn coins(seed: u8, rate: f64) -> RateCoins {
    RateCoins::new(Randomness::in_test(Purpose::Rows, seed).stream(0), SamplingRate::new(rate).unwrap())
}

fn draw_rows(rows: &[(&str, u64)], keep: &mut impl CopySampler) -> Vec<(String, u64)> {
    let work = tempfile::tempdir().unwrap();
    let scratch = ScratchFolder::new(work.path()).unwrap();
    let rows = rows.iter().map(|(text, copies)| Ok::<_, Infallible>(((*text).to_owned(), *copies)));
    let mut reported = Vec::new();
    let sample = draw(rows, keep, &scratch, |text, copies| reported.push((text.to_owned(), copies))).unwrap();
    let mut sample_rows = Vec::new();
    sample
        .read(|text, copies| {
            sample_rows.push((text.to_owned(), copies));
            Ok::<_, SampleError>(())
        })
        .unwrap();
    assert_eq!(sample_rows, reported);
    sample_rows
}

#[test]
fn sampling_is_by_row_and_not_by_text() {
    // Sampling distinct texts would keep all 5,000 rows of a text, or none.
    let rows = vec![("where is my card", 1); 5000];
    let sample_rows = draw_rows(&rows, &mut coins(1, 0.25));
    let deviation = (5000.0_f64 * 0.25 * 0.75).sqrt();
    assert!((sample_rows.len() as f64 - 1250.0).abs() < 5.0 * deviation, "{}", sample_rows.len());
}

#[test]
fn row_with_a_count_samples_like_many_rows() {
    let one = draw_rows(&vec![("a", 1); 5000], &mut coins(2, 0.25)).len() as u64;
    let sample = draw_rows(&[("a", 1200), ("a", 1), ("a", 3799)], &mut coins(2, 0.25));
    assert_eq!(sample.iter().map(|(_, copies)| copies).sum::<u64>(), one);
}

#[test]
fn sample_size_varies_like_independent_coins() {
    // A sample of a fixed size, or without replacement up to βn, would not vary at all.
    let rows = vec![("a", 1); 400];
    let rate = 0.3;
    let mut coins = coins(3, rate);
    let sizes: Vec<f64> = (0..600).map(|_| draw_rows(&rows, &mut coins).len() as f64).collect();
    let mean = sizes.iter().sum::<f64>() / 600.0;
    let variance = sizes.iter().map(|size| (size - mean).powi(2)).sum::<f64>() / 599.0;
    assert!((mean - 120.0).abs() < 5.0 * (84.0_f64 / 600.0).sqrt(), "{mean}");
    // The variance of a variance: 2σ⁴/(n−1); five deviations.
    assert!((variance / 84.0 - 1.0).abs() < 5.0 * (2.0_f64 / 599.0).sqrt(), "{variance}");
}

#[test]
fn rows_are_kept_independently() {
    // Two texts together are kept as often as independent coins succeed together.
    let mut coins = coins(4, 0.5);
    let mut frequencies = HashMap::<Vec<String>, f64>::new();
    for _ in 0..2000 {
        let sample_rows = draw_rows(&[("a", 1), ("b", 1)], &mut coins);
        *frequencies.entry(sample_rows.into_iter().map(|(text, _)| text).collect()).or_default() += 1.0;
    }
    // The upper 10⁻⁶ quantile of χ² with 3 degrees of freedom.
    let chi: f64 = frequencies.values().map(|frequency| (frequency - 500.0).powi(2) / 500.0).sum();
    assert!(frequencies.len() == 4 && chi < 30.7, "{frequencies:?}");
}

#[test]
fn two_samples_use_two_secrets() {
    let draw = || {
        let randomness = Randomness::from_os(Purpose::Rows);
        let mut coins = RateCoins::new(randomness.stream(0), SamplingRate::new(0.5).unwrap());
        draw_rows(&(0..200).map(|_| ("a", 1000)).collect::<Vec<_>>(), &mut coins)
    };
    assert_ne!(draw(), draw());
}

#[test]
fn failed_sample_error_names_no_text() {
    let work = tempfile::tempdir().unwrap();
    let scratch = ScratchFolder::new(work.path()).unwrap();
    let broken = [Ok(("secret".to_owned(), 1)), Err("the disk is gone")];
    let error = draw(broken.into_iter(), &mut coins(5, 0.5), &scratch, |_, _| ()).err().unwrap();
    assert!(matches!(error, SampleError::Rows(_)));
    let many = [Ok::<_, Infallible>(("secret".to_owned(), MOST_COPIES + 1))];
    let error = draw(many.into_iter(), &mut coins(5, 0.5), &scratch, |_, _| ()).err().unwrap();
    assert!(matches!(error, SampleError::Copies) && !error.to_string().contains("secret"));
    assert_eq!(std::fs::read_dir(scratch.folder()).unwrap().count(), 0);
}
