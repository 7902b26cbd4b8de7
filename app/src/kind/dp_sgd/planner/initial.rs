//! The choice of the registry model with which a job begins, and the comparison of its layers with the plan's.

use leptos::prelude::*;
#[cfg(feature = "ssr")]
use undertone_api::dataset::Dataset;
use undertone_api::id::ConsortiumId;
use undertone_api::job::dp_sgd::Spec;
use undertone_api::model::InitialModelChoice;
use undertone_api::problem::Violation;
#[cfg(feature = "ssr")]
use undertone_server_core::service;

use super::field::{FormField, make_setter};
use crate::kind::dp_sgd::{TrainingPlan, description};
use crate::path;
#[cfg(feature = "ssr")]
use crate::request::DashboardRequest;

/// The parameter of the planner's address with which a plan takes over the layers of its initial model.
const ADOPT: &str = "adopt";

/// Returns the registry models with which a job can begin; none if they are unavailable.
#[cfg(feature = "ssr")]
pub(in crate::kind::dp_sgd) async fn fetch_choices(
    request: &DashboardRequest,
    consortium: ConsortiumId,
    datasets: &[Dataset],
) -> Vec<InitialModelChoice> {
    let Ok(actor) = request.actor() else { return Vec::new() };
    service::model::initial::list_choices(request.ctx(), actor, consortium, datasets).await.unwrap_or_default()
}

/// Returns whether the planner's address asks for the layers of the initial model.
#[cfg(feature = "ssr")]
pub(in crate::kind::dp_sgd) fn is_adopting(query: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct AdoptQuery {
        adopt: Option<String>,
    }
    crate::query::parse::<AdoptQuery>(query).is_some_and(|query| query.adopt.as_deref() == Some("true"))
}

/// Returns every difference between the layers of a plan and those of its initial model. The server knows more than these choices, and
/// decides.
pub(super) fn check_initial(spec: &Spec, choices: &[InitialModelChoice]) -> Vec<Violation> {
    let find = |digest: &String| choices.iter().find(|choice| choice.origin.digest == *digest);
    spec.initial_model.as_ref().and_then(find).map_or_else(Vec::new, |choice| spec.check_layers(&choice.model))
}

/// Renders the choice; `differences` are those of the present plan ([`check_initial`]).
pub(super) fn render_initial(
    plan: RwSignal<TrainingPlan>,
    shown: &TrainingPlan,
    (choices, differences): (&[InitialModelChoice], Memo<Vec<Violation>>),
    consortium: ConsortiumId,
) -> AnyView {
    let mut options = vec![(String::new(), "none: random parameters".to_owned())];
    options.extend(choices.iter().map(|choice| (choice.origin.digest.clone(), describe_choice(choice))));
    if !options.iter().any(|(digest, _)| *digest == shown.initial) {
        options.push((shown.initial.clone(), format!("the file with the SHA-256 {}", shown.initial)));
    }
    let field = FormField { name: "plan[initial]", at: "initial_model", label: "Model before the warm start" };
    let set = make_setter(plan, |plan, text: String| plan.initial = text);
    view! {
        <fieldset>
            <legend>"Initial model"</legend>
            {field.choice(&shown.initial, options, set)}
            <p class="hint">"A model of an earlier job costs nothing to begin with. The certificate of this job adds up what both cost each party."</p>
            <p class="fault" hidden=move || differences.read().is_empty()>
                "The layers of the plan are not those of this model. "
                <button type="submit" name=ADOPT value="true" formmethod="get" formaction=path::plan(consortium) formnovalidate>"Use its layers"</button>
            </p>
        </fieldset>
    }
    .into_any()
}

fn describe_choice(choice: &InitialModelChoice) -> String {
    let InitialModelChoice { origin, model } = choice;
    let layers = description::describe_model(model);
    format!("{}: {}, from {}; {layers}", origin.title, origin.file, origin.source.label())
}
