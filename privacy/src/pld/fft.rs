//! Fourier transforms of real sequences on `libm` only: no platform intrinsics, so every machine gets the same bits.
//!
//! A real sequence of n points is one complex sequence of n/2, transformed by Stockham's algorithm in radix 4 (its
//! output is sorted, and its inner loops run over neighbouring numbers).

use std::f64::consts::PI;

use libm::sincos;

/// A sequence of complex numbers, with real and imaginary parts in separate vectors.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ComplexVector {
    pub(super) re: Vec<f64>,
    pub(super) im: Vec<f64>,
}

impl ComplexVector {
    /// Sets the length; the content is then unspecified.
    fn resize(&mut self, length: usize) {
        self.re.resize(length, 0.0);
        self.im.resize(length, 0.0);
    }

    /// Iterates over the real and imaginary part of every number.
    pub(super) fn both(&mut self) -> impl Iterator<Item = (&mut f64, &mut f64)> {
        self.re.iter_mut().zip(&mut self.im)
    }
}

/// Buffers of a transform, reused by the next one.
#[derive(Debug, Default)]
pub(super) struct FourierBuffers {
    from: ComplexVector,
    to: ComplexVector,
}

impl FourierBuffers {
    fn first(&mut self, length: usize) -> &mut ComplexVector {
        self.from.resize(length);
        &mut self.from
    }
}

/// The transform of one length, a power of two of at least 4, with its roots of unity.
#[derive(Debug)]
pub(super) struct FourierTransform {
    length: usize,
    /// e^{−2πik/length} for k up to a quarter of the length.
    roots: ComplexVector,
}

impl FourierTransform {
    /// Computes the roots for transforms of `length` real points, rounded up to a power of two.
    pub(super) fn new(length: usize) -> Self {
        let length = length.next_power_of_two().max(4);
        // e^{ia}·e^{ib} from two short tables: two roundings more than each by itself, and the square root of the work.
        let block = 1usize << (length.trailing_zeros() / 2);
        let turn = |k: usize| sincos(-2.0 * PI * k as f64 / length as f64);
        let near: Vec<(f64, f64)> = (0..block).map(turn).collect();
        let mut roots = ComplexVector::default();
        for far in (0..=length / 4).step_by(block) {
            let (sin, cos) = turn(far);
            for (s, c) in near.iter().take(length / 4 + 1 - far) {
                roots.re.push(cos * c - sin * s);
                roots.im.push(cos * s + sin * c);
            }
        }
        Self { length, roots }
    }

    /// Returns the number of real points.
    pub(super) const fn length(&self) -> usize {
        self.length
    }

    /// Writes the spectrum of real points to `spectrum`, from frequency 0 to half the length; the rest are its
    /// conjugates.
    pub(super) fn forward(&self, points: &[f64], room: &mut FourierBuffers, spectrum: &mut ComplexVector) {
        let half = self.length / 2;
        for (pair, (re, im)) in points.chunks_exact(2).zip(room.first(half).both()) {
            (*re, *im) = (pair[0], pair[1]);
        }
        self.complex(room);
        let folded = &room.from;
        spectrum.resize(half + 1);
        (spectrum.re[0], spectrum.im[0]) = (folded.re[0] + folded.im[0], 0.0);
        (spectrum.re[half], spectrum.im[half]) = (folded.re[0] - folded.im[0], 0.0);
        for k in 1..=half / 2 {
            let back = half - k;
            // The transforms of the even points and of the odd ones, rotated.
            let even = (0.5 * (folded.re[k] + folded.re[back]), 0.5 * (folded.im[k] - folded.im[back]));
            let odd = (0.5 * (folded.im[k] + folded.im[back]), 0.5 * (folded.re[back] - folded.re[k]));
            let (cos, sin) = (self.roots.re[k], self.roots.im[k]);
            let turned = (odd.0 * cos - odd.1 * sin, odd.0 * sin + odd.1 * cos);
            (spectrum.re[k], spectrum.im[k]) = (even.0 + turned.0, even.1 + turned.1);
            (spectrum.re[back], spectrum.im[back]) = (even.0 - turned.0, turned.1 - even.1);
        }
    }

    /// Writes the real points of a spectrum, in the form of [`FourierTransform::forward`], to `points`.
    pub(super) fn inverse(&self, spectrum: &ComplexVector, room: &mut FourierBuffers, points: &mut [f64]) {
        let half = self.length / 2;
        let folded = room.first(half);
        // Conjugated: the inverse is the forward transform of conjugates.
        let (first, last) = (spectrum.re[0], spectrum.re[half]);
        (folded.re[0], folded.im[0]) = (0.5 * (first + last), -0.5 * (first - last));
        for k in 1..=half / 2 {
            let back = half - k;
            let even = (0.5 * (spectrum.re[k] + spectrum.re[back]), 0.5 * (spectrum.im[k] - spectrum.im[back]));
            let turned = (0.5 * (spectrum.re[k] - spectrum.re[back]), 0.5 * (spectrum.im[k] + spectrum.im[back]));
            let (cos, sin) = (self.roots.re[k], -self.roots.im[k]);
            let odd = (turned.0 * cos - turned.1 * sin, turned.0 * sin + turned.1 * cos);
            (folded.re[k], folded.im[k]) = (even.0 - odd.1, -(even.1 + odd.0));
            (folded.re[back], folded.im[back]) = (even.0 + odd.1, -(odd.0 - even.1));
        }
        self.complex(room);
        let scale = 1.0 / half as f64;
        for (pair, (re, im)) in points.chunks_exact_mut(2).zip(room.from.both()) {
            (pair[0], pair[1]) = (*re * scale, -*im * scale);
        }
    }

