//! Departures: what returns to the accounts, who may leave, and what becomes of the job.

use time::OffsetDateTime;
use undertone_api::id::JobId;
use undertone_api::job::{DepartureOrigin, JobState, LeaveRequest, ParticipantState, PauseRequest};
use undertone_api::problem::Code;
use undertone_api::signed::{Signed, SiteDeparture};

use super::report;
use crate::service::finish::{PartOutcome, finish};
use crate::service::job::leave::leave_by_site;
use crate::service::job::{hold_dataset, leave};
use crate::service::world::{TestConsortium, TestSite};
use crate::service::{certificate, lease, ledger};
use crate::testing::on_both;

fn request(reason: &str) -> LeaveRequest {
    LeaveRequest { reason: reason.to_owned() }
}

fn statement(site: &TestSite, job: JobId, manifest: &str) -> Signed {
    let (manifest, reason) = (manifest.to_owned(), "the study\u{7} has ended".to_owned());
    let at = OffsetDateTime::UNIX_EPOCH;
    Signed::new(&SiteDeparture { manifest, job, dataset: site.dataset, reason, at }, &site.key).unwrap()
}

async fn is_settled(world: &TestConsortium, job: JobId, site: usize) -> bool {
    let row = ledger::find_reservation(world.ctx.db.read(), job.0, world.sites[site].dataset.0).await.unwrap();
    row.unwrap().settled
}

