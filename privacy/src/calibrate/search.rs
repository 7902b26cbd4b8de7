//! The search for the least noise over several orders, with few evaluations: each may be a quadrature.

/// One order, and the greatest loss of one release there.
#[derive(Debug, Clone, Copy)]
pub(super) struct OrderLimit {
    pub(super) order: f64,
    pub(super) loss: f64,
}

/// Relative distance of the result from the least noise.
pub(super) const TOLERANCE: f64 = 2e-10;

/// Returns the least z at which some order keeps its limit, and the index of that order; `None` without orders.
/// `loss(z, order)` falls with z, is at most that of the plain Gaussian, and (order − 1) · loss is convex in the order.
pub(super) fn least_noise(limits: &[OrderLimit], loss: impl Fn(f64, f64) -> f64) -> Option<(f64, usize)> {
    // Without sampling the answer is closed: z² = α / (2 limit). Sampling only lowers it.
    let closed = |limit: &OrderLimit| (limit.order / limit.loss / 2.0).sqrt();
    // Replacing a unit doubles the sensitivity, which is four times the closed loss: start where that fits as well.
    let (mut winner, start) = limits.iter().map(closed).enumerate().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let start = 2.0 * start;
    let ratio = |z: f64, index: usize| loss(z, limits[index].order) / limits[index].loss;
    let promising = |z: f64| lowest(limits.len(), |index| ratio(z, index));
    let first = promising(start);
    if ratio(start, first) < ratio(start, winner) {
        winner = first;
    }
    let mut best = least(start, |z| ratio(z, winner));
    // The order with the least ratio changes with z: follow it down.
    loop {
        let next = promising(best);
        if next == winner || ratio(best, next) > 1.0 {
            break;
        }
        best = least(best, |z| ratio(z, next));
        winner = next;
    }
    // An order that does not fit at some z does not fit below it, so each order is examined once.
    let mut examined = vec![false; limits.len()];
    loop {
        examined[winner] = true;
        let z = best * (1.0 - TOLERANCE);
        let height = |index: usize| (limits[index].order - 1.0) * loss(z, limits[index].order);
        // Chords through the winner and its neighbours lie below a convex function everywhere else.
        let here = (limits[winner].order, height(winner));
        let neighbours = [winner.checked_sub(1), Some(winner + 1).filter(|&above| above < limits.len())];
        let chords: Vec<(f64, f64, f64)> = neighbours
            .into_iter()
            .flatten()
            .map(|index| (limits[index].order, (height(index) - here.1) / (limits[index].order - here.0)))
            .map(|(order, slope)| (order.min(here.0), order.max(here.0), slope))
            .collect();
        let mut better: Option<(f64, usize)> = None;
        for (index, limit) in limits.iter().enumerate() {
            let above = |&(low, high, slope): &(f64, f64, f64)| {
                let outside = limit.order < low || limit.order > high;
                outside && here.1 + slope * (limit.order - here.0) > (limit.order - 1.0) * limit.loss * (1.0 + 1e-9)
            };
            if examined[index] || chords.iter().any(above) {
                continue;
            }
            let ratio = ratio(z, index);
            examined[index] = ratio > 1.0;
            if ratio <= better.map_or(1.0, |(least, _)| least) {
                better = Some((ratio, index));
            }
        }
        if let Some((_, index)) = better {
            best = least(best, |z| ratio(z, index));
            winner = index;
            continue;
        }
        return Some((best, winner));
    }
}

/// Returns the index of the least value of a sequence that falls and then rises (of some low value, if it does not).
fn lowest(length: usize, value: impl Fn(usize) -> f64) -> usize {
    let (mut low, mut high) = (0, length - 1);
    while low < high {
        let middle = usize::midpoint(low, high);
        if value(middle) <= value(middle + 1) { high = middle } else { low = middle + 1 }
    }
    low
}

/// Returns the least z (within the tolerance) at which `ratio`, which falls with z, is at most 1, given a z at which it
/// is.
///
/// A secant in logarithms, where the ratio is nearly straight, inside a bracket. Each guess is moved a quarter of the
/// tolerance past the end that moved last, so that both ends close in; a bracket that does not halve is halved.
fn least(fitting: f64, ratio: impl Fn(f64) -> f64) -> f64 {
    let ln_ratio = |z: f64| libm::log(ratio(z));
    let mut high = fitting;
    let mut at_high = ln_ratio(fitting);
    let (mut low, mut at_low) = (high, at_high);
    while at_low <= 0.0 && low > LEAST_NOISE {
        (high, at_high) = (low, at_low);
        low *= 0.5;
        at_low = ln_ratio(low);
    }
    let mut past = 1.0 + 0.25 * TOLERANCE;
    let mut halve = false;
    while high - low > TOLERANCE * high {
        let width = high - low;
        let slope = at_low / (at_low - at_high);
        let middle = if halve || !slope.is_finite() {
            0.5 * (low + high)
        } else {
            // ln z at the root of the line through both ends.
            let guess = low * libm::pow(high / low, slope) * past;
            if guess > low && guess < high { guess } else { 0.5 * (low + high) }
        };
        let at_middle = ln_ratio(middle);
        if at_middle <= 0.0 {
            (high, at_high) = (middle, at_middle);
            past = 1.0 - 0.25 * TOLERANCE;
        } else {
            (low, at_low) = (middle, at_middle);
            past = 1.0 + 0.25 * TOLERANCE;
        }
        halve = high - low > 0.5 * width;
    }
    high
}

/// No search goes below this noise.
const LEAST_NOISE: f64 = 1e-6;
