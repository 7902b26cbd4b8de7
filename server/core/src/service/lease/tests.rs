#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

use sea_orm::EntityTrait as _;
use time::Duration;
use undertone_api::problem::Code;

use super::{SECONDS, extend, find_lease, still_at_work};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::model::lease;
use crate::service::job;
use crate::service::world::TestConsortium;
use crate::testing::on_both;

async fn row(ctx: &Ctx, token: &str) -> Option<lease::Model> {
    let all = lease::Entity::find().all(ctx.db.read()).await.unwrap();
    all.into_iter().find(|lease| lease.token == token)
}

fn code(said: Result<(), Error>) -> Option<Code> {
    said.err().map(|error| error.code())
}

on_both! {
    async fn a_lease_is_extended_once_by_all_who_come_and_never_after_a_later_one_has_begun(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        world.queued(1).await;
        let (worker, first) = (world.sites[1].worker, world.lease(1).await);
        let looked = find_lease(app.ctx.db.read(), worker, &first).await.unwrap();
        extend(&app.ctx, &looked, &first).await.unwrap();
        assert_eq!(row(&app.ctx, &first).await.unwrap().expires_at, looked.row.expires_at, "it has long to go");
        app.clock.advance(Duration::seconds(30));
        for _ in 0..2 {
            // The second call has read it before the first extended it.
            extend(&app.ctx, &looked, &first).await.unwrap();
            let until = app.ctx.now() + Duration::seconds(i64::from(SECONDS));
            assert_eq!(row(&app.ctx, &first).await.unwrap().expires_at, until);
        }
        let second = world.lease(1).await;
        let granted = row(&app.ctx, &second).await.unwrap();
        app.clock.advance(Duration::seconds(30));
        assert_eq!(code(extend(&app.ctx, &looked, &first).await), Some(Code::LeaseLost));
        assert_eq!(row(&app.ctx, &second).await.unwrap(), granted);
    }

    async fn who_looked_before_is_told_what_has_changed_since(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = world.queued(1).await;
        let (worker, token) = (world.sites[1].worker, world.lease(1).await);
        let looked = find_lease(app.ctx.db.read(), worker, &token).await.unwrap();
        assert_eq!(code(still_at_work(app.ctx.db.read(), &looked, &token).await), None);
        let next = world.lease(1).await;
        assert_eq!(code(still_at_work(app.ctx.db.read(), &looked, &token).await), Some(Code::LeaseLost));
        assert_eq!(code(still_at_work(app.ctx.db.read(), &looked, &next).await), None);
        job::cancel(&app.ctx, &world.sites[0].steward, job.summary.id).await.unwrap();
        let over = still_at_work(app.ctx.db.read(), &looked, &next).await;
        assert_eq!(code(over), Some(Code::LeaseLost));
    }
}
