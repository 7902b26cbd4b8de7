//! Curves: the Rényi loss of a release at every order of a grid, and the probability mass on which it does not hold.
//!
//! A curve is exact fixed point, so composition is associative and independent of order. This module alone defines how
//! losses add. It must not depend on any mechanism; `mechanism.rs` fills curves, `convert.rs` reads them.

use serde::{Deserialize, Serialize};

use crate::fixed::Fixed;
use crate::unit::Order;

/// Why curves cannot be made or added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CurveError {
    /// A grid needs at least one order, each greater than the one before.
    #[error("a grid of orders must be strictly increasing and not empty")]
    NotAGrid,
    /// A loss for every order, no more and no less.
    #[error("a curve on {orders} orders needs {orders} losses, not {losses}")]
    WrongLength {
        /// Orders in the grid.
        orders: usize,
        /// Number of losses.
        losses: usize,
    },
    /// Curves on different grids do not add: price the events again on one grid.
    #[error("curves on different grids do not add: price both events on the same grid")]
    GridMismatch,
}

/// The orders of curves: strictly increasing, each above 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Order>", into = "Vec<Order>")]
pub struct OrderGrid(Vec<Order>);

impl OrderGrid {
    /// Makes a grid of these orders.
    ///
    /// # Errors
    /// [`CurveError::NotAGrid`] unless the orders are strictly increasing and at least one.
    pub fn new(orders: Vec<Order>) -> Result<Self, CurveError> {
        if orders.is_empty() || orders.windows(2).any(|pair| pair[0] >= pair[1]) {
            return Err(CurveError::NotAGrid);
        }
        Ok(Self(orders))
    }

    /// Returns the ledger's eight orders for ordinary budgets (ε up to about 10). Frozen: stored accounts depend on it.
    pub fn standard() -> Self {
        Self::from_constants(&[2.0, 3.0, 4.0, 6.0, 8.0, 16.0, 32.0, 64.0])
    }

    /// Returns the ledger's eight orders for research budgets of ε in the hundreds. Frozen: stored accounts depend on
    /// it.
    pub fn research() -> Self {
        Self::from_constants(&[1.007_812_5, 1.031_25, 1.125, 1.25, 1.5, 2.0, 3.0, 4.0])
    }

    /// Returns the orders of accounts that are kept by Gaussian certificates. Frozen: stored accounts depend on it.
    ///
    /// A certified job is post-processing of one Gaussian release, so its curve αμ²/2 is a Rényi curve like any other, for
    /// conversions and for sums over parties. The reverse is false: a curve of another origin certifies no μ, and
    /// [`crate::mechanism::curve`] refuses this grid.
    pub fn gaussian() -> Self {
        Self::from_constants(&[1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 16.0, 32.0])
    }

    /// Returns the fine grid of reports and of planning a closed history: from 1 + 2⁻¹⁰ to 1024.
    pub fn reporting() -> Self {
        let mut orders: Vec<f64> = (3..=10).rev().map(|j| 1.0 + 1.0 / f64::from(1u32 << j)).collect();
        orders.extend([1.25, 1.375, 1.5, 1.625, 1.75, 2.0, 2.25, 2.5, 2.75, 3.0, 3.25, 3.5, 3.75]);
        orders.extend([4.0, 4.5, 5.0, 5.5, 6.0, 7.0, 8.0, 9.0, 10.0, 12.0, 14.0, 16.0, 20.0, 24.0, 28.0, 32.0]);
        orders.extend([40.0, 48.0, 56.0, 64.0, 80.0, 96.0, 128.0, 192.0, 256.0, 384.0, 512.0, 1024.0]);
        Self::from_constants(&orders)
    }

    /// Makes a grid of constant orders that are in range.
    fn from_constants(orders: &[f64]) -> Self {
        Self(orders.iter().filter_map(|&order| Order::new(order).ok()).collect())
    }

    /// Returns the orders, increasing.
    pub fn orders(&self) -> &[Order] {
        &self.0
    }

    /// Returns the number of orders.
    #[expect(clippy::len_without_is_empty, reason = "a grid is never empty")]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl TryFrom<Vec<Order>> for OrderGrid {
    type Error = CurveError;
    fn try_from(orders: Vec<Order>) -> Result<Self, CurveError> {
        Self::new(orders)
    }
}

impl From<OrderGrid> for Vec<Order> {
    fn from(grid: OrderGrid) -> Self {
        grid.0
    }
}

/// Rényi loss in nats at each order of a grid, plus the accrued side mass δ (approximate RDP: with probability at most δ
/// the loss is unbounded). Infinite losses are allowed and marked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "StoredCurve", into = "StoredCurve")]
pub struct Curve {
    grid: OrderGrid,
    losses: Vec<Fixed>,
    side_delta: Fixed,
}

