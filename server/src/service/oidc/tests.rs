use undertone_api::id::IdentityId;
use undertone_api::organization::Purpose;
use undertone_api::problem::Code;
use uuid::Uuid;

use super::{Refusal, enter, list, unlink};
use crate::auth::provider::Identity;
use crate::auth::{Actor, Origin};
use crate::service::session::{self, Entered};
use crate::testing::{HERE, TestApp, on_both};

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
        let operator = app.operator().await;
        let actor = comes(app, &identity("a", Some("operator@example.org")), None).await.expect("linked");
        let linked = list(&app.ctx, &actor).await.expect("listed");
        assert_eq!((linked.len(), linked[0].issuer.as_str()), (1, "https://login.example"));
        let nobodys = unlink(&app.ctx, &actor, IdentityId(Uuid::nil())).await.expect_err("none");
        assert_eq!(nobodys.code(), Code::NotFound);
        unlink(&app.ctx, &operator.actor(app).await, linked[0].id).await.expect("theirs");
        assert_eq!(comes(app, &identity("a", None), None).await, Err(Refusal::Unverified));
    }
}
