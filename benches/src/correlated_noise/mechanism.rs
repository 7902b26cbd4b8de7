//! The compared mechanisms: of each family, the member with the least error of the running sums at the same ε. The
//! choice reads public terms only.

use std::error::Error;

use undertone_privacy::correlated::{NoiseEncoder, RunningSumError, find_best_banded};

use super::price::TrainingTerms;

/// The tried λ of DP-λCGD.
const RATIOS: [f64; 14] = [0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98];
/// The tried widths of BISR.
const WIDTHS: [usize; 10] = [2, 3, 4, 6, 8, 12, 16, 24, 32, 64];
/// The tried numbers of bands.
const BANDS: [usize; 10] = [2, 3, 4, 5, 6, 8, 10, 12, 16, 20];

/// A family of encoders, with the parameter of its member.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum NoiseFamily {
    /// Independent noise, Poisson sampling.
    Independent,
    /// DP-λCGD, with λ; whole groups.
    Geometric(f64),
    /// BISR, with the number of diagonals of the inverse; whole groups.
    InverseRoot(usize),
    /// The best banded encoder, with as many groups as bands; cyclic Poisson sampling.
    Banded(usize),
}

impl NoiseFamily {
    /// Returns the name in the output.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Independent => "independent",
            Self::Geometric(_) => "lambda_cgd",
            Self::InverseRoot(_) => "bisr",
            Self::Banded(_) => "banded",
        }
    }

    /// Returns λ, or the number of diagonals or bands.
    pub(super) const fn parameter(self) -> f64 {
        match self {
            Self::Independent => 1.0,
            Self::Geometric(lambda) => lambda,
            Self::InverseRoot(count) | Self::Banded(count) => count as f64,
        }
    }
}

/// A mechanism with its noise.
#[derive(Debug, Clone)]
pub(super) struct NoiseMechanism {
    pub(super) family: NoiseFamily,
    pub(super) encoder: NoiseEncoder,
    /// The number of groups whose turns follow each other.
    pub(super) groups: usize,
    /// The deviation of the independent noise under C⁻¹, relative to the clip.
    pub(super) deviation: f64,
    /// The error of the running sums of clipped sums, relative to the clip.
    pub(super) error: RunningSumError,
}

impl NoiseMechanism {
    /// Makes a member of a family with the least noise for the terms.
    ///
    /// # Errors
    /// When no noise is enough.
    pub(super) fn new(terms: &TrainingTerms, family: NoiseFamily) -> Result<Self, Box<dyn Error>> {
        let steps = terms.steps;
        let (encoder, groups) = match family {
            NoiseFamily::Independent => (NoiseEncoder::independent(steps), 1),
            NoiseFamily::Geometric(lambda) => (NoiseEncoder::geometric(lambda, steps), terms.whole_groups()),
            NoiseFamily::InverseRoot(width) => (NoiseEncoder::inverse_root(width, steps), terms.whole_groups()),
            NoiseFamily::Banded(bands) => (find_best_banded(bands, steps), bands),
        };
        let deviation = match family {
            NoiseFamily::Independent | NoiseFamily::Banded(_) => terms.banded_noise(&encoder, groups)?,
            NoiseFamily::Geometric(_) | NoiseFamily::InverseRoot(_) => terms.whole_noise(&encoder)?,
        };
        let unit = encoder.errors();
        let error =
            RunningSumError { root_mean_square: unit.root_mean_square * deviation, last: unit.last * deviation };
        Ok(Self { family, encoder, groups, deviation, error })
    }

    /// Returns the best member of each family, independent noise first. A family without a member for the terms is
    /// absent.
    ///
    /// # Errors
    /// When no noise is enough.
    pub(super) fn best_of_each(terms: &TrainingTerms) -> Result<Vec<Self>, Box<dyn Error>> {
        let bands = BANDS.into_iter().filter(|bands| *bands <= terms.whole_groups() && *bands <= terms.steps);
        let families: [Vec<NoiseFamily>; 4] = [
            vec![NoiseFamily::Independent],
            RATIOS.map(NoiseFamily::Geometric).to_vec(),
            WIDTHS.into_iter().filter(|width| *width <= terms.steps).map(NoiseFamily::InverseRoot).collect(),
            bands.map(NoiseFamily::Banded).collect(),
        ];
        let mut best = Vec::new();
        for family in families {
            let members = family.into_iter().map(|member| Self::new(terms, member)).collect::<Result<Vec<_>, _>>()?;
            let rms = |mechanism: &Self| mechanism.error.root_mean_square;
            best.extend(members.into_iter().min_by(|one, other| rms(one).total_cmp(&rms(other))));
        }
        Ok(best)
    }
}
