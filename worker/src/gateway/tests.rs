//! The gateway on the real wire.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::time::Duration;
use undertone_api::worker::EnrolmentToken;

use super::fake::{Running, start};
use super::{Gateway, GatewayError, Offer};
use crate::cli::{EnrollError, enroll};
use crate::config::{ConfigError, Server};
use crate::fixture::{WORKER, server_key};
use crate::site::folder::Folder;
use crate::site::keys::SiteKey;
use crate::site::outbox::Parcel;
use crate::site::policy::Policy;

fn token(server: &Running, certificate: Option<[u8; 32]>) -> String {
    let token = EnrolmentToken {
        server: server.address.clone(),
        certificate: certificate.map(hex::encode),
        server_key: hex::encode(server_key().verifying_key().to_bytes()),
        secret: "ab".repeat(32),
    };
    format!("ute1.{}", URL_SAFE_NO_PAD.encode(serde_json::to_vec(&token).expect("a token has a JSON form")))
}

async fn gateway(server: &Running) -> (tempfile::TempDir, Gateway) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let folder = Folder::new(dir.path());
    let config = enroll(&folder, &token(server, server.certificate)).await.expect("the token is good");
    let key = SiteKey::load(&folder.key()).expect("enrolment made it");
    (dir, Gateway::new(&config.server, config.worker, key).expect("the address is good"))
}

fn parcel() -> Parcel {
    use sha2::{Digest, Sha256};
    let bytes: Vec<u8> = (0..300_000_u32).flat_map(|value| (value as f32).to_le_bytes()).collect();
    Parcel { digest: hex::encode(Sha256::digest(&bytes)), bytes, receipt: None }
}

#[tokio::test]
async fn a_site_enrols_once_over_the_pinned_certificate() {
    let server = start(true).await;
    let dir = tempfile::tempdir().expect("a temporary folder");
    let folder = Folder::new(dir.path());
    let config = enroll(&folder, &token(&server, server.certificate)).await.expect("the token is good");
    assert_eq!((config.worker, config.server.certificate()), (WORKER, server.certificate));
    let key = SiteKey::load(&folder.key()).expect("enrolment made it");
    assert_eq!(server.state.lock().expect("nobody panicked").public_key, key.public_hex());
    assert!(Policy::load(&folder.policy()).is_ok());
    let again = enroll(&folder, &token(&server, server.certificate)).await;
    assert!(matches!(again, Err(EnrollError::Config(ConfigError::AlreadyEnrolled { .. }))));
}

#[tokio::test]
async fn another_certificate_than_the_pinned_one_is_no_server() {
    let server = start(true).await;
    let dir = tempfile::tempdir().expect("a temporary folder");
    let folder = Folder::new(dir.path());
    let mut wrong = server.certificate.expect("it has one");
    wrong[0] ^= 1;
    let refused = enroll(&folder, &token(&server, Some(wrong))).await;
    assert!(matches!(refused, Err(EnrollError::Gateway(GatewayError::Unreachable(_)))), "{refused:?}");
    assert!(!folder.config().exists());
    assert_eq!(server.state.lock().expect("nobody panicked").public_key, "", "nothing was told");
}

