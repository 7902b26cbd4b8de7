use sea_orm::{ColumnTrait as _, EntityTrait as _, QueryFilter as _};
use undertone_api::account::FactorCode;
use undertone_api::api_key::{KeyScope, NewApiKey};
use undertone_api::id::IdentityId;
use undertone_api::notification::{NotificationKind, NotificationQuery};
use undertone_api::organization::Purpose;
use undertone_api::problem::Code;
use undertone_api::session::SignIn;
use uuid::Uuid;

use super::{Refusal, enter, list, unlink};
use crate::auth::provider::Identity;
use crate::auth::{Actor, Origin};
use crate::service::entity::audit_log;
use crate::service::session::{self, Entered};
use crate::service::{api_key, factor, notification};
use crate::testing::{HERE, PASSWORD, TestApp, code, on_both};

fn identity(subject: &str, email: Option<&str>) -> Identity {
    Identity {
        issuer: "https://login.example".to_owned(),
        subject: subject.to_owned(),
        email: email.map(str::to_owned),
        name: Some("Ada".to_owned()),
    }
}

async fn comes(app: &TestApp, who: &Identity, invitation: Option<&str>) -> Result<Actor, Refusal> {
    match enter(&app.ctx, Origin::from(HERE), who, invitation).await.expect("the database answers")? {
        Entered::Whole(session) => {
            Ok(session::authenticate(&app.ctx, &session.tokens.access_token).await.expect("signed in"))
        }
        Entered::Half(_) => panic!("nobody here has a second factor"),
    }
}

