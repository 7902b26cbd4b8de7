//! The forms that set a lifetime budget, with an explanation of its consequences.

use leptos::prelude::*;
use undertone_api::budget::Account;
use undertone_api::dataset::Dataset;
use undertone_api::id::ConsortiumId;
use undertone_privacy::PrivacyUnit;
use undertone_privacy::ledger::FilterKind;

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
            "A job that protects speakers or users costs about twice as much for each record, so this limit may be used up first.",
        ),
        PrivacyUnit::Speaker | PrivacyUnit::User => Some(
            "From now on, jobs that protect only single records are refused: they give no guarantee for a person with several.",
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
                "Raise the limit for {each}, currently ε {} at δ {}",
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
            <li>"The limit applies to all datasets that share these accounts: later versions, and datasets that sites recognized, or stewards declared, as the same data or people. The documentation lists what sites do not recognize."</li>
            <li>"Jobs within the limit can be approved from now on. Running jobs continue unchanged."</li>
            <li>"The limit can be raised later. It can never be lowered below the spent and reserved budget, and spent budget is never returned."</li>
            {released.then(|| view! {
                <li>{format!(
                    "There were releases under the current limit. Raising it starts a second guarantee: the total \
                     is the sum of ε {} and the new ε, and of both δ.",
                    account.map_or_else(String::new, |account| words::limit(account.epsilon.get()))
                )}</li>
            })}
            <li>"The site's own ledger and policy may be stricter."</li>
        </ul>
    };
    let button = if account.is_some() { "Raise the lifetime limit" } else { "Set the lifetime limit" };
    let inner = view! {
        <div class="field-row">
            <label class="field"><span><abbr title=words::EPSILON>"ε"</abbr>" for life"</span>
                <input type="number" name="epsilon" required min=least.to_string() max="10000" step="any" value=epsilon.to_string()/></label>
            <label class="field"><span><abbr title=words::DELTA>"δ"</abbr>" for life"</span>
                <input type="number" name="delta" required min="0" max="0.01" step="any" value=words::all_digits(delta)/></label>
        </div>
        <p class="hint">{words::unit_meaning(unit)}</p>
        {render_filter(account)}
        {consequences}
        <button type="submit" class="primary">{button}</button>
    };
    let open =
        !dataset.accounts.iter().any(standing::budgeted) && matches!(unit, PrivacyUnit::Speaker | PrivacyUnit::Words);
    view! { <details open=open><summary>{title}</summary>{post("set-budget", hidden, inner)}</details> }.into_any()
}

/// Renders the choice of the filter, or the filter of an account that has admitted jobs.
fn render_filter(account: Option<&Account>) -> AnyView {
    let present = account.map_or(FilterKind::Renyi, |account| account.filter);
    if account.is_some_and(|account| account.committed > 0.0) {
        let text = format!("{} The account keeps this filter for life.", describe_filter(present));
        return view! { <p class="hint">{text}</p> }.into_any();
    }
    let options = [FilterKind::Renyi, FilterKind::Gaussian].map(|filter| {
        view! { <option value=filter.word() selected={filter == present}>{describe_filter(filter)}</option> }
    });
    view! {
        <label class="field"><span>"Filter"</span><select name="filter">{options.into_iter().collect_view()}</select></label>
        <p class="hint">"The filter decides which jobs fit. It cannot change after the first job."</p>
    }
    .into_any()
}

/// Describes a filter in a sentence.
const fn describe_filter(filter: FilterKind) -> &'static str {
    match filter {
        FilterKind::Renyi => "Rényi: releases are charged one by one, and a job that stops early returns the rest.",
        FilterKind::Gaussian => {
            "Gaussian: more rounds of long training; the first release of a job spends the whole job, and nothing is returned."
        }
    }
}

/// Describes the bound of a limit over all jobs.
fn describe_bound(unit: PrivacyUnit, organization: &str) -> String {
    match unit {
        PrivacyUnit::Record | PrivacyUnit::Speaker | PrivacyUnit::User => format!(
            "All jobs at {organization} together reveal at most this much about {}, for every protected unit: each job counts here too.",
            words::any_one(unit)
        ),
        PrivacyUnit::Words => format!(
            "A reader of counts learns at most this much about {} of {organization}, from all jobs and consortia \
             together. The sound of the pieces that recognizers hear is not covered.",
            words::any_one(unit)
        ),
    }
}
