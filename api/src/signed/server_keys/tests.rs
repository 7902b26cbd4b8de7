use ed25519_dalek::{Signer as _, SigningKey};
use time::{Duration, OffsetDateTime};

use super::{
    DocumentSigner, KeyCertificate, KeyPurpose, RootIntroduction, SignatureChain, SignatureScope, SignedIntroduction,
    TrustedServer, certified_signature,
};
use crate::signed::{CertificatePins, Document, LogHead, PresenceProof, Signed, SignedError};

const NOW: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;

fn key(seed: u8) -> SigningKey {
    SigningKey::from_bytes(&[seed; 32])
}

fn hex_of(key: &SigningKey) -> String {
    hex::encode(key.verifying_key().to_bytes())
}

/// An online key with its chain.
struct OnlineSigner {
    key: SigningKey,
    chain: SignatureChain,
}

impl DocumentSigner for OnlineSigner {
    fn sign_message(&self, message: &[u8], _: SignatureScope) -> Result<String, SignedError> {
        certified_signature(&self.key.sign(message), &self.chain)
    }
}

fn introduction(first: &SigningKey, root: &SigningKey) -> SignedIntroduction {
    let document = RootIntroduction { first: hex_of(first), root: hex_of(root) };
    SignedIntroduction {
        by_first: Signed::new(&document, first).expect("it has a JSON form"),
        by_root: Signed::new(&document, root).expect("it has a JSON form").signature,
    }
}

/// Certifies a key for a purpose; key 1 is the first one and key 2 the root.
fn certify(seed: u8, purpose: KeyPurpose, serial: u64, least_serial: u64, from: OffsetDateTime) -> OnlineSigner {
    let certificate = KeyCertificate {
        serial,
        least_serial,
        key: hex_of(&key(seed)),
        purpose,
        from,
        until: from + Duration::days(90),
    };
    let certificate = Signed::new(&certificate, &key(2)).expect("it has a JSON form");
    OnlineSigner { key: key(seed), chain: SignatureChain { certificate, introduction: introduction(&key(1), &key(2)) } }
}

fn head(at: OffsetDateTime) -> LogHead {
    LogHead { size: 1, root: String::new(), at, server: String::new() }
}

/// Verifies like a site that follows the server, and stores the new state.
fn follow(server: &mut TrustedServer, signed: &Signed, at: OffsetDateTime) -> Result<(), SignedError> {
    let message = [LogHead::DOMAIN.as_bytes(), &[0], signed.payload.as_bytes()].concat();
    let scope = SignatureScope { purpose: Some(KeyPurpose::Log), at: Some(at) };
    if let Some(next) = server.examine(&message, &signed.signature, scope)? {
        *server = next;
    }
    Ok(())
}

fn signed(at: OffsetDateTime, signer: &dyn DocumentSigner) -> Signed {
    Signed::new(&head(at), signer).expect("it has a JSON form")
}

#[test]
fn first_key_alone_verifies_certified_signatures() {
    let online = certify(3, KeyPurpose::Log, 1, 0, NOW);
    let document = signed(NOW, &online);
    assert_eq!(document.open::<LogHead>(&key(1).verifying_key()), Ok(head(NOW)));
    assert!(document.open::<LogHead>(&key(9).verifying_key()).is_err(), "another server");
    assert!(document.open::<LogHead>(&key(2).verifying_key()).is_err(), "the root is no first key");
}

#[test]
fn certificate_holds_for_its_purpose_and_time() {
    let first = key(1).verifying_key();
    let online = certify(3, KeyPurpose::Log, 1, 0, NOW);
    for (at, holds) in [
        (NOW - Duration::SECOND, false),
        (NOW, true),
        (NOW + Duration::days(90) - Duration::SECOND, true),
        (NOW + Duration::days(90), false),
    ] {
        assert_eq!(signed(at, &online).open::<LogHead>(&first).is_ok(), holds, "{at}");
    }
    let pins = CertificatePins { challenge: String::new(), certificates: Vec::new(), at: NOW };
    let other = Signed::new(&pins, &online).expect("it has a JSON form");
    assert!(
        matches!(other.open::<CertificatePins>(&first), Err(SignedError::Chain(_))),
        "a key of the log signs no pins"
    );
    let presence = PresenceProof { worker: crate::id::WorkerId(uuid::Uuid::nil()), challenge: String::new() };
    let of_a_site = Signed::new(&presence, &online).expect("it has a JSON form");
    assert!(matches!(of_a_site.open::<PresenceProof>(&first), Err(SignedError::Chain(_))), "it speaks for no site");
}

#[test]
fn changed_chain_is_refused() {
    let first = key(1).verifying_key();
    let mut forged = certify(3, KeyPurpose::Log, 1, 0, NOW);
    forged.key = key(4);
    assert_eq!(signed(NOW, &forged).open::<LogHead>(&first), Err(SignedError::Forged), "another key signed");
    let mut foreign = certify(3, KeyPurpose::Log, 1, 0, NOW);
    foreign.chain.introduction = introduction(&key(9), &key(2));
    assert!(signed(NOW, &foreign).open::<LogHead>(&first).is_err(), "another first key");
    let mut own_root = certify(3, KeyPurpose::Log, 1, 0, NOW);
    own_root.chain.introduction.by_root = own_root.chain.introduction.by_first.signature.clone();
    assert!(signed(NOW, &own_root).open::<LogHead>(&first).is_err(), "the root did not sign the introduction");
    let mut long = signed(NOW, &certify(3, KeyPurpose::Log, 1, 0, NOW));
    long.signature.push_str(&" ".repeat(4096));
    assert_eq!(long.open::<LogHead>(&first), Err(SignedError::Malformed));
}

