//! The dominating pair of a private selection, from the profile of one run.
//!
//! `selection/bound.rs` bounds H_{A‖A'} at ε_i = i·h ≥ 0 in both directions. This module makes loss distributions of these
//! bounds, so that selections compose with each other and with all other releases, and have Gaussian certificates.
//!
//! # From bounds to a pair
//!
//! Let x = e^ε. The curve of a direction is convex in x, falls from 1 at x = 0, and is at most D_i at x_i: the bound at ε_i ≥ 0,
//! and at −ε_i the reflection 1 − e^{−ε_i} + e^{−ε_i} D'_i of the bound of the reverse direction. At ε = 0 both directions
//! are the total variation, so the smaller bound holds for both. Hence the curve is at most the lower convex hull of the points
//! (0, 1), (x_i, D_i), and at most its last value beyond the last point.
//!
//! The hull is the profile of a finite loss distribution: Σ m_j (1 − x/x_j)⁺ + m_∞, with an atom at each vertex, of a mass
//! m_j = x_j · (slope after − slope before), and m_∞ the last value. A profile that is above that of a direction
//! dominates it, also under composition, where each direction is composed by itself (Zhu, Dong and Wang 2022).
//!
//! # Rounding
//!
//! The masses are floats, and their profile is piecewise linear in x with corners at the vertices alone. It is computed
//! again at each vertex, and the mass at infinity is raised by the greatest shortfall and by the error of the sums. So the
//! stated atoms are above the hull whatever the errors of the slopes were.

use std::cell::RefCell;
use std::collections::VecDeque;

use libm::{ceil, exp, expm1};

use super::certificate::profiles;
use super::grid::GridPart;
use super::pair::{DirectionLoss, Pair};
use super::profile::ComposedProfile;
use super::window::WindowBuffers;
use crate::selection::{RunProfiles, Runs, SelectionBound};

/// The mass that profiles of runs may leave out is a millionth of this. It counts as infinite.
const LEFT_OUT: f64 = 1e-9;
/// So improbable numbers of runs are not composed: about the round-off of a composition.
const NEGLIGIBLE: f64 = 1e-13;
/// The most runs that are composed for the second bound.
const MOST_COMPOSED: u32 = 32;
/// The most selections whose pairs are kept.
const MOST_KEPT: usize = 16;

/// A selection with its pair, if it has one.
type KnownSelection = (Vec<(Pair, u64)>, Runs, Option<Pair>);

thread_local! {
    /// The pairs of the last selections: a search for the rounds that fit asks many times for the same one.
    static KNOWN: RefCell<VecDeque<KnownSelection>> = const { RefCell::new(VecDeque::new()) };
}

impl Pair {
    /// Returns a pair that dominates the best of a number of runs of all `pairs` together, by any score that the runs
    /// themselves release; `None` when the losses of one run do not fit on a grid.
    pub(super) fn selected(pairs: &[(Self, u64)], runs: Runs) -> Option<Self> {
        let is_same = |known: &&KnownSelection| known.0 == pairs && known.1 == runs;
        if let Some((.., pair)) = KNOWN.with_borrow(|known| known.iter().find(is_same).cloned()) {
            return pair;
        }
        let pair = Self::of_selection(pairs, runs);
        KNOWN.with_borrow_mut(|known| {
            known.truncate(MOST_KEPT - 1);
            known.push_front((pairs.to_vec(), runs, pair.clone()));
        });
        pair
    }

    /// Computes the pair of [`Self::selected`].
    fn of_selection(pairs: &[(Self, u64)], runs: Runs) -> Option<Self> {
        // Conjectured pairs would make a conjecture of the selection.
        let pairs: Vec<(Self, u64)> = pairs.iter().map(|(pair, count)| (pair.proved(), *count)).collect();
        let buffers = &mut WindowBuffers::default();
        let one = profiles(&pairs, LEFT_OUT, buffers)?;
        let step = one.first()?.step;
        let run = RunProfiles { step, there: &one.first()?.deltas, back: &one.last()?.deltas };
        let bound = SelectionBound::new(runs);
        let mut there = by_constant(&bound, run);
        lower(&mut there, &by_all_runs(&bound, &pairs, 0, &one[0], buffers));
        if one.len() == 1 {
            return Some(Self { directions: vec![direction(step, &there, &there); 2] });
        }
        let mut back = by_constant(&bound, run.reversed());
        lower(&mut back, &by_all_runs(&bound, &pairs, 1, &one[1], buffers));
        Some(Self { directions: vec![direction(step, &there, &back), direction(step, &back, &there)] })
    }
}

/// Returns the first bound at 0, h, 2h, ..., until it no longer falls.
fn by_constant(bound: &SelectionBound, run: RunProfiles<'_>) -> Vec<f64> {
    let shift = bound.ln_ratio(|t| run.most_above(t));
    let last = run.there.len() as f64 + ceil((shift / run.step).min(run.there.len() as f64));
    let at = |i: usize| bound.hit(run.there_at(i as f64 * run.step - shift));
    let mut deltas: Vec<f64> = (0..=last as usize).map(at).collect();
    let least = deltas[deltas.len() - 1];
    let enough = deltas.iter().position(|delta| *delta <= 1.5 * least);
    deltas.truncate(enough.map_or(usize::MAX, |last| last + 1));
    deltas
}

