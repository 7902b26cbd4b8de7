use time::Duration;
use undertone_api::api_key::{ApiKey, KeyScope, NewApiKey};
use undertone_api::consortium::NewConsortium;
use undertone_api::id::ApiKeyId;
use undertone_api::member::Role;
use undertone_api::notification::{NotificationKind, NotificationQuery};
use undertone_api::organization::{InvitationPurpose, NewInvitation};
use undertone_api::problem::Code;
use uuid::Uuid;

use super::{create, list, revoke};
use crate::auth::Actor;
use crate::ctx::Ctx;
use crate::service::session::authenticate;
use crate::service::{consortium, invitation, member, notification, organization, session};
use crate::testing::{Person, TestApp, on_both};

fn new_request(scopes: &[KeyScope], days: u32) -> NewApiKey {
    NewApiKey { name: "for a test".to_owned(), scopes: scopes.to_vec(), days }
}

async fn create_key(app: &TestApp, person: &Person, scopes: &[KeyScope], days: u32) -> (ApiKey, String) {
    let key = create(&app.ctx, &person.actor(app).await, &new_request(scopes, days)).await.expect("made");
    let secret = key.secret.clone().expect("the answer that made it holds it");
    (key, secret)
}

async fn refusal_code(ctx: &Ctx, token: &str) -> Code {
    authenticate(ctx, token).await.expect_err("does not hold").code()
}

async fn create_consortium(app: &TestApp, actor: &Actor) -> Option<Code> {
    let new = NewConsortium {
        name: "Another".to_owned(),
        description: String::new(),
        organization: None,
        organization_name: None,
    };
    consortium::create(&app.ctx, actor, &new).await.err().map(|error| error.code())
}

