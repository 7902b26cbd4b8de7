//! The planner's right-hand side: a gauge for each party with the plan as a ghost, and what the budgets would buy.

#![expect(unreachable_pub, reason = "the component macro makes what it generates public")]

use leptos::prelude::*;
use undertone_api::dataset::Dataset;
use undertone_api::id::DatasetId;
use undertone_api::job::dp_sgd::Spec;
use undertone_api::problem::Violation;

use super::super::price::{Verdict, prices};
use crate::component::gauge::Gauge;
use crate::standing::{Payment, Standing};
use crate::words;

/// What the plan costs each party.
#[component]
pub(super) fn Costs(
    spec: Memo<Result<Spec, Vec<Violation>>>,
    violations: Memo<Vec<Violation>>,
    datasets: StoredValue<Vec<Dataset>>,
    standings: StoredValue<Vec<(DatasetId, Vec<Standing>)>>,
) -> impl IntoView {
    move || {
        let Ok(spec) = spec.get() else { return wrong(&violations.read()) };
        let (priced, names) = datasets.with_value(|datasets| {
            let priced = standings.with_value(|standings| prices(&spec, datasets, standings));
            let names: Vec<_> = priced
                .iter()
                .map(|(id, _)| {
                    datasets
                        .iter()
                        .find(|d| d.id == *id)
                        .map_or_else(String::new, |d| format!("{}, {}", d.name, d.organization_name))
                })
                .collect();
            (priced, names)
        });
        let headline = headline(&priced);
        view! {
            <p class="headline-small">{headline}</p>
            <ul class="costs">
                {priced.into_iter().zip(names).map(|((_, verdict), name)| view! {
                    <li><h3>{name}</h3>{said(verdict)}</li>
                }).collect_view()}
            </ul>
            {wrong(&violations.read())}
        }
        .into_any()
    }
}

/// The plan in one sentence.
fn headline(priced: &[(DatasetId, Verdict)]) -> String {
    let pays = |verdict: &Verdict| match verdict {
        Verdict::Pays { payment, rounds_that_fit, .. } => Some((payment.ghost.fits, *rounds_that_fit)),
        _ => None,
    };
    let paying: Vec<(bool, u64)> = priced.iter().filter_map(|(_, verdict)| pays(verdict)).collect();
    let over = paying.iter().filter(|(fits, _)| !fits).count();
    let without =
        priced.iter().filter(|(_, verdict)| matches!(verdict, Verdict::NoBudget | Verdict::Unpriced(_))).count();
    if without > 0 {
        format!("{} cannot take part as planned.", words::plural(without as u64, "dataset"))
    } else if over > 0 {
        format!("Over the limit of {}.", words::plural(over as u64, "dataset"))
    } else if paying.is_empty() {
        "Nobody pays for this plan.".to_owned()
    } else {
        let most = paying.iter().map(|(_, rounds)| *rounds).min().unwrap_or(0);
        format!("Fits every budget. With these settings the budgets would buy up to {}.", words::plural(most, "round"))
    }
}

fn said(verdict: Verdict) -> AnyView {
    let line = |text: &str| view! { <p class="hint">{text.to_owned()}</p> }.into_any();
    match verdict {
        Verdict::Public => line("Public: sends exact gradients and pays nothing."),
        Verdict::Open(exact) => in_the_clear(exact),
        Verdict::Nothing => line("Nothing of it leaves the site in the arms that run."),
        Verdict::NoBudget => {
            view! { <p class="bad-text">"Its owner has not set a budget for this unit."</p> }.into_any()
        }
        Verdict::Unpriced(why) => view! { <p class="bad-text">{why}</p> }.into_any(),
        Verdict::Pays { payment: Payment { reading, ghost, own, releases, .. }, rounds_that_fit, exact } => view! {
            <Gauge reading ghost=Some(ghost)/>
            <p class="hint" class:bad-text=!ghost.fits>
                {format!("ε {} by itself for {}; ", words::epsilon(own), words::plural(releases, "release"))}
                {if rounds_that_fit == 0 {
                    "not one round fits with this noise".to_owned()
                } else {
                    format!("{} fit into what is left", words::plural(rounds_that_fit, "round"))
                }}
            </p>
            {(exact > 0).then(|| in_the_clear(exact))}
        }
        .into_any(),
    }
}

/// What the open arm does with a dataset that was opened for it.
fn in_the_clear(exact: u64) -> AnyView {
    let text = format!(
        "Open: in the open arm exact gradients leave the site, {}. They are recorded; no ε covers them.",
        words::plural(exact, "time")
    );
    view! { <p class="hint in-the-clear">{text}</p> }.into_any()
}

fn wrong(violations: &[Violation]) -> AnyView {
    if violations.is_empty() {
        return ().into_any();
    }
    view! {
        <div class="notice bad">
            <p class="notice-title">"Before it can be proposed"</p>
            <ul>{violations.iter().map(|v| view! { <li><code>{v.field.trim_start_matches("spec.").to_owned()}</code>": "{v.message.clone()}</li> }).collect_view()}</ul>
        </div>
    }
    .into_any()
}
