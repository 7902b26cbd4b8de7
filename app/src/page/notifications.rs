//! The notification centre: the member's notifications, the unread ones, and the switches.

use leptos::prelude::*;
use serde::Deserialize;
use time::OffsetDateTime;
use undertone_api::notification::{Notification, NotificationKind, NotificationQuery, NotificationSwitches};
use undertone_server_core::service;

use super::render_empty;
use crate::component::form::post;
use crate::component::said::RelativeTime;
use crate::page_context::{PageContent, PagePlace};
use crate::path;
use crate::screen::render_page;

/// Renders the page.
pub(crate) fn notifications() -> AnyView {
    render_page(PagePlace::Notifications, async |context| {
        let query = parse_query(&context.query);
        let ctx = context.ctx();
        let actor = context.actor()?;
        let page = service::notification::list(ctx, actor, &query).await?;
        let unread = service::notification::unread(ctx, actor).await?;
        let switches = service::notification::switches(ctx, actor).await?;
        let headline = match unread {
            0 => "No new notifications".to_owned(),
            n => format!("{n} new"),
        };
        let all = (unread > 0).then(|| {
            post("read-all-notifications", Vec::new(), view! { <button type="submit">"Mark all as read"</button> })
        });
        let next = page.next.map(
            |next| view! { <p><a rel="next" href=page_address(&query, Some(&next))>"Older notifications"</a></p> },
        );
        let list = if page.items.is_empty() {
            render_empty("No notifications. Pending decisions and changes of your jobs and budgets appear here.", ())
        } else {
            render_items(&page.items, context.now)
        };
        Ok(PageContent::new(
            "Notifications",
            view! {
                <p class="headline">{headline}</p>
                {render_filters(&query)}
                {all}
                {list}
                {next}
                {render_switches(&switches)}
            },
        ))
    })
}

/// The form's filters in the address: an empty field is no filter.
#[derive(Deserialize, Default)]
#[serde(default)]
struct NotificationFilter {
    unread: String,
    kind: String,
    cursor: Option<String>,
}

fn parse_query(query: &str) -> NotificationQuery {
    let NotificationFilter { unread, kind, cursor } = crate::query::parse(query).unwrap_or_default();
    NotificationQuery {
        unread: (unread == "true").then_some(true),
        kind: serde_json::from_value(serde_json::Value::String(kind)).ok(),
        cursor,
        limit: None,
    }
}

/// Returns the address of the page with these filters.
fn page_address(query: &NotificationQuery, cursor: Option<&str>) -> String {
    let mut parts = Vec::new();
    if query.unread == Some(true) {
        parts.push("unread=true".to_owned());
    }
    if let Some(kind) = query.kind {
        parts.push(format!("kind={}", kind_word(kind)));
    }
    if let Some(cursor) = cursor {
        parts.push(format!("cursor={cursor}"));
    }
    if parts.is_empty() {
        path::NOTIFICATIONS.to_owned()
    } else {
        format!("{}?{}", path::NOTIFICATIONS, parts.join("&"))
    }
}

