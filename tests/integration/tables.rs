//! A model of the rows of tables: one public table leads, two private ones train it with noise, and a site uses it.

use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use serde_json::json;
use sha2::{Digest as _, Sha256};
use support::scene;
use support::stage::{SiteDataset, TestConsortium, TestDatabase, TestResult, TestSite};
use undertone_api::budget::{EntryKind, NewBudget};
use undertone_api::job::dp_sgd::{Arm, SettingMeasure};
use undertone_api::job::{Job, NewJob, Report, Spec};
use undertone_api::model::record::{ModelRecord, QualityOrigin};
use undertone_privacy::{Delta, Epsilon, PrivacyUnit};

const JOB: Duration = Duration::from_mins(3);
const ROUNDS: u64 = 20;
/// Patients of a table.
const PATIENTS: usize = 600;
const PRIVATE: [&str; 2] = ["south", "west"];
const SCHEMA: &str = r#"{ "unit": "patient", "columns": [
    { "name": "age", "kind": "integer", "least": 0, "most": 100 },
    { "name": "ward", "kind": "category", "values": ["a", "b"] },
    { "name": "returns", "kind": "boolean" }
] }"#;

/// Writes a row of each patient: old patients return, and those of ward b from an earlier age.
fn write_rows(seed: usize) -> TestResult<String> {
    let mut rows = "patient,age,ward,returns\n".to_owned();
    for number in 0..PATIENTS {
        let (age, is_b) = ((seed * 17 + number * 7) % 101, number.is_multiple_of(3));
        let returns = age > if is_b { 35 } else { 65 };
        writeln!(rows, "{seed}-{number},{age},{},{returns}", if is_b { "b" } else { "a" })?;
    }
    Ok(rows)
}

