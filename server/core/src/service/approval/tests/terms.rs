//! Answers to the terms that a proposal leaves to the parties: their charges, the final manifest, and what is refused.

use undertone_api::job::dp_sgd::Spec;
use undertone_api::job::{Job, JobState, OpenTerm, PartyTerms, Spec as AnySpec, TermName};
use undertone_api::problem::Code;
use undertone_api::signed::{Manifest, Signed, SiteDecision};
use undertone_privacy::Event;

use crate::service::approval::{approve, approve_with_terms, decide, review_terms};
use crate::service::ledger;
use crate::service::world::{TestConsortium, TestSite, row};
use crate::testing::on_both;

fn terms(pairs: &[(TermName, f64)]) -> PartyTerms {
    pairs.iter().copied().collect()
}

/// Leaves noise and rounds to the owners.
fn open_spec(world: &TestConsortium, rounds: u32) -> Spec {
    let open = |term, min, max| OpenTerm { dataset: None, term, min, max };
    let open_terms = vec![open(TermName::NoiseMultiplier, 1.0, 4.0), open(TermName::Rounds, 1.0, f64::from(rounds))];
    Spec { open_terms, ..world.spec(rounds) }
}

async fn answer(
    world: &TestConsortium,
    job: &Job,
    site: usize,
    terms: &PartyTerms,
) -> Result<Job, crate::error::Error> {
    let TestSite { steward, dataset, .. } = &world.sites[site];
    approve_with_terms(&world.ctx, steward, job.summary.id, *dataset, None, None, Some(terms)).await
}

fn decision(site: &TestSite, job: &Job, terms: PartyTerms) -> Signed {
    let decision = SiteDecision {
        manifest: job.manifest.clone(),
        job: job.summary.id,
        dataset: site.dataset,
        approve: true,
        reason: String::new(),
        terms,
        at: time::OffsetDateTime::UNIX_EPOCH,
    };
    Signed::new(&decision, &site.key).unwrap()
}

