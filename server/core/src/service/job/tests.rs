#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]
#![expect(clippy::float_cmp, reason = "what was never charged is exactly 0")]

mod draft;
mod hold;
mod lapse;
mod leave;
mod logged;

use std::collections::BTreeMap;

use undertone_api::id::{ConsortiumId, DatasetId};
use undertone_api::job::dp_sgd::{ArmResult, Report as DpSgdReport};
use undertone_api::job::{Approval, Job, JobState, Measurement, NewJob, ParticipantState, RefuseRequest, Report, Spec};
use undertone_api::page::PageQuery;
use undertone_api::plan::NewPlan;
use undertone_api::problem::Code;
use undertone_api::signed::{Manifest, Signed};
use uuid::Uuid;

use crate::compute::AT_A_TIME;
use crate::fairness::WorkOwner;
use crate::service::approval::{approve, decide, refuse};
use crate::service::finish::{PartOutcome, finish};
use crate::service::job::{cancel, count_releases, get, progress};
use crate::service::measurement::measure;
use crate::service::offer::{self, OfferRequest, WorkOffer};
use crate::service::plan::plan;
use crate::service::world::{TestConsortium, row};
use crate::service::{certificate, lease};
use crate::testing::on_both;
use crate::view::job::list::list;

fn report() -> Report {
    Report::DpSgd(DpSgdReport { arms: Vec::<ArmResult>::new(), parameters: 7, ..DpSgdReport::default() })
}

fn measurement(test: &str) -> Measurement {
    Measurement { series: "private".to_owned(), round: 1, test: test.to_owned(), frames: 10, accuracy: 0.5, loss: 1.0 }
}

