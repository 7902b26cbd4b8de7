//! Membership inference on the real members by the experimenter, who has all the data. The product itself attacks
//! canaries only; results about the published recordings of AN4 and LibriSpeech harm no one.
//!
//! Two scores: the loss (Yeom et al. 2018), and its decrease from the warm start, which saw no member (the calibrated
//! score of Watson et al. 2022; shadow models for a likelihood ratio would need as many further warm starts).
//! Non-members are unseen recordings: other AN4 speakers for private 1 and 2, other recordings of the same reader for
//! the outlier. The public model saw neither group, so its area shows the initial difference between the groups.

use std::collections::HashMap;

use serde_json::{Value, json};
use support::stage::TestResult;
use undertone_api::job::audit::MembershipAttack;
use undertone_api::report::ReportFile;
use undertone_privacy::PrivacyUnit;
use undertone_privacy::membership::{Auc, at_rate, rate_interval};
use undertone_worker::speech::dataset::{Dataset, Split};
use undertone_worker::speech::model::Model;
use undertone_worker::speech::model::gradient::{Engine, Example};

use super::scene::{ArmsConsortium, PRIVATE};
use super::{percent, unit_word};

/// The confidence of every interval.
const CONFIDENCE: f64 = 0.95;
/// The reported false-positive rate.
const AIMED: f64 = 0.001;

/// One site, with non-members for comparison with its members.
struct AttackedSite {
    name: &'static str,
    members: Dataset,
    others: Dataset,
    /// Mean losses of the public model, by unit: members, others.
    start: HashMap<&'static str, [Vec<f64>; 2]>,
}

/// The attacker, with all the data and all the models.
pub(super) struct MembershipAttacker {
    engine: Engine,
    start: Model,
    open: Model,
    targets: Vec<AttackedSite>,
}

impl MembershipAttacker {
    /// Makes the attacker with the two models that all cells share.
    ///
    /// # Errors
    /// When a dataset cannot be opened.
    pub(super) fn new(scene: &ArmsConsortium, start: Model, open: Model) -> TestResult<Self> {
        let mut targets = Vec::new();
        for name in PRIVATE {
            let others = if name == "private-3" { "outlier-test" } else { "an4-test" };
            let (members, others) = (scene.dataset(name)?, scene.dataset(others)?);
            targets.push(AttackedSite { name, members, others, start: HashMap::new() });
        }
        Ok(Self { engine: Engine::new(), start, open, targets })
    }

    /// Returns the highest number of training records of one speaker of a site.
    pub(super) fn most_records_of_a_speaker(&self, name: &str) -> u64 {
        let target = self.targets.iter().find(|target| target.name == name);
        let groups = target.map(|target| target.members.groups(PrivacyUnit::Speaker, Split::Train)).unwrap_or_default();
        groups.iter().map(Vec::len).max().unwrap_or(0) as u64
    }

    /// Runs the attacks on the public and the open model, for records and for speakers.
    pub(super) fn attack_shared_models(&mut self, cell: &str) -> Vec<Value> {
        let mut lines = Vec::new();
        for unit in [PrivacyUnit::Record, PrivacyUnit::Speaker] {
            for index in 0..self.targets.len() {
                let start = self.start_losses(index, unit);
                lines.push(self.line(cell, "public", index, unit, "loss", &start.each_ref().map(|losses| low(losses))));
            }
            let open = self.open.clone();
            lines.extend(self.on(cell, "open", unit, &open));
        }
        lines
    }

    /// Runs the attacks on the private model of a cell.
    pub(super) fn attack(&mut self, cell: &str, unit: PrivacyUnit, model: &Model) -> Vec<Value> {
        self.on(cell, "private", unit, model)
    }

