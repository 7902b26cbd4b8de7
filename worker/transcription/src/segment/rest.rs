//! Finds the rests of a recording: the points at which it is cut.
//!
//! A point is a rest if it is quieter than every point up to a distance before it, and not louder than any point up to the
//! same distance after it. This is chunking by local extrema (Bjørner, Blass, Gurevich, "Content-dependent chunking for differential
//! compression, the local maximum approach", J. Computer and System Sciences 76, 2010): two rests are further apart than
//! the distance, and each depends on the sound near it alone.
//!
//! Loudness is a sum of squared 16-bit samples, in integers. So it is the same wherever the same sound lies in a recording, and equal
//! sound never yields other rests because of rounding.

use std::collections::VecDeque;

/// Reads a recording sample by sample and returns its rests.
pub(super) struct RestFinder {
    /// Points on either side among which a rest is the quietest.
    distance: u64,
    /// Samples on either side that determine the loudness of a point.
    reach: u64,
    /// Squares of the last `2 * reach` samples, and their sum.
    squares: VecDeque<u64>,
    power: u64,
    /// The number of samples read.
    samples: u64,
    /// Points that may become the quietest, with their loudness, which never falls from the first to the last.
    candidates: VecDeque<(u64, u64)>,
}

impl RestFinder {
    /// Creates a finder of the points that are quietest within `distance` samples, by the `reach` samples on either side.
    pub(super) fn new(distance: u64, reach: u64) -> Self {
        Self { distance, reach, squares: VecDeque::new(), power: 0, samples: 0, candidates: VecDeque::new() }
    }

    /// Reads one sample. Returns the rest that it decides, which lies `distance + reach` samples back. A point with fewer samples than that
    /// before or after it is no rest.
    pub(super) fn push(&mut self, sample: f32) -> Option<u64> {
        let value = (f64::from(sample) * 32_768.0).round().clamp(-32_768.0, 32_767.0) as i64;
        let square = value.unsigned_abs().pow(2);
        self.squares.push_back(square);
        self.power += square;
        self.samples += 1;
        if self.squares.len() as u64 > 2 * self.reach {
            self.power -= self.squares.pop_front().unwrap_or(0);
        }
        // The newest point whose loudness is known.
        let point = self.samples.checked_sub(self.reach).filter(|point| *point >= self.reach)?;
        while self.candidates.back().is_some_and(|(_, power)| *power > self.power) {
            self.candidates.pop_back();
        }
        self.candidates.push_back((point, self.power));
        let center = point.checked_sub(self.distance)?;
        let first = center.checked_sub(self.distance).filter(|first| *first >= self.reach)?;
        while self.candidates.front().is_some_and(|(candidate, _)| *candidate < first) {
            self.candidates.pop_front();
        }
        // Of equal points the first is in front, so a rest is quieter than the points before it.
        self.candidates.front().filter(|(candidate, _)| *candidate == center).map(|(candidate, _)| *candidate)
    }
}

#[cfg(test)]
mod tests {
    use super::RestFinder;

    const DISTANCE: u64 = 50;
    const REACH: u64 = 4;

    fn find_rests(samples: &[f32]) -> Vec<u64> {
        let mut finder = RestFinder::new(DISTANCE, REACH);
        samples.iter().filter_map(|sample| finder.push(*sample)).collect()
    }

    /// Deterministic noise.
    fn noise(samples: usize, seed: u32) -> Vec<f32> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f64::from(state) / f64::from(u32::MAX) - 0.5
        };
        (0..samples).map(|_| next() as f32).collect()
    }

    /// Computes the rests from their definition.
    fn defined_rests(samples: &[f32]) -> Vec<u64> {
        let square = |sample: &f32| (f64::from(*sample) * 32_768.0).round().powi(2) as u64;
        let (distance, reach) = (DISTANCE as usize, REACH as usize);
        let power = |point: usize| samples[point - reach..point + reach].iter().map(square).sum::<u64>();
        let whole = distance + reach..(samples.len() + 1).saturating_sub(distance + reach);
        let is_rest = |point: &usize| {
            (point - distance..*point).all(|before| power(before) > power(*point))
                && (point + 1..=point + distance).all(|after| power(after) >= power(*point))
        };
        whole.filter(is_rest).map(|point| point as u64).collect()
    }

    #[test]
    fn rests_follow_their_definition() {
        for seed in 1..6 {
            let mut samples = noise(2_000, seed);
            // Silence has equal points.
            samples[700..900].fill(0.0);
            let rests = find_rests(&samples);
            assert_eq!(rests, defined_rests(&samples));
            assert!(rests.len() > 8 && rests.array_windows().all(|[one, next]| next - one > DISTANCE), "{rests:?}");
        }
    }

    #[test]
    fn short_or_monotonic_sound_has_no_rest() {
        assert!(find_rests(&noise(2 * (DISTANCE + REACH) as usize - 1, 1)).is_empty());
        assert!(find_rests(&(0..2_000_u16).map(|at| f32::from(at) / 2_000.0).collect::<Vec<_>>()).is_empty());
    }

    #[test]
    fn inserted_sound_moves_far_rests_by_its_length() {
        let before = noise(4_000, 9);
        let inserted = noise(37, 5);
        let after = [&before[..2_000], &inserted, &before[2_000..]].concat();
        let near = DISTANCE + REACH;
        let far = |rest: &u64| *rest < 2_000 - near || *rest >= 2_000 + near;
        let moved = |rest: u64| if rest < 2_000 { rest } else { rest + 37 };
        let expected: Vec<u64> = find_rests(&before).into_iter().filter(far).map(moved).collect();
        let outside = |rest: &u64| *rest < 2_000 - near || *rest >= 2_037 + near;
        assert_eq!(find_rests(&after).into_iter().filter(outside).collect::<Vec<_>>(), expected);
    }
}
