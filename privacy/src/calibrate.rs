//! The least noise, or the most steps, that fit: for single Gaussian releases, and for what an account still admits.
//!
//! The planner calls this in the browser on every move of a slider, so it is fast (well below a millisecond or so per
//! answer) and asks the same questions that the ledger will ask: an answer given here for an account's headroom is
//! admitted by that account.

use crate::adjacency::Adjacency;
use crate::event::Event;
use crate::gaussian::{self, GaussianProfile};
use crate::ledger::Headroom;
use crate::mechanism::{self, PriceError};
use crate::unit::{Delta, Epsilon, NoiseMultiplier, Order, SamplingRate};

/// Why there is no such noise or number of steps.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CalibrateError {
    /// The classic formula is proven for small ε only.
    #[error("the classic calibration is valid for 0 < epsilon <= 1, not {epsilon}: use the analytic one")]
    ClassicNeedsSmallEpsilon {
        /// The ε asked for.
        epsilon: f64,
    },
    /// No Gaussian noise gives a pure guarantee.
    #[error("delta must be greater than 0: no Gaussian noise gives a pure guarantee")]
    NoDelta,
    /// The sensitivity is not a number to scale noise by.
    #[error("l2_sensitivity must be a finite number of at least 0, not {0}")]
    Sensitivity(f64),
    /// Nothing is left, or nothing that any noise could fit into.
    #[error("no noise is enough: nothing is left of the budget at any order")]
    NothingLeft,
    /// The event cannot be priced.
    #[error(transparent)]
    Price(#[from] PriceError),
}

/// σ of the classic calibration, Δ √(2 ln(1.25/δ)) / ε, rounded up (Dwork and Roth 2014, Theorem A.1).
///
/// # Errors
/// [`CalibrateError::ClassicNeedsSmallEpsilon`] unless 0 < ε ≤ 1: above, the formula gives less noise than the guarantee
/// needs. [`CalibrateError::NoDelta`] for δ = 0.
pub fn classic_gaussian(epsilon: Epsilon, delta: Delta, l2_sensitivity: f64) -> Result<f64, CalibrateError> {
    if !(epsilon.get() > 0.0 && epsilon.get() <= 1.0) {
        return Err(CalibrateError::ClassicNeedsSmallEpsilon { epsilon: epsilon.get() });
    }
    check(delta, l2_sensitivity)?;
    Ok(gaussian::classic_sigma(epsilon.get(), delta.get(), l2_sensitivity))
}

/// The least σ whose Gaussian release of L2 sensitivity Δ is (ε, δ)-DP, rounded up (Balle and Wang 2018). 0 for Δ = 0.
///
/// # Errors
/// [`CalibrateError::NoDelta`] for δ = 0, [`CalibrateError::Sensitivity`] unless Δ is finite and not negative.
pub fn analytic_gaussian(epsilon: Epsilon, delta: Delta, l2_sensitivity: f64) -> Result<f64, CalibrateError> {
    check(delta, l2_sensitivity)?;
    if l2_sensitivity == 0.0 {
        return Ok(0.0);
    }
    let sigma = l2_sensitivity / GaussianProfile::largest(epsilon, delta).mu();
    Ok(sigma.next_up())
}

fn check(delta: Delta, l2_sensitivity: f64) -> Result<(), CalibrateError> {
    if delta.get() == 0.0 {
        return Err(CalibrateError::NoDelta);
    }
    if !(l2_sensitivity.is_finite() && l2_sensitivity >= 0.0) {
        return Err(CalibrateError::Sensitivity(l2_sensitivity));
    }
    Ok(())
}

/// The most releases of `event` that fit into what is left; `u64::MAX` when it costs nothing.
///
/// # Errors
/// [`CalibrateError::Price`] when the event cannot be priced.
pub fn steps_for(headroom: &Headroom, event: &Event, adjacency: Adjacency) -> Result<u64, CalibrateError> {
    Ok(headroom.releases(&mechanism::curve(event, adjacency, headroom.grid())?))
}

/// The least noise multiplier z with which `steps` releases of Poisson(q) samples fit into what is left; rounded up, and
/// at most a billionth above the least. `steps` = 0 asks for one.
///
/// # Errors
/// [`CalibrateError::NothingLeft`] when no noise is enough, [`CalibrateError::Price`] when such releases have no price
/// under this adjacency.
pub fn noise_for(
    headroom: &Headroom,
    sampling_rate: SamplingRate,
    steps: u64,
    adjacency: Adjacency,
) -> Result<NoiseMultiplier, CalibrateError> {
    let steps = steps.max(1);
    let event = |z: NoiseMultiplier| Event::PoissonSampledGaussian { sampling_rate, noise_multiplier: z };
    // The price of any such event tells whether the adjacency has one, before the search.
    let probe = NoiseMultiplier::new(1.0).map_err(|_| CalibrateError::NothingLeft)?;
    mechanism::curve(&event(probe), adjacency, headroom.grid())?;
    let changes = if adjacency == Adjacency::ReplaceOne { 2.0 } else { 1.0 };
    let q = sampling_rate.get();
    let loss = |z: f64, order: Order| mechanism::poisson_sampled_gaussian(q, z / changes, order.get());

    let limits: Vec<(Order, f64)> = headroom
        .left()
        .filter_map(|(order, left)| Some((order, left?.to_f64_down() / steps as f64)))
        .filter(|(_, limit)| *limit > 0.0)
        .collect();
    // Without sampling the answer is closed: z² = α / (2 limit). Sampling only lowers it.
    let closed = |(order, limit): &(Order, f64)| changes * (order.get() / limit / 2.0).sqrt();
    let mut best = limits.iter().map(closed).fold(f64::INFINITY, f64::min);
    if !best.is_finite() {
        return Err(CalibrateError::NothingLeft);
    }
    let mut by_promise = limits;
    by_promise.sort_by(|a, b| closed(a).total_cmp(&closed(b)));
    for (order, limit) in by_promise {
        // An order is worth a search only if it does better than the best so far.
        if loss(best * (1.0 - SEARCH_TOLERANCE), order) <= limit {
            best = least(best, |z| loss(z, order) <= limit);
        }
    }
    // What the search promised in f64 the ledger will ask in fixed point: widen until it agrees.
    let mut widening = SEARCH_TOLERANCE;
    loop {
        let z = NoiseMultiplier::new(best * (1.0 + widening)).map_err(|_| CalibrateError::NothingLeft)?;
        let cost = mechanism::curve(&event(z), adjacency, headroom.grid())?;
        if headroom.releases(&cost) >= steps {
            return Ok(z);
        }
        widening *= 4.0;
    }
}

/// How near the least noise the search comes, relative.
const SEARCH_TOLERANCE: f64 = 2e-10;

/// The least z (within the tolerance) that fits, given one that does; `fits` is monotone.
fn least(fitting: f64, fits: impl Fn(f64) -> bool) -> f64 {
    let mut high = fitting;
    let mut low = 0.5 * high;
    while low > 1e-6 && fits(low) {
        high = low;
        low *= 0.5;
    }
    while high - low > SEARCH_TOLERANCE * high {
        let middle = 0.5 * (low + high);
        if fits(middle) { high = middle } else { low = middle }
    }
    high
}
