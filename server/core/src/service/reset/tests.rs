use sea_orm::{ColumnTrait as _, EntityTrait as _, QueryFilter as _};
use time::Duration;
use undertone_api::account::{NewPassword, NewReset};
use undertone_api::api_key::{KeyScope, NewApiKey};
use undertone_api::notification::{NotificationKind, NotificationQuery};
use undertone_api::problem::Code;
use undertone_api::session::SignIn;

use super::{create, preview, redeem};
use crate::model::{audit_log, credential_notice};
use crate::service::session::{self, SignInResult};
use crate::service::{api_key, factor, notification};
use crate::testing::{HERE, PASSWORD, on_both};

const NEW: &str = "some other sentence of mine";

fn new_reset(email: &str, clear_second_factor: bool) -> NewReset {
    NewReset { email: email.to_owned(), clear_second_factor }
}

fn secret(link: &str) -> &str {
    link.rsplit('/').next().expect("a link has parts")
}

fn password(text: &str) -> NewPassword {
    NewPassword { password: text.to_owned() }
}

fn credentials(password: &str) -> SignIn {
    SignIn { email: "northadmin@example.org".to_owned(), password: password.to_owned() }
}

on_both! {
    async fn a_link_sets_a_password_once_and_ends_every_session(app: &TestApp) {
        let founded = app.founded().await;
        let operator = founded.operator.actor(app).await;
        let reset = create(&app.ctx, &operator, &new_reset(" NorthAdmin@example.org", false)).await.expect("made");
        assert!(!preview(&app.ctx, HERE, secret(&reset.link)).await.expect("there").clears_second_factor);
        redeem(&app.ctx, HERE, secret(&reset.link), &password(NEW)).await.expect("set");
        let over = session::authenticate(&app.ctx, &founded.north.1.session.tokens.access_token).await;
        assert_eq!(over.expect_err("ended").code(), Code::Unauthenticated);
        let old = session::sign_in(&app.ctx, HERE, &credentials(PASSWORD)).await;
        assert_eq!(old.expect_err("it was replaced").code(), Code::WrongCredentials);
        assert!(matches!(session::sign_in(&app.ctx, HERE, &credentials(NEW)).await, Ok(SignInResult::Whole(_))));
        let again = redeem(&app.ctx, HERE, secret(&reset.link), &password("yet another sentence of mine")).await;
        assert_eq!(again.expect_err("spent").code(), Code::LinkSpent);
    }

    async fn a_reset_is_announced_to_the_member_and_to_the_sites(app: &TestApp) {
        let founded = app.founded().await;
        let operator = founded.operator.actor(app).await;
        let reset = create(&app.ctx, &operator, &new_reset("northadmin@example.org", false)).await.expect("made");
        redeem(&app.ctx, HERE, secret(&reset.link), &password(NEW)).await.expect("set");
        let Ok(SignInResult::Whole(session)) = session::sign_in(&app.ctx, HERE, &credentials(NEW)).await else {
            panic!("the password is right")
        };
        let member = session::authenticate(&app.ctx, &session.tokens.access_token).await.expect("signed in");
        let query = NotificationQuery { kind: Some(NotificationKind::CredentialsChanged), ..NotificationQuery::default() };
        let notices = notification::list(&app.ctx, &member, &query).await.expect("told").items;
        assert_eq!(notices.len(), 2, "{notices:?}");
        assert!(notices.iter().any(|item| item.text.contains("made a link")), "{notices:?}");
        assert!(notices.iter().any(|item| item.text.contains("was reset by an operator's link")), "{notices:?}");
        let rows = credential_notice::Entity::find().all(app.ctx.db.read()).await.expect("read");
        assert!(rows.len() == 2 && rows.iter().all(|row| row.organization_id == founded.north.0.0), "{rows:?}");
    }

    async fn a_link_revokes_every_key_that_still_worked_and_the_log_says_so(app: &TestApp) {
        let founded = app.founded().await;
        let theirs = founded.north.1.actor(app).await;
        let new = NewApiKey { name: "for a program".to_owned(), scopes: vec![KeyScope::Read], days: 30 };
        let mut secrets = Vec::new();
        for _ in 0..2 {
            let key = api_key::create(&app.ctx, &theirs, &new).await.expect("made");
            secrets.push(key.secret.expect("the answer that made it holds it"));
        }
        let other = api_key::create(&app.ctx, &founded.south.1.actor(app).await, &new).await.expect("made");
        let operator = founded.operator.actor(app).await;
        let reset = create(&app.ctx, &operator, &new_reset("northadmin@example.org", false)).await.expect("made");
        session::authenticate(&app.ctx, &secrets[0]).await.expect("a link that nobody has used changes nothing");
        redeem(&app.ctx, HERE, secret(&reset.link), &password(NEW)).await.expect("set");
        for key in &secrets {
            let refused = session::authenticate(&app.ctx, key).await.expect_err("revoked");
            assert_eq!(refused.code(), Code::Unauthenticated);
        }
        session::authenticate(&app.ctx, &other.secret.expect("made")).await.expect("nobody else's are");
        let log = audit_log::Entity::find().filter(audit_log::Column::What.eq("password_reset"));
        let detail = log.one(app.ctx.db.read()).await.expect("read").expect("recorded").detail;
        assert!(detail.contains("\"keys_revoked\":2"), "{detail}");
    }

    async fn a_link_is_over_after_a_day_and_a_newer_one_withdraws_it(app: &TestApp) {
        let founded = app.founded().await;
        let operator = founded.operator.actor(app).await;
        let first = create(&app.ctx, &operator, &new_reset("northadmin@example.org", false)).await.expect("made");
        let second = create(&app.ctx, &operator, &new_reset("northadmin@example.org", false)).await.expect("made");
        assert_eq!(preview(&app.ctx, HERE, secret(&first.link)).await.expect_err("withdrawn").code(), Code::LinkSpent);
        app.clock.advance(Duration::hours(24) - Duration::SECOND);
        preview(&app.ctx, HERE, secret(&second.link)).await.expect("still there");
        app.clock.advance(Duration::SECOND);
        assert_eq!(preview(&app.ctx, HERE, secret(&second.link)).await.expect_err("over").code(), Code::LinkSpent);
    }

    async fn the_second_factor_stays_unless_the_link_says_otherwise(app: &TestApp) {
        let founded = app.founded().await;
        app.two_factor(&founded.north.1).await;
        let operator = founded.operator.actor(app).await;
        let keeping = create(&app.ctx, &operator, &new_reset("northadmin@example.org", false)).await.expect("made");
        redeem(&app.ctx, HERE, secret(&keeping.link), &password(NEW)).await.expect("set");
        assert!(matches!(session::sign_in(&app.ctx, HERE, &credentials(NEW)).await, Ok(SignInResult::Half(_))));
        let clearing = create(&app.ctx, &operator, &new_reset("northadmin@example.org", true)).await.expect("made");
        assert!(preview(&app.ctx, HERE, secret(&clearing.link)).await.expect("there").clears_second_factor);
        redeem(&app.ctx, HERE, secret(&clearing.link), &password(PASSWORD)).await.expect("set");
        let Ok(SignInResult::Whole(back)) = session::sign_in(&app.ctx, HERE, &credentials(PASSWORD)).await else {
            panic!("no code is asked for")
        };
        let actor = session::authenticate(&app.ctx, &back.tokens.access_token).await.expect("signed in");
        assert_eq!(factor::state(&app.ctx, &actor).await.expect("told").since, None);
    }

    async fn only_operators_make_links_and_only_for_members(app: &TestApp) {
        let founded = app.founded().await;
        let refused = create(&app.ctx, &founded.north.1.actor(app).await, &new_reset("operator@example.org", false)).await;
        assert_eq!(refused.expect_err("no").code(), Code::Forbidden);
        let nobody = create(&app.ctx, &founded.operator.actor(app).await, &new_reset("nobody@example.org", false)).await;
        assert_eq!(nobody.expect_err("none").code(), Code::NotFound);
    }

    async fn a_password_that_is_guessed_early_does_not_spend_the_link(app: &TestApp) {
        let founded = app.founded().await;
        let operator = founded.operator.actor(app).await;
        let reset = create(&app.ctx, &operator, &new_reset("northadmin@example.org", false)).await.expect("made");
        for weak in ["short", "passwordpassword", "northadmin1234"] {
            let refused = redeem(&app.ctx, HERE, secret(&reset.link), &password(weak)).await;
            let problem = refused.expect_err(weak).into_problem();
            assert_eq!((problem.code, problem.violations[0].field.as_str()), (Code::ValidationFailed, "password"));
        }
        redeem(&app.ctx, HERE, secret(&reset.link), &password(NEW)).await.expect("it still works");
    }

    async fn guessing_links_closes_the_door(app: &TestApp) {
        for guess in 0..50 {
            let refused = preview(&app.ctx, HERE, &format!("{guess:064}")).await;
            assert_eq!(refused.expect_err("none").code(), Code::LinkSpent);
        }
        assert_eq!(preview(&app.ctx, HERE, "x").await.expect_err("closed").code(), Code::RateLimited);
    }
}
