//! The nearest plans that fit, each with one button: the accounts admit every offer.

use leptos::prelude::*;
use undertone_api::id::ConsortiumId;
use undertone_api::plan::{FittingChange, PlanParameter};

use crate::kind::dp_sgd::TrainingPlan;

/// Renders the offers; empty if there are none. Without a script a button is a link to the page with the offered plan.
pub(super) fn render_offers(
    offers: Vec<FittingChange>,
    plan: RwSignal<TrainingPlan>,
    consortium: ConsortiumId,
) -> AnyView {
    if offers.is_empty() {
        return ().into_any();
    }
    let row = move |offered: FittingChange| {
        let title = match offered.knob {
            PlanParameter::Rounds => "Fewer rounds",
            PlanParameter::Noise => "More noise",
            PlanParameter::SamplingRate => "Smaller samples",
            // Plans of training have none of these.
            PlanParameter::Threshold | PlanParameter::Epsilon | PlanParameter::Delta => "Other numbers",
        };
        let sentence = offered.sentence.clone();
        let label = format!("Use this: {sentence}");
        let href = plan.with_untracked(|plan| plan_link(&apply_offer(plan, &offered), consortium));
        let turn = move |_| plan.update(|plan| *plan = apply_offer(plan, &offered));
        view! {
            <li>
                <p><strong>{title}</strong>": "{sentence}</p>
                <a class="button plain-only" href=href aria-label=label.clone()>"Use this"</a>
                <button type="button" class="quiet live-only" aria-label=label on:click=turn>"Use this"</button>
            </li>
        }
    };
    view! {
        <section class="offers">
            <h3>"Nearest plans within the budgets"</h3>
            <ul>{offers.into_iter().map(row).collect_view()}</ul>
        </section>
    }
    .into_any()
}

/// Returns the plan with an offer applied.
fn apply_offer(plan: &TrainingPlan, offered: &FittingChange) -> TrainingPlan {
    let mut plan = plan.clone();
    for (dataset, _, _, to) in &offered.values {
        match offered.knob {
            PlanParameter::Rounds => {
                plan.rounds = *to as u32;
                plan.terms.least_rounds = plan.terms.least_rounds.min(plan.rounds);
            }
            knob => {
                // The ranges of open terms contain the plan's own values.
                let range = if knob == PlanParameter::Noise { &mut plan.terms.noise } else { &mut plan.terms.rate };
                range.include(*to);
                for part in plan.parts.iter_mut().filter(|part| part.dataset == *dataset) {
                    *(if knob == PlanParameter::Noise { &mut part.noise } else { &mut part.rate }) = *to;
                }
            }
        }
    }
    plan
}

/// Returns the address of the planner with a plan. Only the server writes it: with a script the link is not followed.
#[cfg(feature = "ssr")]
fn plan_link(plan: &TrainingPlan, consortium: ConsortiumId) -> String {
    let query = serde_qs::to_string(&std::collections::BTreeMap::from([("plan", plan)])).unwrap_or_default();
    format!("{}?{query}", crate::path::plan(consortium))
}

#[cfg(not(feature = "ssr"))]
fn plan_link(_: &TrainingPlan, _: ConsortiumId) -> String {
    String::new()
}
