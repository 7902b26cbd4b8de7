//! An estimate of a gate's survivors before a job exists: for the site only, and never sent.
//!
//! Two passes over the log in constant memory. The first counts with sketches: the number of different texts
//! ([`DistinctCounter`]), and the frequency of each ([`CountMin`] with conservative update). The second reads the rows again.
//! A row of c of its text's f occurrences adds c/f times the probability that Binomial(f, β) reaches k. The sum over
//! the rows of a text is the probability that the text survives, and the sum over all rows is the expected number of
//! survivors. Count-mean-min is not used: for a log with many more texts than the table has columns it misses most
//! survivors, while the error of this method is a few percent.
//!
//! The frequencies are estimates, and so is the result. It is for records: fewer texts survive for protected users,
//! because a user counts once for each text. No gate uses it.

use std::collections::HashMap;

use undertone_privacy::SamplingRate;
use undertone_privacy::special::binomial_pmf;

use super::dataset::Row;
use super::sketch::{CountMin, DistinctCounter, SketchError, SketchKey, TableSize, UpdateRule};

/// A gate to estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForecastGate {
    /// β.
    pub sampling_rate: SamplingRate,
    /// k, at least 1.
    pub threshold: u32,
}

/// The estimate for a log.
#[derive(Debug, Clone, PartialEq)]
pub struct LogForecast {
    /// Occurrences in the log, exactly.
    pub occurrences: u64,
    /// Bounds of the number of different texts; they fail one time in 370.
    pub distinct: (f64, f64),
    /// Expected surviving texts of each gate, in the order of the gates.
    pub survivors: Vec<f64>,
}

/// Relative error of the number of different texts.
const DISTINCT_ERROR: f64 = 0.01;
/// Rows of the table.
const ROWS: u32 = 5;
/// Cells of a row: with their rows, 80 MiB.
const COLUMNS: u32 = 1 << 21;
/// Frequencies whose probabilities are cached.
const REMEMBERED: usize = 1 << 16;

/// Reads the log twice; `rows` restarts it.
///
/// # Errors
/// The error of reading the rows or of making the sketches.
pub fn forecast<R, E>(rows: impl Fn() -> R, gates: &[ForecastGate]) -> Result<LogForecast, E>
where
    R: Iterator<Item = Result<Row, E>>,
    E: From<SketchError>,
{
    forecast_with_size(rows, gates, TableSize::new(ROWS, COLUMNS)?)
}

fn forecast_with_size<R, E>(rows: impl Fn() -> R, gates: &[ForecastGate], size: TableSize) -> Result<LogForecast, E>
where
    R: Iterator<Item = Result<Row, E>>,
    E: From<SketchError>,
{
    let mut distinct = DistinctCounter::for_error(DISTINCT_ERROR, SketchKey::fresh())?;
    let mut frequencies = CountMin::new(size, UpdateRule::Conservative, SketchKey::fresh());
    for row in rows() {
        let row = row?;
        distinct.add(&row.text);
        frequencies.add(&row.text, row.count);
    }
    let mut survivors = vec![0.0; gates.len()];
    let mut chances = HashMap::<u64, Vec<f64>>::new();
    for row in rows() {
        let row = row?;
        let copies = frequencies.at_most(&row.text);
        if chances.len() >= REMEMBERED {
            chances.clear();
        }
        let chances = chances
            .entry(copies)
            .or_insert_with(|| gates.iter().map(|gate| gate.survival_probability(copies)).collect());
        let share = row.count as f64 / copies as f64;
        for (sum, survival_probability) in survivors.iter_mut().zip(&*chances) {
            *sum += share * survival_probability;
        }
    }
    Ok(LogForecast { occurrences: frequencies.total(), distinct: distinct.bounds(), survivors })
}

