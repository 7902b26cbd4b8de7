//! Entry pages: sign-in, acceptance of a one-time link, founding of a consortium.

mod accept;
mod code;
mod offer;
mod reset;

use leptos::prelude::*;
use undertone_api::member::RoleScope;
use undertone_api::organization::Organization;
use undertone_server_core::service;

use super::{provider, render_empty};
use crate::component::form::{Field, post};
use crate::component::passkey::{PasskeyCeremony, render_passkey_form, render_passkey_script};
use crate::page_context::{PageContent, PagePlace};
use crate::screen::render_page;
use crate::{path, viewer};

pub(crate) use accept::accept;
pub(crate) use code::second_factor;
pub use offer::{OfferedAccount, offer_accounts};
pub(crate) use reset::reset;

/// Redirects to the member's most likely destination.
pub(crate) fn home() -> AnyView {
    render_page(PagePlace::Nowhere, async |context| {
        if let [only] = context.consortia.as_slice() {
            let to = if viewer::only_annotates(context.member()?) {
                path::questions(only.id)
            } else {
                path::overview(only.id)
            };
            leptos_axum::redirect(&to);
        }
        let operator = context.member()?.operator;
        let begin =
            operator.then(|| view! { <p><a class="button primary" href=path::FOUND>"Create a consortium"</a></p> });
        if context.consortia.is_empty() {
            let text = if operator {
                "This server has no consortium yet. Organizations run joint jobs in a consortium."
            } else {
                "You are not in a consortium yet. Ask a consortium for an invitation link."
            };
            return Ok(PageContent::new("Welcome", render_empty(text, begin)));
        }
        let list = context.consortia.iter().map(|consortium| {
            view! {
                <li><a href=path::overview(consortium.id)><strong>{consortium.name.clone()}</strong></a>
                    <p class="hint">{consortium.description.clone()}</p></li>
            }
        });
        Ok(PageContent::new("Consortia", view! { <ul class="plain-list">{list.collect_view()}</ul>{begin} }))
    })
}

/// Returns the destination after sign-in.
fn parse_destination(query: &str) -> String {
    #[derive(serde::Deserialize)]
    struct SignInQuery {
        #[serde(default = "home_address")]
        to: String,
    }
    crate::query::parse::<SignInQuery>(query).map_or_else(home_address, |query| query.to)
}

fn home_address() -> String {
    "/".to_owned()
}

/// Renders the sign-in.
pub(crate) fn sign_in() -> AnyView {
    render_page(PagePlace::Outside, async |context| {
        let to = parse_destination(&context.query);
        let provider = provider::render_sign_in(&context, &to);
        let offered = offer::render_offered(&to);
        let button = view! { <button type="submit">"Sign in with a passkey"</button> };
        let passkey = render_passkey_form(PasskeyCeremony::SignIn, "passkey-sign-in", vec![("to", to.clone())], button);
        let passkey = view! { {passkey}{render_passkey_script()} };
        let form = post(
            "sign-in",
            vec![("to", to)],
            view! {
                <Field name="email" label="E-mail" kind="email" autocomplete="username" most=254/>
                <Field name="password" label="Password" kind="password" autocomplete="current-password" most=200/>
                <button type="submit" class="primary">"Sign in"</button>
            },
        );
        Ok(PageContent::new(
            "Sign in",
            view! {
                <p class="lead">"With Undertone, organizations that may not pool their data learn from it together. \
                    Each release of private data is paid from a privacy budget, which two ledgers enforce."</p>
                {offered}
                {provider::render_failure(&context)}{form}{passkey}{provider}
                <p class="hint">"There is no open registration: members join by invitation link. A new server prints its operator's link at its first start."</p>
            },
        ))
    })
}

/// Renders the form to found a consortium.
pub(crate) fn new_consortium() -> AnyView {
    render_page(PagePlace::Nowhere, async |context| {
        let member = context.member()?;
        let mine = |organization: &Organization| {
            member.grants.iter().any(|grant| grant.scope == RoleScope::Organization(organization.id))
        };
        let own: Vec<_> =
            service::organization::list(context.ctx(), context.actor()?).await?.into_iter().filter(mine).collect();
        let organization = if own.is_empty() {
            view! { <Field name="organization" label="Organization name" help="The first member of the consortium. You become its admin, data steward and researcher."/> }.into_any()
        } else {
            view! {
                <label class="field"><span>"Your organization (first member)"</span>
                    <select name="organization">
                        {own.into_iter().map(|own| view! { <option value=own.id.to_string()>{own.name}</option> }).collect_view()}
                    </select>
                </label>
            }
            .into_any()
        };
        let form = post(
            "found",
            Vec::new(),
            view! {
                <Field name="name" label="Consortium name"/>
                <label class="field"><span>"Purpose"</span><textarea name="description" rows="3" maxlength="1000"></textarea></label>
                {organization}
                <button type="submit" class="primary">"Create the consortium"</button>
            },
        );
        Ok(PageContent::new(
            "Create a consortium",
            view! {
                <p class="lead">"Organizations plan jobs together in a consortium. Joining shares no data: every job needs the approval of each owner."</p>
                {form}
            },
        ))
    })
}
