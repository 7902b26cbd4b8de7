#![expect(clippy::unwrap_used, reason = "constants of a test are in range")]

use undertone_privacy::{Adjacency, Delta, Event, NoiseMultiplier, SamplingRate};

use super::{
    Assessment, AttackMethod, AuditFinding, AuditPlan, AuditTrial, AuditVerdict, CanaryFamily, MembershipAttack,
    OperatingPoint, TrialResult,
};

fn trial(canaries: u32, guesses: u32) -> AuditTrial {
    AuditTrial { family: CanaryFamily::Direction, canaries, guesses }
}

fn assessed(noise: f64, correct: u32) -> Assessment {
    let event = Event::PoissonSampledGaussian {
        sampling_rate: SamplingRate::new(0.25).unwrap(),
        noise_multiplier: NoiseMultiplier::new(noise).unwrap(),
    };
    let guessed = [TrialResult { trial: trial(500, 200), correct }];
    Assessment::assess(&guessed, &event, Adjacency::AddRemove, 40, Delta::new(1e-6).unwrap()).unwrap()
}

#[test]
fn lower_bound_above_claim_disproves_claim() {
    let caught = assessed(4.0, 200);
    assert!(caught.tight <= caught.claim && caught.claim < caught.blocking, "{caught:?}");
    assert!(caught.blocking <= caught.ceiling && caught.blocking < caught.shown, "{caught:?}");
    assert_eq!(caught.verdict, AuditVerdict::Disproved);
}

#[test]
fn lower_bound_below_claim_is_consistent() {
    let quiet = assessed(4.0, 104);
    assert_eq!((quiet.blocking, quiet.verdict), (0.0, AuditVerdict::Consistent));
}

#[test]
fn claim_beyond_all_guesses_is_uninformative() {
    let large = assessed(0.5, 200);
    assert!(large.tight > large.ceiling, "{large:?}");
    assert_eq!(large.verdict, AuditVerdict::Uninformative);
}

#[test]
fn a_finding_answers_only_the_audit_that_was_promised() {
    let recordings = AuditTrial { family: CanaryFamily::Recording, canaries: 100, guesses: 50 };
    let audited = AuditPlan {
        series: "private".to_owned(),
        trials: vec![trial(500, 200), recordings],
        beside: vec!["open".to_owned()],
    };
    let attack = MembershipAttack {
        series: None,
        method: AttackMethod::LossThreshold,
        members: 48,
        nonmembers: 52,
        auc: 0.5,
        auc_interval: Some([0.4, 0.6]),
        points: vec![OperatingPoint { aimed: 0.01, true_positives: 1, false_positives: 0 }],
    };
    let guessed = |trial| TrialResult { trial, correct: 1 };
    let good =
        AuditFinding { trials: vec![guessed(trial(500, 200)), guessed(recordings)], attacks: vec![attack.clone()] };
    assert!(good.answers(&audited));
    let with = |attack| AuditFinding { attacks: vec![attack], ..good.clone() };
    assert!(with(MembershipAttack { series: Some("open".to_owned()), ..attack.clone() }).answers(&audited));
    for wrong in [
        AuditFinding { trials: vec![guessed(trial(500, 200))], ..good.clone() },
        AuditFinding { trials: vec![guessed(trial(500, 100)), guessed(recordings)], ..good.clone() },
        AuditFinding { attacks: vec![MembershipAttack { members: 49, ..attack.clone() }], ..good.clone() },
        with(MembershipAttack { series: Some("public".to_owned()), ..attack.clone() }),
        with(MembershipAttack { auc_interval: Some([0.6, 0.7]), ..attack.clone() }),
        with(MembershipAttack { auc_interval: Some([f64::NAN, 0.7]), ..attack.clone() }),
        AuditFinding { attacks: vec![MembershipAttack { auc: f64::NAN, ..attack.clone() }], ..good.clone() },
        AuditFinding {
            attacks: vec![MembershipAttack {
                points: vec![OperatingPoint { aimed: 0.01, true_positives: 49, false_positives: 0 }],
                ..attack
            }],
            ..good.clone()
        },
    ] {
        assert!(!wrong.answers(&audited), "{wrong:?}");
    }
}

#[test]
fn statement_without_series_is_unchanged_by_json() {
    let old = r#"{"method":"loss_threshold","members":4,"nonmembers":6,"auc":0.5,"points":[]}"#;
    let attack: MembershipAttack = serde_json::from_str(old).unwrap();
    assert!(attack.is_of("private", "private") && !attack.is_of("open", "private"));
    assert_eq!(serde_json::to_string(&attack).unwrap(), old);
}

#[test]
fn rate_has_its_interval() {
    let point = OperatingPoint { aimed: 0.001, true_positives: 5, false_positives: 0 };
    let attack = MembershipAttack {
        series: None,
        method: AttackMethod::LossThreshold,
        members: 10,
        nonmembers: 10,
        auc: 0.5,
        auc_interval: None,
        points: vec![point],
    };
    let (rate, [low, high]) = attack.rate(&point).unwrap();
    assert!((rate - 0.5).abs() < 1e-12 && (low - 0.187).abs() < 1e-3 && (high - 0.813).abs() < 1e-3);
    assert_eq!(MembershipAttack { members: 0, ..attack }.rate(&point), None);
}
