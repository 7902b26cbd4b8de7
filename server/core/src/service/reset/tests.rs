use sea_orm::{ActiveModelTrait as _, ColumnTrait as _, EntityTrait as _, IntoActiveModel as _, QueryFilter as _};
use time::Duration;
use undertone_api::account::{NewPassword, NewReset};
use undertone_api::api_key::{KeyScope, NewApiKey};
use undertone_api::notification::{NotificationKind, NotificationQuery};
use undertone_api::problem::Code;
use undertone_api::session::SignIn;

use super::{create, preview, redeem};
use crate::model::{audit_log, credential_notice, member};
use crate::service::session::{self, SignInResult};
use crate::service::world::people;
use crate::service::{api_key, factor, notification, operator};
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

    async fn second_factor_is_removed_by_the_links_of_two_operators(app: &TestApp) {
        let founded = app.founded().await;
        app.two_factor(&founded.north.1).await;
        let first = founded.operator.actor(app).await;
        let colleague = people::somebody(&app.ctx, "second operator", true, &[]).await;
        let token = people::token(&app.ctx, colleague).await;
        let second = session::authenticate(&app.ctx, &token).await.expect("signed in");
        let request = new_reset("northadmin@example.org", true);
        let code = async |link: &str| redeem(&app.ctx, HERE, secret(link), &password(NEW)).await.map_err(|error| error.code());

        let alone = create(&app.ctx, &first, &request).await.expect("made").link;
        assert_eq!(code(&alone).await, Err(Code::WrongState), "one operator alone");
        let again = create(&app.ctx, &first, &request).await.expect("made").link;
        assert_eq!(code(&alone).await, Err(Code::LinkSpent), "a newer link of the same operator withdraws it");
        assert_eq!(code(&again).await, Err(Code::WrongState), "two links of one operator");
        let keeping = create(&app.ctx, &second, &new_reset("northadmin@example.org", false)).await.expect("made").link;
        assert_eq!(code(&again).await, Err(Code::LinkSpent), "a link that keeps the factor withdraws those before");
        let theirs = create(&app.ctx, &second, &request).await.expect("made").link;
        assert_eq!(code(&keeping).await, Err(Code::LinkSpent));
        let again = create(&app.ctx, &first, &request).await.expect("made").link;
        app.clock.advance(Duration::hours(24) - Duration::SECOND);
        assert_eq!(code(&theirs).await, Ok(()), "both operators agree");
        assert_eq!(code(&again).await, Err(Code::LinkSpent), "both links are used together");
        let session = session::sign_in(&app.ctx, HERE, &credentials(NEW)).await;
        assert!(matches!(session, Ok(SignInResult::Whole(_))), "no code is asked for");

    }

    async fn retired_operator_removes_no_second_factor_and_the_terminal_needs_none(app: &TestApp) {
        let founded = app.founded().await;
        app.two_factor(&founded.north.1).await;
        let first = founded.operator.actor(app).await;
        app.two_factor(&founded.operator).await;
        let mut operators = Vec::new();
        for name in ["second operator", "third operator"] {
            operators.push(people::somebody(&app.ctx, name, true, &[]).await);
        }
        let token = people::token(&app.ctx, operators[1]).await;
        let third = session::authenticate(&app.ctx, &token).await.expect("signed in");
        let code = async |link: &str| redeem(&app.ctx, HERE, secret(link), &password(NEW)).await.map_err(|error| error.code());
        let request = new_reset("northadmin@example.org", true);
        create(&app.ctx, &third, &request).await.expect("made");
        let link = create(&app.ctx, &first, &request).await.expect("made").link;
        app.ctx.db.write("test", async |tx| {
            let row = member::Entity::find_by_id(operators[1].0).one(tx).await?.expect("made");
            let row = member::Model { retired_at: Some(app.ctx.now()), ..row };
            row.into_active_model().reset_all().update(tx).await?;
            Ok(())
        }).await.expect("written");
        assert_eq!(code(&link).await, Err(Code::WrongState), "the other link is of a retired operator");
        let own = operator::reset_at_terminal(&app.ctx, "operator@example.org", true).await.expect("made").link;
        assert_eq!(code(&own).await, Ok(()));
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
