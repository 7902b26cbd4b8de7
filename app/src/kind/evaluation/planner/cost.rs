//! The cost of a plan to every owner, and sufficient alternatives: computed on the server, by the code that will
//! decide.

use leptos::prelude::*;
use undertone_api::budget::AccountStanding;
use undertone_api::dataset::Dataset;
use undertone_api::id::{ConsortiumId, DatasetId};
use undertone_api::job::{NewJob, Spec as AnySpec};
use undertone_api::plan::PlanOffer;

use super::super::plan::EvaluationPlan;
use crate::kind::cost::{ChargeTerms, CostPanel, PanelTerms, render_violations};
use crate::words;

/// Renders the cost of the plan as HTML.
pub(in crate::kind::evaluation) fn render_cost(
    plan: &EvaluationPlan,
    datasets: &[Dataset],
    standings: &[(DatasetId, Vec<AccountStanding>)],
    consortium: ConsortiumId,
) -> String {
    let spec = match plan.spec() {
        Ok(spec) => spec,
        Err(violations) => return render_violations(&violations).to_html(),
    };
    let panel = CostPanel::new(&spec, datasets, standings);
    let job = NewJob { title: plan.title.clone(), spec: AnySpec::Evaluation(spec.clone()) };
    let offers = link_offers(panel.find_offers(&job), plan, consortium);
    let noise = words::number(spec.histograms().pooled_deviation(spec.participants.len().saturating_sub(1) as u32));
    let remarks = view! {
        <p class="hint">{format!("The sum over the sites has noise of deviation {noise} in each number: intervals are useful for many more units than that.")}</p>
    };
    let terms = PanelTerms {
        charge: ChargeTerms { unit: words::unit(spec.unit), charge: "such evaluation", states_own: true },
        uncharged: "Public: its site leads and provides the model, and nothing is charged.",
        closing: "One release of each test set is charged, once. Nothing is charged before every owner has approved and \
                  every ledger has reserved it.",
    };
    panel.render(spec.participants.iter().map(|party| party.dataset), terms, offers, remarks.into_any())
}

/// Returns the nearest plans that fit, with their addresses. More noise is the only change of this kind.
fn link_offers(offers: Vec<PlanOffer>, plan: &EvaluationPlan, consortium: ConsortiumId) -> Vec<(String, String)> {
    let link = |offer: PlanOffer| {
        let noise = offer.changes.iter().map(|change| change.to).fold(plan.noise, f64::max);
        (offer.sentence, EvaluationPlan { noise, ..plan.clone() }.link(consortium))
    };
    offers.into_iter().map(link).collect()
}
