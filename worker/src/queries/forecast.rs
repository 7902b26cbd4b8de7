//! What a gate would let through, roughly, before there is a job: for the site's own eyes, and never sent.
//!
//! Two passes over the log in constant memory. The first counts with sketches: how many different texts ([`Distinct`]), and how often
//! each ([`CountMin`] with conservative update). The second goes through the rows again; each adds its share of its text, c/f for a
//! row of c of f occurrences, times the chance that Binomial(f, β) reaches k. Summed over the rows of a text that is the chance that
//! it survives, and over all rows the number of survivors to be expected. Count-mean-min is not used: of a log with many more texts
//! than the table has columns it misses most survivors, where this is off by a few in a hundred.
//!
//! The frequencies are estimates, so this is one, too. It is of records: where users are protected fewer texts survive, because one
//! user counts once for each text. Nothing of it decides what a gate lets through.

use std::collections::HashMap;

use undertone_privacy::SamplingRate;
use undertone_privacy::special::binomial_pmf;

use super::dataset::Row;
use super::sketch::{CountMin, Distinct, Key, Size, SketchError, Update};

/// A gate to be asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// β.
    pub sampling_rate: SamplingRate,
    /// k, at least 1.
    pub threshold: u32,
}

/// What a log would let through.
#[derive(Debug, Clone, PartialEq)]
pub struct Forecast {
    /// Occurrences in the log, exactly.
    pub occurrences: u64,
    /// Different texts, roughly, between these bounds but for one time in 370.
    pub distinct: (f64, f64),
    /// Texts to be expected, for each gate that was asked about, in that order.
    pub survivors: Vec<f64>,
}

/// Relative error of the number of different texts.
const DISTINCT_ERROR: f64 = 0.01;
/// Rows of the table.
const ROWS: u32 = 5;
/// Cells of a row: with their rows, 80 MiB.
const COLUMNS: u32 = 1 << 21;
/// Frequencies whose chances are remembered.
const REMEMBERED: usize = 1 << 16;

/// Goes through the log twice; `rows` begins it anew.
///
/// # Errors
/// Why the rows cannot be read, or the sketches not made.
pub fn forecast<R, E>(rows: impl Fn() -> R, asked: &[Asked]) -> Result<Forecast, E>
where
    R: Iterator<Item = Result<Row, E>>,
    E: From<SketchError>,
{
    sized(rows, asked, Size::new(ROWS, COLUMNS)?)
}

fn sized<R, E>(rows: impl Fn() -> R, asked: &[Asked], size: Size) -> Result<Forecast, E>
where
    R: Iterator<Item = Result<Row, E>>,
    E: From<SketchError>,
{
    let mut distinct = Distinct::for_error(DISTINCT_ERROR, Key::fresh())?;
    let mut frequencies = CountMin::new(size, Update::Conservative, Key::fresh());
    for row in rows() {
        let row = row?;
        distinct.add(&row.text);
        frequencies.add(&row.text, row.count);
    }
    let mut survivors = vec![0.0; asked.len()];
    let mut chances = HashMap::<u64, Vec<f64>>::new();
    for row in rows() {
        let row = row?;
        let copies = frequencies.at_most(&row.text);
        if chances.len() >= REMEMBERED {
            chances.clear();
        }
        let chances = chances.entry(copies).or_insert_with(|| asked.iter().map(|gate| gate.chance(copies)).collect());
        let share = row.count as f64 / copies as f64;
        for (sum, chance) in survivors.iter_mut().zip(&*chances) {
            *sum += share * chance;
        }
    }
    Ok(Forecast { occurrences: frequencies.total(), distinct: distinct.bounds(), survivors })
}

impl Asked {
    /// Pr[Binomial(`copies`, β) ≥ k].
    fn chance(&self, copies: u64) -> f64 {
        let (n, p, k) = (copies as f64, self.sampling_rate.get(), f64::from(self.threshold));
        let (mean, deviation) = (n * p, (n * p * (1.0 - p)).sqrt());
        if copies < u64::from(self.threshold) || k > mean + FAR * deviation + FAR {
            return 0.0;
        }
        if self.sampling_rate == SamplingRate::ONE || k < mean - FAR * deviation - FAR {
            return 1.0;
        }
        // From k away from the mean, where terms fall: upward, or downward for the rest.
        let first = if k > mean { k } else { k - 1.0 };
        let odds = p / (1.0 - p);
        let (mut term, mut at) = (binomial_pmf(n, first, p, 1.0 - p), first);
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

/// Deviations beyond which a chance is 0 or 1 to all digits.
const FAR: f64 = 12.0;

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may fail")]

    use undertone_privacy::SamplingRate;

    use super::{Asked, Size, SketchError, forecast, sized};
    use crate::queries::dataset::Row;

    fn gate(rate: f64, threshold: u32) -> Asked {
        Asked { sampling_rate: SamplingRate::new(rate).unwrap(), threshold }
    }

    /// The i-th of so many texts, most/i times, in rows of one to three occurrences.
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
    fn the_chance_to_survive_is_the_tail_of_a_binomial() {
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
            let found = gate(rate, threshold).chance(copies.into());
            assert!((found - tail).abs() <= 1e-9 * tail, "{copies} {rate} {threshold}: {found}, not {tail}");
        }
        for (gate, copies, certain) in
            [(gate(1.0, 7), 7, 1.0), (gate(0.5, 10), 1 << 40, 1.0), (gate(0.001, 1_000_000), 1_000_001, 0.0)]
        {
            assert!((gate.chance(copies) - certain).abs() < f64::EPSILON, "{gate:?}");
        }
    }

    #[test]
    fn a_forecast_is_near_what_exact_frequencies_say() {
        let asked = [gate(0.1, 5), gate(0.25, 10), gate(0.5, 20), gate(1.0, 1)];
        let (texts, most) = (3000, 30_000);
        let forecast = forecast(|| rows(texts, most), &asked).unwrap();
        let occurrences = (1..=texts).map(|text| most / text).sum::<u64>();
        assert_eq!(forecast.occurrences, occurrences);
        assert!(forecast.distinct.0 <= 3000.0 && 3000.0 <= forecast.distinct.1);
        for (gate, found) in asked.iter().zip(&forecast.survivors) {
            let exact: f64 = (1..=texts).map(|text| gate.chance(most / text)).sum();
            assert!((found / exact - 1.0).abs() < 0.01, "{gate:?}: {found}, not {exact}");
        }
    }

    #[test]
    fn with_twice_as_many_texts_as_columns_it_is_off_by_a_tenth() {
        let asked = [gate(0.25, 10)];
        let crowded = sized(|| rows(3000, 30_000), &asked, Size::new(5, 1500).unwrap()).unwrap();
        let exact: f64 = (1..=3000).map(|text| asked[0].chance(30_000 / text)).sum();
        assert!((crowded.survivors[0] / exact - 1.0).abs() < 0.15, "{:?}, not {exact}", crowded.survivors);
    }
}
