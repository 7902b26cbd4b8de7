//! Pauses: their effects, and the roles that may end them.

use time::Duration;
use undertone_api::id::JobId;
use undertone_api::job::{Holder, JobState, PauseRequest};
use undertone_api::member::{Role, RoleGrant, RoleScope};
use undertone_api::problem::Code;
use undertone_api::signed::{Signed, SiteHold};

use super::report;
use crate::service::finish::{Outcome, finish};
use crate::service::job::hold::hold_by_site;
use crate::service::job::{cancel, hold_dataset, pause, progress, release_dataset, resume};
use crate::service::lease;
use crate::service::offer::{self, OfferRequest, WorkOffer};
use crate::service::world::{TestConsortium, TestSite};
use crate::testing::on_both;

fn because(reason: &str) -> PauseRequest {
    PauseRequest { reason: reason.to_owned() }
}

fn word(site: &TestSite, job: JobId, manifest: &str, hold: bool) -> Signed {
    let (manifest, reason) = (manifest.to_owned(), "the steward is asked".to_owned());
    let at = time::OffsetDateTime::UNIX_EPOCH;
    Signed::new(&SiteHold { manifest, job, dataset: site.dataset, hold, reason, at }, &site.key).unwrap()
}

on_both! {
    async fn a_paused_job_gives_and_keeps_no_lease_and_goes_on_at_its_round_with_its_epsilon(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let (job, lead) = (world.queued(2).await, world.sites[0].steward.clone());
        let id = job.summary.id;
        let leases = [world.lease(0).await, world.lease(1).await, world.lease(2).await];
        world.submit(&job, 1, &leases[1], 1, &[3.0]).await.unwrap();
        let (before, reserved) = (world.account(1).await, world.job(id).await.participants[1].epsilon_reserved);

        let paused = pause(&app.ctx, &lead, id, &because("a look at the learning rate")).await.unwrap();
        assert_eq!((paused.summary.state, paused.holds.len()), (JobState::Paused, 1));
        let worker = world.sites[2].worker;
        let told = lease::renew(&app.ctx, worker, &leases[2]).await.unwrap_err();
        assert_eq!(told.code(), Code::LeaseLost, "not over: the worker gives nothing back");
        assert!(told.to_string().contains("a look at the learning rate"), "{told}");
        let refused = world.submit_with(0, &leases[0], 1, &[1.0], vec![]).await.unwrap_err();
        assert_eq!(refused.code(), Code::LeaseLost);
        assert_eq!(offer::next(&app.ctx, worker, &OfferRequest::default()).await.unwrap(), WorkOffer::Nothing);
        assert_eq!(world.account(1).await, before, "the ledger does not move");

        let resumed = resume(&app.ctx, &lead, id).await.unwrap();
        assert_eq!((resumed.summary.state, resumed.holds.len()), (JobState::Running, 0));
        let leases = [world.lease(0).await, world.lease(1).await, world.lease(2).await];
        world.submit(&job, 0, &leases[0], 1, &[0.0]).await.unwrap();
        world.submit(&job, 2, &leases[2], 1, &[6.0]).await.unwrap();
        assert_eq!(world.average(1, &leases[1], 1).await, Some(vec![3.0]), "what was sent before counts");
        for site in [0, 1, 2] {
            world.submit(&job, site, &leases[site], 2, &[1.0]).await.unwrap();
        }
        let after = world.job(id).await;
        assert_eq!((after.summary.rounds_done, after.participants[1].releases), (2, 2));
        assert_eq!(after.participants[1].epsilon_reserved, reserved);
        assert_eq!(world.account(1).await.committed, before.committed, "what was reserved was all there was to pay");
    }

    async fn no_deadline_runs_while_a_job_is_paused(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let (job, lead) = (world.queued(2).await, world.sites[0].steward.clone());
        let id = job.summary.id;
        let leases = [world.lease(0).await, world.lease(1).await, world.lease(2).await];
        world.submit(&job, 0, &leases[0], 1, &[1.0]).await.unwrap();
        world.submit(&job, 1, &leases[1], 1, &[3.0]).await.unwrap();
        app.clock.advance(Duration::seconds(40));
        pause(&app.ctx, &lead, id, &because("lunch")).await.unwrap();
        app.clock.advance(Duration::hours(3));
        resume(&app.ctx, &lead, id).await.unwrap();
        let leases = [world.lease(0).await, world.lease(1).await, world.lease(2).await];
        assert_eq!(world.average(1, &leases[1], 1).await, None, "20 of 60 seconds are left, though the quorum is met");
        let shown = progress(&app.ctx, &lead, id).await.unwrap();
        assert!(shown.rounds[0].submissions.iter().all(|part| !part.late), "{:?}", shown.rounds[0]);
        app.clock.advance(Duration::seconds(21));
        assert_eq!(world.average(1, &leases[1], 1).await, Some(vec![2.0]), "then they are over");
        world.submit(&job, 2, &leases[2], 1, &[9.0]).await.expect_err("the round is closed");
    }

    async fn whoever_holds_a_job_alone_lets_it_go_on(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let (job, lead) = (world.queued(1).await, world.sites[0].steward.clone());
        let (id, owner) = (job.summary.id, &world.sites[1]);
        let steward = owner.steward.clone();
        let denied = hold_dataset(&app.ctx, &steward, id, world.sites[2].dataset, &because("x")).await.unwrap_err();
        assert_eq!(denied.code(), Code::Forbidden, "not their dataset");
        let denied = pause(&app.ctx, &steward, id, &because("x")).await.unwrap_err();
        assert_eq!(denied.code(), Code::Forbidden, "a researcher, but not its proposer");
        let unsaid = pause(&app.ctx, &lead, id, &because(" ")).await.unwrap_err();
        assert_eq!(unsaid.code(), Code::ValidationFailed);

        hold_dataset(&app.ctx, &steward, id, owner.dataset, &because("the disk is replaced")).await.unwrap();
        let twice = hold_dataset(&app.ctx, &steward, id, owner.dataset, &because("again")).await.unwrap_err();
        assert_eq!(twice.code(), Code::WrongState);
        pause(&app.ctx, &lead, id, &because("and a look at it")).await.unwrap();
        let kept = resume(&app.ctx, &lead, id).await.unwrap();
        assert_eq!(kept.summary.state, JobState::Paused, "the steward holds it still");
        assert_eq!(kept.holds.iter().map(|hold| hold.holder).collect::<Vec<_>>(), [Holder::Steward]);
        let denied = resume(&app.ctx, &lead, id).await.unwrap_err();
        assert!(denied.code() == Code::WrongState && denied.to_string().contains("the disk is replaced"), "{denied}");
        let denied = release_dataset(&app.ctx, &lead, id, owner.dataset).await.unwrap_err();
        assert_eq!(denied.code(), Code::Forbidden);
        let on = release_dataset(&app.ctx, &steward, id, owner.dataset).await.unwrap();
        assert_eq!(on.summary.state, JobState::Queued, "nobody had begun");
    }

    async fn another_role_over_the_consortium_than_its_admins_steers_nobody_elses_job(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let id = world.queued(1).await.summary.id;
        let scope = RoleScope::Consortium(world.consortium);
        // A researcher of their organization, as the policy requires, but not the proposer of the job.
        let with = |role| {
            let mut actor = world.sites[1].steward.clone();
            actor.member.grants.push(RoleGrant { scope, role });
            actor
        };
        for role in [Role::Auditor, Role::Annotator] {
            let denied = pause(&app.ctx, &with(role), id, &because("x")).await.unwrap_err();
            assert_eq!(denied.code(), Code::Forbidden, "{role:?}");
            let denied = cancel(&app.ctx, &with(role), id).await.unwrap_err();
            assert_eq!(denied.code(), Code::Forbidden, "{role:?}");
        }
        let admin = with(Role::ConsortiumAdmin);
        pause(&app.ctx, &admin, id, &because("a look at it")).await.unwrap();
        assert_eq!(cancel(&app.ctx, &admin, id).await.unwrap().summary.state, JobState::Cancelled);
    }

    async fn a_site_holds_by_its_own_key_only_and_saying_it_twice_changes_nothing(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = world.queued(1).await;
        let (id, manifest, site) = (job.summary.id, &job.manifest, &world.sites[1]);
        let forged = Signed { signature: word(&world.sites[2], id, manifest, true).signature, ..word(site, id, manifest, true) };
        let refused = hold_by_site(&app.ctx, site.worker, &forged).await.unwrap_err();
        assert_eq!(refused.code(), Code::BadSignature);
        let other = hold_by_site(&app.ctx, site.worker, &word(site, id, "another", true)).await.unwrap_err();
        assert_eq!(other.code(), Code::BadSignature, "it is about another manifest");
        let foreign = hold_by_site(&app.ctx, world.sites[2].worker, &word(site, id, manifest, true)).await.unwrap_err();
        assert_eq!(foreign.code(), Code::BadSignature);
        assert_eq!(world.job(id).await.summary.state, JobState::Queued);

        for _ in 0..2 {
            hold_by_site(&app.ctx, site.worker, &word(site, id, manifest, true)).await.unwrap();
        }
        let held = world.job(id).await;
        assert_eq!((held.summary.state, held.holds.len(), held.holds[0].holder), (JobState::Paused, 1, Holder::Site));
        let denied = release_dataset(&app.ctx, &site.steward, id, site.dataset).await.unwrap_err();
        assert_eq!(denied.code(), Code::WrongState, "what the site holds, only the site lets go");
        for _ in 0..2 {
            hold_by_site(&app.ctx, site.worker, &word(site, id, manifest, false)).await.unwrap();
        }
        assert_eq!(world.job(id).await.summary.state, JobState::Queued);
    }

    async fn a_job_whose_last_part_ends_while_it_is_paused_is_finished_when_it_goes_on(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let (job, lead) = (world.queued(1).await, world.sites[0].steward.clone());
        let id = job.summary.id;
        let leases = [world.lease(0).await, world.lease(1).await, world.lease(2).await];
        for (site, lease) in leases.iter().enumerate() {
            world.submit(&job, site, lease, 1, &[1.0]).await.unwrap();
        }
        for site in [1, 2] {
            finish(&app.ctx, world.sites[site].worker, &leases[site], &Outcome::Done(None), &[]).await.unwrap();
        }
        pause(&app.ctx, &lead, id, &because("a moment")).await.unwrap();
        finish(&app.ctx, world.sites[0].worker, &leases[0], &Outcome::Done(Some(report())), &[]).await.unwrap();
        assert_eq!(world.job(id).await.summary.state, JobState::Paused);
        assert_eq!(resume(&app.ctx, &lead, id).await.unwrap().summary.state, JobState::Finished);
    }

    async fn only_a_job_under_way_is_paused_and_a_paused_one_can_be_ended(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let lead = world.sites[0].steward.clone();
        let proposed = world.propose(world.spec(1)).await.unwrap();
        let early = pause(&app.ctx, &lead, proposed.summary.id, &because("too early")).await.unwrap_err();
        assert_eq!(early.code(), Code::WrongState);
        let job = world.approved(proposed).await;
        let id = job.summary.id;
        let held = world.account(1).await;
        pause(&app.ctx, &lead, id, &because("not now")).await.unwrap();
        assert_eq!(world.account(1).await, held, "what is reserved stays reserved");
        let over = crate::service::job::cancel(&app.ctx, &lead, id).await.unwrap();
        assert_eq!((over.summary.state, over.holds.len()), (JobState::Cancelled, 0));
        assert!(world.account(1).await.committed < held.committed, "and comes back when the job is over");
        let late = pause(&app.ctx, &lead, id, &because("too late")).await.unwrap_err();
        assert_eq!(late.code(), Code::WrongState);
    }
}
