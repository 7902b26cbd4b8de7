use sea_orm::EntityTrait as _;
use undertone_api::problem::Code;

use super::{MOST, begin, idempotency};
use crate::testing::on_both;

on_both! {
    async fn a_member_has_so_many_keys_and_no_more(app: &TestApp) {
        let actor = app.operator().await.actor(app).await;
        let row = |number: u64| idempotency::ActiveModel {
            member_id: sea_orm::Set(actor.id().0),
            key: sea_orm::Set(format!("key-{number}")),
            request: sea_orm::Set(String::new()),
            answer: sea_orm::Set(None),
            at: sea_orm::Set(app.ctx.now()),
        };
        app.ctx.db.write("test", async |tx| {
            for first in (1..MOST).step_by(1000) {
                let rows = (first..MOST.min(first + 1000)).map(row);
                idempotency::Entity::insert_many(rows).exec_without_returning(tx).await?;
            }
            Ok(())
        }).await.expect("written");
        begin(&app.ctx, &actor, "the-last", b"a").await.expect("it fits");
        let refused = begin(&app.ctx, &actor, "one-more", b"a").await.expect_err("it does not");
        assert_eq!(refused.code(), Code::RateLimited);
        begin(&app.ctx, &actor, "the-last", b"b").await.expect_err("known keys are still looked at");
        app.clock.advance(time::Duration::hours(24));
        begin(&app.ctx, &actor, "one-more", b"a").await.expect("the others are over");
    }
}
