#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

use undertone_api::job::dp_sgd::Spec as DpSgdSpec;
use undertone_api::job::{JobState, Spec};
use undertone_api::problem::Code;
use undertone_api::report::{FORMAT, LevelDerivation, ReportFile};
use undertone_api::signed::Manifest;
use undertone_privacy::{NoiseMultiplier, PrivacyUnit};

use super::{again, get};
use crate::service::certificate;
use crate::service::world::TestConsortium;
use crate::service::world::finished::finished;
use crate::testing::on_both;

/// Returns a report as another person has it: as text, on another disk.
async fn take_report(world: &TestConsortium, job: undertone_api::id::JobId) -> ReportFile {
    let report = get(&world.ctx, &world.sites[1].steward, job).await.unwrap();
    serde_json::from_str(&serde_json::to_string(&report).unwrap()).unwrap()
}

/// Returns the spec inside a report's signed manifest, as the sites received it.
fn signed_spec(report: &ReportFile) -> String {
    let manifest: Manifest = serde_json::from_str(&report.manifest.payload).unwrap();
    serde_json::to_string(&manifest.spec).unwrap()
}

on_both! {
    async fn a_job_is_repeated_from_its_report_alone_with_the_identical_spec(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let first = finished(&mut world, 2).await;
        let file = take_report(&world, first.summary.id).await;
        let second = again(&app.ctx, &world.sites[0].steward, world.consortium, &file).await.unwrap();
        assert_eq!((second.summary.state, &second.summary.title), (JobState::Proposed, &first.summary.title));
        assert_ne!(second.summary.id, first.summary.id);
        assert_eq!(second.spec, first.spec);
        // Byte by byte, in the text that the sites sign, and after any number of repetitions.
        let repeated = take_report(&world, second.summary.id).await;
        assert_eq!(signed_spec(&repeated), signed_spec(&file));
        assert_eq!(repeated.to_proposal().unwrap(), file.to_proposal().unwrap());
        let costs = |job: &undertone_api::job::Job| job.participants.iter().map(|p| p.charge.clone()).collect::<Vec<_>>();
        assert_eq!(costs(&second), costs(&first));
    }

    async fn a_report_says_what_the_certificate_says_and_what_no_ledger_does(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = finished(&mut world, 2).await.summary.id;
        let report = take_report(&world, job).await;
        let issued = certificate::get(&app.ctx, &world.sites[1].steward, job).await.unwrap();
        assert_eq!(report.format, FORMAT);
        assert_eq!(report.certificate.as_ref().unwrap().head, issued.head);
        let charges: Vec<_> = issued.parties.iter().filter_map(|party| party.charged.as_ref()).collect();
        assert_eq!((report.privacy.len(), charges.len()), (2, 2));
        for (cost, charge) in report.privacy.iter().zip(charges) {
            let [record, speaker] = cost.levels.as_slice() else { panic!("{:?}", cost.levels) };
            assert_eq!((cost.releases, record.how, record.unit), (2, LevelDerivation::Protected, PrivacyUnit::Record));
            let (tight, renyi) = (charge.tight.unwrap().epsilon.unwrap(), charge.renyi.unwrap().epsilon.unwrap());
            assert!((record.epsilon.unwrap() - tight.min(renyi)).abs() < 1e-9 && (record.renyi.unwrap() - renyi).abs() < 1e-9);
            // Nothing is guaranteed for a speaker of hundreds of recordings, and the report states this.
            assert!(matches!(speaker.how, LevelDerivation::Group { records } if records > 1) && !speaker.meaningful, "{speaker:?}");
            assert!(speaker.said.starts_with("No meaningful bound"), "{speaker:?}");
        }
        let what = |what: &str| report.absent.iter().any(|absent| absent.what == what);
        assert!(what("Open pooling") && what("Audit and membership inference") && what("Seeds of sampling and noise"));
        assert!(!what("The final result") && !what("The certificate"), "{:?}", report.absent);
        assert!(report.datasets.iter().all(|used| used.digest.is_none()), "the lead told none");
    }

    async fn a_job_that_waits_has_a_report_of_what_is_missing(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let job = world.propose(world.spec(2)).await.unwrap().summary.id;
        let report = take_report(&world, job).await;
        assert!(report.outcome.is_none() && report.comparison.is_empty() && report.privacy.is_empty());
        let missing: Vec<_> = report.absent.iter().map(|absent| absent.what.as_str()).collect();
        assert!(missing.contains(&"The final result") && missing.contains(&"The certificate"), "{missing:?}");
        assert!(again(&app.ctx, &world.sites[0].steward, world.consortium, &report).await.is_ok(), "that repeats too");
    }

    async fn a_file_that_says_two_things_is_not_repeated(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let job = world.propose(world.spec(2)).await.unwrap().summary.id;
        let file = take_report(&world, job).await;
        let quieter = {
            let Spec::DpSgd(spec) = file.proposal.spec.clone() else { panic!("it is of another kind") };
            let mut spec: DpSgdSpec = spec;
            let noise = spec.participants[1].noise.as_mut().unwrap();
            noise.noise_multiplier = NoiseMultiplier::new(noise.noise_multiplier.get() / 2.0).unwrap();
            Spec::DpSgd(spec)
        };
        let mut bent = file.clone();
        bent.proposal.spec = quieter;
        let mut newer = file.clone();
        newer.format = "undertone/report/2".to_owned();
        let mut empty = file.clone();
        empty.manifest.payload = "{}".to_owned();
        for wrong in [bent, newer, empty] {
            let error = again(&app.ctx, &world.sites[0].steward, world.consortium, &wrong).await.unwrap_err();
            assert_eq!(error.into_problem().code, Code::ValidationFailed);
        }
    }

    async fn a_stranger_sees_no_report_and_repeats_no_job(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let other = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let job = world.propose(world.spec(2)).await.unwrap().summary.id;
        let stranger = &other.sites[0].steward;
        assert_eq!(get(&app.ctx, stranger, job).await.unwrap_err().into_problem().code, Code::NotFound);
        let file = take_report(&world, job).await;
        let error = again(&app.ctx, stranger, world.consortium, &file).await.unwrap_err();
        assert_eq!(error.into_problem().code, Code::NotFound);
        // Their own consortium has no such datasets.
        let error = again(&app.ctx, stranger, other.consortium, &file).await.unwrap_err();
        assert_eq!(error.into_problem().code, Code::ValidationFailed);
    }
}
