//! Prices of the releases that no training plan consists of: searches, histograms, selections, noise made together.

use crate::adjacency::Adjacency;
use crate::curve::{Curve, OrderGrid};
use crate::event::Event;
use crate::group;
use crate::histogram::{Differences, TruncatedLaplace};
use crate::kanon;
use crate::selection::{self, Runs};
use crate::unit::{Delta, Epsilon};

use super::{PriceError, approximate, changes, discrete, gaussian};

/// The curve of one of these; what is none of them is priced by [`super::curve`].
pub(super) fn curve(event: &Event, adjacency: Adjacency, grid: &OrderGrid) -> Result<Curve, PriceError> {
    let unpriced = |why: &dyn std::fmt::Display| PriceError::NoPrice { event: event.name(), why: why.to_string() };
    match event {
        Event::PoissonSampledDiscreteGaussian { sampling_rate, noise_multiplier, .. } => {
            let (q, z) = (sampling_rate.get(), noise_multiplier.get());
            match adjacency {
                Adjacency::AddRemove | Adjacency::ZeroOut => {
                    Ok(Curve::evaluated(grid, |order| discrete::poisson_sampled_discrete_gaussian(q, z, order.get())))
                }
                Adjacency::ReplaceOne if q >= 1.0 => {
                    Ok(Curve::evaluated(grid, |order| gaussian(z / changes(adjacency), order.get())))
                }
                Adjacency::ReplaceOne => Err(PriceError::NoFormula { event: event.name(), adjacency }),
            }
        }
        Event::DistributedDiscreteGaussian(noise) => Ok(Curve::evaluated(grid, |order| {
            discrete::distributed_discrete_gaussian(noise, changes(adjacency), order.get())
        })),
        Event::SampledThreshold { .. } | Event::TruncatedLaplace { .. } => {
            let (epsilon, delta) = guarantee(event, adjacency)?;
            Ok(approximate(epsilon.get(), delta.get(), grid))
        }
        Event::Selected { of, runs } => {
            let fine = merged(grid);
            let base = super::curve(of, adjacency, &fine)?;
            let best = selection::curve(&base, *runs).map_err(|error| unpriced(&error))?;
            let pure = pure_epsilon(of).map(|epsilon| epsilon * changes(adjacency));
            let best = restricted(&best, grid)?;
            Ok(match (pure, runs) {
                (Some(epsilon), Runs::TruncatedNegativeBinomial { shape, .. }) => {
                    least(&best, &approximate(selection::pure(epsilon, *shape), 0.0, grid))?
                }
                _ => best,
            })
        }
        _ => super::curve(event, adjacency, grid),
    }
}

/// Why a promise with δ at or above 1 has no price.
const VOID: &str = "its delta would reach 1, which promises nothing";

/// How often a guarantee for one unit added or removed applies to one change.
const fn times(adjacency: Adjacency) -> u64 {
    match adjacency {
        Adjacency::AddRemove | Adjacency::ZeroOut => 1,
        Adjacency::ReplaceOne => 2,
    }
}

/// (ε, δ) of a release that is priced by such a guarantee: sampling with a threshold, a truncated Laplace, and what states
/// one itself. Rounded up.
///
/// # Errors
/// [`PriceError::NoPrice`] when the parameters promise nothing, or for any other event.
pub fn guarantee(event: &Event, adjacency: Adjacency) -> Result<(Epsilon, Delta), PriceError> {
    let unpriced = |why: &dyn std::fmt::Display| PriceError::NoPrice { event: event.name(), why: why.to_string() };
    let (epsilon, delta, units) = match event {
        Event::SampledThreshold { sampling_rate, threshold, epsilon, shown, rows_per_unit } => {
            let delta = kanon::delta(*shown, threshold.get().into(), sampling_rate.get(), epsilon.get());
            (*epsilon, delta.map_err(|error| unpriced(&error))?, u64::from(rows_per_unit.get()))
        }
        Event::TruncatedLaplace { rate, shift, distance, partition } => {
            let noise = TruncatedLaplace::new(*rate, *shift).map_err(|error| unpriced(&error))?;
            let (epsilon, delta) = noise.guarantee(*distance, *partition, Differences::Mixed);
            let promise = Epsilon::new(epsilon).ok().zip(Delta::new(delta).ok());
            let (epsilon, delta) = promise.ok_or_else(|| unpriced(&VOID))?;
            (epsilon, delta, 1)
        }
        Event::Approximate { epsilon, delta } => (*epsilon, *delta, 1),
        _ => return Err(unpriced(&"it states no guarantee of epsilon and delta")),
    };
    group::epsilon_delta(epsilon, delta, units * times(adjacency)).ok_or_else(|| unpriced(&VOID))
}

/// These orders with those of reports: the choice of λ̂ in a selection is the better, the more there are.
fn merged(grid: &OrderGrid) -> OrderGrid {
    let mut orders = grid.orders().to_vec();
    orders.extend_from_slice(OrderGrid::reporting().orders());
    orders.sort_by(|a, b| a.get().total_cmp(&b.get()));
    orders.dedup();
    // Sorted and distinct, so this is a grid.
    OrderGrid::new(orders).unwrap_or_else(|_| grid.clone())
}

/// The same curve on some of its orders.
fn restricted(curve: &Curve, grid: &OrderGrid) -> Result<Curve, PriceError> {
    let kept = curve.losses().filter(|(order, _)| grid.orders().contains(order)).map(|(_, loss)| loss).collect();
    Ok(Curve::from_fixed(grid, kept, curve.side_delta())?)
}

/// The lower of two upper bounds, order by order.
fn least(a: &Curve, b: &Curve) -> Result<Curve, PriceError> {
    let losses = a.losses().zip(b.losses()).map(|((_, a), (_, b))| a.min(b)).collect();
    Ok(Curve::from_fixed(a.grid(), losses, a.side_delta())?)
}

/// ε of a release that is purely ε-DP for one unit added or removed, rounded up; nothing for one that is not.
fn pure_epsilon(event: &Event) -> Option<f64> {
    match event {
        Event::Laplace { epsilon } | Event::Pure { epsilon } => Some(epsilon.get()),
        Event::Composed { events } => {
            events.iter().try_fold(0.0, |sum: f64, part| Some((sum + pure_epsilon(part)?).next_up()))
        }
        Event::Repeated { count, of } => Some((*count as f64 * pure_epsilon(of)?).next_up().next_up()),
        _ => None,
    }
}
