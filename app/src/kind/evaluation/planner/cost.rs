//! The cost of a plan to every owner, and sufficient alternatives: computed on the server, by the code that will
//! decide.

use leptos::prelude::*;
use undertone_api::budget::AccountStanding;
use undertone_api::dataset::Dataset;
use undertone_api::id::{ConsortiumId, DatasetId};
use undertone_api::job::evaluation::Spec;
use undertone_api::job::{JobKind as _, NewJob, Spec as AnySpec};
use undertone_api::plan::{PlanOffer, PricedPlan, nearest};

use super::super::plan::EvaluationPlan;
use crate::kind::cost::{ChargeTerms, render_account, render_offers, render_violations, summarize_price};
use crate::standing::{collect_balances, find_standings};
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
    let violations = spec.check(datasets);
    let balances = collect_balances(datasets, standings);
    let priced = PricedPlan::from_spec(&spec, datasets, &balances);
    let sites = spec.participants.iter().filter_map(|party| {
        let dataset = datasets.iter().find(|dataset| dataset.id == party.dataset)?;
        let standing = find_standings(standings, dataset.id);
        let charge = render_charge(&spec, dataset, standing, priced.as_ref());
        Some(view! { <li><h3>{format!("{}, {}", dataset.name, dataset.organization_name)}</h3>{charge}</li> })
    });
    let sites = sites.collect_view();
    let summary = summarize_price(priced.as_ref());
    let noise = words::number(spec.histograms().pooled_deviation(spec.participants.len().saturating_sub(1) as u32));
    let offers = if violations.is_empty() {
        let job = NewJob { title: plan.title.clone(), spec: AnySpec::Evaluation(spec) };
        render_offers(link_offers(nearest(&job, datasets, &balances), plan, consortium))
    } else {
        ().into_any()
    };
    view! {
        <h2>"Projected cost"</h2>
        <p class="headline-small">{summary}</p>
        {offers}
        <ul class="costs">{sites}</ul>
        {render_violations(&violations)}
        <p class="hint">{format!("The sum over the sites has noise of deviation {noise} in each number: intervals are useful for many more units than that.")}</p>
        <p class="hint">"One release of each test set is charged, once. Nothing is charged before every owner has approved and every ledger has reserved it."</p>
    }
    .to_html()
}

/// Renders the charge of a site.
fn render_charge(
    spec: &Spec,
    dataset: &Dataset,
    standings: &[AccountStanding],
    priced: Option<&PricedPlan>,
) -> AnyView {
    let Some(charge) = spec.cost(dataset) else {
        let text = "Public: its site leads and provides the model, and nothing is charged.";
        return view! { <p class="hint">{text}</p> }.into_any();
    };
    let terms = ChargeTerms { unit: words::unit(spec.unit), charge: "such evaluation", states_own: true };
    render_account(dataset, &charge, standings, priced, terms)
}

/// Returns the nearest plans that fit, with their addresses. More noise is the only change of this kind.
fn link_offers(offers: Vec<PlanOffer>, plan: &EvaluationPlan, consortium: ConsortiumId) -> Vec<(String, String)> {
    let link = |offer: PlanOffer| {
        let noise = offer.changes.iter().map(|change| change.to).fold(plan.noise, f64::max);
        (offer.sentence, EvaluationPlan { noise, ..plan.clone() }.link(consortium))
    };
    offers.into_iter().map(link).collect()
}
