//! The main comparison on real speech: models from public data only, with exact private data, and with private data by
//! DP-SGD, at several ε for records and for speakers. Also membership inference against each model, and the gain of
//! each tried change.
//!
//! 20 AN4 speakers are public, private 1 and 2 have 27 others each, and private 3 is one LibriSpeech reader unlike the
//! rest (six utterances for training, the rest for testing). Every cell is a job of the whole product: server, four
//! workers, two ledgers. The warm start and the open arm are trained once: the lead's checkpoint of the former is
//! written into the work folder of every later job, as after an interruption.
//!
//! `UNDERTONE_ARMS` is a comma-separated selection: `grid` (the default: records and speakers at ε 1, 3, 10 and 100,
//! and `paper`), `record:EPSILON`, `speaker:EPSILON`, `paper` (the step of *Sotto Voce*: z 0.0978, all units in every
//! batch), `audited` (one job with all arms, canaries and the product's own attacks), `ablation` (the tried changes),
//! `try:KEY=VALUE;...` (another change at records and ε 10). `UNDERTONE_ARMS_RECIPE` changes the recipe of all of them:
//! see [`recipe`].

mod attack;
mod cell;
mod recipe;
mod scene;

use std::time::{Duration, Instant};

use serde_json::json;
use support::stage::TestResult;
use undertone_api::job::Job;
use undertone_api::job::dp_sgd::Arm;
use undertone_api::report::ReportFile;
use undertone_privacy::PrivacyUnit;

use crate::report::{Outcome, Report};
use attack::MembershipAttacker;
use cell::{GridCell, NoiseChoice};
use recipe::TrainingRecipe;
use scene::ArmsConsortium;

/// The time limit of one job.
const PATIENCE: Duration = Duration::from_hours(1);

pub(crate) fn run(report: &mut Report) -> Outcome {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(measure(report)).map_err(|error| -> Box<dyn std::error::Error> { error })
}

async fn measure(report: &mut Report) -> TestResult<()> {
    let recipe = TrainingRecipe::from_environment()?;
    let choice = std::env::var("UNDERTONE_ARMS").unwrap_or_else(|_| "grid".to_owned());
    let cells = cell::select_cells(&choice, &recipe)?;
    say(
        report,
        json!({ "recipe": recipe.to_json(), "cells": cells.iter().map(|cell| cell.name.as_str()).collect::<Vec<_>>() }),
    )?;
    let started = Instant::now();
    let mut scene = ArmsConsortium::set().await?;
    say(report, json!({ "step": "prepared", "seconds": started.elapsed().as_secs() }))?;

    let started = Instant::now();
    let (first, mut attacker) = shared(&mut scene, &recipe).await?;
    tell_arms(report, "shared", &first)?;
    for line in attacker.attack_shared_models("shared") {
        say(report, line)?;
    }
    say(report, json!({ "step": "warm start and open arm", "seconds": started.elapsed().as_secs() }))?;

    let mut failed = Vec::new();
    for cell in &cells {
        // A failed cell must not prevent the others.
        if let Err(error) = one(report, &mut scene, &mut attacker, cell, &first).await {
            say(report, json!({ "cell": cell.name, "failed": error.to_string() }))?;
            failed.push(cell.name.as_str());
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("no figures of {}", failed.join(", ")).into()) }
}

/// Trains the shared job; returns its report, and an attacker with its models.
async fn shared(scene: &mut ArmsConsortium, recipe: &TrainingRecipe) -> TestResult<(ReportFile, MembershipAttacker)> {
    let spec = recipe.shared(scene).await?;
    let job = scene.launch("Warm start and open arm", spec, None).await?;
    let lead = scene.lead_folder(job).await?;
    // The public series has ended when the first round of the next one closes.
    scene.stage.wait_until(job, PATIENCE, |job| job.summary.rounds_done >= 1).await?;
    scene.warm = Some(std::fs::read(lead.join("public.checkpoint"))?);
    let job = scene.stage.finish(job, PATIENCE).await?;
    let file = report_of(scene, &job).await?;
    let (start, open) = (scene.model(&job, Arm::Public).await?, scene.model(&job, Arm::Open).await?);
    Ok((file, MembershipAttacker::new(scene, start, open)?))
}

/// Runs one cell, from its noise to its figures.
async fn one(
    report: &mut Report,
    scene: &mut ArmsConsortium,
    attacker: &mut MembershipAttacker,
    cell: &GridCell,
    shared: &ReportFile,
) -> TestResult<()> {
    let started = Instant::now();
    scene.budget(cell.unit, cell.delta).await?;
    let spec = cell.spec(scene).await?;
    let job = scene.launch(&cell.name, spec, scene.warm.clone()).await?;
    let job = scene.stage.finish(job, PATIENCE).await?;
    let file = report_of(scene, &job).await?;
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
    for compared in &file.comparison {
        let of_shared = |arm: &str| {
            let same = |one: &&undertone_api::report::ArmComparison| one.arm == arm && one.test == compared.test;
            shared.comparison.iter().find(same).map(|one| one.accuracy)
        };
        if compared.arm != Arm::Private.series() && !cell.audited {
            continue;
        }
        // From the arms that were trained once, by whichever job.
        let (public, open) = (of_shared("public"), of_shared("open"));
        let difference = public.map(|public| compared.accuracy - public);
        let gain = public.zip(open).map(|(public, open)| open - public).filter(|gain| *gain > 0.001);
        say(
            report,
            json!({
                "cell": cell.name, "arm": compared.arm, "test": compared.test, "frames": compared.frames,
                "accuracy_percent": percent(compared.accuracy), "loss": compared.loss,
                "points_from_public": difference.map(percent),
                "recovered_percent": compared.recovered.or_else(|| Some(difference? / gain?)).map(percent),
                "seconds": compared.seconds,
            }),
        )?;
    }
    for cost in &file.privacy {
        let records = attacker.most_records_of_a_speaker(&cost.dataset_name);
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
        )?;
    }
    let model = scene.model(&job, Arm::Private).await?;
    for line in attacker.attack(&cell.name, cell.unit, &model) {
        say(report, line)?;
    }
    for line in attack::on_canaries(&cell.name, &file) {
        say(report, line)?;
    }
    Ok(())
}

async fn report_of(scene: &ArmsConsortium, job: &Job) -> TestResult<ReportFile> {
    Ok(scene.stage.operator.get(&format!("/jobs/{}/report", job.summary.id)).await?)
}

fn tell_arms(report: &mut Report, cell: &str, file: &ReportFile) -> TestResult<()> {
    for compared in &file.comparison {
        say(
            report,
            json!({
                "cell": cell, "arm": compared.arm, "rounds": compared.rounds, "test": compared.test, "frames": compared.frames,
                "accuracy_percent": percent(compared.accuracy), "loss": compared.loss,
                "points_from_public": compared.difference.map(percent), "seconds": compared.seconds,
            }),
        )?;
    }
    Ok(())
}

fn say(report: &mut Report, line: serde_json::Value) -> TestResult<()> {
    report.line(line).map_err(|error| error.to_string().into())
}

/// Returns percent, or percentage points, with two decimals.
fn percent(part: f64) -> f64 {
    (part * 1e4).round() / 100.0
}

/// Returns the name of a unit in the selection of cells.
const fn unit_word(unit: PrivacyUnit) -> &'static str {
    match unit {
        PrivacyUnit::Record | PrivacyUnit::Words => "record",
        PrivacyUnit::Speaker | PrivacyUnit::User => "speaker",
    }
}
