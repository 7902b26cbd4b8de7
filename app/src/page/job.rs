//! One job: its live state, pending decisions, and its actions.

mod life;

mod rounds;
pub(crate) mod sign;

use leptos::prelude::*;
use undertone_api::budget::AccountStanding;
use undertone_api::dataset::Dataset;
use undertone_api::id::{ConsortiumId, DatasetId, JobId};
use undertone_api::job::{Approval, Job, JobParticipant, JobState, PartyTerms};
use undertone_api::member::Member;
use undertone_api::problem::Problem;
use undertone_api::signed::{ModelOrigin, SiteApproval};
use undertone_privacy::Event;
use undertone_server_core::service;

use crate::component::form::post;
use crate::component::gauge::Gauge;
use crate::component::said::{Digest, ProblemBox, RelativeTime};
use crate::live::LiveJob;
use crate::live::part::in_the_clear;
use crate::live::state::load_live;
use crate::page_context::{PageContent, PageContext, PagePlace};
use crate::screen::render_page;
use crate::standing::Payment;
use crate::{kind, reply, viewer, words};

/// Renders the page.
pub(crate) fn job() -> AnyView {
    render_page(PagePlace::Jobs, async |context| {
        let consortium = context.consortium()?.id;
        let member = context.member()?;
        let id: JobId = context.id("job")?;
        let ctx = context.ctx();
        let actor = context.actor()?;
        let (job, live) = load_live(&context.request, id).await?;
        let first = reply::text(&live)?;
        let datasets = service::dataset::list(ctx, actor, consortium).await?;
        let in_the_clear = in_the_clear(&job, &datasets);
        let decisions = render_decisions(&context, member, consortium, &job, &datasets, &in_the_clear).await?;
        let refusal = (!job.refusals.is_empty()).then(|| {
            let problem = Problem {
                refusals: job.refusals.clone(),
                ..Problem::new(undertone_api::problem::Code::BudgetExceeded, "")
            };
            view! { <ProblemBox problem/> }
        });
        let timeline = rounds::render_section(&job, service::job::progress(ctx, actor, id).await?, context.now);
        let audits = service::audit::list(ctx, actor, id).await?;
        let audit = super::audit::render_section(&job, &datasets, &audits, context.now);
        let rehearsals = service::plan::rehearsals(ctx, actor, consortium, &job.spec).await?;
        let rehearsals = kind::render_rehearsals(consortium, &job.spec, &rehearsals);
        let plan_links = kind::render_plan_links(consortium, &job, &datasets);
        let facts = kind::facts(&job.spec);
        let asks = kind::has_questions(&job.spec) && viewer::answers(member);
        let certified = render_certificate_link(consortium, &job);
        let result_links = has_certificate(&job).then(|| render_result_links(consortium, id));
        let origin = job.initial_model.as_ref().map(|origin| render_origin(consortium, origin));
        let summary = job.summary.clone();
        Ok(PageContent::new(
            summary.title,
            view! {
                <LiveJob job=id first>
                    <div class="decisions-now" data-live="decisions">{refusal}{decisions}{result_links}</div>
                </LiveJob>
                {plan_links}
                {rehearsals}
                {timeline}
                {audit}
                <section class="panel" data-live="facts"><h2>{kind::title(&job.spec)}</h2>
                    <dl class="facts">
                        {facts.into_iter().map(|(term, what)| view! { <div><dt>{term}</dt><dd>{what}</dd></div> }).collect_view()}
                        {origin}
                        <div><dt>"Proposed"</dt><dd>{summary.proposed_by}", "<RelativeTime at=summary.created_at now=context.now/></dd></div>
                        {asks.then(|| view! { <div><dt>"Questions"</dt><dd><a href=crate::path::annotate(consortium, id)>"Answer or download"</a></dd></div> })}
                        <div><dt>"Report"</dt><dd><a href=crate::path::report(consortium, job.summary.id)>"Full results"</a></dd></div>
                        <div><dt>"Certificate"</dt><dd>{certified}</dd></div>
                        <div><dt>"Signed manifest"</dt><dd><Digest digest=job.manifest.clone()/></dd></div>
                    </dl>
                </section>
                <noscript><p class="hint">"Without JavaScript this page does not update. Reload it for new values."</p></noscript>
            },
        ))
    })
}

/// Renders the job that made the initial model, and its cost.
fn render_origin(consortium: ConsortiumId, origin: &ModelOrigin) -> AnyView {
    view! {
        <div><dt>"Begins with"</dt><dd>
            {origin.file.clone()}" of "<a href=crate::path::job(consortium, origin.job)>{origin.title.clone()}</a>
            {format!(", from {}. ", origin.source.label())}
            <a href=crate::path::certificate(consortium, origin.job)>"Its privacy cost"</a>
        </dd></div>
    }
    .into_any()
}

/// Returns whether the job is over and has a certificate.
fn has_certificate(job: &Job) -> bool {
    let released = job.participants.iter().any(|party| party.releases > 0);
    job.summary.state == JobState::Finished || (job.summary.state.is_over() && released)
}

