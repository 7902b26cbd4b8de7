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
use crate::daemon::part::{Look, look};
use crate::fixture::JOB;
use crate::gateway::Work;
use crate::site::consent::{self, NO_KEYS, NO_SIGNATURE};
use crate::site::datasets::note_registered;

const HOST: &str = "undertone.example.org";
const ORIGIN: &str = "https://undertone.example.org";

fn private() -> Manifest {
    honest(spec(), Visibility::Private)
}

/// Returns the key file of a steward.
fn key_file(seed: u8) -> (SigningKey, ApprovalKey) {
    let key = SigningKey::from_bytes(&[seed; 32]);
    let public_key = hex::encode(key.verifying_key().to_bytes());
    (key, ApprovalKey::Ed25519 { public_key })
}

fn by_file(seed: u8, statement: &ApprovalStatement) -> SignedApproval {
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
fn by_passkey(statement: &ApprovalStatement, origin: &str, host: &str, flags: u8) -> SignedApproval {
    let payload = serde_json::to_string(statement).expect("it has a JSON form");
    let challenge = URL_SAFE_NO_PAD.encode(passkey_challenge::<ApprovalStatement>(&payload));
    let client_data =
        serde_json::json!({ "type": "webauthn.get", "challenge": challenge, "origin": origin }).to_string();
    let data = [&Sha256::digest(host.as_bytes())[..], &[flags, 0, 0, 0, 0]].concat();
    let signed = [&data[..], &Sha256::digest(client_data.as_bytes())].concat();
    let signature: p256::ecdsa::DerSignature = p256::ecdsa::signature::Signer::sign(&passkey(), &signed);
    let proof = ApprovalProof::Passkey {
        credential: "c0ffee".to_owned(),
        client_data,
        authenticator_data: hex::encode(data),
        signature: hex::encode(signature.as_bytes()),
    };
    SignedApproval { payload, proof }
}

fn statement() -> ApprovalStatement {
    ApprovalStatement::approve(&sign(&private()).digest(), JOB, OURS)
}

fn offered(approval: Option<SignedApproval>) -> Work {
    Work {
        manifest: sign(&private()),
        dataset: OURS,
        lease: "lease".to_owned(),
        lease_time: std::time::Duration::from_mins(1),
        steward: Some("a steward, says the server".to_owned()),
        approval,
    }
}

fn on_the_wire(approval: Option<&SignedApproval>) -> Offer {
    Offer::Work(v1::Work {
        manifest: Some(sign(&private()).into()),
        dataset_id: OURS.to_string(),
        lease: "lie".to_owned(),
        lease_seconds: 60,
        steward_approved: true,
        steward: "a steward, says the server".to_owned(),
        approval: approval
            .map_or_else(String::new, |approval| serde_json::to_string(approval).expect("it has a JSON form")),
    })
}

/// Pins a key as the site's operator does at the terminal.
fn pin(place: &Place, key: &ApprovalKey) {
    let store = Store::create(&place.folder().ledger()).expect("it is there");
    assert!(consent::pin_key(&store, key, "Ada", OffsetDateTime::UNIX_EPOCH).expect("it is a key"));
}

fn known(place: &Place) -> Arc<Site> {
    let site = place.site();
    note_registered(&site.store, "ward-7", OURS).expect("it is open");
    site.find_datasets().expect("the folder can be read");
    site
}

/// Returns whether nothing was reserved, paid or sent.
fn nothing_ran(place: &Place, server: &Running) -> bool {
    let books = place.site().ledger.books().expect("it is open");
    let state = server.state.lock().expect("nobody panicked");
    books.entries.sequence == 0 && books.receipts.sequence == 0 && state.vectors.is_empty() && state.receipts.is_empty()
}

#[tokio::test(flavor = "multi_thread")]
async fn approval_without_signature_waits_for_the_terminal() {
    for (pinned, reason) in [(false, NO_KEYS), (true, NO_SIGNATURE)] {
        let server = start(false).await;
        let place = Place::new(&server, TEMPLATE);
        if pinned {
            pin(&place, &key_file(1).1);
        }
        offer(&server, on_the_wire(None));
        run_until(&place, &server, |state| !state.holds.is_empty()).await;
        let key = SiteKey::load(&place.folder().key()).expect("it is there").public();
        let hold: undertone_api::signed::SiteHold =
            server.state.lock().expect("nobody panicked").holds[0].open(&key).expect("the site signed it");
        assert!(hold.hold && hold.reason == reason, "{}", hold.reason);
        assert!(nothing_ran(&place, &server));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_false_approval_runs_nothing_and_is_refused_by_name() {
    let refusal = ApprovalStatement { decision: StewardDecision::Refuse, ..statement() };
    let other_manifest = ApprovalStatement { manifest: "ab".repeat(32), ..statement() };
    let other_dataset = ApprovalStatement { dataset: DatasetId(Uuid::from_u128(77)), ..statement() };
    let approved = by_file(1, &statement());
    let mut flipped = by_passkey(&statement(), ORIGIN, HOST, 0x05);
    if let ApprovalProof::Passkey { authenticator_data, .. } = &mut flipped.proof {
        // The flags of user presence and user verification.
        authenticator_data.replace_range(64..66, "01");
    }
    let lies = [
        ("a signature by another key", by_file(2, &statement()), "none of the keys"),
        ("a signature over another manifest", by_file(1, &other_manifest), "another manifest"),
        ("a signed refusal", by_file(1, &refusal), "signed a refusal"),
        ("an approval of another dataset", by_file(1, &other_dataset), "another dataset"),
        (
            "a changed statement",
            SignedApproval { payload: approved.payload.replace("approve", "refuse"), ..approved.clone() },
            "none of the keys",
        ),
        (
            "an assertion of another origin",
            by_passkey(&statement(), "https://evil.example", HOST, 0x05),
            "another origin",
        ),
        (
            "an assertion of another relying party",
            by_passkey(&statement(), ORIGIN, "evil.example", 0x05),
            "relying party",
        ),
        ("an assertion without its user", by_passkey(&statement(), ORIGIN, HOST, 0x01), "did not recognize"),
        ("an assertion of another manifest", by_passkey(&other_manifest, ORIGIN, HOST, 0x05), "another manifest"),
        ("a flipped flag", flipped, "does not hold"),
    ];
    for (lie, approval, reason) in lies {
        let server = start(false).await;
        let place = Place::new(&server, TEMPLATE);
        pin(&place, &key_file(1).1);
        pin(&place, &public_passkey());
        offer(&server, on_the_wire(Some(&approval)));
        run_until(&place, &server, |state| !state.decisions.is_empty() && !state.finished.is_empty()).await;
        let decision = decided(&server, &place);
        assert!(!decision.approve && decision.reason.contains(reason), "{lie}: {}", decision.reason);
        assert!(nothing_ran(&place, &server), "{lie}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signed_approval_lets_exactly_its_job_run() {
    let server = start(false).await;
    for (key, approval) in
        [(key_file(1).1, by_file(1, &statement())), (public_passkey(), by_passkey(&statement(), ORIGIN, HOST, 0x05))]
    {
        let place = Place::new(&server, TEMPLATE);
        let site = known(&place);
        let looks = |approval: Option<SignedApproval>| look(&site, &offered(approval), JOB).expect("the disk works");
        assert!(matches!(looks(Some(approval.clone())), Look::Waits(_)), "no key is pinned");
        assert!(consent::pin_key(&site.store, &key, "Ada", OffsetDateTime::UNIX_EPOCH).expect("it is a key"));
        assert!(matches!(looks(None), Look::Waits(_)));
        assert!(matches!(looks(Some(approval)), Look::Go(_)));
        assert!(matches!(looks(None), Look::Go(_)), "the approval is kept");
        let removed = consent::remove_key(&site.store, key.fingerprint().as_str(), OffsetDateTime::UNIX_EPOCH);
        assert!(removed.expect("it is open").is_some());
        assert!(matches!(looks(None), Look::Waits(_)), "its key is not pinned any more");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_s_word_counts_only_where_the_policy_says_so() {
    let server = start(false).await;
    for (rule, runs) in [("server", true), ("automatic", true), ("manual", false), ("steward", false)] {
        let place = Place::new(&server, &TEMPLATE.replace("approval = \"steward\"", &format!("approval = \"{rule}\"")));
        let site = known(&place);
        let answer = look(&site, &offered(None), JOB).expect("the disk works");
        assert_eq!(matches!(answer, Look::Go(_)), runs, "{rule}");
        assert_eq!(matches!(answer, Look::Waits(_)), !runs, "{rule}: it waits for somebody at this machine");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_site_states_its_rule_and_its_keys_when_it_registers() {
    let server = start(false).await;
    let place = Place::new(&server, TEMPLATE);
    pin(&place, &public_passkey());
    let told = place.site().approval_of("ward-7").expect("the policy can be read");
    let rule = undertone_api::signed::ApprovalRule::Steward;
    assert_eq!(told, SiteApproval { rule, keys: vec![public_passkey()] });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_credentials_reaches_the_site() {
    let server = start(false).await;
    let place = Place::new(&server, TEMPLATE);
    let text = "The password of Ada was reset by an operator's link.".to_owned();
    let notice = v1::CredentialNotice { id: Uuid::from_u128(7).to_string(), text: text.clone(), at_unix: 0 };
    server.state.lock().expect("nobody panicked").notices.push(notice);
    let store = Store::create(&place.folder().ledger()).expect("it is there");
    let kept = || consent::notices_since(&store, OffsetDateTime::UNIX_EPOCH).expect("it is open");
    run_until(&place, &server, |_| !kept().is_empty()).await;
    assert_eq!(kept().into_iter().map(|(_, text)| text).collect::<Vec<_>>(), [text]);
}
