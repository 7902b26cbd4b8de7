#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

use tokio::time::Instant;
use undertone_api::id::WorkerId;
use undertone_api::problem::Code;
use uuid::Uuid;

use super::{OfferRequest, WorkOffer, due, next};
use crate::service::world::TestConsortium;
use crate::testing::on_both;

on_both! {
    async fn whoever_waits_is_offered_what_is_proposed_meanwhile(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let (ctx, worker) = (app.ctx.clone(), world.sites[1].worker);
        let patient = OfferRequest { wait_seconds: 60, ..OfferRequest::default() };
        let waits = tokio::spawn(async move { next(&ctx, worker, &patient).await });
        let job = world.propose(world.spec(1)).await.unwrap();
        let offered = waits.await.unwrap().unwrap();
        assert!(matches!(offered, WorkOffer::Proposal { manifest, .. } if manifest.digest() == job.manifest));
    }

    async fn only_whom_something_concerns_looks_for_itself(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let (one, two) = (world.sites[1].worker, world.sites[2].worker);
        let may_be = async |worker, asking: &OfferRequest| due::check_due(&app.ctx, worker, asking, Instant::now()).await.unwrap().1;
        let nothing = OfferRequest::default();
        assert!(!may_be(one, &nothing).await, "there is no job");
        let job = world.propose(world.spec(1)).await.unwrap();
        let knows = OfferRequest { decided: vec![job.manifest.clone()], ..OfferRequest::default() };
        assert!(may_be(one, &nothing).await && !may_be(one, &knows).await);
        world.approved(job).await;
        assert!(may_be(one, &knows).await, "now there is work");
        let holds = OfferRequest { leases: vec![world.lease(1).await], ..knows };
        assert!(!may_be(one, &holds).await && may_be(two, &holds).await, "a lease is of one worker");
        assert!(may_be(one, &nothing).await, "a worker that was restarted holds nothing");
        let unknown = due::check_due(&app.ctx, WorkerId(Uuid::nil()), &nothing, Instant::now()).await.unwrap_err();
        assert_eq!(unknown.code(), Code::Unauthenticated);
    }
}
