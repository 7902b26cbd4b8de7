//! Dropout masks of training and of the passes at inference (Srivastava et al. 2014).
//!
//! burn's own dropout acts in training only, and draws from a generator that everything on the device shares. This
//! module draws masks from an explicit seed: in training for each text of each step, at inference for each *pass*, the
//! same for all texts. A pass is therefore one network drawn from the approximate posterior (Gal and Ghahramani 2016),
//! and its result for a text does not depend on the other texts or their order. All words of a text share a mask (Gal
//! and Ghahramani 2016, "recurrent neural networks").

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// The streams of one seed, so that no two uses share a draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SeedStream {
    /// Initial parameters.
    Start,
    /// Order of the examples in an epoch.
    Order(u32),
    /// Masks of the steps of an epoch.
    Training(u32),
    /// Masks of a pass at inference.
    Pass(u32),
}

impl SeedStream {
    /// Returns the generator of this stream.
    pub(super) fn rng(self, seed: u64) -> ChaCha20Rng {
        let (kind, index) = match self {
            Self::Start => (0, 0),
            Self::Order(epoch) => (1, epoch),
            Self::Training(epoch) => (2, epoch),
            Self::Pass(pass) => (3, pass),
        };
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        rng.set_stream((kind << 32) | u64::from(index));
        rng
    }
}

/// Factors of the numbers of two layers: 0, or 1 / (1 − rate), which keeps their mean.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DropoutMasks {
    widths: [usize; 2],
    /// Factors of the embedding and of the hidden layer; one row for all texts, or one for each.
    factors: Option<[Vec<f32>; 2]>,
}

impl DropoutMasks {
    /// Returns masks that drop no number.
    pub(super) const fn none() -> Self {
        Self { widths: [0, 0], factors: None }
    }

    /// Draws `rows` masks of layers of these widths.
    pub(super) fn draw(rate: f64, widths: [usize; 2], rows: usize, rng: &mut impl Rng) -> Self {
        if rate <= 0.0 {
            return Self::none();
        }
        let bound = (rate * 4_294_967_296.0) as u64;
        let factor = (1.0 / (1.0 - rate)) as f32;
        let mut mask = |width: usize| {
            let one = || if u64::from(rng.next_u32()) < bound { 0.0 } else { factor };
            std::iter::repeat_with(one).take(rows * width).collect()
        };
        let factors = [mask(widths[0]), mask(widths[1])];
        Self { widths, factors: Some(factors) }
    }

    /// Multiplies the row of a text in a layer (0: embedding, 1: hidden) by its mask.
    pub(super) fn apply(&self, layer: usize, text: usize, row: &mut [f32]) {
        let Some(factors) = &self.factors else { return };
        let (factors, width) = (&factors[layer], self.widths[layer]);
        let start = if factors.len() == width { 0 } else { text * width };
        row.iter_mut().zip(&factors[start..start + width]).for_each(|(value, factor)| *value *= factor);
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::float_cmp, reason = "the same computation, or numbers that binary fractions hold")]

    use super::{DropoutMasks, SeedStream};

    #[test]
    fn mask_drops_its_share_and_keeps_the_mean() {
        let masks = DropoutMasks::draw(0.25, [4000, 1], 1, &mut SeedStream::Pass(0).rng(7));
        let mut row = vec![1.0; 4000];
        masks.apply(0, 0, &mut row);
        let dropped = row.iter().filter(|value| **value == 0.0).count();
        assert!((900..1100).contains(&dropped), "{dropped}");
        assert!(row.iter().all(|value| *value == 0.0 || (value - 4.0 / 3.0).abs() < 1e-6));
    }

    #[test]
    fn streams_have_independent_draws() {
        let draw = |stream: SeedStream, seed| DropoutMasks::draw(0.5, [64, 64], 2, &mut stream.rng(seed));
        let all = [
            SeedStream::Start,
            SeedStream::Order(0),
            SeedStream::Training(0),
            SeedStream::Pass(0),
            SeedStream::Pass(1),
        ];
        for (index, one) in all.iter().enumerate() {
            assert_eq!(draw(*one, 3), draw(*one, 3));
            assert_ne!(draw(*one, 3), draw(*one, 4));
            assert!(all[..index].iter().all(|other| draw(*other, 3) != draw(*one, 3)));
        }
    }

    #[test]
    fn masks_apply_to_all_texts_or_to_one_each() {
        let shared = DropoutMasks::draw(0.5, [16, 16], 1, &mut SeedStream::Pass(0).rng(1));
        let own = DropoutMasks::draw(0.5, [16, 16], 2, &mut SeedStream::Training(0).rng(1));
        let row = |masks: &DropoutMasks, text| {
            let mut row = [1.0; 16];
            masks.apply(1, text, &mut row);
            row
        };
        assert_eq!(row(&shared, 0), row(&shared, 1));
        assert_ne!(row(&own, 0), row(&own, 1));
        assert_eq!(row(&DropoutMasks::none(), 5), [1.0; 16]);
    }
}
