//! Finds the rests of a recording: the points at which it is cut.
//!
//! A point is a rest if it is quieter than every point up to a distance before it, and not louder than any point up to the
//! same distance after it. This is chunking by local extrema (Bjørner, Blass, Gurevich, "Content-dependent chunking for differential
//! compression, the local maximum approach", J. Computer and System Sciences 76, 2010): two rests are further apart than
//! the distance, and each depends on the sound near it alone.
//!
//! Loudness is a sum of squared 16-bit samples, in integers. So it is the same wherever the same sound lies in a recording, and equal
//! sound never yields other rests because of rounding. Pauses of digital silence are equally loud. Among equally loud points a hash of a
//! longer context decides, which differs at the edges of two pauses. Without it, such pauses would exclude each other.

use std::collections::VecDeque;

/// Base of the polynomial hash of a context, an odd number (Knuth's MMIX).
const BASE: u64 = 6_364_136_223_846_793_005;

/// Reads a recording sample by sample and returns its rests.
pub(super) struct RestFinder {
    /// Points on either side among which a rest is the quietest.
    distance: u64,
    /// Samples on either side that determine the loudness of a point.
    reach: usize,
    /// Samples on either side that decide among equally loud points, at least `reach`.
    context: usize,
    /// The samples of the newest context.
    recent: VecDeque<i64>,
    power: u64,
    hash: u64,
    /// `BASE` to the power of the length of a context.
    oldest: u64,
    /// The number of samples read.
    samples: u64,
    /// Points that may become the quietest, with their loudness and hash, which never fall from the first to the last.
    candidates: VecDeque<(u64, (u64, u64))>,
}

impl RestFinder {
    /// Creates a finder of the points that are quietest within `distance` samples, by the `reach` samples on either side, and by
    /// the `context` samples on either side among equally loud points.
    pub(super) fn new(distance: u64, reach: u64, context: u64) -> Self {
        let context = context.max(reach) as usize;
        Self {
            distance,
            reach: reach as usize,
            context,
            recent: VecDeque::new(),
            power: 0,
            hash: 0,
            oldest: (0..2 * context).fold(1, |power: u64, _| power.wrapping_mul(BASE)),
            samples: 0,
            candidates: VecDeque::new(),
        }
    }

    /// Reads one sample. Returns the rest that it decides, which lies `distance + context` samples back. A point with fewer samples than that
    /// before or after it is no rest.
    pub(super) fn push(&mut self, sample: f32) -> Option<u64> {
        self.add(sample);
        // The newest point whose context is known.
        let point = self.samples.checked_sub(self.context as u64).filter(|point| *point >= self.context as u64)?;
        // Digital silence has the greatest hash, so that the edges of a pause come before its middle.
        let key = (self.power, !mix(self.hash));
        while self.candidates.back().is_some_and(|(_, before)| *before > key) {
            self.candidates.pop_back();
        }
        self.candidates.push_back((point, key));
        let center = point.checked_sub(self.distance)?;
        let first = center.checked_sub(self.distance).filter(|first| *first >= self.context as u64)?;
        while self.candidates.front().is_some_and(|(candidate, _)| *candidate < first) {
            self.candidates.pop_front();
        }
        // Of equal points the first is in front, so a rest is quieter than the points before it.
        self.candidates.front().filter(|(candidate, _)| *candidate == center).map(|(candidate, _)| *candidate)
    }

    /// Adds a sample to the context, and to the loudness the sample that comes within its reach.
    fn add(&mut self, sample: f32) {
        let value = (f64::from(sample) * 32_768.0).round().clamp(-32_768.0, 32_767.0) as i64;
        self.recent.push_back(value);
        self.samples += 1;
        let square = |back: usize| {
            let place = self.recent.len().checked_sub(back + 1);
            place.map_or(0, |place| self.recent[place].unsigned_abs().pow(2))
        };
        self.power = self.power + square(self.context - self.reach) - square(self.context + self.reach);
        self.hash = self.hash.wrapping_mul(BASE).wrapping_add(value.cast_unsigned());
        if self.recent.len() > 2 * self.context {
            let removed = self.recent.pop_front().unwrap_or(0);
            self.hash = self.hash.wrapping_sub(removed.cast_unsigned().wrapping_mul(self.oldest));
        }
    }
}

