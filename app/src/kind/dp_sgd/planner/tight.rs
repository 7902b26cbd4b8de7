//! The tight ε of a plan by itself, beside the numbers that decide: computed on the server, because it needs transforms
//! that are too large for the page.

use leptos::prelude::*;
use undertone_api::id::ConsortiumId;
#[cfg(feature = "ssr")]
use undertone_api::plan::{NewPlan, Plan as Planned};
#[cfg(feature = "ssr")]
use undertone_server_core::{error::Error, service};

use crate::fault::Fault;
use crate::kind::dp_sgd::TrainingPlan;
#[cfg(feature = "ssr")]
use crate::kind::dp_sgd::rehearsal::render_rehearsals;
#[cfg(feature = "ssr")]
use crate::request::DashboardRequest;
#[cfg(feature = "ssr")]
use crate::words;

/// The address of the request.
pub(super) const WEIGH: &str = "/ui/weigh-dp-sgd";

/// Returns the tight numbers of a plan and its rehearsals as HTML; empty if it cannot be proposed in its present form.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "weigh-dp-sgd")]
pub async fn price_tightly(consortium: ConsortiumId, plan: TrainingPlan) -> Result<String, Fault> {
    let request = DashboardRequest::from_context()?;
    let datasets = service::dataset::list(request.ctx(), request.actor()?, consortium).await?;
    Ok(fetch_tight_numbers(&request, consortium, &plan, &datasets).await)
}

/// Queries the server for a plan's tight numbers and rehearsals; empty if they are unavailable, because the page is correct without
/// them.
#[cfg(feature = "ssr")]
pub(in crate::kind::dp_sgd) async fn fetch_tight_numbers(
    request: &DashboardRequest,
    consortium: ConsortiumId,
    plan: &TrainingPlan,
    datasets: &[undertone_api::dataset::Dataset],
) -> String {
    use undertone_api::job::{NewJob, Spec};
    let Ok(spec) = plan.spec(datasets) else { return String::new() };
    let model = spec.model.clone();
    // The title is required only when the job is proposed.
    let title =
        Some(plan.title.clone()).filter(|title| !title.trim().is_empty()).unwrap_or_else(|| "a plan".to_owned());
    let job = NewJob { title, spec: Spec::DpSgd(spec) };
    let new = NewPlan { consortium, job };
    let answer = async { service::plan::plan(request.ctx(), request.actor()?, &new).await }.await;
    let render = |planned: Planned| {
        let rehearsals = render_rehearsals(consortium, &model, &planned.rehearsals).to_html();
        render_tight_numbers(&planned) + &rehearsals
    };
    answer.map_err(Error::into_problem).map_or_else(|_| String::new(), render)
}

/// Renders a table of the three numbers of every party.
#[cfg(feature = "ssr")]
fn render_tight_numbers(planned: &Planned) -> String {
    let mut rows = planned.parties.iter().filter(|party| party.tight_epsilon.is_some()).peekable();
    if rows.peek().is_none() {
        return String::new();
    }
    let together = planned.together.as_ref().filter(|together| together.organizations > 1).map(|together| {
        let rule = match together.most {
            1 => "A person is in the data of one organization at most".to_owned(),
            most => format!("A person may be in the data of up to {} of the charged organizations", words::count(most)),
        };
        format!(
            "{rule}, as the consortium has declared: this job costs them at most ε {} at δ {}, by the Rényi bound.",
            together.epsilon.map_or_else(|| "∞".to_owned(), words::epsilon),
            words::delta(together.delta)
        )
    });
    let number = |epsilon: Option<f64>| epsilon.map_or_else(|| "∞".to_owned(), words::epsilon);
    let rows = rows.map(|party| {
        view! {
            <tr>
                <th scope="row">{party.dataset_name.clone()}</th>
                <td data-label="tight" class="number">{number(party.tight_epsilon)}</td>
                <td data-label="Rényi bound" class="number">{number(party.epsilon)}</td>
                <td data-label="budget with it" class="number">{number(party.would_be)}</td>
            </tr>
        }
    });
    view! {
        <table class="cards dense">
            <caption>"ε of this job, at each budget's δ"</caption>
            <thead><tr>
                <th scope="col">"Dataset"</th>
                <th scope="col" class="number">"Tight, by itself"</th>
                <th scope="col" class="number">"Rényi bound, by itself"</th>
                <th scope="col" class="number">"Budget with it"</th>
            </tr></thead>
            <tbody>{rows.collect_view()}</tbody>
        </table>
        {together.map(|together| view! { <p>{together}</p> })}
        <p class="hint">"The tight number comes from the privacy-loss distribution of a job whose numbers are fixed before its first release. It is for reports; admission uses the last column."</p>
    }
    .to_html()
}