on_both! {
    async fn a_verified_e_mail_links_an_identity_to_its_member(app: &TestApp) {
        let member = app.operator().await.session.member;
        let first = comes(app, &identity("a", Some("Operator@Example.ORG")), None).await.expect("linked");
        assert_eq!(first.member, member);
        // From now on the e-mail at the provider does not matter.
        let later = comes(app, &identity("a", None), None).await.expect("known");
        assert_eq!(later.member, member);
    }

    async fn whoever_made_the_account_under_an_e_mail_that_is_not_theirs_loses_it_to_its_owner(app: &TestApp) {
        let before = app.operator().await;
        let new = NewApiKey { name: "for later".to_owned(), scopes: vec![KeyScope::Read], days: 30 };
        let key = api_key::create(&app.ctx, &before.actor(app).await, &new).await.expect("made");
        let secret = key.secret.expect("the answer that made it holds it");
        session::authenticate(&app.ctx, &secret).await.expect("holds");
        app.clock.advance(time::Duration::seconds(1));

        let owner = comes(app, &identity("a", Some("operator@example.org")), None).await.expect("linked");
        let over = session::authenticate(&app.ctx, &before.session.tokens.access_token).await;
        assert_eq!(over.expect_err("the session is over").code(), Code::Unauthenticated);
        let revoked = session::authenticate(&app.ctx, &secret).await;
        assert_eq!(revoked.expect_err("the key is revoked").code(), Code::Unauthenticated);
        let old = SignIn { email: "operator@example.org".to_owned(), password: PASSWORD.to_owned() };
        let refused = session::sign_in(&app.ctx, HERE, &old).await;
        assert_eq!(refused.expect_err("the password is gone").code(), Code::WrongCredentials);
        let told = notification::list(&app.ctx, &owner, &NotificationQuery::default()).await.expect("told");
        let text_of = |kind| told.items.iter().find(|item| item.kind == kind).map(|item| item.text.clone());
        let text = text_of(NotificationKind::AccountChanged).expect("what ended");
        let announced = text_of(NotificationKind::CredentialsChanged).expect("what nobody can switch off");
        assert!(announced.contains("was taken over by a first sign-in at the provider"), "{announced}");
        assert!(text.contains("sessions ended: 1, API keys revoked: 1"), "{text}");
        let log = audit_log::Entity::find().filter(audit_log::Column::What.eq("identity_linked")).one(app.ctx.db.read()).await;
        let detail = log.expect("read").expect("recorded").detail;
        assert!(detail.contains("\"keys_revoked\":1") && detail.contains("\"password_cleared\":true"), "{detail}");

        // From now on the account is theirs: nothing of it ends when they come again.
        comes(app, &identity("a", Some("operator@example.org")), None).await.expect("known");
        session::actor_of(&app.ctx, owner.session().expect("one")).await.expect("the session goes on");
    }

    async fn an_authenticator_of_whoever_had_the_account_before_does_not_stay(app: &TestApp) {
        let before = app.operator().await;
        let theirs = app.two_factor(&before).await;
        // Linked, and no code is asked for.
        let owner = comes(app, &identity("a", Some("operator@example.org")), None).await.expect("linked");
        let state = factor::state(&app.ctx, &owner).await.expect("told");
        assert_eq!((state.since, state.recovery_codes_left), (None, 0));
        let log = audit_log::Entity::find().filter(audit_log::Column::What.eq("identity_linked")).one(app.ctx.db.read()).await;
        let detail = log.expect("read").expect("recorded").detail;
        assert!(detail.contains("\"second_factor_cleared\":true"), "{detail}");

        // One that is set up by the owner is asked for when they come again, and the one before opens nothing.
        app.clock.advance(time::Duration::minutes(1));
        let offer = factor::offer(&app.ctx, &owner).await.expect("offered");
        let wrong = FactorCode { code: theirs.code(app) };
        factor::confirm(&app.ctx, &owner, &wrong).await.expect_err("a code of the authenticator before");
        let right = FactorCode { code: code(&offer.secret, app) };
        factor::confirm(&app.ctx, &owner, &right).await.expect("confirmed");
        let again = enter(&app.ctx, Origin::from(HERE), &identity("a", None), None).await.expect("the database answers");
        assert!(matches!(again, Ok(Entered::Half(_))), "a code is asked for");
    }

    async fn an_e_mail_that_nobody_has_verified_links_nothing(app: &TestApp) {
        let operator = app.operator().await;
        assert_eq!(comes(app, &identity("a", None), None).await, Err(Refusal::Unverified));
        assert!(list(&app.ctx, &operator.actor(app).await).await.expect("listed").is_empty());
    }

    async fn an_unknown_person_stays_outside(app: &TestApp) {
        app.operator().await;
        let nobody = identity("a", Some("nobody@example.org"));
        assert_eq!(comes(app, &nobody, None).await, Err(Refusal::Unknown));
        assert_eq!(comes(app, &nobody, Some("no such link")).await, Err(Refusal::Unknown));
    }

    async fn who_bears_an_invitation_becomes_a_member_without_any_role(app: &TestApp) {
        let founded = app.founded().await;
        let link = app.link(&founded.operator, Purpose::Annotator { consortium: founded.consortium }).await;
        let secret = link.rsplit('/').next().expect("a link has parts").to_owned();
        let person = identity("a", Some("ada@example.org"));
        let came = comes(app, &person, Some(&secret)).await.expect("invited");
        assert_eq!((came.member.name.as_str(), came.member.email.as_str()), ("Ada", "ada@example.org"));
        assert!(came.member.grants.is_empty() && !came.member.operator, "the link is accepted in a step of its own");
        assert!(!crate::service::password::has(&app.ctx, came.id()).await.expect("told"), "nobody has set one");
        assert_eq!(comes(app, &person, None).await.expect("known").member, came.member);
    }

    async fn an_account_is_linked_to_one_identity_of_a_provider(app: &TestApp) {
        app.operator().await;
        comes(app, &identity("a", Some("operator@example.org")), None).await.expect("linked");
        let other = identity("b", Some("operator@example.org"));
        assert_eq!(comes(app, &other, None).await, Err(Refusal::Taken));
    }

    async fn the_same_name_at_another_provider_is_another_person(app: &TestApp) {
        app.operator().await;
        comes(app, &identity("a", Some("operator@example.org")), None).await.expect("linked");
        let elsewhere = Identity { issuer: "https://other.example".to_owned(), ..identity("a", None) };
        assert_eq!(comes(app, &elsewhere, None).await, Err(Refusal::Unverified));
    }

    async fn an_identity_that_was_taken_away_signs_nobody_in(app: &TestApp) {
        app.operator().await;
        let actor = comes(app, &identity("a", Some("operator@example.org")), None).await.expect("linked");
        let linked = list(&app.ctx, &actor).await.expect("listed");
        assert_eq!((linked.len(), linked[0].issuer.as_str()), (1, "https://login.example"));
        let nobodys = unlink(&app.ctx, &actor, IdentityId(Uuid::nil())).await.expect_err("none");
        assert_eq!(nobodys.code(), Code::NotFound);
        unlink(&app.ctx, &actor, linked[0].id).await.expect("theirs");
        assert_eq!(comes(app, &identity("a", None), None).await, Err(Refusal::Unverified));
    }
}
