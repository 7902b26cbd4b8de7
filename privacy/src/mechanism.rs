//! The cost of one application of each event. This module alone contains mechanism formulas.
//!
//! Composition is structural and belongs to [`Curve`]: `Repeated` and `Composed` are decomposed here and added there.
//! An event that has no formula is an error, never zero; a release without noise is infinite.
//!
//! To add a mechanism: a variant of [`Event`], its loss here (or in `mechanism/rare.rs`, which the browser's planner leaves
//! out) with the source of the formula, a strategy in `event/any.rs`. A change to a formula's digits changes
//! [`EVALUATOR_VERSION`]; a new formula does not, because it prices nothing that was ever charged.

mod discrete;
mod distributed;
#[cfg(test)]
mod laws;
mod pure;
mod rare;
mod sampled;
mod substituted;

pub use discrete::{ln_adaptive_excess, ln_grid_excess, poisson_sampled_discrete_gaussian};
pub use distributed::{
    distributed_discrete_gaussian, sensitivity as distributed_sensitivity, spread as distributed_spread,
};
pub use pure::{laplace, pure};
pub use rare::guarantee;
pub use sampled::poisson_sampled_gaussian;

use crate::adjacency::Adjacency;
use crate::curve::{Curve, CurveError, OrderGrid};
use crate::event::Event;
use crate::group;
use crate::unit::Order;

/// The version of the formulas in this module and of the rule by which accounts are charged, recorded beside every stored cost
/// so that it can be verified again later.
///
/// | version | change |
/// |---|---|
/// | `rdp-1` | each release was charged to the account of the unit that it protects, and to no other |
/// | `rdp-2` | each release is charged to every limited unit of its lineage; prices of `rdp-1` are the same |
pub const EVALUATOR_VERSION: &str = "rdp-2";

/// Versions whose costs these formulas compute to the bit.
const VERIFIABLE: [&str; 2] = ["rdp-1", EVALUATOR_VERSION];

/// Returns true if these formulas can verify the costs that `version` computed.
pub fn can_verify(version: &str) -> bool {
    VERIFIABLE.contains(&version)
}

/// Returns true if `version` charged each release to every limited unit, and not to its own unit alone.
pub fn charges_every_unit(version: &str) -> bool {
    version != VERIFIABLE[0]
}

/// Why an event has no price.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PriceError {
    /// The event's parameters give no guarantee, or no formula for it is known.
    #[error("{event} has no price: {why}")]
    NoPrice {
        /// The event's name.
        event: &'static str,
        /// The reason, and the remedy.
        why: String,
    },
    /// A curve could not be added or made.
    #[error("the cost could not be put together")]
    Curve(#[from] CurveError),
}

/// Returns the Rényi curve of an event on a grid: an upper bound at every order, for both directions of the
/// neighbouring relation.
///
/// Events state their guarantee, or their noise, for one unit added or removed. Replacing a unit by the neutral one is the
/// same for contributions that are sums; replacing it by another doubles the sensitivity, applies the guarantee twice, or, where
/// the release is of a sample, is a removal and an addition (`mechanism/substituted.rs`).
///
/// # Errors
/// [`PriceError`] when some part of the event cannot be priced, or not under this adjacency.
pub fn curve(event: &Event, adjacency: Adjacency, grid: &OrderGrid) -> Result<Curve, PriceError> {
    if *grid == OrderGrid::gaussian() {
        // A Rényi curve on these orders would be taken for a certificate.
        let why = "this account is charged for whole jobs, by Gaussian certificates: certify the job".into();
        return Err(PriceError::NoPrice { event: event.name(), why });
    }
    structure(event, adjacency, grid, rare::curve)
}

/// Returns the same for releases of additive noise, which training plans consist of. A planner that calls only this
/// function does not link the other formulas.
///
/// # Errors
/// As [`curve`], and [`PriceError::NoPrice`] for sampling with a threshold, dummy words, sampled or distributed discrete noise,
/// and selections.
pub fn noise_curve(event: &Event, adjacency: Adjacency, grid: &OrderGrid) -> Result<Curve, PriceError> {
    if *grid == OrderGrid::gaussian() {
        return curve(event, adjacency, grid);
    }
    structure(event, adjacency, grid, |_, _, _| {
        Err(PriceError::NoPrice { event: "this release", why: "only plans of additive noise are priced here".into() })
    })
}

