//! All other bodies of REST and of the sites' JSON: each is rejected, or checked and written back unchanged.

use serde::Serialize;
use serde::de::DeserializeOwned;
use time::OffsetDateTime;
use undertone_fuzz::Target;

use crate::account::{ChangePassword, FactorCode, FactorProof, NewPassword, NewReset, SecondStep};
use crate::api_key::NewApiKey;
use crate::approval_key::NewApprovalKey;
use crate::budget::NewBudget;
use crate::consortium::{EditConsortium, NewConsortium, NewOverlap};
use crate::dataset::DatasetRegistration;
use crate::job::{ApproveRequest, Measurement, NewApprovalLimit, PauseRequest, RefuseRequest, Report};
use crate::member::{NewConsortiumMember, NewMember};
use crate::organization::NewInvitation;
use crate::passkey::{NewPasskey, PasskeySignIn};
use crate::plan::NewPlan;
use crate::question::NewAnnotation;
use crate::session::{RefreshRequest, SignIn};
use crate::signed::{ApprovalKey, ApprovalStatement};
use crate::worker::{EnrolmentToken, NewEnrolment};

/// Valid request bodies.
const SENT: [&str; 26] = [
    r#"{"email":"ada@example.org","password":"correct horse battery staple"}"#,
    r#"{"half":"x","token":"x","code":"123456","refresh_token":"x"}"#,
    r#"{"current":"a password","new":"another password","old":"x","password":"correct horse battery staple"}"#,
    r#"{"member":"0193493b-5c00-7000-8000-000000000001","email":"ada@example.org","end_second_factor":true}"#,
    r#"{"name":"nightly export","scopes":["read","ledger"],"days":90}"#,
    r#"{"unit":"speaker","epsilon":8.0,"delta":1e-06}"#,
    r#"{"name":"Speech in care","description":"Clinics, together.","organization_name":"Northern Clinic"}"#,
    r#"{"name":"another","description":"Clinics and one university."}"#,
    r#"{"overlap":"disjoint","statement":"Each clinic serves a region of its own."}"#,
    r#"{"overlap":{"overlapping":{"at_most":3}},"statement":"Each clinic serves a region of its own."}"#,
    r#"{"name":"ours","lineage":"0193493b-5c00-7000-8000-000000000001","visibility":"private","inputs":13,"classes":40,"records":500,"speakers":20,"test_records":50}"#,
    r#"{"epsilon":0.5,"kinds":["dp_sgd"],"until":"2027-01-31T00:00:00Z"}"#,
    r#"{"reason":"the recordings are looked through once more"}"#,
    r#"{"name":"Ada","email":"ada@example.org","password":"correct horse battery staple"}"#,
    r#"{"member":"0193493b-5c00-7000-8000-000000000001","roles":["consortium_admin","auditor"]}"#,
    r#"{"purpose":"member","organization":"0193493b-5c00-7000-8000-000000000001","roles":["researcher"],"label":"for Ada"}"#,
    r#"{"purpose":"organization","consortium":"0193493b-5c00-7000-8000-000000000001","label":"x"}"#,
    r#"{"answer":"label","label":"renewal"}"#,
    r#"{"answer":"skip"}"#,
    r#"{"server":"https://hub.example:7443","certificate":"ab","server_key":"cd","secret":"ef"}"#,
    r#"{"series":"private","round":3,"test":"common","accuracy":0.71,"loss":1.25,"value":0.5,"metric":"accuracy"}"#,
    r#"{"name":"the site's worker"}"#,
    r#"{"label":"the safe","key":{"kind":"passkey","algorithm":"es256","public_key":"04","credential":"c0ffee","relying_party":"hub.example","origin":"https://hub.example"}}"#,
    r#"{"half_token":"x","passkey":{"ticket":"t","credential":"c0ffee","client_data":"{}","authenticator_data":"00","signature":"30"}}"#,
    r#"{"label":"the laptop","registration":{"ticket":"t","client_data":"{}","authenticator_data":"00"}}"#,
    r#"{"signature":{"payload":"{\"manifest\":\"aa\"}","proof":{"kind":"passkey","credential":"c0ffee","client_data":"{\"type\":\"webauthn.get\",\"challenge\":\"AA\",\"origin\":\"https://hub.example\"}","authenticator_data":"00","signature":"30"}}}"#,
];

/// Reads a body, and asserts that it survives writing and reading again.
fn read<T: Serialize + DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let value: T = serde_json::from_slice(bytes).ok()?;
    let written = serde_json::to_string(&value).expect("what was read can be written");
    let again: T = serde_json::from_str(&written).expect("what was written can be read");
    assert_eq!(serde_json::to_string(&again).expect("JSON"), written);
    Some(value)
}

macro_rules! bodies {
    ($($body:ty)*) => {
        /// Returns the number of body types that accept the bytes.
        fn every_body(bytes: &[u8]) -> usize {
            [$(read::<$body>(bytes).is_some()),*].into_iter().filter(|read| *read).count()
        }
    };
}

bodies! {
    SignIn RefreshRequest SecondStep ChangePassword FactorCode FactorProof NewReset NewPassword NewApiKey NewBudget NewConsortium
    EditConsortium NewOverlap DatasetRegistration NewApprovalLimit PauseRequest RefuseRequest NewMember NewConsortiumMember NewInvitation NewAnnotation
    EnrolmentToken NewEnrolment NewPlan Measurement Report NewApprovalKey ApproveRequest
    PasskeySignIn NewPasskey
}

#[test]
fn bodies_are_refused_or_checked_without_panic() {
    let now = OffsetDateTime::UNIX_EPOCH;
    Target::new("api.bodies", 8_000).seeds(SENT).seeds(super::spec::examples()).run(|bytes| {
        every_body(bytes);
        let checked = [
            read::<NewApiKey>(bytes).map(|new| new.check()),
            read::<NewMember>(bytes).map(|new| new.check()),
            read::<NewOverlap>(bytes).map(|new| new.check()),
            read::<NewApprovalLimit>(bytes).map(|new| new.check(now)),
            read::<PauseRequest>(bytes).map(|pause| pause.check()),
            read::<NewApprovalKey>(bytes).map(|new| new.check()),
            read::<NewPasskey>(bytes).map(|new| new.check()),
        ];
        if let Some(approval) = read::<ApproveRequest>(bytes).and_then(|approve| approve.signature) {
            let key = ApprovalKey::Ed25519 { public_key: "d7".repeat(32) };
            assert!(approval.open_by_any::<ApprovalStatement>(&[key]).is_err(), "nobody has signed it");
        }
        for violation in checked.into_iter().flatten().flatten() {
            assert!(!violation.field.is_empty() && !violation.message.is_empty(), "{violation:?}");
        }
    });
}

#[test]
fn valid_bodies_reach_the_check() {
    let read = SENT.iter().filter(|body| every_body(body.as_bytes()) > 0).count();
    assert!(read >= SENT.len() - 5, "only {read} of {} bodies are any", SENT.len());
}