#[test]
fn verifier_follows_from_first_key_to_root() {
    let mut server = TrustedServer::new(&key(1).verifying_key());
    let hour = NOW + Duration::HOUR;
    follow(&mut server, &signed(NOW, &key(1)), NOW).expect("there is no root yet");
    follow(&mut server, &signed(hour, &certify(3, KeyPurpose::Log, 1, 0, hour)), hour).expect("introduced");
    assert_eq!(server.root(), Some(&*hex_of(&key(2))));
    follow(&mut server, &signed(NOW, &key(1)), NOW).expect("it was signed before the root was there");
    let late = follow(&mut server, &signed(hour, &key(1)), hour);
    assert!(matches!(late, Err(SignedError::Chain(_))), "{late:?}");
    // A thief of the first key makes another root.
    let mut thief = certify(3, KeyPurpose::Log, 9, 0, hour);
    let certificate: KeyCertificate = serde_json::from_str(&thief.chain.certificate.payload).expect("read");
    thief.chain.certificate = Signed::new(&certificate, &key(8)).expect("it has a JSON form");
    thief.chain.introduction = introduction(&key(1), &key(8));
    assert!(signed(hour, &thief).open::<LogHead>(&key(1).verifying_key()).is_ok(), "who knows the first key alone");
    assert_eq!(follow(&mut server, &signed(hour, &thief), hour), Err(SignedError::Forged));
}

#[test]
fn lower_serial_is_refused_after_a_higher_one_began() {
    let mut server = TrustedServer::new(&key(1).verifying_key());
    let old = certify(3, KeyPurpose::Log, 1, 0, NOW);
    let hour = NOW + Duration::HOUR;
    let new = certify(4, KeyPurpose::Log, 2, 0, hour);
    follow(&mut server, &signed(NOW, &old), NOW).expect("the first certificate");
    follow(&mut server, &signed(hour, &new), hour).expect("the second certificate");
    assert_eq!(server.newest(KeyPurpose::Log).map(|certificate| certificate.serial), Some(2));
    follow(&mut server, &signed(NOW, &old), NOW).expect("signed while it was the newest");
    let back = follow(&mut server, &signed(hour, &old), hour);
    assert!(matches!(back, Err(SignedError::Chain(_))), "{back:?}");
    let stored: TrustedServer =
        serde_json::from_str(&serde_json::to_string(&server).expect("written")).expect("read back");
    assert_eq!(stored, server);
}

#[test]
fn older_key_signs_until_the_first_document_of_the_newer() {
    let mut server = TrustedServer::new(&key(1).verifying_key());
    let mut older: Box<dyn DocumentSigner> = Box::new(key(1));
    for serial in 1..=2 {
        let from = NOW + Duration::HOUR * i32::from(serial);
        // The server installs the certificate three minutes after its start.
        let installed = from + Duration::minutes(3);
        let newer = certify(2 + serial, KeyPurpose::Log, u64::from(serial), 0, from);
        follow(&mut server, &signed(installed, &newer), installed).expect("the newer key");
        let before = installed - Duration::SECOND;
        follow(&mut server, &signed(before, &*older), before).expect("the newer key was not installed yet");
        let late = follow(&mut server, &signed(installed, &*older), installed);
        assert!(matches!(late, Err(SignedError::Chain(_))), "serial {serial}: {late:?}");
        let state = server.clone();
        follow(&mut server, &signed(before, &newer), before).expect("the newer key");
        assert_eq!(server, state, "a document that states an earlier time changes nothing");
        older = Box::new(newer);
    }
}

#[test]
fn revoked_certificate_is_refused_whatever_time_it_states() {
    let mut server = TrustedServer::new(&key(1).verifying_key());
    let stolen = certify(3, KeyPurpose::Log, 1, 0, NOW);
    let hour = NOW + Duration::HOUR;
    follow(&mut server, &signed(NOW, &stolen), NOW).expect("not stolen yet");
    let cure = certify(4, KeyPurpose::Log, 2, 2, hour);
    follow(&mut server, &signed(hour, &cure), hour).expect("from the root");
    assert_eq!(server.least_serial(), 2);
    for (signer, name) in [(&stolen as &dyn DocumentSigner, "the stolen key"), (&key(1), "the first key")] {
        let refused = follow(&mut server, &signed(NOW, signer), NOW);
        assert!(matches!(refused, Err(SignedError::Chain(_))), "{name}: {refused:?}");
    }
    assert!(
        signed(NOW, &stolen).open::<LogHead>(&key(1).verifying_key()).is_ok(),
        "what was accepted stays verifiable"
    );
}

#[test]
fn server_with_pinned_root_ignores_the_first_key() {
    let mut server = TrustedServer::with_root(&key(1).verifying_key(), &key(2).verifying_key());
    assert!(matches!(follow(&mut server, &signed(NOW, &key(1)), NOW), Err(SignedError::Chain(_))));
    follow(&mut server, &signed(NOW, &certify(3, KeyPurpose::Log, 1, 0, NOW)), NOW).expect("certified");
}
