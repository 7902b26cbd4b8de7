//! A server that claims a steward's consent without a basis: no job runs without a signature by a key that the site
//! pins.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ed25519_dalek::SigningKey;
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use undertone_api::id::DatasetId;
use undertone_api::signed::{
    ApprovalKey, ApprovalProof, ApprovalStatement, PasskeyAlgorithm, SignedApproval, SiteApproval, StewardDecision,
    passkey_challenge,
};
use uuid::Uuid;

use super::*;
use crate::daemon::part::{WorkExamination, examine_work};
use crate::fixture::JOB;
use crate::gateway::OfferedWork;
use crate::site::consent::{self, NO_KEYS, NO_SIGNATURE};
use crate::site::datasets::note_registered;

const HOST: &str = "undertone.example.org";
const ORIGIN: &str = "https://undertone.example.org";

fn private_manifest() -> Manifest {
    honest_manifest(spec(), Visibility::Private)
}

/// Returns the key file of a steward.
fn key_file(seed: u8) -> (SigningKey, ApprovalKey) {
    let key = SigningKey::from_bytes(&[seed; 32]);
    let public_key = hex::encode(key.verifying_key().to_bytes());
    (key, ApprovalKey::Ed25519 { public_key })
}

fn sign_with_file(seed: u8, statement: &ApprovalStatement) -> SignedApproval {
    SignedApproval::sign(statement, &key_file(seed).0).expect("it has a JSON form")
}

fn passkey() -> p256::ecdsa::SigningKey {
    p256::ecdsa::SigningKey::from_slice(&[7; 32]).expect("a scalar")
}

fn public_passkey() -> ApprovalKey {
    ApprovalKey::Passkey {
        algorithm: PasskeyAlgorithm::Es256,
        public_key: hex::encode(passkey().verifying_key().to_encoded_point(false).as_bytes()),
        credential: "c0ffee".to_owned(),
        relying_party: HOST.to_owned(),
        origin: ORIGIN.to_owned(),
    }
}

/// Signs as the steward's authenticator does at `origin` for `host`.
fn sign_with_passkey(statement: &ApprovalStatement, origin: &str, host: &str, flags: u8) -> SignedApproval {
    let payload = serde_json::to_string(statement).expect("it has a JSON form");
    let challenge = URL_SAFE_NO_PAD.encode(passkey_challenge::<ApprovalStatement>(&payload));
    let client_data =
        serde_json::json!({ "type": "webauthn.get", "challenge": challenge, "origin": origin }).to_string();
    let data = [&Sha256::digest(host.as_bytes())[..], &[flags, 0, 0, 0, 0]].concat();
    let message = [&data[..], &Sha256::digest(client_data.as_bytes())].concat();
    let signature: p256::ecdsa::DerSignature = p256::ecdsa::signature::Signer::sign(&passkey(), &message);
    let proof = ApprovalProof::Passkey {
        credential: "c0ffee".to_owned(),
        client_data,
        authenticator_data: hex::encode(data),
        signature: hex::encode(signature.as_bytes()),
    };
    SignedApproval { payload, proof }
}

fn statement() -> ApprovalStatement {
    ApprovalStatement::approve(&sign(&private_manifest()).digest(), JOB, OURS)
}

fn make_work(approval: Option<SignedApproval>) -> OfferedWork {
    OfferedWork {
        manifest: sign(&private_manifest()),
        dataset: OURS,
        lease: "lease".to_owned(),
        lease_time: std::time::Duration::from_mins(1),
        steward: Some("a steward named by the server".to_owned()),
        approval,
    }
}

fn make_offer(approval: Option<&SignedApproval>) -> Offer {
    Offer::Work(v1::Work {
        manifest: Some(sign(&private_manifest()).into()),
        dataset_id: OURS.to_string(),
        lease: "lie".to_owned(),
        lease_seconds: 60,
        steward_approved: true,
        steward: "a steward named by the server".to_owned(),
        approval: approval
            .map_or_else(String::new, |approval| serde_json::to_string(approval).expect("it has a JSON form")),
    })
}

/// Pins a key as the site's operator does at the terminal.
fn pin(place: &TestSite, key: &ApprovalKey) {
    let store = Store::create(&place.folder().ledger()).expect("it is there");
    assert!(consent::pin_key(&store, key, "Ada", OffsetDateTime::UNIX_EPOCH).expect("it is a key"));
}

fn open_registered(place: &TestSite) -> Arc<Site> {
    let site = place.open();
    note_registered(&site.store, "ward-7", OURS).expect("it is open");
    site.find_datasets().expect("the folder can be read");
    site
}

/// Returns whether nothing was reserved, paid or sent.
fn is_unused(place: &TestSite, server: &FakeServer) -> bool {
    let books = place.open().ledger.books().expect("it is open");
    let state = server.state.lock().expect("no test panicked");
    books.entries.sequence == 0 && books.receipts.sequence == 0 && state.vectors.is_empty() && state.receipts.is_empty()
}

