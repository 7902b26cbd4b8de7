use time::Duration;
use undertone_api::member::{Role, RoleScope};
use undertone_api::organization::{InvitationPurpose, NewInvitation};
use undertone_api::problem::Code;

use super::{LIFETIME, accept, create, list, preview};
use crate::service::{member, setup};
use crate::testing::{HERE, newcomer, on_both};

fn secret(link: &str) -> &str {
    link.rsplit('/').next().expect("a link has parts")
}

on_both! {
    async fn the_first_start_makes_one_operator_and_no_second(app: &TestApp) {
        let older = setup::operator_link(&app.ctx).await.expect("asked").expect("nobody yet");
        let link = setup::operator_link(&app.ctx).await.expect("asked").expect("nobody yet");
        let withdrawn = preview(&app.ctx, secret(&older)).await;
        assert_eq!(withdrawn.expect_err("a new link withdraws the old").code(), Code::LinkSpent);
        let person = app.accept(&link, newcomer("Operator", None)).await;
        assert!(person.session.member.operator);
        assert_eq!(setup::operator_link(&app.ctx).await.expect("asked"), None);
    }

    async fn a_link_works_once(app: &TestApp) {
        let founded = app.founded().await;
        let purpose = InvitationPurpose::Member { organization: founded.north.0, roles: vec![Role::Auditor] };
        let link = app.link(&founded.north.1, purpose).await;
        app.accept(&link, newcomer("First", None)).await;
        let again = accept(&app.ctx, HERE, secret(&link), &newcomer("Second", None)).await;
        assert_eq!(again.expect_err("spent").code(), Code::LinkSpent);
    }

    async fn of_many_who_use_a_link_at_once_one_comes_in(app: &TestApp) {
        let founded = app.founded().await;
        let purpose = InvitationPurpose::Member { organization: founded.north.0, roles: vec![Role::Auditor] };
        let link = app.link(&founded.north.1, purpose).await;
        let many = (0..5).map(|number| {
            let (ctx, link) = (app.ctx.clone(), link.clone());
            async move { accept(&ctx, HERE, secret(&link), &newcomer(&format!("M{number}"), None)).await.is_ok() }
        });
        let admitted = futures::future::join_all(many).await.into_iter().filter(|admitted| *admitted).count();
        assert_eq!(admitted, 1);
        let actor = founded.north.1.actor(app).await;
        assert_eq!(member::list(&app.ctx, &actor, founded.north.0).await.expect("listed").len(), 2);
    }

    async fn a_link_is_over_after_seven_days(app: &TestApp) {
        let link = setup::operator_link(&app.ctx).await.expect("asked").expect("nobody yet");
        app.clock.advance(LIFETIME - Duration::SECOND);
        preview(&app.ctx, secret(&link)).await.expect("still there");
        app.clock.advance(Duration::SECOND);
        assert_eq!(preview(&app.ctx, secret(&link)).await.expect_err("over").code(), Code::LinkSpent);
    }

    async fn first_member_of_organization_gets_all_its_roles(app: &TestApp) {
        let founded = app.founded().await;
        let (organization, person) = &founded.north;
        let mut roles: Vec<Role> = person.session.member.grants.iter().map(|grant| grant.role).collect();
        roles.sort_unstable();
        assert_eq!(roles, [Role::OrganizationAdmin, Role::DataSteward, Role::Researcher]);
        assert!(person.session.member.grants.iter().all(|grant| grant.scope == RoleScope::Organization(*organization)));
        assert!(!person.session.member.operator);
    }

    async fn a_member_who_accepts_another_link_gains_its_roles(app: &TestApp) {
        let founded = app.founded().await;
        let purpose = InvitationPurpose::Member { organization: founded.south.0, roles: vec![Role::Auditor] };
        let link = app.link(&founded.south.1, purpose).await;
        let mut stranger = newcomer("NorthAdmin", None);
        stranger.password = "another long password".to_owned();
        let refused = accept(&app.ctx, HERE, secret(&link), &stranger).await;
        assert_eq!(refused.expect_err("not their password").code(), Code::WrongCredentials);
        let person = app.accept(&link, newcomer("NorthAdmin", None)).await;
        assert_eq!(person.session.member.id, founded.north.1.session.member.id);
        assert_eq!(person.session.member.grants.len(), 4);
    }

    async fn two_organizations_do_not_have_one_name(app: &TestApp) {
        let founded = app.founded().await;
        let link = app.link(&founded.operator, InvitationPurpose::Organization { consortium: founded.consortium }).await;
        let duplicate = accept(&app.ctx, HERE, secret(&link), &newcomer("Third", Some(" North "))).await;
        assert_eq!(duplicate.expect_err("taken").code(), Code::AlreadyExists);
        // The transaction was rolled back: the link still works, and the e-mail is free.
        app.accept(&link, newcomer("Third", Some("West"))).await;
    }

    async fn operators_invite_operators_and_admins_give_their_own_roles(app: &TestApp) {
        let founded = app.founded().await;
        let label = "x".to_owned();
        let operator = NewInvitation { purpose: InvitationPurpose::Operator, label: label.clone() };
        let refused = create(&app.ctx, &founded.north.1.actor(app).await, &operator).await;
        assert_eq!(refused.expect_err("no").code(), Code::Forbidden);
        let purpose = InvitationPurpose::Member { organization: founded.north.0, roles: vec![Role::ConsortiumAdmin] };
        let refused = create(&app.ctx, &founded.north.1.actor(app).await, &NewInvitation { purpose, label }).await;
        let problem = refused.expect_err("no").into_problem();
        assert_eq!(problem.violations[0].field, "roles.0");
    }

    async fn a_list_of_links_does_not_hold_the_links(app: &TestApp) {
        let founded = app.founded().await;
        let purpose = InvitationPurpose::Organization { consortium: founded.consortium };
        let all = list(&app.ctx, &founded.operator.actor(app).await, &purpose).await.expect("listed");
        assert_eq!(all.len(), 2);
        assert!(all.iter().all(|invitation| invitation.link.is_none() && invitation.used));
    }

    async fn everything_wrong_with_a_newcomer_is_said_at_once(app: &TestApp) {
        let link = setup::operator_link(&app.ctx).await.expect("asked").expect("nobody yet");
        let mut new = newcomer("", Some("North"));
        (new.email, new.password) = ("nowhere".to_owned(), "short".to_owned());
        let problem = accept(&app.ctx, HERE, secret(&link), &new).await.expect_err("wrong").into_problem();
        let fields: Vec<&str> = problem.violations.iter().map(|violation| violation.field.as_str()).collect();
        assert_eq!(fields, ["name", "email", "password", "organization"]);
    }
}
