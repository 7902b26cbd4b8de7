//! Whole audited runs: honest, broken and killed ones.

use std::time::Instant;

use undertone_api::job::audit::{Assessment, AuditVerdict};
use undertone_api::job::dp_sgd::{AuditOptions, Noise, Spec};
use undertone_privacy::{Adjacency, Delta, NoiseMultiplier, PrivacyUnit, SamplingRate};

use super::hub::{Crash, Hub};
use super::report;
use crate::dp::sabotage::Sabotage;
use crate::run::RunError;

const RATE: f64 = 0.25;
const NOISE: f64 = 5.0;
const ROUNDS: u32 = 40;

/// Sets a claim of ε ≈ 1.4 at δ 10⁻⁵, and an audit that could disprove up to 2.6. In a model with fewer parameters the
/// gradients of the data mask too many canaries for that.
pub(super) fn audited(spec: &mut Spec) {
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

pub(super) fn assessed(hub: &Hub, index: usize) -> Assessment {
    let finding = hub.findings(index).pop().expect("the audit was handed in");
    assert!(finding.answers(&hub.audited(index).expect("it was promised")));
    let (adjacency, delta) = (Adjacency::ZeroOut, Delta::new(1e-5).unwrap());
    Assessment::assess(&finding.trials, &hub.event(index), adjacency, hub.paid(index).into(), delta).unwrap()
}

#[test]
fn noise_that_was_switched_off_behind_the_accountants_back_is_caught_and_the_honest_site_is_not() {
    let hub = Hub::new(audited);
    hub.sabotage(1, Sabotage::NoNoise);
    hub.run_all();
    assert!(hub.findings(0).is_empty(), "nothing of public data is audited");
    let (broken, honest) = (assessed(&hub, 1), assessed(&hub, 2));
    assert_eq!(broken.verdict, AuditVerdict::Disproved, "{broken:?}");
    assert!(broken.blocking > broken.claim && broken.claim > 1.0, "{broken:?}");
    // Fails once in far more than a thousand runs: the bound guarantees that.
    assert_eq!(honest.verdict, AuditVerdict::Consistent, "{honest:?}");
    let lead = hub.parameters(0, "private");
    assert!(hub.parameters(1, "private") == lead && hub.parameters(2, "private") == lead);
}

#[test]
fn a_killed_run_goes_on_with_the_same_canaries_and_all_its_evidence() {
    let hub = Hub::new(audited);
    hub.sabotage(1, Sabotage::NoNoise);
    hub.crash(1, Crash::Granted, "private", 5);
    hub.crash(1, Crash::Stored, "private", 13);
    hub.crash(1, Crash::Accepted, "private", 22);
    hub.crash(1, Crash::Accepted, "private", ROUNDS);
    hub.run_all();
    assert_eq!((hub.lives(1), hub.paid(1)), (5, ROUNDS));
    // A mix of two sets of canaries would have no power.
    let broken = assessed(&hub, 1);
    assert_eq!(broken.verdict, AuditVerdict::Disproved, "{broken:?}");
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
            spec.audit = audit.then_some(AuditOptions { canaries: 100, guesses: 50, recordings: 20 });
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
    let against: Vec<_> = finding.attacks.iter().map(|attack| attack.series.as_deref()).collect();
    assert_eq!(against, [None, None, Some("public")], "two methods, and one that must see nothing");
    for attack in &finding.attacks {
        assert!(attack.members + attack.nonmembers == 20 && attack.auc > 0.0, "{attack:?}");
    }
    // At most ten made-up speakers beside five real ones.
    assert!(after.1 > 0.5, "{after:?}");
}

#[test]
fn the_same_made_up_recordings_are_looked_for_in_the_model_of_every_arm() {
    let hub = Hub::new(|spec| {
        // Large enough to memorize random labels.
        spec.model.hidden = 40;
        for party in &mut spec.participants[1..] {
            // Enough noise that forty rounds reveal next to nothing.
            let noise_multiplier = NoiseMultiplier::new(8.0).unwrap();
            party.noise = Some(Noise { noise_multiplier, ..party.noise.unwrap() });
        }
        spec.audit = Some(AuditOptions { canaries: 100, guesses: 50, recordings: 100 });
    });
    hub.crash(1, Crash::Accepted, "open", 17);
    hub.run_all();
    assert!(hub.findings(0).is_empty(), "nothing of public data is attacked");
    let mut shown = [0.0; 3];
    for site in [1, 2] {
        let (finding, audited) = (hub.findings(site).pop().unwrap(), hub.audited(site).unwrap());
        assert_eq!(audited.beside, ["public", "open"]);
        assert!(finding.answers(&audited), "{finding:?}");
        for (at, arm) in ["public", "open", "private"].into_iter().enumerate() {
            let own: Vec<_> = finding.attacks.iter().filter(|attack| attack.is_of(arm, &audited.series)).collect();
            // The public model has no earlier model to compare it with.
            assert_eq!(own.len(), if arm == "public" { 1 } else { 2 }, "{arm}");
            for attack in &own {
                let [low, high] = attack.auc_interval.unwrap();
                assert!(attack.members + attack.nonmembers == 100 && low <= attack.auc && attack.auc <= high);
                assert!(attack.points.iter().any(|point| (point.aimed - 0.001).abs() < 1e-12));
            }
            shown[at] += own.iter().map(|attack| attack.auc).fold(0.0, f64::max) / 2.0;
        }
    }
    // Open pooling memorizes the members; to the public model they are like the others, and noise hides them.
    let [public, open, private] = shown;
    eprintln!("areas: public {public:.3}, open {open:.3}, private {private:.3}");
    assert!(open > public + 0.1 && public < 0.7 && private < open, "{shown:?}");
    let lead = hub.parameters(0, "open");
    assert!(hub.parameters(1, "open") == lead && hub.parameters(2, "open") == lead);
}