/// Spreads a hash over all bits; 0 stays 0 (finalizer of `SplitMix64`: Steele, Lea, Flood, "Fast splittable pseudorandom number
/// generators", OOPSLA 2014).
const fn mix(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use super::RestFinder;

    const DISTANCE: u64 = 50;
    const REACH: u64 = 4;
    const CONTEXT: u64 = 8;

    fn find_rests(samples: &[f32]) -> Vec<u64> {
        let mut finder = RestFinder::new(DISTANCE, REACH, CONTEXT);
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

    /// Computes the rests from their definition, where no two points are equally loud.
    fn defined_rests(samples: &[f32]) -> Vec<u64> {
        let square = |sample: &f32| (f64::from(*sample) * 32_768.0).round().powi(2) as u64;
        let (distance, reach, context) = (DISTANCE as usize, REACH as usize, CONTEXT as usize);
        let power = |point: usize| samples[point - reach..point + reach].iter().map(square).sum::<u64>();
        let whole = distance + context..(samples.len() + 1).saturating_sub(distance + context);
        let is_rest = |point: &usize| {
            (point - distance..*point).all(|before| power(before) > power(*point))
                && (point + 1..=point + distance).all(|after| power(after) >= power(*point))
        };
        whole.filter(is_rest).map(|point| point as u64).collect()
    }

    #[test]
    fn rests_follow_their_definition() {
        for seed in 1..6 {
            let samples = noise(2_000, seed);
            let rests = find_rests(&samples);
            assert_eq!(rests, defined_rests(&samples));
            assert!(rests.len() > 8 && rests.array_windows().all(|[one, next]| next - one > DISTANCE), "{rests:?}");
        }
    }

    #[test]
    fn pauses_of_digital_silence_do_not_exclude_each_other() {
        let mut samples = noise(4_000, 3);
        for start in (100..3_900).step_by(60) {
            samples[start..start + 25].fill(0.0);
        }
        let rests = find_rests(&samples);
        assert!(rests.len() > 20 && rests.array_windows().all(|[one, next]| next - one <= 4 * DISTANCE), "{rests:?}");
        let inside = |rest: &u64| (*rest - 100) % 60 <= 25 - REACH && (*rest - 100) % 60 >= REACH;
        assert!(rests.iter().filter(|rest| (100..3_880).contains(*rest)).all(inside), "{rests:?}");
    }

    #[test]
    fn short_or_monotonic_sound_has_no_rest() {
        assert!(find_rests(&noise(2 * (DISTANCE + CONTEXT) as usize - 1, 1)).is_empty());
        assert!(find_rests(&(0..2_000_u16).map(|at| f32::from(at) / 2_000.0).collect::<Vec<_>>()).is_empty());
    }

    #[test]
    fn inserted_sound_moves_far_rests_by_its_length() {
        let before = noise(4_000, 9);
        let inserted = noise(37, 5);
        let after = [&before[..2_000], &inserted, &before[2_000..]].concat();
        let near = DISTANCE + CONTEXT;
        let far = |rest: &u64| *rest < 2_000 - near || *rest >= 2_000 + near;
        let moved = |rest: u64| if rest < 2_000 { rest } else { rest + 37 };
        let expected: Vec<u64> = find_rests(&before).into_iter().filter(far).map(moved).collect();
        let outside = |rest: &u64| *rest < 2_000 - near || *rest >= 2_037 + near;
        assert_eq!(find_rests(&after).into_iter().filter(outside).collect::<Vec<_>>(), expected);
    }
}
