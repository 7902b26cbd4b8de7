//! The tutorial "From three hospitals' tables to Table One", as it is written: the declaration, the command, the policy
//! and the statements come from its page. And groups of codes that nobody declared.

use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use serde_json::json;
use support::stage::{SiteDataset, TestConsortium, TestDatabase, TestResult, TestSite};
use support::workspace;
use undertone_api::budget::{EntryKind, NewBudget};
use undertone_api::dataset::DatasetContent;
use undertone_api::id::JobId;
use undertone_api::job::analytics::sql::parse_queries;
use undertone_api::job::analytics::{
    AggregateResult, ContributionLimits, LEAST_SHARE, NUMBERS_FILE, Report as Numbers,
};
use undertone_api::job::{NewJob, Report};
use undertone_privacy::{Delta, Epsilon, PrivacyUnit};

use crate::masked::certificate_verifies_offline;

const JOB: Duration = Duration::from_mins(2);
/// The hospitals.
const HOSPITALS: [&str; 3] = ["north", "south", "west"];
/// Patients of a hospital.
const PATIENTS: usize = 600;

/// Returns the blocks of a language on the tutorial's page.
fn read_blocks(language: &str) -> TestResult<Vec<String>> {
    let text = fs::read_to_string(workspace::root().join("docs/src/tutorials/table-one.md"))?;
    let fence = format!("```{language}\n");
    let blocks = text.split(&fence).skip(1);
    Ok(blocks.filter_map(|rest| rest.split("```").next()).map(str::to_owned).collect())
}

/// Returns the age and the sex of a patient. Those of the hospitals differ.
fn patient(hospital: usize, number: usize) -> (usize, &'static str) {
    ((hospital * 15 + number * 7) % 80, if number.is_multiple_of(3 + hospital) { "male" } else { "female" })
}

