//! The privacy cost of the job to the people in each dataset, for a recording and for a speaker.

use leptos::prelude::*;
use undertone_api::report::{LevelDerivation, PartyCost, PrivacyLevel, ReportFile};

use crate::page::ledger::describe_event;
use crate::words;

/// Renders every charged dataset.
pub(super) fn render_section(report: &ReportFile) -> AnyView {
    if report.privacy.is_empty() {
        let only_public = "Only public data were used, or nothing was reserved: no privacy budget was spent.";
        return view! { <section class="panel"><h2>"Privacy cost"</h2><p class="headline">{only_public}</p></section> }
            .into_any();
    }
    view! {
        <section class="panel"><h2>"Privacy cost for the people in the data"</h2>
            {report.privacy.iter().map(render_party).collect_view()}
            <p class="hint">"The ledgers and the certificate use the unit that the job protected. The other unit is \
                computed for this report and is not charged to a budget."</p>
        </section>
    }
    .into_any()
}

fn render_party(cost: &PartyCost) -> AnyView {
    let levels = cost.levels.iter().map(|one| render_level(one, cost.delta)).collect_view();
    view! {
        <div class="cost">
            <h3>{cost.dataset_name.clone()}", "{cost.organization_name.clone()}</h3>
            {if cost.levels.is_empty() {
                view! { <p>"No ε: the dataset has no budget, which defines δ."</p> }.into_any()
            } else {
                view! { <div class="figures">{levels}</div> }.into_any()
            }}
            <p class="hint">{format!(
                "At most {} of {}{}, released or not.",
                words::plural(cost.releases, "release"),
                describe_event(&cost.event),
                cost.clip.map_or_else(String::new, |clip| format!(", each unit’s part clipped to norm {}", words::number(clip)))
            )}</p>
            {(cost.in_the_clear > 0).then(|| view! {
                <p class="in-the-clear">{format!(
                    "Also {}, for the comparison with open pooling. No ε covers them, for any unit.",
                    words::plural(cost.in_the_clear, "exact release")
                )}</p>
            })}
        </div>
    }
    .into_any()
}

fn render_level(level: &PrivacyLevel, delta: Option<f64>) -> AnyView {
    let each = words::each(level.unit);
    let title = match level.how {
        LevelDerivation::Protected => format!("For {each}, the protected unit"),
        LevelDerivation::Group { .. } | LevelDerivation::Part | LevelDerivation::Whole => {
            format!("For {each}, not the protected unit")
        }
    };
    let number = match level.epsilon {
        Some(epsilon) => {
            let delta = delta.map_or_else(String::new, |delta| format!(" at δ {}", words::delta(delta)));
            view! {
                <p class="figure-number" class:bad-text=!level.meaningful>
                    <abbr title=words::EPSILON>"ε"</abbr>" "<strong>{words::epsilon(epsilon)}</strong>{delta}
                </p>
            }
            .into_any()
        }
        None => view! { <p class="figure-number bad-text">"no meaningful bound"</p> }.into_any(),
    };
    let ledger = level.renyi.filter(|renyi| level.epsilon.is_none_or(|tight| tight < *renyi));
    view! {
        <div class="figure">
            <p class="figure-title">{title}</p>
            {number}
            <p class="hint">{level.said.clone()}{ledger.map(|renyi| format!(" The bound from the Rényi curve, as the ledgers add up over jobs, is ε {}.", words::epsilon(renyi)))}</p>
        </div>
    }
    .into_any()
}