/// Renders the links to what the job leaves, in sight without scrolling.
fn render_result_links(consortium: ConsortiumId, id: JobId) -> AnyView {
    view! {
        <div class="actions">
            <a class="button" href=crate::path::report(consortium, id)>"Full results"</a>
            <a class="button" href=crate::path::certificate(consortium, id)>"Signed privacy cost"</a>
        </div>
    }
    .into_any()
}

/// Renders the link to the certificate, or the time of its creation.
fn render_certificate_link(consortium: ConsortiumId, job: &Job) -> AnyView {
    if has_certificate(job) {
        return view! { <a href=crate::path::certificate(consortium, job.summary.id)>"Signed privacy cost"</a> }
            .into_any();
    }
    let status = if job.summary.state.is_over() { "none: nothing was released" } else { "available when the job ends" };
    view! { {status} }.into_any()
}

/// Renders the viewer's pending decisions.
async fn render_decisions(
    context: &PageContext,
    member: &Member,
    consortium: ConsortiumId,
    job: &Job,
    datasets: &[Dataset],
    in_the_clear: &[(DatasetId, u64)],
) -> Result<AnyView, Problem> {
    let mut parts = Vec::new();
    let is_awaited = |party: &&JobParticipant| {
        job.summary.state == JobState::Proposed
            && party.approval == Approval::Pending
            && viewer::stewards(member, party.organization)
    };
    let mine: Vec<_> = job.participants.iter().filter(is_awaited).collect();
    if !mine.is_empty() {
        let ids: Vec<_> = mine.iter().map(|party| party.dataset).collect();
        let standings = service::budget::standings(context.ctx(), context.actor()?, consortium, &ids).await?;
        let sites = service::approval::site_approvals(context.ctx(), context.actor()?, job.summary.id).await?;
        for party in mine {
            let speakers = datasets.iter().find(|d| d.id == party.dataset).map_or(0, |d| d.speakers.0);
            let exact = in_the_clear.iter().find(|(id, _)| *id == party.dataset).map_or(0, |(_, exact)| *exact);
            let own = standings.iter().filter(|(id, _)| *id == party.dataset).flat_map(|(_, own)| own);
            let site = sites.iter().find(|(dataset, _)| *dataset == party.dataset).map(|(_, site)| site);
            parts.push(render_approval(context, consortium, job, party, own, (speakers, exact), site));
        }
    }
    parts.push(life::render_actions(member, consortium, job, context.now));
    Ok(parts.collect_view().into_any())
}

fn render_approval<'a>(
    context: &PageContext,
    consortium: ConsortiumId,
    job: &Job,
    party: &JobParticipant,
    mut standings: impl Iterator<Item = &'a AccountStanding>,
    (speakers, exact): (u64, u64),
    site: Option<&SiteApproval>,
) -> AnyView {
    let payment = party.charge.as_ref().and_then(|charge| {
        standings
            .find(|standing| charge.is_on(standing.unit, standing.adjacency))
            .map(|standing| Payment::for_charge(standing, charge))
    });
    let hidden = || {
        vec![
            ("consortium", consortium.to_string()),
            ("job", job.summary.id.to_string()),
            ("dataset", party.dataset.to_string()),
            // The approval covers exactly the displayed manifest.
            ("manifest", job.manifest.clone()),
        ]
    };
    let others: Vec<_> = job
        .participants
        .iter()
        .filter(|other| other.organization != party.organization)
        .map(|other| other.organization_name.clone())
        .collect();
    let (mut effects, gauge, label) = match (&party.charge, payment) {
        (None, _) => (vec![kind::terms(&job.spec).public_release.to_owned()], ().into_any(), "Approve".to_owned()),
        (Some(charge), _) if charge.event == Event::NonPrivate => {
            (Vec::new(), ().into_any(), "Approve exact gradients".to_owned())
        }
        (Some(charge), Some(Ok(payment))) => {
            let and = if exact > 0 { ", and exact gradients" } else { "" };
            let label = format!("Approve and reserve ε {}{and}", words::epsilon(payment.own));
            let Payment { reading, ghost, .. } = payment;
            let mut lines = describe_charge(&payment, party, speakers, kind::terms(&job.spec).records);
            lines.extend(kind::consent(&job.spec, party.dataset, Some(charge)));
            (lines, view! { <Gauge reading ghost=Some(ghost)/> }.into_any(), label)
        }
        (Some(_), Some(Err(why))) => {
            (vec![format!("It cannot be approved: {why}.")], ().into_any(), "Approve".to_owned())
        }
        (Some(charge), None) => (
            vec![format!(
                "It cannot be reserved: {} has no budget for {}.",
                party.dataset_name,
                words::each(charge.unit)
            )],
            ().into_any(),
            "Approve".to_owned(),
        ),
    };
    if exact > 0 {
        effects.extend(describe_exact_releases(exact));
    }
    let parties =
        if others.is_empty() { "this server".to_owned() } else { format!("this server and {}", list_names(&others)) };
    let audience = kind::audience(&job.spec, parties);
    let retention = kind::terms(&job.spec).retention;
    view! {
        <section class="panel decide" aria-label=format!("Decision for {}", party.dataset_name)>
            <h2>{format!("Decide for {}", party.dataset_name)}</h2>
            {party.asked_because.as_ref().map(|because| view! { <p class="hint">{format!("Reason for the request: {because}.")}</p> })}
            {gauge}
            <ul class="consequences">
                {effects.into_iter().map(|line| view! { <li>{line}</li> }).collect_view()}
                <li>{format!("The releases are visible to {audience}. {retention} {}.", party.organization_name)}</li>
                <li>"The site's own ledger and policy must also admit the job."</li>
                {job.answer_by.map(|by| view! { <li>"Without a decision the job is refused "<RelativeTime at=by now=context.now/>"."</li> })}
            </ul>
            <p><a href=crate::path::review(consortium, job.summary.id, party.dataset)>"Review the manifest and the disclosures"</a></p>
            {render_answer(consortium, job, party, site, hidden(), label)}
            <details class="more"><summary>"Refuse"</summary>
                {post("refuse", hidden(), view! {
                    <p class="hint">"The job ends for every participant, and nothing is charged. This cannot be undone; a changed job can be proposed."</p>
                    <label class="field"><span>"Reason, shown to the proposer"</span><textarea name="reason" rows="2" required maxlength="1000"></textarea></label>
                    <button type="submit" class="danger">"Refuse the job"</button>
                })}
            </details>
        </section>
    }
    .into_any()
}

