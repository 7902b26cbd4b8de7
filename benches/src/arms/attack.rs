//! Membership inference on the real members by the experimenter, who has all the data. The product itself attacks
//! canaries only; results about the published recordings of AN4 and LibriSpeech harm no one.
//!
//! Three scores: the loss (Yeom et al. 2018), its decrease from the warm start, which saw no member (Watson et al. 2022),
//! and the likelihood ratio by shadow models ([`super::shadow`]). Members are the recordings of a private site,
//! non-members other recordings of the same speakers; a coin separated the two. So a speaker's voice tells nothing, and
//! the area of the public model, which saw neither, is that of guessing.

use serde_json::{Value, json};
use support::stage::TestResult;
use undertone_api::job::audit::MembershipAttack;
use undertone_api::report::ReportFile;
use undertone_privacy::PrivacyUnit;
use undertone_privacy::membership::{Auc, at_rate, rate_interval};
use undertone_worker::speech::dataset::{Dataset, Split};
use undertone_worker::speech::model::gradient::{Engine, Example};
use undertone_worker::speech::model::{FrameTally, Model};

use super::scene::{ArmsConsortium, HELD, PRIVATE, TESTS};
use super::shadow::{self, ShadowTraining};
use super::{percent, rounded};

/// The confidence of every interval.
const CONFIDENCE: f64 = 0.95;
/// The reported false-positive rate.
const AIMED: f64 = 0.001;
/// The names of the scores.
const SCORES: [&str; 3] = ["loss", "decrease of the loss", "likelihood ratio"];

/// One site, with non-members for comparison with its members.
struct AttackedSite {
    name: &'static str,
    members: Dataset,
    others: Dataset,
    /// Losses of the public model: members, others.
    start: [Vec<f64>; 2],
    /// Mean confidences of the shadow models that were trained without the recording: members, others.
    reference: [Vec<f64>; 2],
}

/// The area of an attack with its interval.
#[derive(Debug, Clone, Copy)]
pub(super) struct AttackArea {
    pub(super) auc: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// Scores of members and of others, by attack in the order of [`SCORES`], higher for members.
type SideScores = [[Vec<f64>; 2]; SCORES.len()];

/// The attacker, with all the data and all the models.
pub(super) struct MembershipAttacker {
    engine: Engine,
    start: Model,
    open: Model,
    sites: Vec<AttackedSite>,
    tests: Vec<Dataset>,
    /// The attack with the largest area on the open model, over all sites, which the summary of every arm states.
    strongest: usize,
}

impl MembershipAttacker {
    /// Makes the attacker with the two models that all cells share, and trains its shadow models.
    ///
    /// # Errors
    /// When a dataset cannot be opened.
    pub(super) fn new(scene: &ArmsConsortium, start: Model, open: Model, training: ShadowTraining) -> TestResult<Self> {
        let mut engine = Engine::new();
        let mut sites = Vec::new();
        for (name, held) in PRIVATE.into_iter().zip(HELD) {
            let (members, others) = (scene.dataset(name)?, scene.dataset(held)?);
            let start = both(&members, &others).map(|examples| losses(&mut engine, &start, &examples));
            sites.push(AttackedSite { name, members, others, start, reference: Default::default() });
        }
        let public = scene.dataset("public")?;
        let public = examples(&public, Split::Train);
        let attacked: Vec<Example<'_>> =
            sites.iter().flat_map(|site| both(&site.members, &site.others)).flatten().collect();
        let reference = shadow::reference_confidences(&mut engine, &start, training, &public, &attacked);
        let mut rest = reference.into_iter();
        for site in &mut sites {
            site.reference = site.start.each_ref().map(|losses| rest.by_ref().take(losses.len()).collect());
        }
        let tests = TESTS.iter().map(|(_, dataset)| scene.dataset(dataset)).collect::<TestResult<_>>()?;
        let mut attacker = Self { engine, start, open, sites, tests, strongest: 0 };
        let open = attacker.open.clone();
        let pooled = pool(&attacker.scores(&open), &[0, 1, 2]);
        let area = |index: &usize| Auc::of(&pooled[*index][0], &pooled[*index][1]).map_or(0.0, Auc::value);
        attacker.strongest = (0..SCORES.len()).max_by(|a, b| area(a).total_cmp(&area(b))).unwrap_or(0);
        Ok(attacker)
    }

    /// Returns the name of the attack whose areas `area` returns.
    pub(super) const fn strongest(&self) -> &'static str {
        SCORES[self.strongest]
    }

    /// Returns the highest number of training records of one speaker of a site.
    pub(super) fn most_records_of_a_speaker(&self, name: &str) -> u64 {
        let site = self.sites.iter().find(|site| site.name == name);
        let groups = site.map(|site| site.members.groups(PrivacyUnit::Speaker, Split::Train)).unwrap_or_default();
        groups.iter().map(Vec::len).max().unwrap_or(0) as u64
    }

