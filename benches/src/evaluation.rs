//! The accuracy and the intervals of a private evaluation: simulated consortia of three sites, with the product's own
//! contributions, clip, exact noise and post-processing.
//!
//! The scores of positives and negatives are normal with a distance that gives the AUROC, so every metric has a known
//! value; the model reports their logit, too confident by a factor. Each unit is positive with probability one in ten:
//! 1,000 positives and 9,000 negatives are expected at each site. `coverage` is the share of 95 % intervals that contain
//! the value of the whole population; `auroc_rmse` the deviation of the AUROC from it, so it includes the sampling of the
//! test sets; `auroc_noise_rmse` that from the exact AUROC of the same units, without bins and noise.
//!
//! The first figures are those of an AUROC of 0.9, `other_populations` those of 0.8 and 0.95.
//!
//! `UNDERTONE_EVALUATION_CONSORTIA` sets the number of consortia.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde_json::{Value, json};
use undertone_api::dataset::Visibility;
use undertone_api::id::DatasetId;
use undertone_api::job::evaluation::{
    CalibrationGroup, MetricEstimate, Party, ScoreBins, ScoredExample, Spec, to_probability,
};
use undertone_privacy::gaussian::GaussianProfile;
use undertone_privacy::special::{normal_quantile, normal_tail};
use undertone_privacy::{Delta, Epsilon, NoiseMultiplier, PrivacyUnit};
use undertone_worker::dp::histograms::HistogramSum;
use undertone_worker::dp::randomness::{Purpose, Randomness};
use undertone_worker::site::clearance::Clearance;
use undertone_worker::site::gate;
use undertone_worker::site::policy::{DatasetRules, Policy, declare};
use uuid::Uuid;

use crate::report::{Outcome, Report};

const SITES: u32 = 3;
const UNITS: usize = 10_000;
const PREVALENCE: f64 = 0.1;
const EPSILON: f64 = 1.0;
const DELTA: f64 = 1e-6;
/// The factor by which reported logits are too large.
const OVERCONFIDENCE: f64 = 1.5;
const SPECIFICITIES: [f64; 3] = [0.8, 0.9, 0.95];
/// Half of the axis on which integrals are computed.
const RANGE: f64 = 12.0;

pub(crate) fn run(report: &mut Report) -> Outcome {
    let consortia = match std::env::var("UNDERTONE_EVALUATION_CONSORTIA") {
        Ok(text) => text.parse()?,
        Err(_) => 1000,
    };
    let rules = public_rules()?;
    let mut lines = Vec::new();
    for auroc in [0.9, 0.8, 0.95] {
        let population = ScorePopulation::new(auroc);
        let started = Instant::now();
        let mut summary = MetricSummary::default();
        for consortium in 0..consortia {
            simulate(consortium, &population, &rules, &mut summary)?;
        }
        lines.push(summary.describe(auroc, started.elapsed()));
    }
    let mut figures = lines.remove(0);
    figures["sites"] = json!(SITES);
    figures["units"] = json!(UNITS);
    figures["expected_positives"] = json!(UNITS as f64 * PREVALENCE);
    figures["expected_negatives"] = json!(UNITS as f64 * (1.0 - PREVALENCE));
    figures["consortia"] = json!(consortia);
    figures["epsilon"] = json!(EPSILON);
    figures["delta"] = json!(DELTA);
    figures["noise_multiplier"] = json!(spec()?.noise_multiplier);
    figures["bins"] = json!(ScoreBins::default());
    figures["overconfidence"] = json!(OVERCONFIDENCE);
    figures["other_populations"] = json!(lines);
    report.line(figures)
}

/// The known law of the scores.
struct ScorePopulation {
    /// The distance of the means of positives and negatives, in deviations.
    distance: f64,
    auroc: f64,
}

impl ScorePopulation {
    fn new(auroc: f64) -> Self {
        Self { distance: std::f64::consts::SQRT_2 * normal_quantile(auroc), auroc }
    }

    /// Returns the reported logit at a place of the axis.
    fn logit(&self, place: f64) -> f64 {
        OVERCONFIDENCE * (self.distance * place + (PREVALENCE / (1.0 - PREVALENCE)).ln())
    }

    /// Returns the place of a reported logit.
    fn place(&self, logit: f64) -> f64 {
        (logit / OVERCONFIDENCE - (PREVALENCE / (1.0 - PREVALENCE)).ln()) / self.distance
    }

    /// Returns the share of the positives above a place.
    fn sensitivity(&self, place: f64) -> f64 {
        normal_tail(place - 0.5 * self.distance)
    }

