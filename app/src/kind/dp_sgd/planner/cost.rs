//! The planner's right-hand side: a gauge for each party with the plan as a ghost, and the rounds that the budgets
//! admit.

#![expect(unreachable_pub, reason = "the component macro makes what it generates public")]

use leptos::prelude::*;
use undertone_api::dataset::Dataset;
use undertone_api::id::{ConsortiumId, DatasetId};
use undertone_api::plan::AffordableRounds;
use undertone_api::problem::Violation;
use undertone_privacy::ledger::FilterKind;

use crate::component::gauge::Gauge;
use crate::kind::cost::render_violations;
use crate::kind::dp_sgd::{MaskEffect, PartyVerdict, PlanPrices, TermEffect, TrainingPlan};
use crate::standing::Payment;
use crate::words;

/// Renders the cost of the plan to each party.
#[component]
pub(super) fn Costs(
    prices: Memo<Option<PlanPrices>>,
    violations: Memo<Vec<Violation>>,
    datasets: StoredValue<Vec<Dataset>>,
    plan: RwSignal<TrainingPlan>,
    consortium: ConsortiumId,
) -> impl IntoView {
    move || {
        let Some(PlanPrices { verdicts, buys, offers }) = prices.get() else {
            return render_violations(&violations.read());
        };
        let name = |id: DatasetId| {
            let label = |all: &Vec<Dataset>| {
                all.iter().find(|d| d.id == id).map(|d| format!("{}, {}", d.name, d.organization_name))
            };
            datasets.with_value(label).unwrap_or_default()
        };
        let names: Vec<_> = verdicts.iter().map(|(id, _)| name(*id)).collect();
        let headline = summarize_prices(&verdicts, buys.as_ref());
        let decides = buys.map(|buys| buys.bottleneck.sentence);
        view! {
            <p class="headline-small">{headline}</p>
            {decides.map(|decides| view! { <p class="hint decides">{decides}</p> })}
            {super::offer::render_offers(offers, plan, consortium)}
            <ul class="costs">
                {verdicts.into_iter().zip(names).map(|((_, verdict), name)| view! {
                    <li><h3>{name}</h3>{render_verdict(verdict)}</li>
                }).collect_view()}
            </ul>
            {render_violations(&violations.read())}
        }
        .into_any()
    }
}

/// Describes the plan in one sentence.
pub(super) fn summarize_prices(priced: &[(DatasetId, PartyVerdict)], buys: Option<&AffordableRounds>) -> String {
    let is_over = |verdict: &PartyVerdict| matches!(verdict, PartyVerdict::Pays { payment, others, .. } if !payment.ghost.fits || others.iter().any(|(_, fits)| !fits));
    let without = |verdict: &PartyVerdict| matches!(verdict, PartyVerdict::NoBudget | PartyVerdict::Unpriced(_));
    let count = |is: &dyn Fn(&PartyVerdict) -> bool| priced.iter().filter(|(_, verdict)| is(verdict)).count() as u64;
    match (count(&without), count(&is_over), buys) {
        (0, 0, None) => "This plan charges no account.".to_owned(),
        (0, 0, Some(buys)) => format!(
            "Fits every budget. With these settings the budgets allow up to {}.",
            words::plural(buys.rounds_that_fit.into(), "round")
        ),
        (0, over_limit, _) => format!("Over the limit of {}.", words::plural(over_limit, "dataset")),
        (without, ..) => format!("{} cannot take part as planned.", words::plural(without, "dataset")),
    }
}

