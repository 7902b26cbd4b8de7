//! The planner: a plain form with the charge beside it. The server computes all of it, with the code that decides. With
//! a script the numbers follow the form automatically, without one a button recalculates it.

#![expect(unreachable_pub, reason = "the server macro makes what it generates public")]

pub(super) mod cost;

use leptos::prelude::*;
use undertone_api::budget::AccountStanding;
use undertone_api::dataset::{Dataset, DatasetContent, Visibility};
use undertone_api::id::{ConsortiumId, DatasetId, DraftId};
use undertone_privacy::PrivacyUnit;
use undertone_server_core::service;

use super::is_evaluated;
use super::plan::EvaluationPlan;
use crate::component::said::VisibilityMark;
use crate::fault::Fault;
use crate::kind::field::{
    form_options, form_word, render_checkbox, render_choice, render_line, render_number, render_text,
};
use crate::kind::priced_form::PricedForm;
use crate::kind::submission::PlanSubmission;
use crate::path;
use crate::request::DashboardRequest;
use crate::words;

/// The kind's word in addresses.
const WORD: &str = "evaluation";
/// The address that saves a plan as a draft.
pub(super) const SAVE: &str = "/ui/draft-evaluation";
/// The form's id, to which fields outside it refer.
pub(super) const FORM: &str = "plan-evaluation";
/// An example of columns.
const COLUMNS: &str = r#"{ "target": { "name": "returns", "kind": "boolean" }, "features": [{ "name": "age", "kind": "integer", "least": 0, "most": 100 }], "rows_per_unit": 10 }"#;

/// Proposes a plan, and with it the draft from which it was opened; returns the new job's address.
///
/// # Errors
/// The operation's problem, to a browser that posts the form itself.
#[server(prefix = "/ui", endpoint = "propose-evaluation")]
pub async fn propose_evaluation(
    consortium: ConsortiumId,
    #[server(default)] draft: Option<DraftId>,
    #[server(default)] version: Option<u64>,
    evaluation: EvaluationPlan,
) -> Result<String, Fault> {
    use undertone_api::job::Spec;
    let submission = PlanSubmission::new(consortium, (draft, version), &evaluation.title, "evaluation", &evaluation);
    submission.propose(|_| evaluation.spec().map(Spec::Evaluation)).await
}

/// Saves a plan as a draft, without a request for approval; it replaces the draft from which it was opened, if any.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "draft-evaluation")]
pub async fn save_evaluation(
    consortium: ConsortiumId,
    #[server(default)] draft: Option<DraftId>,
    #[server(default)] version: Option<u64>,
    evaluation: EvaluationPlan,
) -> Result<(), Fault> {
    use undertone_api::job::Spec;
    let submission = PlanSubmission::new(consortium, (draft, version), &evaluation.title, "evaluation", &evaluation);
    submission.save(|_| evaluation.spec().map(Spec::Evaluation)).await
}

/// Returns the charge of a plan, or its violations, as HTML.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "weigh-evaluation")]
pub async fn weigh_evaluation(consortium: ConsortiumId, evaluation: EvaluationPlan) -> Result<String, Fault> {
    let request = DashboardRequest::from_context()?;
    let datasets = service::dataset::list(request.ctx(), request.actor()?, consortium).await?;
    let mut standings = Vec::new();
    for part in evaluation.parts.iter().filter(|part| part.joins) {
        let charged = |dataset: &&Dataset| dataset.id == part.dataset && dataset.visibility != Visibility::Public;
        if let Some(dataset) = datasets.iter().find(charged) {
            let balances = service::budget::balances(request.ctx(), request.actor()?, dataset.id).await?;
            standings.push((dataset.id, balances));
        }
    }
    Ok(cost::render_cost(&evaluation, &datasets, &standings, consortium))
}

/// Renders the whole planner for a plan.
pub(super) fn render_planner(
    plan: &EvaluationPlan,
    datasets: &[Dataset],
    standings: &[(DatasetId, Vec<AccountStanding>)],
    consortium: ConsortiumId,
) -> AnyView {
    let cost = cost::render_cost(plan, datasets, standings, consortium);
    let fields = view! {
        {render_job(plan, datasets)}
        {render_sites(plan, datasets)}
        {render_release(plan)}
    }
    .into_any();
    view! {
        <PricedForm word=WORD.to_owned() consortium=consortium.to_string() again=path::plan(consortium) cost>{fields}</PricedForm>
    }
    .into_any()
}

