//! Refinement of the grid until the answer is stable; coarser grids where round-off dominates.

use libm::log;

use super::PldError;
use super::grid::GridPart;
use super::moments::{moments, surely_meets, tilt_for_delta, tilt_for_epsilon};
use super::pair::{DirectionLoss, Pair};
use super::window::{AnswerPosition, TiltedWindow, WindowBuffers};

/// The requested quantity of a plan.
#[derive(Clone, Copy)]
pub(super) enum PlanQuestion {
    /// The least ε at this δ.
    Epsilon(f64),
    /// The least δ at this ε.
    Delta(f64),
}

impl PlanQuestion {
    /// Returns the size below which answers need no more digits.
    const fn trifle(self) -> f64 {
        match self {
            Self::Epsilon(_) => 1e-6,
            Self::Delta(_) => 1e-18,
        }
    }
}

/// One direction of the neighbouring relation, on a grid.
struct PlanDirection<'a> {
    pairs: &'a [(Pair, u64)],
    direction: usize,
    losses: Vec<&'a DirectionLoss>,
    parts: Vec<GridPart>,
    /// The tilt of the previous grid.
    theta: Option<f64>,
}

/// Returns the worse direction's answer, rounded up; `None` when there is no finite one.
pub(super) fn worst(pairs: &[(Pair, u64)], question: PlanQuestion) -> Result<Option<f64>, PldError> {
    let workshop = &mut WindowBuffers::default();
    let (mut there, first) = PlanDirection::coarse(pairs, 0, question, first_step(pairs), workshop)?;
    let Some(first) = there.refine(question, first, workshop) else { return Ok(None) };
    if pairs.iter().all(|(pair, _)| pair.symmetric()) {
        return Ok(Some(first));
    }
    let step = there.parts[0].step;
    if let (PlanQuestion::Epsilon(delta), Some(back)) = (question, PlanDirection::new(pairs, 1, question, step))
        && surely_meets(&back.parts, first, delta, there.theta.unwrap_or(1.0))
    {
        return Ok(Some(first));
    }
    let (mut back, second) = PlanDirection::coarse(pairs, 1, question, step, workshop)?;
    Ok(match second {
        // The grid was fine enough for the worse direction, so the answer of the better one is final.
        Some(second) if second <= first => Some(first),
        second => back.refine(question, second, workshop).map(|second| second.max(first)),
    })
}

/// Returns the first spacing. Connect-the-dots adds about h²/6 to the variance of every step, so a tenth of the steps'
/// standard deviation costs a thousandth or so of ε, and the first halving a quarter of that.
fn first_step(pairs: &[(Pair, u64)]) -> f64 {
    let (mut variance, mut steps) = (0.0, 0.0);
    for (pair, count) in pairs {
        let spread = pair.directions[0].spread();
        variance += *count as f64 * spread * spread;
        steps += *count as f64;
    }
    (0.1 * (variance / steps).sqrt()).clamp(1e-5, 0.25)
}

impl<'a> PlanDirection<'a> {
    /// Computes every part on a grid of this spacing; `None` when that takes too many points.
    fn new(pairs: &'a [(Pair, u64)], direction: usize, question: PlanQuestion, step: f64) -> Option<Self> {
        let steps: u64 = pairs.iter().map(|(_, count)| *count).sum();
        let delta = if let PlanQuestion::Epsilon(delta) = question { delta } else { 1e-12 };
        let tail = delta * 1e-6 / (steps as f64 + 1.0);
        let losses: Vec<_> =
            pairs.iter().map(|(pair, _)| pair.directions.get(direction).unwrap_or(&pair.directions[0])).collect();
        let parts = losses.iter().zip(pairs).map(|(loss, (_, count))| GridPart::new(loss, step, tail, *count));
        Some(Self { pairs, direction, parts: parts.collect::<Option<_>>()?, losses, theta: None })
    }

    /// Computes a first answer, on the finest computable grid from `step` up.
    fn coarse(
        pairs: &'a [(Pair, u64)],
        direction: usize,
        question: PlanQuestion,
        mut step: f64,
        workshop: &mut WindowBuffers,
    ) -> Result<(Self, Option<f64>), PldError> {
        while step < 16.0 {
            if let Some(mut side) = Self::new(pairs, direction, question, step)
                && let Ok(answer) = side.answer(question, workshop)
            {
                return Ok((side, answer));
            }
            step *= 4.0;
        }
        Err(PldError::TooWide)
    }

