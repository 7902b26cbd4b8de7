//! The main comparison on real speech: models from public data only, with exact private data, and with private data by
//! DP-SGD, at several ε for records and for speakers. Also membership inference against each model, and the gain of
//! each tried change.
//!
//! 20 AN4 speakers are public, and private 1 and 2 have 27 others each. Private 3 is the outlier: readers of
//! LibriSpeech, whose recordings, sentences and vocabulary no other site has. At each private site a coin put two thirds
//! of the recordings into training. The others are the non-members of the attacks, and for the outlier its test set.
//! Every cell is a job of the whole product: server, four workers, two ledgers. The warm start and the open arm are
//! trained once: the lead's checkpoint of the former is written into the work folder of every later job, as after an
//! interruption.
//!
//! `UNDERTONE_ARMS` is a comma-separated selection: `grid` (the default: records and speakers at ε 1, 3, 10 and 100,
//! and `paper`), `record:EPSILON`, `speaker:EPSILON`, `paper` (the step of *Sotto Voce*: z 0.0978, all units in every
//! batch), `original` (the same step in the original's setting, with datasets, warm start and open arm of its own),
//! `audited` (one job with all arms, canaries and the product's own attacks), `ablation` (the tried changes),
//! `try:KEY=VALUE;...` (another change at records and ε 10). `UNDERTONE_ARMS_RECIPE` changes the recipe of all of them:
//! see [`recipe`].
//!
//! The lines with a `test` are the summary: an arm on a test set. Their `membership_auc` is that of the attack with the
//! largest area on the open model of all members, so the choice does not depend on the private model.

mod attack;
mod cell;
mod labels;
mod recipe;
mod scene;
mod shadow;

use std::time::{Duration, Instant};

use serde_json::json;
use support::stage::TestResult;
use undertone_api::job::Job;
use undertone_api::job::dp_sgd::Arm;
use undertone_api::report::{PartyCost, ReportFile};
use undertone_privacy::PrivacyUnit;
use undertone_worker::speech::model::Model;

use crate::report::{Outcome, Report};
use attack::{AttackArea, MembershipAttacker};
use cell::{GridCell, NoiseChoice};
use scene::{ArmsConsortium, TESTS};

/// The time limit of one job.
const PATIENCE: Duration = Duration::from_hours(6);
/// The least gain of open pooling of which a share is stated.
const LEAST_GAIN: f64 = 0.001;

pub(crate) fn run(report: &mut Report) -> Outcome {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(measure(report)).map_err(|error| -> Box<dyn std::error::Error> { error })
}

async fn measure(report: &mut Report) -> TestResult<()> {
    let recipe = recipe::TrainingRecipe::from_environment()?;
    let choice = std::env::var("UNDERTONE_ARMS").unwrap_or_else(|_| "grid".to_owned());
    let cells = cell::select_cells(&choice, &recipe)?;
    say(report, json!({ "cells": cells.iter().map(|cell| cell.name.as_str()).collect::<Vec<_>>() }))?;
    let mut failed = Vec::new();
    // Cells with the same labels share a consortium, the warm start and the open arm.
    for group in cells.chunk_by(|one, next| one.recipe.labels == next.recipe.labels) {
        let mut shared = Shared::set(report, &group[0]).await?;
        for cell in group {
            // A failed cell must not prevent the others.
            if let Err(error) = shared.run_cell(report, cell).await {
                say(report, json!({ "cell": cell.name, "failed": error.to_string() }))?;
                failed.push(cell.name.as_str());
            }
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("no figures of {}", failed.join(", ")).into()) }
}

/// What cells with the same labels share.
struct Shared {
    scene: ArmsConsortium,
    attacker: MembershipAttacker,
    /// Accuracy of the public and the open arm on each of [`TESTS`].
    bounds: [[f64; 2]; TESTS.len()],
}

impl Shared {
    /// Sets up the consortium, trains the warm start and the open arm, and attacks both.
    ///
    /// # Errors
    /// Any step that does not work as documented.
    async fn set(report: &mut Report, cell: &GridCell) -> TestResult<Self> {
        let recipe = &cell.recipe;
        say(report, json!({ "recipe": recipe.to_json() }))?;
        let started = Instant::now();
        let mut scene = ArmsConsortium::set(recipe.labels, cell.delta).await?;
        say(report, json!({ "step": "prepared", "seconds": started.elapsed().as_secs() }))?;
        let started = Instant::now();
        let spec = recipe.shared(&scene).await?;
        let job = scene.launch("Warm start and open arm", spec, None).await?;
        let lead = scene.lead_folder(job).await?;
        // The public series has ended when the first round of the next one closes.
        scene.stage.wait_until(job, PATIENCE, |job| job.summary.rounds_done >= 1).await?;
        scene.warm = Some(std::fs::read(lead.join("public.checkpoint"))?);
        let job = scene.stage.finish(job, PATIENCE).await?;
        let models = (scene.model(&job, Arm::Public).await?, scene.model(&job, Arm::Open).await?);
        say(report, json!({ "step": "warm start and open arm", "seconds": started.elapsed().as_secs() }))?;
        let started = Instant::now();
        let attacker = MembershipAttacker::new(&scene, models.0, models.1, recipe.shadow_training())?;
        say(
            report,
            json!({ "step": "shadow models", "seconds": started.elapsed().as_secs(), "summary_attack": attacker.strongest() }),
        )?;
        let mut shared = Self { scene, attacker, bounds: Default::default() };
        for (side, (arm, model)) in shared.attacker.shared_models().into_iter().enumerate() {
            for test in 0..TESTS.len() {
                shared.bounds[test][side] = shared.attacker.classify(&model, test).accuracy();
            }
            // Nothing of the private data is in the public model, and exact gradients have no bound.
            let epsilon = if arm == "public" { Some(0.0) } else { None };
            shared.report_arm(report, "shared", arm, &model, epsilon, &[])?;
        }
        Ok(shared)
    }

