//! `undertone datasets`: the datasets of a consortium, with a line for each budget.

use undertone_api::budget::Account;
use undertone_api::dataset::Dataset;

use crate::client::RestClient;
use crate::output::{StandardOutput, format_table, format_word, round_down, round_up};
use crate::{CommandAnswer, CommandResult, ConsortiumOption};

/// Lists the datasets.
pub(crate) async fn run(consortium: &ConsortiumOption, out: &mut StandardOutput) -> CommandResult {
    let mut client = RestClient::open()?;
    let consortium = client.choose_consortium(consortium.consortium.as_deref()).await?;
    let datasets: Vec<Dataset> = client.list(&format!("/consortia/{}/datasets", consortium.id), "").await?;
    out.print(&datasets, |datasets| {
        let head = ["ID", "ORGANIZATION", "NAME", "VISIBILITY", "CONTENT", "UNIT", "LIMIT", "COMMITTED", "LEFT"];
        format_table(&head, &datasets.iter().flat_map(list_rows).collect::<Vec<_>>())
    })?;
    Ok(CommandAnswer::Positive)
}

/// Returns a row for each budget of a dataset, or one without figures.
fn list_rows(dataset: &Dataset) -> Vec<Vec<String>> {
    let described = [
        dataset.id.to_string(),
        dataset.organization_name.clone(),
        dataset.name.clone(),
        format_word(&dataset.visibility),
        dataset.content.label().to_owned(),
    ];
    let figures = |account: &Account| {
        let limit = account.epsilon.get();
        [
            format_word(&account.unit),
            format!("{limit}"),
            round_up(account.committed),
            round_down((limit - account.committed).max(0.0)),
        ]
    };
    let budgets: Vec<[String; 4]> = dataset.accounts.iter().map(figures).collect();
    if budgets.is_empty() {
        return vec![described.to_vec()];
    }
    budgets.into_iter().map(|budget| described.iter().cloned().chain(budget).collect()).collect()
}