#[tokio::test]
async fn a_server_that_only_copied_the_certificate_is_no_server() {
    // The certificate of one server, the key of another: what somebody has who saw the handshake.
    let (seen, own) = (["a.example"], ["b.example"]);
    let seen = rcgen::generate_simple_self_signed(seen.map(str::to_owned)).expect("a certificate");
    let own = rcgen::generate_simple_self_signed(own.map(str::to_owned)).expect("a certificate");
    let key = rustls::pki_types::PrivateKeyDer::try_from(own.signing_key.serialize_der()).expect("a key");
    let chain = vec![seen.cert.der().clone()];
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let signer = provider.key_provider.load_private_key(key).expect("a key");
    let copied = rustls::sign::CertifiedKey::new(chain, signer);
    let verifier = super::pin::Pin::verifier(super::fingerprint(seen.cert.der()));
    let client = rustls::ClientConfig::builder_with_provider(std::sync::Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("the provider has them")
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    let server = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has them")
        .with_no_client_auth()
        .with_cert_resolver(std::sync::Arc::new(rustls::sign::SingleCertAndKey::from(copied)));
    let name = rustls::pki_types::ServerName::try_from("a.example").expect("a name");
    let mut client = rustls::ClientConnection::new(std::sync::Arc::new(client), name).expect("a client");
    let mut server = rustls::ServerConnection::new(std::sync::Arc::new(server)).expect("a server");
    let mut refused = None;
    for _ in 0..10 {
        let mut wire = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut wire).expect("memory is writable");
        }
        let mut wire = wire.as_slice();
        while !wire.is_empty() {
            server.read_tls(&mut wire).expect("memory is readable");
            drop(server.process_new_packets());
        }
        let mut wire = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut wire).expect("memory is writable");
        }
        let mut wire = wire.as_slice();
        while !wire.is_empty() && refused.is_none() {
            client.read_tls(&mut wire).expect("memory is readable");
            refused = client.process_new_packets().err();
        }
    }
    let invalid = rustls::Error::InvalidCertificate(rustls::CertificateError::BadSignature);
    assert_eq!(refused, Some(invalid));
    assert!(client.is_handshaking());
}

#[tokio::test]
async fn a_forgotten_session_is_renewed_without_a_word() {
    let server = start(false).await;
    let (_dir, gateway) = gateway(&server).await;
    let wait = Duration::from_secs(1);
    assert!(matches!(gateway.next_offer(wait, &[], &[]).await, Ok(Offer::Nothing)));
    server.state.lock().expect("nobody panicked").forgotten = 1;
    assert!(matches!(gateway.next_offer(wait, &[], &[]).await, Ok(Offer::Nothing)));
    assert_eq!(server.state.lock().expect("nobody panicked").sessions, 2);
}

#[tokio::test]
async fn a_worker_with_another_key_is_turned_away() {
    let server = start(false).await;
    let (_dir, _enrolled) = gateway(&server).await;
    let other = tempfile::tempdir().expect("a temporary folder");
    let key = SiteKey::load_or_make(&other.path().join("key")).expect("the folder is writable");
    let address = Server::new(&server.address, None).expect("it is on loopback");
    let impostor = Gateway::new(&address, WORKER, key).expect("the address is good");
    let refused = impostor.next_offer(Duration::from_secs(1), &[], &[]).await.expect_err("it has another key");
    assert!(!refused.is_transient(), "{refused}");
}

#[tokio::test]
async fn a_vector_comes_back_from_the_average_bit_for_bit() {
    let server = start(true).await;
    let (_dir, gateway) = gateway(&server).await;
    let (sent, wait) = (parcel(), Duration::from_secs(1));
    assert_eq!(gateway.average("lease", "private", 1, wait).await.expect("it answers"), None);
    assert!(!gateway.submit("lease", "private", 1, &sent, &[]).await.expect("it is taken").repeated);
    assert!(gateway.submit("lease", "private", 1, &sent, &[]).await.expect("it is taken again").repeated);
    let average = gateway.average("lease", "private", 1, wait).await.expect("it answers").expect("it is there");
    let bits: Vec<u8> = average.mean.iter().flat_map(|value| value.to_le_bytes()).collect();
    assert_eq!((bits, average.contributors), (sent.bytes.clone(), 1));
    server.state.lock().expect("nobody panicked").lies = true;
    let lied = gateway.average("lease", "private", 1, wait).await;
    assert!(matches!(lied, Err(GatewayError::Protocol(_))));
}

#[tokio::test]
async fn a_server_that_is_away_may_come_back() {
    let server = start(false).await;
    let (_dir, gateway) = gateway(&server).await;
    server.state.lock().expect("nobody panicked").outage = 1;
    let away = gateway.renew("lease").await.expect_err("it is away");
    assert!(away.is_transient(), "{away}");
    assert!(gateway.renew("lease").await.expect("it is back").go_on);
}