    /// Runs one cell, from its noise to its figures.
    async fn run_cell(&mut self, report: &mut Report, cell: &GridCell) -> TestResult<()> {
        let started = Instant::now();
        self.scene.budget(cell.unit, cell.delta).await?;
        let spec = cell.spec(&self.scene).await?;
        let job = self.scene.launch(&cell.name, spec, self.scene.warm.clone()).await?;
        let job = self.scene.stage.finish(job, PATIENCE).await?;
        let file = report_of(&self.scene, &job).await?;
        let took = started.elapsed();
        let noise = match cell.noise {
            NoiseChoice::OfEpsilon(epsilon) => json!({ "aimed_epsilon": epsilon }),
            NoiseChoice::Fixed(z) => json!({ "fixed_noise_multiplier": z }),
        };
        say(
            report,
            json!({
                "cell": cell.name, "unit": cell.unit, "delta": cell.delta, "noise": noise, "recipe": cell.recipe.to_json(),
                "rounds": cell.recipe.rounds, "seconds": took.as_secs_f64(),
            }),
        )?;
        for cost in &file.privacy {
            self.report_cost(report, cell, cost)?;
        }
        let epsilon = highest_epsilon(cell.unit, &file);
        let arms = if cell.audited { vec![Arm::Public, Arm::Open, Arm::Private] } else { vec![Arm::Private] };
        for arm in arms {
            let model = self.scene.model(&job, arm).await?;
            let epsilon = match arm {
                Arm::Public => Some(0.0),
                Arm::Open => None,
                Arm::Private => epsilon,
            };
            let levers = if arm == Arm::Private { cell.recipe.levers() } else { Vec::new() };
            self.report_arm(report, &cell.name, arm.series(), &model, epsilon, &levers)?;
        }
        for line in attack::on_canaries(&cell.name, &file) {
            say(report, line)?;
        }
        Ok(())
    }

    /// Attacks the model of an arm and reports it on each test set.
    fn report_arm(
        &mut self,
        report: &mut Report,
        cell: &str,
        arm: &str,
        model: &Model,
        epsilon: Option<f64>,
        levers: &[String],
    ) -> TestResult<()> {
        let (lines, areas) = self.attacker.attack(cell, arm, model);
        for line in lines {
            say(report, line)?;
        }
        for (test, area) in areas.into_iter().enumerate() {
            let tally = self.attacker.classify(model, test);
            let accuracy = tally.accuracy();
            let [public, open] = self.bounds[test];
            let recovered = (open - public > LEAST_GAIN).then(|| (accuracy - public) / (open - public));
            let AttackArea { auc, low, high } = area.ok_or("a site without members or without others")?;
            say(
                report,
                json!({
                    "cell": cell, "arm": arm, "test": TESTS[test].0, "frames": tally.frames(), "accuracy": rounded(accuracy),
                    "macro_f1": rounded(tally.macro_f1()), "epsilon": epsilon, "levers": levers,
                    "recovered": recovered.filter(|_| arm != "public").map(rounded), "membership_auc": auc,
                    "membership_auc_low": low, "membership_auc_high": high,
                }),
            )?;
        }
        Ok(())
    }

    /// Reports the privacy cost of one party.
    fn report_cost(&self, report: &mut Report, cell: &GridCell, cost: &PartyCost) -> TestResult<()> {
        let records = self.attacker.most_records_of_a_speaker(&cost.dataset_name);
        let levels: Vec<_> = cost
            .levels
            .iter()
            .map(|level| json!({ "unit": level.unit, "how": level.how, "epsilon": level.epsilon, "ledger_epsilon": level.renyi, "meaningful": level.meaningful }))
            .collect();
        say(
            report,
            json!({
                "cell": cell.name, "party": cost.dataset_name, "event": cost.event, "clip": cost.clip, "releases": cost.releases,
                "delta": cost.delta, "levels": levels,
                "speaker_epsilon_by_true_counts": cell::speaker_epsilon(cell.unit, cost, records),
                "most_records_of_a_speaker": records,
            }),
        )
    }
}

/// Returns the highest ε of a private party at the protected level; `None` if that of a party has no bound.
fn highest_epsilon(unit: PrivacyUnit, file: &ReportFile) -> Option<f64> {
    let of_party = |cost: &PartyCost| cost.levels.iter().find(|level| level.unit == unit)?.epsilon;
    let all: Option<Vec<f64>> = file.privacy.iter().filter(|cost| cost.releases > 0).map(of_party).collect();
    all?.into_iter().reduce(f64::max)
}

async fn report_of(scene: &ArmsConsortium, job: &Job) -> TestResult<ReportFile> {
    Ok(scene.stage.operator.get(&format!("/jobs/{}/report", job.summary.id)).await?)
}

fn say(report: &mut Report, line: serde_json::Value) -> TestResult<()> {
    report.line(line).map_err(|error| error.to_string().into())
}

/// Returns percent, or percentage points, with two decimals.
fn percent(part: f64) -> f64 {
    (part * 1e4).round() / 100.0
}

/// Returns a share with four decimals.
fn rounded(share: f64) -> f64 {
    (share * 1e4).round() / 1e4
}

/// Returns the name of a unit in the selection of cells.
const fn unit_word(unit: PrivacyUnit) -> &'static str {
    match unit {
        PrivacyUnit::Record | PrivacyUnit::Words => "record",
        PrivacyUnit::Speaker | PrivacyUnit::User => "speaker",
    }
}
