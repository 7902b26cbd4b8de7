use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ed25519_dalek::{Signer as _, SigningKey};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::{
    ApprovalError, ApprovalKey, ApprovalProof, ApprovalStatement, KeyFingerprint, PasskeyAlgorithm, SignedApproval,
    StewardDecision, passkey_challenge,
};

use crate::id::{DatasetId, JobId};
use crate::job::PartyTerms;
use crate::signed::webauthn::{WebauthnError, check_authenticator_data};
use crate::signed::{Document, SiteDecision};

const HOST: &str = "undertone.example.org";
const ORIGIN: &str = "https://undertone.example.org";
const MANIFEST: &str = "aa";
const JOB: JobId = JobId(Uuid::from_u128(1));
const DATASET: DatasetId = DatasetId(Uuid::from_u128(2));

/// A P-256 passkey in software, which signs any challenge.
struct SoftwarePasskey {
    key: p256::ecdsa::SigningKey,
    ceremony: &'static str,
    origin: &'static str,
    host: &'static str,
    flags: u8,
    cross_origin: bool,
}

impl SoftwarePasskey {
    fn new() -> Self {
        let key = p256::ecdsa::SigningKey::from_slice(&[7; 32]).expect("a scalar");
        Self { key, ceremony: "webauthn.get", origin: ORIGIN, host: HOST, flags: 0x05, cross_origin: false }
    }

    fn public(&self) -> ApprovalKey {
        ApprovalKey::Passkey {
            algorithm: PasskeyAlgorithm::Es256,
            public_key: hex::encode(self.key.verifying_key().to_encoded_point(false).as_bytes()),
            credential: "c0ffee".to_owned(),
            relying_party: HOST.to_owned(),
            origin: ORIGIN.to_owned(),
        }
    }

    /// Returns `clientDataJSON` and `authenticatorData` for a challenge.
    fn parts(&self, challenge: &[u8; 32]) -> (String, Vec<u8>) {
        let client_data = serde_json::json!({
            "type": self.ceremony,
            "challenge": URL_SAFE_NO_PAD.encode(challenge),
            "origin": self.origin,
            "crossOrigin": self.cross_origin,
        });
        let host = Sha256::digest(self.host.as_bytes());
        (client_data.to_string(), [&host[..], &[self.flags, 0, 0, 0, 9]].concat())
    }

    fn sign<D: Document>(&self, document: &D) -> SignedApproval {
        let payload = serde_json::to_string(document).expect("it has a JSON form");
        let (client_data, authenticator_data) = self.parts(&passkey_challenge::<D>(&payload));
        let signed = [&authenticator_data[..], &Sha256::digest(client_data.as_bytes())].concat();
        let signature: p256::ecdsa::DerSignature = p256::ecdsa::signature::Signer::sign(&self.key, &signed);
        let proof = ApprovalProof::Passkey {
            credential: "C0FFEE".to_owned(),
            client_data,
            authenticator_data: hex::encode(authenticator_data),
            signature: hex::encode(signature.as_bytes()),
        };
        SignedApproval { payload, proof }
    }
}

fn statement() -> ApprovalStatement {
    ApprovalStatement::approve(MANIFEST, JOB, DATASET)
}

fn file_key(seed: u8) -> (SigningKey, ApprovalKey) {
    let key = SigningKey::from_bytes(&[seed; 32]);
    let public_key = hex::encode(key.verifying_key().to_bytes());
    (key, ApprovalKey::Ed25519 { public_key })
}

/// Returns the approval of an answer that keeps the proposal's values.
fn agreed(key: &ApprovalKey) -> (KeyFingerprint, PartyTerms) {
    (key.fingerprint(), PartyTerms::default())
}

fn judge(approval: &SignedApproval, key: &ApprovalKey) -> Result<(), ApprovalError> {
    approval.approves(MANIFEST, JOB, DATASET, std::slice::from_ref(key)).map(|_| ())
}

