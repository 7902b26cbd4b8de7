//! The terms that a proposal leaves to a dataset's owner: their values, the effect of other values on the account, and
//! the approval with them.

use leptos::prelude::*;
use serde::Deserialize;
use undertone_api::job::terms::format_term;
use undertone_api::job::{Approval, Job, JobParticipant, JobReview, PartyTerms, TermName, TermRange};
use undertone_api::member::Member;

use crate::page::job::sign::{ApprovalRequest, render_approval_form};
use crate::{path, viewer, words};

/// The fields of the form, as the address of the page holds them.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TermsQuery {
    noise_multiplier: String,
    clip: String,
    sampling_rate: String,
    rounds: String,
}

/// Reads an answer from the address of the page. A field that holds no number is left out: the form marks it.
pub(super) fn parse_terms(query: &str) -> PartyTerms {
    let TermsQuery { noise_multiplier, clip, sampling_rate, rounds } = crate::query::parse(query).unwrap_or_default();
    let texts = [
        (TermName::NoiseMultiplier, noise_multiplier),
        (TermName::Clip, clip),
        (TermName::SamplingRate, sampling_rate),
        (TermName::Rounds, rounds),
    ];
    let value = |(term, text): (TermName, String)| {
        let value = text.trim().parse::<f64>().ok().filter(|value| value.is_finite())?;
        Some((term, value))
    };
    texts.into_iter().filter_map(value).collect()
}

/// Renders the open terms with a form that shows the effect of other values, and the approval with the shown ones for a
/// steward whose answer is missing.
pub(super) fn render_terms(
    member: &Member,
    job: &Job,
    party: &JobParticipant,
    review: &JobReview,
    terms: &PartyTerms,
) -> AnyView {
    if review.terms.is_empty() {
        return ().into_any();
    }
    let here = path::review(job.summary.consortium, review.job, review.dataset);
    let fields = review.terms.iter().map(render_field).collect_view();
    let decides = viewer::stewards(member, party.organization) && party.approval == Approval::Pending;
    let approval = decides.then(|| render_approval(job, party, review, terms));
    view! {
        <section class="panel decide" aria-label="Your terms">
            <h2>"Your terms"</h2>
            <p>"The proposal leaves these values to the owner of the data, each within a range. The cost below is that of the values shown here."</p>
            <form class="stack" method="get" action=here>
                {fields}
                <button type="submit">"Show the effect"</button>
            </form>
            {approval}
        </section>
    }
    .into_any()
}

fn render_field(range: &TermRange) -> AnyView {
    let TermRange { term, min, max, value } = *range;
    let [value, least, greatest] = [value, min, max].map(format_term);
    let label = format!("{}, {least} to {greatest}", term.label());
    let step = if term.is_whole() { "1" } else { "any" };
    view! {
        <label class="field"><span>{label}</span>
            <input type="number" name=term.name() value=value min=least max=greatest step=step required autocomplete="off"/>
        </label>
    }
    .into_any()
}

fn render_approval(job: &Job, party: &JobParticipant, review: &JobReview, terms: &PartyTerms) -> AnyView {
    let answer = if terms.is_empty() { String::new() } else { serde_json::to_string(terms).unwrap_or_default() };
    let hidden = vec![
        ("consortium", job.summary.consortium.to_string()),
        ("job", review.job.to_string()),
        ("dataset", review.dataset.to_string()),
        ("manifest", review.digest.clone()),
        ("terms", answer),
    ];
    let epsilon = review.cost.as_ref().and_then(|cost| cost.epsilon);
    let label = epsilon.map_or_else(
        || "Approve with these terms".to_owned(),
        |epsilon| format!("Approve with these terms and reserve ε {}", words::epsilon(epsilon)),
    );
    let request = ApprovalRequest { job: review.job, dataset: party.dataset, manifest: &review.digest, terms };
    let file = path::review_file(review.job, review.dataset);
    render_approval_form(review.approval.as_ref(), &request, hidden, file, label)
}

#[cfg(test)]
mod tests {
    use undertone_api::job::TermName;

    use super::parse_terms;

    #[test]
    fn answer_is_read_from_the_address() {
        let terms = parse_terms("noise_multiplier=2.5&rounds=20&clip=&color=1&sampling_rate=NaN");
        assert_eq!(terms.get(TermName::NoiseMultiplier), Some(2.5));
        assert_eq!(terms.get(TermName::Rounds), Some(20.0));
        assert_eq!(terms.iter().count(), 2);
    }
}
