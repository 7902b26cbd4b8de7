use std::net::IpAddr;

use sea_orm::{ColumnTrait as _, EntityTrait as _, QueryFilter as _};
use undertone_api::api_key::{KeyScope, NewApiKey};
use undertone_api::id::IdentityId;
use undertone_api::notification::{NotificationKind, NotificationQuery};
use undertone_api::organization::InvitationPurpose;
use undertone_api::problem::Code;
use undertone_api::session::SignIn;
use uuid::Uuid;

use super::{SignInRefusal, enter, link, list, unlink};
use crate::auth::provider::Identity;
use crate::auth::{Actor, Door, Origin};
use crate::model::{attempt, audit_log};
use crate::service::session::{self, SignInResult};
use crate::service::{api_key, factor, notification};
use crate::testing::{HERE, PASSWORD, TestApp, on_both};

fn identity(subject: &str, email: Option<&str>) -> Identity {
    Identity {
        issuer: "https://login.example".to_owned(),
        subject: subject.to_owned(),
        email: email.map(str::to_owned),
        name: Some("Ada".to_owned()),
    }
}

async fn comes(app: &TestApp, who: &Identity, invitation: Option<&str>) -> Result<Actor, SignInRefusal> {
    match enter(&app.ctx, Origin::from(HERE), who, invitation).await.expect("the database answers")? {
        SignInResult::Whole(session) => {
            Ok(session::authenticate(&app.ctx, &session.tokens.access_token).await.expect("signed in"))
        }
        SignInResult::Half(_) => panic!("nobody here has a second factor"),
    }
}

/// Links an identity to the account of a signed-in caller.
async fn links(app: &TestApp, actor: &Actor, who: &Identity) -> Result<(), SignInRefusal> {
    link(&app.ctx, actor, who).await.expect("the database answers")
}