/// The pricing function of the events that `structure` does not cover.
type Others = fn(&Event, Adjacency, &OrderGrid) -> Result<Curve, PriceError>;

/// Returns the number of removals and additions in one change.
const fn changes(adjacency: Adjacency) -> f64 {
    match adjacency {
        Adjacency::AddRemove | Adjacency::ZeroOut => 1.0,
        Adjacency::ReplaceOne => 2.0,
    }
}

fn structure(event: &Event, adjacency: Adjacency, grid: &OrderGrid, others: Others) -> Result<Curve, PriceError> {
    let changes = changes(adjacency);
    match event {
        Event::Gaussian { noise_multiplier } | Event::DiscreteGaussian { noise_multiplier, .. } => {
            Ok(Curve::evaluated(grid, |order| gaussian(noise_multiplier.get() / changes, order.get())))
        }
        Event::PoissonSampledGaussian { sampling_rate, noise_multiplier } => {
            let q = sampling_rate.get();
            let z = noise_multiplier.get();
            match adjacency {
                Adjacency::AddRemove | Adjacency::ZeroOut => {
                    let mut sampled = sampled::SampledGaussian::new(q, z);
                    Ok(Curve::evaluated(grid, |order: Order| sampled.loss(order.get())))
                }
                Adjacency::ReplaceOne => {
                    let mut sampled = sampled::SampledGaussian::new(q, z);
                    Ok(Curve::evaluated(grid, |order: Order| {
                        substituted::sampled_gaussian(q, z, order.get(), |order| sampled.loss(order))
                    }))
                }
            }
        }
        Event::BandedGaussian { sampling_rate, noise_multiplier, bands, releases } => {
            let turn =
                Event::PoissonSampledGaussian { sampling_rate: *sampling_rate, noise_multiplier: *noise_multiplier };
            Ok(structure(&turn, adjacency, grid, others)?.times(releases.get().div_ceil(bands.get()).into()))
        }
        Event::Laplace { epsilon } => Ok(Curve::evaluated(grid, |order| laplace(epsilon.get() * changes, order.get()))),
        Event::Pure { epsilon } => Ok(Curve::evaluated(grid, |order| pure(epsilon.get() * changes, order.get()))),
        Event::Approximate { epsilon, delta } => {
            let side = if changes > 1.0 { group::pair_delta(*epsilon, *delta) } else { delta.get() };
            Ok(approximate(epsilon.get() * changes, side, grid))
        }
        Event::NonPrivate => Ok(Curve::infinite(grid)),
        Event::Composed { events } => events.iter().try_fold(Curve::zero(grid), |sum, part| {
            let part = structure(part, adjacency, grid, others)?;
            Ok(sum.add(&part)?)
        }),
        Event::Repeated { count, of } => Ok(structure(of, adjacency, grid, others)?.times(*count)),
        // A record that is added, removed, emptied or replaced replaces its speaker's contribution by another in each case.
        Event::Substituted { of } => structure(of, Adjacency::ReplaceOne, grid, others),
        Event::PoissonSampledDiscreteGaussian { .. }
        | Event::DistributedDiscreteGaussian(_)
        | Event::PoissonSampledDistributedDiscreteGaussian { .. }
        | Event::SampledThreshold { .. }
        | Event::TruncatedLaplace { .. }
        | Event::Selected { .. } => others(event, adjacency, grid),
    }
}

/// Returns an (ε, δ) guarantee as a curve: it is post-processing of "with probability δ everything, else binary
/// randomized response" (Kairouz, Oh and Viswanath 2015), so the curve of ε and a side mass of δ.
fn approximate(epsilon: f64, delta: f64, grid: &OrderGrid) -> Curve {
    Curve::evaluated(grid, |order| pure(epsilon, order.get())).with_side_delta(delta)
}

/// Returns ρ(α) = α / (2 z²) of the Gaussian mechanism, and of the discrete Gaussian with integer sensitivity (Mironov
/// 2017; Canonne, Kamath and Steinke 2020). z = 0 is infinite.
pub fn gaussian(z: f64, order: f64) -> f64 {
    if z <= 0.0 { f64::INFINITY } else { (order / z / z / 2.0).max(LEAST_LOSS) }
}

/// The least loss of a release: a loss that underflows is raised to this, which is charged as one unit.
const LEAST_LOSS: f64 = f64::MIN_POSITIVE;