fn patients(hospital: usize) -> impl Iterator<Item = (usize, &'static str)> {
    (0..PATIENTS).map(move |number| patient(hospital, number))
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_of_three_hospitals_become_table_one() -> TestResult<()> {
    let mut stage = TestConsortium::set(TestDatabase::Sqlite, &["North", "South", "West"]).await?;
    let policy = read_blocks("toml")?.pop().ok_or("a policy")?;
    let kinds = policy.lines().find(|line| line.starts_with("kinds")).ok_or("the kinds of jobs")?;
    for (index, site) in stage.sites.iter_mut().enumerate() {
        add_table(site, index)?;
        site.edit_policy("kinds = [\"dp_sgd\"]", kinds)?;
        site.edit_policy("release_period_seconds = { ", "release_period_seconds = { analytics = 0.05, ")?;
        site.edit_policy("[budget.record]", "[budget.user]")?;
    }
    stage.open().await?;
    let (job, report) =
        run_job(&stage, "patients", "Table One of three hospitals", &read_blocks("sql")?.join(";\n")).await?;
    check_table_one(&report)?;
    check_drift(&report)?;
    check_file(&stage, job).await?;
    check_releases(&stage, "patients", 1).await?;
    Ok(())
}

/// The codes of diagnoses, each with its patients at each hospital.
const CODES: [(&str, usize); 4] = [("I21.4", 400), ("E11.9", 250), ("J45", 150), ("Q87.1", 1)];

/// Each hospital releases a vector of the choice, and one of the counts of the chosen codes. The code of one patient is
/// not among them.
#[tokio::test(flavor = "multi_thread")]
async fn codes_that_nobody_declared_become_groups() -> TestResult<()> {
    let mut stage = TestConsortium::set(TestDatabase::Sqlite, &["North", "South", "West"]).await?;
    for (index, site) in stage.sites.iter_mut().enumerate() {
        add_diagnoses(site, index)?;
        site.edit_policy("kinds = [\"dp_sgd\"]", "kinds = [\"dp_sgd\", \"analytics\"]")?;
        site.edit_policy("release_period_seconds = { ", "release_period_seconds = { analytics = 0.05, ")?;
        site.edit_policy("[budget.record]", "[budget.user]")?;
    }
    stage.open().await?;
    let statement = "SELECT code, count(DISTINCT patient) FROM rows GROUP BY code LIMIT 10";
    let (job, report) = run_job(&stage, "diagnoses", "The most frequent diagnoses", statement).await?;
    let groups: Vec<&str> = report.queries[0].cells.iter().flat_map(|cell| &cell.groups).map(String::as_str).collect();
    for (code, patients) in CODES {
        let place = groups.iter().position(|group| *group == code);
        if patients == 1 {
            assert_eq!(place, None, "a code of one patient of a hospital is not shown: {groups:?}");
            continue;
        }
        let place = place.ok_or_else(|| format!("{code} is not among {groups:?}"))?;
        check_number(&report.queries[0].cells[place].aggregates[0], 0, (HOSPITALS.len() * patients) as f64)?;
    }
    check_releases(&stage, "diagnoses", 2).await?;
    certificate_verifies_offline(&stage, job).await
}

/// Runs a job over the tables of the hospitals whose names end with `table`, and returns its numbers.
async fn run_job(stage: &TestConsortium, table: &str, title: &str, sql: &str) -> TestResult<(JobId, Numbers)> {
    let budget =
        NewBudget { unit: PrivacyUnit::User, epsilon: Epsilon::new(8.0)?, delta: Delta::new(1e-6)?, filter: None };
    let mut participants = Vec::new();
    let mut schema = None;
    for (site, name) in stage.sites.iter().zip(HOSPITALS) {
        let dataset = stage.dataset(&format!("{name}-{table}")).await?;
        let own = dataset.table.ok_or("a registered table has its schema")?;
        assert_eq!((dataset.content, own.unit_column.as_str()), (DatasetContent::Table, "patient"));
        site.client.set_budget(dataset.id, &budget).await?;
        participants.push(dataset.id);
        schema = Some(own);
    }
    let parsed = parse_queries(sql, &schema.ok_or("a schema")?, ContributionLimits::default())?;
    let plan: NewJob = serde_json::from_value(json!({
        "title": title,
        "kind": "analytics",
        "spec": {
            "unit": "user",
            "participants": participants.iter().map(|dataset| json!({ "dataset": dataset })).collect::<Vec<_>>(),
            "columns": parsed.columns,
            "queries": parsed.queries,
            "noise_multiplier": 4.3,
            "quorum": 3,
            "deadline_seconds": 100,
        },
    }))?;
    let job = stage.sites[0].client.propose(stage.consortium, &plan).await?.summary.id;
    for (site, dataset) in stage.sites.iter().zip(participants) {
        site.client.approve(job, dataset).await?;
    }
    match stage.finish(job, JOB).await?.report {
        Some(Report::Analytics(report)) => Ok((job, report)),
        _ => Err("a finished job has its report".into()),
    }
}

/// Checks that each hospital was charged for so many releases.
async fn check_releases(stage: &TestConsortium, table: &str, releases: u64) -> TestResult<()> {
    for name in HOSPITALS {
        let dataset = stage.dataset(&format!("{name}-{table}")).await?;
        let entries = stage.operator.ledger(dataset.id).await?.items;
        let commits = entries.iter().filter(|entry| entry.kind == EntryKind::Commit);
        assert_eq!(commits.map(|entry| entry.count).sum::<u64>(), releases, "{name}");
        assert!(dataset.accounts.first().ok_or("an account")?.spent > 0.0, "{name} is charged");
    }
    Ok(())
}

/// Adds a table with a row for each patient.
fn add_diagnoses(site: &mut TestSite, index: usize) -> TestResult<()> {
    let mut rows = "patient,code\n".to_owned();
    for (code, patients) in CODES {
        for number in 0..patients {
            writeln!(rows, "{code}-{number},{}", code.to_ascii_lowercase())?;
        }
    }
    let name = format!("{}-diagnoses", HOSPITALS[index]);
    let (rows_file, schema) = (site.folder().join("diagnoses.csv"), site.folder().join("diagnoses.toml"));
    fs::write(&rows_file, rows)?;
    fs::write(&schema, "unit = \"patient\"\n\n[[columns]]\nname = \"code\"\nkind = \"key\"\nlongest = 6\n")?;
    let (rows_file, schema) = (rows_file.display().to_string(), schema.display().to_string());
    site.command(&["data", "add-table", "--name", &name, "--schema", &schema, "--input", &rows_file])?;
    site.holdings.push(SiteDataset::new(&name, "private", &[]));
    Ok(())
}

/// Adds the table of a hospital by the tutorial's command.
fn add_table(site: &mut TestSite, index: usize) -> TestResult<()> {
    let header = read_blocks("csv")?.pop().ok_or("rows")?;
    let mut rows = format!("{}\n", header.lines().next().ok_or("a header")?);
    for (number, (age, sex)) in patients(index).enumerate() {
        let weight = 50 + number % 40;
        // Two visits of each patient.
        for month in 1..=2 {
            writeln!(rows, "p-{number},{age},{sex},{weight}.5,{},2024-{month:02}-15", number % 5 == 0)?;
        }
    }
    let schema = read_blocks("toml")?.into_iter().next().ok_or("a declaration")?;
    fs::write(site.folder().join("patients.csv"), rows)?;
    fs::write(site.folder().join("patients.toml"), schema)?;
    let command = read_blocks("sh")?.pop().ok_or("a command")?;
    let place = |word: &str| match word.strip_prefix("patients.") {
        Some(_) => site.folder().join(word).display().to_string(),
        None => word.replace("north", HOSPITALS[index]),
    };
    let words: Vec<String> = command.split_whitespace().skip(1).map(place).collect();
    site.command(&words.iter().map(String::as_str).collect::<Vec<_>>())?;
    site.holdings.push(SiteDataset::new(&format!("{}-patients", HOSPITALS[index]), "private", &[]));
    Ok(())
}

/// The first statement: the numbers of the hospitals together.
fn check_table_one(report: &Numbers) -> TestResult<()> {
    assert_eq!((report.sites, report.queries.len()), (3, 2));
    let aggregates = &report.queries[0].cells[0].aggregates;
    let all = || (0..HOSPITALS.len()).flat_map(patients);
    let count = all().count() as f64;
    check_number(&aggregates[0], 0, count)?;
    check_number(&aggregates[1], 0, all().map(|(age, _)| age as f64).sum::<f64>() / count)?;
    for (place, sex) in ["female", "male"].into_iter().enumerate() {
        check_number(&aggregates[2], place, all().filter(|(_, other)| *other == sex).count() as f64)?;
    }
    assert!(aggregates[5].is_date, "{:?}", aggregates[5]);
    Ok(())
}

/// The second statement: the numbers of each hospital, and their distances.
fn check_drift(report: &Numbers) -> TestResult<()> {
    let own = &report.queries[1];
    assert_eq!((own.cells.len(), own.drifts.len()), (3, 3));
    let women = |hospital: usize| patients(hospital).filter(|(_, sex)| *sex == "female").count() as f64;
    for (hospital, cell) in own.cells.iter().enumerate() {
        assert!(cell.site.is_some(), "{cell:?}");
        check_number(&cell.aggregates[0], 0, women(hospital))?;
    }
    for (hospital, drift) in own.drifts.iter().enumerate() {
        let others: f64 = (0..HOSPITALS.len()).filter(|other| *other != hospital).map(women).sum();
        let exact = (women(hospital) / PATIENTS as f64 - others / (2 * PATIENTS) as f64).abs();
        let distance = &drift.aggregates[0].numbers[0];
        let slack = 1.5 * (distance.high - distance.low);
        assert!((distance.low - slack..=distance.high + slack).contains(&exact), "{exact}: {distance:?}");
        assert!(exact > LEAST_SHARE, "the hospitals differ");
    }
    Ok(())
}

/// The file of numbers, by its digest and its format.
async fn check_file(stage: &TestConsortium, job: JobId) -> TestResult<()> {
    let client = &stage.sites[1].client;
    let files = client.artifacts(job).await?;
    let file = files.iter().find(|file| file.name == NUMBERS_FILE).ok_or("the numbers as Parquet")?;
    let content = client.content(file.id).await?;
    assert!(content.starts_with(b"PAR1") && content.ends_with(b"PAR1"), "{} bytes", content.len());
    Ok(())
}

/// Checks that a number is within five deviations of the noise of the exact one.
fn check_number(aggregate: &AggregateResult, index: usize, exact: f64) -> TestResult<()> {
    let number = aggregate.numbers.get(index).ok_or("a number of each bin")?;
    let value = number.value.ok_or_else(|| format!("{}: hidden: {number:?}", aggregate.label))?;
    assert!(number.noise > 0.0 && number.low < number.high, "{number:?}");
    assert!((value - exact).abs() <= 5.0 * number.noise, "{}: {exact}, not {number:?}", aggregate.label);
    Ok(())
}
