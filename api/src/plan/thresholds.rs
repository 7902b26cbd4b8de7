//! The thresholds that keep a promise: for each ε and δ the least k at each sampling rate, by the published bound and
//! by the exact one. The page and the sites' command show this same table, so that a threshold can be chosen before
//! there is a plan.

use std::fmt::Write as _;

use serde::Serialize;
use undertone_privacy::kanon::{Feasible, KanonError, feasible};
use undertone_privacy::{Delta, Epsilon, UnitError};

/// The default values of ε.
pub const EPSILONS: [f64; 4] = [0.25, 0.5, 0.75, 1.0];
/// The default values of δ.
pub const DELTAS: [f64; 7] = [1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8, 1e-10];
/// The default sampling rates β.
pub const RATES: [f64; 8] = [0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6];

/// The most values of each kind in one table.
const MOST_VALUES: usize = 12;
/// The greatest ε of a table: beyond it every rate is possible, and the promise is meaningless.
const MOST_EPSILON: f64 = 10.0;
/// The least δ, and the greatest rate: nearer to 0 and to 1 a table takes minutes.
const LEAST_DELTA: f64 = 1e-15;
const MOST_RATE: f64 = 0.99;

/// The reason why a table cannot be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ThresholdsError {
    /// A word that is not a number.
    #[error("`{0}` is not a number: write numbers with commas between, such as 0.25, 0.5")]
    NotANumber(String),
    /// No value, or too many.
    #[error("name 1 to {MOST_VALUES} {what}, not {count}")]
    Count {
        /// The kind of value.
        what: &'static str,
        /// The number of values.
        count: usize,
    },
    /// A value out of the table's range.
    #[error("{what} are {range}, not {value}")]
    Range {
        /// The kind of value.
        what: &'static str,
        /// The range, in words.
        range: &'static str,
        /// The value.
        value: f64,
    },
    /// A value that its type rejects.
    #[error(transparent)]
    Unit(#[from] UnitError),
    /// A threshold that cannot be found.
    #[error(transparent)]
    Kanon(#[from] KanonError),
}

/// The numbers of a table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ThresholdRequest {
    /// ε, as rows.
    pub epsilons: Vec<f64>,
    /// δ, as rows within each ε.
    pub deltas: Vec<f64>,
    /// β, as columns, ascending.
    pub rates: Vec<f64>,
}

impl Default for ThresholdRequest {
    fn default() -> Self {
        Self { epsilons: EPSILONS.to_vec(), deltas: DELTAS.to_vec(), rates: RATES.to_vec() }
    }
}

/// The feasible thresholds at one ε and δ.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ThresholdRow {
    /// ε of one row added or removed.
    pub epsilon: f64,
    /// δ.
    pub delta: f64,
    /// The least thresholds, by rate; rates above 1 − e^(−ε) promise nothing at this ε and are left out.
    pub feasible: Vec<Feasible>,
}

impl ThresholdRow {
    /// Returns the thresholds at a rate.
    pub fn find_rate(&self, rate: f64) -> Option<Feasible> {
        self.feasible.iter().find(|one| one.rate.total_cmp(&rate).is_eq()).copied()
    }
}

impl ThresholdRequest {
    /// Parses three lists of numbers, separated by commas; an empty list means the default.
    ///
    /// # Errors
    /// [`ThresholdsError`] for a word that is not a number, or is out of the table's range.
    pub fn parse(epsilons: &str, deltas: &str, rates: &str) -> Result<Self, ThresholdsError> {
        let usual = Self::default();
        let request = Self {
            epsilons: numbers(epsilons)?.unwrap_or(usual.epsilons),
            deltas: numbers(deltas)?.unwrap_or(usual.deltas),
            rates: numbers(rates)?.unwrap_or(usual.rates),
        };
        let within = |what, range, values: &[f64], fits: &dyn Fn(f64) -> bool| {
            if values.is_empty() || values.len() > MOST_VALUES {
                return Err(ThresholdsError::Count { what, count: values.len() });
            }
            match values.iter().find(|value| !fits(**value)) {
                Some(value) => Err(ThresholdsError::Range { what, range, value: *value }),
                None => Ok(()),
            }
        };
        within("epsilons", "above 0 and at most 10", &request.epsilons, &|value| value > 0.0 && value <= MOST_EPSILON)?;
        within("deltas", "at least 1e-15 and below 1", &request.deltas, &|value| (LEAST_DELTA..1.0).contains(&value))?;
        within("rates", "above 0 and at most 0.99", &request.rates, &|value| value > 0.0 && value <= MOST_RATE)?;
        Ok(request)
    }

    /// Computes the table, ε by ε and δ by δ.
    ///
    /// # Errors
    /// [`ThresholdsError`] if its type rejects a number, or no threshold keeps a promise.
    pub fn lines(&self) -> Result<Vec<ThresholdRow>, ThresholdsError> {
        let pairs = self.epsilons.iter().flat_map(|epsilon| self.deltas.iter().map(move |delta| (*epsilon, *delta)));
        pairs
            .map(|(epsilon, delta)| {
                let feasible = feasible(Epsilon::new(epsilon)?, Delta::new(delta)?, &self.rates)?;
                Ok(ThresholdRow { epsilon, delta, feasible })
            })
            .collect()
    }
}

/// Writes the table as CSV (RFC 4180), one line for each rate with its thresholds.
pub fn csv(lines: &[ThresholdRow]) -> String {
    let mut text = "epsilon,delta,sampling_rate,threshold_published,threshold_exact\r\n".to_owned();
    for ThresholdRow { epsilon, delta, feasible } in lines {
        for Feasible { rate, threshold, threshold_tight } in feasible {
            // Writing to a string cannot fail.
            let _ = write!(text, "{epsilon},{delta:e},{rate},{threshold},{threshold_tight}\r\n");
        }
    }
    text
}

/// Parses numbers separated by commas, semicolons or blanks, in their order; `None` for an empty text.
fn numbers(text: &str) -> Result<Option<Vec<f64>>, ThresholdsError> {
    let words = text.split([',', ' ', ';']).filter(|word| !word.is_empty());
    let values: Vec<f64> = words
        .map(|word| word.parse().map_err(|_| ThresholdsError::NotANumber(word.to_owned())))
        .collect::<Result<_, _>>()?;
    Ok(Some(values).filter(|values| !values.is_empty()))
}

#[cfg(test)]
mod tests;
