//! Sampling, then k-anonymity: the guarantee for rows that are kept at random and shown only among at least k equal
//! ones.
//!
//! Every row is kept independently with probability β; of the kept rows, only values that occur at least k times are
//! shown (Li, Qardaji and Su 2012). That is (ε, δ)-differentially private for adding or removing one row. This module
//! computes δ for (k, β, ε), and solves for k and β. Nothing here samples, counts or shows.
//!
//! Removing a row and emptying it (zero-out) are one change here: an emptied row has no value, so it is in no count
//! before sampling or after it. The output does not depend on the total number of rows, which zero-out takes to be
//! public.
//!
//! The guarantee is void when distinct values are sampled instead of rows, when the threshold is on counts before
//! sampling, when counts are approximate, or when one sample is used for two releases that are charged as one each.
//!
//! The arithmetic, and why it is exact, is in `kanon/bound.rs`; the Rényi loss is in `kanon/renyi.rs`; the searches for
//! parameters are in `kanon/solve.rs`.

mod bound;
mod renyi;
mod search;
mod solve;
#[cfg(test)]
mod tests;

pub(crate) use renyi::TextRelease;
pub use solve::{Feasible, feasible, least_threshold};

use serde::{Deserialize, Serialize};

use crate::special::UNIT;
use crate::unit::Delta;

/// The shown values, and the bound that prices them. Stored in events: variants are append-only, and each keeps its price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shown {
    /// Values with their counts, by the published bound: Li, Qardaji and Su's d(k, β, ε), Theorem 5.
    #[default]
    Counts,
    /// Values with their counts, by the exact divergence; usually 6 to 100 times less than the published bound.
    CountsTight,
    /// Only the set of surviving values, exactly. Needs no least ε.
    Set,
    /// Values with their counts: δ at ε as for [`Shown::CountsTight`], and the exact Rényi loss of what remains (module
    /// `kanon/renyi.rs`). Several texts of one unit compose, instead of counting as a group.
    CountsRenyi,
    /// Only the set of surviving values: δ at ε as for [`Shown::Set`], and the exact Rényi loss of what remains. Several texts of
    /// one unit compose.
    SetRenyi,
}

impl Shown {
    /// Returns true if the number of kept rows is shown with each value.
    pub const fn shows_counts(self) -> bool {
        matches!(self, Self::Counts | Self::CountsTight | Self::CountsRenyi)
    }

    /// Returns true if the release is charged by its exact Rényi loss, and not by its (ε, δ) alone.
    pub const fn has_renyi_price(self) -> bool {
        matches!(self, Self::CountsRenyi | Self::SetRenyi)
    }

    /// Returns the form with the exact Rényi price that shows the same values.
    #[must_use]
    pub const fn with_renyi_price(self) -> Self {
        if self.shows_counts() { Self::CountsRenyi } else { Self::SetRenyi }
    }
}

/// Why sampling and a threshold give no guarantee.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum KanonError {
    /// All rows are kept, or none.
    #[error(
        "the sampling rate must be greater than 0 and less than 1, not {0}: without sampling k-anonymity promises nothing"
    )]
    Rate(f64),
    /// All values are shown.
    #[error("the threshold must be at least 1")]
    Threshold,
    /// ε is not a number of at least 0, or too small for the rate.
    #[error("epsilon must be at least {least} at this sampling rate, not {epsilon}: raise epsilon or sample less")]
    Epsilon {
        /// −ln(1 − β), or 0.
        least: f64,
        /// The given ε.
        epsilon: f64,
    },
    /// No threshold, or no rate, is enough.
    #[error("no {what} keeps epsilon {epsilon} and delta {delta}: raise one of them")]
    Unreachable {
        /// The quantity of the search.
        what: &'static str,
        /// The requested ε.
        epsilon: f64,
        /// The requested δ.
        delta: f64,
    },
}

/// Returns δ at ε of showing the values that occur at least `k` times among rows kept with probability `rate`, rounded
/// up; never 0.
///
/// # Errors
/// [`KanonError`] unless 0 < `rate` < 1, `k` ≥ 1 and ε ≥ 0; and, when counts are shown, ε ≥ −ln(1 − `rate`).
pub fn delta(shown: Shown, k: u64, rate: f64, epsilon: f64) -> Result<Delta, KanonError> {
    let rows = rows(shown, k, rate, epsilon)?;
    let rounded = |ln: f64| libm::exp(ln) * (1.0 + 4.0 * UNIT);
    let copies = k as f64;
    let delta = match shown {
        // Where k copies are the worst case there is nothing to sum: all are kept, β^k.
        Shown::CountsTight | Shown::CountsRenyi if rows.is_worst_removed(copies) => power(rate, k),
        Shown::Set | Shown::SetRenyi if rows.is_worst_removed(copies) => {
            power(rate, k).max(rounded(rows.ln_added(copies)))
        }
        Shown::Counts if rows.is_worst_of_its_threshold(copies) => {
            power(rate, k).max(rounded(rows.ln_published(copies + 1.0)))
        }
        _ => rounded(ln(shown, &rows, copies)),
    };
    let delta = delta.max(f64::MIN_POSITIVE);
    Delta::new(delta).map_err(|_| KanonError::Unreachable { what: "delta below 1", epsilon, delta })
}

/// Returns ln of [`delta`], without underflow.
///
/// # Errors
/// As [`delta`].
pub fn ln_delta(shown: Shown, k: u64, rate: f64, epsilon: f64) -> Result<f64, KanonError> {
    Ok(ln(shown, &rows(shown, k, rate, epsilon)?, k as f64))
}

fn ln(shown: Shown, rows: &bound::SampledRows, copies: f64) -> f64 {
    match shown {
        Shown::Counts => rows.ln_published(copies),
        Shown::CountsTight | Shown::CountsRenyi => rows.ln_removed(copies),
        Shown::Set | Shown::SetRenyi => rows.ln_removed(copies).max(rows.ln_added(copies)),
    }
}

/// Checks the parameters.
fn rows(shown: Shown, k: u64, rate: f64, epsilon: f64) -> Result<bound::SampledRows, KanonError> {
    if !(rate > 0.0 && rate < 1.0) {
        return Err(KanonError::Rate(rate));
    }
    if k == 0 {
        return Err(KanonError::Threshold);
    }
    let least = least_epsilon(shown, rate);
    if !epsilon.is_finite() || epsilon < least {
        return Err(KanonError::Epsilon { least, epsilon });
    }
    Ok(bound::SampledRows::new(rate, epsilon))
}

/// Returns β^k, each product rounded up: exact to the last digit where that matters, as for k = 1.
fn power(rate: f64, k: u64) -> f64 {
    (1..k.min(MOST_FACTORS)).fold(rate, |power, _| {
        let product = power * rate;
        if libm::fma(power, rate, -product) > 0.0 { product.next_up() } else { product }
    })
}

/// β^k for more factors than this is below every practical δ, unless β is nearly 1; fewer factors only add.
const MOST_FACTORS: u64 = 100_000;

/// Returns the least possible ε at this rate: −ln(1 − β), the loss of seeing that a row is absent, when counts are
/// shown.
pub fn least_epsilon(shown: Shown, rate: f64) -> f64 {
    if shown.shows_counts() { -libm::log1p(-rate) } else { 0.0 }
}