fn render_job(plan: &EvaluationPlan, datasets: &[Dataset]) -> AnyView {
    let public = datasets.iter().filter(|dataset| is_evaluated(dataset) && dataset.visibility == Visibility::Public);
    let leads =
        public.map(|dataset| (dataset.id.to_string(), format!("{} of {}", dataset.name, dataset.organization_name)));
    let units = form_options(&[
        (PrivacyUnit::Record, "record: one recording"),
        (PrivacyUnit::Speaker, "speaker: all recordings of one person"),
        (PrivacyUnit::User, "user: all records with one id in the owner's column"),
    ]);
    let has_columns = !plan.columns.is_empty();
    view! {
        <fieldset>
            <legend>"Job"</legend>
            {render_line("evaluation[title]".to_owned(), "Title", plan.title.clone(), "Shown to the consortium", true)}
            {render_choice("evaluation[lead]".to_owned(), "Lead: its site provides the model", &plan.lead.to_string(), leads.collect())}
            {render_line("evaluation[model]".to_owned(), "SHA-256 of the model’s file", plan.model.clone(), "64 hex digits", true)}
            <p class="hint">"Download the model from its job, and put the file into the folder "<code>"models/"</code>" of the lead’s site. The list of files of a job has the digests. A model of rows is evaluated on tables, and one of speech on speech."</p>
            {render_choice("evaluation[unit]".to_owned(), "Protected unit", &form_word(&plan.unit), units)}
            <details open=has_columns>
                <summary>"ONNX graph of rows"</summary>
                {render_text("evaluation[columns]", "Columns: the target and the features, as the tables declare them", plan.columns.clone(), COLUMNS, 6)}
                <p class="hint">"Leave it empty for a model of a job and for its exported graph: their files name the columns. The features are in the order of the graph’s inputs."</p>
            </details>
        </fieldset>
    }
    .into_any()
}

fn render_sites(plan: &EvaluationPlan, datasets: &[Dataset]) -> AnyView {
    let rows = plan.parts.iter().enumerate().filter_map(|(index, part)| {
        let dataset = datasets.iter().find(|dataset| dataset.id == part.dataset)?;
        let name = |field: &str| format!("evaluation[parts][{index}][{field}]");
        let units = words::plural(dataset.test_records, "test recording");
        let size = match dataset.content {
            DatasetContent::Table => "a table: the rows with a target".to_owned(),
            _ if dataset.test_records > 0 => units,
            _ => "no test split: the whole dataset".to_owned(),
        };
        Some(view! {
            <div class="party">
                <input type="hidden" name=name("dataset") value=dataset.id.to_string()/>
                <div class="party-head">
                    <label class="check">
                        <input type="checkbox" name=name("joins") value="true" checked=part.joins/>
                        <strong>{dataset.name.clone()}</strong>
                    </label>
                    <span class="party-owner">{dataset.organization_name.clone()}" "<VisibilityMark visibility=dataset.visibility/>" "{size}</span>
                </div>
            </div>
        })
    });
    view! {
        <fieldset>
            <legend>"Private test sets"</legend>
            <div class="parties">{rows.collect_view()}</div>
            {render_number("evaluation[quorum]".to_owned(), "Least number of sites", f64::from(plan.quorum), (1.0, 99.0), true)}
            {render_number("evaluation[hours]".to_owned(), "Deadline, hours", plan.hours, (0.001, 24.0), false)}
        </fieldset>
    }
    .into_any()
}

fn render_release(plan: &EvaluationPlan) -> AnyView {
    view! {
        <fieldset>
            <legend>"Release"</legend>
            {render_line("evaluation[classes]".to_owned(), "Evaluated classes", plan.classes.clone(), "1, 4", true)}
            {render_number("evaluation[noise]".to_owned(), "Noise z", plan.noise, (0.001, 1024.0), false)}
            {render_checkbox("evaluation[accuracy]".to_owned(), "Also the share of correct first choices", plan.accuracy, false)}
            {render_line("evaluation[specificities]".to_owned(), "Specificities of operating points", plan.specificities.clone(), "0.9, 0.95", false)}
            <p class="hint">"A class of a table is the position of a value among those that the target declares, from 0; false is 0 and true is 1. Every class adds to the noise of the others: the fewer, the narrower the intervals. The cost depends on z alone."</p>
            <details>
                <summary>"Bins"</summary>
                {render_number("evaluation[bins]".to_owned(), "Bins", f64::from(plan.bins), (8.0, 256.0), true)}
                {render_number("evaluation[width]".to_owned(), "Width in the logit", plan.width, (0.01, 4.0), false)}
            </details>
        </fieldset>
    }
    .into_any()
}
