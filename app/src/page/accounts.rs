//! The server's accounts and operators, for operators.

#[cfg(test)]
mod tests;

use leptos::prelude::*;
use time::OffsetDateTime;
use undertone_api::organization::InvitationPurpose;
use undertone_api::retirement::AccountState;
use undertone_server_core::service;

use super::account::render_tabs;
use super::organization::people;
use crate::component::form::{Field, post};
use crate::component::retire::{render_restore_form, render_retire_form, render_retirement};
use crate::page_context::{PageContent, PagePlace};
use crate::path;
use crate::screen::render_page;

/// Consequences of retiring an account.
const CONSEQUENCES: &[&str] = &[
    "The account can no longer sign in. Its sessions, API keys, roles and open links end at once.",
    "Its approvals and proposals remain; spent budgets stay spent.",
    "The operators, and the admins of its organizations, are notified.",
];

/// Renders the page.
pub(crate) fn accounts() -> AnyView {
    render_page(PagePlace::Settings, async |context| {
        let own = context.member()?.id;
        let accounts = service::retirement::list_accounts(context.ctx(), context.actor()?).await?;
        let links = service::invitation::list(context.ctx(), context.actor()?, &InvitationPurpose::Operator).await?;
        let rows = accounts.iter().map(|account| render_row(account, account.member.id != own, context.now));
        let invite = post(
            "invite-operator",
            Vec::new(),
            view! {
                <Field name="label" label="Recipient" help="A note for operators, such as a name."/>
                <ul class="consequences">
                    <li>"The first person who opens the link becomes an operator: they can retire accounts and reset passwords."</li>
                    <li>"The operators are notified now and when the link is used."</li>
                </ul>
                <button type="submit" class="primary">"Create a link"</button>
            },
        );
        Ok(PageContent::new(
            "Accounts",
            view! {
                {render_tabs(path::ACCOUNTS)}
                <section class="panel"><h2>"Accounts on this server"</h2>
                    <table class="cards">
                        <thead><tr><th scope="col">"Name"</th><th scope="col">"E-mail"</th><th scope="col">"State"</th><th scope="col">"Change"</th></tr></thead>
                        <tbody>{rows.collect_view()}</tbody>
                    </table>
                </section>
                <section class="panel"><h2>"Operators"</h2>
                    <details class="more"><summary>"Invite an operator"</summary>{invite}</details>
                    {people::render_links(&links, "withdraw-operator", &[], context.now)}
                </section>
            },
        ))
    })
}

fn render_row(account: &AccountState, is_other: bool, now: OffsetDateTime) -> AnyView {
    let member = &account.member;
    let hidden = || vec![("member", member.id.to_string())];
    let state = match &account.retirement {
        Some(retirement) => render_retirement(retirement, now),
        None if member.operator => view! { <span class="state done">"● operator"</span> }.into_any(),
        None => view! { <span class="state done">"● active"</span> }.into_any(),
    };
    let change = match &account.retirement {
        Some(_) => render_restore_form("restore-account", hidden(), &member.name),
        None if is_other => render_retire_form("retire-account", hidden(), &member.name, CONSEQUENCES),
        None => view! { <span class="hint">"your account"</span> }.into_any(),
    };
    view! {
        <tr>
            <th scope="row">{member.name.clone()}</th>
            <td data-label="e-mail">{member.email.clone()}</td>
            <td data-label="state">{state}</td>
            <td data-label="change">{change}</td>
        </tr>
    }
    .into_any()
}
