//! Limits within which jobs on a dataset pass without being asked about: what holds, and the forms to set and withdraw it.

use leptos::prelude::*;
use time::OffsetDateTime;
use undertone_api::dataset::Dataset;
use undertone_api::id::ConsortiumId;
use undertone_api::job::{ApprovalLimit, LONGEST_LIMIT_DAYS, Spec};

use crate::component::form::post;
use crate::component::said::When;
use crate::words;

/// The section, for those who answer for the dataset.
pub(super) fn section(
    consortium: ConsortiumId,
    dataset: &Dataset,
    limits: &[ApprovalLimit],
    steward: bool,
    now: OffsetDateTime,
) -> AnyView {
    let hidden = || vec![("consortium", consortium.to_string()), ("dataset", dataset.id.to_string())];
    let current = limits.iter().find(|limit| limit.in_force);
    let said = match current {
        None => view! { <p>"None: a steward, or the site's own policy, answers for every job."</p> }.into_any(),
        Some(limit) => view! {
            <p>{format!("Jobs of kind {} that cost at most ε {} each are approved, set by {} ",
                limit.content.kinds.join(" or "), words::limit(limit.content.epsilon.get()), limit.set_by)}
                <When at=limit.set_at now/>", until "<When at=limit.content.until now/>"."</p>
            {steward.then(|| post("withdraw-approval-limit", hidden(), view! { <button type="submit">"Withdraw the limit"</button> }))}
        }
        .into_any(),
    };
    let kinds = Spec::KINDS.iter().map(|kind| {
        view! { <label class="check"><input type="checkbox" name="kinds[]" value=*kind checked=true/>{*kind}</label> }
    });
    let form = steward.then(|| {
        let inner = view! {
            <div class="field-row">
                <label class="field"><span><abbr title=words::EPSILON>"ε"</abbr>" that one job may cost"</span>
                    <input type="number" name="epsilon" required min="0" step="any" value="0.5"/></label>
                <label class="field"><span>"Days that it holds"</span>
                    <input type="number" name="days" required min="1" max=LONGEST_LIMIT_DAYS.to_string() value="90"/></label>
            </div>
            <fieldset class="field"><legend>"Kinds of job"</legend>{kinds.collect_view()}</fieldset>
            <ul class="consequences">
                <li>"Jobs within it are approved in your name when they are proposed, as long as you are a steward here. Each answer is kept with your name."</li>
                <li>"Several such jobs may follow one another: the budget bounds them together, this limit bounds each."</li>
                <li>"Nothing that leaves in the clear ever passes by it. The site's own policy and ledger judge every job all the same."</li>
            </ul>
            <button type="submit" class="primary">"Let such jobs pass"</button>
        };
        view! { <details class="more"><summary>"Set a limit"</summary>{post("set-approval-limit", hidden(), inner)}</details> }
    });
    view! { <section class="panel"><h2>"Approval without being asked"</h2>{said}{form}</section> }.into_any()
}
