//! Scales: the position of a number, and the numbers with ticks.

/// A linear scale from numbers to positions.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LinearScale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    /// The numbers with a tick, in order.
    pub(crate) ticks: Vec<f64>,
}

impl LinearScale {
    /// Makes a scale that covers `low..high`, widened to round numbers, with about `wanted` ticks; it maps onto
    /// `from..to`.
    pub(crate) fn new(low: f64, high: f64, wanted: usize, from: f64, to: f64) -> Self {
        let high = if high > low { high } else { low + 1.0 };
        let step = choose_step((high - low) / wanted.max(1) as f64);
        let (first, last) = ((low / step + 1e-9).floor() as i64, (high / step - 1e-9).ceil() as i64);
        let ticks: Vec<f64> = (first..=last).map(|index| index as f64 * step).collect();
        Self { low: first as f64 * step, high: last as f64 * step, from, to, ticks }
    }

    /// Makes a scale from 0 to exactly `high`, with about `wanted` ticks at round numbers.
    pub(crate) fn up_to(high: f64, wanted: usize, from: f64, to: f64) -> Self {
        let step = choose_step(high / wanted.max(1) as f64);
        let last = (high / step + 1e-9).floor() as i64;
        Self { low: 0.0, high, from, to, ticks: (0..=last).map(|index| index as f64 * step).collect() }
    }

    /// Returns the position of `value`.
    pub(crate) fn position(&self, value: f64) -> f64 {
        let part = (value - self.low) / (self.high - self.low);
        ((self.from + part * (self.to - self.from)) * 100.0).round() / 100.0
    }

    /// Returns the value at position `place`.
    pub(super) fn value(&self, place: f64) -> f64 {
        self.low + (place - self.from) / (self.to - self.from) * (self.high - self.low)
    }
}

/// Returns the least of 1, 2, 5 times a power of ten that is not below `rough`.
fn choose_step(rough: f64) -> f64 {
    let power = 10_f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= rough * 0.999_999)
        .unwrap_or(10.0 * power)
}

/// Moves positions apart until neighbours are at least `gap` from each other, inside `low..high` if there is room; the
/// order is kept.
pub(crate) fn spread(places: &[f64], gap: f64, low: f64, high: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by(|a, b| places[*a].total_cmp(&places[*b]));
    let mut moved = places.to_vec();
    let mut least = low;
    for &index in &order {
        moved[index] = moved[index].max(least);
        least = moved[index] + gap;
    }
    let mut most = high;
    for &index in order.iter().rev() {
        moved[index] = moved[index].min(most);
        most = moved[index] - gap;
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::{LinearScale, spread};

    #[test]
    fn round_axis_ends_at_the_last_round() {
        let scale = LinearScale::up_to(12.0, 5, 0.0, 120.0);
        assert_eq!((scale.position(0.0), scale.position(12.0)), (0.0, 120.0));
        assert_eq!(scale.ticks, [0.0, 5.0, 10.0]);
    }

    #[test]
    fn ticks_are_round_and_cover_the_data() {
        let scale = LinearScale::new(0.0, 0.437, 4, 200.0, 0.0);
        assert_eq!(scale.ticks.len(), 4);
        assert!((scale.ticks[3] - 0.6).abs() < 1e-12, "{:?}", scale.ticks);
        assert!((scale.position(0.0) - 200.0).abs() < 1e-9);
        assert!(scale.position(0.437) > 0.0);
    }

    #[test]
    fn scale_and_inverse_agree() {
        let scale = LinearScale::new(0.0, 44.0, 5, 52.0, 380.0);
        for value in [0.0, 1.0, 17.0, 44.0] {
            assert!((scale.value(scale.position(value)) - value).abs() < 0.01, "{value}");
        }
    }

    #[test]
    fn single_value_has_a_scale() {
        let scale = LinearScale::new(3.0, 3.0, 4, 0.0, 100.0);
        assert!(scale.position(3.0).is_finite());
        assert!(scale.ticks.len() > 1);
    }

    #[test]
    fn spread_labels_keep_their_order() {
        let moved = spread(&[100.0, 101.0, 99.0], 15.0, 0.0, 200.0);
        assert!(moved[2] + 15.0 <= moved[0] + 1e-9, "{moved:?}");
        assert!(moved[0] + 15.0 <= moved[1] + 1e-9, "{moved:?}");
    }

    #[test]
    fn spread_labels_stay_inside_the_plot() {
        let moved = spread(&[198.0, 199.0], 15.0, 0.0, 200.0);
        assert_eq!(moved, vec![185.0, 200.0]);
    }
}