on_both! {
    async fn a_job_runs_from_proposal_to_settlement(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = world.propose(world.spec(1)).await.unwrap();
        assert_eq!(job.summary.state, JobState::Proposed);
        assert_eq!(job.participants[0].approval, Approval::NotNeeded);
        assert_eq!(job.participants[1].approval, Approval::Pending);
        let job = world.approved(job).await;
        assert_eq!(job.summary.state, JobState::Queued);
        let leases = [world.lease(0).await, world.lease(1).await, world.lease(2).await];
        for (site, lease) in leases.iter().enumerate() {
            world.submit(&job, site, lease, 1, &[1.0]).await.unwrap();
        }
        let running = world.job(job.summary.id).await;
        assert_eq!((running.summary.state, running.summary.rounds_done), (JobState::Running, 1));
        let paid = |job: &Job| -> BTreeMap<_, _> {
            job.participants.iter().filter(|part| part.releases > 0).map(|part| (part.dataset, part.releases)).collect()
        };
        let released = count_releases(&app.ctx, &world.sites[0].steward, job.summary.consortium).await.unwrap();
        assert_eq!(released, paid(&running), "one job");
        assert_eq!(released.len(), 2, "both private sites have released");
        let other = ConsortiumId(Uuid::nil());
        assert_eq!(count_releases(&app.ctx, &world.sites[0].steward, other).await.unwrap_err().code(), Code::NotFound);
        assert_eq!(running.participants[1].state, ParticipantState::Running);
        assert!(running.participants[1].epsilon_spent.unwrap() <= running.participants[1].epsilon_reserved.unwrap());
        for site in [1, 2] {
            finish(&app.ctx, world.sites[site].worker, &leases[site], &PartOutcome::Done(None), &[]).await.unwrap();
        }
        assert_eq!(world.job(job.summary.id).await.summary.state, JobState::Running, "the lead has not reported");
        let wrong = finish(&app.ctx, world.sites[0].worker, &leases[0], &PartOutcome::Done(None), &[]).await.unwrap_err();
        assert_eq!(wrong.code(), Code::ValidationFailed, "the lead must report");
        finish(&app.ctx, world.sites[0].worker, &leases[0], &PartOutcome::Done(Some(report())), &[]).await.unwrap();
        let result = world.job(job.summary.id).await;
        assert_eq!((result.summary.state, result.report), (JobState::Finished, Some(report())));
        let account = world.account(1).await;
        assert_eq!(account.committed, account.spent, "nothing stays reserved");
    }

    async fn lineage_is_charged_under_every_name(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = world.queued(1).await;
        let leases = [world.lease(0).await, world.lease(1).await, world.lease(2).await];
        for (site, lease) in leases.iter().enumerate() {
            world.submit(&job, site, lease, 1, &[1.0]).await.unwrap();
        }
        let spent = world.account(1).await;
        assert!(spent.committed > 0.0);
        // The same people under another name: the spent ε counts there too.
        let other = world.continued(1, "speech-2").await;
        let first = std::mem::replace(&mut world.sites[1].dataset, other);
        assert_eq!(world.account(1).await, spent);
        let refused = world.propose(world.spec(5000)).await.unwrap_err();
        assert_eq!(refused.code(), Code::BudgetExceeded);
        // One job cannot contain both.
        let mut both = world.spec(1);
        let again = undertone_api::job::dp_sgd::Party { dataset: first, ..both.participants[1] };
        both.participants.push(again);
        let refused = world.propose(both).await.unwrap_err().into_problem();
        assert_eq!(refused.violations.len(), 1);
        assert!(refused.violations[0].message.contains("same accounts"), "{:?}", refused.violations);
    }

    async fn silent_participant_after_last_round_does_not_delay_job(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = world.queued(1).await;
        let leases = [world.lease(0).await, world.lease(1).await, world.lease(2).await];
        for (site, lease) in leases.iter().enumerate() {
            world.submit(&job, site, lease, 1, &[1.0]).await.unwrap();
        }
        finish(&app.ctx, world.sites[1].worker, &leases[1], &PartOutcome::Done(None), &[]).await.unwrap();
        finish(&app.ctx, world.sites[0].worker, &leases[0], &PartOutcome::Done(Some(report())), &[]).await.unwrap();
        assert_eq!(world.job(job.summary.id).await.summary.state, JobState::Running);
        app.clock.advance(time::Duration::seconds(i64::from(lease::SECONDS) + 1));
        assert_eq!(world.job(job.summary.id).await.participants[2].state, ParticipantState::Silent);
        offer::next(&app.ctx, world.sites[1].worker, &OfferRequest::default()).await.unwrap();
        assert_eq!(world.job(job.summary.id).await.summary.state, JobState::Finished);
        let certificate = certificate::existing(&app.ctx, job.summary.id).await.unwrap();
        assert!(certificate.is_some(), "the certificate of a finished job waits for no request");
        finish(&app.ctx, world.sites[2].worker, &leases[2], &PartOutcome::Done(None), &[]).await.unwrap();
        let account = world.account(2).await;
        assert_eq!(account.committed, account.spent, "it settles when it comes back");
    }

    async fn a_manifest_is_signed_by_the_server_and_names_what_may_run(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let job = world.propose(world.spec(1)).await.unwrap();
        let stored = row(&app.ctx, job.summary.id).await;
        let signed = Signed { payload: stored.manifest, signature: stored.signature };
        assert_eq!(signed.digest(), job.manifest);
        let manifest: Manifest = signed.open(&app.ctx.signer.verifying_key()).unwrap();
        assert_eq!((manifest.job, &manifest.spec), (job.summary.id, &job.spec));
        assert_eq!(manifest.participants[1].charge, job.participants[1].charge);
        assert_eq!(manifest.participants[1].units, 500);
    }

    async fn every_violation_of_a_proposal_is_named(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let mut spec = world.spec(1);
        spec.participants[1].noise = None;
        spec.tests[0].dataset = DatasetId(Uuid::nil());
        let refused = world.propose(spec).await.unwrap_err().into_problem();
        assert_eq!(refused.code, Code::ValidationFailed);
        let fields: Vec<_> = refused.violations.iter().map(|violation| violation.field.as_str()).collect();
        assert_eq!(fields, ["spec.participants.1.noise", "spec.tests.0.dataset"]);
    }

    async fn proposal_over_budget_is_refused_with_figures(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 3.0).await;
        let refused = world.propose(world.spec(1000)).await.unwrap_err().into_problem();
        assert_eq!(refused.code, Code::BudgetExceeded);
        let [refusal] = &refused.refusals[..] else { panic!("one account refuses") };
        assert_eq!((refusal.limit, refusal.spent), (3.0, 0.0));
        assert!(refusal.asked.unwrap() > 3.0 && refusal.releases_that_fit < 1000);
        assert!(list(&app.ctx, &world.sites[0].steward, world.consortium, &PageQuery::default()).await.unwrap().items.is_empty());

        let new = NewPlan {
            consortium: world.consortium,
            job: NewJob { title: "a plan".to_owned(), spec: Spec::DpSgd(world.spec(1000)) },
        };
        let planned = plan(&app.ctx, &world.sites[0].steward, &new).await.unwrap();
        assert!(!planned.admitted && planned.refusals.len() == 1);
        let party = &planned.parties[0];
        assert_eq!((party.would_be, party.releases_that_fit), (refusal.would_be, refusal.releases_that_fit));
        assert!(party.left.unwrap() < 0.0);
        let mut spec = world.spec(1000);
        let noise = spec.participants[1].noise.as_mut().unwrap();
        noise.noise_multiplier = party.least_noise.unwrap().try_into().unwrap();
        assert!(world.propose(spec).await.is_ok(), "the least noise that was named fits");
    }

    async fn plan_reads_the_database_when_its_turn_has_come(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 3.0).await;
        let mut turns = Vec::new();
        for _ in 0..AT_A_TIME {
            turns.push(app.ctx.compute().admit(WorkOwner::System).await.unwrap());
        }
        let (ctx, steward) = (app.ctx.clone(), world.sites[0].steward.clone());
        let job = NewJob { title: "a plan".to_owned(), spec: Spec::DpSgd(world.spec(1)) };
        let new = NewPlan { consortium: world.consortium, job };
        let waiting = tokio::spawn(async move { plan(&ctx, &steward, &new).await });
        while app.ctx.compute().waiting() == 0 {
            tokio::task::yield_now().await;
        }
        world.set_budget(&world.sites[1], 50.0).await.unwrap();
        drop(turns);
        let planned = waiting.await.unwrap().unwrap();
        assert!(planned.parties[0].left.unwrap() > 3.0, "the budget was raised while the plan waited");
    }

    async fn a_dataset_without_a_budget_is_asked_for_one(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 3.0).await;
        let mut spec = world.spec(1);
        spec.unit = undertone_privacy::PrivacyUnit::Speaker;
        assert_eq!(world.propose(spec).await.unwrap_err().code(), Code::BudgetMissing);
    }

    async fn a_stewards_refusal_ends_the_job_and_charges_nothing(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = world.propose(world.spec(1)).await.unwrap();
        let (site, other) = (&world.sites[1], &world.sites[2]);
        let stranger = approve(&app.ctx, &other.steward, job.summary.id, site.dataset).await.unwrap_err();
        assert!(matches!(stranger.code(), Code::Forbidden | Code::NotFound));
        approve(&app.ctx, &other.steward, job.summary.id, other.dataset).await.unwrap();
        let no = RefuseRequest { reason: "not this quarter".to_owned() };
        let refused = refuse(&app.ctx, &site.steward, job.summary.id, site.dataset, &no).await.unwrap();
        assert_eq!(refused.summary.state, JobState::Refused);
        assert!(refused.reason.unwrap().contains("not this quarter"));
        assert_eq!(world.account(1).await.committed, 0.0);
        let after = approve(&app.ctx, &site.steward, job.summary.id, site.dataset).await.unwrap_err();
        assert_eq!(after.code(), Code::WrongState);
    }

    async fn a_site_answers_with_its_signature_and_once(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = world.propose(world.spec(1)).await.unwrap();
        let (site, other) = (&world.sites[1], &world.sites[2]);
        let offered = offer::next(&app.ctx, site.worker, &OfferRequest::default()).await.unwrap();
        assert!(matches!(&offered, WorkOffer::Proposal { manifest, dataset } if manifest.digest() == job.manifest && *dataset == site.dataset));
        let asking = OfferRequest { decided: vec![job.manifest.clone()], ..OfferRequest::default() };
        assert_eq!(offer::next(&app.ctx, site.worker, &asking).await.unwrap(), WorkOffer::Nothing);

        let foreign = decide(&app.ctx, site.worker, &other.decision(&job, true, "")).await.unwrap_err();
        assert_eq!(foreign.code(), Code::BadSignature);
        let yes = site.decision(&job, true, "");
        decide(&app.ctx, site.worker, &yes).await.unwrap();
        decide(&app.ctx, site.worker, &yes).await.unwrap();
        let pending = world.job(job.summary.id).await;
        assert_eq!(pending.participants[1].approval, Approval::Approved { by: "site policy".to_owned() });
        assert_eq!(pending.summary.state, JobState::Proposed);
        assert_eq!(offer::next(&app.ctx, site.worker, &OfferRequest::default()).await.unwrap(), WorkOffer::Nothing);
        decide(&app.ctx, other.worker, &other.decision(&job, true, "")).await.unwrap();
        assert_eq!(world.job(job.summary.id).await.summary.state, JobState::Queued);
    }

    async fn a_sites_refusal_counts_even_after_its_steward_agreed(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let job = world.queued(1).await;
        assert_eq!(job.summary.state, JobState::Queued);
        let no = world.sites[1].decision(&job, false, "too little noise");
        decide(&app.ctx, world.sites[1].worker, &no).await.unwrap();
        let failed = world.job(job.summary.id).await;
        assert_eq!(failed.summary.state, JobState::Failed);
        assert!(failed.reason.is_some_and(|reason| reason.contains("too little noise")));
        assert_eq!(world.account(1).await.committed, 0.0, "nothing had begun, so all is given back");
    }

    async fn cancelled_job_keeps_reservation_until_site_settles(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = world.queued(3).await;
        let lease = world.lease(1).await;
        let outsider = cancel(&app.ctx, &world.sites[2].steward, job.summary.id).await.unwrap_err();
        assert_eq!(outsider.code(), Code::Forbidden, "only its proposer or an admin");
        let over = cancel(&app.ctx, &world.sites[0].steward, job.summary.id).await.unwrap();
        assert_eq!(over.summary.state, JobState::Cancelled);
        assert_eq!(world.account(2).await.committed, 0.0, "no lease was ever given: all is returned");
        assert!(world.account(1).await.committed > 0.0, "a lease was given: something may have left");

        assert!(!lease::renew(&app.ctx, world.sites[1].worker, &lease).await.unwrap().go_on);
        let receipt = world.sites[1].receipt(&job, 1, 1);
        let stopped = PartOutcome::GaveUp("cancelled".to_owned());
        finish(&app.ctx, world.sites[1].worker, &lease, &stopped, &[receipt]).await.unwrap();
        let account = world.account(1).await;
        assert!(account.spent > 0.0);
        assert_eq!(account.spent, account.committed);
        assert_eq!(offer::next(&app.ctx, world.sites[1].worker, &OfferRequest::default()).await.unwrap(), WorkOffer::Nothing);
    }

    /// Its worker crashed, or the response with its token was lost: the site holds no token that the server knows.
    async fn site_without_lease_settles_after_the_job_ended(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = world.queued(3).await;
        let _lost = world.lease(1).await;
        cancel(&app.ctx, &world.sites[0].steward, job.summary.id).await.unwrap();
        let lease = world.lease(1).await;
        assert!(!lease::renew(&app.ctx, world.sites[1].worker, &lease).await.unwrap().go_on);
        assert!(world.submit(&job, 1, &lease, 1, &[1.0]).await.is_err(), "it may not send");
        let stopped = PartOutcome::GaveUp("cancelled".to_owned());
        finish(&app.ctx, world.sites[1].worker, &lease, &stopped, &[]).await.unwrap();
        let account = world.account(1).await;
        assert_eq!((account.spent, account.committed), (0.0, 0.0), "nothing left, and nothing is held");
        assert_eq!(offer::next(&app.ctx, world.sites[1].worker, &OfferRequest::default()).await.unwrap(), WorkOffer::Nothing);
        let untouched = offer::next(&app.ctx, world.sites[2].worker, &OfferRequest::default()).await.unwrap();
        assert_eq!(untouched, WorkOffer::Nothing, "who never had a lease holds nothing");
    }

    async fn only_the_lead_measures_and_only_what_the_job_names(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let job = world.queued(1).await;
        let (lead, other) = (world.lease(0).await, world.lease(1).await);
        let (leader, party) = (world.sites[0].worker, world.sites[1].worker);
        let not_lead = measure(&app.ctx, party, &other, &measurement("common")).await.unwrap_err();
        assert_eq!(not_lead.code(), Code::Forbidden);
        let unknown = measure(&app.ctx, leader, &lead, &measurement("a private test")).await.unwrap_err();
        assert_eq!(unknown.code(), Code::ValidationFailed);
        let nan = Measurement { accuracy: f64::NAN, ..measurement("common") };
        assert_eq!(measure(&app.ctx, leader, &lead, &nan).await.unwrap_err().code(), Code::ValidationFailed);
        measure(&app.ctx, leader, &lead, &measurement("common")).await.unwrap();
        measure(&app.ctx, leader, &lead, &Measurement { accuracy: 0.75, ..measurement("common") }).await.unwrap();
        let view = progress(&app.ctx, &world.sites[1].steward, job.summary.id).await.unwrap();
        assert_eq!(view.measurements, [Measurement { accuracy: 0.75, ..measurement("common") }]);
    }

    async fn a_job_is_nobodys_business_outside_its_consortium(app: &TestApp) {
        let (world, other) = (TestConsortium::new(&app.ctx, 1, 50.0).await, TestConsortium::new(&app.ctx, 1, 50.0).await);
        let job = world.propose(world.spec(1)).await.unwrap();
        let stranger = &other.sites[0].steward;
        assert_eq!(get(&app.ctx, stranger, job.summary.id).await.unwrap_err().code(), Code::NotFound);
        assert_eq!(cancel(&app.ctx, stranger, job.summary.id).await.unwrap_err().code(), Code::NotFound);
        let mut spec = other.spec(1);
        spec.participants.push(world.spec(1).participants[1]);
        assert_eq!(other.propose(spec).await.unwrap_err().code(), Code::ValidationFailed);
    }
}
