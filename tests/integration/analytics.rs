//! Tables of three sites, analysed together: one noisy vector and one charge of each.

use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use serde_json::json;
use support::stage::{SiteDataset, TestConsortium, TestDatabase, TestResult, TestSite};
use undertone_api::budget::{EntryKind, NewBudget};
use undertone_api::dataset::DatasetContent;
use undertone_api::job::analytics::AggregateResult;
use undertone_api::job::{NewJob, Report};
use undertone_privacy::{Delta, Epsilon, PrivacyUnit};

const JOB: Duration = Duration::from_mins(2);
/// The tables, one at each site.
const TABLES: [&str; 3] = ["north", "south", "west"];
/// Patients of a table.
const PATIENTS: usize = 600;
const SCHEMA: &str = r#"{ "unit": "patient", "columns": [
    { "name": "age", "kind": "integer", "least": 0, "most": 100 },
    { "name": "ward", "kind": "category", "values": ["a", "b"] }
] }"#;

/// Returns the age and the ward of a patient.
fn patient(site: usize, patient: usize) -> (usize, &'static str) {
    ((site * 17 + patient * 7) % 101, if patient.is_multiple_of(3) { "b" } else { "a" })
}

fn patients() -> impl Iterator<Item = (usize, &'static str)> {
    (0..TABLES.len()).flat_map(|site| (0..PATIENTS).map(move |number| patient(site, number)))
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_of_three_sites_answer_one_job() -> TestResult<()> {
    let mut stage = TestConsortium::set(TestDatabase::Sqlite, &["North", "South", "West"]).await?;
    for (index, site) in stage.sites.iter_mut().enumerate() {
        add_table(site, index)?;
        site.edit_policy("kinds = [\"dp_sgd\"]", "kinds = [\"analytics\"]")?;
        site.edit_policy("release_period_seconds = { ", "release_period_seconds = { analytics = 0.05, ")?;
        site.edit_policy("[budget.record]", "[budget.user]")?;
    }
    stage.open().await?;
    let budget =
        NewBudget { unit: PrivacyUnit::User, epsilon: Epsilon::new(8.0)?, delta: Delta::new(1e-6)?, filter: None };
    let mut participants = Vec::new();
    let mut columns = Vec::new();
    for (site, name) in stage.sites.iter().zip(TABLES) {
        let dataset = stage.dataset(name).await?;
        let schema = dataset.table.ok_or("a registered table has its schema")?;
        assert_eq!((dataset.content, schema.unit_column.as_str()), (DatasetContent::Table, "patient"));
        site.client.set_budget(dataset.id, &budget).await?;
        participants.push(json!({ "dataset": dataset.id }));
        columns = schema.columns;
    }
    let plan: NewJob = serde_json::from_value(json!({
        "title": "Ages of three hospitals",
        "kind": "analytics",
        "spec": {
            "unit": "user",
            "participants": participants,
            "columns": columns,
            "queries": [
                { "name": "ages", "aggregates": [{ "aggregate": "count" }, { "aggregate": "mean", "column": "age" }] },
                { "name": "wards", "group_by": [{ "by": "values", "column": "ward" }], "aggregates": [
                    { "aggregate": "histogram", "column": "age", "edges": [0, 50, 100] },
                ] },
            ],
            "noise_multiplier": 2.0,
            "quorum": 3,
            "deadline_seconds": 100,
        },
    }))?;
    let job = stage.sites[0].client.propose(stage.consortium, &plan).await?.summary.id;
    for (site, name) in stage.sites.iter().zip(TABLES) {
        site.client.approve(job, stage.dataset(name).await?.id).await?;
    }
    let done = stage.finish(job, JOB).await?;

    let Some(Report::Analytics(report)) = &done.report else { return Err("a finished job has its report".into()) };
    assert_eq!((report.sites, report.queries.len()), (3, 2));
    let ages = &report.queries[0].cells[0].aggregates;
    let all = patients().count() as f64;
    check_number(&ages[0], 0, all)?;
    check_number(&ages[1], 0, patients().map(|(age, _)| age as f64).sum::<f64>() / all)?;
    for (cell, ward) in report.queries[1].cells.iter().zip(["a", "b"]) {
        assert_eq!(cell.groups, [ward]);
        for (bin, is_old) in [false, true].into_iter().enumerate() {
            let count = patients().filter(|(age, other)| *other == ward && (*age >= 50) == is_old).count();
            check_number(&cell.aggregates[0], bin, count as f64)?;
        }
    }
    for name in TABLES {
        let dataset = stage.dataset(name).await?;
        let entries = stage.operator.ledger(dataset.id).await?.items;
        let commits = entries.iter().filter(|entry| entry.kind == EntryKind::Commit);
        assert_eq!(commits.map(|entry| entry.count).sum::<u64>(), 1, "{name} releases one vector");
        assert!(dataset.accounts.first().ok_or("an account")?.spent > 0.0, "{name} is charged");
    }
    Ok(())
}

fn add_table(site: &mut TestSite, index: usize) -> TestResult<()> {
    let mut rows = "patient,age,ward\n".to_owned();
    for number in 0..PATIENTS {
        let (age, ward) = patient(index, number);
        writeln!(rows, "{}-{number},{age},{ward}", TABLES[index])?;
    }
    let input = site.folder().join("patients.csv");
    let schema = site.folder().join("patients.json");
    fs::write(&input, rows)?;
    fs::write(&schema, SCHEMA)?;
    let input = input.to_str().ok_or("a path in UTF-8")?;
    let schema = schema.to_str().ok_or("a path in UTF-8")?;
    site.command(&["data", "add-table", "--name", TABLES[index], "--schema", schema, "--input", input])?;
    site.holdings.push(SiteDataset::new(TABLES[index], "private", &[]));
    Ok(())
}

/// Checks that a number has an interval that the exact one is in, up to five deviations of the noise.
fn check_number(aggregate: &AggregateResult, index: usize, exact: f64) -> TestResult<()> {
    let number = aggregate.numbers.get(index).ok_or("a number of each bin")?;
    let value = number.value.ok_or_else(|| format!("{}: hidden: {number:?}", aggregate.label))?;
    assert!(number.noise > 0.0 && number.low < number.high, "{number:?}");
    assert!((value - exact).abs() <= 5.0 * number.noise, "{}: {exact}, not {number:?}", aggregate.label);
    Ok(())
}
