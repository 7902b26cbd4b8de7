//! One step's loss on a grid, from above: connect-the-dots (Doroshenko et al. 2022). The result's profile is the true one
//! at every grid point and above it between, so it dominates under composition.

use libm::{ceil, exp, expm1, floor};

use super::pair::DirectionLoss;

/// A loss distribution on the grid {i·h}, with the number of its compositions.
#[derive(Debug, Clone)]
pub(super) struct GridPart {
    /// The spacing h in nats.
    pub(super) step: f64,
    /// The index of the first mass: losses are (low + j)·h.
    pub(super) low: i64,
    /// Masses. Rounding may make them slightly negative; their sums are right.
    pub(super) masses: Vec<f64>,
    /// The profile δ at the points of the masses, for finer grids; empty where no finer grid is needed.
    deltas: Vec<f64>,
    /// The mass of infinite loss.
    pub(super) infinite: f64,
    /// Number of such steps.
    pub(super) count: u64,
}

/// More points than this are a finer grid than any answer needs.
pub(super) const MOST_POINTS: f64 = 2_097_152.0;

impl GridPart {
    /// Returns the loss of mass j.
    pub(super) fn loss(&self, j: usize) -> f64 {
        (self.low as f64 + j as f64) * self.step
    }

    /// Computes the loss on a grid of spacing `step`; losses of a tail mass below `tail` become infinite. `None` when
    /// that takes too many points.
    pub(super) fn new(loss: &DirectionLoss, step: f64, tail: f64, count: u64) -> Option<Self> {
        if let DirectionLoss::Finite { atoms, infinite, .. } = loss {
            return finite(atoms, *infinite, step, count);
        }
        let (least, most) = loss.range();
        let low = floor(least / step) as i64;
        let high = match most {
            Some(most) => ceil(most / step) as i64,
            None => last(loss, step, tail, low)?,
        };
        let points = (high - low) as f64 + 1.0;
        if points > MOST_POINTS {
            return None;
        }
        let deltas = (low..=high).map(|index| loss.profile(index as f64 * step)).collect();
        Some(Self::connect(step, low, deltas, count))
    }

    /// Computes the same loss on a grid of half the spacing. `None` when that takes too many points.
    pub(super) fn halved(&self, loss: &DirectionLoss) -> Option<Self> {
        let step = 0.5 * self.step;
        if let DirectionLoss::Finite { atoms, infinite, .. } = loss {
            return finite(atoms, *infinite, step, self.count);
        }
        if 2.0 * self.deltas.len() as f64 > MOST_POINTS {
            return None;
        }
        let low = 2 * self.low;
        let mut deltas = Vec::with_capacity(2 * self.deltas.len());
        for (j, known) in self.deltas.iter().enumerate() {
            if j > 0 {
                deltas.push(loss.profile((low + 2 * j as i64 - 1) as f64 * step));
            }
            deltas.push(*known);
        }
        Some(Self::connect(step, low, deltas, self.count))
    }

    /// Returns the same loss, composed as often as this one `copies` times.
    pub(super) fn repeated(&self, copies: u32) -> Self {
        Self { count: self.count.saturating_mul(copies.into()), ..self.clone() }
    }

    /// Returns Σ δ over the points of the masses: 0 where the masses are exact.
    pub(super) fn profile_sum(&self) -> f64 {
        self.deltas.iter().sum()
    }

    /// Connects the dots: E_i = (D_{i−1} − D_i)/(1 − e^{−h}) and p_i = E_i − e^{−h} E_{i+1}; the remaining mass lies at
    /// the lowest point.
    fn connect(step: f64, low: i64, deltas: Vec<f64>, count: u64) -> Self {
        let shrink = exp(-step);
        let gap = -expm1(-step);
        let mut masses = vec![0.0; deltas.len()];
        let infinite = deltas[deltas.len() - 1];
        let (mut above, mut sum) = (0.0, infinite);
        for j in (1..deltas.len()).rev() {
            let slope = (deltas[j - 1] - deltas[j]) / gap;
            masses[j] = slope - shrink * above;
            sum += masses[j];
            above = slope;
        }
        masses[0] = (1.0 - sum).max(0.0);
        Self { step, low, masses, deltas, infinite, count }
    }
}

/// Returns the least index above `low` at which the tail of the profile is at most `tail`.
fn last(loss: &DirectionLoss, step: f64, tail: f64, low: i64) -> Option<i64> {
    let small = |index: i64| loss.profile(index as f64 * step) <= tail;
    let mut width = 1i64;
    while !small(low + width) {
        width *= 2;
        if width as f64 > 2.0 * MOST_POINTS {
            return None;
        }
    }
    let (mut below, mut above) = (low + width / 2, low + width);
    while above - below > 1 {
        let middle = below + (above - below) / 2;
        if small(middle) { above = middle } else { below = middle }
    }
    Some(above)
}

/// Splits each atom between the two points around it, so that its mass under P and under Q is unchanged.
fn finite(atoms: &[(f64, f64)], infinite: f64, step: f64, count: u64) -> Option<GridPart> {
    let index = |loss: f64| floor(loss / step) as i64;
    let low = atoms.iter().map(|atom| index(atom.0)).min().unwrap_or(0);
    let high = atoms.iter().map(|atom| index(atom.0)).max().unwrap_or(0) + 1;
    if (high - low) as f64 > MOST_POINTS {
        return None;
    }
    let mut masses = vec![0.0; (high - low) as usize + 1];
    for &(loss, mass) in atoms {
        let at = index(loss);
        let up = (expm1(at as f64 * step - loss) / expm1(-step)).clamp(0.0, 1.0);
        masses[(at - low) as usize] += mass * (1.0 - up);
        masses[(at - low) as usize + 1] += mass * up;
    }
    Some(GridPart { step, low, masses, deltas: Vec::new(), infinite, count })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pld::Pair;

    /// Returns δ of a part at ε.
    fn profile(part: &GridPart, epsilon: f64) -> f64 {
        let above = part.masses.iter().enumerate().filter(|(j, _)| part.loss(*j) > epsilon);
        part.infinite + above.map(|(j, mass)| mass * -expm1(epsilon - part.loss(j))).sum::<f64>()
    }

    #[test]
    fn grid_bounds_profile_and_meets_it_at_points() {
        let pairs = [
            Pair::sampled_gaussian(0.1, 0.8),
            Pair::sampled_gaussian_replacing(0.3, 2.0),
            Pair::laplace(0.73),
            Pair::approximate(0.41, 1e-3),
            Pair::sampled_gaussian_group(0.2, 2.0, 4),
        ];
        for pair in pairs {
            for direction in &pair.directions {
                let coarse = GridPart::new(direction, 0.02, 1e-12, 1).expect("few points");
                let part = coarse.halved(direction).expect("few points");
                for k in -60..200 {
                    let epsilon = f64::from(k) * 0.0037;
                    let truth = direction.profile(epsilon) + direction.infinite();
                    let got = profile(&part, epsilon);
                    assert!(got >= truth - 1e-14, "{direction:?} {epsilon}: {got:e} {truth:e}");
                    let point = f64::from(k) * 0.01;
                    let got = profile(&part, point);
                    let truth = direction.profile(point) + direction.infinite();
                    assert!((got - truth).abs() < 2e-12, "{direction:?} {point}: {got:e} {truth:e}");
                }
            }
        }
    }
}
