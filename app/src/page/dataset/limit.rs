//! Limits for automatic approval of jobs on a dataset: the current limit, the used part of its total, and the forms to
//! set and withdraw it.

use leptos::prelude::*;
use time::OffsetDateTime;
use undertone_api::dataset::Dataset;
use undertone_api::id::ConsortiumId;
use undertone_api::job::{ApprovalLimit, ApprovedTotal, LONGEST_LIMIT_DAYS, Spec};
use undertone_api::signed::ApprovalRule;

use crate::component::form::post;
use crate::component::gauge::{Gauge, GaugeReading};
use crate::component::said::RelativeTime;
use crate::page::certificate::describe_adjacency;
use crate::{standing, words};

/// The default ε of the form for one job.
const PROPOSED_EPSILON: f64 = 0.5;
/// The number of such jobs in the form's default total, if their ε were added up.
const PROPOSED_JOBS: f64 = 4.0;

/// The reason why there is no form for a dataset whose site verifies signatures.
const VERIFIED: &str = "The site verifies a steward's signature for each job, so an automatic limit on this server \
                        has no effect. The site's operator can allow small jobs automatically: approval = \
                        \"automatic\" in policy.toml, up to most_epsilon_automatic.";

/// Renders the section, for the dataset's stewards.
pub(super) fn render_section(
    consortium: ConsortiumId,
    dataset: &Dataset,
    limits: &[ApprovalLimit],
    steward: bool,
    now: OffsetDateTime,
) -> AnyView {
    let hidden = || vec![("consortium", consortium.to_string()), ("dataset", dataset.id.to_string())];
    let current = limits.iter().find(|limit| limit.in_force);
    let summary = match current {
        None => view! { <p>"None: a steward, or the site's own policy, decides about every job."</p> }.into_any(),
        Some(limit) => view! {
            <p>{format!("Jobs of kind {} that cost at most ε {} each are approved, set by {} ",
                limit.content.kinds.join(" or "), words::limit(limit.content.epsilon.get()), limit.set_by)}
                <RelativeTime at=limit.set_at now/>", until "<RelativeTime at=limit.content.until now/>"."</p>
            {render_total(limit)}
            {steward.then(|| post("withdraw-approval-limit", hidden(), view! { <button type="submit">"Withdraw the limit"</button> }))}
        }
        .into_any(),
    };
    let kinds = Spec::KINDS.iter().map(|kind| {
        view! { <label class="check"><input type="checkbox" name="kinds[]" value=*kind checked=true/>{*kind}</label> }
    });
    let verified = dataset.approval == Some(ApprovalRule::Steward);
    let form = (steward && !verified).then(|| {
        let epsilon = current.map_or(PROPOSED_EPSILON, |limit| limit.content.epsilon.get());
        let total = current.and_then(|limit| limit.content.total_epsilon);
        let total = total.map_or_else(|| default_total(dataset, epsilon), f64::from);
        let inner = view! {
            <div class="field-row">
                <label class="field"><span><abbr title=words::EPSILON>"ε"</abbr>" maximum per job"</span>
                    <input type="number" name="epsilon" required min="0" step="any" value=epsilon.to_string()/></label>
                <label class="field"><span><abbr title=words::EPSILON>"ε"</abbr>" maximum for all jobs together"</span>
                    <input type="number" name="total_epsilon" required min="0" step="any" value=total.to_string()
                        aria-describedby="limit-total-help"/></label>
                <label class="field"><span>"Duration, days"</span>
                    <input type="number" name="days" required min="1" max=LONGEST_LIMIT_DAYS.to_string() value="90"/></label>
            </div>
            <p class="hint" id="limit-total-help">"The total applies to each unit with a budget, counts every job for every protected unit, and is at least the maximum per job. A job beyond the total waits for your approval. A new limit starts from zero."</p>
            <fieldset class="field"><legend>"Job kinds"</legend>{kinds.collect_view()}</fieldset>
            <ul class="consequences">
                <li>"Jobs within the limit are approved in your name when they are proposed, while you are a steward here. Each approval is recorded with your name."</li>
                <li>"Several jobs may be approved until they reach the total: an ended job counts its releases, every other job its worst case."</li>
                <li>"The limit never approves exact releases. The budget, and the site's own policy and ledger, still apply to every job."</li>
            </ul>
            <button type="submit" class="primary">"Approve automatically"</button>
        };
        view! { <details class="more"><summary>"Set a limit"</summary>{post("set-approval-limit", hidden(), inner)}</details> }
    });
    view! { <section class="panel"><h2>"Automatic approval"</h2>{summary}{form}{verified.then(|| view! { <p class="hint">{VERIFIED}</p> })}</section> }.into_any()
}