#[test]
fn key_file_approves_only_the_signed_statement() {
    let (key, public) = file_key(1);
    let approval = SignedApproval::sign(&statement(), &key).expect("it has a JSON form");
    assert_eq!(approval.approves(MANIFEST, JOB, DATASET, &[file_key(2).1, public.clone()]), Ok(agreed(&public)));
    assert_eq!(judge(&approval, &file_key(2).1), Err(ApprovalError::UnknownKey));
    assert_eq!(approval.approves("bb", JOB, DATASET, std::slice::from_ref(&public)), Err(ApprovalError::OtherManifest));
    let job = JobId(Uuid::from_u128(9));
    let dataset = DatasetId(Uuid::from_u128(9));
    assert_eq!(
        approval.approves(MANIFEST, job, DATASET, std::slice::from_ref(&public)),
        Err(ApprovalError::OtherDataset)
    );
    assert_eq!(
        approval.approves(MANIFEST, JOB, dataset, std::slice::from_ref(&public)),
        Err(ApprovalError::OtherDataset)
    );
    let refusal = ApprovalStatement { decision: StewardDecision::Refuse, ..statement() };
    let refusal = SignedApproval::sign(&refusal, &key).expect("it has a JSON form");
    assert_eq!(judge(&refusal, &public), Err(ApprovalError::Refusal));
    let turned = SignedApproval { payload: refusal.payload.replace("refuse", "approve"), ..refusal };
    assert_eq!(judge(&turned, &public), Err(ApprovalError::UnknownKey));
}

#[test]
fn another_document_of_the_same_key_is_no_approval() {
    let (key, public) = file_key(1);
    let decision = SiteDecision {
        manifest: MANIFEST.to_owned(),
        job: JOB,
        dataset: DATASET,
        approve: true,
        reason: String::new(),
        terms: PartyTerms::default(),
        at: time::OffsetDateTime::UNIX_EPOCH,
    };
    let signed = SignedApproval::sign(&decision, &key).expect("it has a JSON form");
    assert_eq!(judge(&signed, &public), Err(ApprovalError::UnknownKey));
}

#[test]
fn passkey_approves_the_signed_statement() {
    let passkey = SoftwarePasskey::new();
    let public = passkey.public();
    assert_eq!(public.check(), Ok(()));
    let approval = passkey.sign(&statement());
    assert_eq!(approval.approves(MANIFEST, JOB, DATASET, std::slice::from_ref(&public)), Ok(agreed(&public)));
    let text = serde_json::to_string(&approval).expect("it has a JSON form");
    let read: SignedApproval = serde_json::from_str(&text).expect("it was just written");
    assert_eq!(judge(&read, &public), Ok(()));
}

/// Changes one property of a passkey before it signs.
type PasskeyFlaw = fn(&mut SoftwarePasskey);

#[test]
fn an_assertion_from_elsewhere_is_refused() {
    let flaws: [(PasskeyFlaw, &str); 6] = [
        (|passkey| passkey.ceremony = "webauthn.create", "not from signing"),
        (|passkey| passkey.origin = "https://undertone.example.com", "another origin"),
        (|passkey| passkey.cross_origin = true, "another origin"),
        (|passkey| passkey.host = "example.org", "another relying party"),
        (|passkey| passkey.flags = 0x01, "did not recognize"),
        (|passkey| passkey.flags = 0x04, "did not recognize"),
    ];
    for (flaw, reason) in flaws {
        let mut passkey = SoftwarePasskey::new();
        flaw(&mut passkey);
        let error = judge(&passkey.sign(&statement()), &passkey.public()).expect_err(reason);
        assert!(matches!(error, ApprovalError::Assertion(text) if text.contains(reason)), "{error}");
    }
}

#[test]
fn an_assertion_that_was_changed_is_refused() {
    let passkey = SoftwarePasskey::new();
    let public = passkey.public();
    let approval = passkey.sign(&statement());
    let other = SignedApproval { payload: approval.payload.replace(MANIFEST, "bb"), ..approval.clone() };
    let replayed = other.approves("bb", JOB, DATASET, std::slice::from_ref(&public));
    assert_eq!(replayed, Err(ApprovalError::Assertion("it is for another statement")));
    let ApprovalProof::Passkey { credential, client_data, authenticator_data, signature } = approval.proof.clone()
    else {
        panic!("it is a passkey's")
    };
    // The flag of the user's presence is bit 0 of byte 32.
    let mut flipped = hex::decode(&authenticator_data).expect("hex");
    flipped[32] ^= 1;
    let proof = ApprovalProof::Passkey {
        credential: credential.clone(),
        client_data: client_data.clone(),
        authenticator_data: hex::encode(flipped),
        signature: signature.clone(),
    };
    assert_eq!(judge(&SignedApproval { proof, ..approval.clone() }, &public), Err(ApprovalError::Forged));
    let proof = ApprovalProof::Passkey {
        credential: "0a".to_owned(),
        client_data,
        authenticator_data: authenticator_data.clone(),
        signature,
    };
    assert_eq!(judge(&SignedApproval { proof, ..approval }, &public), Err(ApprovalError::UnknownKey));
}

