//! Whole audited runs: honest ones, broken ones, killed ones.

use std::time::Instant;

use undertone_api::job::audit::{Assessment, Verdict};
use undertone_api::job::dp_sgd::{Audit, Noise, Spec};
use undertone_privacy::{Adjacency, Delta, Event, NoiseMultiplier, PrivacyUnit, SamplingRate};

use super::hub::{Crash, Hub};
use super::report;
use crate::dp::sabotage::Sabotage;
use crate::run::RunError;

const RATE: f64 = 0.25;
const NOISE: f64 = 5.0;
const ROUNDS: u32 = 40;

/// A claim of ε ≈ 1.5 at δ 10⁻⁵, and an audit that could disprove up to 2.6.
fn audited(spec: &mut Spec) {
    spec.open = None;
    spec.warm_start.epochs = 1;
    for party in &mut spec.participants[1..] {
        party.sampling_rate = SamplingRate::new(RATE).unwrap();
        party.noise = Some(Noise { noise_multiplier: NoiseMultiplier::new(NOISE).unwrap(), clip: 0.5 });
    }
    spec.private.as_mut().unwrap().rounds = ROUNDS;
    spec.audit = Some(Audit { canaries: 200, guesses: 100, recordings: 0 });
}

fn assessed(hub: &Hub, index: usize) -> Assessment {
    let finding = hub.findings(index).pop().expect("the audit was handed in");
    assert!(finding.answers(&hub.audited(index).expect("it was promised")));
    let event = Event::PoissonSampledGaussian {
        sampling_rate: SamplingRate::new(RATE).unwrap(),
        noise_multiplier: NoiseMultiplier::new(NOISE).unwrap(),
    };
    let (adjacency, delta) = (Adjacency::AddRemove, Delta::new(1e-5).unwrap());
    Assessment::of(&finding.trials, &event, adjacency, hub.paid(index).into(), delta).unwrap()
}

#[test]
fn noise_that_was_switched_off_behind_the_accountants_back_is_caught_and_the_honest_site_is_not() {
    let hub = Hub::new(audited);
    hub.sabotage(1, Sabotage::NoNoise);
    hub.run_all();
    assert!(hub.findings(0).is_empty(), "nothing of public data is audited");
    let (broken, honest) = (assessed(&hub, 1), assessed(&hub, 2));
    assert_eq!(broken.verdict, Verdict::Disproved, "{broken:?}");
    assert!(broken.blocking > broken.claim && broken.claim > 1.0, "{broken:?}");
    // Fails once in far more than a thousand runs: that is what the bound promises.
    assert_eq!(honest.verdict, Verdict::Consistent, "{honest:?}");
    let lead = hub.parameters(0, "private");
    assert!(hub.parameters(1, "private") == lead && hub.parameters(2, "private") == lead);
}

#[test]
fn a_killed_run_goes_on_with_the_same_canaries_and_all_its_evidence() {
    let hub = Hub::new(audited);
    hub.sabotage(1, Sabotage::NoNoise);
    hub.crash(1, Crash::Paid, "private", 5);
    hub.crash(1, Crash::Stored, "private", 13);
    hub.crash(1, Crash::Accepted, "private", 22);
    hub.crash(1, Crash::Accepted, "private", ROUNDS);
    hub.run_all();
    assert_eq!((hub.lives(1), hub.paid(1)), (5, ROUNDS + 1));
    // A mix of two sets of canaries would see nothing.
    let broken = assessed(&hub, 1);
    assert_eq!(broken.verdict, Verdict::Disproved, "{broken:?}");
    assert_eq!(hub.kept(1, "canaries.secret").unwrap().len(), 32);
    assert!(hub.kept(0, "canaries.secret").is_err());
}

#[test]
fn a_run_whose_canaries_are_lost_does_not_make_new_ones() {
    let hub = Hub::new(audited);
    hub.crash(1, Crash::Accepted, "private", 1);
    std::thread::scope(|scope| {
        scope.spawn(|| hub.live(0));
        scope.spawn(|| hub.live(2));
        assert!(matches!(hub.live(1), Err(RunError::Stopped(_))));
        hub.forget(1, "canaries.secret");
        let end = hub.live(1);
        hub.cancel();
        assert!(matches!(&end, Err(RunError::Failed(text)) if text.contains("cannot be finished")), "{end:?}");
    });
}

#[test]
fn made_up_speakers_are_attacked_in_the_finished_model_and_cost_little() {
    let change = |audit: bool| {
        move |spec: &mut Spec| {
            spec.open = None;
            spec.unit = PrivacyUnit::Speaker;
            spec.audit = audit.then_some(Audit { canaries: 100, guesses: 50, recordings: 20 });
        }
    };
    let (plain, hub) = (Hub::new(change(false)), Hub::new(change(true)));
    let timed = |hub: &Hub| {
        let began = Instant::now();
        hub.run_all();
        (began.elapsed().as_secs_f64(), report(hub).arms[1].tests[0].accuracy)
    };
    let (before, after) = (timed(&plain), timed(&hub));
    eprintln!(
        "without an audit {:.2} s, accuracy {:.3}; with one {:.2} s, {:.3}",
        before.0, before.1, after.0, after.1
    );
    let finding = hub.findings(2).pop().expect("the audit was handed in");
    assert!(finding.answers(&hub.audited(2).expect("it was promised")));
    let methods: Vec<_> = finding.attacks.iter().map(|attack| (attack.method, attack.points.len())).collect();
    assert_eq!(methods.len(), 2);
    for attack in &finding.attacks {
        assert!(attack.members + attack.nonmembers == 20 && attack.auc > 0.0, "{attack:?}");
    }
    // Ten made-up speakers beside five real ones, at most.
    assert!(after.1 > 0.5, "{after:?}");
}
