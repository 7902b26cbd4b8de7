//! Searches: the least threshold for a guarantee, and the table of thresholds by rate.

use serde::Serialize;

use super::{KanonError, Shown, delta, least_epsilon};
use crate::unit::{Delta, Epsilon};

/// The greatest threshold of the search.
const GREATEST_THRESHOLD: u64 = 1 << 32;

/// Returns the least k that keeps (ε, δ) at this rate. δ falls with k, so doubling and bisection find it.
///
/// # Errors
/// As [`delta`], and [`KanonError::Unreachable`] when no threshold below 2³² is sufficient (at δ = 0, none is).
pub fn least_threshold(shown: Shown, epsilon: Epsilon, target: Delta, rate: f64) -> Result<u64, KanonError> {
    let keeps = |k: u64| keeps(shown, k, rate, epsilon, target);
    let mut high = 1;
    while !keeps(high)? {
        if high >= GREATEST_THRESHOLD {
            return Err(unreachable("threshold", epsilon, target));
        }
        high *= 2;
    }
    let mut low = high / 2;
    // `low` does not keep it (or is 0), `high` does.
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if keeps(middle)? { high = middle } else { low = middle }
    }
    Ok(high)
}

/// One row of the table of feasible parameters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Feasible {
    /// β.
    pub rate: f64,
    /// The least k by the published bound.
    pub threshold: u64,
    /// The least k by the exact divergence.
    pub threshold_tight: u64,
}

/// Returns the least thresholds for (ε, δ) at each of these rates; rates too large for ε are left out.
///
/// # Errors
/// [`KanonError::Rate`] for a rate outside (0, 1), [`KanonError::Unreachable`] when no threshold is sufficient.
pub fn feasible(epsilon: Epsilon, target: Delta, rates: &[f64]) -> Result<Vec<Feasible>, KanonError> {
    let fits = |rate: &&f64| !(**rate > 0.0 && **rate < 1.0 && epsilon.get() < least_epsilon(Shown::Counts, **rate));
    let row = |&rate: &f64| {
        Ok(Feasible {
            rate,
            threshold: least_threshold(Shown::Counts, epsilon, target, rate)?,
            threshold_tight: least_threshold(Shown::CountsTight, epsilon, target, rate)?,
        })
    };
    rates.iter().filter(fits).map(row).collect()
}

fn keeps(shown: Shown, k: u64, rate: f64, epsilon: Epsilon, target: Delta) -> Result<bool, KanonError> {
    Ok(delta(shown, k, rate, epsilon.get())? <= target)
}

fn unreachable(what: &'static str, epsilon: Epsilon, target: Delta) -> KanonError {
    KanonError::Unreachable { what, epsilon: epsilon.get(), delta: target.get() }
}