/// Renders the approved part of a limit's total; or the missing total, with the way to set one.
fn render_total(limit: &ApprovalLimit) -> AnyView {
    let sums = limit
        .approved
        .iter()
        .map(|sum| render_approved_sum(sum, limit.content.total_epsilon.map(f64::from)))
        .collect_view();
    let summary = match limit.content.total_epsilon {
        None => "It has no total: jobs are approved until the budget is used up. To bound the sum, set a limit with \
                 a total; it replaces this one."
            .to_owned(),
        Some(total) if limit.approved.is_empty() => {
            format!(
                "Together they may cost ε {} for each unit. No job was approved automatically yet.",
                words::limit(total.get())
            )
        }
        Some(total) => format!("Together they may cost ε {} for each unit.", words::limit(total.get())),
    };
    view! { <p>{summary}</p>{sums} }.into_any()
}

/// Renders the approved sum for one unit and adjacency, as a gauge if there is a total.
fn render_approved_sum(sum: &ApprovedTotal, total: Option<f64>) -> AnyView {
    let spent = sum.spent.unwrap_or(f64::INFINITY);
    let committed = sum.committed.unwrap_or(f64::INFINITY);
    let gauge = total.map(|total| {
        let reading = GaugeReading { unit: sum.unit, limit: total, delta: sum.delta, spent, committed };
        view! { <Gauge reading bare=true/> }
    });
    let limit_text = total.map_or_else(String::new, |total| format!(" of {}", words::limit(total)));
    view! {
        {gauge}
        <p class="gauge-text">{format!(
            "{} approved automatically: together ε {}{limit_text} at δ {}, {}.",
            words::plural(sum.jobs, "job"),
            words::epsilon(committed),
            words::delta(sum.delta),
            words::unit(sum.unit)
        )}</p>
        <p class="hint">{describe_adjacency(sum.adjacency, sum.unit)}</p>
    }
    .into_any()
}

/// Returns the form's default total: the sum for several jobs, within the least of the dataset's budgets.
fn default_total(dataset: &Dataset, epsilon: f64) -> f64 {
    let budgets = dataset.accounts.iter().filter(|account| standing::budgeted(account));
    let least = budgets.map(|account| account.epsilon.get()).fold(f64::INFINITY, f64::min);
    (PROPOSED_JOBS * epsilon).min(least).max(epsilon)
}

#[cfg(test)]
mod tests {
    use leptos::prelude::{Owner, RenderHtml as _};
    use undertone_api::dataset::Dataset;
    use undertone_api::id::ConsortiumId;
    use undertone_api::signed::ApprovalRule;
    use uuid::Uuid;

    use super::render_section;
    use crate::testing::example::{NOW, datasets};

    fn page(approval: Option<ApprovalRule>) -> String {
        let dataset = Dataset { approval, ..datasets().swap_remove(0) };
        Owner::new().with(|| render_section(ConsortiumId(Uuid::nil()), &dataset, &[], true, NOW).to_html())
    }

    #[test]
    fn verifying_site_has_no_limit_form() {
        let verified = page(Some(ApprovalRule::Steward));
        assert!(!verified.contains("Set a limit") && verified.contains("most_epsilon_automatic"), "{verified}");
        for rule in [None, Some(ApprovalRule::Server), Some(ApprovalRule::Automatic)] {
            assert!(page(rule).contains("Set a limit"), "{rule:?}");
        }
    }
}