on_both! {
    async fn party_that_leaves_between_rounds_recovers_what_it_never_released(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 3, 50.0).await;
        let job = world.queued(3).await;
        let id = job.summary.id;
        let leases = [world.lease(0).await, world.lease(1).await, world.lease(2).await, world.lease(3).await];
        for (site, lease) in leases.iter().enumerate() {
            world.submit(&job, site, lease, 1, &[2.0]).await.unwrap();
        }
        let before = world.account(3).await;
        assert!(before.committed > before.spent, "two releases are still reserved");
        let site = &world.sites[3];
        let steward = site.steward.clone();
        let view = leave(&app.ctx, &steward, id, site.dataset, &request("the study has ended")).await.unwrap();
        assert_eq!((view.summary.state, view.participants[3].state), (JobState::Running, ParticipantState::Leaving));
        assert_eq!(world.account(3).await, before, "its worker has not accounted for its releases yet");

        // One more release was paid at the site before its worker learned of the departure: it stays spent.
        let late = world.sites[3].receipt(&job, 2, 1);
        let refused = world.submit_with(3, &leases[3], 2, &[9.0], vec![late.clone()]).await.unwrap_err();
        assert_eq!(refused.code(), Code::LeaseLost);
        let worker = world.sites[3].worker;
        let renewal = lease::renew(&app.ctx, worker, &leases[3]).await.unwrap();
        assert!(!renewal.go_on && renewal.reason.contains("the study has ended"), "{}", renewal.reason);
        let end = PartOutcome::GaveUp(renewal.reason);
        finish(&app.ctx, worker, &leases[3], &end, &[late]).await.unwrap();
        let after = world.account(3).await;
        assert!(is_settled(&world, id, 3).await);
        assert!(before.spent < after.spent && after.spent < before.committed, "the second release is counted");
        assert_eq!(after.committed.to_bits(), after.spent.to_bits(), "the third release was never made");
        let view = world.job(id).await;
        assert_eq!((view.participants[3].state, view.participants[3].releases), (ParticipantState::Left, 2));

        // No round waits for it.
        for round in [2, 3] {
            for (site, lease) in leases[..3].iter().enumerate() {
                world.submit(&job, site, lease, round, &[site as f32]).await.unwrap();
            }
            assert_eq!(world.average(0, &leases[0], round).await, Some(vec![1.0]));
        }
        for (site, outcome) in [(1, None), (2, None), (0, Some(report()))] {
            let worker = world.sites[site].worker;
            finish(&app.ctx, worker, &leases[site], &PartOutcome::Done(outcome), &[]).await.unwrap();
        }
        assert_eq!(world.job(id).await.summary.state, JobState::Finished);
        let certificate = certificate::get(&app.ctx, &steward, id).await.unwrap();
        let departure = certificate.parties[3].departure.as_ref().expect("the certificate states it");
        assert_eq!((departure.origin, departure.rounds_done), (DepartureOrigin::Steward, 1));
        assert_eq!((departure.by.as_str(), departure.reason.as_str()), ("steward 3", "the study has ended"));
        let releases = &certificate.parties[3].charged.as_ref().unwrap().releases;
        assert_eq!((releases.committed, releases.reserved, releases.settled), (2, 3, true));
        assert!(certificate.parties[..3].iter().all(|party| party.departure.is_none()));
    }

    async fn party_without_a_lease_recovers_all_at_once(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 3, 50.0).await;
        let id = world.queued(2).await.summary.id;
        let site = &world.sites[3];
        hold_dataset(&app.ctx, &site.steward, id, site.dataset, &PauseRequest { reason: "wait".to_owned() }).await.unwrap();
        let view = leave(&app.ctx, &site.steward, id, site.dataset, &request("no")).await.unwrap();
        assert_eq!(view.summary.state, JobState::Queued, "its own hold ends with it");
        assert_eq!(view.participants[3].state, ParticipantState::Left);
        let account = world.account(3).await;
        assert_eq!((account.spent, account.committed), (0.0, 0.0));
        let again = leave(&app.ctx, &site.steward, id, site.dataset, &request("no")).await.unwrap_err();
        assert!(again.code() == Code::WrongState && again.to_string().contains("has left"), "{again}");
    }

    async fn job_below_its_quorum_or_without_its_lead_fails(app: &TestApp) {
        for (leaving, left) in [(0, 2), (1, 1)] {
            let world = TestConsortium::new(&app.ctx, left, 50.0).await;
            let id = world.queued(1).await.summary.id;
            let site = &world.sites[leaving];
            let view = leave(&app.ctx, &site.steward, id, site.dataset, &request("no data any more")).await.unwrap();
            assert_eq!(view.summary.state, JobState::Failed);
            assert!(view.reason.unwrap().contains("no data any more"));
            assert_eq!(world.account(1).await.committed, 0.0, "nothing stays reserved");
        }
    }

    async fn stranger_and_unfounded_departure_are_refused(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let proposed = world.propose(world.spec(1)).await.unwrap();
        let (id, site) = (proposed.summary.id, &world.sites[1]);
        let early = leave(&app.ctx, &site.steward, id, site.dataset, &request("x")).await.unwrap_err();
        assert!(early.code() == Code::WrongState && early.to_string().contains("refuse it instead"), "{early}");
        world.approved(proposed).await;
        let foreign = leave(&app.ctx, &world.sites[2].steward, id, site.dataset, &request("x")).await.unwrap_err();
        assert_eq!(foreign.code(), Code::Forbidden);
        let unfounded = leave(&app.ctx, &site.steward, id, site.dataset, &request(" ")).await.unwrap_err();
        assert_eq!(unfounded.code(), Code::ValidationFailed);
        let measured = leave(&app.ctx, &world.sites[0].steward, id, world.test, &request("x")).await.unwrap_err();
        assert_eq!(measured.code(), Code::WrongState);
    }

    async fn site_leaves_with_its_own_signature(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 3, 50.0).await;
        let job = world.queued(1).await;
        let (id, site) = (job.summary.id, &world.sites[3]);
        let lease = world.lease(3).await;
        let mut forged = statement(site, id, &job.manifest);
        forged.payload = forged.payload.replace("ended", "begun");
        assert_eq!(leave_by_site(&app.ctx, site.worker, &forged).await.unwrap_err().code(), Code::BadSignature);
        let other = statement(site, id, "another");
        assert_eq!(leave_by_site(&app.ctx, site.worker, &other).await.unwrap_err().code(), Code::BadSignature);
        let foreign = statement(site, id, &job.manifest);
        let refused = leave_by_site(&app.ctx, world.sites[2].worker, &foreign).await.unwrap_err();
        assert_eq!(refused.code(), Code::BadSignature);
        for _ in 0..2 {
            leave_by_site(&app.ctx, site.worker, &statement(site, id, &job.manifest)).await.unwrap();
        }
        finish(&app.ctx, site.worker, &lease, &PartOutcome::GaveUp("left".to_owned()), &[]).await.unwrap();
        let part = world.job(id).await.participants.remove(3);
        let departure = part.departure.expect("it is stated");
        assert_eq!((departure.origin, departure.reason.as_str()), (DepartureOrigin::Site, "the study has ended"));
        assert_eq!(part.state, ParticipantState::Left);
        assert_eq!(world.account(3).await.committed, 0.0);
    }
}