impl Curve {
    /// Evaluators keep a relative error below 2⁻⁴⁰; this factor covers it.
    const COVER: f64 = 1.0 + 1.0 / 1_099_511_627_776.0;

    /// Returns the loss of releasing nothing.
    pub fn zero(grid: &OrderGrid) -> Self {
        Self { losses: vec![Fixed::ZERO; grid.len()], grid: grid.clone(), side_delta: Fixed::ZERO }
    }

    /// Returns the loss of releasing everything.
    pub fn infinite(grid: &OrderGrid) -> Self {
        Self { losses: vec![Fixed::INFINITE; grid.len()], grid: grid.clone(), side_delta: Fixed::ZERO }
    }

    /// Makes a curve from an evaluator in f64, in nats. Covers the evaluator's error (factor 1 + 2⁻⁴⁰) and rounds up.
    pub fn evaluated(grid: &OrderGrid, mut loss: impl FnMut(Order) -> f64) -> Self {
        let losses = grid.orders().iter().map(|&order| Fixed::ceil(loss(order) * Self::COVER)).collect();
        Self { grid: grid.clone(), losses, side_delta: Fixed::ZERO }
    }

    /// Makes the curve αμ²/2 of a Gaussian release of μ² on [`OrderGrid::gaussian`], exactly proportional to the orders: μ² is
    /// rounded up to four units of 2⁻⁶⁴. `side_delta` is the mass without a guarantee.
    pub fn gaussian(mu_squared: Fixed, side_delta: Fixed) -> Self {
        let grid = OrderGrid::gaussian();
        let losses = gaussian_losses(Fixed::from_units(mu_squared.units().div_ceil(4)), mu_squared, &grid);
        Self { grid, losses, side_delta }
    }

    /// Returns μ² of a curve that [`Curve::gaussian`] made, or of a sum of such curves; `None` for any other curve.
    pub fn mu_squared(&self) -> Option<Fixed> {
        if self.grid != OrderGrid::gaussian() {
            return None;
        }
        let mu_squared = self.losses[1];
        let quarter = Fixed::from_units(mu_squared.units() / 4);
        (self.losses == gaussian_losses(quarter, mu_squared, &self.grid)).then_some(mu_squared)
    }

    /// Makes a curve from its exact parts.
    ///
    /// # Errors
    /// [`CurveError::WrongLength`] unless there is one loss for every order.
    pub fn from_fixed(grid: &OrderGrid, losses: Vec<Fixed>, side_delta: Fixed) -> Result<Self, CurveError> {
        if losses.len() != grid.len() {
            return Err(CurveError::WrongLength { orders: grid.len(), losses: losses.len() });
        }
        Ok(Self { grid: grid.clone(), losses, side_delta })
    }

    /// Adds a side mass to the curve's own, rounded up.
    #[must_use]
    pub fn with_side_delta(mut self, delta: f64) -> Self {
        self.side_delta = self.side_delta.plus(Fixed::ceil(delta));
        self
    }

    /// Adds two releases: losses and side masses add (adaptive composition of Rényi DP).
    ///
    /// # Errors
    /// [`CurveError::GridMismatch`] when the curves are on different grids.
    pub fn add(&self, other: &Self) -> Result<Self, CurveError> {
        if self.grid != other.grid {
            return Err(CurveError::GridMismatch);
        }
        Ok(Self {
            grid: self.grid.clone(),
            losses: self.losses.iter().zip(&other.losses).map(|(a, b)| a.plus(*b)).collect(),
            side_delta: self.side_delta.plus(other.side_delta),
        })
    }

    /// Repeats the release `count` times; 0 times costs nothing, even if once would cost infinity.
    #[must_use]
    pub fn times(&self, count: u64) -> Self {
        Self {
            grid: self.grid.clone(),
            losses: self.losses.iter().map(|loss| loss.times(count)).collect(),
            side_delta: self.side_delta.times(count),
        }
    }

    /// Subtracts `part` from this curve; `None` when some loss of `part` is larger, infinite, or the grids differ.
    #[must_use]
    pub fn without(&self, part: &Self) -> Option<Self> {
        if self.grid != part.grid {
            return None;
        }
        let losses = self.losses.iter().zip(&part.losses).map(|(a, b)| a.minus(*b)).collect::<Option<_>>()?;
        Some(Self { grid: self.grid.clone(), losses, side_delta: self.side_delta.minus(part.side_delta)? })
    }

    /// Returns the orders.
    pub fn grid(&self) -> &OrderGrid {
        &self.grid
    }

