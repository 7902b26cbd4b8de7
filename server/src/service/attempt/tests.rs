use std::net::IpAddr;

use time::Duration;
use undertone_api::problem::Code;

use super::{enter, forgive};
use crate::auth::{Door, WINDOW};
use crate::testing::on_both;

fn address(last: u8) -> Door {
    Door::Address(IpAddr::from([192, 0, 2, last]))
}

fn email(name: &str) -> Door {
    Door::Email(format!("{name}@example.org"))
}

on_both! {
    async fn an_email_is_closed_after_ten_wrong_attempts_from_wherever_and_opens_again(app: &TestApp) {
        for last in 0..10 {
            enter(&app.ctx, &[email("a"), address(last)]).await.expect("open");
        }
        app.clock.advance(Duration::minutes(5));
        let closed = enter(&app.ctx, &[email("a"), address(200)]).await.expect_err("closed").into_problem();
        assert_eq!((closed.code, closed.retry_after), (Code::RateLimited, Some(600)));
        enter(&app.ctx, &[email("b"), address(200)]).await.expect("others are not touched");
        app.clock.advance(WINDOW - Duration::minutes(5));
        enter(&app.ctx, &[email("a"), address(201)]).await.expect("open again");
    }

    async fn an_address_is_closed_after_fifty_whatever_the_email(app: &TestApp) {
        for number in 0..50 {
            enter(&app.ctx, &[email(&number.to_string()), address(1)]).await.expect("open");
        }
        let closed = enter(&app.ctx, &[email("last"), address(1)]).await;
        assert_eq!(closed.expect_err("closed").code(), Code::RateLimited);
    }

    async fn a_right_one_takes_its_attempt_back(app: &TestApp) {
        for _ in 0..60 {
            enter(&app.ctx, &[email("a"), address(1)]).await.expect("open");
            app.ctx.db.write("test", async |tx| forgive(tx, &[email("a"), address(1)]).await).await.expect("forgiven");
        }
    }

    async fn another_replica_counts_the_same_attempts_and_a_restart_forgives_none(app: &TestApp) {
        for last in 0..5 {
            enter(&app.ctx, &[email("a"), address(last)]).await.expect("open");
        }
        let replica = app.restarted().await;
        for last in 5..10 {
            enter(&replica.ctx, &[email("a"), address(last)]).await.expect("open");
        }
        for ctx in [&app.ctx, &replica.ctx] {
            assert_eq!(enter(ctx, &[email("a"), address(11)]).await.expect_err("closed").code(), Code::RateLimited);
        }
        replica.ctx.db.clone().close().await.expect("closed");
    }

    async fn of_many_guesses_at_once_no_more_than_the_limit_come_through(app: &TestApp) {
        let many = (0..30).map(|last| {
            let ctx = app.ctx.clone();
            async move { enter(&ctx, &[email("a"), address(last)]).await.is_ok() }
        });
        let through = futures::future::join_all(many).await.into_iter().filter(|through| *through).count();
        assert_eq!(through, 10);
    }
}
