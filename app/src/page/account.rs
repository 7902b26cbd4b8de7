//! The member's own settings.

use leptos::prelude::*;
use undertone_api::member::Scope;

use crate::call::native;
use crate::component::form::post;
use crate::screen::{Place, Sheet, screen};
use crate::words;

/// Account and appearance.
pub(crate) fn settings() -> AnyView {
    screen(Place::Settings, async |desk| {
        let member = desk.member()?;
        let mut names = Vec::new();
        for consortium in &desk.consortia {
            names.push((consortium.id.to_string(), consortium.name.clone()));
            for organization in desk.backend.organizations(consortium.id).await? {
                names.push((organization.id.to_string(), organization.name));
            }
        }
        let named = |id: String| names.iter().find(|(known, _)| *known == id).map_or(id, |(_, name)| name.clone());
        let roles = member.grants.iter().map(|grant| {
            let place = match grant.scope {
                Scope::Consortium(id) => named(id.to_string()),
                Scope::Organization(id) => named(id.to_string()),
            };
            view! { <li>{words::role(grant.role)}" · "{place}</li> }
        });
        let chosen = native::theme().unwrap_or("system");
        let theme = post(
            "theme",
            Vec::new(),
            view! {
                <fieldset class="choices">
                    <legend class="visually-hidden">"Appearance"</legend>
                    {["system", "light", "dark"].map(|theme| view! {
                        <label class="check"><input type="radio" name="theme" value=theme checked=theme == chosen/>
                            {if theme == "system" { "as the system says" } else { theme }}</label>
                    })}
                </fieldset>
                <button type="submit">"Change appearance"</button>
            },
        );
        Ok(Sheet::new(
            "Settings",
            view! {
                <section class="panel"><h2>"You"</h2>
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
                <p class="hint">"Press "<kbd>"?"</kbd>" on any page for the keys."</p>
            },
        ))
    })
}
