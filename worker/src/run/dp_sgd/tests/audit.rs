//! Whole audited runs: honest, broken and killed ones.

use std::time::Instant;

use undertone_api::job::audit::{Assessment, AuditVerdict};
use undertone_api::job::dp_sgd::{AuditOptions, Noise, Spec};
use undertone_privacy::{Adjacency, Delta, NoiseMultiplier, PrivacyUnit, SamplingRate};

use super::report;
use super::training::TestTraining;
use crate::dp::sabotage::Sabotage;
use crate::run::RunError;
use crate::run::fake::CrashPoint;

const RATE: f64 = 0.25;
const NOISE: f64 = 5.0;
const ROUNDS: u32 = 40;

/// Sets a claim of ε ≈ 1.4 at δ 10⁻⁵, and an audit that could disprove up to 2.6. In a model with fewer parameters the
/// gradients of the data mask too many canaries for that.
pub(super) fn with_audit(spec: &mut Spec) {
    spec.open = None;
    spec.model.hidden = 32;
    spec.warm_start.epochs = 1;
    for party in &mut spec.participants[1..] {
        party.sampling_rate = SamplingRate::new(RATE).unwrap();
        party.noise = Some(Noise::flat(NoiseMultiplier::new(NOISE).unwrap(), 0.5));
    }
    spec.private.as_mut().unwrap().rounds = ROUNDS;
    spec.audit = Some(AuditOptions { canaries: 200, guesses: 100, recordings: 0 });
}

pub(super) fn assess(job: &TestTraining, index: usize) -> Assessment {
    let finding = job.findings(index).pop().expect("the site submits its finding");
    assert!(finding.answers(&job.promised_audit(index).expect("the manifest promises an audit")));
    let delta = Delta::new(1e-5).unwrap();
    Assessment::assess(&finding.trials, &job.event(index), Adjacency::ZeroOut, job.payments(index).into(), delta)
        .unwrap()
}

#[test]
fn missing_noise_is_disproved_and_the_honest_site_is_not() {
    let mut job = TestTraining::new(with_audit);
    job.sabotage(1, Sabotage::NoNoise);
    job.run_all();
    assert!(job.findings(0).is_empty(), "nothing of public data is audited");
    let broken = assess(&job, 1);
    let honest = assess(&job, 2);
    assert_eq!(broken.verdict, AuditVerdict::Disproved, "{broken:?}");
    assert!(broken.blocking > broken.claim && broken.claim > 1.0, "{broken:?}");
    // Fails once in far more than a thousand runs: the bound guarantees that.
    assert_eq!(honest.verdict, AuditVerdict::Consistent, "{honest:?}");
    let lead = job.parameters(0, "private");
    assert!(job.parameters(1, "private") == lead && job.parameters(2, "private") == lead);
}

#[test]
fn killed_run_keeps_its_canaries_and_its_evidence() {
    let mut job = TestTraining::new(with_audit);
    job.sabotage(1, Sabotage::NoNoise);
    job.crash(1, CrashPoint::Cleared, "private", 5);
    job.crash(1, CrashPoint::Stored, "private", 13);
    job.crash(1, CrashPoint::Accepted, "private", 22);
    job.crash(1, CrashPoint::Accepted, "private", ROUNDS);
    job.run_all();
    assert_eq!((job.processes(1), job.payments(1)), (5, ROUNDS));
    // A mix of two sets of canaries would have no power.
    let broken = assess(&job, 1);
    assert_eq!(broken.verdict, AuditVerdict::Disproved, "{broken:?}");
    assert_eq!(job.read_work_file(1, "canaries.secret").unwrap().len(), 32);
    assert!(job.read_work_file(0, "canaries.secret").is_err());
}

#[test]
fn run_without_its_canaries_does_not_make_new_ones() {
    let job = TestTraining::new(with_audit);
    job.crash(1, CrashPoint::Accepted, "private", 1);
    std::thread::scope(|scope| {
        scope.spawn(|| job.run_process(0));
        scope.spawn(|| job.run_process(2));
        assert!(matches!(job.run_process(1), Err(RunError::Stopped(_))));
        job.remove_work_file(1, "canaries.secret");
        let end = job.run_process(1);
        job.cancel();
        assert!(
            matches!(&end, Err(RunError::Failed(problem)) if problem.to_string().contains("cannot be finished")),
            "{end:?}"
        );
    });
}

