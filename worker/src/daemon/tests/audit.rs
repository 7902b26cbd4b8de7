//! An audited part at a real site: its statement travels with its end, and a disproved claim closes the site's own
//! gate.

use undertone_api::job::audit::{AuditFinding, AuditTrial, AuditVerdict, CanaryFamily, TrialResult};
use undertone_api::job::dp_sgd::AuditOptions;
use undertone_api::signed::AuditStatement;

use super::*;
use crate::cli;
use crate::site::audits;

const TRIAL: AuditTrial = AuditTrial { family: CanaryFamily::Direction, canaries: 500, guesses: 200 };

fn audited_spec() -> Spec {
    Spec::DpSgd(undertone_api::job::dp_sgd::Spec {
        audit: Some(AuditOptions { canaries: TRIAL.canaries, guesses: TRIAL.guesses, recordings: 0 }),
        ..dp_sgd()
    })
}

fn finding(correct: u32) -> AuditFinding {
    AuditFinding { trials: vec![TrialResult { trial: TRIAL, correct }], attacks: Vec::new() }
}

/// Returns whether a command at the site's terminal succeeds.
fn run_at_terminal(place: &TestSite, args: &[&str]) -> bool {
    let site = place.dir.path().display().to_string();
    let all = ["undertone-worker", "--site", &site].into_iter().chain(args.iter().copied());
    let code = cli::main(all.map(std::ffi::OsString::from));
    format!("{code:?}") == format!("{:?}", std::process::ExitCode::SUCCESS)
}

#[tokio::test(flavor = "multi_thread")]
async fn disproved_claim_stops_payments_until_the_terminal_clears_it() {
    let server = start(false).await;
    let place = TestSite::new(&server, TEMPLATE);
    let site = place.open();
    let manifest = honest_manifest(audited_spec(), Visibility::Private);
    let mut exchange = open_exchange(&site, &manifest, Visibility::Private);
    let key = site.key.public();
    let exchange = run_blocking(move || {
        assert_eq!(exchange.promised_audit().expect("the manifest promises it").trials, [TRIAL]);
        for round in 1..=9 {
            // A payment without a submission still counts in the ledger.
            let vector = super::fault::release(&mut exchange, round);
            exchange.pay_unsent("private", round, &vector).expect("the disk has room");
        }
        let other = AuditFinding { trials: Vec::new(), attacks: Vec::new() };
        assert!(
            matches!(exchange.submit_finding(other), Err(RunError::Failed(_))),
            "another audit than the promised one"
        );
        exchange.submit_finding(finding(200)).expect("the disk has room");
        let answer = exchange.clear(RoundKey::new("private", 10)).map(drop);
        assert!(matches!(&answer, Err(RunError::Refused(text)) if text.to_string().contains("frozen")), "{answer:?}");
        exchange
    })
    .await;
    let signed = exchange.into_results().audit.expect("it travels with the end of the part");
    let statement: AuditStatement = signed.open(&key).expect("the site signed it");
    assert_eq!((statement.releases, statement.assessment.verdict), (9, AuditVerdict::Disproved));
    assert_eq!(statement.manifest, sign(&manifest).digest());
    drop(site);

    let mut next = honest_manifest(spec(), Visibility::Private);
    next.job = undertone_api::id::JobId(uuid::Uuid::from_u128(700));
    let proposal = v1::Proposal { manifest: Some(sign(&next).into()), dataset_id: OURS.to_string() };
    offer(&server, Offer::Proposal(proposal));
    run_until(&place, &server, |state| !state.decisions.is_empty()).await;
    let decision = first_decision(&server, &place);
    assert!(!decision.approve && decision.reason.contains("frozen"), "{}", decision.reason);

    assert!(!run_at_terminal(&place, &["ledger", "unfreeze", "ward-7", "--reason", " "]));
    let store = Store::create(&place.folder().ledger()).expect("it is there");
    assert!(audits::current_freeze(&store, LINEAGE).expect("it is open").is_some(), "a reason is needed");
    assert!(run_at_terminal(&place, &["ledger", "unfreeze", "ward-7", "--reason", "mended"]));
    assert_eq!(audits::current_freeze(&store, LINEAGE).expect("it is open"), None);
}