/// Returns the kind's word in addresses and forms.
fn kind_word(kind: NotificationKind) -> String {
    serde_json::to_value(kind).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

fn render_filters(query: &NotificationQuery) -> AnyView {
    let kinds = NotificationKind::ALL.iter().map(|kind| {
        view! { <option value=kind_word(*kind) selected=query.kind == Some(*kind)>{kind.label()}</option> }
    });
    view! {
        <form class="filters" method="get" action=path::NOTIFICATIONS>
            <label class="check"><input type="checkbox" name="unread" value="true" checked=query.unread == Some(true)/>"unread only"</label>
            <label class="field"><span>"Kind"</span>
                <select name="kind">
                    <option value="" selected=query.kind.is_none()>"everything"</option>
                    {kinds.collect_view()}
                </select>
            </label>
            <button type="submit">"Show"</button>
        </form>
    }
    .into_any()
}

fn render_items(all: &[Notification], now: OffsetDateTime) -> AnyView {
    let rows = all.iter().map(|one| {
        let text = match target_address(one) {
            Some(to) => view! { <a href=to>{one.text.clone()}</a> }.into_any(),
            None => one.text.clone().into_any(),
        };
        let new = one.read_at.is_none();
        let mark = new.then(|| {
            post(
                "read-notification",
                vec![("notification", one.id.to_string())],
                view! { <button type="submit" class="quiet">"Mark as read"</button> },
            )
        });
        view! {
            <li class:new=new>
                <p>{new.then(|| view! { <span class="tag new-mark">"new"</span>" " })}{text}</p>
                <div class="told-foot"><small><RelativeTime at=one.at now/></small>{mark}</div>
            </li>
        }
    });
    view! { <ul class="told">{rows.collect_view()}</ul> }.into_any()
}

/// Returns the address of the notification's subject.
fn target_address(one: &Notification) -> Option<String> {
    let consortium = one.consortium?;
    match (one.kind, one.job, one.dataset, one.organization) {
        (NotificationKind::DatasetFrozen | NotificationKind::BudgetLow, _, Some(dataset), _) => {
            Some(path::dataset(consortium, dataset))
        }
        (NotificationKind::WorkerSilent, _, _, Some(organization)) => {
            Some(path::organization(consortium, organization))
        }
        (NotificationKind::CertificateReady, Some(job), ..) => Some(path::certificate(consortium, job)),
        (_, Some(job), ..) => Some(path::job(consortium, job)),
        (_, None, None, Some(organization)) => Some(path::organization(consortium, organization)),
        (_, None, None, None) => Some(path::organizations(consortium)),
        (_, None, Some(dataset), _) => Some(path::dataset(consortium, dataset)),
    }
}

/// Renders the member's switches.
fn render_switches(switches: &NotificationSwitches) -> AnyView {
    let choice = NotificationKind::ALL.iter().filter(|kind| kind.can_be_switched_off());
    let boxes = choice.map(|kind| {
        let on = !switches.off.contains(kind);
        view! { <label class="check"><input type="checkbox" name="on[]" value=kind_word(*kind) checked=on/>{kind.label()}</label> }
    });
    let form = post(
        "set-notifications",
        Vec::new(),
        view! {
            <fieldset class="choices"><legend>"Notify me when"</legend>{boxes.collect_view()}</fieldset>
            <p class="hint">"You are always notified when credentials are reset or changed."</p>
            <button type="submit">"Save"</button>
        },
    );
    view! { <section class="panel" id="switches"><h2>"Notification settings"</h2>{form}</section> }.into_any()
}

#[cfg(test)]
mod tests {
    use undertone_api::notification::{NotificationKind, NotificationQuery};

    use super::{kind_word, page_address, parse_query};
    use crate::testing::{TestDashboard, hidden_value};

    #[test]
    fn notification_filters_round_trip() {
        let query = NotificationQuery {
            unread: Some(true),
            kind: Some(NotificationKind::JobWaits),
            ..NotificationQuery::default()
        };
        assert_eq!(page_address(&query, Some("x")), "/notifications?unread=true&kind=job_waits&cursor=x");
        assert_eq!(page_address(&NotificationQuery::default(), None), "/notifications");
        assert_eq!(parse_query("unread=true&kind=").unread, Some(true), "a field that is left empty spoils no other");
        assert_eq!(parse_query("kind=budget_low").kind, Some(NotificationKind::BudgetLow));
        assert_eq!(kind_word(NotificationKind::BudgetLow), "budget_low");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn member_reads_and_configures_notifications() {
        let dashboard = TestDashboard::open().await;
        let page = dashboard.render(crate::path::NOTIFICATIONS, true, "").await.body;
        for said in [
            "3 new",
            "waits for your decision about ward-a",
            "Mark all as read",
            "Notify me when",
            "/ui/set-notifications",
        ] {
            assert!(page.contains(said), "{said:?} is missing: {page}");
        }
        let bell = page.split("data-live=\"bell\"").nth(1).and_then(|rest| rest.split("</a>").next()).expect("a bell");
        assert!(bell.contains("Notifications") && bell.contains(">3<"), "{bell}");
        assert_eq!(page.matches("Mark as read").count(), 3, "what was read is not marked again");
        let filtered = dashboard.render("/notifications?unread=true&kind=worker_silent", true, "").await.body;
        assert!(filtered.contains("has fallen silent") && !filtered.contains("ward-a"), "{filtered}");
        let response = dashboard.send("set-notifications", "on%5B%5D=job_waits&on%5B%5D=budget_low", true).await;
        assert_eq!((response.status.as_u16(), response.location()), (302, "/notifications"));
        let notification = format!("notification={}", hidden_value(&page, "read-notification", "notification"));
        let marked = dashboard.send("read-notification", &notification, true).await;
        assert_eq!((marked.status.as_u16(), marked.location()), (302, "/from?x=1"));
    }
}
