//! Membership inference against the finished model, on made-up recordings only: what an attack shows of people's recordings
//! would be a release of theirs.

use undertone_api::job::audit::{Attack, Method, OperatingPoint};

use super::canary::Recordings;
use crate::run::dp_sgd::go_on;
use crate::run::{Exchange, RunError};
use crate::speech::model::Model;
use crate::speech::model::gradient::{Engine, Unit};

/// Rates of false alarms aimed at.
const AIMED: [f64; 2] = [0.001, 0.01];

/// The models an attacker has.
pub(super) struct Models<'a> {
    /// Of before the rounds: it has seen public data only.
    pub(super) start: &'a Model,
    /// After the last.
    pub(super) end: &'a Model,
}

/// What an attacker sees of the canaries.
pub(super) struct Seen {
    losses: Scores,
    /// The scores of the likelihood ratio, in the order of the coins.
    pub(super) likelihood_ratios: Vec<f64>,
    shadow_ratios: Vec<f64>,
}

/// Higher says "in".
struct Scores {
    canaries: Vec<f64>,
    shadows: Vec<f64>,
}

/// Looks at every canary and every shadow with both models.
///
/// # Errors
/// [`RunError::Stopped`] when the exchange says so.
pub(super) fn look(
    recordings: &Recordings,
    models: &Models<'_>,
    engine: &mut Engine,
    exchange: &dyn Exchange,
) -> Result<Seen, RunError> {
    let mut losses = |model: &Model, units: Vec<Unit<'_>>| -> Result<Vec<f64>, RunError> {
        let one = |unit: &Unit<'_>| {
            go_on(exchange)?;
            Ok(engine.score(model, unit).mean_loss())
        };
        units.iter().map(one).collect()
    };
    let canaries =
        (losses(models.start, recordings.canaries().collect())?, losses(models.end, recordings.canaries().collect())?);
    let shadows =
        (losses(models.start, recordings.shadows().collect())?, losses(models.end, recordings.shadows().collect())?);
    let fit = Fit::of(&shadows.0, &shadows.1);
    let ratios = |(start, end): &(Vec<f64>, Vec<f64>)| start.iter().zip(end).map(|(s, e)| fit.score(*s, *e)).collect();
    let likelihood_ratios = ratios(&canaries);
    let shadow_ratios = ratios(&shadows);
    let low = |losses: Vec<f64>| losses.into_iter().map(|loss| -loss).collect();
    Ok(Seen { losses: Scores { canaries: low(canaries.1), shadows: low(shadows.1) }, likelihood_ratios, shadow_ratios })
}

impl Seen {
    /// The attacks, held against the coins; none without canaries.
    pub(super) fn attacks(self, coins: &[bool]) -> Vec<Attack> {
        if coins.is_empty() {
            return Vec::new();
        }
        let ratios = Scores { canaries: self.likelihood_ratios, shadows: self.shadow_ratios };
        [(Method::LossThreshold, self.losses), (Method::LikelihoodRatio, ratios)]
            .into_iter()
            .map(|(method, scores)| scores.attack(method, coins))
            .collect()
    }
}

impl Scores {
    fn attack(&self, method: Method, coins: &[bool]) -> Attack {
        let of = |is_in: bool| -> Vec<f64> {
            self.canaries.iter().zip(coins).filter(|(_, coin)| **coin == is_in).map(|(score, _)| *score).collect()
        };
        let (members, nonmembers) = (of(true), of(false));
        let above = |scores: &[f64], threshold: f64| scores.iter().filter(|score| **score > threshold).count() as u32;
        let points = AIMED.map(|aimed| {
            let threshold = threshold(&self.shadows, aimed);
            OperatingPoint {
                aimed,
                true_positives: above(&members, threshold),
                false_positives: above(&nonmembers, threshold),
            }
        });
        Attack {
            method,
            members: members.len() as u32,
            nonmembers: nonmembers.len() as u32,
            auc: auc(&members, &nonmembers),
            points: points.to_vec(),
        }
    }
}

/// The score that the part `aimed` of those which are never in exceed: fixed before any canary is looked at.
fn threshold(shadows: &[f64], aimed: f64) -> f64 {
    let mut sorted = shadows.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let allowed = (aimed * sorted.len() as f64).floor() as usize;
    sorted.get(allowed).copied().unwrap_or(f64::INFINITY)
}

/// Chance that a member scores higher than a non-member, ties by half; ½ when there is nobody to compare.
fn auc(members: &[f64], nonmembers: &[f64]) -> f64 {
    if members.is_empty() || nonmembers.is_empty() {
        return 0.5;
    }
    let wins = |member: &f64| -> f64 {
        let won = |other: &f64| match member.total_cmp(other) {
            std::cmp::Ordering::Greater => 1.0,
            std::cmp::Ordering::Equal => 0.5,
            std::cmp::Ordering::Less => 0.0,
        };
        nonmembers.iter().map(won).sum()
    };
    members.iter().map(wins).sum::<f64>() / (members.len() * nonmembers.len()) as f64
}

/// ln(p/(1 − p)) for p = e^{−loss}: the scale on which confidences are about normal (Carlini et al. 2022).
fn logit(loss: f64) -> f64 {
    let loss = loss.max(1e-9);
    -loss - (-(-loss).exp_m1()).ln()
}

/// How the finished model sees what was never in, as a function of how the first one saw it: a line and its scatter.
struct Fit {
    slope: f64,
    offset: f64,
    scatter: f64,
}

impl Fit {
    /// Least squares over the shadows.
    fn of(start: &[f64], end: &[f64]) -> Self {
        let pairs: Vec<(f64, f64)> = start.iter().zip(end).map(|(s, e)| (logit(*s), logit(*e))).collect();
        let n = pairs.len().max(1) as f64;
        let mean = |of: &dyn Fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / n;
        let (x, y) = (mean(&|pair| pair.0), mean(&|pair| pair.1));
        let spread = mean(&|pair| (pair.0 - x).powi(2));
        let slope = if spread > 0.0 { mean(&|pair| (pair.0 - x) * (pair.1 - y)) / spread } else { 0.0 };
        let offset = y - slope * x;
        let scatter = mean(&|pair| (pair.1 - offset - slope * pair.0).powi(2)).sqrt().max(1e-12);
        Self { slope, offset, scatter }
    }

    /// How many deviations above what was to be expected of one that is not in: orders canaries as the offline likelihood
    /// ratio does, which is a growing function of it.
    fn score(&self, start: f64, end: f64) -> f64 {
        (logit(end) - self.offset - self.slope * logit(start)) / self.scatter
    }
}