/// Returns the second bound at 0, h, 2h, ....
fn by_all_runs(
    bound: &SelectionBound,
    pairs: &[(Pair, u64)],
    direction: usize,
    one: &ComposedProfile,
    buffers: &mut WindowBuffers,
) -> Vec<f64> {
    let steps: f64 = pairs.iter().map(|(_, count)| *count as f64).sum();
    let tail = LEFT_OUT * 1e-6 / (steps + 1.0);
    let part = |(pair, count): &(Pair, u64)| GridPart::new(&pair.directions[direction], one.step, tail, *count);
    // The grid of one run holds these parts, so they fit.
    let Some(parts) = pairs.iter().map(part).collect::<Option<Vec<GridPart>>>() else { return vec![1.0] };
    let mut sum: Vec<f64> = one.deltas.iter().map(|delta| bound.probability(1) * delta).collect();
    let mut last = 1;
    for k in 2..=MOST_COMPOSED {
        if bound.beyond(last) <= NEGLIGIBLE {
            break;
        }
        let copies = parts.iter().map(|part| part.repeated(k)).collect::<Vec<_>>();
        let Some(profile) = ComposedProfile::new(&copies, LEFT_OUT * 1e-6, buffers) else { break };
        add_weighted(&mut sum, &profile.deltas, bound.probability(k));
        last = k;
    }
    let beyond = bound.beyond(last);
    for delta in &mut sum {
        *delta += beyond;
    }
    sum
}

/// Adds the weighted values of another curve. Each curve stays at its last value.
fn add_weighted(sum: &mut Vec<f64>, deltas: &[f64], weight: f64) {
    let last = sum[sum.len() - 1];
    sum.resize(sum.len().max(deltas.len()), last);
    let end = deltas[deltas.len() - 1];
    for (i, sum) in sum.iter_mut().enumerate() {
        *sum += weight * deltas.get(i).unwrap_or(&end);
    }
}

/// Lowers the first curve to the second where that is lower. The second stays at its last value.
fn lower(deltas: &mut [f64], other: &[f64]) {
    let end = other[other.len() - 1];
    for (i, delta) in deltas.iter_mut().enumerate() {
        *delta = delta.min(*other.get(i).unwrap_or(&end));
    }
}

/// A corner of a hull: ε, x = e^ε, and the value there.
#[derive(Debug, Clone, Copy)]
struct HullPoint {
    epsilon: f64,
    x: f64,
    value: f64,
}

impl HullPoint {
    fn slope_to(self, next: Self) -> f64 {
        (next.value - self.value) / (next.x - self.x)
    }
}

/// Returns the loss distribution whose profile is above the bounds `there`, and the reflection of `back`.
fn direction(step: f64, there: &[f64], back: &[f64]) -> DirectionLoss {
    let hull = hull(step, there, back);
    let last = hull[hull.len() - 1];
    // The first point is x = 0, where each profile is 1.
    let slope = |j: usize| hull.get(j + 1).map_or(0.0, |next| hull[j].slope_to(*next));
    let atom = |j: usize| (hull[j].epsilon, (hull[j].x * (slope(j) - slope(j - 1))).max(0.0));
    let mut atoms: Vec<(f64, f64)> = (1..hull.len()).map(atom).collect();
    let rest = 1.0 - last.value - atoms.iter().map(|(_, mass)| mass).sum::<f64>();
    atoms[0].1 += rest.max(0.0);
    // Descends as the profiles of windows do: mass above, and that mass under Q times e^ε.
    let (mut mass, mut shrunk, mut shortfall, mut above) = (0.0, 0.0, 0.0f64, last.epsilon);
    for (point, (epsilon, atom)) in hull[1..].iter().zip(&atoms).rev() {
        shrunk *= exp(epsilon - above);
        shortfall = shortfall.max(point.value - (last.value + (mass - shrunk)));
        mass += atom;
        shrunk += atom;
        above = *epsilon;
    }
    let infinite = (last.value + shortfall + 8.0 * f64::EPSILON * (atoms.len() as f64 + 16.0)).min(1.0);
    atoms.retain(|(_, mass)| *mass > 0.0);
    DirectionLoss::Finite { atoms, infinite, is_smooth: true }
}

/// Returns the lower convex hull of the bounds, with the point (0, 1) first.
fn hull(step: f64, there: &[f64], back: &[f64]) -> Vec<HullPoint> {
    let start = HullPoint { epsilon: f64::NEG_INFINITY, x: 0.0, value: 1.0 };
    let below = back.iter().enumerate().skip(1).rev().map(|(i, delta)| {
        let epsilon = -(i as f64 * step);
        HullPoint { epsilon, x: exp(epsilon), value: -expm1(epsilon) + exp(epsilon) * delta }
    });
    let above = there.iter().enumerate().map(|(i, delta)| {
        let epsilon = i as f64 * step;
        HullPoint { epsilon, x: exp(epsilon), value: if i == 0 { delta.min(back[0]) } else { *delta } }
    });
    let mut hull = vec![start];
    let mut least = 1.0f64;
    for mut point in below.chain(above) {
        least = least.min(point.value);
        point.value = least;
        while let [.., before, last] = hull.as_slice()
            && before.slope_to(*last) >= last.slope_to(point)
        {
            hull.pop();
        }
        hull.push(point);
    }
    hull
}

#[cfg(test)]
mod tests;