    /// Returns the models of the arms that all cells share.
    pub(super) fn shared_models(&self) -> [(&'static str, Model); 2] {
        [("public", self.start.clone()), ("open", self.open.clone())]
    }

    /// Classifies all recordings of a test set of [`TESTS`].
    pub(super) fn classify(&mut self, model: &Model, test: usize) -> FrameTally {
        let examples = examples(&self.tests[test], Split::Test);
        let mut tally = FrameTally::new(model.shape().classes);
        self.engine.classify(model, &examples, &mut |number, logits| tally.add(examples[number].labels, logits));
        tally
    }

    /// Runs all attacks on a model. Returns the lines of the report, and the areas of the strongest attack for each of
    /// [`TESTS`]: on the members of the sites like the others, and on those of the outlier.
    pub(super) fn attack(&mut self, cell: &str, arm: &str, model: &Model) -> (Vec<Value>, [Option<AttackArea>; 2]) {
        let scores = self.scores(model);
        let groups: [(&str, &[usize]); 5] =
            [(PRIVATE[0], &[0]), (PRIVATE[1], &[1]), (PRIVATE[2], &[2]), ("common", &[0, 1]), ("all", &[0, 1, 2])];
        let mut lines = Vec::new();
        for (name, indices) in groups {
            for (score, [members, others]) in SCORES.iter().zip(&pool(&scores, indices)) {
                lines.push(line(cell, arm, name, score, members, others));
            }
        }
        let chosen = |indices: &[usize]| {
            let pooled = pool(&scores, indices);
            area(&pooled[self.strongest][0], &pooled[self.strongest][1])
        };
        let areas = [chosen(&[0, 1]), chosen(&[2])];
        (lines, areas)
    }

    /// Returns the scores of all attacks on a model, by site.
    fn scores(&mut self, model: &Model) -> Vec<SideScores> {
        let Self { engine, sites, .. } = self;
        let mut of_site = |site: &AttackedSite| {
            let end = both(&site.members, &site.others).map(|examples| losses(engine, model, &examples));
            let side = |score: &dyn Fn(usize, usize, f64) -> f64| -> [Vec<f64>; 2] {
                [0, 1].map(|side| end[side].iter().enumerate().map(|(i, loss)| score(side, i, *loss)).collect())
            };
            [
                side(&|_, _, loss| -loss),
                side(&|side, index, loss| site.start[side][index] - loss),
                side(&|side, index, loss| shadow::confidence(loss) - site.reference[side][index]),
            ]
        };
        sites.iter().map(&mut of_site).collect()
    }
}

/// Returns the recordings of a site: its members, then the others.
fn both<'a>(members: &'a Dataset, others: &'a Dataset) -> [Vec<Example<'a>>; 2] {
    [examples(members, Split::Train), examples(others, Split::Test)]
}

fn examples(dataset: &Dataset, split: Split) -> Vec<Example<'_>> {
    let utterances = dataset.split(split).into_iter().map(|index| dataset.utterance(index));
    utterances.map(|one| Example { features: one.features, labels: one.labels }).collect()
}

/// Returns the mean loss of each recording.
fn losses(engine: &mut Engine, model: &Model, examples: &[Example<'_>]) -> Vec<f64> {
    (0..examples.len()).map(|index| engine.score(model, &examples[index..=index]).mean_loss()).collect()
}

/// Joins the scores of some sites.
fn pool(scores: &[SideScores], sites: &[usize]) -> SideScores {
    let mut pooled = SideScores::default();
    for site in sites {
        for (all, own) in pooled.iter_mut().flatten().zip(scores[*site].iter().flatten()) {
            all.extend(own);
        }
    }
    pooled
}

fn area(members: &[f64], others: &[f64]) -> Option<AttackArea> {
    let auc = Auc::of(members, others)?;
    let (low, high) = auc.interval(CONFIDENCE);
    Some(AttackArea { auc: rounded(auc.value()), low: rounded(low), high: rounded(high) })
}

fn line(cell: &str, arm: &str, site: &str, score: &str, members: &[f64], others: &[f64]) -> Value {
    let area = area(members, others);
    let point = at_rate(members, others, AIMED);
    let (low, high) = rate_interval(point.true_positives, members.len() as u64, CONFIDENCE);
    json!({
        "cell": cell, "arm": arm, "site": site, "attack": score, "members": members.len(), "others": others.len(),
        "membership_auc": area.map(|area| area.auc), "membership_auc_low": area.map(|area| area.low),
        "membership_auc_high": area.map(|area| area.high),
        "tpr_percent_at_0.1_percent_fpr": percent(point.true_positives as f64 / members.len().max(1) as f64),
        "tpr_95": [percent(low), percent(high)], "false_positives": point.false_positives,
    })
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
                "attack": attack.method, "members": attack.members, "others": attack.nonmembers,
                "membership_auc": rounded(attack.auc),
                "membership_auc_low": attack.auc_interval.map(|[low, _]| rounded(low)),
                "membership_auc_high": attack.auc_interval.map(|[_, high]| rounded(high)), "points": points,
            })
        }));
    }
    lines
}
