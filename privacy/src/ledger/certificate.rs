//! The cost of a whole job on an account with the Gaussian filter.

use super::Cost;
use crate::adjacency::Adjacency;
use crate::convert;
use crate::curve::{Curve, OrderGrid};
use crate::event::Event;
use crate::mechanism::{self, PriceError};
use crate::pld::{GaussianCertificate, Plan, PldError};
use crate::unit::Delta;

/// Returns the cost of a job of `releases` releases of one event, all of whose parameters are fixed before its first output, on
/// [`OrderGrid::gaussian`]: the least μ² that its loss distributions certify at the side mass `side`, and that side mass. Server,
/// worker and browser compute the same bits.
///
/// A job without loss distributions, or with losses too wide for a grid, is certified by its Rényi curve: it is (ε, δ₀)-private
/// for the ε that the curve converts to, and so one Gaussian release and δ₀ apart. That costs more, never less.
///
/// The greater the side mass, the less μ². At a side mass of 0 only plain Gaussians and pure releases have a finite cost; plain
/// Gaussians never use it.
///
/// # Errors
/// [`PriceError::NoPrice`] when the event has no price, or reveals more than the side mass.
pub fn certify(event: &Event, releases: u64, adjacency: Adjacency, side: Delta) -> Result<Cost, PriceError> {
    let mut plan = Plan::new();
    plan.add(event, adjacency, releases);
    let certificate = match plan.gaussian_certificate(side) {
        Ok(certificate) => certificate,
        Err(PldError::NoPair(_) | PldError::TooWide) => {
            let curve = mechanism::curve(event, adjacency, &OrderGrid::reporting())?.times(releases);
            let epsilon = convert::epsilon(&curve, side);
            epsilon.and_then(|epsilon| GaussianCertificate::from_guarantee(epsilon, side))
        }
    };
    let certificate = certificate.ok_or_else(|| PriceError::NoPrice {
        event: event.name(),
        why: format!(
            "no Gaussian release certifies it at a side delta of {:e}: give the job more side delta",
            side.get()
        ),
    })?;
    Ok(Curve::gaussian(certificate.mu_squared(), certificate.side_delta()))
}
