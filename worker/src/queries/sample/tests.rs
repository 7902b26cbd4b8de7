//! What a sample is, and what it is not (`privacy.md`, 6.6).
#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::HashMap;
use std::convert::Infallible;

use undertone_privacy::SamplingRate;

use super::coins::Coins;
use super::{Keep, MOST_COPIES, SampleError, draw};
use crate::dp::randomness::{Purpose, Randomness};
use crate::queries::scratch::Scratch;

fn coins(seed: u8, rate: f64) -> Coins {
    Coins::new(Randomness::in_test(Purpose::Rows, seed).stream(0), SamplingRate::new(rate).unwrap())
}

fn sampled(rows: &[(&str, u64)], keep: &mut impl Keep) -> Vec<(String, u64)> {
    let work = tempfile::tempdir().unwrap();
    let scratch = Scratch::new(work.path()).unwrap();
    let rows = rows.iter().map(|(text, copies)| Ok::<_, Infallible>(((*text).to_owned(), *copies)));
    let mut told = Vec::new();
    let sample = draw(rows, keep, &scratch, |text, copies| told.push((text.to_owned(), copies))).unwrap();
    let mut kept = Vec::new();
    sample
        .read(|text, copies| {
            kept.push((text.to_owned(), copies));
            Ok::<_, SampleError>(())
        })
        .unwrap();
    assert_eq!(kept, told);
    kept
}

#[test]
fn rows_are_sampled_and_not_distinct_texts() {
    // Sampling distinct texts would keep all 5,000 rows of a text, or none.
    let rows = vec![("where is my card", 1); 5000];
    let kept = sampled(&rows, &mut coins(1, 0.25));
    let deviation = (5000.0_f64 * 0.25 * 0.75).sqrt();
    assert!((kept.len() as f64 - 1250.0).abs() < 5.0 * deviation, "{}", kept.len());
}

#[test]
fn a_row_that_counts_many_is_as_many_rows() {
    let one = sampled(&vec![("a", 1); 5000], &mut coins(2, 0.25)).len() as u64;
    let counted = sampled(&[("a", 1200), ("a", 1), ("a", 3799)], &mut coins(2, 0.25));
    assert_eq!(counted.iter().map(|(_, copies)| copies).sum::<u64>(), one);
}

#[test]
fn the_size_of_a_sample_varies_as_independent_coins_do() {
    // A sample of a fixed size, or without replacement up to βn, would not vary at all.
    let (rows, rate) = (vec![("a", 1); 400], 0.3);
    let mut coins = coins(3, rate);
    let sizes: Vec<f64> = (0..600).map(|_| sampled(&rows, &mut coins).len() as f64).collect();
    let mean = sizes.iter().sum::<f64>() / 600.0;
    let variance = sizes.iter().map(|size| (size - mean).powi(2)).sum::<f64>() / 599.0;
    assert!((mean - 120.0).abs() < 5.0 * (84.0_f64 / 600.0).sqrt(), "{mean}");
    // The variance of a variance: 2σ⁴/(n−1); five deviations.
    assert!((variance / 84.0 - 1.0).abs() < 5.0 * (2.0_f64 / 599.0).sqrt(), "{variance}");
}

#[test]
fn whether_a_row_is_kept_does_not_depend_on_other_rows() {
    // Two texts side by side: kept together as often as independent coins are.
    let mut coins = coins(4, 0.5);
    let mut seen = HashMap::<Vec<String>, f64>::new();
    for _ in 0..2000 {
        let kept = sampled(&[("a", 1), ("b", 1)], &mut coins);
        *seen.entry(kept.into_iter().map(|(text, _)| text).collect()).or_default() += 1.0;
    }
    // The upper 10⁻⁶ quantile of χ² with 3 degrees of freedom.
    let chi: f64 = seen.values().map(|seen| (seen - 500.0).powi(2) / 500.0).sum();
    assert!(seen.len() == 4 && chi < 30.7, "{seen:?}");
}

#[test]
fn two_samples_are_drawn_with_two_secrets() {
    let draw = || {
        let randomness = Randomness::from_os(Purpose::Rows);
        let mut coins = Coins::new(randomness.stream(0), SamplingRate::new(0.5).unwrap());
        sampled(&(0..200).map(|_| ("a", 1000)).collect::<Vec<_>>(), &mut coins)
    };
    assert_ne!(draw(), draw());
}

#[test]
fn a_sample_that_cannot_be_drawn_is_an_error_that_names_no_text() {
    let work = tempfile::tempdir().unwrap();
    let scratch = Scratch::new(work.path()).unwrap();
    let broken = [Ok(("secret".to_owned(), 1)), Err("the disk is gone")];
    let error = draw(broken.into_iter(), &mut coins(5, 0.5), &scratch, |_, _| ()).err().unwrap();
    assert!(matches!(error, SampleError::Rows(_)));
    let many = [Ok::<_, Infallible>(("secret".to_owned(), MOST_COPIES + 1))];
    let error = draw(many.into_iter(), &mut coins(5, 0.5), &scratch, |_, _| ()).err().unwrap();
    assert!(matches!(error, SampleError::Copies) && !error.to_string().contains("secret"));
    assert_eq!(std::fs::read_dir(scratch.folder()).unwrap().count(), 0);
}
