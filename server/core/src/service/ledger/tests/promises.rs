//! A limit that is raised after a release begins a second promise, and every reader sees both.

use sea_orm::{ColumnTrait as _, EntityTrait as _, QueryFilter as _};
use undertone_api::budget::PromisedLimit;

use crate::ctx::Ctx;
use crate::model::account;
use crate::service::certificate;
use crate::service::ledger::{history, promises};
use crate::service::world::TestConsortium;
use crate::testing::on_both;

/// Returns the promises of a site's account. The certificate's and the history's must agree.
async fn promised(ctx: &Ctx, world: &TestConsortium, site: usize) -> Vec<f64> {
    let site = &world.sites[site];
    let row = account::Entity::find().filter(account::Column::LineageId.eq(site.lineage.0));
    let row = row.one(ctx.db.read()).await.unwrap().unwrap();
    let read = promises(ctx.db.read(), row.id).await.unwrap();
    let accounts = history(ctx, &site.steward, site.dataset).await.unwrap();
    assert_eq!(accounts[0].promises, read);
    read.iter().map(|limit| limit.epsilon).collect()
}

on_both! {
    async fn a_raise_after_a_release_is_a_second_promise(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 6.0).await;
        assert_eq!(promised(&app.ctx, &world, 1).await, [6.0]);
        world.set_budget(&world.sites[1], 10.0).await.unwrap();
        assert_eq!(promised(&app.ctx, &world, 1).await, [10.0], "nothing was seen yet");
        let job = world.queued(1).await;
        assert_eq!(promised(&app.ctx, &world, 1).await, [10.0], "what is reserved has not left");
        crate::service::world::finished::played(&mut world, &job, 1).await;
        world.set_budget(&world.sites[1], 50.0).await.unwrap();
        world.set_budget(&world.sites[1], 40.0).await.unwrap();
        assert_eq!(promised(&app.ctx, &world, 1).await, [10.0, 40.0], "nothing was released under 50");
        assert_eq!(promised(&app.ctx, &world, 2).await, [6.0], "the other account was left alone");

        let second = world.queued(1).await;
        crate::service::world::finished::played(&mut world, &second, 1).await;
        let steward = &world.sites[1].steward;
        let of = async |job| {
            let certificate = certificate::get(&app.ctx, steward, job).await.unwrap();
            certificate.parties[1].charged.as_ref().unwrap().account.promises.clone()
        };
        let (before, after) = (of(job.summary.id).await, of(second.summary.id).await);
        assert_eq!((before.len(), after.len()), (1, 2), "a certificate says what was promised when it was made");
        assert_eq!(PromisedLimit::combine(&after), (50.0, 2e-5));
    }
}