    /// Halves the grid until the answer changes by less than a thousandth; where the grid is already too fine, tries
    /// coarser ones. Every answer is valid, so the least is kept.
    fn refine(&mut self, question: PlanQuestion, mut best: Option<f64>, workshop: &mut WindowBuffers) -> Option<f64> {
        for _ in 0..12 {
            let finer = self.parts.iter().zip(&self.losses).map(|(part, loss)| part.halved(loss));
            let Some(parts) = finer.collect::<Option<Vec<_>>>() else {
                return self.coarsen(question, best, workshop);
            };
            let coarser = std::mem::replace(&mut self.parts, parts);
            match (best, self.answer(question, workshop)) {
                (Some(before), Ok(Some(after))) if before >= after => {
                    best = Some(after);
                    if before - after <= 1e-3 * after.max(question.trifle()) {
                        break;
                    }
                }
                // On too fine a grid the round-off of all its points exceeds the gain.
                (Some(_), Ok(Some(_))) | (_, Err(_)) => {
                    self.parts = coarser;
                    return self.coarsen(question, best, workshop);
                }
                (before, Ok(after)) => best = after.or(before),
            }
        }
        best
    }

    /// Quadruples the spacing, as long as that lowers the answer.
    fn coarsen(&mut self, question: PlanQuestion, mut best: Option<f64>, workshop: &mut WindowBuffers) -> Option<f64> {
        let mut step = self.parts[0].step;
        while step < 1.0 {
            step *= 4.0;
            let Some(mut side) = Self::new(self.pairs, self.direction, question, step) else { break };
            match side.answer(question, workshop) {
                Ok(Some(answer)) if best.is_none_or(|best| answer < best) => best = Some(answer),
                _ => break,
            }
            *self = side;
        }
        best
    }

    fn answer(&mut self, question: PlanQuestion, workshop: &mut WindowBuffers) -> Result<Option<f64>, PldError> {
        match question {
            PlanQuestion::Epsilon(delta) => self.epsilon(delta, workshop),
            PlanQuestion::Delta(epsilon) => self.delta(epsilon, workshop).map(Some),
        }
    }

    /// Returns the ε at δ; `None` when the mass at infinity is above δ.
    fn epsilon(&mut self, delta: f64, workshop: &mut WindowBuffers) -> Result<Option<f64>, PldError> {
        let mut theta = self.theta.unwrap_or_else(|| tilt_for_delta(&self.parts, log(delta)));
        let mut answer = Err(PldError::TooWide);
        for _ in 0..4 {
            let window = TiltedWindow::new(&self.parts, theta, delta, workshop).ok_or(PldError::TooWide)?;
            match window.epsilon(delta) {
                AnswerPosition::Never => return Ok(None),
                AnswerPosition::Below => theta *= 0.5,
                AnswerPosition::At(epsilon) => {
                    answer = Ok(Some(epsilon));
                    self.theta = Some(theta);
                    if epsilon <= 0.0 || window.holds(epsilon) {
                        break;
                    }
                    // A window centred elsewhere loses digits, never validity: compute again with the window at the
                    // answer.
                    theta = tilt_for_epsilon(&self.parts, epsilon, theta);
                }
            }
        }
        answer
    }

    /// Returns the δ at ε.
    fn delta(&mut self, epsilon: f64, workshop: &mut WindowBuffers) -> Result<f64, PldError> {
        let mut theta = tilt_for_epsilon(&self.parts, epsilon, self.theta.unwrap_or(1.0));
        for _ in 0..4 {
            self.theta = Some(theta);
            let about = moments(&self.parts, theta).ln_delta(theta, self.parts[0].step);
            let window = TiltedWindow::new(&self.parts, theta, libm::exp(about), workshop).ok_or(PldError::TooWide)?;
            // Above the window there is only the infinite mass.
            if let Some(delta) = window.delta(epsilon) {
                return Ok(delta);
            }
            // ε is below the window: the tilt was too strong.
            theta *= 0.5;
        }
        Ok(1.0)
    }
}
