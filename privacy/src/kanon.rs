//! Sampling, then k-anonymity: what it promises to rows that are kept by chance and shown only in company.
//!
//! Every row is kept independently with probability β; of what was kept, only values that occur at least k times are
//! shown (Li, Qardaji and Su 2012). That is (ε, δ)-differentially private for adding or removing one row. Here are δ for
//! (k, β, ε), and the solvers for k and β. Nothing here samples, counts or shows.
//!
//! Removing a row and emptying it (zero-out) are one change here: an emptied row has no value, so it is in no count before sampling or
//! after it. Nothing that is shown depends on how many rows there are in all, which zero-out takes to be public.
//!
//! The guarantee is void when distinct values are sampled instead of rows, when the threshold is on counts before sampling,
//! when counts are approximate, or when one sample is used for two releases that are charged as one each.
//!
//! The arithmetic, and why it is exact, is in `kanon/bound.rs`; the searches are in `kanon/solve.rs`.

mod bound;
mod solve;
#[cfg(test)]
mod tests;

pub use solve::{Feasible, feasible, largest_rate, least_threshold};

use serde::{Deserialize, Serialize};

use crate::special::UNIT;
use crate::unit::Delta;

/// What is shown, and by which argument it is charged. Each is at most the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shown {
    /// Values with their counts, by the published bound: Li, Qardaji and Su's d(k, β, ε), Theorem 5.
    #[default]
    Counts,
    /// Values with their counts, by the exact divergence; usually 6 to 100 times less than the published bound.
    CountsTight,
    /// Only which values survive, exactly. Needs no least ε.
    Set,
}

/// Why sampling and a threshold promise nothing.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum KanonError {
    /// Everything is kept, or nothing.
    #[error(
        "the sampling rate must be greater than 0 and less than 1, not {0}: without sampling k-anonymity promises nothing"
    )]
    Rate(f64),
    /// Everything is shown.
    #[error("the threshold must be at least 1")]
    Threshold,
    /// ε is not a number of at least 0, or too small for the rate.
    #[error("epsilon must be at least {least} at this sampling rate, not {epsilon}: raise epsilon or sample less")]
    Epsilon {
        /// −ln(1 − β), or 0.
        least: f64,
        /// What was given.
        epsilon: f64,
    },
    /// No threshold, or no rate, is enough.
    #[error("no {what} keeps epsilon {epsilon} and delta {delta}: raise one of them")]
    Unreachable {
        /// What was sought.
        what: &'static str,
        /// The ε asked for.
        epsilon: f64,
        /// The δ asked for.
        delta: f64,
    },
}

/// δ at ε of showing what occurs at least `k` times among rows kept with probability `rate`, rounded up; never 0.
///
/// # Errors
/// [`KanonError`] unless 0 < `rate` < 1, `k` ≥ 1 and ε ≥ 0; and, when counts are shown, ε ≥ −ln(1 − `rate`).
pub fn delta(shown: Shown, k: u64, rate: f64, epsilon: f64) -> Result<Delta, KanonError> {
    let rows = rows(shown, k, rate, epsilon)?;
    let rounded = |ln: f64| libm::exp(ln) * (1.0 + 4.0 * UNIT);
    let copies = k as f64;
    let delta = match shown {
        // Where k copies are the worst there is nothing to sum: all are kept, β^k.
        Shown::CountsTight if rows.is_worst_removed(copies) => power(rate, k),
        Shown::Set if rows.is_worst_removed(copies) => power(rate, k).max(rounded(rows.ln_added(copies))),
        Shown::Counts if rows.is_worst_of_its_threshold(copies) => {
            power(rate, k).max(rounded(rows.ln_published(copies + 1.0)))
        }
        _ => rounded(ln(shown, &rows, copies)),
    };
    let delta = delta.max(f64::MIN_POSITIVE);
    Delta::new(delta).map_err(|_| KanonError::Unreachable { what: "delta below 1", epsilon, delta })
}

/// ln of [`delta`], without underflow.
///
/// # Errors
/// As [`delta`].
pub fn ln_delta(shown: Shown, k: u64, rate: f64, epsilon: f64) -> Result<f64, KanonError> {
    Ok(ln(shown, &rows(shown, k, rate, epsilon)?, k as f64))
}

fn ln(shown: Shown, rows: &bound::Rows, copies: f64) -> f64 {
    match shown {
        Shown::Counts => rows.ln_published(copies),
        Shown::CountsTight => rows.ln_removed(copies),
        Shown::Set => rows.ln_removed(copies).max(rows.ln_added(copies)),
    }
}

/// The parameters, if they promise anything.
fn rows(shown: Shown, k: u64, rate: f64, epsilon: f64) -> Result<bound::Rows, KanonError> {
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
    Ok(bound::Rows::new(rate, epsilon))
}

/// β^k, each product rounded up: exact to the last digit where that decides, as for k = 1.
fn power(rate: f64, k: u64) -> f64 {
    (1..k.min(MOST_FACTORS)).fold(rate, |power, _| {
        let product = power * rate;
        if libm::fma(power, rate, -product) > 0.0 { product.next_up() } else { product }
    })
}

/// β^k for more factors than this is below every δ that anybody asks for, unless β is nearly 1; fewer factors only add.
const MOST_FACTORS: u64 = 100_000;

/// The least ε there is at this rate: −ln(1 − β), the loss of seeing that a row is not there, when counts are shown.
pub fn least_epsilon(shown: Shown, rate: f64) -> f64 {
    match shown {
        Shown::Counts | Shown::CountsTight => -libm::log1p(-rate),
        Shown::Set => 0.0,
    }
}