#[test]
fn authenticator_data_of_another_length_is_refused() {
    for (data, reason) in [(Vec::new(), "too short"), (vec![0; 36], "another length"), (vec![0; 38], "another length")]
    {
        let error = check_authenticator_data(&data, HOST).expect_err(reason);
        assert!(matches!(error, WebauthnError::Refused(text) if text.contains(reason)), "{error}");
    }
}

#[test]
fn an_ed25519_passkey_approves_as_well() {
    let key = SigningKey::from_bytes(&[3; 32]);
    let public = ApprovalKey::Passkey {
        algorithm: PasskeyAlgorithm::EdDsa,
        public_key: hex::encode(key.verifying_key().to_bytes()),
        credential: "c0ffee".to_owned(),
        relying_party: HOST.to_owned(),
        origin: ORIGIN.to_owned(),
    };
    let payload = serde_json::to_string(&statement()).expect("it has a JSON form");
    let (client_data, data) = SoftwarePasskey::new().parts(&passkey_challenge::<ApprovalStatement>(&payload));
    let signed = [&data[..], &Sha256::digest(client_data.as_bytes())].concat();
    let proof = ApprovalProof::Passkey {
        credential: "c0ffee".to_owned(),
        client_data,
        authenticator_data: hex::encode(data),
        signature: hex::encode(key.sign(&signed).to_bytes()),
    };
    assert_eq!(judge(&SignedApproval { payload, proof }, &public), Ok(()));
}

#[test]
fn a_key_travels_as_a_line_and_keeps_its_fingerprint() {
    let passkey = SoftwarePasskey::new().public();
    for key in [passkey.clone(), file_key(1).1] {
        let read = ApprovalKey::parse_line(&format!(" {}\n", key.to_line())).expect("it is a key");
        assert_eq!((read.fingerprint(), &read), (key.fingerprint(), &key));
        assert_eq!(key.fingerprint().as_str().len(), 39, "128 bits in eight groups");
    }
    for line in ["", "uak1.", "uak1.e30", "uak2.x", &format!("uak1.{}", "a".repeat(5000))] {
        assert!(ApprovalKey::parse_line(line).is_err(), "{line}");
    }
    let ApprovalKey::Passkey { algorithm, public_key, credential, relying_party, origin } = passkey else {
        panic!("it is a passkey")
    };
    for (host, at) in [("example.org", &*origin), (HOST, "http://undertone.example.org"), (HOST, "https://other.org")] {
        let key = ApprovalKey::Passkey {
            algorithm,
            public_key: public_key.clone(),
            credential: credential.clone(),
            relying_party: host.to_owned(),
            origin: at.to_owned(),
        };
        assert_eq!(key.check(), Err(ApprovalError::Malformed("the passkey's origin")), "{host} {at}");
    }
    let key = ApprovalKey::Passkey { algorithm, public_key, credential: String::new(), relying_party, origin };
    assert_eq!(key.check(), Err(ApprovalError::Malformed("the credential's id")));
}

#[test]
fn a_weak_public_key_is_refused() {
    // The neutral element: it verifies signatures for which no private key exists.
    let neutral = format!("01{}", "00".repeat(31));
    assert!(ApprovalKey::Ed25519 { public_key: neutral }.check().is_err());
}

#[test]
fn a_browser_s_public_key_becomes_a_passkey() {
    let ApprovalKey::Passkey { public_key, .. } = SoftwarePasskey::new().public() else { panic!("it is a passkey") };
    let info = format!("3059301306072a8648ce3d020106082a8648ce3d030107034200{public_key}");
    let key = ApprovalKey::from_browser(-7, &info, "C0FFEE", ORIGIN);
    assert_eq!(key, Ok(SoftwarePasskey::new().public()));
    let (_, public) = file_key(1);
    let ApprovalKey::Ed25519 { public_key: raw } = public else { panic!("it is a key file's") };
    let key =
        ApprovalKey::from_browser(-8, &format!("302a300506032b6570032100{raw}"), "c0ffee", "http://localhost:8420");
    assert!(matches!(key, Ok(ApprovalKey::Passkey { relying_party, .. }) if relying_party == "localhost"));
    for (algorithm, info, origin) in [(-257, &*info, ORIGIN), (-7, "3059", ORIGIN), (-7, &info, "http://example.org")] {
        assert!(ApprovalKey::from_browser(algorithm, info, "c0ffee", origin).is_err());
    }
}
