//! The forms that set a lifetime budget, with an explanation of its consequences.

use leptos::prelude::*;
use undertone_api::dataset::Dataset;
use undertone_api::id::ConsortiumId;
use undertone_privacy::PrivacyUnit;

use crate::component::form::post;
use crate::{standing, words};

/// Renders the forms: one for each unit that the data keep apart, to set or to raise.
pub(super) fn render_forms(consortium: ConsortiumId, dataset: &Dataset) -> AnyView {
    let units = [PrivacyUnit::Speaker, PrivacyUnit::Record, PrivacyUnit::User, PrivacyUnit::Words];
    let apart = units.into_iter().filter(|unit| dataset.keeps_apart(*unit));
    let forms = apart.map(|unit| render_form(consortium, dataset, unit)).collect_view();
    view! { <section class="panel decide"><h2>"Set or raise a budget"</h2>{forms}</section> }.into_any()
}

/// Describes the effect of a limit of this unit on jobs that protect another.
const fn describe_side_effect(unit: PrivacyUnit) -> Option<&'static str> {
    match unit {
        PrivacyUnit::Record => Some(
            "A job that protects speakers or users counts about twice for each of their records, so this limit may be used up before theirs.",
        ),
        PrivacyUnit::Speaker | PrivacyUnit::User => Some(
            "Jobs that protect single records only are refused from now on: they promise nothing about somebody with several.",
        ),
        PrivacyUnit::Words => None,
    }
}

fn render_form(consortium: ConsortiumId, dataset: &Dataset, unit: PrivacyUnit) -> AnyView {
    let account = dataset.accounts.iter().find(|account| account.unit == unit && standing::budgeted(account));
    let name = words::unit(unit);
    let each = words::each(unit);
    let (title, epsilon, delta, least) = match account {
        Some(account) => (
            format!(
                "Raise the limit for {each}, now ε {} at δ {}",
                words::limit(account.epsilon.get()),
                words::delta(account.delta.get())
            ),
            account.epsilon.get(),
            account.delta.get(),
            account.epsilon.get(),
        ),
        None => (format!("Set a limit for {each}"), 8.0, 1e-6, 0.0),
    };
    let released = account.is_some_and(|account| account.spent > 0.0);
    let hidden =
        vec![("consortium", consortium.to_string()), ("dataset", dataset.id.to_string()), ("unit", name.to_owned())];
    let consequences = view! {
        <ul class="consequences">
            <li>{describe_bound(unit, &dataset.organization_name)}</li>
            {describe_side_effect(unit).map(|said| view! { <li>{said}</li> })}
            <li>"It counts for all datasets that share these accounts: later versions, and other names and workers under which sites recognized the same data or people, or stewards declared them. The documentation says what is not recognized."</li>
            <li>"Jobs that fit into it may be approved from now on. Running jobs go on as they are."</li>
            <li>"It can be raised later. It can never be lowered below what is spent and reserved, and nothing spent comes back."</li>
            {released.then(|| view! {
                <li>{format!(
                    "Something was released under the limit of now. To raise it begins a second promise: for everything together holds \
                     the sum of ε {} and the new ε, and of both δ.",
                    account.map_or_else(String::new, |account| words::limit(account.epsilon.get()))
                )}</li>
            })}
            <li>"The site keeps its own ledger and policy, which may say no to less."</li>
        </ul>
    };
    let button = if account.is_some() { "Raise the limit for life" } else { "Set the limit for life" };
    let inner = view! {
        <div class="field-row">
            <label class="field"><span><abbr title=words::EPSILON>"ε"</abbr>" for life"</span>
                <input type="number" name="epsilon" required min=least.to_string() max="10000" step="any" value=epsilon.to_string()/></label>
            <label class="field"><span><abbr title=words::DELTA>"δ"</abbr>" for life"</span>
                <input type="number" name="delta" required min="0" max="0.01" step="any" value=words::number(delta)/></label>
        </div>
        <p class="hint">{words::unit_meaning(unit)}</p>
        {consequences}
        <button type="submit" class="primary">{button}</button>
    };
    let open =
        !dataset.accounts.iter().any(standing::budgeted) && matches!(unit, PrivacyUnit::Speaker | PrivacyUnit::Words);
    view! { <details open=open><summary>{title}</summary>{post("set-budget", hidden, inner)}</details> }.into_any()
}

/// Describes the bound of a limit over all jobs.
fn describe_bound(unit: PrivacyUnit, organization: &str) -> String {
    match unit {
        PrivacyUnit::Record | PrivacyUnit::Speaker | PrivacyUnit::User => format!(
            "All jobs at {organization} together lose at most this much about {}, whichever unit they protect: every job counts here too.",
            words::any_one(unit)
        ),
        PrivacyUnit::Words => format!(
            "A reader of counts learns at most this much about {} of {organization}, from all jobs and consortia together. What \
             recognizers hear in the pieces that leave is not counted.",
            words::any_one(unit)
        ),
    }
}