    /// Returns the share of the negatives above a place.
    fn false_alarms(&self, place: f64) -> f64 {
        normal_tail(place + 0.5 * self.distance)
    }

    fn accuracy(&self) -> f64 {
        let place = self.place(0.0);
        PREVALENCE * self.sensitivity(place) + (1.0 - PREVALENCE) * (1.0 - self.false_alarms(place))
    }

    /// Returns the area under the precision-recall curve, by the midpoint rule.
    fn pr_auc(&self) -> f64 {
        const STEPS: u32 = 20_000;
        let edge = |step: u32| 2.0 * RANGE * f64::from(step) / f64::from(STEPS) - RANGE;
        let part = |step: u32| {
            let recall = self.sensitivity(edge(step)) - self.sensitivity(edge(step + 1));
            let place = 0.5 * (edge(step) + edge(step + 1));
            let hits = PREVALENCE * self.sensitivity(place);
            let selected = hits + (1.0 - PREVALENCE) * self.false_alarms(place);
            if selected > 0.0 { recall * hits / selected } else { 0.0 }
        };
        (0..STEPS).map(part).sum()
    }

    /// Returns the calibration error over the groups of a report.
    fn calibration_error(&self, groups: &[CalibrationGroup], bins: ScoreBins) -> f64 {
        const STEPS: u32 = 400;
        let excess = |group: &CalibrationGroup| {
            let low = if group.first_bin == 0 { -RANGE } else { self.place(bins.edge(group.first_bin as usize)) };
            let last = group.last_bin as usize + 1;
            let high = if last == bins.len() { RANGE } else { self.place(bins.edge(last)) };
            let (low, high) = (low.clamp(-RANGE, RANGE), high.clamp(-RANGE, RANGE));
            let edge = |step: u32| low + (high - low) * f64::from(step) / f64::from(STEPS);
            let part = |step: u32| {
                let from = edge(step);
                let to = edge(step + 1);
                let score = to_probability(self.logit(0.5 * (from + to)));
                let positives = PREVALENCE * (self.sensitivity(from) - self.sensitivity(to));
                let negatives = (1.0 - PREVALENCE) * (self.false_alarms(from) - self.false_alarms(to));
                positives * (1.0 - score) - negatives * score
            };
            (0..STEPS).map(part).sum::<f64>().abs()
        };
        groups.iter().map(excess).sum()
    }

    /// Returns the sensitivity at a specificity.
    fn operating_point(&self, specificity: f64) -> f64 {
        self.sensitivity(normal_quantile(specificity) - 0.5 * self.distance)
    }
}

/// The errors of one metric.
#[derive(Debug, Clone, Copy, Default)]
struct MetricTally {
    count: f64,
    covered: f64,
    sum: f64,
    square: f64,
}

/// The errors of all metrics.
#[derive(Debug, Default)]
struct MetricSummary {
    metrics: BTreeMap<String, MetricTally>,
    noise_square: f64,
    missing: u32,
}

impl MetricSummary {
    /// Returns the figures of a population; `coverage` and `auroc_rmse` are those of the AUROC.
    fn describe(&self, auroc: f64, duration: Duration) -> Value {
        let coverage = |tally: &MetricTally| tally.covered / tally.count;
        let describe = |(name, tally): (&String, &MetricTally)| {
            let rmse = (tally.square / tally.count).sqrt();
            let figures = json!({ "coverage": coverage(tally), "rmse": rmse, "bias": tally.sum / tally.count });
            (name.clone(), figures)
        };
        let area = self.metrics.get("auroc").copied().unwrap_or_default();
        let least = self.metrics.values().map(coverage).fold(1.0, f64::min);
        let greatest = self.metrics.values().map(coverage).fold(0.0, f64::max);
        json!({
            "auroc": auroc,
            "coverage": coverage(&area),
            "least_coverage": least,
            "greatest_coverage": greatest,
            "auroc_rmse": (area.square / area.count).sqrt(),
            "auroc_noise_rmse": (self.noise_square / area.count).sqrt(),
            "metrics": self.metrics.iter().map(describe).collect::<BTreeMap<_, _>>(),
            "without_metrics": self.missing,
            "seconds": duration.as_secs_f64(),
        })
    }

    fn add(&mut self, name: &str, estimate: MetricEstimate, truth: f64) {
        let tally = self.metrics.entry(name.to_owned()).or_default();
        let error = estimate.value - truth;
        tally.count += 1.0;
        tally.covered += f64::from(u8::from(estimate.covers(truth)));
        tally.sum += error;
        tally.square += error * error;
    }
}