on_both! {
    async fn each_party_is_charged_by_its_own_answer(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let proposed = world.propose(open_spec(&world, 4)).await.unwrap();
        let id = proposed.summary.id;
        let own = terms(&[(TermName::NoiseMultiplier, 2.0), (TermName::Rounds, 2.0)]);
        let review = review_terms(&app.ctx, &world.sites[1].steward, id, world.sites[1].dataset, &own).await.unwrap();
        assert_eq!(review.terms.iter().map(|range| range.value).collect::<Vec<_>>(), [2.0, 2.0]);
        assert_eq!(review.cost.as_ref().unwrap().charge.releases, 2, "the effect is shown before the answer");
        answer(&world, &proposed, 1, &own).await.unwrap();
        let site = &world.sites[2];
        let job = approve(&app.ctx, &site.steward, id, site.dataset).await.unwrap();
        assert_eq!(job.summary.state, JobState::Queued);
        assert_ne!(job.manifest, proposed.manifest);

        let charge = |site: usize| job.participants[site].charge.clone().unwrap();
        let noise = |site: usize| match charge(site).event {
            Event::PoissonSampledGaussian { noise_multiplier, .. } => noise_multiplier.get(),
            other => panic!("{other:?}"),
        };
        assert_eq!((noise(1), charge(1).releases), (2.0, 2));
        assert_eq!((noise(2), charge(2).releases), (1.0, 4), "the proposal's values are the default");
        let reservation = ledger::find_reservation(app.ctx.db.read(), id.0, world.sites[1].dataset.0).await.unwrap();
        assert_eq!(reservation.unwrap().releases, 2);
        assert!(world.account(1).await.committed < world.account(2).await.committed);

        let row = row(&app.ctx, id).await;
        let manifest: Manifest = row.manifest().unwrap();
        let proposal = manifest.proposal.clone().expect("it holds the approved document");
        assert_eq!(proposal.digest(), proposed.manifest);
        let signed = Signed { payload: row.manifest.clone(), signature: row.signature.clone() };
        signed.open::<Manifest>(&app.ctx.signer.verifying_key()).expect("the server signed it");
        assert!(manifest.is_settled_from(&proposal.open(&app.ctx.signer.verifying_key()).unwrap()));
        assert!(manifest.has_answer(world.sites[1].dataset, &own));

        // After its last round no round waits for the party.
        let leases = [world.lease(0).await, world.lease(1).await, world.lease(2).await];
        let job = world.job(id).await;
        for round in 1..=4 {
            for (site, lease) in leases.iter().enumerate().filter(|(site, _)| *site != 1) {
                world.submit(&job, site, lease, round, &[1.0]).await.unwrap();
            }
            if round <= 2 {
                assert_eq!(world.average(0, &leases[0], round).await, None, "it waits for the party");
                let event = charge(1).event;
                let receipt = world.sites[1].receipt_of(&job, round, event);
                world.submit_with(1, &leases[1], round, &[4.0], vec![receipt]).await.unwrap();
            }
            let mean = world.average(1, &leases[1], round).await;
            assert_eq!(mean, Some(vec![if round <= 2 { 2.0 } else { 1.0 }]), "it follows the later rounds");
        }
        let late = world.submit_with(1, &leases[1], 3, &[1.0], vec![]).await.unwrap_err().into_problem();
        assert!(late.violations[0].message.contains("rounds 1 to 2"), "{late:?}");
    }

    async fn answer_outside_range_or_below_quorum_is_refused(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let proposed = world.propose(open_spec(&world, 4)).await.unwrap();
        let less = answer(&world, &proposed, 1, &terms(&[(TermName::NoiseMultiplier, 0.5)])).await.unwrap_err();
        let problem = less.into_problem();
        assert_eq!((problem.code, problem.violations[0].field.as_str()), (Code::ValidationFailed, "terms.noise_multiplier"));
        let closed = answer(&world, &proposed, 1, &terms(&[(TermName::Clip, 1.0)])).await.unwrap_err().into_problem();
        assert!(closed.violations[0].message.contains("does not leave clip"), "{closed:?}");
        let early = terms(&[(TermName::Rounds, 2.0)]);
        answer(&world, &proposed, 1, &early).await.unwrap();
        let quorum = answer(&world, &proposed, 2, &early).await.unwrap_err().into_problem();
        assert_eq!((quorum.code, quorum.violations[0].field.as_str()), (Code::ValidationFailed, "spec.private.quorum"));
        assert_eq!(world.job(proposed.summary.id).await.summary.state, JobState::Proposed);
    }

    async fn site_and_steward_answer_the_same(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let proposed = world.propose(open_spec(&world, 4)).await.unwrap();
        let (site, more) = (&world.sites[1], terms(&[(TermName::NoiseMultiplier, 3.0)]));
        decide(&app.ctx, site.worker, &decision(site, &proposed, more.clone())).await.unwrap();
        let other = approve(&app.ctx, &site.steward, proposed.summary.id, site.dataset).await.unwrap_err();
        assert!(other.code() == Code::WrongState && other.to_string().contains("noise_multiplier 3"), "{other}");
        answer(&world, &proposed, 1, &more).await.unwrap();
        let job = approve(&app.ctx, &world.sites[2].steward, proposed.summary.id, world.sites[2].dataset).await.unwrap();
        assert_eq!(job.summary.state, JobState::Queued);
        let AnySpec::DpSgd(spec) = &job.spec else { panic!("it is of another kind") };
        assert_eq!(spec.participants[1].noise.unwrap().noise_multiplier.get().to_bits(), 3.0_f64.to_bits());

        // A site that answered late, and otherwise than its steward, does not run the job.
        let site = &world.sites[2];
        let late = SiteDecision {
            manifest: proposed.manifest.clone(),
            ..decision(site, &proposed, more).open(&site.key.verifying_key()).unwrap()
        };
        decide(&app.ctx, site.worker, &Signed::new(&late, &site.key).unwrap()).await.unwrap();
        let failed = world.job(proposed.summary.id).await;
        assert_eq!(failed.summary.state, JobState::Failed);
        assert!(failed.reason.unwrap().contains("other terms"));
    }

    async fn changed_budget_takes_the_answer_back(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let proposed = world.propose(open_spec(&world, 4)).await.unwrap();
        let before = world.job(proposed.summary.id).await.participants[1].charge.clone();
        answer(&world, &proposed, 1, &terms(&[(TermName::Rounds, 2.0)])).await.unwrap();
        world.set_budget(&world.sites[1], 60.0).await.unwrap();
        assert_eq!(world.job(proposed.summary.id).await.participants[1].charge, before);
        answer(&world, &proposed, 1, &terms(&[(TermName::Rounds, 3.0)])).await.unwrap();
    }
}
