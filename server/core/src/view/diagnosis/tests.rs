#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

use time::Duration;
use undertone_api::job::Job;
use undertone_api::job::diagnosis::DiagnosisCause;
use undertone_api::job::log::{Fault, Phase, SiteEvent};

use crate::service::job_log::{SiteLogLine, append};
use crate::service::offer;
use crate::service::world::{TestConsortium, row};
use crate::testing::{TestApp, on_both};
use crate::view::diagnosis::diagnose;

/// Returns each problem with its party, in order.
async fn troubles(app: &TestApp, job: &Job) -> Vec<(DiagnosisCause, String)> {
    let row = row(&app.ctx, job.summary.id).await;
    let diagnoses = diagnose(&app.ctx, &row).await.unwrap();
    assert!(diagnoses.iter().all(|one| !one.reason.is_empty() && !one.remedy.is_empty()), "{diagnoses:?}");
    diagnoses.into_iter().map(|one| (one.cause, one.party)).collect()
}

async fn causes(app: &TestApp, job: &Job) -> Vec<DiagnosisCause> {
    troubles(app, job).await.into_iter().map(|(cause, _)| cause).collect()
}

/// Stores a sign of life of every site.
async fn all_seen(world: &TestConsortium) {
    for site in &world.sites {
        offer::mark_seen(&world.ctx, site.worker).await.unwrap();
    }
}

async fn say(app: &TestApp, world: &TestConsortium, lease: &str, event: SiteEvent, skew: i64) {
    let now = app.ctx.now().unix_timestamp();
    let report = SiteLogLine { sequence: now as u64 * 1000, at_unix: now + skew, event };
    append(&app.ctx, world.sites[1].worker, lease, now + skew, &[report]).await.unwrap();
}

on_both! {
    async fn a_proposal_waits_for_its_owners_by_name(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = world.propose(world.spec(2)).await.unwrap();
        let diagnoses = troubles(app, &job).await;
        assert_eq!(diagnoses.iter().map(|(cause, _)| *cause).collect::<Vec<_>>(), [DiagnosisCause::AwaitsOwner; 2]);
        assert!(diagnoses[0].1.starts_with("speech of party 1"), "{diagnoses:?}");
        let job = world.approved(job).await;
        assert_eq!(causes(app, &job).await, [DiagnosisCause::NeverConnected; 3]);
        let job_view = world.job(job.summary.id).await;
        assert_eq!(job_view.diagnoses.len(), 3, "the job's own view says the same");
    }

    async fn a_worker_that_is_not_heard_of_is_named_until_it_is(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = world.queued(2).await;
        all_seen(&world).await;
        for site in 0..3 {
            world.lease(site).await;
        }
        assert_eq!(causes(app, &job).await, []);
        app.clock.advance(Duration::seconds(61));
        offer::mark_seen(&app.ctx, world.sites[0].worker).await.unwrap();
        // The first is connected, and has not renewed its lease; the others are disconnected.
        assert_eq!(causes(app, &job).await, [DiagnosisCause::Silent, DiagnosisCause::Disconnected, DiagnosisCause::Disconnected]);
    }

    async fn what_a_site_says_it_waits_for_is_what_it_waits_for(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = world.queued(2).await;
        all_seen(&world).await;
        let lease = world.lease(1).await;
        for (event, cause) in [
            (SiteEvent::Phase { phase: Phase::AwaitsTerminal }, DiagnosisCause::AwaitsTerminal),
            (SiteEvent::Phase { phase: Phase::AwaitsSlot }, DiagnosisCause::AwaitsSlot),
            (SiteEvent::Fault { fault: Fault::DiskFull }, DiagnosisCause::DiskFull),
        ] {
            app.clock.advance(Duration::seconds(1));
            say(app, &world, &lease, event, 0).await;
            assert_eq!(causes(app, &job).await, [cause]);
        }
        app.clock.advance(Duration::seconds(1));
        say(app, &world, &lease, SiteEvent::Phase { phase: Phase::Begun }, 0).await;
        assert_eq!(causes(app, &job).await, [], "it has begun");
        app.clock.advance(Duration::seconds(1));
        say(app, &world, &lease, SiteEvent::Phase { phase: Phase::Begun }, 300).await;
        assert_eq!(causes(app, &job).await, [DiagnosisCause::ClockSkew]);
    }

    async fn a_clock_at_the_end_of_all_times_is_named_and_breaks_nothing(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = world.queued(2).await;
        all_seen(&world).await;
        let lease = world.lease(1).await;
        for (sequence, sent) in [(1, i64::MIN), (2, i64::MAX)] {
            let report = SiteLogLine { sequence, at_unix: sent, event: SiteEvent::Phase { phase: Phase::Begun } };
            append(&app.ctx, world.sites[1].worker, &lease, sent, &[report]).await.unwrap();
            assert_eq!(causes(app, &job).await, [DiagnosisCause::ClockSkew], "{sent}");
        }
    }

    async fn a_late_vector_and_a_missing_quorum_are_told_apart(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = world.queued(2).await;
        all_seen(&world).await;
        let mut leases = Vec::new();
        for site in 0..3 {
            leases.push(world.lease(site).await);
        }
        world.submit(&job, 1, &leases[1], 1, &[1.0, 2.0]).await.unwrap();
        app.clock.advance(Duration::seconds(61));
        all_seen(&world).await;
        for (site, lease) in leases.iter().enumerate() {
            crate::service::lease::renew(&app.ctx, world.sites[site].worker, lease).await.unwrap();
        }
        assert_eq!(causes(app, &job).await, [DiagnosisCause::NoSubmission, DiagnosisCause::NoSubmission, DiagnosisCause::NoQuorum]);
    }

    async fn a_job_that_is_over_has_no_trouble(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let job = world.queued(2).await;
        assert!(!causes(app, &job).await.is_empty());
        let proposer = &world.sites[0].steward;
        crate::service::job::cancel(&app.ctx, proposer, job.summary.id).await.unwrap();
        assert_eq!(causes(app, &job).await, []);
    }
}
