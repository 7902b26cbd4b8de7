#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

mod audited;
mod forged;

use sea_orm::ConnectionTrait as _;
use undertone_api::consortium::NewOverlap;
use undertone_api::job::JobState;
use undertone_api::member::{Role, RoleGrant, RoleScope};
use undertone_api::problem::Code;
use undertone_api::signed::certificate::{FigureMethod, PublicFact, ValidFor};
use undertone_api::signed::{Certificate, Consent};
use undertone_certificate::{PointFinding, TrustedInputs, VerificationPoint, price, verify};
use undertone_privacy::ledger::Overlap;

use super::{file, get};
use crate::auth::Actor;
use crate::service::finish::{PartOutcome, finish};
use crate::service::lease;
use crate::service::offer::{self, OfferRequest};
use crate::service::world::finished::{at_the_end, end, finished, played, verification_keys};
use crate::service::world::{CLIP, TestConsortium};
use crate::testing::on_both;

/// Returns an admin of the consortium.
fn admin(world: &TestConsortium) -> Actor {
    let mut actor = world.sites[1].steward.clone();
    actor.member.grants.push(RoleGrant { scope: RoleScope::Consortium(world.consortium), role: Role::ConsortiumAdmin });
    actor
}

on_both! {
    async fn a_finished_job_s_certificate_holds_at_every_point_offline(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = finished(&mut world, 3).await;
        let file = file(&app.ctx, &world.sites[1].steward, job.summary.id).await.unwrap();
        // As stored on a disk.
        let file = serde_json::from_str(&serde_json::to_string(&file).unwrap()).unwrap();
        let verdict = verify(&file, &verification_keys(&world));
        assert!(verdict.holds(), "{verdict}");
        for point in VerificationPoint::ALL {
            assert!(matches!(verdict.finding(point), Some(PointFinding::Holds(_))), "{}\n{verdict}", point.name());
        }
        let alone = verify(&file, &TrustedInputs::default());
        assert!(alone.holds() && matches!(alone.finding(VerificationPoint::Sites), Some(PointFinding::Unchecked(_))), "{alone}");
    }

    async fn a_certificate_says_what_each_number_is_and_may_be_used_for(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = finished(&mut world, 3).await;
        let certificate = get(&app.ctx, &world.sites[1].steward, job.summary.id).await.unwrap();
        assert_eq!(certificate.parties[0].charged, None, "public data pay nothing");
        assert_eq!(certificate.parties[0].consent, None, "public data need no consent");
        assert_eq!(certificate.parties[1].consent, Some(Consent::ServerWord), "its site verifies no signature");
        let charges = certificate.parties[1].charged.as_ref().unwrap();
        let (renyi, tight) = (charges.renyi.unwrap(), charges.tight.unwrap());
        assert_eq!((renyi.method, renyi.valid_for), (FigureMethod::Renyi, ValidFor::Budgets));
        assert_eq!((tight.method, tight.valid_for), (FigureMethod::PrivacyLossDistribution, ValidFor::ThisJobAlone));
        assert!(0.0 < tight.epsilon.unwrap() && tight.epsilon < renyi.epsilon, "{tight:?} {renyi:?}");
        assert_eq!(renyi.epsilon, job.participants[1].epsilon_spent, "the job's page says the same");
        assert_eq!((charges.mechanism.clip, charges.mechanism.sensitivity, charges.mechanism.noise), (Some(CLIP), Some(CLIP), Some(CLIP)));
        assert_eq!((charges.releases.committed, charges.releases.counted, charges.receipts.count), (3, 3, 3));
        let account = world.account(1).await;
        assert_eq!((charges.account.spent.to_bits(), charges.account.limit), (account.spent.to_bits(), Some(50.0)));
        assert!(charges.audit.is_none(), "not asked");
        assert!(charges.relation.contains("any one record’s part and with that part emptied"), "{}", charges.relation);
        let units = certificate.parties[1].units;
        let batch = PublicFact::ExpectedBatch { units: units as f64 / 8.0 };
        for fact in [PublicFact::Units { count: units }, PublicFact::Sizes, PublicFact::Participation, batch] {
            assert!(charges.public.contains(&fact), "{fact:?} is not in {:?}", charges.public);
        }
    }

    async fn later_overlap_rule_changes_no_certificate(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let first = finished(&mut world, 2).await.summary.id;
        let reader = world.sites[1].steward.clone();
        let together = |certificate: &undertone_api::signed::Certificate| {
            let together = &certificate.together[0];
            (together.most, together.figure.unwrap().epsilon.unwrap())
        };
        let before = get(&app.ctx, &reader, first).await.unwrap();
        let alone = before.parties[1].charged.as_ref().unwrap().renyi.unwrap().epsilon.unwrap();
        let (most, sum) = together(&before);
        assert!(most == 2 && sum > alone, "people may be in both: {sum} of {alone}");
        assert_eq!(before.overlap.attested_by, None);

        let new = NewOverlap { overlap: Overlap::Disjoint, statement: "Different countries.".to_owned() };
        crate::service::consortium::attest(&app.ctx, &admin(&world), world.consortium, &new).await.unwrap();
        assert_eq!(get(&app.ctx, &reader, first).await.unwrap(), before);
        let second = finished(&mut world, 2).await.summary.id;
        let after = get(&app.ctx, &reader, second).await.unwrap();
        assert_eq!(together(&after), (1, alone), "nobody is in both");
        assert_eq!(after.overlap.statement, "Different countries.");
        let verdict = verify(&file(&app.ctx, &reader, second).await.unwrap(), &verification_keys(&world));
        assert!(verdict.holds(), "{verdict}");
    }

    async fn a_job_that_was_stopped_is_priced_for_all_planned_releases(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let mut spec = world.spec(3);
        spec.spare_releases = 2;
        let job = world.propose(spec).await.unwrap();
        let job = world.approved(job).await;
        let leases = [world.lease(0).await, world.lease(1).await, world.lease(2).await];
        for (site, lease) in leases.iter().enumerate() {
            world.submit(&job, site, lease, 1, &[1.0]).await.unwrap();
        }
        // A member looked at the first round and stopped the job.
        let gave_up = PartOutcome::GaveUp("it looks bad".to_owned());
        for (site, lease) in leases.iter().enumerate() {
            finish(&app.ctx, world.sites[site].worker, lease, &gave_up, &[]).await.unwrap();
        }
        let file = file(&app.ctx, &world.sites[1].steward, job.summary.id).await.unwrap();
        let certificate: Certificate = serde_json::from_str(&file.payload).unwrap();
        let charges = certificate.parties[1].charged.as_ref().unwrap();
        let releases = charges.releases;
        assert_eq!((releases.committed, releases.settled, releases.reserved, releases.counted), (1, true, 5, 5));
        let of = |releases: u64| {
            let mut plan = undertone_privacy::pld::Plan::new();
            plan.add(&charges.mechanism.event, charges.adjacency, releases);
            plan.epsilon(undertone_privacy::Delta::new(charges.account.delta.unwrap()).unwrap()).unwrap().map(f64::from)
        };
        assert_eq!(charges.tight.unwrap().epsilon, of(5));
        assert!(of(5) > of(1), "the number that was reached by stopping is smaller");
        let verdict = verify(&file, &TrustedInputs { model: None, ..verification_keys(&world) });
        assert!(verdict.holds(), "{verdict}");

        // A server that prices only the made releases is detected, whichever rules it claims.
        for version in [1, Certificate::VERSION, 3] {
            let mut lie = certificate.clone();
            lie.version = version;
            for charges in lie.parties.iter_mut().filter_map(|party| party.charged.as_mut()) {
                charges.releases.counted = charges.releases.committed;
            }
            let lie = price::compute_figures(lie).unwrap();
            let verdict = verify(&forged::sign_certificate(file.clone(), &lie, &app.ctx.signer), &verification_keys(&world));
            assert!(verdict.failed().contains(&VerificationPoint::Counts), "version {version}\n{verdict}");
        }
    }

    async fn a_certificate_of_the_first_version_holds_by_its_own_rules(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let mut spec = world.spec(1);
        spec.spare_releases = 4;
        let proposed = world.propose(spec).await.unwrap();
        let job = world.signed_before(&proposed).await;
        let job = world.approved(job).await;
        played(&mut world, &job, 1).await;
        let file = file(&app.ctx, &world.sites[1].steward, job.summary.id).await.unwrap();
        let mut old: Certificate = serde_json::from_str(&file.payload).unwrap();
        old.version = Certificate::first_version();
        for charged in old.parties.iter_mut().filter_map(|party| party.charged.as_mut()) {
            charged.releases.counted = charged.releases.committed;
            (charged.relation, charged.public, charged.account.promises) = Default::default();
        }
        let mut document = serde_json::to_value(price::compute_figures(old).unwrap()).unwrap();
        document.as_object_mut().unwrap().remove("version");
        for charged in document["parties"].as_array_mut().unwrap().iter_mut().map(|party| &mut party["charged"]) {
            let Some(charged) = charged.as_object_mut() else { continue };
            charged.remove("relation");
            charged.remove("public");
            charged["account"].as_object_mut().unwrap().remove("promises");
        }
        let as_it_was = forged::sign_text(file, document.to_string(), &app.ctx.signer);
        let verdict = verify(&as_it_was, &verification_keys(&world));
        assert!(verdict.holds() && verdict.to_string().contains("by the rules of version 1"), "{verdict}");
    }

    async fn open_part_counts_its_whole_reservation(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let mut spec = world.spec(1);
        spec.spare_releases = 2;
        let job = world.propose(spec).await.unwrap();
        let job = world.approved(job).await;
        let leases = [world.lease(0).await, world.lease(1).await, world.lease(2).await];
        for (site, lease) in leases.iter().enumerate() {
            world.submit(&job, site, lease, 1, &[1.0]).await.unwrap();
        }
        end(&world, 1, &leases[1]).await;
        end(&world, 0, &leases[0]).await;
        app.clock.advance(time::Duration::seconds(i64::from(lease::SECONDS) + 1));
        offer::next(&app.ctx, world.sites[1].worker, &OfferRequest::default()).await.unwrap();
        assert_eq!(world.job(job.summary.id).await.summary.state, JobState::Finished);
        let certificate = get(&app.ctx, &world.sites[1].steward, job.summary.id).await.unwrap();
        let of = |party: usize| certificate.parties[party].charged.as_ref().unwrap();
        assert_eq!((of(1).releases.counted, of(1).releases.settled), (3, true));
        assert_eq!((of(2).releases.counted, of(2).releases.settled), (3, false));
        assert_eq!(of(2).renyi.unwrap().epsilon, of(1).renyi.unwrap().epsilon, "closed or not, the plan is priced");
        // The site returns with a receipt that the certificate does not know, and the certificate does not change.
        let late = world.sites[2].receipt(&job, 1, 2);
        finish(&app.ctx, world.sites[2].worker, &leases[2], &PartOutcome::Done(None), &[late]).await.unwrap();
        let file = file(&app.ctx, &world.sites[1].steward, job.summary.id).await.unwrap();
        assert_eq!(file.evidence.receipts.len(), 2);
        let verdict = verify(&file, &TrustedInputs { model: None, ..verification_keys(&world) });
        assert!(verdict.holds(), "{verdict}");
    }

    async fn unfinished_job_or_job_without_release_has_no_certificate(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let (running, leases) = at_the_end(&mut world, 1).await;
        let reader = world.sites[1].steward.clone();
        let none = get(&app.ctx, &reader, running.summary.id).await.unwrap_err();
        assert_eq!(none.code(), Code::WrongState);
        let gave_up = PartOutcome::GaveUp("enough".to_owned());
        finish(&app.ctx, world.sites[0].worker, &leases[0], &gave_up, &[]).await.unwrap();
        assert_eq!(get(&app.ctx, &reader, running.summary.id).await.unwrap_err().code(), Code::WrongState);
        for site in [1, 2] {
            finish(&app.ctx, world.sites[site].worker, &leases[site], &gave_up, &[]).await.unwrap();
        }
        let failed = get(&app.ctx, &reader, running.summary.id).await.unwrap();
        assert_eq!((failed.job.state, failed.parties[1].charged.as_ref().unwrap().releases.committed), (JobState::Failed, 1));
        let untouched = world.queued(1).await.summary.id;
        crate::service::job::cancel(&app.ctx, &world.sites[0].steward, untouched).await.unwrap();
        assert_eq!(get(&app.ctx, &reader, untouched).await.unwrap_err().code(), Code::WrongState);
    }

    async fn a_certificate_is_made_once_and_the_database_keeps_it(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = finished(&mut world, 1).await.summary.id;
        let reader = world.sites[1].steward.clone();
        let first = file(&app.ctx, &reader, job).await.unwrap();
        world.set_budget(&world.sites[1], 70.0).await.unwrap();
        app.clock.advance(time::Duration::minutes(1));
        assert_eq!(file(&app.ctx, &reader, job).await.unwrap(), first);
        for change in ["DELETE FROM certificate", "UPDATE certificate SET payload = ''"] {
            let refused = app.ctx.db.write("tamper", async |tx| Ok(tx.execute_unprepared(change).await?)).await;
            let crate::error::Error::Database(error) = refused.unwrap_err() else { panic!("another error") };
            assert!(error.to_string().contains("append-only"), "{change}: {error}");
        }
    }

    async fn a_stranger_learns_nothing_of_a_certificate(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = finished(&mut world, 1).await.summary.id;
        let other = TestConsortium::new(&app.ctx, 1, 50.0).await;
        assert_eq!(get(&app.ctx, &other.sites[0].steward, job).await.unwrap_err().code(), Code::NotFound);
    }
}
