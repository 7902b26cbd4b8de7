use undertone_api::audit_log::{ActorKind, AuditAction, AuditPlace, AuditQuery};
use undertone_api::notification::{NotificationKind, NotificationQuery};
use undertone_api::organization::{InvitationPurpose, NewInvitation};
use undertone_api::page::PageQuery;
use undertone_api::problem::Code;

use super::{invite_at_terminal, reset_at_terminal};
use crate::service::{audit_log, invitation, notification, reset};
use crate::testing::{HERE, Person, TestApp, newcomer, on_both};

async fn notices(app: &TestApp, person: &Person) -> Vec<String> {
    let query = NotificationQuery { kind: Some(NotificationKind::AccessRetired), ..NotificationQuery::default() };
    let page = notification::list(&app.ctx, &person.actor(app).await, &query).await.expect("listed");
    page.items.into_iter().map(|item| item.text).collect()
}

/// Returns the logged actions at the terminal, the newest first.
async fn logged_at_terminal(app: &TestApp, person: &Person) -> Vec<AuditAction> {
    let query = AuditQuery { hand: Some(ActorKind::Operator), ..AuditQuery::default() };
    let actor = person.actor(app).await;
    let page =
        audit_log::list(&app.ctx, &actor, AuditPlace::Server, &query, &PageQuery::default()).await.expect("listed");
    page.items.into_iter().map(|entry| entry.what).collect()
}

fn operator_link() -> NewInvitation {
    NewInvitation { purpose: InvitationPurpose::Operator, label: "deputy".to_owned() }
}

on_both! {
    async fn operator_invites_another_and_all_hear_of_it(app: &TestApp) {
        let first = app.operator().await;
        let link = invitation::create(&app.ctx, &first.actor(app).await, &operator_link()).await.expect("an operator may");
        let second = app.accept(&link.link.expect("in the answer"), newcomer("Deputy", None)).await;
        assert!(second.session.member.operator);
        let list = notices(app, &first).await;
        assert!(list.iter().any(|text| text.contains("made a link")), "{list:?}");
        assert!(list.iter().any(|text| text.contains("Deputy is an operator")), "{list:?}");
        let listed = invitation::list(&app.ctx, &second.actor(app).await, &InvitationPurpose::Operator).await.expect("listed");
        assert!(listed.iter().any(|link| link.label == "deputy" && link.used), "{listed:?}");
    }

    async fn operator_link_of_a_stale_session_is_refused(app: &TestApp) {
        let first = app.operator().await;
        app.clock.advance(crate::auth::FRESH + time::Duration::SECOND);
        let refused = invitation::create(&app.ctx, &first.actor(app).await, &operator_link()).await;
        assert_eq!(refused.expect_err("stale").code(), Code::ProofStale);
    }

    async fn terminal_invites_an_operator_in_the_log(app: &TestApp) {
        let first = app.operator().await;
        let link = invite_at_terminal(&app.ctx, "break glass").await.expect("made");
        assert!(notices(app, &first).await[0].contains("terminal"));
        assert_eq!(logged_at_terminal(app, &first).await[0], AuditAction::OperatorInvited);
        let second = app.accept(&link, newcomer("Deputy", None)).await;
        assert!(second.session.member.operator);
        let refused = invite_at_terminal(&app.ctx, " ").await.expect_err("no label").into_problem();
        assert_eq!(refused.violations[0].field, "label");
    }

    async fn terminal_resets_operators_only(app: &TestApp) {
        let founded = app.founded().await;
        let refused = reset_at_terminal(&app.ctx, "northadmin@example.org", false).await.map(drop);
        assert_eq!(refused.expect_err("no operator").code(), Code::NotFound);
        let link = reset_at_terminal(&app.ctx, "Operator@example.org", true).await.expect("made");
        let secret = link.link.rsplit('/').next().expect("a link has parts").to_owned();
        assert!(reset::preview(&app.ctx, HERE, &secret).await.expect("holds").clears_second_factor);
        assert!(notices(app, &founded.operator).await[0].contains("terminal"));
        assert_eq!(logged_at_terminal(app, &founded.operator).await[0], AuditAction::ResetLinkMade);
    }
}
