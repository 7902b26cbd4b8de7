//! Datasets whose site verifies stewards' signatures: the server accepts, stores and forwards them.

use ed25519_dalek::SigningKey;
use undertone_api::dataset::{DatasetContent, DatasetRegistration, SizeClass, Visibility, usual_units};
use undertone_api::job::{Approval, JobState};
use undertone_api::problem::Code;
use undertone_api::signed::{
    ApprovalKey, ApprovalRule, ApprovalStatement, Consent, SignedApproval, SiteApproval, StewardDecision,
};

use super::{appoint_steward, limit};
use crate::service::approval::{approve_signed, limit_set};
use crate::service::dataset::register;
use crate::service::offer::{OfferRequest, WorkOffer, next};
use crate::service::version::ExpectedVersion;
use crate::service::world::{TestConsortium, TestSite};
use crate::testing::{TestApp, on_both};

fn key(seed: u8) -> SigningKey {
    SigningKey::from_bytes(&[seed; 32])
}

fn public(seed: u8) -> ApprovalKey {
    ApprovalKey::Ed25519 { public_key: hex::encode(key(seed).verifying_key().to_bytes()) }
}

/// Registers the dataset again, with this rule and these keys of its site.
async fn state(app: &TestApp, site: &TestSite, rule: ApprovalRule, keys: Vec<ApprovalKey>) {
    let registration = DatasetRegistration {
        name: "speech".to_owned(),
        lineage: site.lineage,
        visibility: Visibility::Private,
        content: DatasetContent::Speech,
        inputs: 13,
        classes: 40,
        records: SizeClass(500),
        speakers: SizeClass(20),
        test_records: 0,
        seconds: None,
        users: None,
        table: None,
        units: usual_units(),
        approval: Some(SiteApproval { rule, keys }),
    };
    register(&app.ctx, site.worker, &registration).await.unwrap();
}

on_both! {
    async fn a_signed_approval_is_checked_kept_and_forwarded_to_the_site(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let site = &world.sites[1];
        state(app, site, ApprovalRule::Steward, vec![public(1)]).await;
        let job = world.propose(world.spec(2)).await.unwrap();
        let id = job.summary.id;
        let approve = async |signature: Option<&SignedApproval>| {
            approve_signed(&app.ctx, &site.steward, id, site.dataset, Some(&job.manifest), signature).await
        };
        let unsigned = approve(None).await.unwrap_err();
        assert_eq!(unsigned.code(), Code::ValidationFailed);
        let statement = ApprovalStatement::approve(&job.manifest, id, site.dataset);
        let refusal = ApprovalStatement { decision: StewardDecision::Refuse, ..statement.clone() };
        for wrong in [SignedApproval::sign(&statement, &key(2)), SignedApproval::sign(&refusal, &key(1))] {
            assert_eq!(approve(Some(&wrong.unwrap())).await.unwrap_err().code(), Code::BadSignature);
        }
        assert_eq!(world.job(id).await.participants[1].approval, Approval::Pending);
        let signed = SignedApproval::sign(&statement, &key(1)).unwrap();
        let job = approve(Some(&signed)).await.unwrap();
        assert_eq!(job.summary.state, JobState::Queued);
        assert_eq!(job.participants[1].consent, Some(Consent::Signed { key: public(1).fingerprint() }));
        assert_eq!(job.participants[0].consent, None, "public data need no consent");
        let offer = next(&app.ctx, site.worker, &OfferRequest::default()).await.unwrap();
        let WorkOffer::Work { steward: Some(_), approval: Some(approval), .. } = offer else { panic!("{offer:?}") };
        assert_eq!(*approval, signed);
    }

    async fn without_a_pinned_key_nobody_approves_for_the_site(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let site = &world.sites[1];
        state(app, site, ApprovalRule::Steward, Vec::new()).await;
        let job = world.propose(world.spec(2)).await.unwrap();
        let refused = approve_signed(&app.ctx, &site.steward, job.summary.id, site.dataset, None, None).await;
        let problem = refused.unwrap_err();
        assert!(problem.code() == Code::WrongState && problem.to_string().contains("approval-keys add"), "{problem}");
    }

    async fn what_an_approval_rests_on_is_said_by_the_rule_of_the_site(app: &TestApp) {
        for (rule, consent) in [
            (Some(ApprovalRule::Server), Consent::ServerWord),
            (None, Consent::ServerWord),
            (Some(ApprovalRule::Automatic), Consent::Site),
            (Some(ApprovalRule::Manual), Consent::Site),
        ] {
            let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
            let site = &world.sites[1];
            if let Some(rule) = rule {
                state(app, site, rule, Vec::new()).await;
            }
            let job = world.propose(world.spec(2)).await.unwrap();
            let approved = approve_signed(&app.ctx, &site.steward, job.summary.id, site.dataset, None, None).await;
            assert_eq!(approved.unwrap().participants[1].consent, Some(consent), "{rule:?}");
        }
    }

    async fn a_limit_approves_nothing_where_the_site_verifies_signatures(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let site = &world.sites[1];
        appoint_steward(app, site).await;
        limit_set(&app.ctx, &site.steward, site.dataset, &limit(app, 5.0, 30), &ExpectedVersion::Anything).await.unwrap();
        state(app, site, ApprovalRule::Steward, vec![public(1)]).await;
        let job = world.propose(world.spec(2)).await.unwrap();
        assert_eq!(job.participants[1].approval, Approval::Pending);
        let read = crate::service::job::get(&app.ctx, &site.steward, job.summary.id).await.unwrap();
        let because = read.participants[1].asked_because.clone().unwrap();
        assert!(because.contains("signature"), "{because}");
        let again = limit_set(&app.ctx, &site.steward, site.dataset, &limit(app, 5.0, 30), &ExpectedVersion::Anything).await;
        let problem = again.unwrap_err();
        assert!(problem.code() == Code::WrongState && problem.to_string().contains("most_epsilon_automatic"), "{problem}");
    }
}
