//! The frame of every page: navigation, skip link, the message for this page, the page.

use leptos::prelude::*;
use leptos_meta::Title;
use undertone_api::member::Member;

use super::copy::CopyField;
use super::gauge::Hatching;
use super::keys::Keys;
use super::said::ProblemBox;
use super::secret;
use crate::asset;
use crate::message::PageMessage;
use crate::page_context::{PageContent, PageContext, PagePlace};
use crate::{path, viewer, words};

/// Renders a page without navigation: sign-in, acceptance of a link.
pub(crate) fn bare(title: String, message: Option<PageMessage>, body: AnyView) -> AnyView {
    view! {
        <Title text=format!("{title} · Undertone")/>
        <Hatching/>
        <main id="main" class="bare">
            <p class="brand"><img src=asset::MARK alt="" width="28" height="28"/>"Undertone"</p>
            <h1>{title}</h1>
            {render_message(message)}
            {body}
        </main>
        <Keys places=Vec::new() own=Vec::new()/>
    }
    .into_any()
}

/// Renders a page in its frame: its place, the signed-in member, the consortia to choose from and the page's
/// consortium.
pub(crate) fn framed(
    content: PageContent,
    place: PagePlace,
    context: &PageContext,
    member: &Member,
    message: Option<PageMessage>,
) -> AnyView {
    let PageContent { title, body, keys: own } = content;
    let consortia = &context.consortia;
    let unread = context.unread;
    let consortium = context.consortium().ok();
    let home = consortium.or(if consortia.len() == 1 { consortia.first() } else { None }).cloned();
    let places = home.as_ref().map(|home| {
        let questions = (PagePlace::Questions, "q", "Questions", path::questions(home.id));
        if viewer::only_annotates(member) {
            return vec![questions];
        }
        let mut places = vec![
            (PagePlace::Overview, "o", "Overview", path::overview(home.id)),
            (PagePlace::Jobs, "j", "Jobs", path::jobs(home.id)),
            (PagePlace::Datasets, "d", "Datasets", path::datasets(home.id)),
            (PagePlace::Organizations, "r", "Organizations", path::organizations(home.id)),
            (PagePlace::Models, "m", "Models", path::models(home.id)),
            questions,
            (PagePlace::Ledger, "l", "Ledger", path::ledger(home.id)),
        ];
        if viewer::reads_log(member, home.id) {
            places.push((PagePlace::AuditLog, "a", "Audit log", path::audit_log(home.id)));
        }
        places
    });
    let mut places = places.unwrap_or_default();
    places.push((PagePlace::Notifications, "n", "Notifications", path::NOTIFICATIONS.to_owned()));
    places.push((PagePlace::Settings, "s", "Settings", path::SETTINGS.to_owned()));
    let keys: Vec<_> =
        places.iter().map(|(_, key, name, to)| ((*key).to_owned(), (*name).to_owned(), to.clone())).collect();
    let links = places.into_iter().map(|(at, _, name, to)| {
        let current = (at == place).then_some("page");
        let bell = (at == PagePlace::Notifications).then_some("bell");
        let count = (at == PagePlace::Notifications && unread > 0).then(|| {
            view! { " "<span class="count">{unread.to_string()}<span class="visually-hidden">" new"</span></span> }
        });
        view! { <li><a href=to aria-current=current data-live=bell>{name}{count}</a></li> }
    });
    let others: Vec<_> =
        consortia.iter().filter(|c| home.as_ref().is_none_or(|home| home.id != c.id)).cloned().collect();
    let full = home.as_ref().map_or_else(|| title.clone(), |home| format!("{title} · {}", home.name));
    view! {
        <Title text=format!("{full} · Undertone")/>
        <Hatching/>
        <a class="skip" href="#main">"Skip to content"</a>
        <div class="frame">
            <header class="rail">
                <a class="brand" href="/"><img src=asset::MARK alt="" width="28" height="28"/>"Undertone"</a>
                {home.map(|home| view! { <p class="rail-consortium">{home.name}</p> })}
                <nav aria-label="Pages"><ul>{links.collect_view()}</ul></nav>
                {(!others.is_empty()).then(|| view! {
                    <nav class="rail-others" aria-label="Other consortia"><p>"Other consortia"</p>
                        <ul>{others.into_iter().map(|c| view! { <li><a href=path::overview(c.id)>{c.name}</a></li> }).collect_view()}</ul>
                    </nav>
                })}
                <div class="rail-foot">
                    <p>{member.name.clone()}</p>
                    <form method="post" action="/ui/sign-out"><button type="submit" class="quiet">"Sign out"</button></form>
                </div>
            </header>
            <main id="main" tabindex="-1">
                <h1>{title}</h1>
                {render_message(message)}
                {body}
            </main>
        </div>
        <Keys places=keys own/>
    }
    .into_any()
}

/// Renders the message that the previous request left.
fn render_message(message: Option<PageMessage>) -> AnyView {
    let expiry = |at| format!("It works once, until {}. It is shown only once.", words::exact(at));
    match message {
        None => ().into_any(),
        Some(PageMessage::Done(text)) => view! { <p class="notice good" role="status">{text}</p> }.into_any(),
        Some(PageMessage::Problem(problem)) => view! { <ProblemBox problem/> }.into_any(),
        Some(PageMessage::Link { label, link, expires_at }) => view! {
            <div class="notice good" role="status">
                <p class="notice-title">{format!("Link for {label}")}</p>
                <CopyField text=link label="Link".to_owned()/>
                <p>{expiry(expires_at)}</p>
            </div>
        }
        .into_any(),
        Some(PageMessage::Key { name, key, expires_at }) => view! {
            <div class="notice good" role="status">
                <p class="notice-title">{format!("Key for {name}")}</p>
                <CopyField text=key label="Key".to_owned()/>
                <p>{format!("It is valid until {}. It is shown only once.", words::exact(expires_at))}</p>
            </div>
        }
        .into_any(),
        Some(PageMessage::Factor { secret, uri }) => secret::render_secret(&secret, uri),
        Some(PageMessage::Codes { codes }) => secret::render_recovery_codes(codes),
        Some(PageMessage::Token { name, token, expires_at }) => view! {
            <div class="notice good" role="status">
                <p class="notice-title">{format!("Enrol {name}: run this command at the site, on the machine with the data")}</p>
                <CopyField text=format!("undertone-worker enroll {token}") label="Command".to_owned()/>
                <p>"The command creates the site's key on that machine and trusts only this server's certificate. "{expiry(expires_at)}</p>
                <p>"Then start the worker: "<code>"undertone-worker run"</code></p>
            </div>
        }
        .into_any(),
    }
}
