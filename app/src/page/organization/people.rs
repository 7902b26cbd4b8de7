//! The members of an organization, their roles there, and the links for new members.

use leptos::prelude::*;
use time::OffsetDateTime;
use undertone_api::id::{ConsortiumId, MemberId, OrganizationId};
use undertone_api::member::{Member, Role, RoleScope};
use undertone_api::organization::{Invitation, InvitationPurpose};
use undertone_api::retirement::RetiredMember;

use crate::component::form::post;
use crate::component::retire::{render_restore_form, render_retire_form, render_retirement};
use crate::component::said::{Day, RelativeTime};
use crate::words;

/// Consequences of retiring a member.
const CONSEQUENCES: &[&str] = &[
    "They lose every role here at once, their sessions end, and their open links are withdrawn.",
    "Their API keys are revoked unless they have a role elsewhere.",
    "You can restore them with their current roles.",
];

/// Every role within an organization, with its meaning.
pub(super) const ROLES: [(Role, &str, &str); 5] = [
    (Role::DataSteward, "data_steward", "data steward: sets budgets, approves or refuses jobs"),
    (Role::Researcher, "researcher", "researcher: plans and proposes jobs"),
    (Role::OrganizationAdmin, "organization_admin", "organization admin: invites members, gives roles, enrols workers"),
    (Role::Auditor, "auditor", "auditor: reads ledgers and receipts"),
    (Role::Annotator, "annotator", "annotator: answers the questions of jobs"),
];

/// Renders the checkboxes of roles, the held ones checked.
pub(super) fn render_boxes(held: &[Role]) -> AnyView {
    let boxes = ROLES.map(|(role, word, means)| {
        view! { <label class="check"><input type="checkbox" name="roles[]" value=word checked=held.contains(&role)/>{means}</label> }
    });
    view! { <fieldset class="choices"><legend>"Roles"</legend>{boxes}</fieldset> }.into_any()
}

/// Renders the members; for an admin with forms.
pub(super) fn render_members(
    members: &[Member],
    consortium: ConsortiumId,
    organization: OrganizationId,
    admin: bool,
    now: OffsetDateTime,
) -> AnyView {
    let rows = members.iter().map(|member| {
        let here = member.grants.iter().filter(|grant| grant.scope == RoleScope::Organization(organization));
        let roles_held: Vec<_> = here.map(|grant| grant.role).collect();
        let roles: Vec<_> = roles_held.iter().map(|role| words::role(*role)).collect();
        let change = admin.then(|| {
            view! { <td data-label="change">{render_forms(consortium, organization, member.id, &member.name, &roles_held)}</td> }
        });
        view! {
            <tr>
                <th scope="row">{member.name.clone()}</th>
                <td data-label="e-mail">{member.email.clone()}</td>
                <td data-label="roles">{roles.join(", ")}</td>
                <td data-label="joined"><RelativeTime at=member.created_at now/></td>
                {change}
            </tr>
        }
    });
    view! {
        <table class="cards">
            <thead><tr><th scope="col">"Name"</th><th scope="col">"E-mail"</th><th scope="col">"Roles"</th><th scope="col">"Joined"</th>
                {admin.then(|| view! { <th scope="col">"Change"</th> })}</tr></thead>
            <tbody>{rows.collect_view()}</tbody>
        </table>
    }
    .into_any()
}

fn render_forms(
    consortium: ConsortiumId,
    organization: OrganizationId,
    member: MemberId,
    name: &str,
    held: &[Role],
) -> AnyView {
    let hidden = || {
        vec![
            ("consortium", consortium.to_string()),
            ("organization", organization.to_string()),
            ("member", member.to_string()),
        ]
    };
    let assign =
        post("assign-roles", hidden(), view! { {render_boxes(held)}<button type="submit">"Save the roles"</button> });
    let remove = post(
        "remove-member",
        hidden(),
        view! {
            <p class="hint">{format!("{name} loses every role here at once, also in open sessions. Their account and their other roles remain.")}</p>
            <button type="submit" class="danger">"Remove from the organization"</button>
        },
    );
    let confirm = post(
        "confirm-address",
        hidden(),
        view! {
            <p class="hint">"Members enter their own addresses. Confirm this address if you know that it is theirs: consortium roles are assigned by address."</p>
            <button type="submit">"Confirm the e-mail address"</button>
        },
    );
    let retire = render_retire_form("retire-member", hidden(), name, CONSEQUENCES);
    view! {
        <details class="more"><summary>"Address"<span class="visually-hidden">{format!(" of {name}")}</span></summary>{confirm}</details>
        {retire}
        <details class="more"><summary>"Roles"<span class="visually-hidden">{format!(" of {name}")}</span></summary>{assign}</details>
        <details class="more"><summary>"Remove"<span class="visually-hidden">{format!(" {name}")}</span></summary>{remove}</details>
    }
    .into_any()
}

