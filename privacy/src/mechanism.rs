//! What one application of each event costs: the only place that knows mechanism formulas.
//!
//! Composition is structural and belongs to [`Curve`]: `Repeated` and `Composed` are taken apart here and put together
//! there. An event that has no formula is an error, never zero; a release without noise is infinite.
//!
//! To add a mechanism: a variant of [`Event`], its loss here with the source of the formula, a strategy in the property
//! tests. A change to a formula's digits changes [`EVALUATOR_VERSION`].

mod fixed_size;
#[cfg(test)]
mod laws;
mod pure;
mod sampled;

pub use fixed_size::fixed_size_sampled_gaussian;
pub use pure::{laplace, pure};
pub use sampled::poisson_sampled_gaussian;

use crate::adjacency::Adjacency;
use crate::curve::{Curve, CurveError, OrderGrid};
use crate::event::Event;
use crate::group;
use crate::unit::Order;

/// The version of the formulas in this room, recorded beside every stored cost so that it can be verified again later.
pub const EVALUATOR_VERSION: &str = "rdp-1";

/// Why an event has no price.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PriceError {
    /// The mechanism has no formula under this neighbouring relation.
    #[error("{event} has no price under {adjacency:?} adjacency: plan it under add-remove or zero-out adjacency")]
    NoFormula {
        /// The event's name.
        event: &'static str,
        /// The neighbouring relation asked for.
        adjacency: Adjacency,
    },
    /// A curve could not be put together.
    #[error("the cost could not be put together")]
    Curve(#[from] CurveError),
}

/// The Rényi curve of an event on a grid: an upper bound at every order, for both directions of the neighbouring relation.
///
/// Events state their guarantee, or their noise, for one unit added or removed. Replacing a unit by the neutral one is the
/// same for contributions that are sums; replacing it by another doubles the sensitivity, or applies the guarantee twice.
///
/// # Errors
/// [`PriceError::NoFormula`] when some part of the event cannot be priced under this adjacency.
pub fn curve(event: &Event, adjacency: Adjacency, grid: &OrderGrid) -> Result<Curve, PriceError> {
    // How many removals and additions make one change.
    let changes = match adjacency {
        Adjacency::AddRemove | Adjacency::ZeroOut => 1.0,
        Adjacency::ReplaceOne => 2.0,
    };
    match event {
        Event::Gaussian { noise_multiplier } => {
            Ok(Curve::evaluated(grid, |order| gaussian(noise_multiplier.get() / changes, order.get())))
        }
        Event::PoissonSampledGaussian { sampling_rate, noise_multiplier } => {
            let (q, z) = (sampling_rate.get(), noise_multiplier.get());
            match adjacency {
                Adjacency::AddRemove | Adjacency::ZeroOut => {
                    Ok(Curve::evaluated(grid, |order: Order| poisson_sampled_gaussian(q, z, order.get())))
                }
                Adjacency::ReplaceOne if q >= 1.0 => {
                    Ok(Curve::evaluated(grid, |order| gaussian(z / changes, order.get())))
                }
                Adjacency::ReplaceOne => Err(PriceError::NoFormula { event: "a Poisson-sampled Gaussian", adjacency }),
            }
        }
        Event::Laplace { epsilon } => Ok(Curve::evaluated(grid, |order| laplace(epsilon.get() * changes, order.get()))),
        Event::Pure { epsilon } => Ok(Curve::evaluated(grid, |order| pure(epsilon.get() * changes, order.get()))),
        Event::Approximate { epsilon, delta } => {
            let side = if changes > 1.0 { group::pair_delta(*epsilon, *delta) } else { delta.get() };
            let curve = Curve::evaluated(grid, |order| pure(epsilon.get() * changes, order.get()));
            Ok(curve.with_side_delta(side))
        }
        Event::NonPrivate => Ok(Curve::infinite(grid)),
        Event::Composed { events } => events.iter().try_fold(Curve::zero(grid), |sum, part| {
            let part = curve(part, adjacency, grid)?;
            Ok(sum.add(&part)?)
        }),
        Event::Repeated { count, of } => Ok(curve(of, adjacency, grid)?.times(*count)),
    }
}

/// ρ(α) = α / (2 z²) of the Gaussian mechanism, and of the discrete Gaussian with integer sensitivity (Mironov 2017;
/// Canonne, Kamath and Steinke 2020). z = 0 is infinite.
pub fn gaussian(z: f64, order: f64) -> f64 {
    if z <= 0.0 { f64::INFINITY } else { (order / z / z / 2.0).max(LEAST_LOSS) }
}

/// A release is never free: what underflows costs this, which is charged as one unit.
const LEAST_LOSS: f64 = f64::MIN_POSITIVE;
