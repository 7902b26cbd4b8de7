//! Membership inference against the finished model, on synthetic recordings only: an attack's result on people's
//! recordings would be a release of theirs.

use undertone_api::job::audit::{AttackMethod, MembershipAttack, OperatingPoint};
use undertone_privacy::audit::SHOWN;
use undertone_privacy::membership::{Auc, threshold};

use super::canary::SyntheticRecordings;
use crate::run::{RunContext, RunError, check_cancelled};
use crate::speech::model::Model;
use crate::speech::model::gradient::{Engine, Unit};

/// The target rates of false alarms.
const AIMED: [f64; 2] = [0.001, 0.01];

/// A model's losses on the canaries, and on shadows that are never members.
pub(super) struct ModelLosses {
    /// Mean losses.
    canaries: Vec<f64>,
    shadows: Vec<f64>,
}

/// Computes the losses of every canary and every shadow under a finished model. It accepts [`SyntheticRecordings`]
/// only, which are random ([`SyntheticRecordings::make`] takes no person's data), so the result concerns no person.
///
/// # Errors
/// [`RunError::Stopped`] when the exchange is stopped.
pub(super) fn compute_losses(
    recordings: &SyntheticRecordings,
    model: &Model,
    engine: &mut Engine,
    exchange: &dyn RunContext,
) -> Result<ModelLosses, RunError> {
    let mut losses = |units: Vec<Unit<'_>>| -> Result<Vec<f64>, RunError> {
        let loss = |unit: &Unit<'_>| {
            check_cancelled(exchange)?;
            Ok(engine.score(model, unit).mean_loss())
        };
        units.iter().map(loss).collect()
    };
    let canaries = losses(recordings.canaries().collect())?;
    let shadows = losses(recordings.shadows().collect())?;
    Ok(ModelLosses { canaries, shadows })
}

impl ModelLosses {
    /// Returns the attack that predicts membership from a low loss.
    pub(super) fn attack(&self, series: Option<&String>, coins: &[bool]) -> MembershipAttack {
        let low = |losses: &[f64]| losses.iter().map(|loss| -loss).collect();
        let canaries = low(&self.canaries);
        let shadows = low(&self.shadows);
        MembershipScores { method: AttackMethod::LossThreshold, canaries, shadows }.attack(series, coins)
    }

    /// Returns the excess of the model's confidence over its expectation from the earlier model.
    pub(super) fn excess_over(&self, start: &Self) -> MembershipScores {
        let fit = ShadowFit::fit(&start.shadows, &self.shadows);
        let ratios = |start: &[f64], end: &[f64]| start.iter().zip(end).map(|(s, e)| fit.score(*s, *e)).collect();
        MembershipScores {
            method: AttackMethod::LikelihoodRatio,
            canaries: ratios(&start.canaries, &self.canaries),
            shadows: ratios(&start.shadows, &self.shadows),
        }
    }
}

/// Scores; a higher one predicts membership.
pub(super) struct MembershipScores {
    method: AttackMethod,
    canaries: Vec<f64>,
    shadows: Vec<f64>,
}

impl MembershipScores {
    /// Returns the canaries' scores in the order of the coins.
    pub(super) fn canaries(&self) -> &[f64] {
        &self.canaries
    }

    /// Evaluates the attack on the model of a series against the coins; `None` for the audited series.
    pub(super) fn attack(&self, series: Option<&String>, coins: &[bool]) -> MembershipAttack {
        let scores = |is_member: bool| -> Vec<f64> {
            let pairs = self.canaries.iter().zip(coins);
            pairs.filter(|(_, coin)| **coin == is_member).map(|(score, _)| *score).collect()
        };
        let members = scores(true);
        let nonmembers = scores(false);
        let above = |scores: &[f64], threshold: f64| scores.iter().filter(|score| **score > threshold).count() as u32;
        let points = AIMED.map(|aimed| {
            // The threshold is fixed before any canary is evaluated.
            let threshold = threshold(&self.shadows, aimed);
            OperatingPoint {
                aimed,
                true_positives: above(&members, threshold),
                false_positives: above(&nonmembers, threshold),
            }
        });
        let auc = Auc::of(&members, &nonmembers);
        MembershipAttack {
            series: series.cloned(),
            method: self.method,
            members: members.len() as u32,
            nonmembers: nonmembers.len() as u32,
            // If one side is empty, there is nothing to distinguish.
            auc: auc.map_or(0.5, Auc::value),
            auc_interval: auc.map(|auc| auc.interval(SHOWN).into()),
            points: points.to_vec(),
        }
    }
}

/// Returns ln(p/(1 − p)) for p = e^{−loss}: the scale on which confidences are about normal (Carlini et al. 2022).
fn logit(loss: f64) -> f64 {
    let loss = loss.max(1e-9);
    -loss - (-(-loss).exp_m1()).ln()
}

/// The finished model's view of nonmembers as a function of the first model's: a line and its scatter.
struct ShadowFit {
    slope: f64,
    offset: f64,
    scatter: f64,
}

impl ShadowFit {
    /// Fits by least squares over the shadows.
    fn fit(start: &[f64], end: &[f64]) -> Self {
        let pairs: Vec<(f64, f64)> = start.iter().zip(end).map(|(s, e)| (logit(*s), logit(*e))).collect();
        let n = pairs.len().max(1) as f64;
        let mean = |value: &dyn Fn(&(f64, f64)) -> f64| pairs.iter().map(value).sum::<f64>() / n;
        let x = mean(&|pair| pair.0);
        let y = mean(&|pair| pair.1);
        let spread = mean(&|pair| (pair.0 - x).powi(2));
        let slope = if spread > 0.0 { mean(&|pair| (pair.0 - x) * (pair.1 - y)) / spread } else { 0.0 };
        let offset = y - slope * x;
        let scatter = mean(&|pair| (pair.1 - offset - slope * pair.0).powi(2)).sqrt().max(1e-12);
        Self { slope, offset, scatter }
    }

    /// Returns the number of deviations above the expectation for a nonmember. It orders canaries as the offline
    /// likelihood ratio does, which is an increasing function of it.
    fn score(&self, start: f64, end: f64) -> f64 {
        (logit(end) - self.offset - self.slope * logit(start)) / self.scatter
    }
}
