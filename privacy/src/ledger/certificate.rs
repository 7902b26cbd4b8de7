//! The cost of a whole job on an account with the Gaussian filter.

use super::Cost;
use crate::adjacency::Adjacency;
use crate::convert;
use crate::curve::{Curve, OrderGrid};
use crate::event::Event;
use crate::mechanism::{self, PriceError};
use crate::pld::{GaussianCertificate, Plan, PldError};
use crate::unit::{Delta, Order};

/// The largest μ, estimated by the mean of the privacy loss, that is searched for: louder jobs are refused at once. A budget of ε = 600 at δ = 10⁻⁶
/// admits a μ of about 30.
pub const MOST_CERTIFIED_MU: f64 = 32.0;
/// The most steps whose loss distributions are composed. Longer jobs are certified by their Rényi curve.
pub const MOST_CERTIFIED_STEPS: u64 = 1 << 20;

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
/// A private selection has loss distributions that bound it (`pld/selected.rs`). A job with selections is certified by them or by
/// its Rényi curve, whichever costs less.
///
/// A mechanism that is charged as a whole counts once, for any number of its releases.
///
/// The time is bounded: a job that would need a μ of more than about 32 is refused before any loss distribution is composed, and
/// one of more than 2²⁰ steps is certified by its Rényi curve.
///
/// # Errors
/// [`PriceError::NoPrice`] when the event has no price, reveals more than the side mass, or is too loud.
pub fn certify(event: &Event, releases: u64, adjacency: Adjacency, side: Delta) -> Result<Cost, PriceError> {
    let releases = event.count_charges(releases);
    let mut plan = Plan::new();
    plan.add(event, adjacency, releases);
    if let Some(mu) = estimate_mu(&plan, event, releases, adjacency)?.filter(|mu| *mu > MOST_CERTIFIED_MU) {
        let why = format!(
            "as a whole it would need a Gaussian release of about mu {mu:.0}, and at most {MOST_CERTIFIED_MU} is certified: plan fewer \
             rounds or more noise"
        );
        return Err(PriceError::NoPrice { event: event.name(), why });
    }
    let certificate =
        if plan.steps() > MOST_CERTIFIED_STEPS { Err(PldError::TooWide) } else { plan.gaussian_certificate(side) };
    match certificate {
        Ok(certificate) if event.has_selection() => {
            match (certificate, certify_by_curve(event, releases, adjacency, side)) {
                (Some(certificate), Ok(by_curve)) if by_curve.mu_squared() < Some(certificate.mu_squared()) => {
                    Ok(by_curve)
                }
                (Some(certificate), _) => Ok(Curve::gaussian(certificate.mu_squared(), certificate.side_delta())),
                (None, by_curve) => by_curve,
            }
        }
        Ok(certificate) => cost(certificate, event, side),
        Err(PldError::NoPair(_) | PldError::TooWide) => certify_by_curve(event, releases, adjacency, side),
    }
}

/// Returns the cost of a job with selections by its Rényi curve alone, as ledgers of versions without loss distributions of
/// selections charged it; `None` for a job without selections, or without such a cost.
pub(super) fn certify_selections_by_curve(
    event: &Event,
    releases: u64,
    adjacency: Adjacency,
    side: Delta,
) -> Option<Cost> {
    event.has_selection().then(|| certify_by_curve(event, releases, adjacency, side).ok()).flatten()
}

/// Returns the cost of a job by the (ε, δ₀) of its Rényi curve.
fn certify_by_curve(event: &Event, releases: u64, adjacency: Adjacency, side: Delta) -> Result<Cost, PriceError> {
    let charges = event.count_charges(releases);
    let curve = mechanism::curve(event, adjacency, &OrderGrid::reporting())?.times(charges);
    let epsilon = convert::epsilon(&curve, side);
    cost(epsilon.and_then(|epsilon| GaussianCertificate::from_guarantee(epsilon, side)), event, side)
}

/// Returns the cost that a certificate states.
fn cost(certificate: Option<GaussianCertificate>, event: &Event, side: Delta) -> Result<Cost, PriceError> {
    let certificate = certificate.ok_or_else(|| PriceError::NoPrice {
        event: event.name(),
        why: format!(
            "no Gaussian release certifies it at a side delta of {:e}: give the job more side delta",
            side.get()
        ),
    })?;
    Ok(Curve::gaussian(certificate.mu_squared(), certificate.side_delta()))
}

/// Returns about the μ that a job needs: that of a Gaussian release with the same Rényi loss near order 1, the mean of the
/// privacy loss. `None` for a job that is not certified by loss distributions. An estimate decides nothing but a refusal.
fn estimate_mu(plan: &Plan, event: &Event, releases: u64, adjacency: Adjacency) -> Result<Option<f64>, PriceError> {
    if !plan.is_paired() {
        return Ok(None);
    }
    if event.has_selection() {
        // The Rényi curve of a selection is far above its loss near order 1.
        return Ok(Some((2.0 * plan.mean_loss()).sqrt()).filter(|mu| mu.is_finite()));
    }
    let order = Order::new(1.0 + 1.0 / 128.0).map_err(|_| crate::curve::CurveError::NotAGrid)?;
    let curve = mechanism::curve(event, adjacency, &OrderGrid::new(vec![order])?)?.times(releases);
    Ok(curve
        .losses()
        .next()
        .map(|(order, loss)| (2.0 * loss.to_f64_up() / order.get()).sqrt())
        .filter(|mu| mu.is_finite()))
}
