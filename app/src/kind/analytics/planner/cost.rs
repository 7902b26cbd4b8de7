//! The cost of a plan to every owner, its expected errors, and sufficient alternatives: computed on the server, by the
//! code that will decide.

use leptos::prelude::*;
use undertone_api::budget::AccountStanding;
use undertone_api::dataset::Dataset;
use undertone_api::id::{ConsortiumId, DatasetId};
use undertone_api::job::analytics::{Spec, TargetError};
use undertone_api::job::{NewJob, Spec as AnySpec};
use undertone_api::plan::PlanOffer;

use super::super::description::describe_least_units;
use super::super::goal::scale_errors;
use super::super::plan::AnalyticsPlan;
use crate::kind::cost::{ChargeTerms, CostPanel, PanelTerms, render_violations};
use crate::words;

/// Renders the cost of the plan as HTML.
pub(in crate::kind::analytics) fn render_cost(
    plan: &AnalyticsPlan,
    datasets: &[Dataset],
    standings: &[(DatasetId, Vec<AccountStanding>)],
    consortium: ConsortiumId,
) -> String {
    let (spec, targets) = match plan.fit(datasets) {
        Ok(fitted) => fitted,
        Err(violations) => return render_violations(&violations).to_html(),
    };
    let panel = CostPanel::new(&spec, datasets, standings);
    let job = NewJob { title: plan.title.clone(), spec: AnySpec::Analytics(spec.clone()) };
    let nearest = panel.find_offers(&job);
    let remarks = panel.is_valid().then(|| {
        let goals = render_targets(&spec, &targets, nearest.first().map(|offer| noise_factor(offer, &spec)));
        let keys = spec.selects_keys().then(|| {
            let sentence = describe_least_units(&spec);
            view! { <p>{format!("The groups of keys are chosen privately, by a second release: {sentence}.")}</p> }
        });
        view! { {goals}{keys}{render_errors(&spec, datasets)} }
    });
    let offers = link_offers(nearest, plan, &spec, consortium);
    let terms = PanelTerms {
        charge: ChargeTerms { unit: words::unit(spec.unit), charge: "such job", states_own: true },
        uncharged: "Public: nothing is charged.",
        closing: if spec.selects_keys() {
            "Two releases of each table are charged, each once: of the choice of keys, and of the sums. Nothing is charged \
             before every owner has approved and every ledger has reserved it."
        } else {
            "One release of each table is charged, once. Nothing is charged before every owner has approved and every \
             ledger has reserved it."
        },
    };
    panel.render(spec.participants.iter().map(|party| party.dataset), terms, offers, remarks.into_any())
}

/// Renders the expected error of each aggregate.
fn render_errors(spec: &Spec, datasets: &[Dataset]) -> AnyView {
    let Ok(errors) = spec.expected_errors(datasets) else { return ().into_any() };
    let row = |error: undertone_api::job::analytics::ExpectedError| {
        let alone = error.sites.iter().map(|(_, own)| *own).fold(0.0, f64::max);
        view! {
            <tr>
                <th scope="row">{error.label}</th>
                <td data-label="Query">{error.query}</td>
                <td data-label="Sum of the sites" class="number">{format!("±{}", words::to_error(error.overall, error.overall))}</td>
                <td data-label="One site alone" class="number">{format!("±{}", words::to_error(alone, alone))}</td>
            </tr>
        }
    };
    view! {
        <table class="cards">
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
        <p class="hint">"Of means and variances: for groups of equal size with a row of each unit. Of quantiles: the error of the rank, in rows. Of survival: the greatest of the curve, if half of the rows have the event. Of covariances: the error of a correlation near 0; of linear regressions: of a coefficient near 0, with columns in units of their deviations."</p>
    }
    .into_any()
}

/// Returns the factor by which an offer raises the noise, and with it each error.
fn noise_factor(offer: &PlanOffer, spec: &Spec) -> f64 {
    let noise = spec.noise_multiplier.get();
    offer.changes.iter().map(|change| change.to).fold(noise, f64::max) / noise
}

/// Renders the errors that the plan asks for, each with its part of the charge; `factor` is that of the nearest plan that
/// fits, if this one does not.
fn render_targets(spec: &Spec, targets: &[TargetError], factor: Option<f64>) -> AnyView {
    if targets.is_empty() {
        return ().into_any();
    }
    let total: f64 = spec.queries.iter().flat_map(|query| &query.aggregates).map(|one| one.share).sum();
    let rows = targets.iter().map(|target| {
        let one = &spec.queries[target.query].aggregates[target.aggregate];
        let nearest = factor.map(|factor| {
            let error = target.error * factor;
            view! { <td data-label="Nearest that fits" class="number">{format!("±{}", words::to_error(error, error))}</td> }
        });
        view! {
            <tr>
                <th scope="row">{one.measure.label()}</th>
                <td data-label="Error asked for" class="number">{format!("±{}", words::number(target.error))}</td>
                <td data-label="Part of the charge" class="number">{words::percent(one.share / total)}</td>
                {nearest}
            </tr>
        }
    });
    let sentence = match factor {
        None => "The greatest noise with which each of these errors holds:",
        Some(_) => "A budget does not admit these errors. The part of the charge shows which one costs most:",
    };
    view! {
        <p>{format!("{sentence} z = {}.", words::number(spec.noise_multiplier.get()))}</p>
        <table class="cards">
            <caption>"Errors asked for"</caption>
            <thead>
                <tr>
                    <th scope="col">"Aggregate"</th>
                    <th scope="col" class="number">"Error asked for"</th>
                    <th scope="col" class="number">"Part of the charge"</th>
                    {factor.map(|_| view! { <th scope="col" class="number">"Nearest that fits"</th> })}
                </tr>
            </thead>
            <tbody>{rows.collect_view()}</tbody>
        </table>
    }
    .into_any()
}

/// Returns the nearest plans that fit, with their addresses. More noise is the only change of this kind: it raises the
/// errors that a plan asks for, and those that follow from its z, by the same factor.
fn link_offers(
    offers: Vec<PlanOffer>,
    plan: &AnalyticsPlan,
    spec: &Spec,
    consortium: ConsortiumId,
) -> Vec<(String, String)> {
    let link = |offer: PlanOffer| {
        let factor = noise_factor(&offer, spec);
        let goals = if factor > 1.0 { scale_errors(&plan.goals, factor) } else { plan.goals.clone() };
        (offer.sentence, AnalyticsPlan { noise: plan.noise * factor, goals, ..plan.clone() }.link(consortium))
    };
    offers.into_iter().map(link).collect()
}
