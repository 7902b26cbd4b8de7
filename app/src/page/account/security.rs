//! The security of the member's account: second factor, password, and sessions.

mod approval;
mod passkey;

use leptos::prelude::*;
use time::OffsetDateTime;
use undertone_api::account::{FactorStatus, OpenSession};
use undertone_api::api_key::ApiKey;
use undertone_server_core::service;

use super::render_tabs;
use crate::component::form::{Field, post};
use crate::component::passkey::{PasskeyCeremony, render_passkey_form, render_passkey_script};
use crate::component::said::{Day, RelativeTime};
use crate::component::secret;
use crate::page_context::{PageContent, PagePlace};
use crate::path;
use crate::screen::render_page;

/// Renders the page.
pub(crate) fn security() -> AnyView {
    render_page(PagePlace::Settings, async |context| {
        let ctx = context.ctx();
        let actor = context.actor()?;
        let factor = service::factor::state(ctx, actor).await?;
        let sessions = service::sessions::list(ctx, actor).await?;
        // Without a required second factor the member cannot reach their keys; nor does a key work before.
        let has_access = factor.password && !lacks_factor(&factor);
        let keys = if has_access { service::api_key::list(ctx, actor).await? } else { Vec::new() };
        let member = context.member()?;
        let approval = if has_access {
            Some(approval::render_section(member, &service::approval_key::list(ctx, actor).await?, context.now))
        } else {
            None
        };
        let passkeys = passkey::render_section(&service::passkey::list(ctx, actor).await?, context.now);
        Ok(PageContent::new(
            "Security",
            view! {
                {render_tabs(path::SECURITY)}
                {render_two_factor(&factor)}
                {passkeys}
                {render_passkey_script()}
                {approval}
                {render_identity(&factor)}
                <section class="panel"><h2>"Password"</h2>{if factor.password { render_password(&keys, context.now) } else { render_no_password() }}</section>
                <section class="panel"><h2>"Sessions"</h2>{render_sessions(&sessions, context.now)}</section>
            },
        ))
    })
}

/// Returns whether the server requires a second factor and the member has none.
fn lacks_factor(factor: &FactorStatus) -> bool {
    factor.required && factor.since.is_none() && factor.passkeys == 0
}

/// Renders the forms for a repeated proof of the member's identity.
fn render_identity(factor: &FactorStatus) -> AnyView {
    let by_password = factor.password.then(|| {
        let field = view! { <Field name="password" label="Password" kind="password" autocomplete="current-password" most=200/><button type="submit">"Confirm with the password"</button> };
        post("prove-identity", Vec::new(), field)
    });
    let by_code = factor.since.is_some().then(|| {
        let field = view! { <Field name="code" label="Code" autocomplete="one-time-code" least=6 most=24 help="Six digits, or a recovery code."/><button type="submit">"Confirm with a code"</button> };
        post("prove-identity", Vec::new(), field)
    });
    let by_passkey = (factor.passkeys > 0).then(|| {
        let button = view! { <button type="submit">"Confirm with a passkey"</button> };
        render_passkey_form(PasskeyCeremony::Prove, "prove-by-passkey", Vec::new(), button)
    });
    if by_password.is_none() && by_code.is_none() && by_passkey.is_none() {
        return ().into_any();
    }
    view! {
        <section class="panel"><h2>"Confirm your identity"</h2>
            <p>"Creating keys, tokens and links, and changing access, requires a confirmation within the last ten minutes. Signing in counts."</p>
            {by_password}
            {by_code}
            {by_passkey}
        </section>
    }
    .into_any()
}

fn render_two_factor(factor: &FactorStatus) -> AnyView {
    let required = lacks_factor(factor).then(|| {
        view! {
            <p class="notice bad" role="alert">
                "This server requires a second factor. Set up two-factor here, or register a passkey, to open the other pages."
            </p>
        }
    });
    let body = match (factor.since, factor.offered) {
        (Some(at), _) => render_active_factor(factor, at),
        (None, offered) => {
            let begin = post(
                "offer-factor",
                Vec::new(),
                view! { <button type="submit" class=if offered { "" } else { "primary" }>
                {if offered { "Start again with a new secret" } else { "Set up two-factor" }}</button> },
            );
            view! {
                <p>"With two-factor on, you sign in with your password and a six-digit code from an authenticator app. Every app that follows RFC 6238 works."</p>
                {offered.then(secret::render_confirmation)}
                {begin}
            }
            .into_any()
        }
    };
    view! { <section class="panel"><h2>"Two-factor"</h2>{required}{body}</section> }.into_any()
}

