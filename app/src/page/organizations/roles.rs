//! Roles over a consortium itself: its admins, its auditors, its annotators.

use leptos::prelude::*;
use undertone_api::id::ConsortiumId;
use undertone_api::member::{Member, Role};

use crate::component::form::{Field, post};
use crate::words;

const ROLES: [(Role, &str, &str); 3] = [
    (Role::ConsortiumAdmin, "consortium_admin", "consortium admin: invites organizations, sees budgets and jobs"),
    (Role::Auditor, "auditor", "auditor: reads every ledger of the consortium"),
    (Role::Annotator, "annotator", "annotator: answers the questions of jobs"),
];

fn render_boxes(held: &[Role]) -> AnyView {
    let boxes = ROLES.map(|(role, word, means)| {
        view! { <label class="check"><input type="checkbox" name="roles[]" value=word checked=held.contains(&role)/>{means}</label> }
    });
    view! { <fieldset class="choices"><legend>"Consortium roles"</legend>{boxes}</fieldset> }.into_any()
}

/// Renders the section, for an admin of the consortium.
pub(super) fn render_section(members: &[Member], consortium: ConsortiumId) -> AnyView {
    let rows = members.iter().map(|member| {
        let roles_held: Vec<_> = member.grants.iter().map(|grant| grant.role).collect();
        let roles: Vec<_> = roles_held.iter().map(|role| words::role(*role)).collect();
        let hidden = vec![("consortium", consortium.to_string()), ("member", member.id.to_string())];
        let form = post(
            "assign-consortium-roles",
            hidden,
            view! { {render_boxes(&roles_held)}<p class="hint">"Without a role, they take part only through their organization."</p><button type="submit">"Save the roles"</button> },
        );
        view! {
            <tr>
                <th scope="row">{member.name.clone()}</th>
                <td data-label="roles">{roles.join(", ")}</td>
                <td data-label="change"><details class="more"><summary>"Roles"<span class="visually-hidden">{format!(" of {}", member.name)}</span></summary>{form}</details></td>
            </tr>
        }
    });
    let add = post(
        "add-consortium-member",
        vec![("consortium", consortium.to_string())],
        view! {
            <Field name="email" label="E-mail" kind="email" most=254 help="The address of a current member of the consortium."/>
            {render_boxes(&[])}
            <button type="submit">"Assign the roles"</button>
        },
    );
    view! {
        <section class="panel"><h2>"Consortium roles"</h2>
            <table class="cards">
                <thead><tr><th scope="col">"Name"</th><th scope="col">"Roles"</th><th scope="col">"Change"</th></tr></thead>
                <tbody>{rows.collect_view()}</tbody>
            </table>
            <details class="more"><summary>"Assign a role"</summary>{add}</details>
        </section>
    }
    .into_any()
}
