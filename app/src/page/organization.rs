//! One organization: its workers and members, and the forms to add to both.

pub(super) mod people;
#[cfg(test)]
mod tests;

use leptos::prelude::*;
use time::OffsetDateTime;
use undertone_api::id::{ConsortiumId, OrganizationId};
use undertone_api::organization::{InvitationPurpose, Organization};
use undertone_api::problem::{Code, Problem};
use undertone_api::worker::Worker;
use undertone_server_core::service;

use super::render_empty;
use crate::component::form::{Field, post};
use crate::component::retire::{
    render_reconciliation, render_restore_form, render_retire_form, render_retirement, render_write_off_form,
};
use crate::component::said::{Digest, RelativeTime};
use crate::page_context::{PageContent, PagePlace};
use crate::screen::render_page;
use crate::{path, viewer, words};

/// Renders the page.
pub(crate) fn organization() -> AnyView {
    render_page(PagePlace::Organizations, async |context| {
        let consortium = context.consortium()?.id;
        let member = context.member()?;
        let id: OrganizationId = context.id("organization")?;
        let ctx = context.ctx();
        let actor = context.actor()?;
        let organizations = service::organization::in_consortium(ctx, actor, consortium).await?;
        let organization = organizations.into_iter().find(|organization| organization.id == id);
        let organization = organization
            .ok_or_else(|| Problem::new(Code::NotFound, "There is no such organization in this consortium."))?;
        let members = match service::member::list(ctx, actor, id).await {
            Ok(members) => Some(members),
            Err(error) if matches!(error.code(), Code::Forbidden | Code::NotFound) => None,
            Err(error) => return Err(error.into_problem()),
        };
        let runs = viewer::runs(member, id);
        let retires = runs || viewer::admits(member, consortium);
        let retired_members =
            if runs { service::retirement::list_retired_members(ctx, actor, id).await? } else { Vec::new() };
        let purpose = InvitationPurpose::Member { organization: id, roles: Vec::new() };
        let links = if runs { service::invitation::list(ctx, actor, &purpose).await? } else { Vec::new() };
        let hidden = || vec![("consortium", consortium.to_string()), ("organization", id.to_string())];
        let enrol = runs.then(|| {
            post(
                "enrol",
                hidden(),
                view! {
                    <Field name="name" label="Worker name" help="For example, its machine or ward."/>
                    <button type="submit" class="primary">"Create an enrolment token"</button>
                },
            )
        });
        let invite = runs.then(|| post("invite-member", hidden(), view! {
            <Field name="label" label="Recipient"/>
            {people::render_boxes(&[])}
            <p class="hint">"The first person who opens the link joins with these roles. The link works once and is shown once."</p>
            <button type="submit" class="primary">"Create a link"</button>
        }));
        let standing = viewer::admits(member, consortium).then(|| render_standing(&organization, consortium));
        let state = organization.retirement.as_ref().map(|retirement| render_retirement(retirement, context.now));
        Ok(PageContent::new(
            organization.name.clone(),
            view! {
                {state}
                {viewer::reads_log_of(member, id).then(|| view! { <p><a href=path::organization_log(consortium, id)>"Audit log of this organization"</a></p> })}
                <section class="panel"><h2>"Workers"</h2>
                    {render_workers(&organization.workers, consortium, retires.then_some(runs), context.now)}
                    {render_key_changes(&organization.workers, context.now)}
                    {enrol.map(|form| view! { <details class="more" open=organization.workers.is_empty()><summary>"Enrol a worker"</summary>{form}</details> })}
                </section>
                <section class="panel"><h2>"Members"</h2>
                    {members.map_or_else(
                        || view! { <p class="hint">{format!("{}. Their names are visible within the organization.", words::plural(organization.members.into(), "member"))}</p> }.into_any(),
                        |members| people::render_members(&members, consortium, id, runs, context.now),
                    )}
                    {invite.map(|form| view! { <details class="more"><summary>"Invite a member"</summary>{form}</details> })}
                    {people::render_retired(&retired_members, &hidden(), context.now)}
                    {people::render_links(&links, "withdraw-member", &hidden(), context.now)}
                </section>
                {standing}
            },
        ))
    })
}

/// Returns the section in which a consortium admin retires or restores the organization.
fn render_standing(organization: &Organization, consortium: ConsortiumId) -> AnyView {
    const CONSEQUENCES: &[&str] = &[
        "Its members lose access to this consortium at once: jobs, models, questions and roles.",
        "Its parts in jobs end. A proposed job is refused; an admitted job continues with the others while its quorum allows.",
        "It keeps its data and workers. Receipts stay verifiable, and spent budgets stay spent.",
    ];
    let hidden = vec![("consortium", consortium.to_string()), ("organization", organization.id.to_string())];
    let form = match &organization.retirement {
        Some(_) => render_restore_form("restore-organization", hidden, &organization.name),
        None => render_retire_form("retire-organization", hidden, &organization.name, CONSEQUENCES),
    };
    view! { <section class="panel"><h2>"Membership"</h2>{form}</section> }.into_any()
}

