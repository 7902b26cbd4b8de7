use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

use super::{
    AssertionParts, PasskeyAlgorithm, PasskeyPublicKey, RegisteredPasskey, WebauthnError, read_registration,
    verify_assertion,
};

const HOST: &str = "undertone.example.org";
const ORIGIN: &str = "https://undertone.example.org";
const CHALLENGE: [u8; 32] = [9; 32];

fn client_data(ceremony: &str, challenge: &[u8; 32], origin: &str) -> String {
    serde_json::json!({ "type": ceremony, "challenge": URL_SAFE_NO_PAD.encode(challenge), "origin": origin })
        .to_string()
}

fn head(host: &str, flags: u8, counter: u32) -> Vec<u8> {
    [&Sha256::digest(host.as_bytes())[..], &[flags], &counter.to_be_bytes()].concat()
}

/// Returns the authenticator data of a new passkey with the COSE key `cose`.
fn attest(flags: u8, cose: &[u8]) -> Vec<u8> {
    [&head(HOST, flags, 3)[..], &[0; 16], &[0, 3], &[0xc0, 0xff, 0xee], cose].concat()
}

fn eddsa() -> (ed25519_dalek::SigningKey, Vec<u8>) {
    let key = ed25519_dalek::SigningKey::from_bytes(&[5; 32]);
    let cose = [&hex::decode("a4010103272006215820").expect("hex")[..], key.verifying_key().as_bytes()].concat();
    (key, cose)
}

fn read(client_data: &str, data: &[u8]) -> Result<RegisteredPasskey, WebauthnError> {
    read_registration(client_data, &hex::encode(data), &CHALLENGE, (HOST, ORIGIN))
}

#[test]
fn registration_of_each_algorithm_is_read() {
    let client = client_data("webauthn.create", &CHALLENGE, ORIGIN);
    let (key, cose) = eddsa();
    let passkey = read(&client, &attest(0x45, &cose)).expect("well formed");
    assert_eq!((passkey.algorithm, passkey.counter), (PasskeyAlgorithm::EdDsa, 3));
    assert_eq!((passkey.credential.as_str(), passkey.public_key), ("c0ffee", hex::encode(key.verifying_key())));
    let key = p256::ecdsa::SigningKey::from_slice(&[7; 32]).expect("a scalar");
    let point = key.verifying_key().to_encoded_point(false);
    let (x, y) = (&point.as_bytes()[1..33], &point.as_bytes()[33..]);
    let es256_head = hex::decode("a5010203262001215820").expect("hex");
    let cose = [&es256_head[..], x, &[0x22, 0x58, 0x20], y].concat();
    let passkey = read(&client, &attest(0x45, &cose)).expect("well formed");
    assert_eq!((passkey.algorithm, passkey.public_key), (PasskeyAlgorithm::Es256, hex::encode(point.as_bytes())));
}

#[test]
fn registration_with_anything_wrong_is_refused() {
    let client = client_data("webauthn.create", &CHALLENGE, ORIGIN);
    let (_, cose) = eddsa();
    for (client_data, data, reason) in [
        (client_data("webauthn.get", &CHALLENGE, ORIGIN), attest(0x45, &cose), "another ceremony"),
        (client_data("webauthn.create", &[8; 32], ORIGIN), attest(0x45, &cose), "another challenge"),
        (client_data("webauthn.create", &CHALLENGE, "https://other.example.org"), attest(0x45, &cose), "origin"),
        (client.clone(), attest(0x41, &cose), "the user was not recognized"),
        (client.clone(), attest(0x05, &cose), "there is no credential"),
        (client.clone(), [attest(0x45, &cose), vec![0]].concat(), "bytes behind the key"),
        (client.clone(), attest(0x45, &cose[..20]), "the key is cut"),
        (client.clone(), attest(0x45, &[0xa4; 42]), "another kind of key"),
        (client.clone(), head(HOST, 0x45, 0), "nothing behind the counter"),
        (client.clone(), Vec::new(), "nothing"),
    ] {
        assert!(read(&client_data, &data).is_err(), "{reason}");
    }
    let with_extensions = [attest(0xc5, &cose), vec![0xa0]].concat();
    assert!(read(&client, &with_extensions).is_ok(), "extensions follow the key");
    let elsewhere =
        read_registration(&client, &hex::encode(attest(0x45, &cose)), &CHALLENGE, ("other.example", ORIGIN));
    assert!(elsewhere.is_err(), "another relying party");
}

#[test]
fn assertion_is_valid_for_its_challenge_only() {
    let (key, _) = eddsa();
    let public_key = hex::encode(key.verifying_key());
    let passkey = PasskeyPublicKey {
        algorithm: PasskeyAlgorithm::EdDsa,
        public_key: &public_key,
        relying_party: HOST,
        origin: ORIGIN,
    };
    let client_data = client_data("webauthn.get", &CHALLENGE, ORIGIN);
    let data = head(HOST, 0x05, 42);
    let signed = [&data[..], &Sha256::digest(client_data.as_bytes())].concat();
    let signature = hex::encode(ed25519_dalek::Signer::sign(&key, &signed).to_bytes());
    let data = hex::encode(data);
    let parts = AssertionParts { client_data: &client_data, authenticator_data: &data, signature: &signature };
    assert_eq!(verify_assertion(&passkey, &CHALLENGE, parts), Ok(42));
    let other = verify_assertion(&passkey, &[8; 32], parts);
    assert_eq!(other, Err(WebauthnError::Refused("it is for another statement")));
    let forged = AssertionParts { signature: &"00".repeat(64), ..parts };
    assert_eq!(verify_assertion(&passkey, &CHALLENGE, forged), Err(WebauthnError::Forged));
}