/// Renders the approval, or the way to the page on which the owner sets the terms that the proposal leaves open.
fn render_answer(
    consortium: ConsortiumId,
    job: &Job,
    party: &JobParticipant,
    site: Option<&SiteApproval>,
    hidden: Vec<(&'static str, String)>,
    label: String,
) -> AnyView {
    let (id, dataset) = (job.summary.id, party.dataset);
    if !job.spec.open_terms(dataset).is_empty() {
        let page = crate::path::review(consortium, id, dataset);
        return view! { <div class="actions"><a class="button primary" href=page>"Set your terms and approve"</a></div> }
            .into_any();
    }
    let request = sign::ApprovalRequest { job: id, dataset, manifest: &job.manifest, terms: &PartyTerms::default() };
    sign::render_approval_form(site, &request, hidden, crate::path::review_file(id, dataset), label)
}

/// Describes the effects of an approval, sentence by sentence.
fn describe_charge(payment: &Payment, party: &JobParticipant, speakers: u64, records: &str) -> Vec<String> {
    let each = words::each(payment.reading.unit);
    let delta = words::delta(payment.reading.delta);
    let mut lines = vec![format!(
        "Reserves {} of {}, at worst ε {} at δ {delta} for {each} by this job alone.",
        words::releases(payment.releases, &payment.event),
        party.dataset_name,
        words::epsilon(payment.own)
    )];
    if payment.ghost.fits {
        lines.push(format!(
            "The budget adds up the worst case of every job: it will be at ε {} of {}, with {} left for all other jobs, for life.",
            words::epsilon(payment.ghost.committed),
            words::limit(payment.reading.limit),
            words::epsilon_left(payment.left.unwrap_or_default())
        ));
    } else {
        lines.push(format!(
            "It does not fit: the budget would be at ε {} of {}. {} would fit. The reservation will be refused, and nothing will be charged.",
            words::epsilon(payment.ghost.committed),
            words::limit(payment.reading.limit),
            words::releases(payment.releases_that_fit, &payment.event)
        ));
    }
    if speakers > 0 && payment.reading.unit == undertone_privacy::PrivacyUnit::Record {
        lines.push(format!("The guarantee is for single {records}. There is no guarantee for a person with several."));
    }
    lines.push("The job can be cancelled while it runs: earlier releases stay spent, the rest is returned.".to_owned());
    lines
}

/// Describes the open arm's use of an open dataset.
fn describe_exact_releases(releases: u64) -> [String; 2] {
    [
        format!(
            "In the open arm exact gradients leave the site, {}. No ε covers them: others may reconstruct the \
             speech from them. The ledger records each of them without a charge to the budget.",
            words::plural(releases, "time")
        ),
        "The site marked the dataset open for this purpose. A release cannot be undone.".to_owned(),
    ]
}

/// Formats a list of names in words, each name once.
fn list_names(names: &[String]) -> String {
    let mut unique: Vec<&str> = names.iter().map(String::as_str).collect();
    unique.sort_unstable();
    unique.dedup();
    words::join_names(&unique)
}

#[cfg(test)]
mod tests {
    use super::list_names;

    #[test]
    fn names_are_listed_once_each() {
        let names = ["b", "a", "b"].map(str::to_owned);
        assert_eq!(list_names(&names), "a and b");
    }
}
