use std::ops::Range;

use super::{MOST_STEPS, RowProducts, StoredSum, ghost_is_cheaper, height};
use crate::kernels::lanes::{all, on};
use crate::kernels::outer::strip::{NormKernel, QuantizeKernel};
use crate::kernels::pack::{ColumnPanels, ColumnTiles, WIDE};

const SHAPE: [usize; 2] = [21, 2 * WIDE + 11];

fn values(count: usize, by: usize) -> Vec<f32> {
    (0..count).map(|n| (n * by % 1009) as f32 / 500.0 - 1.0).collect()
}

fn sides(rows: usize) -> (Vec<f32>, Vec<f32>) {
    (values(rows * SHAPE[0], 37), values(rows * SHAPE[1], 53))
}

fn outer(rows: usize) -> RowProducts {
    let (left, right) = sides(rows);
    RowProducts::new(ColumnTiles::pack(&left, rows, SHAPE[0]), ColumnPanels::pack(&right, rows, SHAPE[1]))
}

/// Returns the sum in double precision, element by element.
fn plain(all: usize, rows: Range<usize>) -> Vec<f64> {
    let (left, right) = sides(all);
    let element = |place: usize| {
        let (i, j) = (place / SHAPE[1], place % SHAPE[1]);
        rows.clone().map(|t| f64::from(left[t * SHAPE[0] + i]) * f64::from(right[t * SHAPE[1] + j])).sum()
    };
    (0..SHAPE[0] * SHAPE[1]).map(element).collect()
}

fn squares(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum()
}

#[test]
fn sums_and_norms_are_those_of_plain_loops() {
    let (rows, unit) = (40, 3..33);
    let outer = outer(rows);
    let mut sum = vec![1.0; SHAPE[0] * SHAPE[1]];
    outer.add_to(&mut sum);
    assert!(plain(rows, 0..rows).iter().zip(&sum).all(|(a, b)| (a + 1.0 - f64::from(*b)).abs() < 1e-4));
    let exact = squares(&plain(rows, unit.clone()));
    for norm in [outer.direct_norm(&unit), outer.ghost_norm(&outer.left.panels(), &unit)] {
        assert!((norm / exact - 1.0).abs() < 1e-5, "{norm} {exact}");
    }
    assert_eq!(outer.squared_norms(&[0..0, 5..5]), [0.0, 0.0]);
    let (mut kept, once) = StoredSum::new(vec![7.0; 5], &outer);
    let norm = kept.add(&outer);
    assert!((norm / once - 4.0).abs() < 1e-6);
    assert!((norm / squares(&plain(rows, 0..rows)) - 4.0).abs() < 1e-5);
}

#[test]
fn steps_are_cut_toward_zero_and_taken_away_again_exactly() {
    let (rows, unit, factor) = (40, 3..33, 1000.0);
    let outer = outer(rows);
    let exact = plain(rows, unit.clone());
    for strip in 0..3 {
        let mut sums = vec![5; height(SHAPE) * WIDE];
        let squares = outer.quantize(&unit, strip, factor, false, &mut sums);
        let mut expected = 0;
        for (place, steps) in sums.iter().enumerate() {
            let (row, column) = (place / WIDE, strip * WIDE + place % WIDE);
            let value = if row < SHAPE[0] && column < SHAPE[1] { exact[row * SHAPE[1] + column] * 1000.0 } else { 0.0 };
            let steps = f64::from(steps - 5);
            assert!(
                steps.abs() <= value.abs() + 0.05 && (steps - value).abs() < 1.05,
                "{row} {column}: {steps} {value}"
            );
            expected += (steps * steps) as u128;
        }
        assert_eq!(squares, expected);
        assert_eq!(outer.quantize(&unit, strip, factor, true, &mut sums), squares);
        assert!(sums.iter().all(|steps| *steps == 5));
    }
}

#[test]
fn stored_sum_gives_the_same_steps() {
    let outer = outer(30);
    let (kept, _) = StoredSum::new(Vec::new(), &outer);
    for strip in 0..3 {
        let [mut once, mut twice] = [vec![0; height(SHAPE) * WIDE], vec![0; height(SHAPE) * WIDE]];
        let squares = outer.quantize(&(0..30), strip, 777.0, false, &mut once);
        assert_eq!(kept.quantize(strip, 777.0, false, &mut twice), squares);
        assert_eq!(once, twice);
    }
    let [mut sum, mut same] = [vec![0.0; SHAPE[0] * SHAPE[1]], vec![0.0; SHAPE[0] * SHAPE[1]]];
    outer.add_to(&mut sum);
    kept.add_to(&mut same);
    assert_eq!(sum, same);
}

#[test]
fn every_kind_of_vectors_takes_the_same_steps() {
    let outer = outer(25);
    let rows = 4..25;
    let mut first: Option<Vec<i32>> = None;
    for arch in all() {
        let mut sums = vec![0; height(SHAPE) * WIDE];
        let squares = on(
            arch,
            QuantizeKernel { outer: &outer, rows: &rows, strip: 1, factor: 3e4, away: false, sums: &mut sums },
        );
        assert_eq!(squares, sums.iter().map(|steps| u128::from(steps.unsigned_abs()).pow(2)).sum::<u128>(), "{arch:?}");
        let norm = on(arch, NormKernel { outer: &outer, rows: &rows, strip: 1 });
        assert!((norm.sqrt() * 3e4 / (squares as f64).sqrt() - 1.0).abs() < 1e-4, "{arch:?}");
        assert_eq!(*first.get_or_insert_with(|| sums.clone()), sums, "{arch:?}");
    }
}

#[test]
fn nan_or_too_large_counts_as_the_maximum() {
    for (broken, steps) in [(f32::NAN, 1), (f32::INFINITY, 1), (f32::NEG_INFINITY, -1), (1e30, 1)] {
        let outer = RowProducts::new(ColumnTiles::pack(&[1.0], 1, 1), ColumnPanels::pack(&[broken], 1, 1));
        for arch in all() {
            let mut sums = vec![0; height([1, 1]) * WIDE];
            let squares = on(
                arch,
                QuantizeKernel { outer: &outer, rows: &(0..1), strip: 0, factor: 1.0, away: false, sums: &mut sums },
            );
            assert_eq!(sums[0], steps * MOST_STEPS.cast_signed(), "{broken} {arch:?}");
            assert!(squares >= u128::from(MOST_STEPS).pow(2));
        }
    }
}

#[test]
fn the_cheaper_norm_depends_on_the_rows_and_the_shape() {
    assert!(ghost_is_cheaper(50, [201, 9096]) && !ghost_is_cheaper(250, [201, 9096]) && !ghost_is_cheaper(5, [1, 400]));
}