    /// Iterates over the orders with the loss at each, in nats.
    pub fn losses(&self) -> impl ExactSizeIterator<Item = (Order, Fixed)> + '_ {
        self.grid.orders().iter().copied().zip(self.losses.iter().copied())
    }

    /// Returns the probability mass without a guarantee.
    pub fn side_delta(&self) -> Fixed {
        self.side_delta
    }

    /// Returns true if the curve costs nothing at all.
    pub fn is_zero(&self) -> bool {
        self.side_delta == Fixed::ZERO && self.losses.iter().all(|loss| *loss == Fixed::ZERO)
    }

    /// Returns true if all losses and the side mass are finite.
    pub fn is_finite(&self) -> bool {
        !self.side_delta.is_infinite() && self.losses.iter().all(|loss| !loss.is_infinite())
    }

    /// Returns true if the loss is infinite at every order.
    pub fn is_infinite(&self) -> bool {
        self.losses.iter().all(|loss| loss.is_infinite())
    }
}

/// Returns αμ²/2 at every order of the Gaussian grid, from μ²/4; the orders are multiples of one half.
pub(crate) fn gaussian_losses(quarter: Fixed, mu_squared: Fixed, grid: &OrderGrid) -> Vec<Fixed> {
    let infinite = mu_squared.is_infinite();
    let loss = |order: &Order| if infinite { Fixed::INFINITE } else { quarter.times((2.0 * order.get()) as u64) };
    grid.orders().iter().map(loss).collect()
}

/// The form of a curve in a database row: units of 2⁻⁶⁴ as decimal strings.
#[derive(Serialize, Deserialize)]
struct StoredCurve {
    orders: OrderGrid,
    losses: Vec<Fixed>,
    side_delta: Fixed,
}

impl TryFrom<StoredCurve> for Curve {
    type Error = CurveError;
    fn try_from(stored: StoredCurve) -> Result<Self, CurveError> {
        Self::from_fixed(&stored.orders, stored.losses, stored.side_delta)
    }
}

impl From<Curve> for StoredCurve {
    fn from(curve: Curve) -> Self {
        Self { orders: curve.grid, losses: curve.losses, side_delta: curve.side_delta }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "constants of a test are in range")]
    use super::*;

    #[test]
    fn frozen_grids_have_all_orders() {
        assert_eq!(OrderGrid::standard().len(), 8);
        assert_eq!(OrderGrid::research().len(), 8);
        assert_eq!(OrderGrid::reporting().len(), 49);
        assert_eq!(OrderGrid::gaussian().len(), 8);
        for grid in [OrderGrid::standard(), OrderGrid::research(), OrderGrid::gaussian(), OrderGrid::reporting()] {
            assert_eq!(OrderGrid::new(grid.orders().to_vec()).unwrap(), grid);
        }
    }

    #[test]
    fn gaussian_curves_stay_proportional_and_others_are_none() {
        let units = |units: u128| Fixed::from_units(units);
        let sum = Curve::gaussian(units(5), units(1)).times(3).add(&Curve::gaussian(units(1 << 70), units(2))).unwrap();
        assert_eq!(sum.mu_squared(), Some(units(24 + (1 << 70))));
        assert_eq!(sum.losses().next().unwrap().1, units(18 + 3 * (1 << 68)));
        assert_eq!(Curve::gaussian(Fixed::INFINITE, units(0)).mu_squared(), Some(Fixed::INFINITE));
        assert_eq!(Curve::zero(&OrderGrid::gaussian()).mu_squared(), Some(Fixed::ZERO));
        assert_eq!(Curve::evaluated(&OrderGrid::gaussian(), |order| 0.3 * order.get() + 0.1).mu_squared(), None);
        assert_eq!(Curve::zero(&OrderGrid::standard()).mu_squared(), None);
    }

    #[test]
    fn curves_on_different_grids_are_refused() {
        let a = Curve::zero(&OrderGrid::standard());
        let b = Curve::zero(&OrderGrid::research());
        assert_eq!(a.add(&b), Err(CurveError::GridMismatch));
    }

    #[test]
    fn stored_curve_round_trips_exactly() {
        let curve = Curve::evaluated(&OrderGrid::research(), |order| order.get() / 3.0).with_side_delta(1e-7);
        let text = serde_json::to_string(&curve.times(7)).unwrap();
        assert_eq!(serde_json::from_str::<Curve>(&text).unwrap(), curve.times(7));
        let marked = serde_json::to_string(&Curve::infinite(&OrderGrid::standard())).unwrap();
        assert!(serde_json::from_str::<Curve>(&marked).unwrap().is_infinite());
    }

    #[test]
    fn stored_curve_without_a_loss_is_refused() {
        let text = r#"{"orders":[2.0,3.0],"losses":["1"],"side_delta":"0"}"#;
        assert!(serde_json::from_str::<Curve>(text).is_err());
        let text = r#"{"orders":[3.0,2.0],"losses":["1","1"],"side_delta":"0"}"#;
        assert!(serde_json::from_str::<Curve>(text).is_err());
    }
}
