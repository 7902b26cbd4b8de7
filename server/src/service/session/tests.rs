use time::Duration;
use undertone_api::problem::Code;
use undertone_api::session::{Refresh, SignIn};

use super::{Renewed, authenticate, refresh, sign_in, sign_out};
use crate::testing::{HERE, PASSWORD, on_both};

fn credentials(email: &str, password: &str) -> SignIn {
    SignIn { email: email.to_owned(), password: password.to_owned() }
}

on_both! {
    async fn a_member_signs_in_with_the_email_in_any_case(app: &TestApp) {
        let known = app.operator().await.session.member;
        let session = sign_in(&app.ctx, HERE, &credentials(" Operator@Example.ORG", PASSWORD)).await.expect("right");
        assert_eq!(session.member, known);
        let actor = authenticate(&app.ctx, &session.tokens.access_token).await.expect("signed in");
        assert_eq!(actor.member, known);
    }

    async fn a_wrong_password_and_an_unknown_email_get_the_same_answer(app: &TestApp) {
        app.operator().await;
        let wrong = sign_in(&app.ctx, HERE, &credentials("operator@example.org", "not the password")).await;
        let unknown = sign_in(&app.ctx, HERE, &credentials("nobody@example.org", PASSWORD)).await;
        let (wrong, unknown) = (wrong.expect_err("wrong").into_problem(), unknown.expect_err("unknown").into_problem());
        assert_eq!(wrong, unknown);
        assert_eq!(wrong.code, Code::WrongCredentials);
    }

    async fn guessing_closes_the_door_even_to_the_right_password_for_a_quarter_of_an_hour(app: &TestApp) {
        app.operator().await;
        for _ in 0..10 {
            let tried = sign_in(&app.ctx, HERE, &credentials("operator@example.org", "a guess")).await;
            assert_eq!(tried.expect_err("wrong").code(), Code::WrongCredentials);
        }
        let right = credentials("operator@example.org", PASSWORD);
        assert_eq!(sign_in(&app.ctx, HERE, &right).await.expect_err("closed").code(), Code::RateLimited);
        app.clock.advance(Duration::minutes(15));
        sign_in(&app.ctx, HERE, &right).await.expect("open again");
    }

    async fn an_access_token_is_over_after_its_minutes_and_the_refresh_token_goes_on(app: &TestApp) {
        let first = app.operator().await.session.tokens;
        app.clock.advance(Duration::minutes(15));
        let over = authenticate(&app.ctx, &first.access_token).await.expect_err("over");
        assert_eq!(over.code(), Code::Unauthenticated);
        let Ok(Renewed::Pair(_, next)) = refresh(&app.ctx, &first.refresh_token).await else { panic!("renewed") };
        authenticate(&app.ctx, &next.access_token).await.expect("signed in");
    }

    async fn an_old_refresh_token_ends_the_session_for_everybody(app: &TestApp) {
        let first = app.operator().await.session.tokens;
        let Ok(Renewed::Pair(_, next)) = refresh(&app.ctx, &first.refresh_token).await else { panic!("renewed") };
        app.clock.advance(Duration::minutes(1));
        assert_eq!(refresh(&app.ctx, &first.refresh_token).await.expect_err("old").code(), Code::Unauthenticated);
        assert_eq!(refresh(&app.ctx, &next.refresh_token).await.expect_err("ended").code(), Code::Unauthenticated);
        assert_eq!(authenticate(&app.ctx, &next.access_token).await.expect_err("ended").code(), Code::Unauthenticated);
    }

    async fn requests_side_by_side_do_not_end_the_session(app: &TestApp) {
        let first = app.operator().await.session.tokens;
        let (one, two) = tokio::join!(
            refresh(&app.ctx, &first.refresh_token),
            refresh(&app.ctx, &first.refresh_token),
        );
        let renewed = [one.expect("holds"), two.expect("holds")];
        assert_eq!(renewed.iter().filter(|renewed| matches!(renewed, Renewed::Pair(..))).count(), 1);
        assert_eq!(renewed.iter().filter(|renewed| matches!(renewed, Renewed::Late(_))).count(), 1);
    }

    async fn a_session_that_nobody_uses_is_over(app: &TestApp) {
        let tokens = app.operator().await.session.tokens;
        app.clock.advance(Duration::days(30));
        assert_eq!(refresh(&app.ctx, &tokens.refresh_token).await.expect_err("over").code(), Code::Unauthenticated);
    }

    async fn signing_out_ends_the_access_token_at_once(app: &TestApp) {
        let person = app.operator().await;
        sign_out(&app.ctx, &person.actor(app).await).await.expect("out");
        let after = authenticate(&app.ctx, &person.session.tokens.access_token).await;
        assert_eq!(after.expect_err("over").code(), Code::Unauthenticated);
    }

    async fn what_is_no_token_is_refused(app: &TestApp) {
        app.operator().await;
        for token in ["", ".", "x.y", "00000000-0000-0000-0000-000000000000.00"] {
            let refresh_token = Refresh { refresh_token: token.to_owned() }.refresh_token;
            assert_eq!(refresh(&app.ctx, &refresh_token).await.expect_err(token).code(), Code::Unauthenticated);
        }
    }
}
