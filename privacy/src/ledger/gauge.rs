//! The numbers of a budget gauge, for display. Nothing here decides anything.

use serde::{Deserialize, Serialize};

use super::budget::{Budget, GridKind};
use crate::convert;
use crate::curve::Curve;
use crate::fixed::Fixed;
use crate::gaussian::GaussianProfile;
use crate::unit::{Delta, Epsilon};

/// The numbers of a budget gauge, all ε at the budget's δ.
///
/// The ε of a loss is the smallest limit (same δ, same split over the same orders) that would have admitted it: 0 for
/// nothing, never less after a charge than before, at most the limit by the admission rule, and equal to it exactly
/// when nothing more can be admitted. `spent_epsilon + reserved_epsilon` is `committed_epsilon`, and `left_epsilon` is
/// the rest of the limit. Costs compose to less than their sum, so a job may be admitted whose own ε is above
/// `left_epsilon`; the first release on an account costs more ε than the same release later.
///
/// Not an odometer: the claim that `spent_epsilon` alone has been lost so far is not valid for a history that was
/// chosen adaptively (that takes a theorem of its own, and costs more: Rogers, Roth, Ullman and Vadhan 2016). The valid
/// claim is the limit.
///
/// The fractions are the filter's own: the used part of the order's share, at the order where it is least, or the used
/// part of the δ for releases with a δ of their own, whichever is greater. They grow in proportion to the charges as
/// long as the same part decides. They reach 1 exactly when no more releases fit, or none with a δ of their own. No ε
/// reflects that δ.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The limit on ε; `None` without a budget.
    pub limit: Option<Epsilon>,
    /// The δ of all these numbers; `None` without a budget.
    pub delta: Option<Delta>,
    /// ε spent, rounded up.
    pub spent_epsilon: f64,
    /// The ε that open reservations add to that.
    pub reserved_epsilon: f64,
    /// ε spent and reserved, rounded up.
    pub committed_epsilon: f64,
    /// ε remaining to the limit, rounded down.
    pub left_epsilon: f64,
    /// The fraction of the filter's budget that is spent, in [0, 1], rounded up.
    pub spent_fraction: f64,
    /// The fraction that open reservations add to that.
    pub reserved_fraction: f64,
    /// The fraction that is spent or reserved, in [0, 1], rounded up.
    pub committed_fraction: f64,
    /// The part of δ that releases with a δ of their own have spent or reserved, rounded up.
    pub side_delta: f64,
}

impl Summary {
    /// Computes the gauge from the spent cost, and from the sum of spent and reserved costs.
    pub(super) fn new(budget: Option<&Budget>, spent: &Curve, committed: &Curve) -> Self {
        let (spent_epsilon, spent_fraction) = gauge(budget, spent);
        let (committed_epsilon, committed_fraction) = gauge(budget, committed);
        // Rounding must not make a reservation appear negative.
        let committed_epsilon = committed_epsilon.max(spent_epsilon);
        let committed_fraction = committed_fraction.max(spent_fraction);
        let limit = budget.map_or(0.0, |budget| budget.epsilon().get());
        Self {
            limit: budget.map(Budget::epsilon),
            delta: budget.map(Budget::delta),
            spent_epsilon,
            reserved_epsilon: committed_epsilon - spent_epsilon,
            committed_epsilon,
            left_epsilon: (limit - committed_epsilon).max(0.0),
            spent_fraction,
            reserved_fraction: committed_fraction - spent_fraction,
            committed_fraction,
            side_delta: committed.side_delta().to_f64_up(),
        }
    }
}

/// Returns ε and fraction of a loss; both are 0 without a budget, because nothing was admitted.
fn gauge(budget: Option<&Budget>, loss: &Curve) -> (f64, f64) {
    budget.map_or((0.0, 0.0), |budget| (least_limit(budget, loss), fraction(budget, loss)))
}

/// Returns the smallest ε of a budget, else like this one, that would admit the loss; rounded up, infinite if none
/// would. For a loss that this budget admits, it never exceeds this budget's ε.
pub(super) fn least_limit(budget: &Budget, loss: &Curve) -> f64 {
    if loss.is_zero() {
        return 0.0;
    }
    let least =
        if budget.grid() == GridKind::Gaussian { gaussian_limit(budget, loss) } else { renyi_limit(budget, loss) };
    let fits = budget.shares().iter().zip(loss.losses()).any(|(share, (_, loss))| share.is_some_and(|s| loss <= s));
    if fits { least.min(budget.epsilon().get()) } else { least }
}

/// Returns the least ε over the orders, at their parts of δ.
fn renyi_limit(budget: &Budget, loss: &Curve) -> f64 {
    let ln_delta = budget.ln_delta_share(loss.grid().len());
    loss.losses()
        .map(|(order, loss)| convert::epsilon_at(order, loss.to_f64_up(), ln_delta))
        .fold(f64::INFINITY, f64::min)
}

/// Returns ε of the Gaussian release that dominates the loss.
fn gaussian_limit(budget: &Budget, loss: &Curve) -> f64 {
    let mu = loss.mu_squared().map_or(f64::INFINITY, |squared| squared.to_f64_up().sqrt().next_up());
    let delta = Delta::new(budget.conversion_delta()).ok();
    let epsilon = delta.and_then(|delta| GaussianProfile::of_mu(mu).epsilon(delta));
    epsilon.map_or(f64::INFINITY, Epsilon::get)
}

/// Returns the least, over the orders alive, of loss / share, or side δ / its share where that is more; at most 1.
fn fraction(budget: &Budget, loss: &Curve) -> f64 {
    let side = used(loss.side_delta(), Fixed::floor(budget.side_delta().get())).min(1.0);
    let orders = budget
        .shares()
        .into_iter()
        .zip(loss.losses())
        .filter_map(|(share, (_, loss))| share.map(|share| (share, loss)))
        .map(|(share, loss)| used(loss, share))
        .fold(1.0, f64::min);
    orders.max(side)
}

/// Returns the used fraction of a share, rounded up.
fn used(loss: Fixed, share: Fixed) -> f64 {
    match (loss, share) {
        (Fixed::ZERO, _) => 0.0,
        (_, Fixed::ZERO) => 1.0,
        _ => (loss.to_f64_up() / share.to_f64_down()).next_up(),
    }
}