#[test]
fn synthetic_speakers_are_attacked_and_cost_little() {
    let change = |audit: bool| {
        move |spec: &mut Spec| {
            spec.open = None;
            spec.unit = PrivacyUnit::Speaker;
            spec.audit = audit.then_some(AuditOptions { canaries: 100, guesses: 50, recordings: 20 });
        }
    };
    let plain = TestTraining::new(change(false));
    let job = TestTraining::new(change(true));
    let time = |job: &TestTraining| {
        let began = Instant::now();
        job.run_all();
        (began.elapsed().as_secs_f64(), report(job).arms[1].tests[0].accuracy)
    };
    let before = time(&plain);
    let after = time(&job);
    eprintln!(
        "without an audit {:.2} s, accuracy {:.3}; with one {:.2} s, {:.3}",
        before.0, before.1, after.0, after.1
    );
    let finding = job.findings(2).pop().expect("the site submits its finding");
    assert!(finding.answers(&job.promised_audit(2).expect("the manifest promises an audit")));
    let against: Vec<_> = finding.attacks.iter().map(|attack| attack.series.as_deref()).collect();
    assert_eq!(against, [None, None, Some("public")], "two methods, and one that must see nothing");
    for attack in &finding.attacks {
        assert!(attack.members + attack.nonmembers == 20 && attack.auc > 0.0, "{attack:?}");
    }
    // At most ten synthetic speakers among five real ones.
    assert!(after.1 > 0.5, "{after:?}");
}

#[test]
fn synthetic_recordings_are_sought_in_the_model_of_every_arm() {
    let job = TestTraining::new(|spec| {
        // Large enough to memorize random labels.
        spec.model.hidden = 40;
        for party in &mut spec.participants[1..] {
            // Enough noise that forty rounds reveal next to nothing.
            let noise_multiplier = NoiseMultiplier::new(8.0).unwrap();
            party.noise = Some(Noise { noise_multiplier, ..party.noise.unwrap() });
        }
        spec.audit = Some(AuditOptions { canaries: 100, guesses: 50, recordings: 100 });
    });
    job.crash(1, CrashPoint::Accepted, "open", 17);
    job.run_all();
    assert!(job.findings(0).is_empty(), "nothing of public data is attacked");
    let mut areas = [0.0; 3];
    for site in [1, 2] {
        let finding = job.findings(site).pop().unwrap();
        let promise = job.promised_audit(site).unwrap();
        assert_eq!(promise.beside, ["public", "open"]);
        assert!(finding.answers(&promise), "{finding:?}");
        for (at, arm) in ["public", "open", "private"].into_iter().enumerate() {
            let own: Vec<_> = finding.attacks.iter().filter(|attack| attack.is_of(arm, &promise.series)).collect();
            // The public model has no earlier model to compare it with.
            assert_eq!(own.len(), if arm == "public" { 1 } else { 2 }, "{arm}");
            for attack in &own {
                let [low, high] = attack.auc_interval.unwrap();
                assert!(attack.members + attack.nonmembers == 100 && low <= attack.auc && attack.auc <= high);
                assert!(attack.points.iter().any(|point| (point.aimed - 0.001).abs() < 1e-12));
            }
            areas[at] += own.iter().map(|attack| attack.auc).fold(0.0, f64::max) / 2.0;
        }
    }
    // Open pooling memorizes the members; to the public model they are like the others, and noise hides them.
    let [public, open, private] = areas;
    eprintln!("areas: public {public:.3}, open {open:.3}, private {private:.3}");
    assert!(open > public + 0.1 && public < 0.7 && private < open, "{areas:?}");
    let lead = job.parameters(0, "open");
    assert!(job.parameters(1, "open") == lead && job.parameters(2, "open") == lead);
}