    /// Computes the complex transform of half the length, in place.
    fn complex(&self, room: &mut FourierBuffers) {
        let (mut left, mut stride) = (self.length / 2, 1);
        room.to.resize(left);
        while left >= 4 {
            self.quarter(&room.from, &mut room.to, left / 4, stride);
            std::mem::swap(&mut room.from, &mut room.to);
            (left, stride) = (left / 4, stride * 4);
        }
        if left == 2 {
            for numbers in [&mut room.from.re, &mut room.from.im] {
                let (low, high) = numbers.split_at_mut(stride);
                for (a, b) in low.iter_mut().zip(high) {
                    (*a, *b) = (*a + *b, *a - *b);
                }
            }
        }
    }

    /// Runs one pass: `groups` butterflies of four numbers, `stride` times each.
    fn quarter(&self, from: &ComplexVector, to: &mut ComplexVector, groups: usize, stride: usize) {
        let quarter = groups * stride;
        // The pass needs the roots of 4·groups; the table has those of the whole length.
        let skip = self.length / (4 * groups);
        let outputs = to.re.chunks_exact_mut(4 * stride).zip(to.im.chunks_exact_mut(4 * stride));
        for (p, (out_re, out_im)) in outputs.enumerate() {
            let once = (self.roots.re[p * skip], self.roots.im[p * skip]);
            let twice = (once.0 * once.0 - once.1 * once.1, 2.0 * once.0 * once.1);
            let thrice = (once.0 * twice.0 - once.1 * twice.1, once.0 * twice.1 + once.1 * twice.0);
            let at = |n: usize| n * quarter + p * stride..n * quarter + (p + 1) * stride;
            let a_re = &from.re[at(0)];
            let b_re = &from.re[at(1)];
            let c_re = &from.re[at(2)];
            let d_re = &from.re[at(3)];
            let a_im = &from.im[at(0)];
            let b_im = &from.im[at(1)];
            let c_im = &from.im[at(2)];
            let d_im = &from.im[at(3)];
            let (y0_re, rest) = out_re.split_at_mut(stride);
            let (y1_re, rest) = rest.split_at_mut(stride);
            let (y2_re, y3_re) = rest.split_at_mut(stride);
            let (y0_im, rest) = out_im.split_at_mut(stride);
            let (y1_im, rest) = rest.split_at_mut(stride);
            let (y2_im, y3_im) = rest.split_at_mut(stride);
            for q in 0..stride {
                let sum_ac = (a_re[q] + c_re[q], a_im[q] + c_im[q]);
                let gap_ac = (a_re[q] - c_re[q], a_im[q] - c_im[q]);
                let sum_bd = (b_re[q] + d_re[q], b_im[q] + d_im[q]);
                let gap_bd = (b_re[q] - d_re[q], b_im[q] - d_im[q]);
                (y0_re[q], y0_im[q]) = (sum_ac.0 + sum_bd.0, sum_ac.1 + sum_bd.1);
                let second = (gap_ac.0 + gap_bd.1, gap_ac.1 - gap_bd.0);
                let third = (sum_ac.0 - sum_bd.0, sum_ac.1 - sum_bd.1);
                let fourth = (gap_ac.0 - gap_bd.1, gap_ac.1 + gap_bd.0);
                (y1_re[q], y1_im[q]) = (second.0 * once.0 - second.1 * once.1, second.0 * once.1 + second.1 * once.0);
                (y2_re[q], y2_im[q]) = (third.0 * twice.0 - third.1 * twice.1, third.0 * twice.1 + third.1 * twice.0);
                (y3_re[q], y3_im[q]) =
                    (fourth.0 * thrice.0 - fourth.1 * thrice.1, fourth.0 * thrice.1 + fourth.1 * thrice.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transform_matches_sum_and_inverse_restores_it() {
        for length in [4usize, 8, 16, 32, 64, 512] {
            let points: Vec<f64> = (0..length).map(|i| (i * i % 7) as f64 - 0.3 * (i % 5) as f64).collect();
            let fourier = FourierTransform::new(length);
            let mut room = FourierBuffers::default();
            let mut spectrum = ComplexVector::default();
            fourier.forward(&points, &mut room, &mut spectrum);
            assert_eq!(spectrum.re.len(), length / 2 + 1);
            for k in 0..=length / 2 {
                let mut sum = (0.0, 0.0);
                for (n, point) in points.iter().enumerate() {
                    let (sin, cos) = sincos(-2.0 * PI * (k * n % length) as f64 / length as f64);
                    sum = (sum.0 + point * cos, sum.1 + point * sin);
                }
                let got = (spectrum.re[k], spectrum.im[k]);
                let most = 1e-14 * length as f64;
                assert!((got.0 - sum.0).abs() < most && (got.1 - sum.1).abs() < most, "{length} {k}: {got:?} {sum:?}");
            }
            let mut back = vec![0.0; length];
            fourier.inverse(&spectrum, &mut room, &mut back);
            for (got, point) in back.iter().zip(&points) {
                assert!((got - point).abs() < 1e-14 * length as f64, "{length}: {got} {point}");
            }
        }
    }
}