fn render_verdict(verdict: PartyVerdict) -> AnyView {
    let line = |text: &str| view! { <p class="hint">{text.to_owned()}</p> }.into_any();
    match verdict {
        PartyVerdict::Public => line("Public: sends exact gradients, and nothing is charged."),
        PartyVerdict::Open(exact) => render_exact_releases(exact),
        PartyVerdict::Nothing => line("Nothing derived from it leaves the site in the selected arms."),
        PartyVerdict::NoBudget => {
            view! { <p class="bad-text">"Its owner has not set a budget for this unit."</p> }.into_any()
        }
        PartyVerdict::Unpriced(why) => view! { <p class="bad-text">{why}</p> }.into_any(),
        PartyVerdict::Pays { payment, rounds_that_fit, epochs, least_noise, exact, others, terms, masks, .. } => {
            let Payment { reading, ghost, .. } = *payment;
            let room = match masks {
                Some(_) => format!("{}.", describe_room(rounds_that_fit, epochs.1)),
                None => format!("{}; {}.", describe_room(rounds_that_fit, epochs.1), describe_least_noise(least_noise)),
            };
            view! {
                <Gauge reading ghost=Some(ghost)/>
                <p class="hint" class:bad-text=!ghost.fits>{describe_charge(&payment, epochs.0)}{room}</p>
                {(payment.filter == FilterKind::Gaussian).then(|| line("Gaussian filter: the first release spends the whole job."))}
                {ghost.fits.then(|| view! { <p class="hint">{describe_remainder(&payment)}</p> })}
                {terms.map(|terms| view! { <p class="hint" class:bad-text=!terms.fits.0>{describe_terms(&terms)}</p> })}
                {masks.map(|masks| line(&describe_masks(masks)))}
                {(exact > 0).then(|| render_exact_releases(exact))}
                {others.into_iter().map(|(effect, fits)| view! { <p class="hint" class:bad-text=!fits>{effect}</p> }).collect_view()}
            }
            .into_any()
        }
    }
}

/// Describes the plan's charge to an account.
fn describe_charge(payment: &Payment, epochs: f64) -> String {
    format!(
        "ε {} by itself for {}, {} over the data. ",
        words::epsilon(payment.own),
        words::releases(payment.releases, &payment.event),
        format_passes(epochs),
    )
}

/// Describes the effect of the terms that the owner sets.
fn describe_terms(terms: &TermEffect) -> String {
    let (most, least) = terms.epsilon;
    let fit = match terms.fits {
        (true, true) => "both fit",
        (true, false) => "the first fits, the second does not",
        (false, _) => "neither fits",
    };
    format!(
        "Its owner sets its terms: ε {} by itself with the values that protect most, {} with those that protect least; {fit}.",
        words::epsilon(most),
        words::epsilon(least)
    )
}

/// Describes the guarantee against the server with the other sites, and the saved noise.
fn describe_masks(masks: MaskEffect) -> String {
    let insider = if masks.insider.is_finite() { words::epsilon(masks.insider) } else { "∞".to_owned() };
    format!(
        "If the server and the other sites collude: ε {insider} by itself. In the group a site adds {} times less noise than alone.",
        words::number((masks.saving * 100.0).round() / 100.0)
    )
}

/// Describes the account's room.
fn describe_room(rounds: u32, epochs: f64) -> String {
    match rounds {
        0 => "No round fits with this noise".to_owned(),
        n => format!("{}, {}, fit in the remaining budget", words::plural(n.into(), "round"), format_passes(epochs)),
    }
}

/// Describes the least noise of a party that adds its noise alone.
fn describe_least_noise(least_noise: Option<f64>) -> String {
    match least_noise {
        Some(noise) => format!("the least noise for the requested rounds is z {noise}"),
        None => "no noise is enough for the requested rounds".to_owned(),
    }
}

/// Formats the expected passes over the data, to one decimal.
fn format_passes(epochs: f64) -> String {
    let number = words::number((epochs * 10.0).round() / 10.0);
    if number == "1" { "about 1 pass".to_owned() } else { format!("about {number} passes") }
}

/// Describes the remainder, and the further rounds and jobs that would fit into it.
fn describe_remainder(payment: &Payment) -> String {
    let (rounds, jobs) = payment.further;
    let capacity = match (rounds, jobs) {
        (0, _) => "no other round".to_owned(),
        (rounds, 0) => format!("{}, but for no other such job", words::plural(rounds, "more round")),
        (rounds, jobs) => {
            format!("{}, or for {}", words::plural(rounds, "more round"), words::plural(jobs, "more such job"))
        }
    };
    format!("Leaves ε {}: room for {capacity}.", words::epsilon_left(payment.left.unwrap_or_default()))
}

/// Renders the open arm's use of a dataset that was opened for it.
fn render_exact_releases(exact: u64) -> AnyView {
    let text = format!(
        "Open: in the open arm exact gradients leave the site, {}. They are recorded; no ε covers them.",
        words::plural(exact, "time")
    );
    view! { <p class="hint in-the-clear">{text}</p> }.into_any()
}
