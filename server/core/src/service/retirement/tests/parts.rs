//! Unfinished jobs when a worker or an organization is retired.

use undertone_api::job::{Job, JobState, ParticipantState};
use undertone_api::problem::Code;

use super::{code, consortium_admin, owner, reason};
use crate::service::finish::{Outcome, finish};
use crate::service::job::hold_dataset;
use crate::service::offer::{self, OfferRequest, WorkOffer};
use crate::service::retirement::{restore_worker, retire_organization, retire_worker};
use crate::service::world::TestConsortium;
use crate::service::{job, ledger};
use crate::testing::on_both;

async fn is_settled(world: &TestConsortium, job: &Job, site: usize) -> bool {
    let row =
        ledger::find_reservation(world.ctx.db.read(), job.summary.id.0, world.sites[site].dataset.0).await.unwrap();
    row.unwrap().settled
}

async fn retire(world: &TestConsortium, site: usize) {
    let site = &world.sites[site];
    retire_worker(&world.ctx, &site.steward, owner(site), site.worker, &reason()).await.unwrap();
}

async fn restore(world: &TestConsortium, site: usize) {
    let site = &world.sites[site];
    restore_worker(&world.ctx, &site.steward, owner(site), site.worker, &reason()).await.unwrap();
}

fn state_of(job: &Job, world: &TestConsortium, site: usize) -> ParticipantState {
    job.participants.iter().find(|part| part.dataset == world.sites[site].dataset).unwrap().state
}

on_both! {
    async fn retired_worker_leaves_the_round_to_the_quorum(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 3, 50.0).await;
        let job = world.queued(1).await;
        let leases = [world.lease(0).await, world.lease(1).await, world.lease(2).await, world.lease(3).await];
        retire(&world, 3).await;
        assert_eq!(code(world.submit(&job, 3, &leases[3], 1, &[1.0]).await), Code::LeaseLost);
        for (site, lease) in leases.iter().enumerate().take(3) {
            world.submit(&job, site, lease, 1, &[1.0]).await.unwrap();
        }
        assert!(world.average(0, &leases[0], 1).await.is_some(), "the round closed without the retired worker");
        let now = world.job(job.summary.id).await;
        assert_eq!(now.summary.state, JobState::Running);
        assert_eq!(state_of(&now, &world, 3), ParticipantState::Failed);
        assert!(!is_settled(&world, &job, 3).await, "it had a lease: releases may have left");
    }

    async fn retired_worker_without_lease_gives_the_reservation_back(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 3, 50.0).await;
        let job = world.queued(1).await;
        retire(&world, 3).await;
        assert!(is_settled(&world, &job, 3).await);
        assert_eq!(world.job(job.summary.id).await.summary.state, JobState::Queued);
    }

    async fn retired_lead_fails_the_job(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = world.queued(1).await;
        world.lease(0).await;
        retire(&world, 0).await;
        let now = world.job(job.summary.id).await;
        assert_eq!(now.summary.state, JobState::Failed);
        assert!(now.reason.unwrap().contains("was retired"));
    }

    async fn retired_worker_below_the_quorum_fails_the_job(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let job = world.queued(1).await;
        world.lease(1).await;
        retire(&world, 1).await;
        assert_eq!(world.job(job.summary.id).await.summary.state, JobState::Failed);
        assert!(!is_settled(&world, &job, 1).await);
    }

    async fn retired_worker_has_its_proposed_jobs_refused(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = world.propose(world.spec(1)).await.unwrap();
        retire(&world, 2).await;
        let now = world.job(job.summary.id).await;
        assert_eq!(now.summary.state, JobState::Refused);
        let refused = world.propose(world.spec(1)).await.unwrap_err().into_problem();
        assert_eq!(refused.code, Code::ValidationFailed);
        assert!(refused.violations[0].message.contains("retired"), "{refused:?}");
    }

    async fn restored_worker_settles_what_it_owes(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 3, 50.0).await;
        let job = world.queued(2).await;
        let lease = world.lease(3).await;
        world.submit(&job, 3, &lease, 1, &[1.0]).await.unwrap();
        let before = world.account(3).await;
        retire(&world, 3).await;
        let spent = world.account(3).await.spent;
        assert_eq!(spent.to_bits(), before.spent.to_bits(), "what was spent stays spent");
        restore(&world, 3).await;
        let worker = world.sites[3].worker;
        let nothing = offer::next(&app.ctx, worker, &OfferRequest::default()).await.unwrap();
        assert_eq!(nothing, WorkOffer::Nothing, "its part in the job has ended");
        job::cancel(&app.ctx, &world.sites[0].steward, job.summary.id).await.unwrap();
        let lease = world.lease(3).await;
        finish(&app.ctx, worker, &lease, &Outcome::GaveUp("the job is over".to_owned()), &[]).await.unwrap();
        assert!(is_settled(&world, &job, 3).await);
        let after = world.account(3).await;
        assert_eq!(after.spent.to_bits(), before.spent.to_bits());
        assert!(after.committed < before.committed, "the rest of the reservation is back");
    }

    async fn retired_worker_lifts_the_holds_for_its_dataset(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 3, 50.0).await;
        let job = world.queued(1).await;
        let site = &world.sites[3];
        let pause = undertone_api::job::PauseRequest { reason: "wait".to_owned() };
        hold_dataset(&app.ctx, &site.steward, job.summary.id, site.dataset, &pause).await.unwrap();
        assert_eq!(world.job(job.summary.id).await.summary.state, JobState::Paused);
        retire(&world, 3).await;
        assert_eq!(world.job(job.summary.id).await.summary.state, JobState::Queued);
    }

    async fn retired_organization_leaves_the_jobs_of_one_consortium(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 3, 50.0).await;
        let other = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = world.queued(1).await;
        let elsewhere = other.queued(1).await;
        let admin = consortium_admin(&world);
        retire_organization(&app.ctx, &admin, world.consortium, owner(&world.sites[3]), &reason()).await.unwrap();
        let now = world.job(job.summary.id).await;
        assert_eq!((now.summary.state, state_of(&now, &world, 3)), (JobState::Queued, ParticipantState::Failed));
        assert_eq!(other.job(elsewhere.summary.id).await.summary.state, JobState::Queued);
        let refused = world.propose(world.spec(1)).await.unwrap_err().into_problem();
        assert!(refused.violations[0].message.contains("retired from the consortium"), "{refused:?}");
    }
}
