//! Small text components: moments, digests, states, problems.

use leptos::prelude::*;
use time::OffsetDateTime;
use undertone_api::budget::ExceededPart;
use undertone_api::dataset::Visibility;
use undertone_api::job::JobState;
use undertone_api::problem::Problem;

use crate::words;

/// Renders a moment relative to `now`, exact on hover.
#[component]
pub fn RelativeTime(
    /// The moment.
    at: OffsetDateTime,
    /// The present moment.
    now: OffsetDateTime,
) -> impl IntoView {
    view! { <time datetime=words::machine(at) title=words::exact(at)>{words::relative(at, now)}</time> }
}

/// Renders the day of a moment, where [`RelativeTime`] would not make a sentence ("until in 14 days"); exact on hover.
#[component]
pub fn Day(
    /// The moment.
    at: OffsetDateTime,
) -> impl IntoView {
    view! { <time datetime=words::machine(at) title=words::exact(at)>{words::day(at)}</time> }
}

/// Renders the beginning of a digest, whole on hover.
#[component]
pub fn Digest(
    /// Hex.
    digest: String,
) -> impl IntoView {
    let short = words::short(&digest);
    view! { <code class="digest" title=digest>{short}</code> }
}

/// Renders a job's state, with a symbol in addition to the colour.
#[component]
pub fn StateMark(
    /// The state.
    state: JobState,
) -> impl IntoView {
    let (class, mark) = match state {
        JobState::Proposed => ("state waiting", "◌"),
        JobState::Queued => ("state waiting", "◔"),
        JobState::Running => ("state running", "●"),
        JobState::Paused => ("state waiting", "‖"),
        JobState::Finished => ("state done", "✓"),
        JobState::Failed => ("state bad", "✕"),
        JobState::Cancelled => ("state over", "–"),
        JobState::Refused => ("state bad", "⊘"),
    };
    view! { <span class=class><span aria-hidden="true">{mark}" "</span>{state.label()}</span> }
}

/// Renders a dataset's visibility, explained on hover.
#[component]
pub fn VisibilityMark(
    /// The visibility.
    visibility: Visibility,
) -> impl IntoView {
    let class = format!("tag {}", words::visibility(visibility));
    view! { <span class=class title=words::visibility_meaning(visibility)>{words::visibility(visibility)}</span> }
}

/// Renders a problem in sentences: the failure, every violation, and the figures of every budget that refused.
#[component]
pub fn ProblemBox(
    /// The problem.
    problem: Problem,
) -> impl IntoView {
    let Problem { title, detail, violations, refusals, code, .. } = problem;
    let plain = violations.is_empty();
    let remedy = (code == undertone_api::problem::Code::ProofStale).then(|| {
        view! { <p><a href=crate::path::SECURITY>"Confirm your identity"</a></p> }
    });
    view! {
        <div class="notice bad" role="alert">
            <p class="notice-title">{title}</p>
            {(plain && !detail.is_empty()).then(|| view! { <p>{detail}</p> })}
            {remedy}
            {(!violations.is_empty()).then(|| view! {
                <ul>
                    {violations.into_iter().map(|v| view! { <li><code>{v.field}</code>": "{v.message}</li> }).collect_view()}
                </ul>
            })}
            {(!refusals.is_empty()).then(|| view! {
                <ul class="refusals">
                    {refusals.iter().map(|refusal| view! { <li>{describe_refusal(refusal)}</li> }).collect_view()}
                </ul>
            })}
        </div>
    }
    .into_any()
}

/// Describes the refusal of an account: spent, requested, remaining, and the nearest plan that fits.
pub fn describe_refusal(refusal: &undertone_api::budget::BudgetRefusal) -> String {
    if let Some(reason) = &refusal.reason {
        return format!("{}: {reason}.", refusal.dataset_name);
    }
    if let (Some(ExceededPart::SideDelta), Some(side)) = (refusal.exceeded, &refusal.side_delta) {
        return format!(
            "{} ({}): the share of δ for releases with their own δ is exhausted: {}. Use a smaller δ.",
            refusal.dataset_name,
            words::unit(refusal.unit),
            side.phrase()
        );
    }
    let infinite = || "an unlimited ε".to_owned();
    let request = refusal.asked.map_or_else(infinite, |request| format!("ε {}", words::epsilon(request)));
    let would_be = refusal.would_be.map_or_else(infinite, |sum| format!("ε {}", words::epsilon(sum)));
    let fits = match refusal.releases_that_fit {
        0 => "No release with this noise and sampling rate would fit; use more noise or a lower rate.".to_owned(),
        n => format!("{} of this kind would fit.", words::plural(n, "release")),
    };
    format!(
        "{} ({}): ε {} of {} is spent or reserved at δ {}, ε {} is left. The job requests {request} by itself, for \
         a total of {would_be}. {fits}",
        refusal.dataset_name,
        words::unit(refusal.unit),
        words::epsilon(refusal.spent),
        words::limit(refusal.limit),
        words::delta(refusal.delta),
        words::epsilon_left((refusal.limit - refusal.spent).max(0.0)),
    )
}

#[cfg(test)]
mod tests {
    use undertone_api::budget::{BudgetRefusal, ExceededPart, SideDelta};
    use undertone_api::id::DatasetId;
    use undertone_privacy::PrivacyUnit;

    use super::describe_refusal;

    fn refusal() -> BudgetRefusal {
        BudgetRefusal {
            dataset: DatasetId(uuid::Uuid::nil()),
            dataset_name: "ward-b".to_owned(),
            unit: PrivacyUnit::Speaker,
            limit: 8.0,
            delta: 1e-6,
            spent: 6.5,
            asked: Some(3.25),
            would_be: Some(9.001),
            releases_that_fit: 12,
            reason: None,
            exceeded: Some(ExceededPart::Epsilon),
            side_delta: None,
        }
    }

    #[test]
    fn refusal_over_the_side_delta_shows_its_figures() {
        let refusal = BudgetRefusal {
            exceeded: Some(ExceededPart::SideDelta),
            side_delta: Some(SideDelta { limit: 2.5e-3, committed: 1.8e-3, asked: 1e-3 }),
            ..refusal()
        };
        assert_eq!(
            describe_refusal(&refusal),
            "ward-b (speaker): the share of δ for releases with their own δ is exhausted: 1.8e-3 of 2.5e-3 is spent or \
             reserved and the job asks 1e-3. Use a smaller δ."
        );
    }

    #[test]
    fn refusal_states_spent_request_rest_and_room() {
        assert_eq!(
            describe_refusal(&refusal()),
            "ward-b (speaker): ε 6.50 of 8.00 is spent or reserved at δ 10⁻⁶, ε 1.50 is left. The job requests ε 3.25 \
             by itself, for a total of ε 9.01. 12 releases of this kind would fit."
        );
    }
}
