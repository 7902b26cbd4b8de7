//! Survival curves from noisy life tables.
//!
//! With d events and n rows at risk in each interval, survival after interval i is S = Π (1 − dⱼ/nⱼ) over j ≤ i (Kaplan
//! and Meier 1958, section 2). A row is in one of 2K + 1 counts, each with noise of deviation τ; n is the sum of the
//! counts of times not before its interval. With g = d/(n(n − d)) and G = Σ g over the intervals up to one, first order
//! gives the variance of S from the noise:
//!
//! S²τ²·(Σₖ≤ᵢ ((Gₖ₋₁ − 1/nₖ)² + Gₖ²) + (2(K − 1 − i) + 1)·Gᵢ²),
//!
//! where the first term of the sum is that of the events of interval k, the second that of its censored times, and the
//! rest those of later times. The variance from sampling is S²G (Greenwood 1926).
//!
//! Noise can raise a product; the curve is the nearest one that does not rise, in least squares, within [0, 1].

use super::{CellSums, LEAST_DEVIATIONS, NumberEstimate};
use crate::job::evaluation::NORMAL_95;

/// Noisy counts of one cell.
pub(in crate::job::analytics) struct LifeTable {
    /// d of each interval.
    events: Vec<f64>,
    /// n of each interval.
    at_risk: Vec<f64>,
    /// τ.
    noise: f64,
}

/// The survival after one interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::job::analytics) struct SurvivalPoint {
    pub(in crate::job::analytics) value: f64,
    /// The value before it was fitted to a curve that does not rise.
    raw: f64,
    /// The deviation from noise.
    pub(in crate::job::analytics) noise: f64,
    /// √(S²G).
    sampling: f64,
}

impl LifeTable {
    /// Returns the table of counts: events and censored times of each interval, and times beyond the last.
    pub(in crate::job::analytics) fn new(counts: &[f64], noise: f64) -> Self {
        let intervals = counts.len().saturating_sub(1) / 2;
        let mut at_risk = vec![0.0; intervals];
        let mut later = counts.last().copied().unwrap_or_default();
        for interval in (0..intervals).rev() {
            later += counts[interval] + counts[intervals + interval];
            at_risk[interval] = later;
        }
        Self { events: counts.iter().take(intervals).copied().collect(), at_risk, noise }
    }

    /// Returns the survival after each interval, up to the first in which the noise hides the rows at risk.
    pub(in crate::job::analytics) fn estimate(&self) -> Vec<SurvivalPoint> {
        let intervals = self.events.len();
        let mut points: Vec<SurvivalPoint> = Vec::new();
        let (mut survival, mut scale, mut hazard, mut earlier) = (1.0, 1.0, 0.0_f64, 0.0);
        for (interval, (events, at_risk)) in self.events.iter().zip(&self.at_risk).enumerate() {
            let later = (2 * (intervals - interval) - 1) as f64;
            let least = LEAST_DEVIATIONS * self.noise * (later + 2.0).sqrt();
            if *at_risk < least.max(1.0) {
                break;
            }
            // The derivatives are those of at least one row that is left, and of no fewer than zero events.
            let left = (at_risk - events).clamp(1.0, *at_risk);
            survival *= (1.0 - events / at_risk).max(0.0);
            scale *= left / at_risk;
            earlier += (hazard - 1.0 / at_risk).powi(2);
            hazard += (at_risk - left) / (at_risk * left);
            earlier += hazard * hazard;
            let noise = scale * self.noise * (earlier + later * hazard * hazard).sqrt();
            let sampling = scale * hazard.sqrt();
            points.push(SurvivalPoint { value: survival, raw: survival, noise, sampling });
        }
        fit_descending(&mut points);
        points
    }
}

/// Replaces the values by the nearest ones that do not rise (pool adjacent violators; Barlow et al. 1972), in [0, 1].
fn fit_descending(points: &mut [SurvivalPoint]) {
    let mut pools: Vec<(f64, usize)> = Vec::new();
    for point in points.iter() {
        let (mut sum, mut count) = (point.raw, 1);
        while let Some((last, size)) = pools.last().copied()
            && last / size as f64 <= sum / count as f64
        {
            pools.pop();
            sum += last;
            count += size;
        }
        pools.push((sum, count));
    }
    let values = pools.iter().flat_map(|(sum, count)| std::iter::repeat_n(sum / *count as f64, *count));
    for (point, value) in points.iter_mut().zip(values) {
        point.value = value.clamp(0.0, 1.0);
    }
}

