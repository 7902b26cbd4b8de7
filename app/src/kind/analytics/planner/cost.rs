//! The cost of a plan to every owner, its expected errors, and sufficient alternatives: computed on the server, by the
//! code that will decide.

use leptos::prelude::*;
use undertone_api::budget::AccountStanding;
use undertone_api::dataset::Dataset;
use undertone_api::id::{ConsortiumId, DatasetId};
use undertone_api::job::analytics::Spec;
use undertone_api::job::{JobKind as _, NewJob, Spec as AnySpec};
use undertone_api::plan::{PlanOffer, PricedPlan, nearest};

use super::super::plan::AnalyticsPlan;
use crate::component::gauge::Gauge;
use crate::kind::evaluation::planner::cost::{collect_balances, render_violations, summarize_price};
use crate::standing::{NoPayment, Payment, others};
use crate::words;

/// Renders the cost of the plan as HTML.
pub(in crate::kind::analytics) fn render_cost(
    plan: &AnalyticsPlan,
    datasets: &[Dataset],
    standings: &[(DatasetId, Vec<AccountStanding>)],
    consortium: ConsortiumId,
) -> String {
    let spec = match plan.spec(datasets) {
        Ok(spec) => spec,
        Err(violations) => return render_violations(&violations).to_html(),
    };
    let violations = spec.check(datasets);
    let balances = collect_balances(datasets, standings);
    let priced = PricedPlan::from_spec(&spec, datasets, &balances);
    let sites = spec.participants.iter().filter_map(|party| {
        let dataset = datasets.iter().find(|dataset| dataset.id == party.dataset)?;
        let standing = standings.iter().find(|(id, _)| *id == dataset.id).map_or(&[][..], |(_, all)| all);
        let charge = render_charge(&spec, dataset, standing, priced.as_ref());
        Some(view! { <li><h3>{format!("{}, {}", dataset.name, dataset.organization_name)}</h3>{charge}</li> })
    });
    let sites = sites.collect_view();
    let summary = summarize_price(priced.as_ref());
    let errors = violations.is_empty().then(|| render_errors(&spec, datasets));
    let offers = if violations.is_empty() {
        let job = NewJob { title: plan.title.clone(), spec: AnySpec::Analytics(spec) };
        render_offers(nearest(&job, datasets, &balances), plan, consortium)
    } else {
        ().into_any()
    };
    view! {
        <h2>"Projected cost"</h2>
        <p class="headline-small">{summary}</p>
        {offers}
        <ul class="costs">{sites}</ul>
        {render_violations(&violations)}
        {errors}
        <p class="hint">"One release of each table is charged, once. Nothing is charged before every owner has approved and every ledger has reserved it."</p>
    }
    .to_html()
}

/// Renders the expected error of each aggregate.
fn render_errors(spec: &Spec, datasets: &[Dataset]) -> AnyView {
    let Ok(errors) = spec.expected_errors(datasets) else { return ().into_any() };
    let row = |error: undertone_api::job::analytics::ExpectedError| {
        let alone = error.sites.iter().map(|(_, own)| *own).fold(0.0, f64::max);
        view! {
            <tr>
                <th scope="row">{error.label}</th>
                <td>{error.query}</td>
                <td class="number">{format!("±{}", words::number(error.overall))}</td>
                <td class="number">{format!("±{}", words::number(alone))}</td>
            </tr>
        }
    };
    view! {
        <table class="dense">
            <caption>"Expected errors: half of the 95 % intervals, in one group"</caption>
            <thead>
                <tr>
                    <th scope="col">"Aggregate"</th>
                    <th scope="col">"Query"</th>
                    <th scope="col" class="number">"Sum of the sites"</th>
                    <th scope="col" class="number">"One site alone"</th>
                </tr>
            </thead>
            <tbody>{errors.into_iter().map(row).collect_view()}</tbody>
        </table>
        <p class="hint">"Of means and variances: for groups of equal size with a row of each unit. Of quantiles: the error of the rank, in rows."</p>
    }
    .into_any()
}

/// Renders the charge of a site.
fn render_charge(
    spec: &Spec,
    dataset: &Dataset,
    standings: &[AccountStanding],
    priced: Option<&PricedPlan>,
) -> AnyView {
    let line = |text: String| view! { <p class="hint">{text}</p> }.into_any();
    let bad = |text: String| view! { <p class="bad-text">{text}</p> }.into_any();
    let Some(charge) = spec.cost(dataset) else {
        return line("Public: nothing is charged.".to_owned());
    };
    let standing = standings.iter().find(|standing| charge.is_on(standing.unit, standing.adjacency));
    let quote = priced.and_then(|priced| priced.find_quote(dataset.id));
    let payment = standing.zip(quote).map(|(standing, quote)| Payment::for_share(standing, quote, &charge));
    let gauge = match payment {
        None | Some(Err(NoPayment::NoBudget)) => {
            bad(format!("Its owner has not set a budget for each {}.", words::unit(spec.unit)))
        }
        Some(Err(NoPayment::Unpriced(why))) => bad(why),
        Some(Ok(payment)) => render_payment(&payment),
    };
    let others = others(dataset, &charge, standings, None).into_iter();
    let others = others.map(|(text, fits)| if fits { line(text) } else { bad(text) }).collect_view();
    view! { {gauge}{others} }.into_any()
}

fn render_payment(payment: &Payment) -> AnyView {
    let ghost = payment.ghost;
    let own = format!("ε {} for this job by itself.", words::epsilon(payment.own));
    let capacity = match payment.further {
        (0, _) => "no other such job".to_owned(),
        (more, _) => format!("{} more", words::plural(more, "such job")),
    };
    let rest = if ghost.fits {
        let left = words::epsilon_left(payment.left.unwrap_or_default());
        let percent = (payment.left_fraction * 100.0).floor();
        view! { <p class="hint">{format!("Leaves ε {left} and {percent} % of the budget: {capacity}.")}</p> }.into_any()
    } else {
        view! { <p class="hint bad-text">"It exceeds the remaining budget."</p> }.into_any()
    };
    view! {
        <Gauge reading=payment.reading ghost=Some(ghost)/>
        <p class="hint">{own}</p>
        {rest}
    }
    .into_any()
}

/// Renders the nearest plans that fit, each as a link to the planner. More noise is the only change of this kind.
fn render_offers(offers: Vec<PlanOffer>, plan: &AnalyticsPlan, consortium: ConsortiumId) -> AnyView {
    if offers.is_empty() {
        return ().into_any();
    }
    let row = |offer: PlanOffer| {
        let noise = offer.changes.iter().map(|change| change.to).fold(plan.noise, f64::max);
        let link = AnalyticsPlan { noise, ..plan.clone() }.link(consortium);
        let label = format!("Use this: {}", offer.sentence);
        view! { <li><p>{offer.sentence}</p><a class="button" href=link aria-label=label>"Use this"</a></li> }
    };
    view! {
        <section class="offers">
            <h3>"Nearest plans within the budgets"</h3>
            <ul>{offers.into_iter().map(row).collect_view()}</ul>
        </section>
    }
    .into_any()
}
