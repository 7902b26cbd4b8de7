//! The weighted sum of vectors, from which a mean is computed. It knows neither their owners nor their storage.

use super::VectorError;

/// Σ wᵢ xᵢ over a range of vectors, in f64 and in the order of addition. The same vectors in the same order give the
/// same bits on every machine, wherever the ranges are split.
#[derive(Debug, Clone, PartialEq)]
pub struct WeightedSum {
    numbers: Vec<f64>,
}

impl WeightedSum {
    /// Makes an empty sum of `length` numbers.
    pub fn new(length: usize) -> Self {
        Self { numbers: vec![0.0; length] }
    }

    /// Adds as many numbers, times their weight. They are plain: 4 bytes each, little-endian.
    ///
    /// # Errors
    /// [`VectorError::TooShort`] or [`VectorError::TooLong`] when their number differs; nothing is added then.
    // Compiled in this crate, which every profile optimizes.
    #[inline(never)]
    pub fn add(&mut self, weight: f64, plain: &[u8]) -> Result<(), VectorError> {
        let (found, expected) = (plain.len() as u64, 4 * self.numbers.len() as u64);
        if found < expected {
            return Err(VectorError::TooShort { found, expected });
        }
        if found > expected {
            return Err(VectorError::TooLong { found, most: expected });
        }
        let (numbers, _) = plain.as_chunks::<4>();
        for (sum, number) in self.numbers.iter_mut().zip(numbers) {
            *sum += weight * f64::from(f32::from_le_bytes(*number));
        }
        Ok(())
    }

    /// Returns the sum divided by the sum of all weights, each number rounded to f32 once.
    #[inline(never)]
    pub fn mean(&self, weights: f64) -> Vec<f32> {
        self.numbers.iter().map(|sum| (sum / weights) as f32).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::WeightedSum;
    use crate::vector::VectorError;
    use crate::vector::code::plain;

    fn bytes(numbers: &[f32]) -> Vec<u8> {
        let mut bytes = Vec::new();
        plain(numbers, &mut bytes);
        bytes
    }

    #[test]
    fn mean_equals_its_formula_to_the_bit_for_any_split() {
        let vector = |party: usize| (0..1000).map(move |n| (n as f32 * 0.37 + party as f32).sin() / 3.0);
        let vectors = [0, 1, 2].map(|party| vector(party).collect::<Vec<f32>>());
        let weights = [0.1, 1.1, 2.1];
        let total: f64 = weights.iter().sum();
        let expected: Vec<u32> = (0..1000)
            .map(|n| {
                let sum = weights.iter().zip(&vectors).fold(0.0, |sum, (weight, x)| sum + weight * f64::from(x[n]));
                ((sum / total) as f32).to_bits()
            })
            .collect();
        for length in [1, 256, 999, 1000] {
            let mut means = Vec::new();
            for start in (0..1000).step_by(length) {
                let end = 1000.min(start + length);
                let mut sum = WeightedSum::new(end - start);
                for (weight, vector) in weights.iter().zip(&vectors) {
                    sum.add(*weight, &bytes(&vector[start..end])).expect("as many");
                }
                means.extend(sum.mean(total).iter().map(|number| number.to_bits()));
            }
            assert!(means == expected, "in stretches of {length}");
        }
    }

    #[test]
    fn another_length_is_not_added() {
        let mut sum = WeightedSum::new(2);
        sum.add(1.0, &bytes(&[1.0, 2.0])).expect("as many");
        let before = sum.clone();
        assert_eq!(sum.add(1.0, &bytes(&[1.0])), Err(VectorError::TooShort { found: 4, expected: 8 }));
        assert_eq!(sum.add(1.0, &bytes(&[1.0; 3])), Err(VectorError::TooLong { found: 12, most: 8 }));
        assert_eq!(sum, before);
    }
}
