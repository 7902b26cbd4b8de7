//! Acceptance of a one-time link: with a new account, or with the existing one.

use std::sync::Arc;

use leptos::prelude::*;
use undertone_api::id::OrganizationId;
use undertone_api::member::Member;
use undertone_api::organization::InvitationPurpose;
use undertone_server_core::service;

use super::super::account::list_organizations;
use super::super::provider;
use crate::component::form::{Field, post};
use crate::page_context::{PageContent, PageContext, PagePlace};
use crate::request::Answer;
use crate::screen::render_page;
use crate::{path, viewer, words};

/// Renders the page.
pub(crate) fn accept() -> AnyView {
    render_page(PagePlace::Outside, async |context| {
        let secret = context.text("secret");
        let preview = service::invitation::preview(context.ctx(), &secret).await?;
        let from = preview.from.unwrap_or_else(|| "this server".to_owned());
        let (title, means, brings) = match &preview.purpose {
            InvitationPurpose::Operator => (
                "Become the operator".to_owned(),
                "You will run this server and create consortia. An operator sees no data and cannot approve jobs for others.".to_owned(),
                false,
            ),
            InvitationPurpose::Organization { .. } => (
                format!("Join {from}"),
                "You add an organization to the consortium. In a new organization you become the first admin, data steward and researcher. Its data stay at its sites.".to_owned(),
                true,
            ),
            InvitationPurpose::Annotator { .. } => (
                format!("Answer questions for {from}"),
                "You will label short texts. You see nothing else of the consortium; each job identifies you by a number.".to_owned(),
                false,
            ),
            InvitationPurpose::Member { roles, .. } => {
                let roles: Vec<_> = roles.iter().map(|role| words::role(*role)).collect();
                (format!("Join {from}"), format!("Your roles: {}.", roles.join(", ")), false)
            }
        };
        let form = match context.member() {
            Ok(member) => render_joining(&context, member, secret, brings).await?,
            Err(_) => render_registration(&context, &secret, brings),
        };
        Ok(PageContent::new(
            title,
            view! { <p class="lead">{means}</p>{form}<p class="hint">"The link works once."</p> },
        ))
    })
}

/// Renders the form for a visitor without an account or a sign-in.
fn render_registration(context: &PageContext, secret: &str, brings: bool) -> AnyView {
    let form = post(
        "accept",
        vec![("secret", secret.to_owned())],
        view! {
            {brings.then(|| view! { <Field name="organization" label="Organization name" autocomplete="organization"/> })}
            <Field name="name" label="Your name" autocomplete="name"/>
            <Field name="email" label="E-mail" kind="email" autocomplete="username" most=254/>
            <Field name="password" label="Password" kind="password" autocomplete="new-password" least=12 most=200 help="At least 12 characters; a sentence is best."/>
            <button type="submit" class="primary">"Join"</button>
        },
    );
    let to = format!("{}?to=%2Faccept%2F{secret}", path::SIGN_IN);
    view! {
        <p>"Already have an account? "<a href=to>"Sign in"</a>" to join with it."</p>
        {form}
        {provider::render_acceptance(context, secret)}
    }
    .into_any()
}

/// Renders the form for a member: one button, and a choice of organization if the link requires one.
async fn render_joining(context: &Arc<PageContext>, member: &Member, secret: String, brings: bool) -> Answer<AnyView> {
    let own = if brings { own_organizations(context, member).await? } else { Vec::new() };
    let choice = brings.then(|| {
        let first = own.is_empty();
        view! {
            {(!first).then(|| view! {
                <label class="field"><span>"Organization that joins"</span>
                    <select name="organization">
                        {own.into_iter().map(|(id, name)| view! { <option value=id.to_string()>{name}</option> }).collect_view()}
                        <option value="new">"new organization, named below"</option>
                    </select>
                </label>
            })}
            <Field name="organization_name" label="Name of the new organization" autocomplete="organization" least=u32::from(first)/>
        }
    });
    let form = post(
        "join",
        vec![("secret", secret)],
        view! { {choice}<button type="submit" class="primary">{format!("Join as {}", member.name)}</button> },
    );
    Ok(view! {
        <p>{format!("You are signed in as {}; no second account is needed.", member.name)}</p>
        {form}
        <form method="post" action="/ui/sign-out"><button type="submit" class="quiet">"Not you? Sign out"</button></form>
    }
    .into_any())
}

/// Returns the organizations of which the member is an admin.
async fn own_organizations(context: &Arc<PageContext>, member: &Member) -> Answer<Vec<(OrganizationId, String)>> {
    let organizations = list_organizations(context).await?.into_iter();
    let own = organizations.filter(|organization| viewer::runs(member, organization.id));
    Ok(own.map(|organization| (organization.id, organization.name)).collect())
}