on_both! {
    async fn verified_email_alone_does_not_open_an_account(app: &TestApp) {
        let before = app.operator().await;
        let thief = identity("a", Some("Operator@Example.ORG"));
        assert_eq!(comes(app, &thief, None).await, Err(SignInRefusal::Account));
        // The account is unchanged: its session, its password, and its second factor.
        session::authenticate(&app.ctx, &before.session.tokens.access_token).await.expect("goes on");
        let old = SignIn { email: "operator@example.org".to_owned(), password: PASSWORD.to_owned() };
        session::sign_in(&app.ctx, HERE, &old).await.expect("the password holds");
        app.two_factor(&before).await;
        assert_eq!(comes(app, &thief, None).await, Err(SignInRefusal::Account));
        let state = factor::state(&app.ctx, &before.actor(app).await).await.expect("read");
        assert!(state.since.is_some(), "the second factor is still on");
    }

    async fn member_links_an_identity_and_signs_in_by_it(app: &TestApp) {
        let before = app.operator().await;
        let actor = before.actor(app).await;
        // The e-mail at the provider does not matter for a linked identity.
        links(app, &actor, &identity("a", None)).await.expect("linked");
        links(app, &actor, &identity("a", None)).await.expect("linked already");
        let later = comes(app, &identity("a", Some("elsewhere@example.net")), None).await.expect("known");
        assert_eq!(later.member, before.session.member);
        session::actor_of(&app.ctx, actor.session().expect("one")).await.expect("the session goes on");
        let query = NotificationQuery::default();
        let notices = notification::list(&app.ctx, &actor, &query).await.expect("read");
        let notice = notices.items.iter().find(|item| item.kind == NotificationKind::CredentialsChanged);
        let text = &notice.expect("a notice that cannot be muted").text;
        assert!(text.contains("linked an identity at https://login.example"), "{text}");
        let log = audit_log::Entity::find().filter(audit_log::Column::What.eq("identity_linked"));
        assert_eq!(log.all(app.ctx.db.read()).await.expect("read").len(), 1);
    }

    async fn linked_identity_asks_for_the_second_factor(app: &TestApp) {
        let before = app.operator().await;
        links(app, &before.actor(app).await, &identity("a", None)).await.expect("linked");
        app.two_factor(&before).await;
        app.clock.advance(time::Duration::minutes(1));
        let again = enter(&app.ctx, Origin::from(HERE), &identity("a", None), None).await.expect("the database answers");
        assert!(matches!(again, Ok(SignInResult::Half(_))), "a code is asked for");
    }

    async fn api_key_links_no_identity(app: &TestApp) {
        let operator = app.operator().await;
        let new = NewApiKey { name: "export".to_owned(), scopes: KeyScope::ALL.to_vec(), days: 30 };
        let key = api_key::create(&app.ctx, &operator.actor(app).await, &new).await.expect("made");
        let secret = key.secret.expect("the answer that made it holds it");
        let actor = session::authenticate(&app.ctx, &secret).await.expect("holds");
        let refused = link(&app.ctx, &actor, &identity("a", None)).await.expect_err("a key");
        assert_eq!(refused.code(), Code::Forbidden);
    }

    async fn an_e_mail_that_nobody_has_verified_links_nothing(app: &TestApp) {
        let operator = app.operator().await;
        assert_eq!(comes(app, &identity("a", None), None).await, Err(SignInRefusal::Unverified));
        assert!(list(&app.ctx, &operator.actor(app).await).await.expect("listed").is_empty());
    }

    async fn an_unknown_person_stays_outside(app: &TestApp) {
        app.operator().await;
        let nobody = identity("a", Some("nobody@example.org"));
        assert_eq!(comes(app, &nobody, None).await, Err(SignInRefusal::Unknown));
        assert_eq!(comes(app, &nobody, Some("no such link")).await, Err(SignInRefusal::Unknown));
    }

    async fn who_bears_an_invitation_becomes_a_member_without_any_role(app: &TestApp) {
        let founded = app.founded().await;
        let link = app.link(&founded.operator, InvitationPurpose::Annotator { consortium: founded.consortium }).await;
        let secret = link.rsplit('/').next().expect("a link has parts").to_owned();
        let person = identity("a", Some("ada@example.org"));
        let came = comes(app, &person, Some(&secret)).await.expect("invited");
        assert_eq!((came.member.name.as_str(), came.member.email.as_str()), ("Ada", "ada@example.org"));
        assert!(came.member.grants.is_empty() && !came.member.operator, "the link is accepted in a step of its own");
        assert!(!crate::service::password::has(&app.ctx, came.id()).await.expect("told"), "nobody has set one");
        assert_eq!(comes(app, &person, None).await.expect("known").member, came.member);
    }

    async fn identity_and_account_are_linked_once(app: &TestApp) {
        let founded = app.founded().await;
        let operator = founded.operator.actor(app).await;
        links(app, &operator, &identity("a", None)).await.expect("linked");
        assert_eq!(links(app, &operator, &identity("b", None)).await, Err(SignInRefusal::Taken), "a second identity");
        let link = app.link(&founded.operator, InvitationPurpose::Annotator { consortium: founded.consortium }).await;
        let secret = link.rsplit('/').next().expect("a link has parts").to_owned();
        let ada = comes(app, &identity("c", Some("ada@example.org")), Some(&secret)).await.expect("invited");
        assert_eq!(links(app, &ada, &identity("a", None)).await, Err(SignInRefusal::Taken), "the operator's identity");
    }

    async fn same_subject_at_another_provider_is_another_identity(app: &TestApp) {
        let operator = app.operator().await.actor(app).await;
        links(app, &operator, &identity("a", None)).await.expect("linked");
        let elsewhere = Identity { issuer: "https://other.example".to_owned(), ..identity("a", None) };
        assert_eq!(comes(app, &elsewhere, None).await, Err(SignInRefusal::Unverified));
    }

    async fn unlinked_identity_signs_in_no_more(app: &TestApp) {
        let actor = app.operator().await.actor(app).await;
        links(app, &actor, &identity("a", None)).await.expect("linked");
        let linked = list(&app.ctx, &actor).await.expect("listed");
        assert_eq!((linked.len(), linked[0].issuer.as_str()), (1, "https://login.example"));
        let unknown = unlink(&app.ctx, &actor, IdentityId(Uuid::nil())).await.expect_err("none");
        assert_eq!(unknown.code(), Code::NotFound);
        unlink(&app.ctx, &actor, linked[0].id).await.expect("theirs");
        assert_eq!(comes(app, &identity("a", None), None).await, Err(SignInRefusal::Unverified));
    }

    async fn refused_identities_take_no_writer_and_few_entries(app: &TestApp) {
        app.operator().await;
        for number in 0..20 {
            let from = Origin::from(IpAddr::from([192, 0, 2, number]));
            let stranger = identity(&format!("stranger {number}"), Some("stranger@example.org"));
            let refused = enter(&app.ctx, from, &stranger, None).await.expect("the database answers");
            assert_eq!(refused.map(drop), Err(SignInRefusal::Unknown));
        }
        assert_eq!(app.ctx.db.timings().statements("sign in by a provider"), 0);
        let failures = Door::Failures(None).key();
        let count = async || {
            let row = attempt::Entity::find_by_id(failures.clone()).one(app.ctx.db.read()).await.expect("read");
            row.map_or(0, |row| row.count)
        };
        // Failures are counted beside the answers.
        while count().await < 20 {
            tokio::task::yield_now().await;
        }
        let logged = async || {
            let failed = audit_log::Entity::find().filter(audit_log::Column::What.eq("sign_in_failed"));
            failed.all(app.ctx.db.read()).await.expect("read").len()
        };
        while logged().await < 2 {
            tokio::task::yield_now().await;
        }
        assert_eq!(logged().await, 2, "the first and the tenth");
    }

    async fn address_is_closed_after_fifty_refused_identities(app: &TestApp) {
        let operator = app.operator().await;
        links(app, &operator.actor(app).await, &identity("a", None)).await.expect("linked");
        for _ in 0..60 {
            comes(app, &identity("a", None), None).await.expect("a right one takes its attempt back");
        }
        for _ in 0..50 {
            assert_eq!(comes(app, &identity("b", None), None).await, Err(SignInRefusal::Unverified));
        }
        let closed = enter(&app.ctx, Origin::from(HERE), &identity("a", None), None).await;
        assert_eq!(closed.expect_err("closed").code(), Code::RateLimited);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn provider_is_believed_for_configured_domains_only() {
    let app = TestApp::sqlite_with(|config| config.oidc.domains = "clinic.example lab.example".to_owned()).await;
    let founded = app.founded().await;
    let link = app.link(&founded.operator, InvitationPurpose::Annotator { consortium: founded.consortium }).await;
    let secret = link.rsplit('/').next().expect("a link has parts").to_owned();
    for email in ["ada@example.org", "ada@clinic.example.org", "ada@notclinic.example", "clinic.example"] {
        let refused = comes(&app, &identity("a", Some(email)), Some(&secret)).await;
        assert_eq!(refused, Err(SignInRefusal::Domain), "{email}");
        let operator = founded.operator.actor(&app).await;
        assert_eq!(links(&app, &operator, &identity("a", Some(email))).await, Err(SignInRefusal::Domain), "{email}");
    }
    comes(&app, &identity("a", Some("ada@Lab.Example")), Some(&secret)).await.expect("invited");
    app.close().await;
}
