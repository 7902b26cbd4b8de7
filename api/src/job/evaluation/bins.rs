//! The public bins of scores.
//!
//! A score is the logit of a class: ln(p/(1 − p)) of the probability that the model gives it. Bins are equally wide in
//! the logit and lie symmetrically around 0, so that the probability ½ is an edge. The first and the last bin are open.
//! Bins are fixed in the spec: bins chosen by the data would be a release.
//!
//! Ties in a bin count as half in the AUROC. For scores that spread over a logit of s, the error of that is about
//! (width/s)²/12, below 0.001 for the default bins and calibrated scores; the bench `evaluation` measures it.

use serde::{Deserialize, Serialize};

/// The bins of a score histogram.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ScoreBins {
    /// The number of bins: even, 8 to 256.
    #[cfg_attr(feature = "openapi", schema(minimum = 8, maximum = 256))]
    pub count: u32,
    /// The width of a bin in the logit of the score, natural logarithm: 0.01 to 4.
    #[cfg_attr(feature = "openapi", schema(minimum = 0.01, maximum = 4))]
    pub width: f64,
}

impl Default for ScoreBins {
    fn default() -> Self {
        Self { count: 64, width: 0.25 }
    }
}

impl ScoreBins {
    /// The range of the number of bins.
    pub const COUNT: (u32, u32) = (8, 256);
    /// The range of the width.
    pub const WIDTH: (f64, f64) = (0.01, 4.0);

    /// Returns whether the bins are the default.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the number of bins.
    pub const fn len(&self) -> usize {
        self.count as usize
    }

    /// Returns whether there is no bin; never so in a valid spec.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the bin of a logit, from 0; infinite logits lie in the first and last bin. `None` for NaN.
    pub fn find_bin(&self, logit: f64) -> Option<usize> {
        if logit.is_nan() || self.is_empty() {
            return None;
        }
        let place = libm::floor(logit / self.width) + f64::from(self.count / 2);
        Some(place.clamp(0.0, f64::from(self.count - 1)) as usize)
    }

    /// Returns the logit at the lower edge of a bin; the upper edge of the last one for `bin` = count.
    pub fn edge(&self, bin: usize) -> f64 {
        (bin as f64 - f64::from(self.count / 2)) * self.width
    }

    /// Returns the probability in the middle of a bin.
    pub fn middle_probability(&self, bin: usize) -> f64 {
        to_probability(self.edge(bin) + 0.5 * self.width)
    }
}

/// Returns 1/(1 + e⁻ˣ).
pub fn to_probability(logit: f64) -> f64 {
    1.0 / (1.0 + libm::exp(-logit))
}

#[cfg(test)]
mod tests {
    use super::{ScoreBins, to_probability};

    #[test]
    fn one_half_is_an_edge_and_the_ends_are_open() {
        let bins = ScoreBins { count: 8, width: 0.5 };
        let places: Vec<_> = [f64::NEG_INFINITY, -9.0, -1.01, -0.01, 0.0, 0.49, 0.5, 3.0, f64::INFINITY]
            .map(|logit| bins.find_bin(logit))
            .into();
        assert_eq!(places, [0, 0, 1, 3, 4, 4, 5, 7, 7].map(Some));
        assert_eq!(bins.find_bin(f64::NAN), None);
        assert!((bins.edge(4) - 0.0).abs() < 1e-15 && (bins.edge(8) - 2.0).abs() < 1e-15);
        assert!((to_probability(0.0) - 0.5).abs() < 1e-15);
        assert!((bins.middle_probability(4) - to_probability(0.25)).abs() < 1e-15);
    }

    #[test]
    fn each_bin_contains_its_middle() {
        let bins = ScoreBins::default();
        for bin in 0..bins.len() {
            assert_eq!(bins.find_bin(bins.edge(bin) + 0.5 * bins.width), Some(bin));
        }
    }
}
