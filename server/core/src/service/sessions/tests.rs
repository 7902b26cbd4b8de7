use undertone_api::account::ChangePassword;
use undertone_api::problem::Code;
use undertone_api::session::SignIn;

use super::{MOST, end, end_others, list};
use crate::service::password;
use crate::service::session::{SignInResult, authenticate, begin, sign_in};
use crate::testing::{HERE, PASSWORD, TestApp, on_both};

async fn another(app: &TestApp, password: &str) -> String {
    let credentials = SignIn { email: "operator@example.org".to_owned(), password: password.to_owned() };
    match sign_in(&app.ctx, HERE, &credentials).await {
        Ok(SignInResult::Whole(session)) => session.tokens.access_token,
        other => panic!("{other:?}"),
    }
}

on_both! {
    async fn one_session_is_ended_and_the_others_go_on(app: &TestApp) {
        let person = app.operator().await;
        let (first, second) = (another(app, PASSWORD).await, another(app, PASSWORD).await);
        let actor = authenticate(&app.ctx, &first).await.expect("signed in");
        end(&app.ctx, &person.actor(app).await, actor.session().expect("a session")).await.expect("ended");
        assert_eq!(authenticate(&app.ctx, &first).await.expect_err("over").code(), Code::Unauthenticated);
        authenticate(&app.ctx, &second).await.expect("goes on");
        let again = end(&app.ctx, &person.actor(app).await, actor.session().expect("a session")).await;
        assert_eq!(again.expect_err("over already").code(), Code::NotFound);
    }

    async fn signing_out_everywhere_else_keeps_this_one(app: &TestApp) {
        let person = app.operator().await;
        let other = another(app, PASSWORD).await;
        assert_eq!(end_others(&app.ctx, &person.actor(app).await).await.expect("ended"), 1);
        assert_eq!(authenticate(&app.ctx, &other).await.expect_err("over").code(), Code::Unauthenticated);
        let remaining = list(&app.ctx, &person.actor(app).await).await.expect("listed");
        assert_eq!(remaining.iter().map(|session| session.current).collect::<Vec<_>>(), [true]);
    }

    async fn nobody_ends_or_sees_the_sessions_of_others(app: &TestApp) {
        let founded = app.founded().await;
        let stranger = founded.south.1.actor(app).await;
        let id = founded.north.1.actor(app).await.session().expect("a session");
        assert_eq!(end(&app.ctx, &stranger, id).await.expect_err("not theirs").code(), Code::NotFound);
        assert!(list(&app.ctx, &stranger).await.expect("listed").iter().all(|session| session.id != id));
    }

    async fn a_changed_password_ends_all_other_sessions_and_the_old_one_is_wrong(app: &TestApp) {
        let person = app.operator().await;
        let other = another(app, PASSWORD).await;
        let change = |old: &str, new: &str| ChangePassword { old: old.to_owned(), new: new.to_owned(), keep_keys: false };
        let actor = person.actor(app).await;
        let new = "some other sentence of mine";
        let wrong = password::change(&app.ctx, &actor, &change("not my password", new)).await;
        assert_eq!(wrong.expect_err("the old one is asked for").code(), Code::WrongCredentials);
        for weak in [PASSWORD, "short", "123456789012", "operator2026"] {
            let refused = password::change(&app.ctx, &actor, &change(PASSWORD, weak)).await.expect_err(weak);
            assert_eq!(refused.into_problem().violations[0].field, "new", "{weak}");
        }
        authenticate(&app.ctx, &other).await.expect("a refusal changes nothing");
        password::change(&app.ctx, &actor, &change(PASSWORD, new)).await.expect("changed");
        assert_eq!(authenticate(&app.ctx, &other).await.expect_err("over").code(), Code::Unauthenticated);
        person.actor(app).await;
        another(app, new).await;
        let old = SignIn { email: "operator@example.org".to_owned(), password: PASSWORD.to_owned() };
        assert_eq!(sign_in(&app.ctx, HERE, &old).await.expect_err("replaced").code(), Code::WrongCredentials);
    }

    async fn the_session_that_was_not_used_for_longest_makes_room_for_the_next(app: &TestApp) {
        let person = app.operator().await;
        let id = person.session.member.id;
        let mut last = String::new();
        for number in 1..=MOST {
            app.clock.advance(time::Duration::SECOND);
            let session = app.ctx.db.write("test", async |tx| begin(&app.ctx, tx, id, &HERE.into()).await).await;
            last = session.expect("begun").access_token;
            let first = authenticate(&app.ctx, &person.session.tokens.access_token).await;
            assert_eq!(first.is_ok(), number < MOST, "{number} more");
        }
        let actor = authenticate(&app.ctx, &last).await.expect("signed in");
        assert_eq!(list(&app.ctx, &actor).await.expect("listed").len(), MOST);
    }

    async fn changed_password_revokes_the_keys_unless_they_are_kept(app: &TestApp) {
        use undertone_api::api_key::{KeyScope, NewApiKey};
        let person = app.operator().await;
        let by = person.actor(app).await;
        let new = NewApiKey { name: "a program".to_owned(), scopes: vec![KeyScope::Read], days: 30 };
        let key = crate::service::api_key::create(&app.ctx, &by, &new).await.expect("made").secret.expect("shown once");
        let other = "another long enough sentence";
        let change = ChangePassword { old: PASSWORD.to_owned(), new: other.to_owned(), keep_keys: true };
        password::change(&app.ctx, &by, &change).await.expect("changed");
        authenticate(&app.ctx, &key).await.expect("the key goes on");
        let revoked = ChangePassword { old: other.to_owned(), new: "a third sentence, longer still".to_owned(), keep_keys: false };
        password::change(&app.ctx, &by, &revoked).await.expect("changed");
        assert_eq!(authenticate(&app.ctx, &key).await.expect_err("revoked").code(), Code::Unauthenticated);
    }
}