impl ForecastGate {
    /// Returns Pr[Binomial(`copies`, β) ≥ k].
    fn survival_probability(&self, copies: u64) -> f64 {
        let n = copies as f64;
        let p = self.sampling_rate.get();
        let k = f64::from(self.threshold);
        let mean = n * p;
        let deviation = (n * p * (1.0 - p)).sqrt();
        if copies < u64::from(self.threshold) || k > mean + FAR * deviation + FAR {
            return 0.0;
        }
        if self.sampling_rate == SamplingRate::ONE || k < mean - FAR * deviation - FAR {
            return 1.0;
        }
        // The sum starts at k and moves away from the mean, where terms fall: upward, or downward for the complement.
        let first = if k > mean { k } else { k - 1.0 };
        let odds = p / (1.0 - p);
        let mut term = binomial_pmf(n, first, p, 1.0 - p);
        let mut at = first;
        let mut sum = 0.0;
        while term > sum * 1e-12 {
            sum += term;
            if k > mean {
                term *= (n - at) / (at + 1.0) * odds;
                at += 1.0;
            } else {
                term *= at / ((n - at + 1.0) * odds);
                at -= 1.0;
            }
        }
        if k > mean { sum } else { 1.0 - sum }
    }
}

/// Standard deviations beyond which a probability is 0 or 1 to all digits.
const FAR: f64 = 12.0;

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may fail")]

    use undertone_privacy::SamplingRate;

    use super::{ForecastGate, SketchError, TableSize, forecast, forecast_with_size};
    use crate::dataset::Row;

    fn gate(rate: f64, threshold: u32) -> ForecastGate {
        ForecastGate { sampling_rate: SamplingRate::new(rate).unwrap(), threshold }
    }

    /// Iterates over the rows of `texts` texts, the i-th with most/i occurrences, in rows of one to three occurrences.
    fn rows(texts: u64, most: u64) -> impl Iterator<Item = Result<Row, SketchError>> {
        (1..=texts).flat_map(move |text| {
            let copies = most / text;
            (0..copies.div_ceil(3)).map(move |row| {
                let count = (copies - row * 3).min(3);
                Ok(Row { text: format!("query {text}"), user: None, count, label: None })
            })
        })
    }

    #[test]
    fn survival_probability_is_a_binomial_tail() {
        let choose = |n: u32, k: u32| (0..k).fold(1.0, |ways, i| ways * f64::from(n - i) / f64::from(i + 1));
        for (copies, rate, threshold) in [(5, 0.25, 3), (20, 0.5, 5), (20, 0.5, 15), (3, 0.75, 4), (40, 0.1, 1)] {
            let rate_drawn = SamplingRate::new(rate).unwrap().get();
            let tail: f64 = (threshold..=copies)
                .map(|kept| {
                    choose(copies, kept)
                        * rate_drawn.powi(kept as i32)
                        * (1.0 - rate_drawn).powi((copies - kept) as i32)
                })
                .sum();
            let estimate = gate(rate, threshold).survival_probability(copies.into());
            assert!((estimate - tail).abs() <= 1e-9 * tail, "{copies} {rate} {threshold}: {estimate}, not {tail}");
        }
        for (gate, copies, certain) in
            [(gate(1.0, 7), 7, 1.0), (gate(0.5, 10), 1 << 40, 1.0), (gate(0.001, 1_000_000), 1_000_001, 0.0)]
        {
            assert!((gate.survival_probability(copies) - certain).abs() < f64::EPSILON, "{gate:?}");
        }
    }

    #[test]
    fn forecast_is_close_to_exact_frequencies() {
        let gates = [gate(0.1, 5), gate(0.25, 10), gate(0.5, 20), gate(1.0, 1)];
        let (texts, most) = (3000, 30_000);
        let forecast = forecast(|| rows(texts, most), &gates).unwrap();
        let occurrences = (1..=texts).map(|text| most / text).sum::<u64>();
        assert_eq!(forecast.occurrences, occurrences);
        assert!(forecast.distinct.0 <= 3000.0 && 3000.0 <= forecast.distinct.1);
        for (gate, estimate) in gates.iter().zip(&forecast.survivors) {
            let exact: f64 = (1..=texts).map(|text| gate.survival_probability(most / text)).sum();
            assert!((estimate / exact - 1.0).abs() < 0.01, "{gate:?}: {estimate}, not {exact}");
        }
    }

    #[test]
    fn crowded_forecast_is_within_a_tenth() {
        let gates = [gate(0.25, 10)];
        let crowded = forecast_with_size(|| rows(3000, 30_000), &gates, TableSize::new(5, 1500).unwrap()).unwrap();
        let exact: f64 = (1..=3000).map(|text| gates[0].survival_probability(30_000 / text)).sum();
        assert!((crowded.survivors[0] / exact - 1.0).abs() < 0.15, "{:?}, not {exact}", crowded.survivors);
    }
}
