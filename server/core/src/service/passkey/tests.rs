use sea_orm::{EntityTrait as _, PaginatorTrait as _};
use time::Duration;
use undertone_api::account::{IdentityProof, SecondStep};
use undertone_api::notification::{NotificationKind, NotificationQuery};
use undertone_api::passkey::{MOST_PASSKEYS, PasskeyAssertion, PasskeySignIn, PasskeyUse};
use undertone_api::problem::Code;
use undertone_api::session::Session;

use super::{challenge, list, remove};
use crate::auth::FRESH;
use crate::auth::passkey::LIFETIME;
use crate::config::Config;
use crate::error::Error;
use crate::model::{passkey, passkey_answer};
use crate::service::{factor, notification, session};
use crate::testing::{HERE, Person, SoftwarePasskey, TestApp, on_both};

const EMAIL: &str = "operator@example.org";

async fn sign_in(app: &TestApp, half_token: &str, passkey: PasskeyAssertion) -> Result<Session, Error> {
    let sign_in = PasskeySignIn { half_token: half_token.to_owned(), passkey };
    session::passkey_sign_in(&app.ctx, HERE, &sign_in).await
}

async fn alone(app: &TestApp, passkey: &mut SoftwarePasskey) -> Result<Session, Error> {
    let challenge = session::sign_in_challenge(&app.ctx, "").await.expect("asked");
    assert!(challenge.credentials.is_empty(), "nobody is named before a passkey is");
    sign_in(app, "", passkey.sign(&challenge)).await
}

fn code(result: Result<Session, Error>) -> Code {
    result.expect_err("refused").code()
}

/// Returns whether a person has a notification that contains `text`.
async fn announced(app: &TestApp, person: &Person, text: &str) -> bool {
    let query = NotificationQuery { kind: Some(NotificationKind::CredentialsChanged), ..NotificationQuery::default() };
    let page = notification::list(&app.ctx, &person.actor(app).await, &query).await.expect("listed");
    page.items.iter().any(|one| one.text.contains(text))
}

