//! Dropout: which numbers of a layer a pass does without (Srivastava et al. 2014), and how the passes of an uncertainty differ.
//!
//! burn's own dropout acts in training only and draws from a generator that is shared by everything on the device. Here masks
//! are drawn from a seed that is given: in training for each text of each step, at inference for each *pass*, the same for all
//! texts. A pass is so one draw of a network from the approximate posterior (Gal and Ghahramani 2016), and what it says of a text
//! does not depend on which other texts are asked about, nor on their order. All words of a text share a mask (Gal and
//! Ghahramani 2016, "recurrent neural networks").

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Streams of one seed, so that no two uses share a draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    /// Parameters to begin with.
    Start,
    /// Order of the examples in an epoch.
    Order(u32),
    /// Masks of the steps of an epoch.
    Training(u32),
    /// Masks of a pass at inference.
    Pass(u32),
}

impl Stream {
    /// The generator.
    pub(super) fn of(self, seed: u64) -> ChaCha20Rng {
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

/// What is left of the numbers of two layers: 0, or 1 / (1 − rate), which keeps their mean.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Masks {
    widths: [usize; 2],
    /// Of the embedding and of the hidden layer; one row for all texts, or one for each.
    kept: Option<[Vec<f32>; 2]>,
}

impl Masks {
    /// Nothing is dropped.
    pub(super) const fn none() -> Self {
        Self { widths: [0, 0], kept: None }
    }

    /// `rows` masks of layers of these widths.
    pub(super) fn draw(rate: f64, widths: [usize; 2], rows: usize, rng: &mut impl Rng) -> Self {
        if rate <= 0.0 {
            return Self::none();
        }
        let (bound, left) = ((rate * 4_294_967_296.0) as u64, (1.0 / (1.0 - rate)) as f32);
        let mut mask = |width: usize| {
            let one = || if u64::from(rng.next_u32()) < bound { 0.0 } else { left };
            std::iter::repeat_with(one).take(rows * width).collect()
        };
        let kept = [mask(widths[0]), mask(widths[1])];
        Self { widths, kept: Some(kept) }
    }

    /// Multiplies the row of a text in a layer (0: embedding, 1: hidden) by its mask.
    pub(super) fn apply(&self, layer: usize, text: usize, row: &mut [f32]) {
        let Some(kept) = &self.kept else { return };
        let (kept, width) = (&kept[layer], self.widths[layer]);
        let start = if kept.len() == width { 0 } else { text * width };
        row.iter_mut().zip(&kept[start..start + width]).for_each(|(value, kept)| *value *= kept);
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::float_cmp, reason = "the same computation, or numbers that binary fractions hold")]

    use super::{Masks, Stream};

    #[test]
    fn a_mask_drops_its_share_and_keeps_the_mean() {
        let masks = Masks::draw(0.25, [4000, 1], 1, &mut Stream::Pass(0).of(7));
        let mut row = vec![1.0; 4000];
        masks.apply(0, 0, &mut row);
        let dropped = row.iter().filter(|value| **value == 0.0).count();
        assert!((900..1100).contains(&dropped), "{dropped}");
        assert!(row.iter().all(|value| *value == 0.0 || (value - 4.0 / 3.0).abs() < 1e-6));
    }

    #[test]
    fn passes_epochs_and_purposes_have_draws_of_their_own() {
        let draw = |stream: Stream, seed| Masks::draw(0.5, [64, 64], 2, &mut stream.of(seed));
        let all = [Stream::Start, Stream::Order(0), Stream::Training(0), Stream::Pass(0), Stream::Pass(1)];
        for (index, one) in all.iter().enumerate() {
            assert_eq!(draw(*one, 3), draw(*one, 3));
            assert_ne!(draw(*one, 3), draw(*one, 4));
            assert!(all[..index].iter().all(|other| draw(*other, 3) != draw(*one, 3)));
        }
    }

    #[test]
    fn one_mask_serves_all_texts_and_several_serve_one_each() {
        let shared = Masks::draw(0.5, [16, 16], 1, &mut Stream::Pass(0).of(1));
        let own = Masks::draw(0.5, [16, 16], 2, &mut Stream::Training(0).of(1));
        let row = |masks: &Masks, text| {
            let mut row = [1.0; 16];
            masks.apply(1, text, &mut row);
            row
        };
        assert_eq!(row(&shared, 0), row(&shared, 1));
        assert_ne!(row(&own, 0), row(&own, 1));
        assert_eq!(row(&Masks::none(), 5), [1.0; 16]);
    }
}
