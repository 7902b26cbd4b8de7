//! The cross-organization rule: its text, its author, and the form in which an admin declares one.

use leptos::prelude::*;
use time::OffsetDateTime;
use undertone_api::consortium::OverlapRule;
use undertone_api::id::ConsortiumId;
use undertone_privacy::ledger::Overlap;

use crate::component::form::post;
use crate::component::said::RelativeTime;
use crate::words;

/// Describes the rule in one sentence.
pub(super) fn describe_rule(overlap: Overlap) -> String {
    match overlap {
        Overlap::Disjoint => {
            "No person is in the data of more than one organization, so a job's cost for a person is the maximum of \
             the organizations' costs."
                .to_owned()
        }
        Overlap::Overlapping { at_most: None } => {
            "One person may be in the data of every organization, so a job's cost for a person is the sum of the \
             organizations' costs."
                .to_owned()
        }
        Overlap::Overlapping { at_most: Some(most) } => format!(
            "One person may be in the data of up to {}, so a job's cost for a person is the sum of the {most} \
             largest costs.",
            words::plural(u64::from(most), "organization")
        ),
    }
}

/// Renders the author of the rule; the time relative to `now`, or in full for printed pages.
pub(super) fn render_author(rule: &OverlapRule, now: Option<OffsetDateTime>) -> AnyView {
    match (&rule.attested_by, rule.attested_at) {
        (Some(by), Some(at)) => {
            let statement = (!rule.statement.is_empty()).then(|| format!(" “{}”", rule.statement));
            let time = match now {
                Some(now) => view! { <RelativeTime at now/> }.into_any(),
                None => view! { "on "{words::exact(at)} }.into_any(),
            };
            view! { <span>{format!("Declared by {by} ")}{time}"."{statement}</span> }.into_any()
        }
        _ => view! { <span>"The default: no other rule was declared."</span> }.into_any(),
    }
}

/// Renders the rule, earlier declarations, and the form for an admin.
pub(super) fn render_section(
    consortium: ConsortiumId,
    rule: &OverlapRule,
    history: &[OverlapRule],
    admin: bool,
    now: OffsetDateTime,
) -> AnyView {
    let earlier = history.iter().skip(1).map(|rule| {
        view! { <li>{describe_rule(rule.overlap)}" "{render_author(rule, Some(now))}</li> }
    });
    let earlier = (history.len() > 1).then(|| {
        view! {
            <details class="more"><summary>"Earlier declarations"</summary>
                <ul class="plain-list">{earlier.collect_view()}</ul>
            </details>
        }
    });
    view! {
        <section class="panel" id="overlap"><h2>"People in several organizations"</h2>
            <p>{describe_rule(rule.overlap)}</p>
            <p class="hint">{render_author(rule, Some(now))}" Every certificate states this rule and its author."</p>
            {earlier}
            {admin.then(|| render_form(consortium, rule.overlap))}
        </section>
    }
    .into_any()
}

fn render_form(consortium: ConsortiumId, now: Overlap) -> AnyView {
    let (selection, most) = match now {
        Overlap::Disjoint => ("disjoint", 2),
        Overlap::Overlapping { at_most: None } => ("everywhere", 2),
        Overlap::Overlapping { at_most: Some(most) } => ("some", most),
    };
    let choice = |value: &'static str, label: AnyView| {
        view! {
            <label class="check"><input type="radio" name="overlap" value=value required checked=value == selection/><span>{label}</span></label>
        }
    };
    let inner = view! {
        <fieldset class="choices"><legend>"One person may be in the data of"</legend>
            {choice("everywhere", view! { "every organization (no knowledge)" }.into_any())}
            {choice("some", view! { "several, at most this many:" }.into_any())}
            <label class="field inline"><span>"Number of organizations"</span>
                <input type="number" name="most" min="2" max="1000" step="1" value=most.to_string()/></label>
            {choice("disjoint", view! { "one organization only" }.into_any())}
        </fieldset>
        <label class="field"><span>"Evidence"</span>
            <textarea name="statement" rows="2" maxlength="1000"></textarea>
            <small>"At least 10 characters, unless there is no knowledge. Every member of the consortium can read it."</small></label>
        <ul class="consequences">
            <li>"The declaration is recorded permanently with your name and the time."</li>
            <li>"If it is wrong, new certificates state a stronger guarantee than some people have."</li>
            <li>"It affects no organization's budget and no existing certificate."</li>
        </ul>
        <button type="submit" class="primary">"Declare"</button>
    };
    let form = post("attest-overlap", vec![("consortium", consortium.to_string())], inner);
    view! { <details class="more decide"><summary>"Declare an overlap"</summary>{form}</details> }.into_any()
}

#[cfg(test)]
mod tests {
    use undertone_privacy::ledger::Overlap;

    use super::describe_rule;

    #[test]
    fn overlap_rules_are_described() {
        assert!(describe_rule(Overlap::default()).contains("every organization"));
        assert!(describe_rule(Overlap::Disjoint).contains("maximum of the organizations"));
        let two = describe_rule(Overlap::Overlapping { at_most: Some(2) });
        assert!(two.contains("up to 2 organizations") && two.contains("the sum of the 2 largest"), "{two}");
    }
}