on_both! {
    async fn a_key_asks_for_its_owner_as_far_as_its_scopes_reach(app: &TestApp) {
        let operator = app.operator().await;
        let (_, reading) = create_key(app, &operator, &[KeyScope::Read], 30).await;
        let (_, founding) = create_key(app, &operator, &[KeyScope::Consortia], 30).await;
        let reader = authenticate(&app.ctx, &reading).await.expect("holds");
        assert_eq!(member::me(&reader).expect("every key may read"), operator.session.member);
        assert_eq!(create_consortium(app, &reader).await, Some(Code::Forbidden));
        let founder = authenticate(&app.ctx, &founding).await.expect("holds");
        member::me(&founder).expect("every key may read");
        assert_eq!(create_consortium(app, &founder).await, None);
    }

    async fn a_key_can_do_no_more_than_its_owner_now_can(app: &TestApp) {
        let founded = app.founded().await;
        let researcher = app.joins(&founded.north.1, founded.north.0, "Researcher", &[Role::Researcher]).await;
        let (_, everything) = create_key(app, &researcher, KeyScope::ALL, 30).await;
        let actor = authenticate(&app.ctx, &everything).await.expect("holds");
        assert_eq!(create_consortium(app, &actor).await, Some(Code::Forbidden), "the owner runs no server");
        let organizations = organization::in_consortium(&app.ctx, &actor, founded.consortium).await.expect("a researcher may");
        assert_eq!(organizations.len(), 2);
        app.loses_every_role(&researcher).await;
        let actor = authenticate(&app.ctx, &everything).await.expect("the key still is one");
        let after = organization::in_consortium(&app.ctx, &actor, founded.consortium).await;
        assert_eq!(after.expect_err("no role is left").code(), Code::NotFound);
    }

    async fn no_key_reaches_keys_invitations_or_sessions(app: &TestApp) {
        let founded = app.founded().await;
        let (key, secret) = create_key(app, &founded.operator, KeyScope::ALL, 30).await;
        let actor = authenticate(&app.ctx, &secret).await.expect("holds");
        let forbidden = |code: Option<Code>, what: &str| assert_eq!(code, Some(Code::Forbidden), "{what}");
        let another = create(&app.ctx, &actor, &new_request(&[KeyScope::Read], 365)).await;
        forbidden(another.err().map(|error| error.code()), "make");
        forbidden(list(&app.ctx, &actor).await.err().map(|error| error.code()), "list");
        forbidden(revoke(&app.ctx, &actor, key.id).await.err().map(|error| error.code()), "revoke");
        let purpose = InvitationPurpose::Organization { consortium: founded.consortium };
        let invitation = NewInvitation { purpose, label: "x".to_owned() };
        let invited = invitation::create(&app.ctx, &actor, &invitation).await;
        forbidden(invited.err().map(|error| error.code()), "invite");
        forbidden(session::sign_out(&app.ctx, &actor).await.err().map(|error| error.code()), "sign out");
        authenticate(&app.ctx, &secret).await.expect("nothing has changed");
    }

    async fn a_key_holds_until_its_end_and_no_longer(app: &TestApp) {
        let operator = app.operator().await;
        let (key, secret) = create_key(app, &operator, &[KeyScope::Read], 2).await;
        assert_eq!(key.expires_at, app.clock.now() + Duration::days(2));
        app.clock.advance(Duration::days(2) - Duration::SECOND);
        authenticate(&app.ctx, &secret).await.expect("still holds");
        app.clock.advance(Duration::SECOND);
        assert_eq!(refusal_code(&app.ctx, &secret).await, Code::Unauthenticated);
    }

    async fn a_revoked_key_is_over_at_once_and_stays_in_the_list(app: &TestApp) {
        let operator = app.operator().await;
        let (key, secret) = create_key(app, &operator, &[KeyScope::Read], 30).await;
        authenticate(&app.ctx, &secret).await.expect("holds");
        let actor = operator.actor(app).await;
        revoke(&app.ctx, &actor, key.id).await.expect("revoked");
        assert_eq!(refusal_code(&app.ctx, &secret).await, Code::Unauthenticated);
        let listed = list(&app.ctx, &actor).await.expect("listed");
        assert_eq!((listed.len(), listed[0].revoked_at), (1, Some(app.clock.now())));
        app.clock.advance(Duration::HOUR);
        revoke(&app.ctx, &actor, key.id).await.expect("again");
        assert_eq!(list(&app.ctx, &actor).await.expect("listed"), listed);
    }

    async fn nobody_revokes_the_key_of_somebody_else(app: &TestApp) {
        let founded = app.founded().await;
        let (key, secret) = create_key(app, &founded.north.1, &[KeyScope::Read], 30).await;
        let other = founded.south.1.actor(app).await;
        assert_eq!(revoke(&app.ctx, &other, key.id).await.expect_err("not theirs").code(), Code::NotFound);
        let none = ApiKeyId(Uuid::nil());
        assert_eq!(revoke(&app.ctx, &other, none).await.expect_err("none").code(), Code::NotFound);
        assert!(list(&app.ctx, &other).await.expect("listed").is_empty());
        authenticate(&app.ctx, &secret).await.expect("holds");
    }

    async fn what_only_looks_like_a_key_is_refused(app: &TestApp) {
        let operator = app.operator().await;
        let (_, secret) = create_key(app, &operator, &[KeyScope::Read], 30).await;
        let (head, tail) = secret.split_at(secret.len() - 1);
        let wrong_end = format!("{head}{}", if tail == "0" { '1' } else { '0' });
        let (stem, random) = secret.rsplit_once('_').expect("two parts");
        let nobodys = format!("udk_{}_{random}", Uuid::nil().simple());
        let upper = format!("{stem}_{}", random.to_uppercase());
        let longer = format!("{secret}0");
        let hyphens = secret.replacen(stem, &format!("udk_{}", Uuid::nil()), 1);
        for token in ["udk_", "udk__", "udk_x_y", head, &wrong_end, &nobodys, &upper, &longer, &hyphens] {
            assert_eq!(refusal_code(&app.ctx, token).await, Code::Unauthenticated, "{token}");
        }
        authenticate(&app.ctx, &secret).await.expect("the right one holds");
    }

    async fn the_secret_is_shown_once_and_stored_nowhere(app: &TestApp) {
        let operator = app.operator().await;
        let (key, secret) = create_key(app, &operator, &[KeyScope::Jobs, KeyScope::Read], 30).await;
        assert!(secret.starts_with(&format!("udk_{}_", key.id.0.simple())) && secret.len() == 4 + 32 + 1 + 64);
        assert!(!format!("{key:?}").contains(&secret));
        let listed = list(&app.ctx, &operator.actor(app).await).await.expect("listed");
        assert_eq!(listed, [ApiKey { secret: None, ..key }]);
        assert_eq!(listed[0].scopes, [KeyScope::Read, KeyScope::Jobs], "in the order in which they are shown");
    }

    async fn when_a_key_was_last_used_is_known_to_the_minute(app: &TestApp) {
        let operator = app.operator().await;
        let (_, secret) = create_key(app, &operator, &[KeyScope::Read], 30).await;
        let last = async || list(&app.ctx, &operator.actor(app).await).await.expect("listed")[0].last_used_at;
        assert_eq!(last().await, None);
        let first = app.clock.now();
        authenticate(&app.ctx, &secret).await.expect("holds");
        assert_eq!(last().await, Some(first));
        app.clock.advance(Duration::seconds(59));
        authenticate(&app.ctx, &secret).await.expect("holds");
        assert_eq!(last().await, Some(first));
        app.clock.advance(Duration::SECOND);
        authenticate(&app.ctx, &secret).await.expect("holds");
        assert_eq!(last().await, Some(first + Duration::MINUTE));
    }

    async fn whoever_is_given_a_key_is_told_and_nobody_else(app: &TestApp) {
        let founded = app.founded().await;
        create_key(app, &founded.north.1, &[KeyScope::Read], 30).await;
        let list_texts = async |person: &Person| {
            let query = NotificationQuery { kind: Some(NotificationKind::AccountChanged), ..NotificationQuery::default() };
            let page = notification::list(&app.ctx, &person.actor(app).await, &query).await.expect("told");
            page.items.into_iter().map(|one| one.text).collect::<Vec<_>>()
        };
        let texts = list_texts(&founded.north.1).await;
        assert!(texts.len() == 1 && texts[0].contains("“for a test”"), "{texts:?}");
        assert!(list_texts(&founded.south.1).await.is_empty());
    }

    async fn a_member_has_at_most_twenty_living_keys(app: &TestApp) {
        let operator = app.operator().await;
        let mut first = None;
        for _ in 0..20 {
            first = first.or(Some(create_key(app, &operator, &[KeyScope::Read], 30).await.0.id));
        }
        let actor = operator.actor(app).await;
        let more = create(&app.ctx, &actor, &new_request(&[KeyScope::Read], 30)).await.expect_err("too many");
        assert_eq!(more.code(), Code::ValidationFailed);
        revoke(&app.ctx, &actor, first.expect("made")).await.expect("revoked");
        create(&app.ctx, &actor, &new_request(&[KeyScope::Read], 30)).await.expect("there is room again");
    }

    async fn a_key_without_scopes_or_with_too_many_days_is_not_made(app: &TestApp) {
        let actor = app.operator().await.actor(app).await;
        for new in [new_request(&[], 30), new_request(&[KeyScope::Read], 0), new_request(&[KeyScope::Read], 366)] {
            assert_eq!(create(&app.ctx, &actor, &new).await.expect_err("refused").code(), Code::ValidationFailed);
        }
        assert!(list(&app.ctx, &actor).await.expect("listed").is_empty());
    }

    /// A leaked key must not create an identity that outlives it.
    async fn key_of_any_scope_makes_no_lasting_identity(app: &TestApp) {
        let founded = app.founded().await;
        let (organization, admin) = &founded.north;
        for scope in KeyScope::ALL {
            let new = NewApiKey { name: scope.word().to_owned(), scopes: vec![*scope], days: 1 };
            let new_key = create(&app.ctx, &admin.actor(app).await, &new).await.expect("made");
            let by = authenticate(&app.ctx, &new_key.secret.expect("shown once")).await.expect("holds");
            let worker = undertone_api::worker::NewEnrolment { name: "x".to_owned() };
            let enrolled = crate::service::worker::invite(&app.ctx, &by, *organization, &worker).await.map(drop);
            assert_eq!(enrolled.expect_err("no key enrols").code(), Code::Forbidden, "{scope:?}");
            let key = create(&app.ctx, &by, &new).await.map(drop);
            assert_eq!(key.expect_err("no key makes keys").code(), Code::Forbidden, "{scope:?}");
            let purpose = undertone_api::organization::InvitationPurpose::Member {
                organization: *organization,
                roles: vec![undertone_api::member::Role::OrganizationAdmin],
            };
            let link = undertone_api::organization::NewInvitation { purpose, label: "x".to_owned() };
            let invited = crate::service::invitation::create(&app.ctx, &by, &link).await.map(drop);
            assert_eq!(invited.expect_err("no key invites").code(), Code::Forbidden, "{scope:?}");
        }
    }
}
