//! Where sound is quietest.

use std::ops::Range;

/// Distance between places that are looked at, samples: 2.5 ms.
const STEP: usize = 40;
/// Samples on either side of a place that make its loudness: 30 ms, so that a pause between words is quieter than the closure of a
/// plosive within one.
const REACH: usize = 480;

/// Mean square of `samples`; of none, 0.
fn power(samples: &[f32]) -> f64 {
    samples.iter().map(|sample| f64::from(*sample).powi(2)).sum::<f64>() / samples.len().max(1) as f64
}

/// The quietest place of `range` in `samples` and the power around it (full scale = 1); of several, the one next to the
/// middle. The range must lie within.
pub(super) fn quietest(samples: &[f32], range: Range<usize>) -> (usize, f64) {
    let middle = usize::midpoint(range.start, range.end);
    let around = |at: usize| power(&samples[at.saturating_sub(REACH)..(at + REACH).min(samples.len())]);
    let mut best = (middle, around(middle));
    // From the middle outwards, so that an equal one further out does not win.
    for distance in (STEP..=range.len().div_ceil(2)).step_by(STEP) {
        for at in [middle.checked_sub(distance), middle.checked_add(distance)].into_iter().flatten() {
            if range.contains(&at) {
                let power = around(at);
                if power < best.1 {
                    best = (at, power);
                }
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quietest_place_is_where_the_sound_is_least() {
        let mut samples = vec![0.5; 8_000];
        samples[5_000..6_040].fill(0.01);
        let (at, power) = quietest(&samples, 1_000..7_000);
        assert!((5_480..=5_560).contains(&at) && power < 2e-4, "{at} {power}");
        let (outside, power) = quietest(&samples, 1_000..4_000);
        assert_eq!((outside, power), (2_500, 0.25), "equally loud everywhere: the middle");
    }

    #[test]
    fn a_range_of_nothing_is_its_own_place() {
        assert_eq!(quietest(&[0.5; 100], 50..50).0, 50);
        assert!(power(&[]).abs() < f64::EPSILON);
    }
}