    fn on(&mut self, cell: &str, arm: &str, unit: PrivacyUnit, model: &Model) -> Vec<Value> {
        let mut lines = Vec::new();
        for index in 0..self.targets.len() {
            let start = self.start_losses(index, unit);
            let end = losses(&mut self.engine, model, &self.targets[index], unit);
            let fallen = |side: usize| start[side].iter().zip(&end[side]).map(|(start, end)| start - end).collect();
            lines.push(self.line(cell, arm, index, unit, "loss", &end.each_ref().map(|losses| low(losses))));
            lines.push(self.line(cell, arm, index, unit, "fall of the loss", &[fallen(0), fallen(1)]));
        }
        lines
    }

    /// Returns the public model's losses on a site's members and on the others, computed once.
    fn start_losses(&mut self, index: usize, unit: PrivacyUnit) -> [Vec<f64>; 2] {
        let Self { engine, start, targets, .. } = self;
        let target = &mut targets[index];
        if let Some(known) = target.start.get(unit_word(unit)) {
            return known.clone();
        }
        let losses = losses(engine, start, target, unit);
        target.start.insert(unit_word(unit), losses.clone());
        losses
    }

    fn line(
        &self,
        cell: &str,
        arm: &str,
        index: usize,
        unit: PrivacyUnit,
        score: &str,
        scores: &[Vec<f64>; 2],
    ) -> Value {
        let [members, others] = scores;
        let (auc, found) = (Auc::of(members, others), at_rate(members, others, AIMED));
        let (low, high) = rate_interval(found.true_positives, members.len() as u64, CONFIDENCE);
        let name = self.targets[index].name;
        json!({
            "cell": cell, "arm": arm, "site": name, "outlier": name == "private-3", "members_are": unit,
            "score": score, "members": members.len(), "others": others.len(),
            "auc": auc.map(|auc| rounded(auc.value())),
            "auc_95": auc.map(|auc| { let (low, high) = auc.interval(CONFIDENCE); [rounded(low), rounded(high)] }),
            "tpr_percent_at_0.1_percent_fpr": percent(found.true_positives as f64 / members.len().max(1) as f64),
            "tpr_95": [percent(low), percent(high)], "false_positives": found.false_positives,
        })
    }
}

/// Returns the product's own attacks on canaries, from its report.
pub(super) fn on_canaries(cell: &str, file: &ReportFile) -> Vec<Value> {
    let mut lines = Vec::new();
    for view in &file.audits {
        let finding = &view.statement.finding;
        lines.push(json!({
            "cell": cell, "audit": view.dataset_name, "verdict": view.verdict, "claim": view.assessment.claim,
            "tight": view.assessment.tight, "measured_at_least": view.assessment.shown, "ceiling": view.assessment.ceiling,
        }));
        lines.extend(finding.attacks.iter().map(|attack: &MembershipAttack| {
            let points: Vec<_> = attack
                .points
                .iter()
                .map(|point| json!({ "aimed": point.aimed, "rate": attack.rate(point), "false_positives": point.false_positives }))
                .collect();
            json!({
                "cell": cell, "canaries_of": view.dataset_name, "arm": attack.series.as_deref().unwrap_or("private"),
                "score": attack.method, "members": attack.members, "others": attack.nonmembers,
                "auc": rounded(attack.auc), "auc_95": attack.auc_interval, "points": points,
            })
        }));
    }
    lines
}

/// Returns the mean loss of every unit: the site's members, then the others.
fn losses(engine: &mut Engine, model: &Model, target: &AttackedSite, unit: PrivacyUnit) -> [Vec<f64>; 2] {
    let mut of = |dataset: &Dataset, split: Split| -> Vec<f64> {
        let mut one = |unit: &Vec<usize>| {
            let examples: Vec<Example<'_>> = unit
                .iter()
                .map(|index| {
                    let utterance = dataset.utterance(*index);
                    Example { features: utterance.features, labels: utterance.labels }
                })
                .collect();
            engine.score(model, &examples).mean_loss()
        };
        dataset.groups(unit, split).iter().map(&mut one).collect()
    };
    [of(&target.members, Split::Train), of(&target.others, Split::Test)]
}

/// Returns scores in which a low loss indicates a member.
fn low(losses: &[f64]) -> Vec<f64> {
    losses.iter().map(|loss| -loss).collect()
}

fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}
