//! `undertone plan`: the price of a job before it is proposed.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::json;
use undertone_api::dataset::Dataset;
use undertone_api::job::{NewJob, Spec};
use undertone_api::plan::{Plan, PlanAccount, PlanParty};
use utoipa::ToSchema;

use super::read_job;
use crate::client::{ClientError, RestClient};
use crate::output::{StandardOutput, format_table, format_word, round_down, round_up};
use crate::{CommandAnswer, CommandResult, ConsortiumOption, ignore_closed_pipe};

/// The options of `plan`.
#[derive(Debug, clap::Args)]
pub(crate) struct PlanOptions {
    /// The job, JSON with `title`, `kind` and `spec`; `-` is the standard input.
    file: PathBuf,
    #[command(flatten)]
    consortium: ConsortiumOption,
}

/// The price of a job, and its expected errors.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PlanAnswer {
    /// The server's plan.
    #[serde(flatten)]
    plan: Plan,
    /// The expected error of each number of an `analytics` job, computed on this machine; empty for other kinds.
    expected_errors: Vec<PlannedError>,
}

/// The expected error of an aggregate: half the width of its 95 % interval, in the units of its column.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PlannedError {
    /// The name of the query.
    query: String,
    /// The aggregate: `mean(age)`.
    label: String,
    /// The error over the sites; of a query by site, the greatest error of a site.
    overall: f64,
}

/// Prices a job.
pub(crate) async fn run(options: &PlanOptions, out: &mut StandardOutput) -> CommandResult {
    let mut document = read_job(&options.file)?;
    let mut client = RestClient::open()?;
    let consortium = client.choose_consortium(options.consortium.consortium.as_deref()).await?;
    document.insert("consortium".to_owned(), json!(consortium.id));
    let plan: Plan = client.post("/plans", &document).await?;
    let job: Option<NewJob> = serde_json::from_value(document.into()).ok();
    let expected_errors = match job.map(|job| job.spec) {
        Some(Spec::Analytics(spec)) => {
            let datasets = list_datasets(&mut client, &consortium.id.to_string()).await?;
            let errors = spec.expected_errors(&datasets).unwrap_or_default().into_iter();
            errors
                .map(|error| PlannedError { query: error.query, label: error.label, overall: error.overall })
                .collect()
        }
        _ => Vec::new(),
    };
    let answer = PlanAnswer { plan, expected_errors };
    ignore_closed_pipe(out.print(&answer, format_plan))?;
    Ok(CommandAnswer::from_condition(answer.plan.admitted))
}

async fn list_datasets(client: &mut RestClient, consortium: &str) -> Result<Vec<Dataset>, ClientError> {
    client.list(&format!("/consortia/{consortium}/datasets"), "").await
}

/// Returns a plan as text: violations, the accounts, the rounds, errors, and the nearest plans.
fn format_plan(answer: &PlanAnswer) -> String {
    let plan = &answer.plan;
    let mut text = String::new();
    let verdict = if plan.admitted { "The budgets admit this plan." } else { "This plan cannot be proposed." };
    let mut line = |line: String| text.push_str(&(line + "\n"));
    line(verdict.to_owned());
    for violation in &plan.violations {
        line(format!("  {}: {}", violation.field, violation.message));
    }
    if !plan.parties.is_empty() {
        let head = ["DATASET", "UNIT", "EPSILON", "DELTA", "BEFORE", "AFTER", "LIMIT", "LEFT", "FITS"];
        let rows: Vec<Vec<String>> = plan.parties.iter().flat_map(list_accounts).collect();
        line(format!("\n{}", format_table(&head, &rows).trim_end()));
    }
    for (party, reason) in plan.parties.iter().flat_map(|party| {
        party.accounts.iter().filter_map(move |account| Some((&party.dataset_name, account.reason.as_ref()?)))
    }) {
        line(format!("{party}: {reason}"));
    }
    if let Some(buys) = &plan.buys {
        line(format!(
            "\nRounds: {} requested, {} fit. {}",
            buys.rounds, buys.rounds_that_fit, buys.bottleneck.sentence
        ));
    }
    if let Some(together) = &plan.together {
        let epsilon = together.epsilon.map_or("infinite".to_owned(), round_up);
        line(format!(
            "A person in the data of {} of {} organizations: ε = {epsilon} at δ = {}.",
            together.most, together.organizations, together.delta
        ));
    }
    if !answer.expected_errors.is_empty() {
        let row =
            |error: &PlannedError| vec![error.query.clone(), error.label.clone(), format!("{:.4}", error.overall)];
        let rows: Vec<Vec<String>> = answer.expected_errors.iter().map(row).collect();
        line(format!("\n{}", format_table(&["QUERY", "AGGREGATE", "EXPECTED ERROR (95 %)"], &rows).trim_end()));
    }
    if !plan.offers.is_empty() {
        line("\nThe nearest plans that fit:".to_owned());
        for offer in &plan.offers {
            let mut sentence = format!("  {}", offer.sentence);
            for change in &offer.changes {
                // Writing to a string cannot fail.
                let _ = write!(sentence, "\n    {}: {} instead of {}", change.field, change.to, change.from);
            }
            line(sentence);
        }
    }
    text
}

/// Returns a row for each account that a dataset pays from.
fn list_accounts(party: &PlanParty) -> Vec<Vec<String>> {
    let row = |(index, account): (usize, &PlanAccount)| {
        let figure = |value: Option<f64>| value.map_or("-".to_owned(), round_up);
        let remainder = party.left.filter(|_| index == 0);
        vec![
            party.dataset_name.clone(),
            format_word(&account.unit),
            figure(account.epsilon),
            account.delta.map_or("-".to_owned(), |delta| delta.to_string()),
            round_up(account.before),
            figure(account.after),
            account.limit.map_or("no budget".to_owned(), |limit| limit.to_string()),
            remainder.map_or("-".to_owned(), round_down),
            if account.fits { "yes" } else { "no" }.to_owned(),
        ]
    };
    party.accounts.iter().enumerate().map(row).collect()
}
