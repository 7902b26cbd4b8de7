use sea_orm::{ActiveModelTrait as _, EntityTrait as _, IntoActiveModel as _};
use time::Duration;
use undertone_api::account::{FactorCode, FactorProof};
use undertone_api::problem::Code;

use super::{OFFER, confirm, drop, offer, renew_codes, state};
use crate::auth::{Operation, Place, policy};
use crate::config::Config;
use crate::model::{member, recovery_code, second_factor};
use crate::service::session;
use crate::testing::{PASSWORD, code, on_both};

fn with_code(code: impl Into<String>) -> FactorCode {
    FactorCode { code: code.into() }
}

on_both! {
    async fn a_secret_is_in_force_only_when_a_code_of_it_was_given(app: &TestApp) {
        let person = app.operator().await;
        let actor = person.actor(app).await;
        let first = offer(&app.ctx, &actor).await.expect("offered");
        assert!(first.uri.contains(&first.secret) && first.secret.len() == 32);
        let now = state(&app.ctx, &actor).await.expect("told");
        assert_eq!((now.since, now.offered, now.recovery_codes_left), (None, true, 0));
        let second = offer(&app.ctx, &actor).await.expect("offered again");
        let refused = confirm(&app.ctx, &actor, &with_code(code(&first.secret, app))).await;
        assert_eq!(refused.expect_err("the first offer was replaced").code(), Code::WrongCode);
        let recovery = confirm(&app.ctx, &actor, &with_code(code(&second.secret, app))).await.expect("right");
        assert_eq!(recovery.codes.len(), 10);
        assert!(recovery.codes.iter().all(|code| code.len() == 19), "{} characters", recovery.codes[0].len());
        let now = state(&app.ctx, &actor).await.expect("told");
        assert_eq!((now.since, now.offered, now.recovery_codes_left), (Some(app.clock.now()), false, 10));
    }

    async fn an_offer_waits_a_quarter_of_an_hour(app: &TestApp) {
        let actor = app.operator().await.actor(app).await;
        let offered = offer(&app.ctx, &actor).await.expect("offered");
        app.clock.advance(OFFER);
        let late = confirm(&app.ctx, &actor, &with_code(code(&offered.secret, app))).await;
        assert_eq!(late.expect_err("over").code(), Code::WrongState);
    }

    async fn nothing_that_lets_anybody_in_stands_in_the_tables(app: &TestApp) {
        let person = app.operator().await;
        let offered = offer(&app.ctx, &person.actor(app).await).await.expect("offered");
        let recovery = confirm(&app.ctx, &person.actor(app).await, &with_code(code(&offered.secret, app))).await.expect("right");
        let row = second_factor::Entity::find().one(app.ctx.db.read()).await.expect("read").expect("there");
        let secret = totp_rs::Secret::try_from_base32(&offered.secret).expect("base 32");
        assert!(!row.secret.contains(&offered.secret) && !row.secret.contains(&hex::encode(secret.as_bytes())));
        let rows = recovery_code::Entity::find().all(app.ctx.db.read()).await.expect("read");
        for (row, code) in rows.iter().flat_map(|row| recovery.codes.iter().map(move |code| (row, code))) {
            assert!(!row.code_hash.contains(code) && !row.code_hash.contains(&code.replace('-', "")));
        }
    }

    async fn a_second_device_waits_until_the_first_is_off(app: &TestApp) {
        let person = app.operator().await;
        app.two_factor(&person).await;
        let again = offer(&app.ctx, &person.actor(app).await).await;
        assert_eq!(again.expect_err("it is on").code(), Code::WrongState);
    }

    async fn switching_it_off_takes_the_password_and_a_code(app: &TestApp) {
        let person = app.operator().await;
        let actor = person.actor(app).await;
        let device = app.two_factor(&person).await;
        app.clock.advance(Duration::minutes(1));
        let proof = |password: &str, code: String| FactorProof { password: password.to_owned(), code };
        let wrong = drop(&app.ctx, &actor, &proof("not my password", device.code(app))).await;
        assert_eq!(wrong.expect_err("password").code(), Code::WrongCredentials);
        let wrong = drop(&app.ctx, &actor, &proof(PASSWORD, "12345".to_owned())).await;
        assert_eq!(wrong.expect_err("code").code(), Code::WrongCode);
        assert!(state(&app.ctx, &actor).await.expect("told").since.is_some());
        drop(&app.ctx, &actor, &proof(PASSWORD, device.code(app))).await.expect("both are right");
        let now = state(&app.ctx, &actor).await.expect("told");
        assert_eq!((now.since, now.recovery_codes_left), (None, 0));
        let none = drop(&app.ctx, &actor, &proof(PASSWORD, device.code(app))).await;
        assert_eq!(none.expect_err("it is off").code(), Code::WrongState);
    }

    async fn member_without_password_switches_factor_off_by_code(app: &TestApp) {
        let person = app.operator().await;
        let actor = person.actor(app).await;
        let device = app.two_factor(&person).await;
        assert!(state(&app.ctx, &actor).await.expect("told").password, "this one signs in by a password");
        app.ctx.db.write("test", async |tx| {
            let row = member::Entity::find_by_id(actor.id().0).one(tx).await?.expect("the operator");
            let row = member::Model { password_hash: String::new(), ..row };
            Ok(row.into_active_model().reset_all().update(tx).await?)
        }).await.expect("as a provider makes members");
        assert!(!state(&app.ctx, &actor).await.expect("told").password);
        app.clock.advance(Duration::minutes(1));
        let proof = |code: String| FactorProof { password: String::new(), code };
        let wrong = drop(&app.ctx, &actor, &proof("000000".to_owned())).await;
        assert_eq!(wrong.expect_err("a session alone is not enough").code(), Code::WrongCode);
        drop(&app.ctx, &actor, &proof(device.code(app))).await.expect("the code is right");
        assert_eq!(state(&app.ctx, &actor).await.expect("told").since, None);
    }

    async fn new_recovery_codes_end_the_old_ones(app: &TestApp) {
        let person = app.operator().await;
        let actor = person.actor(app).await;
        let device = app.two_factor(&person).await;
        let recovery = renew_codes(&app.ctx, &actor, &with_code(device.codes[0].clone())).await.expect("a code is a code");
        assert_eq!(recovery.codes.len(), 10);
        let old = renew_codes(&app.ctx, &actor, &with_code(device.codes[1].clone())).await;
        assert_eq!(old.expect_err("ended").code(), Code::WrongCode);
        renew_codes(&app.ctx, &actor, &with_code(recovery.codes[1].clone())).await.expect("the new ones work");
    }

    async fn member_without_required_second_factor_can_only_set_it_up(app: &TestApp) {
        let founded = app.founded().await;
        let config = Config { require_two_factor: true, ..app.ctx.config.clone() };
        let strict = app.restarted_with(config).await;
        let token = &founded.north.1.session.tokens.access_token;
        let actor = session::authenticate(&strict, token).await.expect("the session goes on");
        let north = Place::Organization(founded.north.0);
        let mut open = Vec::new();
        for operation in Operation::ALL {
            match policy::check(&actor, *operation, north) {
                Ok(()) => open.push(*operation),
                Err(error) => assert_eq!(error.code(), Code::SecondFactorMissing, "{operation:?}"),
            }
            assert_eq!(policy::allows(&actor, *operation, north), open.contains(operation), "{operation:?}");
        }
        let expected = [
            Operation::ReadSelf,
            Operation::EndSession,
            Operation::ManageFactor,
            Operation::ChangePassword,
            Operation::ProveIdentity,
        ];
        open.sort_by_key(|operation| format!("{operation:?}"));
        let mut operations = expected.to_vec();
        operations.sort_by_key(|operation| format!("{operation:?}"));
        assert_eq!(open, operations);
        let offered = offer(&strict, &actor).await.expect("offered");
        confirm(&strict, &actor, &with_code(code(&offered.secret, app))).await.expect("right");
        let actor = session::authenticate(&strict, token).await.expect("signed in");
        policy::check(&actor, Operation::InviteMember, north).expect("everything is open now");
        assert!(state(&strict, &actor).await.expect("told").required);
        strict.db.clone().close().await.expect("closed");
    }
}