#[tokio::test(flavor = "multi_thread")]
async fn approval_without_signature_waits_for_the_terminal() {
    for (has_key, reason) in [(false, NO_KEYS), (true, NO_SIGNATURE)] {
        let server = start(false).await;
        let place = TestSite::new(&server, TEMPLATE);
        if has_key {
            pin(&place, &key_file(1).1);
        }
        offer(&server, make_offer(None));
        run_until(&place, &server, |state| !state.holds.is_empty()).await;
        let key = SiteKey::load(&place.folder().key()).expect("it is there").public();
        let hold: undertone_api::signed::SiteHold =
            server.state.lock().expect("no test panicked").holds[0].open(&key).expect("the site signed it");
        assert!(hold.hold && hold.reason == reason, "{}", hold.reason);
        assert!(is_unused(&place, &server));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn false_approval_is_refused_with_its_reason() {
    let refusal = ApprovalStatement { decision: StewardDecision::Refuse, ..statement() };
    let other_manifest = ApprovalStatement { manifest: "ab".repeat(32), ..statement() };
    let other_dataset = ApprovalStatement { dataset: DatasetId(Uuid::from_u128(77)), ..statement() };
    let approval = sign_with_file(1, &statement());
    let mut flipped_flag = sign_with_passkey(&statement(), ORIGIN, HOST, 0x05);
    if let ApprovalProof::Passkey { authenticator_data, .. } = &mut flipped_flag.proof {
        // The flags of user presence and user verification.
        authenticator_data.replace_range(64..66, "01");
    }
    let cases = [
        ("a signature by another key", sign_with_file(2, &statement()), "none of the keys"),
        ("a signature over another manifest", sign_with_file(1, &other_manifest), "another manifest"),
        ("a signed refusal", sign_with_file(1, &refusal), "signed a refusal"),
        ("an approval of another dataset", sign_with_file(1, &other_dataset), "another dataset"),
        (
            "a changed statement",
            SignedApproval { payload: approval.payload.replace("approve", "refuse"), ..approval.clone() },
            "none of the keys",
        ),
        (
            "an assertion of another origin",
            sign_with_passkey(&statement(), "https://evil.example", HOST, 0x05),
            "another origin",
        ),
        (
            "an assertion of another relying party",
            sign_with_passkey(&statement(), ORIGIN, "evil.example", 0x05),
            "relying party",
        ),
        ("an assertion without its user", sign_with_passkey(&statement(), ORIGIN, HOST, 0x01), "did not recognize"),
        (
            "an assertion of another manifest",
            sign_with_passkey(&other_manifest, ORIGIN, HOST, 0x05),
            "another manifest",
        ),
        ("a flipped flag", flipped_flag, "does not hold"),
    ];
    for (case, approval, reason) in cases {
        let server = start(false).await;
        let place = TestSite::new(&server, TEMPLATE);
        pin(&place, &key_file(1).1);
        pin(&place, &public_passkey());
        offer(&server, make_offer(Some(&approval)));
        run_until(&place, &server, |state| !state.decisions.is_empty() && !state.finished.is_empty()).await;
        let decision = first_decision(&server, &place);
        assert!(!decision.approve && decision.reason.contains(reason), "{case}: {}", decision.reason);
        assert!(is_unused(&place, &server), "{case}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn signed_approval_admits_exactly_its_job() {
    let server = start(false).await;
    for (key, approval) in [
        (key_file(1).1, sign_with_file(1, &statement())),
        (public_passkey(), sign_with_passkey(&statement(), ORIGIN, HOST, 0x05)),
    ] {
        let place = TestSite::new(&server, TEMPLATE);
        let site = open_registered(&place);
        let examine =
            |approval: Option<SignedApproval>| examine_work(&site, &make_work(approval), JOB).expect("the disk works");
        assert!(matches!(examine(Some(approval.clone())), WorkExamination::Waiting(_)), "no key is pinned");
        assert!(consent::pin_key(&site.store, &key, "Ada", OffsetDateTime::UNIX_EPOCH).expect("it is a key"));
        assert!(matches!(examine(None), WorkExamination::Waiting(_)));
        assert!(matches!(examine(Some(approval)), WorkExamination::Ready(_)));
        assert!(matches!(examine(None), WorkExamination::Ready(_)), "the approval is kept");
        let removal = consent::remove_key(&site.store, key.fingerprint().as_str(), OffsetDateTime::UNIX_EPOCH);
        assert!(removal.expect("it is open").is_some());
        assert!(matches!(examine(None), WorkExamination::Waiting(_)), "its key is not pinned any more");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn server_statement_counts_only_under_the_policy_for_it() {
    let server = start(false).await;
    for (rule, runs) in [("server", true), ("automatic", true), ("manual", false), ("steward", false)] {
        let place =
            TestSite::new(&server, &TEMPLATE.replace("approval = \"steward\"", &format!("approval = \"{rule}\"")));
        let site = open_registered(&place);
        let answer = examine_work(&site, &make_work(None), JOB).expect("the disk works");
        assert_eq!(matches!(answer, WorkExamination::Ready(_)), runs, "{rule}");
        assert_eq!(matches!(answer, WorkExamination::Waiting(_)), !runs, "{rule}: it waits for the site's terminal");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn registration_states_the_approval_rule_and_keys() {
    let server = start(false).await;
    let place = TestSite::new(&server, TEMPLATE);
    pin(&place, &public_passkey());
    let approval = place.open().approval_rule("ward-7").expect("the policy can be read");
    let rule = undertone_api::signed::ApprovalRule::Steward;
    assert_eq!(approval, SiteApproval { rule, keys: vec![public_passkey()] });
}

#[tokio::test(flavor = "multi_thread")]
async fn change_of_credentials_reaches_the_site() {
    let server = start(false).await;
    let place = TestSite::new(&server, TEMPLATE);
    let text = "The password of Ada was reset by an operator's link.".to_owned();
    let notice = v1::CredentialNotice { id: Uuid::from_u128(7).to_string(), text: text.clone(), at_unix: 0 };
    server.state.lock().expect("no test panicked").notices.push(notice);
    let store = Store::create(&place.folder().ledger()).expect("it is there");
    let notices = || consent::notices_since(&store, OffsetDateTime::UNIX_EPOCH).expect("it is open");
    run_until(&place, &server, |_| !notices().is_empty()).await;
    assert_eq!(notices().into_iter().map(|(_, text)| text).collect::<Vec<_>>(), [text]);
}
