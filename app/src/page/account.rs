//! The member's own settings.

mod security;
#[cfg(test)]
mod tests;

use leptos::prelude::*;
use undertone_api::member::RoleScope;
use undertone_api::organization::Organization;
use undertone_server_core::service;

use crate::component::form::{Field, post};
use crate::page_context::{PageContent, PageContext, PagePlace};
use crate::reply;
use crate::request::Answer;
use crate::screen::render_page;
use crate::{path, words};

pub(crate) use security::security;

/// Renders the tabs of the settings, the one at `here` marked. To add one: a line in the list.
pub(crate) fn render_tabs(here: &str) -> AnyView {
    let pages = [
        (path::SETTINGS, "Profile"),
        (path::SECURITY, "Security"),
        (path::KEYS, "API keys"),
        (path::SWITCHES, "Notification settings"),
    ];
    let links = pages.map(|(to, name)| {
        view! { <li><a href=to aria-current=(to == here).then_some("page")>{name}</a></li> }
    });
    view! { <nav aria-label="Settings"><ul class="tabs">{links}</ul></nav> }.into_any()
}

/// Returns the organizations that the member may see: none for a member who only annotates, or has yet to set up a
/// second factor.
pub(super) async fn list_organizations(context: &PageContext) -> Answer<Vec<Organization>> {
    if context.consortia.is_empty() {
        return Ok(Vec::new());
    }
    Ok(service::organization::list(context.ctx(), context.actor()?).await?)
}

/// Renders an operator's form to reset a forgotten password.
fn render_reset_form() -> AnyView {
    let form = post(
        "make-reset",
        Vec::new(),
        view! {
            <Field name="email" label="E-mail of the member" kind="email" most=254/>
            <label class="check"><input type="checkbox" name="clear_second_factor" value="true"/>"also remove their second factor, if they have lost the authenticator and the recovery codes"</label>
            <ul class="consequences">
                <li>"You get a link. Send it by a channel on which you know the person. It works once, for 24 hours."</li>
                <li>"Using the link ends their sessions and revokes their API keys. You do not learn the new password."</li>
                <li>"The audit log records who created the link, and whether it removes a second factor."</li>
                <li>"If this server has several operators, a link that removes a second factor works once another operator has created one as well."</li>
            </ul>
            <button type="submit">"Create a link"</button>
        },
    );
    view! {
        <section class="panel"><h2>"Reset a member's password"</h2>
            <details class="more"><summary>"Create a password reset link"</summary>{form}</details>
        </section>
    }
    .into_any()
}

/// Renders account and appearance.
pub(crate) fn settings() -> AnyView {
    render_page(PagePlace::Settings, async |context| {
        let member = context.member()?;
        let mut names: Vec<_> =
            context.consortia.iter().map(|known| (known.id.to_string(), known.name.clone())).collect();
        names.extend(list_organizations(&context).await?.into_iter().map(|known| (known.id.to_string(), known.name)));
        let name = |id: String| names.iter().find(|(known, _)| *known == id).map_or(id, |(_, name)| name.clone());
        let roles = member.grants.iter().map(|grant| {
            let place = match grant.scope {
                RoleScope::Consortium(id) => name(id.to_string()),
                RoleScope::Organization(id) => name(id.to_string()),
            };
            view! { <li>{words::role(grant.role)}" · "{place}</li> }
        });
        let current = reply::theme().unwrap_or("system");
        let theme = post(
            "theme",
            Vec::new(),
            view! {
                <fieldset class="choices">
                    <legend class="visually-hidden">"Appearance"</legend>
                    {["system", "light", "dark"].map(|theme| view! {
                        <label class="check"><input type="radio" name="theme" value=theme checked=theme == current/>
                            {if theme == "system" { "system setting" } else { theme }}</label>
                    })}
                </fieldset>
                <button type="submit">"Change appearance"</button>
            },
        );
        Ok(PageContent::new(
            "Settings",
            view! {
                {render_tabs(path::SETTINGS)}
                <section class="panel"><h2>"Profile"</h2>
                    <dl class="facts">
                        <div><dt>"Name"</dt><dd>{member.name.clone()}</dd></div>
                        <div><dt>"E-mail"</dt><dd>{member.email.clone()}</dd></div>
                        <div><dt>"Roles"</dt><dd><ul class="plain-list">
                            {member.operator.then(|| view! { <li>"operator of this server"</li> })}
                            {roles.collect_view()}
                        </ul></dd></div>
                    </dl>
                </section>
                <section class="panel"><h2>"Appearance"</h2>{theme}</section>
                {member.operator.then(render_reset_form)}
                {member.operator.then(|| view! {
                    <section class="panel"><h2>"This server"</h2>
                        <p><a href=path::ACCOUNTS>"Accounts and operators"</a></p>
                        <p><a href=path::SERVER_LOG>"Server audit log"</a></p>
                    </section>
                })}
                <section class="panel"><h2>"Programs"</h2>
                    <p>"Programs authenticate with API keys. "<a href=path::KEYS>"API keys"</a></p>
                </section>
                <p class="hint">"Press "<kbd>"?"</kbd>" on any page to list the keyboard shortcuts."</p>
            },
        ))
    })
}