/// Returns the spec of every simulated consortium: the least noise with which one release has the ε.
fn spec() -> Result<Spec, Box<dyn std::error::Error>> {
    let profile = GaussianProfile::largest(Epsilon::new(EPSILON)?, Delta::new(DELTA)?);
    Ok(Spec {
        unit: PrivacyUnit::Record,
        model: "0".repeat(64),
        columns: None,
        participants: (0..=u128::from(SITES)).map(|id| Party { dataset: DatasetId(Uuid::from_u128(id)) }).collect(),
        classes: vec![1],
        noise_multiplier: NoiseMultiplier::new(1.0 / profile.mu())?,
        accuracy: false,
        bins: ScoreBins::default(),
        specificities: SPECIFICITIES.to_vec(),
        quorum: SITES,
        deadline_seconds: 3600,
    })
}

/// Simulated units are no one's data.
fn public_rules() -> Result<DatasetRules, Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("policy.toml");
    declare(&path, "simulated", Visibility::Public)?;
    Ok(Policy::load(&path)?.rules("simulated"))
}

/// Returns a standard normal number (Box and Muller 1958).
fn draw_normal(rng: &mut ChaCha20Rng) -> f64 {
    let first = draw_uniform(rng);
    let second = draw_uniform(rng);
    (-2.0 * (1.0 - first).ln()).sqrt() * (std::f64::consts::TAU * second).cos()
}

fn draw_uniform(rng: &mut ChaCha20Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

fn simulate(
    consortium: u64,
    population: &ScorePopulation,
    rules: &DatasetRules,
    summary: &mut MetricSummary,
) -> Outcome {
    let spec = spec()?;
    let mut sums = vec![0.0; spec.histograms().layout().length()];
    let mut scores: Vec<(f64, bool)> = Vec::with_capacity(SITES as usize * UNITS);
    let mut rng = ChaCha20Rng::seed_from_u64(consortium);
    for _ in 0..SITES {
        let mut sum = HistogramSum::begin(&spec.histograms(), UNITS, &Randomness::from_os(Purpose::Sampling))?;
        let mut contribution = vec![0.0; sum.layout().length()];
        for _ in 0..UNITS {
            let is_positive = draw_uniform(&mut rng) < PREVALENCE;
            let center = if is_positive { 0.5 } else { -0.5 } * population.distance;
            let logit = population.logit(center + draw_normal(&mut rng));
            scores.push((logit, is_positive));
            contribution.fill(0.0);
            let label = is_positive.then_some(0);
            let example = ScoredExample { logits: &[logit], label, is_correct: (logit > 0.0) == is_positive };
            sum.layout().add_example(example, 1.0, &mut contribution);
            sum.add(&contribution);
        }
        let clearance = Clearance::Public(gate::prove_public(rules)?);
        let release = sum.into_sum().release(1.0, clearance, &Randomness::from_os(Purpose::Noise))?;
        sums.iter_mut().zip(release.vector()).for_each(|(sum, value)| *sum += f64::from(*value));
    }
    let report = spec.report(&sums, SITES)?;
    let Some(metrics) = report.classes.into_iter().next().and_then(|class| class.metrics) else {
        summary.missing += 1;
        return Ok(());
    };
    summary.add("accuracy", metrics.accuracy, population.accuracy());
    summary.add("auroc", metrics.auroc, population.auroc);
    if let Some(area) = metrics.pr_auc {
        summary.add("pr_auc", area, population.pr_auc());
    }
    let truth = population.calibration_error(&metrics.calibration, spec.bins);
    summary.add("calibration_error", metrics.calibration_error, truth);
    for point in &metrics.operating_points {
        let truth = population.operating_point(point.specificity);
        summary.add(&format!("sensitivity_at_{}", point.specificity), point.sensitivity, truth);
    }
    let error = metrics.auroc.value - exact_auroc(scores);
    summary.noise_square += error * error;
    Ok(())
}

/// Returns the Mann-Whitney statistic of scores without ties.
fn exact_auroc(mut scores: Vec<(f64, bool)>) -> f64 {
    scores.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut negatives = 0.0;
    let mut positives = 0.0;
    let mut pairs = 0.0;
    for (_, is_positive) in scores {
        if is_positive {
            positives += 1.0;
            pairs += negatives;
        } else {
            negatives += 1.0;
        }
    }
    pairs / (positives * negatives)
}