fn render_active_factor(factor: &FactorStatus, at: OffsetDateTime) -> AnyView {
    let count = factor.recovery_codes_left;
    let few =
        (count < 4).then(|| view! { <p class="notice bad">"Few recovery codes are left: create new ones now."</p> });
    let code = || view! { <Field name="code" label="Code" autocomplete="one-time-code" least=6 most=24 help="Six digits, or a recovery code."/> };
    let renew = post(
        "renew-codes",
        Vec::new(),
        view! { {code()}<p class="hint">"The previous codes no longer work."</p><button type="submit">"Create new recovery codes"</button> },
    );
    let off = post(
        "drop-factor",
        Vec::new(),
        view! {
            {factor.password.then(|| view! { <Field name="password" label="Password" kind="password" autocomplete="current-password" most=200/> })}
            {code()}
            <button type="submit" class="danger">"Turn two-factor off"</button>
        },
    );
    view! {
        <p><span class="state done">"✓ on"</span>" since "<Day at/>". "{format!("{count} of 10 recovery codes are left.")}</p>
        {few}
        <details class="more"><summary>"New recovery codes"</summary>{renew}</details>
        <details class="more"><summary>"Turn it off"</summary>{off}</details>
    }
    .into_any()
}

/// Renders the notice for a member who signs in by a provider only.
fn render_no_password() -> AnyView {
    let text = "You sign in with a provider and have no password here. An operator can create a link to set one.";
    view! { <p>{text}</p> }.into_any()
}

fn render_password(keys: &[ApiKey], now: OffsetDateTime) -> AnyView {
    let working = keys.iter().filter(|key| key.revoked_at.is_none() && key.expires_at > now);
    let names: Vec<String> = working.map(|key| format!("“{}”", key.name)).collect();
    let going_on = (!names.is_empty()).then(|| {
        view! {
            <p class="hint">{format!("These API keys are revoked: {}.", names.join(", "))}</p>
            <label class="check"><input type="checkbox" name="keep_keys" value="true"/>"keep my API keys working"</label>
        }
    });
    let form = post(
        "change-password",
        Vec::new(),
        view! {
            <Field name="old" label="Current password" kind="password" autocomplete="current-password" most=200/>
            <Field name="new" label="New password" kind="password" autocomplete="new-password" least=12 most=200 help="At least 12 characters; a sentence is best."/>
            <p class="hint">"Your other sessions end."</p>
            {going_on}
            <button type="submit">"Change the password"</button>
        },
    );
    view! { <details class="more"><summary>"Change"</summary>{form}</details> }.into_any()
}

fn render_sessions(sessions: &[OpenSession], now: OffsetDateTime) -> AnyView {
    let rows = sessions.iter().map(|session| {
        let end = if session.current {
            view! { <span class="state done">"● current"</span> }.into_any()
        } else {
            view! {
                <form method="post" action="/ui/end-session">
                    <input type="hidden" name="session" value=session.id.to_string()/>
                    <button type="submit" class="quiet">"End"</button>
                </form>
            }
            .into_any()
        };
        let from = if session.address.is_empty() { "unknown".to_owned() } else { session.address.clone() };
        let agent = if session.agent.is_empty() { "unknown".to_owned() } else { session.agent.clone() };
        view! {
            <tr>
                <th scope="row">{agent}</th>
                <td data-label="network">{from}</td>
                <td data-label="since"><RelativeTime at=session.created_at now/></td>
                <td data-label="last used"><RelativeTime at=session.used_at now/></td>
                <td data-label="session">{end}</td>
            </tr>
        }
    });
    let others = (sessions.len() > 1).then(|| {
        post("end-other-sessions", Vec::new(), view! { <button type="submit">"Sign out everywhere else"</button> })
    });
    view! {
        <table class="cards">
            <thead><tr><th scope="col">"Browser or program"</th><th scope="col">"Network"</th><th scope="col">"Since"</th><th scope="col">"Last used"</th><th scope="col">"Session"</th></tr></thead>
            <tbody>{rows.collect_view()}</tbody>
        </table>
        <p class="hint">"Only the network of an address and the family of a browser are stored."</p>
        {others}
    }
    .into_any()
}

#[cfg(test)]
mod tests {
    use leptos::prelude::{Owner, RenderHtml as _};
    use undertone_api::account::FactorStatus;

    use super::render_two_factor;
    use crate::testing::example::NOW;

    fn shown(password: bool) -> String {
        let factor = FactorStatus {
            since: Some(NOW),
            offered: false,
            recovery_codes_left: 10,
            passkeys: 0,
            required: false,
            password,
        };
        Owner::new().with(|| render_two_factor(&factor).to_html())
    }

    #[test]
    fn password_field_needs_a_password() {
        let both = [shown(true), shown(false)];
        assert!(both.iter().all(|page| page.contains("action=\"/ui/drop-factor\"") && page.contains("name=\"code\"")));
        assert_eq!(both.map(|page| page.contains("name=\"password\"")), [true, false]);
    }
}
