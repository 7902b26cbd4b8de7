//! Conversion of Rényi curves to (ε, δ). Always rounded up.
//!
//! Canonne, Kamath and Steinke 2020, Proposition 12 (also Asoodeh et al. 2020):
//! ε(δ) = min_α [ρ(α) + ln(1 − 1/α) − (ln δ + ln α)/(α−1)]. The side mass of a curve is taken from δ first.

use libm::{exp, expm1, log, log1p};

use crate::curve::Curve;
use crate::special::UNIT;
use crate::unit::{Delta, Epsilon, Order};

/// Returns the least ε of the curve at δ; `None` when no finite one exists (infinite loss, or a side mass that exhausts
/// δ).
pub fn epsilon(curve: &Curve, delta: Delta) -> Option<Epsilon> {
    let side = curve.side_delta().to_f64_up();
    if side > delta.get() {
        return None;
    }
    // A loss of zero at some order means that nothing is lost, at any δ.
    if curve.losses().any(|(_, loss)| loss.units() == 0) {
        return Epsilon::new(0.0).ok();
    }
    let delta = if side == 0.0 { delta.get() } else { (delta.get() - side).next_down() };
    if delta <= 0.0 {
        return None;
    }
    let least = curve
        .losses()
        .map(|(order, loss)| {
            let loss = loss.to_f64_up();
            // Bretagnolle and Huber: total variation is at most sqrt(1 − e^{−KL}), and KL is at most ρ(α).
            if delta * delta * (1.0 - 8.0 * UNIT) > -expm1(-loss) { 0.0 } else { epsilon_at(order, loss, log(delta)) }
        })
        .fold(f64::INFINITY, f64::min);
    Epsilon::new(least).ok()
}

/// Returns ε(δ) from a loss at one order, rounded up; infinite losses give infinity.
pub(crate) fn epsilon_at(order: Order, loss: f64, ln_delta: f64) -> f64 {
    let (overhead, magnitude) = overhead(order, ln_delta);
    round_up(loss + overhead, loss + magnitude)
}

/// Returns the summand that the conversion at an order adds to the loss: ln(1 − 1/α) − (ln δ + ln α)/(α−1), with the
/// sum of its magnitudes. Infinite at δ = 0.
pub(crate) fn overhead(order: Order, ln_delta: f64) -> (f64, f64) {
    let alpha = order.get();
    let first = log1p(-1.0 / alpha);
    let second = ln_delta / (alpha - 1.0);
    let third = log(alpha) / (alpha - 1.0);
    (first - second - third, first.abs() + second.abs() + third)
}

/// Returns a non-negative number not below the exact value of a sum whose terms' magnitudes add up to `magnitude`.
fn round_up(value: f64, magnitude: f64) -> f64 {
    (value + 6.0 * UNIT * magnitude).max(0.0)
}

/// Returns the least δ of the curve at ε, rounded up; `None` when there is no guarantee (δ would be 1).
pub fn delta(curve: &Curve, epsilon: Epsilon) -> Option<Delta> {
    let side = curve.side_delta().to_f64_up();
    let ln_main = ln_delta(curve, epsilon);
    let sum = if ln_main == f64::NEG_INFINITY {
        side
    } else {
        // One ulp covers the exponential, one the sum.
        let main = exp(ln_main) * (1.0 + 4.0 * UNIT);
        if side == 0.0 { main.next_up() } else { (main + side).next_up() }
    };
    Delta::new(sum).ok()
}

/// Returns ln of the δ at ε, without the side mass, rounded up: min_α [(α−1)(ρ(α) − ε + ln(1 − 1/α)) − ln α], at most
/// 0; −∞ when some loss is zero.
pub fn ln_delta(curve: &Curve, epsilon: Epsilon) -> f64 {
    let epsilon = epsilon.get();
    curve
        .losses()
        .map(|(order, loss)| {
            let alpha = order.get();
            let loss = loss.to_f64_up();
            if loss == 0.0 {
                return f64::NEG_INFINITY;
            }
            if loss.is_infinite() {
                return 0.0;
            }
            let shrink = log1p(-1.0 / alpha);
            let magnitude = (alpha - 1.0) * (loss + epsilon - shrink) + log(alpha);
            (alpha - 1.0) * (loss - epsilon + shrink) - log(alpha) + 6.0 * UNIT * magnitude
        })
        .fold(0.0, f64::min)
}
