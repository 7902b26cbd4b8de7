//! The tables of the clinics: made-up visits with the columns of the OMOP example of the documentation, and one job that
//! describes the patients of all of them together ("Table One").

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::json;
use undertone_api::dataset::Dataset;
use undertone_api::id::JobId;
use undertone_api::job::analytics::Spec as Analytics;
use undertone_api::job::{NewJob, Report, Spec};
use undertone_server_core::ctx::Ctx;
use undertone_server_core::service::{dataset, job};

use crate::consortium::DemoConsortium;
use crate::job::approve;
use crate::process::WorkerProgram;
use crate::recipe::PartyRecipe;
use crate::{DemoError, explain_refusal, follow};

/// The tables, one at each site after the first.
pub(super) const TABLES: [&str; 3] = ["north-visits", "south-visits", "voice-visits"];
/// Patients of a table.
const PATIENTS: usize = 3_000;
/// The declared columns.
const SCHEMA: &str = r#"unit = "person_id"

[[columns]]
name = "age"
kind = "integer"
least = 0
most = 110

[[columns]]
name = "sex"
kind = "category"
values = ["female", "male", "unknown"]

[[columns]]
name = "weight"
kind = "real"
least = 0.0
most = 200.0
step = 0.1

[[columns]]
name = "smoker"
kind = "boolean"

[[columns]]
name = "visit_date"
kind = "date"
first = "2020-01-01"
last = "2026-12-31"
"#;

/// Returns the part of a site's policy for its table.
pub(super) fn policy((epsilon, delta): (f64, f64)) -> String {
    let of_table =
        |name: &str| format!("\n[datasets.\"{name}\"]\nbudget.user = {{ epsilon = {epsilon:?}, delta = {delta:?} }}\n");
    TABLES.into_iter().map(of_table).collect()
}

/// Makes the table of each site after the first.
pub(super) async fn prepare(
    program: &WorkerProgram,
    parties: &[PartyRecipe],
    folders: &[PathBuf],
) -> Result<(), DemoError> {
    for (number, ((name, party), site)) in TABLES.iter().zip(&parties[1..]).zip(&folders[1..]).enumerate() {
        println!("{}: adds `{name}`", party.name);
        let (rows, schema) = (site.join("visits.csv"), site.join("visits.toml"));
        std::fs::write(&rows, write_rows(number))?;
        std::fs::write(&schema, SCHEMA)?;
        let text = |path: &Path| path.display().to_string();
        let mut arguments = ["data", "add-table", "--name", *name, "--schema"].map(str::to_owned).to_vec();
        arguments.extend([text(&schema), "--input".to_owned(), text(&rows)]);
        program.run(site, &arguments).await?;
    }
    Ok(())
}

/// Returns the visits of a site as CSV: one to three of each patient. The sites differ in age, so that a comparison of
/// them shows something.
fn write_rows(site: usize) -> String {
    let mut text = "person_id,age,sex,weight,smoker,visit_date\n".to_owned();
    let mut state = site as u64 + 1;
    let mut draw = |end: u64| {
        // splitmix64 (Steele, Lea and Flood 2014)
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = state;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (word ^ (word >> 31)) % end
    };
    for person in 0..PATIENTS {
        // The sum of two is more often near the middle.
        let age = 15 + 5 * site as u64 + draw(35) + draw(35);
        let sex = ["female", "male", "female", "male", "unknown"][draw(5) as usize];
        let weight = 450 + draw(300) + draw(300);
        let smoker = draw(5) == 0;
        for _ in 0..=draw(3) {
            let (year, month, day) = (2020 + draw(7), 1 + draw(12), 1 + draw(28));
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{site}-{person},{age},{sex},{}.{},{smoker},{year}-{month:02}-{day:02}",
                weight / 10,
                weight % 10
            );
        }
    }
    text
}

/// Proposes the job and approves it as each clinic's steward.
pub(super) async fn launch(ctx: &Ctx, consortium: &DemoConsortium) -> Result<JobId, DemoError> {
    let proposer = &consortium.people[0].actor;
    let datasets =
        dataset::list(ctx, proposer, consortium.id).await.map_err(explain_refusal("listing the datasets"))?;
    let new = NewJob { title: "Table One of three sites".to_owned(), spec: Spec::Analytics(spec(&datasets)?) };
    let proposed =
        job::propose(ctx, proposer, consortium.id, new).await.map_err(explain_refusal("proposing Table One"))?;
    approve(ctx, consortium, &proposed).await?;
    Ok(proposed.summary.id)
}

fn spec(datasets: &[Dataset]) -> Result<Analytics, DemoError> {
    let find = |name: &&str| datasets.iter().find(|dataset| dataset.name == **name);
    let tables: Vec<&Dataset> = TABLES.iter().filter_map(find).collect();
    let columns = tables.first().and_then(|dataset| dataset.table.as_ref()).map(|table| &table.columns);
    let spec = json!({
        "unit": "user",
        "participants": tables.iter().map(|dataset| json!({ "dataset": dataset.id })).collect::<Vec<_>>(),
        "columns": columns,
        "queries": [{ "name": "Table One", "aggregates": [
            { "aggregate": "count_units" },
            { "aggregate": "variance", "column": "age" },
            { "aggregate": "histogram", "column": "sex" },
            { "aggregate": "variance", "column": "weight" },
            { "aggregate": "histogram", "column": "smoker" },
            { "aggregate": "quantiles", "column": "visit_date", "probabilities": [0.5] },
        ] }],
        "noise_multiplier": 4.3,
        "quorum": TABLES.len(),
        "deadline_seconds": 600,
    });
    serde_json::from_value(spec).map_err(|error| DemoError::Job(format!("'s Table One is wrong: {error}")))
}

/// Waits for the end of the job and prints its count of patients.
pub(super) async fn follow(ctx: &Ctx, consortium: &DemoConsortium, id: JobId, began: Instant) -> Result<(), DemoError> {
    let job = follow::wait_for_end(ctx, consortium, id, "Table One").await?;
    let Some(Report::Analytics(report)) = &job.report else {
        return Err(DemoError::Job("of Table One has no report".to_owned()));
    };
    let patients = report.lines().next().map_or_else(String::new, |line| {
        format!("{:.0} to {:.0} patients", line.number.low.round(), line.number.high.round())
    });
    println!(
        "[{:>4} s] Table One is finished, {patients}: {}/c/{}/jobs/{id}",
        began.elapsed().as_secs(),
        ctx.addresses.http,
        consortium.id
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{PATIENTS, write_rows};

    #[test]
    fn visits_of_a_site_are_the_same_each_time() {
        let rows = write_rows(1);
        assert_eq!(rows, write_rows(1));
        assert_ne!(rows, write_rows(2));
        let mut people: Vec<&str> = rows.lines().skip(1).filter_map(|row| row.split(',').next()).collect();
        people.dedup();
        assert_eq!(people.len(), PATIENTS);
    }
}
