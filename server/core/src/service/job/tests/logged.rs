//! Entries of the audit log about a job's progress: every admission and every end, with its author.

use sea_orm::{ColumnTrait as _, EntityTrait as _, QueryFilter as _, QueryOrder as _};
use time::Duration;
use undertone_api::id::JobId;
use undertone_api::job::{JobState, PauseRequest, RefuseRequest};
use uuid::Uuid;

use super::report;
use crate::model::audit_log::{Column, Entity};
use crate::service::approval::{approve, decide, refuse};
use crate::service::finish::{PartOutcome, finish};
use crate::service::job::{cancel, lapse, pause, resume};
use crate::service::lease;
use crate::service::offer::{self, OfferRequest};
use crate::service::world::TestConsortium;
use crate::testing::on_both;

/// Returns the entries of the consortium's log about a job, oldest first: kind, kind of author, author.
async fn log_entries(world: &TestConsortium, job: JobId) -> Vec<(String, String, Option<Uuid>)> {
    let entries = Entity::find()
        .filter(Column::PlaceId.eq(world.consortium.0))
        .filter(Column::SubjectId.eq(job.to_string()))
        .order_by_asc(Column::Number);
    let rows = entries.all(world.ctx.db.read()).await.unwrap();
    rows.into_iter().map(|row| (row.what, row.by_hand, row.by_id)).collect()
}

/// Returns the last entry about a job.
async fn last(world: &TestConsortium, job: JobId) -> (String, String, Option<Uuid>) {
    log_entries(world, job).await.pop().unwrap()
}

/// Returns an expected entry.
fn entry(what: &str, hand: &str, by: Option<Uuid>) -> (String, String, Option<Uuid>) {
    (what.to_owned(), hand.to_owned(), by)
}

on_both! {
    async fn the_last_approval_admits_a_job_and_the_last_part_finishes_it(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = world.queued(1).await;
        let id = job.summary.id;
        let (proposer, approver) = (world.sites[0].steward.id().0, world.sites[2].steward.id().0);
        let first_entries = [entry("job_proposed", "member", Some(proposer)), entry("job_admitted", "member", Some(approver))];
        assert_eq!(log_entries(&world, id).await, first_entries, "and nothing else");
        let leases = [world.lease(0).await, world.lease(1).await, world.lease(2).await];
        for (site, lease) in leases.iter().enumerate() {
            world.submit(&job, site, lease, 1, &[1.0]).await.unwrap();
        }
        for site in [1, 2] {
            finish(&app.ctx, world.sites[site].worker, &leases[site], &PartOutcome::Done(None), &[]).await.unwrap();
        }
        let outcome = PartOutcome::Done(Some(report()));
        for _ in 0..2 {
            finish(&app.ctx, world.sites[0].worker, &leases[0], &outcome, &[]).await.unwrap();
        }
        let entries = log_entries(&world, id).await;
        assert_eq!(entries[2..], [entry("job_finished", "worker", Some(world.sites[0].worker.0))], "once");
    }

    async fn job_with_silent_participant_is_finished_by_the_system(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = world.queued(1).await;
        let leases = [world.lease(0).await, world.lease(1).await, world.lease(2).await];
        for (site, lease) in leases.iter().enumerate() {
            world.submit(&job, site, lease, 1, &[1.0]).await.unwrap();
        }
        finish(&app.ctx, world.sites[1].worker, &leases[1], &PartOutcome::Done(None), &[]).await.unwrap();
        finish(&app.ctx, world.sites[0].worker, &leases[0], &PartOutcome::Done(Some(report())), &[]).await.unwrap();
        app.clock.advance(Duration::seconds(i64::from(lease::SECONDS) + 1));
        offer::next(&app.ctx, world.sites[1].worker, &OfferRequest::default()).await.unwrap();
        assert_eq!(last(&world, job.summary.id).await, entry("job_finished", "system", None));
    }

    async fn a_worker_that_gives_up_is_named_and_its_words_are_not_kept(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = world.queued(1).await;
        let lease = world.lease(0).await;
        let gave_up = PartOutcome::GaveUp("words of the site".to_owned());
        finish(&app.ctx, world.sites[0].worker, &lease, &gave_up, &[]).await.unwrap();
        assert_eq!(last(&world, job.summary.id).await, entry("job_failed", "worker", Some(world.sites[0].worker.0)));
        assert!(world.job(job.summary.id).await.reason.unwrap().contains("words of the site"), "the job tells them");
        let query = Entity::find().filter(Column::Detail.contains("words of the site"));
        assert!(query.all(app.ctx.db.read()).await.unwrap().is_empty(), "nobody could take them out again");
    }

    async fn a_sites_no_to_a_queued_job_fails_it_by_its_worker(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let job = world.queued(1).await;
        let site = &world.sites[1];
        decide(&app.ctx, site.worker, &site.decision(&job, false, "too little noise")).await.unwrap();
        assert_eq!(last(&world, job.summary.id).await, entry("job_failed", "worker", Some(site.worker.0)));
    }

    async fn a_refusal_and_a_cancellation_are_their_members(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let (refused, cancelled) = (world.propose(world.spec(1)).await.unwrap(), world.queued(1).await);
        let (lead, site) = (&world.sites[0].steward, &world.sites[1]);
        let no = RefuseRequest { reason: "not this quarter".to_owned() };
        refuse(&app.ctx, &site.steward, refused.summary.id, site.dataset, &no).await.unwrap();
        let expected = entry("job_refused", "member", Some(site.steward.id().0));
        assert_eq!(last(&world, refused.summary.id).await, expected);
        cancel(&app.ctx, lead, cancelled.summary.id).await.unwrap();
        assert_eq!(last(&world, cancelled.summary.id).await, entry("job_cancelled", "member", Some(lead.id().0)));
    }

    async fn a_budget_that_was_spent_meanwhile_refuses_by_the_system(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let job = world.propose(world.spec(60)).await.unwrap();
        world.set_budget(&world.sites[1], 1.0).await.unwrap();
        let site = &world.sites[1];
        let over = approve(&app.ctx, &site.steward, job.summary.id, site.dataset).await.unwrap();
        assert_eq!(over.summary.state, JobState::Refused);
        assert_eq!(last(&world, job.summary.id).await, entry("job_refused", "system", None));
    }

    async fn times_that_run_out_are_the_systems_doing(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let (unanswered, begun) = (world.propose(world.spec(1)).await.unwrap(), world.queued(1).await);
        app.clock.advance(Duration::days(31));
        for _ in 0..2 {
            lapse(&app.ctx).await.unwrap();
        }
        assert_eq!(log_entries(&world, unanswered.summary.id).await[1..], [entry("job_expired", "system", None)]);
        assert_eq!(log_entries(&world, begun.summary.id).await[2..], [entry("job_failed", "system", None)]);
    }

    async fn a_pause_and_its_end_are_their_members(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let (job, lead) = (world.queued(1).await, &world.sites[0].steward);
        pause(&app.ctx, lead, job.summary.id, &PauseRequest { reason: "a look".to_owned() }).await.unwrap();
        resume(&app.ctx, lead, job.summary.id).await.unwrap();
        let by = Some(lead.id().0);
        let both = [entry("job_paused", "member", by), entry("job_resumed", "member", by)];
        assert_eq!(log_entries(&world, job.summary.id).await[2..], both);
    }
}
