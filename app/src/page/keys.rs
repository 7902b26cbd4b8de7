//! The member's own API keys, and their identities at the identity provider.

use leptos::prelude::*;
use time::OffsetDateTime;
use undertone_api::api_key::{ApiKey, KeyScope, MOST_DAYS};
use undertone_api::session::LinkedIdentity;
use undertone_server_core::auth::Provider;
use undertone_server_core::service;

use super::account::render_tabs;
use super::{provider, render_empty};
use crate::component::form::{Field, post};
use crate::component::said::{Day, RelativeTime};
use crate::page_context::{PageContent, PagePlace};
use crate::path;
use crate::screen::render_page;

/// Renders the page.
pub(crate) fn keys() -> AnyView {
    render_page(PagePlace::Settings, async |context| {
        let keys = service::api_key::list(context.ctx(), context.actor()?).await?;
        let providers = &context.ctx().providers;
        let linked = if providers.is_empty() {
            Vec::new()
        } else {
            service::oidc::list(context.ctx(), context.actor()?).await?
        };
        let identities = providers.iter().map(|provider| render_identities(provider, &linked)).collect_view();
        Ok(PageContent::new(
            "API keys",
            view! {
                {render_tabs(path::KEYS)}
                {provider::render_failure(&context)}
                <p class="lead">"A key lets a program act for you by REST or gRPC, with your current permissions within the key's scopes. No scope includes accounts, roles, invitations, other keys or your second factor."</p>
                <section class="panel"><h2>"Your keys"</h2>
                    {render_keys(&keys, context.now)}
                    <details class="more" open=keys.is_empty()><summary>"Create a key"</summary>{render_form()}</details>
                </section>
                {identities}
                <p class="hint">"A program sends its key with each request: "<code>"Authorization: Bearer udk_…"</code>". Revoke a key here if others saw it; it stops working at once."</p>
            },
        ))
    })
}

fn render_form() -> AnyView {
    let scopes = KeyScope::ALL.iter().map(|scope| {
        let always = *scope == KeyScope::Read;
        view! {
            <label class="check"><input type="checkbox" name="scopes[]" value=scope.word() checked=always/>
                {format!("{}: {}", scope.word(), describe_scope(*scope))}</label>
        }
    });
    post(
        "create-key",
        Vec::new(),
        view! {
            <Field name="name" label="Name" help="For example, the program that will use it."/>
            <label class="field"><span>"Validity, days"</span>
                <input type="number" name="days" value="90" min="1" max=MOST_DAYS.to_string() required/>
            </label>
            <fieldset class="choices"><legend>"Scopes"</legend>{scopes.collect_view()}</fieldset>
            <p class="hint">"Every key can read. The key is shown once, on the next page."</p>
            <button type="submit" class="primary">"Create a key"</button>
        },
    )
}

/// Describes the permissions of a scope.
const fn describe_scope(scope: KeyScope) -> &'static str {
    match scope {
        KeyScope::Read => "see consortia, organizations, datasets, jobs and results",
        KeyScope::Jobs => "plan, propose and steer jobs",
        KeyScope::Approvals => "approve and refuse jobs",
        KeyScope::Datasets => "set budgets, clear freezes",
        KeyScope::Questions => "see, answer, export and import questions",
        KeyScope::Ledger => "read and export ledgers and audit logs",
        KeyScope::Models => "download models",
        KeyScope::Consortia => "create consortia and declare overlaps",
    }
}

fn render_keys(keys: &[ApiKey], now: OffsetDateTime) -> AnyView {
    if keys.is_empty() {
        return render_empty("You have no keys. Keys are for programs.", ());
    }
    let rows = keys.iter().map(|key| {
        let scopes: Vec<&str> = key.scopes.iter().map(|scope| scope.word()).collect();
        let is_over = key.revoked_at.is_some() || key.expires_at <= now;
        let state = match key.revoked_at {
            Some(at) => view! { "revoked "<RelativeTime at now/> }.into_any(),
            None if is_over => view! { "expired "<Day at=key.expires_at/> }.into_any(),
            None => view! { "until "<Day at=key.expires_at/> }.into_any(),
        };
        let used = match key.last_used_at {
            Some(at) => view! { <RelativeTime at now/> }.into_any(),
            None => view! { "never" }.into_any(),
        };
        let revoke = (!is_over).then(|| {
            let label = format!("Revoke {}", key.name);
            let button = view! { <button type="submit" class="quiet" aria-label=label>"Revoke"</button> };
            post("revoke-key", vec![("key", key.id.to_string())], button)
        });
        view! {
            <tr>
                <th scope="row">{key.name.clone()}<br/><code class="hint">{format!("udk_{}…", shorten_id(key))}</code></th>
                <td data-label="reaches">{scopes.join(", ")}</td>
                <td data-label="holds">{state}</td>
                <td data-label="last used">{used}</td>
                <td>{revoke}</td>
            </tr>
        }
    });
    view! {
        <table class="rows">
            <caption class="visually-hidden">"Your keys"</caption>
            <thead><tr><th scope="col">"Key"</th><th scope="col">"Scopes"</th><th scope="col">"Validity"</th><th scope="col">"Last used"</th>
                <th scope="col"><span class="visually-hidden">"Action"</span></th></tr></thead>
            <tbody>{rows.collect_view()}</tbody>
        </table>
    }
    .into_any()
}

/// Returns enough of a key's public part to distinguish it from others.
fn shorten_id(key: &ApiKey) -> String {
    key.id.0.simple().to_string().chars().take(12).collect()
}

fn render_identities(provider: &Provider, linked: &[LinkedIdentity]) -> AnyView {
    let called = provider.name();
    let rows: Vec<_> = linked
        .iter()
        .filter(|identity| identity.issuer == provider.issuer())
        .map(|identity| {
            let button = view! { <button type="submit" class="quiet">"Unlink"</button> };
            let unlink = post("unlink-identity", vec![("identity", identity.id.to_string())], button);
            view! { <li><code>{identity.issuer.clone()}</code>", since "<Day at=identity.linked_at/>{unlink}</li> }
        })
        .collect();
    let none = rows.is_empty().then(|| {
        view! {
            <p>{format!("No identity of {called} is linked.")}</p>
            <ul class="consequences">
                <li>"A linked identity signs you in without your password. Your password still works."</li>
                <li>"Your second factor is still required."</li>
            </ul>
            {provider::render_link(provider)}
        }
    });
    view! {
        <section class="panel"><h2>{format!("Signing in with {called}")}</h2>
            {none}<ul class="plain-list">{rows}</ul>
        </section>
    }
    .into_any()
}
