//! The organizations of a consortium, and the link for another one to join.

mod roles;

use leptos::prelude::*;
use undertone_api::organization::InvitationPurpose;
use undertone_server_core::service;

use super::organization::people;
use crate::component::form::{Field, post};
use crate::component::retire::render_retirement;
use crate::page_context::{PageContent, PagePlace};
use crate::screen::render_page;
use crate::{path, viewer, words};

/// Renders the list.
pub(crate) fn organizations() -> AnyView {
    render_page(PagePlace::Organizations, async |context| {
        let consortium = context.consortium()?.id;
        let member = context.member()?;
        let ctx = context.ctx();
        let actor = context.actor()?;
        let organizations = service::organization::in_consortium(ctx, actor, consortium).await?;
        let rows = organizations.iter().map(|organization| {
            let online = organization.workers.iter().filter(|worker| worker.online).count();
            let workers = match (organization.workers.len(), online) {
                (0, _) => view! { <span class="state waiting">"◌ none enrolled"</span> }.into_any(),
                (all, online) if all == online => view! { <span class="state done">{format!("● {online} online")}</span> }.into_any(),
                (all, online) => view! { <span class="state bad">{format!("◍ {online} of {all} online")}</span> }.into_any(),
            };
            view! {
                <tr>
                    <th scope="row"><a href=path::organization(consortium, organization.id)>{organization.name.clone()}</a>
                        {organization.retirement.as_ref().map(|retirement| render_retirement(retirement, context.now))}</th>
                    <td data-label="workers">{workers}</td>
                    <td data-label="datasets" class="number">{words::count(organization.datasets.into())}</td>
                    <td data-label="members" class="number">{words::count(organization.members.into())}</td>
                </tr>
            }
        });
        let invite = viewer::admits(member, consortium).then(|| {
            let form = post("invite-organization", vec![("consortium", consortium.to_string())], view! {
                <Field name="label" label="Recipient" help="A note for you, such as the organization's name."/>
                <button type="submit" class="primary">"Create a link"</button>
            });
            view! {
                <section class="panel decide"><h2>"Invite an organization"</h2>
                    <ul class="consequences">
                        <li>"The first person who opens the link adds a new organization and becomes its first admin, data steward and researcher."</li>
                        <li>"The organization will see the consortium's members, jobs and datasets (with size classes). Its data stay at its sites."</li>
                        <li>"The link works once and is shown once."</li>
                    </ul>
                    {form}
                </section>
            }
        });
        let admin = viewer::attests(member, consortium);
        let mut links = Vec::new();
        let mut roles = None;
        if admin {
            links.extend(service::invitation::list(ctx, actor, &InvitationPurpose::Organization { consortium }).await?);
            links.extend(service::invitation::list(ctx, actor, &InvitationPurpose::Annotator { consortium }).await?);
            roles = Some(roles::render_section(
                &service::role::list_consortium_members(ctx, actor, consortium).await?,
                consortium,
            ));
        }
        let hidden = [("consortium", consortium.to_string())];
        Ok(PageContent::new(
            "Organizations",
            view! {
                <table class="cards">
                    <thead><tr><th scope="col">"Organization"</th><th scope="col">"Workers"</th><th scope="col" class="number">"Datasets"</th><th scope="col" class="number">"Members"</th></tr></thead>
                    <tbody>{rows.collect_view()}</tbody>
                </table>
                {invite}
                {people::render_links(&links, "withdraw-organization", &hidden, context.now)}
                {roles}
            },
        ))
    })
}