/// Returns the forms for a worker; `runs` states whether the viewer is an admin of its organization.
fn render_worker_forms(worker: &Worker, consortium: ConsortiumId, runs: bool) -> AnyView {
    const CONSEQUENCES: &[&str] = &[
        "Its calls fail at once, its leases end, and its key can no longer be rotated.",
        "Its parts in jobs end. A proposed job is refused; an admitted job continues with the others while its quorum allows.",
        "Its signatures stay verifiable, and spent budgets stay spent.",
    ];
    let hidden = || {
        vec![
            ("consortium", consortium.to_string()),
            ("organization", worker.organization.to_string()),
            ("worker", worker.id.to_string()),
        ]
    };
    let Some(retirement) = &worker.retirement else {
        let retire = render_retire_form("retire-worker", hidden(), &worker.name, CONSEQUENCES);
        let write_off = worker.write_off.is_none().then(|| render_write_off_form(hidden(), &worker.name));
        return view! { {retire}{write_off} }.into_any();
    };
    let replace = runs.then(|| {
        let mut hidden = hidden();
        hidden.push(("name", worker.name.clone()));
        let form = post("replace-worker", hidden, view! {
            <p class="hint">"A new site enrols with its own key and takes over the datasets with their spent budgets. This worker stays retired."</p>
            <button type="submit">"Create a replacement token"</button>
        });
        view! { <details class="more"><summary>"Replace"<span class="visually-hidden">{format!(" {}", worker.name)}</span></summary>{form}</details> }
    });
    let restore = (!runs || retirement.is_own).then(|| render_restore_form("restore-worker", hidden(), &worker.name));
    view! { {restore}{replace} }.into_any()
}

/// Renders the changes of the sites' keys, the last first.
fn render_key_changes(workers: &[Worker], now: OffsetDateTime) -> AnyView {
    let mut all: Vec<_> =
        workers.iter().flat_map(|worker| worker.key_changes.iter().map(move |change| (&worker.name, change))).collect();
    if all.is_empty() {
        return ().into_any();
    }
    all.sort_by_key(|(_, change)| std::cmp::Reverse(change.at));
    let rows = all.into_iter().map(|(worker, change)| {
        view! {
            <tr>
                <th scope="row">{worker.clone()}</th>
                <td data-label="change" class="number">{words::count(change.number.into())}</td>
                <td data-label="when"><RelativeTime at=change.at now/></td>
                <td data-label="until then"><Digest digest=change.old.clone()/></td>
                <td data-label="from then on"><Digest digest=change.new.clone()/></td>
                <td data-label="receipts before it" class="number">{words::count(change.receipts)}</td>
            </tr>
        }
    });
    view! {
        <details class="more"><summary>"Key changes"</summary>
            <p class="hint">"A site renews its key itself. The old key signs the new key, and the new key signs its possession, so only the site can change its key, not this server."</p>
            <table class="cards">
                <thead><tr><th scope="col">"Worker"</th><th scope="col" class="number">"Change"</th><th scope="col">"When"</th><th scope="col">"Key until then"</th><th scope="col">"Key from then on"</th><th scope="col" class="number">"Receipts before it"</th></tr></thead>
                <tbody>{rows.collect_view()}</tbody>
            </table>
        </details>
    }
    .into_any()
}

/// Returns the workers. They have forms if the viewer may retire them (`runs` is `Some`); `runs` states whether the
/// viewer is an admin of the organization.
fn render_workers(workers: &[Worker], consortium: ConsortiumId, runs: Option<bool>, now: OffsetDateTime) -> AnyView {
    if workers.is_empty() {
        return render_empty(
            "No worker is enrolled. A worker runs at the site of the data, and only the worker reads them.",
            (),
        );
    }
    let rows = workers.iter().map(|worker| {
        let offline = match (worker.online, worker.last_seen_at) {
            (true, _) => view! { <span class="state done">"● online"</span> }.into_any(),
            (false, Some(at)) => view! { <span class="state bad">"◍ last seen "<RelativeTime at now/></span> }.into_any(),
            (false, None) => view! { <span class="state waiting">"◌ not connected yet"</span> }.into_any(),
        };
        let state = match &worker.retirement {
            Some(retirement) => render_retirement(retirement, now),
            None => offline,
        };
        let change = runs.map(|runs| view! { <td data-label="change">{render_worker_forms(worker, consortium, runs)}</td> });
        view! {
            <tr>
                <th scope="row">{worker.name.clone()}</th>
                <td data-label="state">{state}{render_reconciliation(worker, now)}{worker.diagnoses.iter().map(|one| view! { <p class="hint">{one.remedy.clone()}</p> }).collect_view()}</td>
                <td data-label="version">{worker.version.clone()}</td>
                <td data-label="job kinds">{worker.kinds.join(", ")}</td>
                <td data-label="key"><Digest digest=worker.public_key.clone()/></td>
                {change}
            </tr>
        }
    });
    view! {
        <table class="cards">
            <thead><tr><th scope="col">"Worker"</th><th scope="col">"State"</th><th scope="col">"Version"</th><th scope="col">"Job kinds"</th><th scope="col">"Key"</th>{runs.map(|_| view! { <th scope="col">"Change"</th> })}</tr></thead>
            <tbody>{rows.collect_view()}</tbody>
        </table>
    }
    .into_any()
}
