use std::net::IpAddr;

use sea_orm::{ColumnTrait as _, EntityTrait as _, PaginatorTrait as _, QueryFilter as _};
use time::Duration;
use undertone_api::problem::Code;

use super::{enter, forget_old, forgive, is_power_of_ten, note};
use crate::auth::{Door, WINDOW};
use crate::metrics::Limit;
use crate::model::{attempt, audit_log};
use crate::service::audit_log::AuditAction;
use crate::testing::on_both;

fn address(last: u8) -> Door {
    Door::Address(IpAddr::from([192, 0, 2, last]))
}

fn email(name: &str) -> Door {
    Door::Email(format!("{name}@example.org"))
}

on_both! {
    async fn email_after_ten_wrong_attempts_is_closed_for_a_time(app: &TestApp) {
        for last in 0..10 {
            enter(&app.ctx, &[email("a"), address(last)]).await.expect("open");
        }
        app.clock.advance(Duration::minutes(5));
        let closed = enter(&app.ctx, &[email("a"), address(200)]).await.expect_err("closed").into_problem();
        assert_eq!((closed.code, closed.retry_after), (Code::RateLimited, Some(600)));
        assert_eq!(app.ctx.metrics.reached(Limit::WrongAttempts), 1);
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

    async fn attempts_are_shared_by_replicas_and_survive_restart(app: &TestApp) {
        for last in 0..5 {
            enter(&app.ctx, &[email("a"), address(last)]).await.expect("open");
        }
        let replica = app.restarted().await;
        for last in 5..10 {
            enter(&replica, &[email("a"), address(last)]).await.expect("open");
        }
        for ctx in [&app.ctx, &replica] {
            assert_eq!(enter(ctx, &[email("a"), address(11)]).await.expect_err("closed").code(), Code::RateLimited);
        }
        replica.db.clone().close().await.expect("closed");
    }

    async fn of_many_guesses_at_once_no_more_than_the_limit_come_through(app: &TestApp) {
        let many = (0..30).map(|last| {
            let ctx = app.ctx.clone();
            async move { enter(&ctx, &[email("a"), address(last)]).await.is_ok() }
        });
        let through = futures::future::join_all(many).await.into_iter().filter(|through| *through).count();
        assert_eq!(through, 10);
    }

    async fn closed_door_takes_no_transaction(app: &TestApp) {
        for last in 0..10 {
            enter(&app.ctx, &[address(last), email("a")]).await.expect("open");
        }
        let before = app.ctx.db.timings().statements("count an attempt");
        for last in 10..20 {
            assert!(enter(&app.ctx, &[address(last), email("a")]).await.is_err());
        }
        assert_eq!(app.ctx.db.timings().statements("count an attempt"), before);
    }

    async fn closed_door_counts_at_no_other(app: &TestApp) {
        for last in 0..10 {
            enter(&app.ctx, &[address(last), email("a")]).await.expect("open");
        }
        for _ in 0..100 {
            assert!(enter(&app.ctx, &[address(100), email("a")]).await.is_err());
        }
        enter(&app.ctx, &[address(100), email("b")]).await.expect("the address has made no attempt");
    }

    async fn networks_of_a_slash_48_share_five_hundred_attempts(app: &TestApp) {
        let from = |network: u16| IpAddr::from([0x2001, 0xdb8, 7, network, 0, 0, 0, 1]);
        for network in 0..10 {
            for _ in 0..50 {
                enter(&app.ctx, &Door::of_address(from(network))).await.expect("open");
            }
        }
        let closed = enter(&app.ctx, &Door::of_address(from(10))).await.expect_err("closed");
        assert_eq!(closed.code(), Code::RateLimited);
        let elsewhere = IpAddr::from([0x2001, 0xdb8, 8, 0, 0, 0, 0, 1]);
        enter(&app.ctx, &Door::of_address(elsewhere)).await.expect("another customer");
        assert_eq!(Door::of_address(IpAddr::from([192, 0, 2, 1])).len(), 1);
    }

    async fn hundred_failures_of_strangers_leave_three_entries(app: &TestApp) {
        let noted = async || {
            let failed = audit_log::Entity::find().filter(audit_log::Column::What.eq("sign_in_failed"));
            failed.count(app.ctx.db.read()).await.expect("counted")
        };
        for _ in 0..100 {
            note(&app.ctx, None, AuditAction::SignInFailed).await.expect("noted");
        }
        assert_eq!(noted().await, 3, "the first, the tenth and the hundredth");
        app.clock.advance(WINDOW);
        note(&app.ctx, None, AuditAction::SignInFailed).await.expect("noted");
        assert_eq!(noted().await, 4, "another window");
    }

    async fn windows_that_are_over_are_forgotten(app: &TestApp) {
        enter(&app.ctx, &[email("old")]).await.expect("open");
        app.clock.advance(WINDOW / 2);
        enter(&app.ctx, &[email("new")]).await.expect("open");
        app.clock.advance(WINDOW / 2);
        forget_old(&app.ctx).await.expect("forgotten");
        let rows = attempt::Entity::find().all(app.ctx.db.read()).await.expect("read");
        assert_eq!(rows.into_iter().map(|row| row.key_hash).collect::<Vec<_>>(), [email("new").key()]);
    }
}

#[test]
fn powers_of_ten_are_told_from_other_numbers() {
    let powers: Vec<i32> = (0..=2000).filter(|number| is_power_of_ten(*number)).collect();
    assert_eq!(powers, [1, 10, 100, 1000]);
}