fn add_table(site: &mut TestSite, name: &'static str, seed: usize, visibility: &'static str) -> TestResult<()> {
    let input = site.folder().join(format!("{name}.csv"));
    let schema = site.folder().join("patients.json");
    fs::write(&input, write_rows(seed)?)?;
    fs::write(&schema, SCHEMA)?;
    let input = input.to_str().ok_or("a path in UTF-8")?;
    let schema = schema.to_str().ok_or("a path in UTF-8")?;
    site.command(&[
        "data",
        "add-table",
        "--name",
        name,
        "--visibility",
        visibility,
        "--schema",
        schema,
        "--input",
        input,
    ])?;
    site.holdings.push(SiteDataset::new(name, visibility, &[]));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn three_sites_train_a_model_of_rows() -> TestResult<()> {
    let mut stage = TestConsortium::set(TestDatabase::Sqlite, &["North", "South", "West"]).await?;
    add_table(&mut stage.sites[0], "commons", 0, "public")?;
    add_table(&mut stage.sites[0], "holdout", 3, "public")?;
    for (index, name) in PRIVATE.into_iter().enumerate() {
        let site = &mut stage.sites[index + 1];
        add_table(site, name, index + 1, "private")?;
        site.edit_policy("[budget.record]", "[budget.user]")?;
    }
    for site in &stage.sites {
        site.edit_policy("kinds = [\"dp_sgd\"]", "kinds = [\"dp_sgd\", \"evaluation\"]")?;
        site.edit_policy("release_period_seconds = { ", "release_period_seconds = { evaluation = 0.05, ")?;
    }
    stage.open().await?;
    let budget =
        NewBudget { unit: PrivacyUnit::User, epsilon: Epsilon::new(60.0)?, delta: Delta::new(1e-6)?, filter: None };
    let lead = stage.dataset("commons").await?;
    let schema = lead.table.ok_or("a registered table has its schema")?;
    let mut participants = vec![json!({ "dataset": lead.id, "sampling_rate": 0.3 })];
    for (site, name) in stage.sites.iter().skip(1).zip(PRIVATE) {
        let dataset = stage.dataset(name).await?;
        site.client.set_budget(dataset.id, &budget).await?;
        let noise = json!({ "noise_multiplier": 2.5, "clip": 0.5 });
        participants.push(json!({ "dataset": dataset.id, "sampling_rate": 0.3, "noise": noise }));
    }
    let plan: NewJob = serde_json::from_value(json!({
        "title": "Readmissions of three hospitals",
        "kind": "dp_sgd",
        "spec": {
            "unit": "user",
            "model": { "hidden": 8, "rows": {
                "target": schema.columns[2], "features": schema.columns[..2], "rows_per_unit": 1,
            } },
            "participants": participants,
            "tests": [{ "name": "holdout", "dataset": stage.dataset("holdout").await?.id }],
            "warm_start": { "epochs": 0, "batch": 32, "learning_rate": 0.01, "seed": 7 },
            "private": {
                "rounds": ROUNDS, "optimizer": "adam", "learning_rate": 0.1, "evaluate_every": 10,
                "deadline_seconds": 100, "quorum": 3,
            },
        },
    }))?;
    let Spec::DpSgd(spec) = &plan.spec else { return Err("the job trains".into()) };
    let rehearsed = scene::rehearse(&stage, spec.clone()).await?;
    let (without, with) = rehearsed.means(SettingMeasure::Accuracy).ok_or("a measurement")?;
    assert!(with > 0.7 && with > without, "public units in the roles of the participants: {without} to {with}");
    let job = stage.sites[0].client.propose(stage.consortium, &plan).await?.summary.id;
    for (site, name) in stage.sites.iter().skip(1).zip(PRIVATE) {
        site.client.approve(job, stage.dataset(name).await?.id).await?;
    }
    let done = stage.finish(job, JOB).await?;

    let Some(Report::DpSgd(report)) = &done.report else { return Err("a finished job has its report".into()) };
    let accuracy =
        |arm: Arm| report.arms.iter().find(|result| result.arm == arm).map(|result| result.tests[0].accuracy);
    let (before, after) = (accuracy(Arm::Public).ok_or("an arm")?, accuracy(Arm::Private).ok_or("an arm")?);
    assert!(after > 0.85 && after > before, "{before} to {after}");
    for name in PRIVATE {
        let dataset = stage.dataset(name).await?;
        let entries = stage.operator.ledger(dataset.id).await?.items;
        let commits = entries.iter().filter(|entry| entry.kind == EntryKind::Commit);
        assert_eq!(commits.map(|entry| entry.count).sum::<u64>(), ROUNDS, "{name} pays each round once");
    }
    the_model_is_used_at_a_site(&stage, &done, after).await?;
    the_model_is_evaluated_on_private_tables(&stage, &done).await
}

/// Evaluates the model on the test table and predicts the rows of a file, at the lead's site.
async fn the_model_is_used_at_a_site(stage: &TestConsortium, job: &Job, accuracy: f64) -> TestResult<()> {
    let site = &stage.sites[0];
    let artifacts = site.client.artifacts(job.summary.id).await?;
    let model = artifacts.iter().find(|artifact| artifact.name == "model.safetensors").ok_or("a model")?;
    let path = site.folder().join("model.safetensors");
    fs::write(&path, site.client.content(model.id).await?)?;
    let path = path.to_str().ok_or("a path in UTF-8")?;
    let text = site.command(&["evaluate", path, "--dataset", "holdout", "--json"])?;
    let result: serde_json::Value = serde_json::from_str(&text)?;
    assert!((result["accuracy"].as_f64().ok_or("a figure")? - accuracy).abs() < 1e-9, "{result}");
    let (rows, predictions) = (site.folder().join("rows.csv"), site.folder().join("predictions.csv"));
    fs::write(&rows, "ward,age\na,95\na,5\n")?;
    let (rows, output) = (rows.to_str().ok_or("UTF-8")?, predictions.to_str().ok_or("UTF-8")?);
    site.command(&["predict", path, rows, "--output", output])?;
    let refused = site.command(&["predict", path, rows, "--output", rows]).err().ok_or("no input is overwritten")?;
    assert!(refused.to_string().contains("--output names the input") && fs::read_to_string(rows)?.contains("a,95"));
    let predictions = fs::read_to_string(&predictions)?;
    let values: Vec<&str> = predictions.lines().skip(1).filter_map(|line| line.split(',').nth(1)).collect();
    assert_eq!(values, ["true", "false"], "{predictions}");
    let graph = site.folder().join("model.onnx");
    let graph = graph.to_str().ok_or("UTF-8")?;
    site.command(&["export", path, "--output", graph])?;
    let text = site.command(&["evaluate", graph, "--dataset", "holdout", "--json"])?;
    let measured: serde_json::Value = serde_json::from_str(&text)?;
    let difference = measured["accuracy"].as_f64().ok_or("a figure")? - accuracy;
    assert!(difference.abs() < 0.005 && measured["rows"] == result["rows"], "{measured}");
    Ok(())
}

/// Evaluates the model on the private tables by one noisy release of each.
async fn the_model_is_evaluated_on_private_tables(stage: &TestConsortium, trained: &Job) -> TestResult<()> {
    let site = &stage.sites[0];
    let file = fs::read(site.folder().join("model.safetensors"))?;
    let models = site.folder().join("models");
    fs::create_dir_all(&models)?;
    fs::write(models.join("rows.safetensors"), &file)?;
    let mut participants = vec![json!({ "dataset": stage.dataset("commons").await?.id })];
    for name in PRIVATE {
        participants.push(json!({ "dataset": stage.dataset(name).await?.id }));
    }
    let plan: NewJob = serde_json::from_value(json!({
        "title": "How well are readmissions predicted?",
        "kind": "evaluation",
        "spec": {
            "unit": "user", "model": hex::encode(Sha256::digest(&file)), "participants": participants, "classes": [1],
            "noise_multiplier": 2.0, "accuracy": true, "quorum": 2, "deadline_seconds": 100,
        },
    }))?;
    let job = site.client.propose(stage.consortium, &plan).await?.summary.id;
    for (site, name) in stage.sites.iter().skip(1).zip(PRIVATE) {
        site.client.approve(job, stage.dataset(name).await?.id).await?;
    }
    let done = stage.finish(job, JOB).await?;
    let Some(Report::Evaluation(report)) = &done.report else { return Err("a finished job has its report".into()) };
    let accuracy = report.accuracy.ok_or("the accuracy was requested")?;
    // The sites count exactly, each for itself; both tables have the same number of patients with one row each.
    let model = models.join("rows.safetensors");
    let model = model.to_str().ok_or("a path in UTF-8")?;
    let mut exact = 0.0;
    for (site, name) in stage.sites.iter().skip(1).zip(PRIVATE) {
        let result: serde_json::Value =
            serde_json::from_str(&site.command(&["evaluate", model, "--dataset", name, "--json"])?)?;
        exact += result["accuracy"].as_f64().ok_or("a figure")? / PRIVATE.len() as f64;
    }
    assert!(report.sites == 2 && (accuracy.value - exact).abs() < 6.0 * accuracy.noise, "{exact}: {accuracy:?}");
    let auroc = report.classes[0].metrics.as_ref().ok_or("enough users for the noise")?.auroc;
    assert!(auroc.high > 0.9, "{auroc:?}");
    let files = site.client.artifacts(trained.summary.id).await?;
    let model = files.iter().find(|file| file.name == "model.safetensors").ok_or("a model")?;
    let record: ModelRecord = site.client.get(&format!("/artifacts/{}/model", model.id)).await?;
    let evaluated = record.quality.iter().filter(|one| one.origin == QualityOrigin::Evaluation);
    assert_eq!(evaluated.count(), 2, "accuracy and AUROC: {:?}", record.quality);
    Ok(())
}
