//! Encoding of numbers in fewer bits.

use undertone_api::job::dp_sgd::Precision;

use super::BLOCK;

/// Appends the encoded numbers, all of them finite. A vector may be encoded in pieces that are whole blocks.
pub fn encode(numbers: &[f32], precision: Precision, mut draw: impl FnMut() -> u32, bytes: &mut Vec<u8>) {
    match precision {
        Precision::F32 => plain(numbers, bytes),
        Precision::Bf16 => halves(numbers, bytes),
        Precision::Int8 => blocks(numbers, &mut draw, bytes),
    }
}

// None of these functions is generic: they are compiled in this crate, which every profile optimizes, and not in the
// caller's.

/// Appends numbers in the format of [`Precision::F32`]: 4 bytes each, little-endian.
#[inline(never)]
pub fn plain(numbers: &[f32], bytes: &mut Vec<u8>) {
    let start = bytes.len();
    bytes.resize(start + 4 * numbers.len(), 0);
    let (places, _) = bytes[start..].as_chunks_mut::<4>();
    for (place, number) in places.iter_mut().zip(numbers) {
        *place = number.to_le_bytes();
    }
}

#[inline(never)]
fn halves(numbers: &[f32], bytes: &mut Vec<u8>) {
    let start = bytes.len();
    bytes.resize(start + 2 * numbers.len(), 0);
    let (places, _) = bytes[start..].as_chunks_mut::<2>();
    for (place, number) in places.iter_mut().zip(numbers) {
        *place = nearest(*number).to_le_bytes();
    }
}

#[inline(never)]
fn blocks(numbers: &[f32], draw: &mut dyn FnMut() -> u32, bytes: &mut Vec<u8>) {
    for block in numbers.chunks(BLOCK) {
        let scale = scale(block);
        bytes.extend(scale.to_le_bytes());
        bytes.extend(block.iter().map(|number| by_chance(*number, scale, draw()).to_le_bytes()[0]));
    }
}

/// Returns the upper half of a finite number, rounded to nearest, ties to even; the largest finite value instead of
/// infinity.
fn nearest(number: f32) -> u16 {
    let bits = number.to_bits();
    // Half a unit of the remaining digits, less one where that unit is even.
    let rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    let infinite = rounded & 0x7f80 == 0x7f80;
    (rounded - u32::from(infinite)) as u16
}

/// Returns the number of a bf16, which may be NaN or infinite.
pub(super) fn widened(half: u16) -> f32 {
    f32::from_bits(u32::from(half) << 16)
}

/// Returns the least number of which 127 times is not below any of the block's magnitudes.
fn scale(block: &[f32]) -> f32 {
    let most = block.iter().fold(0.0_f32, |most, number| most.max(number.abs()));
    let scale = (f64::from(most) / 127.0) as f32;
    if f64::from(scale) * 127.0 < f64::from(most) { scale.next_up() } else { scale }
}

/// Returns ⌊x / scale + u⌋ for u uniform in [0, 1): its expectation is x / scale, to 2⁻³². From −127 to 127.
fn by_chance(number: f32, scale: f32, random: u32) -> i8 {
    if scale == 0.0 {
        return 0;
    }
    let uniform = f64::from(random) / 4_294_967_296.0;
    (f64::from(number) / f64::from(scale) + uniform).floor() as i8
}

/// Returns the number of a byte.
pub(super) fn scaled(byte: u8, scale: f32) -> f32 {
    let most = f64::from(f32::MAX);
    (f64::from(byte.cast_signed()) * f64::from(scale)).clamp(-most, most) as f32
}

#[cfg(test)]
mod tests {
    use super::{by_chance, nearest, scale, scaled, widened};

    /// Returns a generator (SplitMix64).
    fn random(seed: u64) -> impl FnMut() -> u32 {
        let mut state = seed;
        move || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (mixed >> 32) as u32
        }
    }

    #[test]
    fn a_half_is_the_nearest_there_is() {
        for (number, expected) in [
            (0.0, 0.0),
            (-0.0, -0.0),
            (1.0, 1.0),
            (1.0 + 1.0 / 256.0, 1.0),
            (1.0 + 3.0 / 256.0, 1.0 + 4.0 / 256.0),
            (1.0 + 1.1 / 256.0, 1.0 + 2.0 / 256.0),
            (-3.007_812_5, -3.0),
        ] {
            let actual: f32 = widened(nearest(number));
            assert_eq!(actual.to_bits(), f32::to_bits(expected), "{number}: {actual}");
        }
        let largest = f32::from_bits(0x7f7f_0000);
        for number in [f32::MAX, -f32::MAX] {
            assert_eq!(widened(nearest(number)).to_bits(), largest.copysign(number).to_bits(), "never infinite");
        }
        let mut draw = random(1);
        for _ in 0..100_000 {
            let number = f32::from_bits(draw());
            if number.is_normal() && number.abs() < largest {
                let error = (f64::from(widened(nearest(number))) - f64::from(number)).abs();
                assert!(error <= f64::from(number.abs()) / 256.0, "{number}");
            }
        }
    }

    #[test]
    fn numbers_of_a_block_fit_its_bytes() {
        let mut draw = random(2);
        for _ in 0..20_000 {
            let block: Vec<f32> = (0..5).map(|_| f32::from_bits(draw())).filter(|number| number.is_finite()).collect();
            let scale = scale(&block);
            for number in &block {
                let (low, high) = (by_chance(*number, scale, 0), by_chance(*number, scale, u32::MAX));
                assert!((-127..=127).contains(&low) && (-127..=127).contains(&high) && high - low <= 1, "{block:?}");
            }
        }
        assert_eq!((scale(&[0.0, -0.0]), by_chance(0.0, 0.0, 7)), (0.0, 0));
        assert!(scaled(127, scale(&[f32::MAX])).is_finite());
    }

    /// Compares means of n draws with the number. They deviate by more than four standard errors once in 16,000 tests;
    /// the draws here are fixed.
    #[test]
    fn rounding_by_chance_has_no_bias() {
        let mut draw = random(3);
        let scale = scale(&[1.0]);
        for number in [0.3, -0.3, 0.001, -0.001, 0.5 / 127.0, 0.999, -0.777, 1e-6] {
            let draws = 400_000;
            let step = f64::from(scale);
            let sum: f64 = (0..draws).map(|_| f64::from(by_chance(number, scale, draw())) * step).sum();
            let mean = sum / f64::from(draws);
            let part = (f64::from(number) / step).rem_euclid(1.0);
            let error = step * (part * (1.0 - part) / f64::from(draws)).sqrt();
            assert!((mean - f64::from(number)).abs() <= 4.0 * error, "{number}: {mean}, {error}");
        }
    }

    #[test]
    fn rounding_frequency_follows_the_distance() {
        let mut draw = random(4);
        let scale = 1.0;
        let draws = 100_000;
        let up = (0..draws).filter(|_| by_chance(2.25, scale, draw()) == 3).count() as f64;
        assert!((up / f64::from(draws) - 0.25).abs() < 0.006, "{up}");
    }
}
