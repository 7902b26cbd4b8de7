//! Answers to open terms at the site: what it answered is what it runs.

use time::OffsetDateTime;
use undertone_api::job::{OpenTerm, PartyTerms, Spec, TermName};

use super::*;
use crate::daemon::decisions::consider;
use crate::daemon::part::{WorkExamination, examine_work};
use crate::fixture::JOB;
use crate::gateway::OfferedWork;
use crate::site::datasets::note_registered;
use crate::site::jobs::{self, DecisionOrigin};

fn make_proposal() -> Manifest {
    let Spec::DpSgd(mut open) = spec() else { panic!("it is of another kind") };
    let noise = open.participants[1].noise.expect("it has noise").noise_multiplier.get();
    let term = TermName::NoiseMultiplier;
    open.open_terms = vec![OpenTerm { dataset: None, term, min: noise / 2.0, max: 4.0 * noise }];
    honest_manifest(Spec::DpSgd(open), Visibility::Private)
}

/// Returns `factor` times the proposal's noise.
fn make_terms(proposal: &Manifest, factor: f64) -> PartyTerms {
    let range = proposal.spec.open_terms(OURS)[0];
    [(range.term, factor * range.value)].into_iter().collect()
}

fn settle(proposal: &Manifest, terms: &PartyTerms) -> Signed {
    let answered = proposal.spec.clone().with_terms(OURS, terms);
    let charge = answered.cost(&local(Visibility::Private).to_dataset(OURS, ORGANIZATION, WORKER));
    let charge = |id| charge.clone().filter(|_| id == OURS);
    sign(&proposal.clone().settle_terms(sign(proposal), answered, charge))
}

fn make_work(signed: &Signed) -> OfferedWork {
    OfferedWork {
        manifest: signed.clone(),
        dataset: OURS,
        lease: "lease".to_owned(),
        lease_time: std::time::Duration::from_mins(1),
        steward: None,
        approval: None,
    }
}

fn open_registered(place: &TestSite) -> Arc<Site> {
    let site = place.open();
    note_registered(&site.store, "ward-7", OURS).expect("it is open");
    site.find_datasets().expect("the folder can be read");
    site
}

#[tokio::test(flavor = "multi_thread")]
async fn site_runs_the_terms_that_it_answered_and_no_others() {
    let server = start(false).await;
    let place = TestSite::new(&server, &TEMPLATE.replace("approval = \"steward\"", "approval = \"manual\""));
    let site = open_registered(&place);
    let proposal = make_proposal();
    let signed = sign(&proposal);
    consider(&site, &signed, OURS).expect("the disk works");
    let own = make_terms(&proposal, 2.0);
    let answer = SiteDecision {
        manifest: signed.digest(),
        job: JOB,
        dataset: OURS,
        approve: true,
        reason: String::new(),
        terms: own.clone(),
        at: OffsetDateTime::UNIX_EPOCH,
    };
    jobs::decide(&site.store, &answer, DecisionOrigin::Terminal).expect("it is open");
    let refused = |signed: &Signed| match examine_work(&site, &make_work(signed), JOB).expect("the disk works") {
        WorkExamination::Refused(reason) | WorkExamination::Foreign(reason) => reason,
        _ => panic!("the site must not run it"),
    };
    assert!(refused(&signed).contains("still leaves terms"));
    let final_one = settle(&proposal, &own);
    assert!(matches!(
        examine_work(&site, &make_work(&final_one), JOB).expect("the disk works"),
        WorkExamination::Ready(examined) if examined.charge == examined.own().charge
    ));
    let second = refused(&settle(&proposal, &make_terms(&proposal, 3.0)));
    assert!(second.contains("another manifest before"), "{second}");
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_terms_are_refused() {
    let server = start(false).await;
    let place = TestSite::new(&server, &TEMPLATE.replace("approval = \"steward\"", "approval = \"manual\""));
    let site = open_registered(&place);
    let proposal = make_proposal();
    let signed = sign(&proposal);
    consider(&site, &signed, OURS).expect("the disk works");
    let answer = SiteDecision {
        manifest: signed.digest(),
        job: JOB,
        dataset: OURS,
        approve: true,
        reason: String::new(),
        terms: make_terms(&proposal, 2.0),
        at: OffsetDateTime::UNIX_EPOCH,
    };
    jobs::decide(&site.store, &answer, DecisionOrigin::Terminal).expect("it is open");
    let work = make_work(&settle(&proposal, &make_terms(&proposal, 3.0)));
    let WorkExamination::Refused(reason) = examine_work(&site, &work, JOB).expect("the disk works") else {
        panic!("the site must not run it");
    };
    assert!(reason.contains("other terms for `ward-7`"), "{reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn policy_answers_by_itself_within_its_limits() {
    let server = start(false).await;
    let place = TestSite::new(&server, &TEMPLATE.replace("approval = \"steward\"", "approval = \"automatic\""));
    let site = open_registered(&place);
    let proposal = make_proposal();
    consider(&site, &sign(&proposal), OURS).expect("the disk works");
    let decisions = crate::daemon::decisions::pending_decisions(&site).expect("the disk works");
    let [(decided, _)] = &decisions[..] else { panic!("one answer: {decisions:?}") };
    assert!(decided.decision.approve && decided.decision.terms.is_empty(), "the proposal's own values are allowed");
    let work = make_work(&settle(&proposal, &make_terms(&proposal, 2.0)));
    let WorkExamination::Refused(reason) = examine_work(&site, &work, JOB).expect("the disk works") else {
        panic!("the site must not run it");
    };
    assert!(reason.contains("other terms"), "{reason}");
}
