//! A plain radix-2 Fourier transform on `libm` only: no platform intrinsics, so every machine gets the same bits.

use std::f64::consts::PI;

use libm::sincos;

/// The transform of one length, a power of two, with its roots of unity.
pub(super) struct Fourier {
    length: usize,
    /// (cos, sin) of −2πk/length for k below half the length.
    roots: Vec<(f64, f64)>,
}

impl Fourier {
    /// Roots for transforms of `length` points, rounded up to a power of two.
    pub(super) fn new(length: usize) -> Self {
        let length = length.next_power_of_two();
        let roots = (0..length / 2).map(|k| {
            let (sin, cos) = sincos(-2.0 * PI * k as f64 / length as f64);
            (cos, sin)
        });
        Self { length, roots: roots.collect() }
    }

    /// The forward transform in place, of `length` points; its inverse is the same with conjugates, over the length.
    pub(super) fn forward(&self, points: &mut [(f64, f64)]) {
        let n = self.length;
        let bits = n.trailing_zeros();
        for i in 1..n {
            let j = if bits == 0 { 0 } else { i.reverse_bits() >> (usize::BITS - bits) };
            if i < j {
                points.swap(i, j);
            }
        }
        let mut half = 1;
        while half < n {
            let stride = n / (2 * half);
            for block in points.chunks_exact_mut(2 * half) {
                let (low, high) = block.split_at_mut(half);
                for (k, (a, b)) in low.iter_mut().zip(high).enumerate() {
                    let (cos, sin) = self.roots[k * stride];
                    let turned = (b.0 * cos - b.1 * sin, b.0 * sin + b.1 * cos);
                    *b = (a.0 - turned.0, a.1 - turned.1);
                    *a = (a.0 + turned.0, a.1 + turned.1);
                }
            }
            half *= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transform_is_the_sum_it_stands_for() {
        let points: Vec<(f64, f64)> = (0..8).map(|i| (f64::from(i * i % 7), f64::from(3 - i))).collect();
        let mut fast = points.clone();
        Fourier::new(8).forward(&mut fast);
        for (k, got) in fast.iter().enumerate() {
            let mut sum = (0.0, 0.0);
            for (n, (re, im)) in points.iter().enumerate() {
                let (sin, cos) = sincos(-2.0 * PI * (k * n) as f64 / 8.0);
                sum = (sum.0 + re * cos - im * sin, sum.1 + re * sin + im * cos);
            }
            assert!((got.0 - sum.0).abs() < 1e-13 && (got.1 - sum.1).abs() < 1e-13, "{k}");
        }
    }
}