on_both! {
    async fn passkey_signs_in_alone_and_is_announced(app: &TestApp) {
        let person = app.operator().await;
        let (mut passkey, listed) = SoftwarePasskey::registered(app, &person, 1).await;
        assert_eq!((listed.label.as_str(), listed.last_used_at), ("the laptop", None));
        let session = alone(app, &mut passkey).await.expect("it holds");
        assert_eq!(session.member.id, person.session.member.id);
        session::authenticate(&app.ctx, &session.tokens.access_token).await.expect("signed in");
        let actor = person.actor(app).await;
        assert_eq!(list(&app.ctx, &actor).await.expect("listed")[0].last_used_at, Some(app.clock.now()));
        assert!(announced(app, &person, "registered the passkey “the laptop”").await);
        remove(&app.ctx, &actor, listed.id).await.expect("removed");
        assert_eq!(code(alone(app, &mut passkey).await), Code::WrongPasskey);
        assert!(announced(app, &person, "removed the passkey “the laptop”").await);
    }

    async fn with_a_passkey_the_password_opens_half_a_session(app: &TestApp) {
        let person = app.operator().await;
        let (mut passkey, _) = SoftwarePasskey::registered(app, &person, 1).await;
        let half = app.half(EMAIL).await;
        assert!(half.factors.passkey && !half.factors.code, "{:?}", half.factors);
        let step = SecondStep { half_token: half.half_token.clone(), code: "123456".to_owned() };
        let by_code = session::finish(&app.ctx, HERE, &step).await.expect_err("there is no code");
        assert_eq!(by_code.code(), Code::WrongCode);
        let challenge = session::sign_in_challenge(&app.ctx, &half.half_token).await.expect("asked");
        assert_eq!(challenge.credentials.len(), 1);
        let answer = passkey.sign(&challenge);
        assert_eq!(code(sign_in(app, "", answer.clone()).await), Code::WrongPasskey, "it is for the second step");
        sign_in(app, &half.half_token, answer.clone()).await.expect("the second step");
        let again = sign_in(app, &half.half_token, answer).await;
        assert_eq!(code(again), Code::Unauthenticated, "the half session is used up");
    }

    async fn answer_is_taken_once_and_within_five_minutes(app: &TestApp) {
        let person = app.operator().await;
        let (mut passkey, _) = SoftwarePasskey::registered(app, &person, 1).await;
        let challenge = session::sign_in_challenge(&app.ctx, "").await.expect("asked");
        let answer = passkey.sign(&challenge);
        sign_in(app, "", answer.clone()).await.expect("it holds");
        assert_eq!(code(sign_in(app, "", answer).await), Code::WrongPasskey, "once");
        let late = passkey.sign(&session::sign_in_challenge(&app.ctx, "").await.expect("asked"));
        app.clock.advance(LIFETIME);
        assert_eq!(code(sign_in(app, "", late).await), Code::WrongPasskey, "too late");
        alone(app, &mut passkey).await.expect("a new challenge");
        let count = passkey_answer::Entity::find().count(app.ctx.db.read()).await.expect("counted");
        assert_eq!(count, 1, "those that are over are forgotten");
    }

    async fn answer_from_elsewhere_is_refused(app: &TestApp) {
        let person = app.operator().await;
        let (mut passkey, _) = SoftwarePasskey::registered(app, &person, 1).await;
        let own = std::mem::replace(&mut passkey.origin, "https://undertone.example.net".to_owned());
        assert_eq!(code(alone(app, &mut passkey).await), Code::WrongPasskey, "another origin");
        passkey.origin = own;
        passkey.flags = 0x01;
        assert_eq!(code(alone(app, &mut passkey).await), Code::WrongPasskey, "the user was not recognized");
        passkey.flags = 0x05;
        let mut challenge = session::sign_in_challenge(&app.ctx, "").await.expect("asked");
        challenge.relying_party = "example.net".to_owned();
        let answer = passkey.sign(&challenge);
        assert_eq!(code(sign_in(app, "", answer).await), Code::WrongPasskey, "another relying party");
        let mut stranger = SoftwarePasskey::new(app, &person, 2);
        assert_eq!(code(alone(app, &mut stranger).await), Code::WrongPasskey, "a key that is not registered");
        alone(app, &mut passkey).await.expect("its own");
    }

    async fn counter_that_does_not_grow_is_refused_and_announced(app: &TestApp) {
        let person = app.operator().await;
        let mut passkey = SoftwarePasskey::new(app, &person, 1);
        passkey.counter = 5;
        passkey.register(app, &person, "the key ring").await.expect("registered");
        passkey.counter = 6;
        alone(app, &mut passkey).await.expect("6 follows 5");
        passkey.counter = 6;
        assert_eq!(code(alone(app, &mut passkey).await), Code::WrongPasskey, "a copy would give 6 again");
        assert!(announced(app, &person, "a copy of it may be in use").await);
        passkey.counter = 7;
        alone(app, &mut passkey).await.expect("the original goes on");
    }

    async fn ten_passkeys_are_the_most_and_each_is_registered_once(app: &TestApp) {
        let person = app.operator().await;
        let (_, first) = SoftwarePasskey::registered(app, &person, 1).await;
        for seed in 2..=MOST_PASSKEYS as u8 {
            SoftwarePasskey::registered(app, &person, seed).await;
        }
        let eleventh = SoftwarePasskey::new(app, &person, 99).register(app, &person, "one more").await;
        assert_eq!(eleventh.expect_err("too many").code(), Code::ValidationFailed);
        let actor = person.actor(app).await;
        remove(&app.ctx, &actor, first.id).await.expect("removed");
        let again = SoftwarePasskey::new(app, &person, 2).register(app, &person, "again").await;
        assert_eq!(again.expect_err("it is registered").code(), Code::ValidationFailed);
        SoftwarePasskey::registered(app, &person, 99).await;
    }

    async fn registering_and_removing_take_a_fresh_proof(app: &TestApp) {
        let person = app.operator().await;
        let (mut passkey, listed) = SoftwarePasskey::registered(app, &person, 1).await;
        app.clock.advance(FRESH + Duration::SECOND);
        let actor = person.actor(app).await;
        let other = SoftwarePasskey::new(app, &person, 2).register(app, &person, "another").await;
        assert_eq!(other.expect_err("stale").code(), Code::ProofStale);
        assert_eq!(remove(&app.ctx, &actor, listed.id).await.expect_err("stale").code(), Code::ProofStale);
        let challenge = challenge(&app.ctx, &actor, PasskeyUse::Prove).await.expect("asked");
        let prove = async |passkey: PasskeyAssertion| {
            let proof = IdentityProof { password: String::new(), code: String::new(), passkey: Some(passkey) };
            session::prove_identity(&app.ctx, &actor, &proof).await
        };
        let for_sign_in = passkey.sign(&session::sign_in_challenge(&app.ctx, "").await.expect("asked"));
        assert_eq!(prove(for_sign_in).await.expect_err("for another use").code(), Code::WrongPasskey);
        prove(passkey.sign(&challenge)).await.expect("the passkey proves it");
        assert!(person.actor(app).await.is_fresh);
        remove(&app.ctx, &person.actor(app).await, listed.id).await.expect("removed");
    }

    async fn passkey_of_another_member_opens_nothing_of_mine(app: &TestApp) {
        let founded = app.founded().await;
        let (mut theirs, listed) = SoftwarePasskey::registered(app, &founded.north.1, 1).await;
        let (mine, _) = SoftwarePasskey::registered(app, &founded.operator, 2).await;
        let half = app.half(EMAIL).await;
        let challenge = session::sign_in_challenge(&app.ctx, &half.half_token).await.expect("asked");
        assert_eq!(code(sign_in(app, &half.half_token, theirs.sign(&challenge)).await), Code::WrongPasskey);
        drop(mine);
        let actor = founded.operator.actor(app).await;
        assert_eq!(remove(&app.ctx, &actor, listed.id).await.expect_err("not mine").code(), Code::NotFound);
    }

    async fn passkey_is_the_second_factor_that_a_strict_server_asks_for(app: &TestApp) {
        let person = app.operator().await;
        let config = Config { require_two_factor: true, ..app.ctx.config.clone() };
        let strict = app.restarted_with(config).await;
        let token = &person.session.tokens.access_token;
        assert!(session::authenticate(&strict, token).await.expect("signed in").is_confined());
        SoftwarePasskey::registered(app, &person, 1).await;
        assert!(!session::authenticate(&strict, token).await.expect("signed in").is_confined());
        strict.db.clone().close().await.expect("closed");
    }

    async fn second_factor_that_is_cleared_takes_the_passkeys_along(app: &TestApp) {
        let person = app.operator().await;
        SoftwarePasskey::registered(app, &person, 1).await;
        let member = person.session.member.id;
        app.ctx.db.write("test", async |tx| factor::clear(tx, member).await).await.expect("cleared");
        assert_eq!(passkey::Entity::find().count(app.ctx.db.read()).await.expect("counted"), 0);
    }
}
