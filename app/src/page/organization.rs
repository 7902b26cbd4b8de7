//! One organization: its workers and members, and how to add to both.

pub(super) mod people;
#[cfg(test)]
mod tests;

use leptos::prelude::*;
use time::OffsetDateTime;
use undertone_api::id::OrganizationId;
use undertone_api::organization::Purpose;
use undertone_api::problem::{Code, Problem};
use undertone_api::worker::Worker;

use super::nothing;
use crate::component::form::{Field, post};
use crate::component::said::{Digest, When};
use crate::screen::{Place, Sheet, screen};
use crate::{path, viewer, words};

/// The page.
pub(crate) fn organization() -> AnyView {
    screen(Place::Organizations, async |desk| {
        let (consortium, member) = (desk.consortium()?.id, desk.member()?);
        let id: OrganizationId = desk.id("organization")?;
        let found =
            desk.backend.organizations(consortium).await?.into_iter().find(|organization| organization.id == id);
        let organization =
            found.ok_or_else(|| Problem::new(Code::NotFound, "This consortium has no such organization."))?;
        let members = match desk.backend.members(id).await {
            Ok(members) => Some(members),
            Err(problem) if matches!(problem.code, Code::Forbidden | Code::NotFound) => None,
            Err(problem) => return Err(problem),
        };
        let runs = viewer::runs(member, id);
        let purpose = Purpose::Member { organization: id, roles: Vec::new() };
        let links = if runs { desk.backend.invitations(purpose).await? } else { Vec::new() };
        let hidden = || vec![("consortium", consortium.to_string()), ("organization", id.to_string())];
        let enrol = runs.then(|| {
            post(
                "enrol",
                hidden(),
                view! {
                    <Field name="name" label="Name of the worker" help="Such as the machine or the ward it stands in."/>
                    <button type="submit" class="primary">"Make an enrolment token"</button>
                },
            )
        });
        let invite = runs.then(|| post("invite-member", hidden(), view! {
            <Field name="label" label="For whom"/>
            {people::boxes(&[])}
            <p class="hint">"Whoever opens the link first joins with these roles. It works once and is shown once."</p>
            <button type="submit" class="primary">"Make a link"</button>
        }));
        Ok(Sheet::new(
            organization.name.clone(),
            view! {
                {viewer::reads_log_of(member, id).then(|| view! { <p><a href=path::organization_log(consortium, id)>"Audit log of this organization"</a></p> })}
                <section class="panel"><h2>"Workers"</h2>
                    {workers(&organization.workers, desk.now)}
                    {changes(&organization.workers, desk.now)}
                    {enrol.map(|form| view! { <details class="more" open=organization.workers.is_empty()><summary>"Enrol a worker"</summary>{form}</details> })}
                </section>
                <section class="panel"><h2>"Members"</h2>
                    {members.map_or_else(
                        || view! { <p class="hint">{format!("{}. Who they are is for the organization to know.", words::plural(organization.members.into(), "member"))}</p> }.into_any(),
                        |members| people::members(&members, consortium, id, runs, desk.now),
                    )}
                    {invite.map(|form| view! { <details class="more"><summary>"Invite a member"</summary>{form}</details> })}
                    {people::links(&links, "withdraw-member", &hidden(), desk.now)}
                </section>
            },
        ))
    })
}

/// The changes of the sites' keys, the last first.
fn changes(workers: &[Worker], now: OffsetDateTime) -> AnyView {
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
                <td data-label="when"><When at=change.at now/></td>
                <td data-label="until then"><Digest digest=change.old.clone()/></td>
                <td data-label="from then on"><Digest digest=change.new.clone()/></td>
                <td data-label="receipts before it" class="number">{words::count(change.receipts)}</td>
            </tr>
        }
    });
    view! {
        <details class="more"><summary>"Changes of keys"</summary>
            <p class="hint">"A site renews its key by itself. The old key signs the new one and the new one signs that it is held, so nobody else, and not this server, can have changed it."</p>
            <table class="cards">
                <thead><tr><th scope="col">"Worker"</th><th scope="col" class="number">"Change"</th><th scope="col">"When"</th><th scope="col">"Key until then"</th><th scope="col">"Key from then on"</th><th scope="col" class="number">"Receipts before it"</th></tr></thead>
                <tbody>{rows.collect_view()}</tbody>
            </table>
        </details>
    }
    .into_any()
}

fn workers(workers: &[Worker], now: OffsetDateTime) -> AnyView {
    if workers.is_empty() {
        return nothing("No worker is enrolled. A worker runs beside the data and is the only one who reads them.", ());
    }
    let rows = workers.iter().map(|worker| {
        let seen = match (worker.online, worker.last_seen_at) {
            (true, _) => view! { <span class="state done">"● online"</span> }.into_any(),
            (false, Some(at)) => view! { <span class="state bad">"◍ last heard of "<When at now/></span> }.into_any(),
            (false, None) => view! { <span class="state waiting">"◌ not connected yet"</span> }.into_any(),
        };
        view! {
            <tr>
                <th scope="row">{worker.name.clone()}</th>
                <td data-label="state">{seen}{worker.diagnoses.iter().map(|one| view! { <p class="hint">{one.remedy.clone()}</p> }).collect_view()}</td>
                <td data-label="version">{worker.version.clone()}</td>
                <td data-label="can run">{worker.kinds.join(", ")}</td>
                <td data-label="key"><Digest digest=worker.public_key.clone()/></td>
            </tr>
        }
    });
    view! {
        <table class="cards">
            <thead><tr><th scope="col">"Worker"</th><th scope="col">"State"</th><th scope="col">"Version"</th><th scope="col">"Can run"</th><th scope="col">"Key"</th></tr></thead>
            <tbody>{rows.collect_view()}</tbody>
        </table>
    }
    .into_any()
}
