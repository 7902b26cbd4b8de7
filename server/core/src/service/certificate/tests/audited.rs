//! Certificates of jobs with an audit: the measured bound is stated next to the claim, and a bound above the claim
//! fails.

use undertone_api::job::Job;
use undertone_api::job::audit::{Assessment, AuditFinding, AuditTrial, AuditVerdict, CanaryFamily, TrialResult};
use undertone_api::job::dp_sgd::{AuditOptions, Spec};
use undertone_api::signed::certificate::{AuditAsked, Certificate};
use undertone_api::signed::{AuditStatement, Signed};
use undertone_certificate::{PointFinding, TrustedInputs, VerificationPoint, verify};
use undertone_privacy::mechanism::EVALUATOR_VERSION;
use undertone_privacy::{Adjacency, Delta};

use super::forged::sign_certificate;
use super::{PartOutcome, file, verification_keys};
use crate::service::finish::finish_audited;
use crate::service::world::TestConsortium;
use crate::service::world::finished::report;
use crate::testing::on_both;

const TRIAL: AuditTrial = AuditTrial { family: CanaryFamily::Direction, canaries: 400, guesses: 400 };

/// Returns a site's statement about its two releases with `correct` right guesses.
fn new_statement(world: &TestConsortium, job: &Job, site: usize, correct: u32) -> AuditStatement {
    let (site, charge) = (&world.sites[site], job.participants[site].charge.clone().unwrap());
    let finding = AuditFinding { trials: vec![TrialResult { trial: TRIAL, correct }], attacks: Vec::new() };
    let (event, releases) = (charge.event, 2);
    let delta = Delta::new(1e-6).unwrap();
    let assessment = Assessment::assess(&finding.trials, &event, Adjacency::ZeroOut, releases, delta).unwrap();
    AuditStatement {
        worker: site.worker,
        job: job.summary.id,
        dataset: site.dataset,
        lineage: site.lineage,
        manifest: job.manifest.clone(),
        series: "private".to_owned(),
        unit: charge.unit,
        adjacency: charge.adjacency,
        event,
        releases,
        finding,
        assessment,
        evaluator: EVALUATOR_VERSION.to_owned(),
        at: time::OffsetDateTime::UNIX_EPOCH,
    }
}

on_both! {
    async fn false_measured_bound_fails_verification(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let audit = Some(AuditOptions { canaries: TRIAL.canaries, guesses: TRIAL.guesses, recordings: 0 });
        let job = world.propose(Spec { audit, ..world.spec(2) }).await.unwrap();
        let job = world.approved(job).await;
        let leases = [world.lease(0).await, world.lease(1).await, world.lease(2).await];
        for round in 1..=2 {
            for (site, lease) in leases.iter().enumerate() {
                world.submit(&job, site, lease, round, &[1.0]).await.unwrap();
            }
        }
        for site in [1, 2, 0] {
            let statement = (site > 0).then(|| Signed::new(&new_statement(&world, &job, site, 210), &world.sites[site].key).unwrap());
            let outcome = PartOutcome::Done((site == 0).then(report));
            finish_audited(&app.ctx, world.sites[site].worker, &leases[site], &outcome, statement.as_ref(), &[]).await.unwrap();
        }
        let file = file(&app.ctx, &world.sites[1].steward, job.summary.id).await.unwrap();
        let inputs = TrustedInputs { model: None, ..verification_keys(&world) };
        let verdict = verify(&file, &inputs);
        assert!(verdict.holds(), "{verdict}");
        assert!(verdict.to_string().contains("claimed"), "{verdict}");

        let certificate: Certificate = serde_json::from_str(&file.payload).unwrap();
        let after = |change: &dyn Fn(&mut Option<AuditAsked>)| {
            let mut lie = certificate.clone();
            change(&mut lie.parties[1].charged.as_mut().unwrap().audit);
            verify(&sign_certificate(file.clone(), &lie, &app.ctx.signer), &inputs)
        };
        let say = |statement: &AuditStatement, site: usize| {
            let statement = Signed::new(statement, &world.sites[site].key).unwrap();
            move |audit: &mut Option<AuditAsked>| *audit = Some(AuditAsked { statement: Some(statement.clone()) })
        };
        let seen_through = new_statement(&world, &job, 1, 400);
        assert_eq!(seen_through.assessment.verdict, AuditVerdict::Disproved, "perfect guesses about so little noise disprove it");
        let mut understated = seen_through.clone();
        understated.assessment = new_statement(&world, &job, 1, 210).assessment;
        let others = new_statement(&world, &job, 2, 210);
        for (what, verdict) in [
            ("a bound above the claim", after(&say(&seen_through, 1))),
            ("a bound that does not follow from the guesses", after(&say(&understated, 1))),
            ("another site's statement", after(&say(&others, 2))),
            ("an audit that was asked for and is not told", after(&|audit| *audit = None)),
        ] {
            assert_eq!(verdict.failed(), [VerificationPoint::Audit], "{what}: {verdict}");
        }
        let missing = after(&|audit| *audit = Some(AuditAsked { statement: None }));
        assert!(matches!(missing.finding(VerificationPoint::Audit), Some(PointFinding::Unchecked(_))), "{missing}");
    }
}
