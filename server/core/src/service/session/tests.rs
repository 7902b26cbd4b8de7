use sea_orm::EntityTrait as _;
use time::Duration;
use undertone_api::account::{IdentityProof, SecondStep};
use undertone_api::notification::{NotificationKind, NotificationQuery};
use undertone_api::problem::Code;
use undertone_api::session::{RefreshRequest, SignIn};

use super::{RenewedSession, SignInResult, authenticate, finish, prove_identity, refresh, sign_in, sign_out};
use crate::auth::{FRESH, Origin};
use crate::model::attempt;
use crate::service::{notification, password, sessions};
use crate::testing::{HERE, PASSWORD, on_both};

fn credentials(email: &str, password: &str) -> SignIn {
    SignIn { email: email.to_owned(), password: password.to_owned() }
}

on_both! {
    async fn a_member_signs_in_with_the_email_in_any_case(app: &TestApp) {
        let member = app.operator().await.session.member;
        let right = credentials(" Operator@Example.ORG", PASSWORD);
        let Ok(SignInResult::Whole(session)) = sign_in(&app.ctx, HERE, &right).await else { panic!("right") };
        assert_eq!(session.member, member);
        let actor = authenticate(&app.ctx, &session.tokens.access_token).await.expect("signed in");
        assert_eq!(actor.member, member);
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

    async fn a_password_that_is_changed_while_it_is_proven_opens_nothing(app: &TestApp) {
        let person = app.operator().await;
        let member = person.session.member.id;
        let other = app.ctx.passwords.hash("another long enough password", [3; 16]).await.expect("hashed");
        let busy = app.ctx.passwords.busy().await;
        let ctx = app.ctx.clone();
        let late = tokio::spawn(async move { sign_in(&ctx, HERE, &credentials("operator@example.org", PASSWORD)).await });
        // The attempt is counted after the old hash was read, and before the password is compared with it.
        while attempt::Entity::find().all(app.ctx.db.read()).await.expect("read").is_empty() {
            tokio::task::yield_now().await;
        }
        app.ctx.db.write("test", async |tx| password::set(tx, member, &other).await).await.expect("changed");
        drop(busy);
        let refused = late.await.expect("it ends").expect_err("the password is another by now");
        assert_eq!(refused.code(), Code::WrongCredentials);
        let open = sessions::list(&app.ctx, &person.actor(app).await).await.expect("listed");
        assert_eq!(open.len(), 1, "the one that was there before");
    }

    async fn an_access_token_is_over_after_its_minutes_and_the_refresh_token_goes_on(app: &TestApp) {
        let first = app.operator().await.session.tokens;
        app.clock.advance(Duration::minutes(15));
        let over = authenticate(&app.ctx, &first.access_token).await.expect_err("over");
        assert_eq!(over.code(), Code::Unauthenticated);
        let Ok(RenewedSession::Pair(_, next)) = refresh(&app.ctx, &first.refresh_token).await else { panic!("renewed") };
        authenticate(&app.ctx, &next.access_token).await.expect("signed in");
    }

    async fn an_old_refresh_token_ends_the_session_for_everybody(app: &TestApp) {
        let first = app.operator().await.session.tokens;
        let Ok(RenewedSession::Pair(_, next)) = refresh(&app.ctx, &first.refresh_token).await else { panic!("renewed") };
        app.clock.advance(Duration::minutes(1));
        authenticate(&app.ctx, &next.access_token).await.expect("the new pair is used");
        assert_eq!(refresh(&app.ctx, &first.refresh_token).await.expect_err("old").code(), Code::Unauthenticated);
        assert_eq!(refresh(&app.ctx, &next.refresh_token).await.expect_err("ended").code(), Code::Unauthenticated);
        assert_eq!(authenticate(&app.ctx, &next.access_token).await.expect_err("ended").code(), Code::Unauthenticated);
    }

    async fn lost_answer_of_a_renewal_signs_nobody_out(app: &TestApp) {
        let first = app.operator().await.session.tokens;
        for _ in 0..3 {
            let Ok(RenewedSession::Pair(..)) = refresh(&app.ctx, &first.refresh_token).await else { panic!("renewed again") };
            app.clock.advance(Duration::minutes(1));
        }
        let Ok(RenewedSession::Pair(_, next)) = refresh(&app.ctx, &first.refresh_token).await else { panic!("renewed") };
        app.clock.advance(Duration::minutes(1));
        let Ok(RenewedSession::Pair(_, last)) = refresh(&app.ctx, &next.refresh_token).await else { panic!("renewed") };
        authenticate(&app.ctx, &last.access_token).await.expect("signed in");
        assert_eq!(refresh(&app.ctx, &first.refresh_token).await.expect_err("old").code(), Code::Unauthenticated);
        assert_eq!(authenticate(&app.ctx, &last.access_token).await.expect_err("ended").code(), Code::Unauthenticated);
    }

    async fn pair_whose_answer_counted_as_lost_ends_the_session(app: &TestApp) {
        let first = app.operator().await.session.tokens;
        let Ok(RenewedSession::Pair(_, lost)) = refresh(&app.ctx, &first.refresh_token).await else { panic!("renewed") };
        app.clock.advance(Duration::minutes(1));
        let Ok(RenewedSession::Pair(_, next)) = refresh(&app.ctx, &first.refresh_token).await else { panic!("renewed") };
        authenticate(&app.ctx, &next.access_token).await.expect("signed in");
        assert_eq!(refresh(&app.ctx, &lost.refresh_token).await.expect_err("a copy").code(), Code::Unauthenticated);
        assert_eq!(authenticate(&app.ctx, &next.access_token).await.expect_err("ended").code(), Code::Unauthenticated);
    }

    async fn renewal_is_confirmed_by_its_own_pair_once(app: &TestApp) {
        let first = app.operator().await.session.tokens;
        let Ok(RenewedSession::Pair(_, next)) = refresh(&app.ctx, &first.refresh_token).await else { panic!("renewed") };
        let confirmed = || app.ctx.db.timings().statements("confirm a renewal");
        authenticate(&app.ctx, &next.access_token).await.expect("signed in");
        assert_eq!(confirmed(), 0, "requests with the old token may be under way");
        app.clock.advance(Duration::minutes(1));
        let Ok(RenewedSession::Pair(_, again)) = refresh(&app.ctx, &first.refresh_token).await else { panic!("renewed") };
        app.clock.advance(Duration::minutes(1));
        authenticate(&app.ctx, &next.access_token).await.expect("it holds for its minutes");
        assert_eq!(confirmed(), 0, "of the pair before");
        for _ in 0..3 {
            authenticate(&app.ctx, &again.access_token).await.expect("signed in");
        }
        assert_eq!(confirmed(), 1);
    }

    async fn token_of_any_age_ends_the_session(app: &TestApp) {
        let first = app.operator().await.session.tokens;
        let mut newest = first.clone();
        for _ in 0..3 {
            app.clock.advance(Duration::minutes(1));
            let Ok(RenewedSession::Pair(_, next)) = refresh(&app.ctx, &newest.refresh_token).await else { panic!("renewed") };
            newest = next;
        }
        assert_eq!(refresh(&app.ctx, &first.refresh_token).await.expect_err("old").code(), Code::Unauthenticated);
        assert_eq!(refresh(&app.ctx, &newest.refresh_token).await.expect_err("ended").code(), Code::Unauthenticated);
    }

    async fn invented_token_ends_no_session_and_takes_no_writer(app: &TestApp) {
        let first = app.operator().await.session.tokens;
        let (id, secret) = first.refresh_token.split_once('.').expect("two parts");
        let other_tag = format!("{}{}", &secret[..64], "0".repeat(32));
        for invented in ["", "0", &"0".repeat(96), &secret[..64], &other_tag, "é"] {
            let refused = refresh(&app.ctx, &format!("{id}.{invented}")).await.expect_err(invented);
            assert_eq!(refused.code(), Code::Unauthenticated);
        }
        assert_eq!(app.ctx.db.timings().statements("refresh session"), 0);
        refresh(&app.ctx, &first.refresh_token).await.expect("the session goes on");
        assert!(app.ctx.db.timings().statements("refresh session") > 0);
    }

    async fn requests_side_by_side_do_not_end_the_session(app: &TestApp) {
        let first = app.operator().await.session.tokens;
        let (one, two) = tokio::join!(
            refresh(&app.ctx, &first.refresh_token),
            refresh(&app.ctx, &first.refresh_token),
        );
        let renewed = [one.expect("holds"), two.expect("holds")];
        assert_eq!(renewed.iter().filter(|renewed| matches!(renewed, RenewedSession::Pair(..))).count(), 1);
        assert_eq!(renewed.iter().filter(|renewed| matches!(renewed, RenewedSession::Late(_))).count(), 1);
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
            let refresh_token = RefreshRequest { refresh_token: token.to_owned() }.refresh_token;
            assert_eq!(refresh(&app.ctx, &refresh_token).await.expect_err(token).code(), Code::Unauthenticated);
        }
    }

    async fn with_a_second_factor_the_password_opens_half_a_session_that_nothing_takes(app: &TestApp) {
        let person = app.operator().await;
        let device = app.two_factor(&person).await;
        app.clock.advance(Duration::minutes(1));
        let half = app.half("operator@example.org").await;
        for token in [half.half_token.as_str(), &format!("{}.x", half.half_token)] {
            assert_eq!(authenticate(&app.ctx, token).await.expect_err("half").code(), Code::Unauthenticated);
            assert_eq!(refresh(&app.ctx, token).await.expect_err("half").code(), Code::Unauthenticated);
        }
        let step = SecondStep { half_token: half.half_token, code: device.code(app) };
        let session = finish(&app.ctx, HERE, &step).await.expect("the code is right");
        authenticate(&app.ctx, &session.tokens.access_token).await.expect("signed in");
        let again = finish(&app.ctx, HERE, &step).await;
        assert_eq!(again.expect_err("a half session works once").code(), Code::Unauthenticated);
    }

    async fn half_a_session_is_over_after_five_minutes(app: &TestApp) {
        let person = app.operator().await;
        let device = app.two_factor(&person).await;
        let half = app.half("operator@example.org").await;
        app.clock.advance(Duration::minutes(5));
        let step = SecondStep { half_token: half.half_token, code: device.code(app) };
        assert_eq!(finish(&app.ctx, HERE, &step).await.expect_err("over").code(), Code::Unauthenticated);
    }

    async fn a_code_that_was_used_works_in_no_other_sign_in(app: &TestApp) {
        let person = app.operator().await;
        let device = app.two_factor(&person).await;
        app.clock.advance(Duration::minutes(1));
        let code = device.code(app);
        let (first, second) = (app.half("operator@example.org").await, app.half("operator@example.org").await);
        let step = |half_token| SecondStep { half_token, code: code.clone() };
        finish(&app.ctx, HERE, &step(first.half_token)).await.expect("right");
        let refused = finish(&app.ctx, HERE, &step(second.half_token)).await;
        assert_eq!(refused.expect_err("used").code(), Code::WrongCode);
    }

    async fn a_recovery_code_lets_one_in_once_however_it_is_typed(app: &TestApp) {
        let person = app.operator().await;
        let device = app.two_factor(&person).await;
        let typed = device.codes[3].to_lowercase().replace('-', " ");
        let step = SecondStep { half_token: app.half("operator@example.org").await.half_token, code: typed };
        finish(&app.ctx, HERE, &step).await.expect("right");
        let step = SecondStep { half_token: app.half("operator@example.org").await.half_token, ..step };
        assert_eq!(finish(&app.ctx, HERE, &step).await.expect_err("used").code(), Code::WrongCode);
    }

    async fn guessing_codes_closes_the_door_even_to_the_right_one(app: &TestApp) {
        let person = app.operator().await;
        let device = app.two_factor(&person).await;
        app.clock.advance(Duration::minutes(1));
        let wrong = if device.code(app) == "000000" { "111111" } else { "000000" };
        for _ in 0..5 {
            let step = SecondStep { half_token: app.half("operator@example.org").await.half_token, code: wrong.to_owned() };
            assert_eq!(finish(&app.ctx, HERE, &step).await.expect_err("wrong").code(), Code::WrongCode);
        }
        let right = || async { SecondStep { half_token: app.half("operator@example.org").await.half_token, code: device.code(app) } };
        let closed = finish(&app.ctx, HERE, &right().await).await.expect_err("closed").into_problem();
        assert_eq!((closed.code, closed.retry_after), (Code::RateLimited, Some(900)));
        app.clock.advance(Duration::minutes(15));
        finish(&app.ctx, HERE, &right().await).await.expect("open again");
    }

    async fn a_session_tells_from_where_it_began_coarsely(app: &TestApp) {
        let person = app.operator().await;
        let from = Origin::new([192, 0, 2, 7].into(), "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Firefox/140.0");
        sign_in(&app.ctx, from, &credentials("operator@example.org", PASSWORD)).await.expect("right");
        let listed = sessions::list(&app.ctx, &person.actor(app).await).await.expect("listed");
        let rows: Vec<_> = listed.iter().map(|one| (one.agent.as_str(), one.address.as_str(), one.current)).collect();
        assert_eq!(rows.len(), 2);
        assert!(rows.contains(&("Firefox on Linux", "192.0.2.0/24", false)), "{rows:?}");
        assert!(rows.contains(&("another program", "127.0.0.0/24", true)), "{rows:?}");
    }

    async fn session_ends_after_its_most_days_however_it_is_renewed(app: &TestApp) {
        let mut tokens = app.operator().await.session.tokens;
        let most = i64::from(app.ctx.config.session_most_days);
        for _ in 0..(most - 1) / 29 {
            app.clock.advance(Duration::days(29));
            let Ok(RenewedSession::Pair(_, next)) = refresh(&app.ctx, &tokens.refresh_token).await else { panic!("renewed") };
            tokens = next;
        }
        app.clock.advance(Duration::days((most - 1) % 29 + 1) - Duration::SECOND);
        let Ok(RenewedSession::Pair(_, last)) = refresh(&app.ctx, &tokens.refresh_token).await else { panic!("one second left") };
        app.clock.advance(Duration::SECOND);
        assert_eq!(refresh(&app.ctx, &last.refresh_token).await.expect_err("over").code(), Code::Unauthenticated);
        assert_eq!(authenticate(&app.ctx, &last.access_token).await.expect_err("over").code(), Code::Unauthenticated);
    }

    async fn proof_of_identity_makes_a_session_fresh_for_ten_minutes(app: &TestApp) {
        let person = app.operator().await;
        let is_fresh = async || person.actor(app).await.is_fresh;
        assert!(is_fresh().await, "signing in is a proof");
        app.clock.advance(FRESH);
        assert!(is_fresh().await);
        app.clock.advance(Duration::SECOND);
        assert!(!is_fresh().await);
        let by = person.actor(app).await;
        let proof = |password: &str, code: &str| IdentityProof {
            password: password.to_owned(),
            code: code.to_owned(),
            passkey: None,
        };
        for (given, wanted) in [
            (proof("not the password", ""), Code::WrongCredentials),
            (proof("", "123456"), Code::WrongState),
            (proof("", ""), Code::ValidationFailed),
            (proof(PASSWORD, "123456"), Code::ValidationFailed),
        ] {
            assert_eq!(prove_identity(&app.ctx, &by, &given).await.expect_err("no proof").code(), wanted);
        }
        prove_identity(&app.ctx, &by, &proof(PASSWORD, "")).await.expect("proven");
        assert!(is_fresh().await);
    }

    async fn code_of_the_second_factor_proves_identity(app: &TestApp) {
        let person = app.operator().await;
        let authenticator = app.two_factor(&person).await;
        app.clock.advance(FRESH + Duration::SECOND);
        let by = person.actor(app).await;
        let proof = |code: String| IdentityProof { password: String::new(), code, passkey: None };
        let wrong = prove_identity(&app.ctx, &by, &proof("000000".to_owned())).await;
        assert_eq!(wrong.expect_err("wrong").code(), Code::WrongCode);
        prove_identity(&app.ctx, &by, &proof(authenticator.code(app))).await.expect("proven");
        assert!(person.actor(app).await.is_fresh);
    }

    async fn sign_in_from_a_new_place_is_announced(app: &TestApp) {
        let person = app.operator().await;
        let right = credentials("operator@example.org", PASSWORD);
        let far = Origin::new("198.51.100.7".parse().expect("an address"), "Mozilla/5.0 (X11; Linux) Firefox/140");
        sign_in(&app.ctx, HERE, &right).await.expect("from where they were before");
        sign_in(&app.ctx, far, &right).await.expect("from elsewhere");
        sign_in(&app.ctx, far, &right).await.expect("from there again");
        let query = NotificationQuery { kind: Some(NotificationKind::SignInNew), ..NotificationQuery::default() };
        let notices = notification::list(&app.ctx, &person.actor(app).await, &query).await.expect("listed").items;
        assert_eq!(notices.len(), 1, "{notices:?}");
        assert!(notices[0].text.contains("Firefox on Linux, 198.51.100.0/24"), "{notices:?}");
    }

    async fn device_of_member_signs_in_despite_closed_door(app: &TestApp) {
        let person = app.operator().await;
        for _ in 0..10 {
            let guess = sign_in(&app.ctx, HERE, &credentials("operator@example.org", "a guess")).await;
            assert_eq!(guess.expect_err("wrong").code(), Code::WrongCredentials);
        }
        let right = credentials("operator@example.org", PASSWORD);
        assert_eq!(sign_in(&app.ctx, HERE, &right).await.expect_err("closed").code(), Code::RateLimited);
        let origin = Origin::from(HERE).with_device(Some(person.session.member.id));
        sign_in(&app.ctx, origin, &right).await.expect("the member's own browser");
        let others = Origin::from(HERE).with_device(Some(undertone_api::id::MemberId(uuid::Uuid::nil())));
        assert_eq!(sign_in(&app.ctx, others, &right).await.expect_err("another's").code(), Code::RateLimited);
        for _ in 0..10 {
            let guess = sign_in(&app.ctx, origin, &credentials("operator@example.org", "a guess")).await;
            assert_eq!(guess.expect_err("wrong").code(), Code::WrongCredentials);
        }
        assert_eq!(sign_in(&app.ctx, origin, &right).await.expect_err("closed too").code(), Code::RateLimited);
    }
}
