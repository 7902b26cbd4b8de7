//! Coming in: signing in, accepting a one-time link, founding a consortium.

use leptos::prelude::*;
use undertone_api::member::Scope;
use undertone_api::organization::Purpose;

use super::nothing;
use crate::component::form::{Field, post};
use crate::screen::{Place, Sheet, screen};
use crate::{path, viewer, words};

/// Leads to where the member most likely wants to be.
pub(crate) fn home() -> AnyView {
    screen(Place::Nowhere, async |desk| {
        if let [only] = desk.consortia.as_slice() {
            let to =
                if viewer::only_annotates(desk.member()?) { path::questions(only.id) } else { path::overview(only.id) };
            leptos_axum::redirect(&to);
        }
        let operator = desk.member()?.operator;
        let begin =
            operator.then(|| view! { <p><a class="button primary" href=path::FOUND>"Found a consortium"</a></p> });
        if desk.consortia.is_empty() {
            let text = if operator {
                "This server has no consortium yet. A consortium is where organizations learn together."
            } else {
                "You are in no consortium yet. One that wants you sends a link."
            };
            return Ok(Sheet::new("Welcome", nothing(text, begin)));
        }
        let list = desk.consortia.iter().map(|consortium| {
            view! {
                <li><a href=path::overview(consortium.id)><strong>{consortium.name.clone()}</strong></a>
                    <p class="hint">{consortium.description.clone()}</p></li>
            }
        });
        Ok(Sheet::new("Consortia", view! { <ul class="plain-list">{list.collect_view()}</ul>{begin} }))
    })
}

/// Signing in.
pub(crate) fn sign_in() -> AnyView {
    screen(Place::Outside, async |desk| {
        #[derive(serde::Deserialize)]
        struct Query {
            to: String,
        }
        let to = crate::query::parse::<Query>(&desk.query).map_or_else(|| "/".to_owned(), |query| query.to);
        let form = post(
            "sign-in",
            vec![("to", to)],
            view! {
                <Field name="email" label="E-mail" kind="email" autocomplete="username" most=254/>
                <Field name="password" label="Password" kind="password" autocomplete="current-password" most=200/>
                <button type="submit" class="primary">"Sign in"</button>
            },
        );
        Ok(Sheet::new(
            "Sign in",
            view! {
                {form}
                <p class="hint">"There is no open registration: members join by a link. A new server prints its operator's link when it first starts."</p>
            },
        ))
    })
}

/// Accepting a one-time link.
pub(crate) fn accept() -> AnyView {
    screen(Place::Outside, async |desk| {
        let secret = desk.text("secret");
        let preview = desk.backend.invitation(&secret).await?;
        let from = preview.from.unwrap_or_else(|| "this server".to_owned());
        let (title, means, founds) = match &preview.purpose {
            Purpose::Operator => (
                "Become the operator".to_owned(),
                "You will run this server: found consortia and see that it works. An operator sees no data and cannot approve jobs for others.".to_owned(),
                false,
            ),
            Purpose::Organization { .. } => (
                format!("Join {from}"),
                "You bring a new organization into the consortium, as its first admin, data steward and researcher. Its data stay with it.".to_owned(),
                true,
            ),
            Purpose::Annotator { .. } => (
                format!("Answer questions for {from}"),
                "You will be shown short texts and asked what they are about. You see nothing else of the consortium; it knows you by a number in each job.".to_owned(),
                false,
            ),
            Purpose::Member { roles, .. } => {
                let roles: Vec<_> = roles.iter().map(|role| words::role(*role)).collect();
                (format!("Join {from}"), format!("You will be there as {}.", roles.join(", ")), false)
            }
        };
        let form = post(
            "accept",
            vec![("secret", secret)],
            view! {
                {founds.then(|| view! { <Field name="organization" label="Name of your organization" autocomplete="organization"/> })}
                <Field name="name" label="Your name" autocomplete="name"/>
                <Field name="email" label="E-mail" kind="email" autocomplete="username" most=254/>
                <Field name="password" label="Password" kind="password" autocomplete="new-password" least=12 most=200 help="At least 12 characters."/>
                <button type="submit" class="primary">"Join"</button>
            },
        );
        Ok(Sheet::new(title, view! { <p class="lead">{means}</p>{form}<p class="hint">"The link works once."</p> }))
    })
}

/// Founding a consortium.
pub(crate) fn found() -> AnyView {
    screen(Place::Nowhere, async |desk| {
        let member = desk.member()?;
        let mut own = Vec::new();
        for consortium in &desk.consortia {
            for organization in desk.backend.organizations(consortium.id).await? {
                let mine = member.grants.iter().any(|grant| grant.scope == Scope::Organization(organization.id));
                if mine && !own.iter().any(|(id, _)| *id == organization.id) {
                    own.push((organization.id, organization.name));
                }
            }
        }
        let organization = if own.is_empty() {
            view! { <Field name="organization" label="Name of your organization" help="It becomes the first member. You will be its admin, data steward and researcher."/> }.into_any()
        } else {
            view! {
                <label class="field"><span>"Your organization, the first member"</span>
                    <select name="organization">
                        {own.into_iter().map(|(id, name)| view! { <option value=id.to_string()>{name}</option> }).collect_view()}
                    </select>
                </label>
            }
            .into_any()
        };
        let form = post(
            "found",
            Vec::new(),
            view! {
                <Field name="name" label="Name of the consortium"/>
                <label class="field"><span>"What it is about"</span><textarea name="description" rows="3" maxlength="1000"></textarea></label>
                {organization}
                <button type="submit" class="primary">"Found the consortium"</button>
            },
        );
        Ok(Sheet::new(
            "Found a consortium",
            view! {
                <p class="lead">"A consortium is where organizations plan jobs together. Joining it shares nothing: every job asks each owner."</p>
                {form}
            },
        ))
    })
}