impl CellSums<'_> {
    /// Returns the survival after each interval, labelled by the edge that ends it.
    pub(super) fn survival(&self, edges: &[f64]) -> Vec<NumberEstimate> {
        let Some((_, sums, noise)) = self.blocks.first() else { return Vec::new() };
        let points = LifeTable::new(sums, *noise).estimate();
        let mut most = 1.0;
        let number = |(interval, edge): (usize, &f64)| {
            let label = edge.to_string();
            let Some(point) = points.get(interval) else { return NumberEstimate::hidden(&label, (0.0, most)) };
            let half = NORMAL_95 * point.noise;
            let high = (point.raw + half).clamp(point.value, 1.0);
            most = f64::min(most, high);
            NumberEstimate {
                label,
                value: Some(point.value),
                low: (point.raw - half).clamp(0.0, point.value),
                high,
                noise: point.noise,
                sampling: Some(point.sampling * self.rows.sqrt()),
            }
        };
        edges.iter().skip(1).enumerate().map(number).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::LifeTable;

    /// The remission times under 6-mercaptopurine of Freireich et al. 1963 (Kalbfleisch and Prentice 2002, page 2):
    /// events at 6, 6, 6, 7, 10, 13, 16, 22, 23 weeks; censored at 6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35.
    #[test]
    fn curve_without_noise_is_that_of_kaplan_and_meier() {
        let mut events = vec![0.0; 35];
        let mut censored = vec![0.0; 35];
        for week in [6, 6, 6, 7, 10, 13, 16, 22, 23] {
            events[week - 1] += 1.0;
        }
        for week in [6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35] {
            censored[week - 1] += 1.0;
        }
        let counts: Vec<f64> = events.into_iter().chain(censored).chain([0.0]).collect();
        let points = LifeTable::new(&counts, 0.0).estimate();
        // Survival and the deviation of Greenwood, as published.
        for (week, survival, deviation) in
            [(6, 0.857, 0.0764), (7, 0.807, 0.0869), (13, 0.690, 0.107), (16, 0.627, 0.114), (23, 0.448, 0.135)]
        {
            let point = points[week - 1];
            assert!((point.value - survival).abs() < 6e-4, "{week}: {point:?}");
            assert!((point.sampling - deviation).abs() < 6e-4, "{week}: {point:?}");
        }
        assert_eq!(points.len(), 35);
    }

    /// The variance from noise is that of the derivatives, taken numerically.
    #[test]
    fn noise_of_the_curve_is_the_norm_of_its_gradient() {
        let counts = [40.0, 25.0, 30.0, 12.0, 20.0, 5.0, 300.0];
        let points = LifeTable::new(&counts, 0.5).estimate();
        for (interval, point) in points.iter().enumerate() {
            let slope = |place: usize| {
                let moved = |by: f64| {
                    let mut counts = counts;
                    counts[place] += by;
                    LifeTable::new(&counts, 0.5).estimate()[interval].value
                };
                (moved(1e-3) - moved(-1e-3)) / 2e-3
            };
            let norm = (0..counts.len()).map(|place| slope(place).powi(2)).sum::<f64>().sqrt();
            assert!((point.noise - 0.5 * norm).abs() < 1e-6 * norm, "{interval}: {} {}", point.noise, 0.5 * norm);
        }
    }

    #[test]
    fn curve_of_noise_does_not_rise() {
        let counts = [-3.0, 50.0, -20.0, 7.0, 9.0, -30.0, 200.0];
        let points = LifeTable::new(&counts, 2.0).estimate();
        assert_eq!(points.len(), 3);
        assert!(points[0].raw > 1.0 && points[2].raw > points[1].raw, "{points:?}");
        assert!(
            (points[0].value - 1.0).abs() < 1e-12 && (points[1].value - points[2].value).abs() < 1e-12,
            "{points:?}"
        );
        assert_eq!(LifeTable::new(&[1.0, 2.0, 3.0], 2.0).estimate(), []);
    }
}