/// Returns the retired members, each with the form that restores them.
pub(super) fn render_retired(
    members: &[RetiredMember],
    hidden: &[(&'static str, String)],
    now: OffsetDateTime,
) -> AnyView {
    if members.is_empty() {
        return ().into_any();
    }
    let rows = members.iter().map(|one| {
        let mut hidden = hidden.to_vec();
        hidden.push(("member", one.member.id.to_string()));
        let roles: Vec<_> = one.roles.iter().map(|role| words::role(*role)).collect();
        view! {
            <tr>
                <th scope="row">{one.member.name.clone()}</th>
                <td data-label="former roles">{roles.join(", ")}</td>
                <td data-label="state">{render_retirement(&one.retirement, now)}</td>
                <td data-label="change">{render_restore_form("restore-member", hidden, &one.member.name)}</td>
            </tr>
        }
    });
    view! {
        <details class="more"><summary>{words::plural(members.len() as u64, "retired member")}</summary>
            <table class="cards">
                <thead><tr><th scope="col">"Name"</th><th scope="col">"Former roles"</th><th scope="col">"State"</th><th scope="col">"Change"</th></tr></thead>
                <tbody>{rows.collect_view()}</tbody>
            </table>
        </details>
    }
    .into_any()
}

/// Renders the links with their states; `call` withdraws one.
pub(crate) fn render_links(
    links: &[Invitation],
    call: &'static str,
    hidden: &[(&'static str, String)],
    now: OffsetDateTime,
) -> AnyView {
    if links.is_empty() {
        return ().into_any();
    }
    let rows = links.iter().map(|link| {
        let state = match (link.used, link.withdrawn, link.expires_at <= now) {
            (true, ..) => view! { <span class="state done">"✓ used"</span> }.into_any(),
            (_, true, _) => view! { <span class="state over">"– withdrawn"</span> }.into_any(),
            (_, _, true) => view! { <span class="state over">"– expired"</span> }.into_any(),
            _ => view! { <span class="state waiting">"◌ open until "<Day at=link.expires_at/></span> }.into_any(),
        };
        let open = !link.used && !link.withdrawn && link.expires_at > now;
        let withdraw = open.then(|| {
            let mut hidden = hidden.to_vec();
            hidden.push(("invitation", link.id.to_string()));
            post(call, hidden, view! { <button type="submit" class="quiet">"Withdraw"<span class="visually-hidden">{format!(" the link for {}", link.label)}</span></button> })
        });
        view! {
            <tr>
                <th scope="row">{link.label.clone()}</th>
                <td data-label="for">{describe_purpose(&link.purpose)}</td>
                <td data-label="state">{state}</td>
                <td data-label="link">{withdraw}</td>
            </tr>
        }
    });
    view! {
        <details class="more"><summary>{words::plural(links.len() as u64, "link")}" so far"</summary>
            <table class="cards">
                <thead><tr><th scope="col">"Recipient"</th><th scope="col">"Roles"</th><th scope="col">"State"</th><th scope="col">"Link"</th></tr></thead>
                <tbody>{rows.collect_view()}</tbody>
            </table>
        </details>
    }
    .into_any()
}

fn describe_purpose(purpose: &InvitationPurpose) -> String {
    match purpose {
        InvitationPurpose::Operator => "operator".to_owned(),
        InvitationPurpose::Organization { .. } => "an organization".to_owned(),
        InvitationPurpose::Annotator { .. } => "annotator".to_owned(),
        InvitationPurpose::Member { roles, .. } => {
            roles.iter().map(|role| words::role(*role)).collect::<Vec<_>>().join(", ")
        }
    }
}
