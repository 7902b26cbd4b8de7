//! Tests of the gateway on the real wire.

mod limits;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::time::Duration;
use undertone_api::id::QuestionId;
use undertone_api::job::dp_sgd::Precision;
use undertone_api::question::Answer;
use undertone_api::worker::EnrolmentToken;
use undertone_proto::question::AnswerLine;
use uuid::Uuid;

use super::fake::{FakeServer, start};
use super::{
    AverageQuery, CALL, Download, Gateway, GatewayError, ServerOffer, TRANSFER, call_within, transfer_within_limit,
};
use crate::cli::{EnrollError, enroll};
use crate::config::{ConfigError, ServerEndpoint};
use crate::fixture::{LEAD, OURS, WORKER, server_key};
use crate::site::folder::Folder;
use crate::site::keys::SiteKey;
use crate::site::outbox::StoredVector;
use crate::site::policy::Policy;

fn token(server: &FakeServer, certificate: Option<[u8; 32]>) -> String {
    let token = EnrolmentToken {
        server: server.address.clone(),
        certificate: certificate.map(hex::encode),
        server_key: hex::encode(server_key().verifying_key().to_bytes()),
        server_root: None,
        secret: "ab".repeat(32),
    };
    format!("ute1.{}", URL_SAFE_NO_PAD.encode(serde_json::to_vec(&token).expect("a token has a JSON form")))
}

async fn gateway(server: &FakeServer) -> (tempfile::TempDir, Gateway) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let folder = Folder::new(dir.path());
    let config = enroll(&folder, &token(server, server.certificate)).await.expect("the token is good");
    let key = SiteKey::load(&folder.key()).expect("enrolment made it");
    (dir, Gateway::new(&config.server, config.worker, key).expect("the address is good"))
}

/// Returns the query for the first round of the series `private`.
fn average_query() -> AverageQuery<'static> {
    AverageQuery { series: "private", round: 1, precision: Precision::F32, wait: Duration::from_secs(1) }
}

fn parcel() -> StoredVector {
    use sha2::{Digest, Sha256};
    let bytes: Vec<u8> = (0..300_000_u32).flat_map(|value| (value as f32).to_le_bytes()).collect();
    StoredVector { digest: hex::encode(Sha256::digest(&bytes)), length: bytes.len() as u64 / 4, bytes, receipt: None }
}

#[tokio::test]
async fn site_enrols_once_over_the_pinned_certificate() {
    let server = start(true).await;
    let dir = tempfile::tempdir().expect("a temporary folder");
    let folder = Folder::new(dir.path());
    let config = enroll(&folder, &token(&server, server.certificate)).await.expect("the token is good");
    assert_eq!((config.worker, config.server.certificate()), (WORKER, server.certificate));
    let key = SiteKey::load(&folder.key()).expect("enrolment made it");
    assert_eq!(server.state.lock().expect("nobody panicked").public_key, key.public_hex());
    assert!(Policy::load(&folder.policy()).is_ok());
    let second = enroll(&folder, &token(&server, server.certificate)).await;
    assert!(matches!(second, Err(EnrollError::Config(ConfigError::AlreadyEnrolled { .. }))));
}

#[tokio::test]
async fn server_with_another_certificate_is_rejected() {
    let server = start(true).await;
    let dir = tempfile::tempdir().expect("a temporary folder");
    let folder = Folder::new(dir.path());
    let mut wrong = server.certificate.expect("it has one");
    wrong[0] ^= 1;
    let result = enroll(&folder, &token(&server, Some(wrong))).await;
    assert!(matches!(result, Err(EnrollError::Gateway(GatewayError::Unreachable(_)))), "{result:?}");
    assert!(!folder.config().exists());
    assert_eq!(server.state.lock().expect("nobody panicked").public_key, "", "nothing was sent");
}

#[tokio::test]
async fn server_with_a_copied_certificate_is_rejected() {
    // The certificate of one server, the key of another: an observer of the handshake has the certificate only.
    let observed = rcgen::generate_simple_self_signed(vec!["a.example".to_owned()]).expect("a certificate");
    let own = rcgen::generate_simple_self_signed(vec!["b.example".to_owned()]).expect("a certificate");
    let key = rustls::pki_types::PrivateKeyDer::try_from(own.signing_key.serialize_der()).expect("a key");
    let chain = vec![observed.cert.der().clone()];
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let signer = provider.key_provider.load_private_key(key).expect("a key");
    let copy = rustls::sign::CertifiedKey::new(chain, signer);
    let verifier = super::pin::PinVerifier::for_trust(super::trust::CertificateTrust::with_certificate(
        super::fingerprint(observed.cert.der()),
    ));
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
        .with_cert_resolver(std::sync::Arc::new(rustls::sign::SingleCertAndKey::from(copy)));
    let name = rustls::pki_types::ServerName::try_from("a.example").expect("a name");
    let mut client = rustls::ClientConnection::new(std::sync::Arc::new(client), name).expect("a client");
    let mut server = rustls::ServerConnection::new(std::sync::Arc::new(server)).expect("a server");
    let mut error = None;
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
        while !wire.is_empty() && error.is_none() {
            client.read_tls(&mut wire).expect("memory is readable");
            error = client.process_new_packets().err();
        }
    }
    let invalid = rustls::Error::InvalidCertificate(rustls::CertificateError::BadSignature);
    assert_eq!(error, Some(invalid));
    assert!(client.is_handshaking());
}

#[tokio::test]
async fn forgotten_session_is_renewed() {
    let server = start(false).await;
    let (_dir, gateway) = gateway(&server).await;
    let wait = Duration::from_secs(1);
    assert!(matches!(gateway.next_offer(wait, &[], &[]).await, Ok(ServerOffer::Nothing)));
    server.state.lock().expect("nobody panicked").forgotten = 1;
    assert!(matches!(gateway.next_offer(wait, &[], &[]).await, Ok(ServerOffer::Nothing)));
    assert_eq!(server.state.lock().expect("nobody panicked").sessions, 2);
}

#[tokio::test]
async fn worker_with_another_key_is_refused() {
    let server = start(false).await;
    let (_dir, _enrolled) = gateway(&server).await;
    let other = tempfile::tempdir().expect("a temporary folder");
    let key = SiteKey::load_or_make(&other.path().join("key")).expect("the folder is writable");
    let address = ServerEndpoint::new(&server.address, None).expect("it is on loopback");
    let impostor = Gateway::new(&address, WORKER, key).expect("the address is good");
    let error = impostor.next_offer(Duration::from_secs(1), &[], &[]).await.expect_err("it has another key");
    assert!(!error.is_transient(), "{error}");
}

#[tokio::test]
async fn average_of_one_vector_is_the_vector() {
    let server = start(true).await;
    let (_dir, gateway) = gateway(&server).await;
    let parcel = parcel();
    let average = async || gateway.average("lease", average_query(), &Download::default()).await;
    assert_eq!(average().await.expect("it answers"), None);
    assert!(!gateway.submit("lease", "private", 1, &parcel, &[]).await.expect("it is accepted").is_repeated);
    assert!(gateway.submit("lease", "private", 1, &parcel, &[]).await.expect("it is accepted again").is_repeated);
    let average_of_round = average().await.expect("it answers").expect("it is there");
    let bits: Vec<u8> = average_of_round.mean.iter().flat_map(|value| value.to_le_bytes()).collect();
    assert_eq!((bits, average_of_round.contributors), (parcel.bytes.clone(), 1));
    server.state.lock().expect("nobody panicked").lies = true;
    assert!(matches!(average().await, Err(GatewayError::Protocol(_))));
}

#[tokio::test]
async fn interrupted_transfers_resume_in_both_directions() {
    let server = start(true).await;
    let (_dir, gateway) = gateway(&server).await;
    let parcel = parcel();
    let state = || server.state.lock().expect("nobody panicked");
    state().cuts = 2;
    for _ in 0..2 {
        let error = gateway.submit("lease", "private", 1, &parcel, &[]).await.expect_err("the connection breaks");
        assert!(error.is_transient(), "{error}");
    }
    gateway.submit("lease", "private", 1, &parcel, &[]).await.expect("the third attempt is complete");
    assert_eq!(state().carried, parcel.bytes.len(), "no byte was sent twice");

    let download = Download::default();
    let average = || gateway.average("lease", average_query(), &download);
    (state().cuts, state().carried) = (2, 0);
    for _ in 0..2 {
        assert!(average().await.expect_err("the connection breaks").is_transient());
    }
    let average_of_round = average().await.expect("it answers").expect("it is there");
    assert_eq!(average_of_round.mean.len() as u64, parcel.length);
    assert_eq!(state().carried, parcel.bytes.len(), "no byte was received twice");
}

#[tokio::test]
async fn unavailable_server_is_a_transient_error() {
    let server = start(false).await;
    let (_dir, gateway) = gateway(&server).await;
    server.state.lock().expect("nobody panicked").outage = 1;
    let error = gateway.renew("lease").await.expect_err("it is away");
    assert!(error.is_transient(), "{error}");
    assert!(gateway.renew("lease").await.expect("it is back").is_active);
}

#[tokio::test]
async fn pools_are_checked_and_their_transfer_resumes() {
    let server = start(true).await;
    let (_dir, gateway) = gateway(&server).await;
    let state = || server.state.lock().expect("nobody panicked");
    let wait = Duration::from_secs(1);
    let download = Download::default();
    assert_eq!(gateway.fetch_pools("lease", wait, &download).await.expect("it answers"), None);
    let pools = vec![(LEAD, vec![1, 2, 3]), (OURS, (0..200).collect::<Vec<u8>>())];
    state().pools.clone_from(&pools);
    state().cuts = 1;
    assert!(gateway.fetch_pools("lease", wait, &download).await.expect_err("the connection breaks").is_transient());
    let received = gateway.fetch_pools("lease", wait, &download).await.expect("it answers").expect("they are there");
    assert_eq!((received.pools, state().carried), (pools, 203), "no byte was received twice");
    state().lies = true;
    let lie = gateway.fetch_pools("lease", wait, &Download::default()).await;
    assert!(matches!(lie, Err(GatewayError::Protocol(_))), "{lie:?}");
}

#[tokio::test]
async fn choices_keep_their_order_and_answers_follow_the_close() {
    let server = start(true).await;
    let (_dir, gateway) = gateway(&server).await;
    let state = || server.state.lock().expect("nobody panicked");
    let one = QuestionId(Uuid::from_u128(1));
    let two = QuestionId(Uuid::from_u128(2));
    gateway.choose("lease", 1, &[(two, 0.9), (one, 0.1)]).await.expect("it is accepted");
    let choices: Vec<_> =
        state().choices[0].chosen.iter().map(|choice| (choice.question.clone(), choice.uncertainty)).collect();
    assert_eq!(choices, [(two.to_string(), 0.9), (one.to_string(), 0.1)]);
    let wait = Duration::from_secs(1);
    assert_eq!(gateway.fetch_answers("lease", 1, wait).await.expect("it answers"), None);
    let answer = AnswerLine { question: one, annotator: 3, answer: Answer::Unsure };
    state().answers.insert(1, vec![answer.clone()]);
    assert_eq!(gateway.fetch_answers("lease", 1, wait).await.expect("it answers"), Some(vec![answer]));
    state().lies = true;
    assert!(matches!(gateway.fetch_answers("lease", 1, wait).await, Err(GatewayError::Protocol(_))));
}

fn announce(server: &FakeServer, certificates: &[[u8; 32]]) {
    let pinned =
        |sha256: &[u8; 32]| undertone_api::signed::PinnedCertificate { sha256: hex::encode(sha256), until: None };
    server.state.lock().expect("nobody panicked").announced = certificates.iter().map(pinned).collect();
}

/// Makes the site that enrolled at `old`; its server has moved to the address of `new`, with another certificate.
async fn moved_site(old: &FakeServer, new: &FakeServer) -> (tempfile::TempDir, Folder, crate::config::Config) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let folder = Folder::new(dir.path());
    let mut config = enroll(&folder, &token(old, old.certificate)).await.expect("the token is good");
    let pinned = old.certificate.map(hex::encode);
    config.server = ServerEndpoint::new(&new.address, pinned.as_deref()).expect("it is on loopback");
    let key = SiteKey::load(&folder.key()).expect("enrolment made it").public_hex();
    new.state.lock().expect("nobody panicked").public_key = key;
    (dir, folder, config)
}

async fn next_offer(folder: &Folder, config: &crate::config::Config) -> Result<ServerOffer, GatewayError> {
    let key = SiteKey::load(&folder.key()).expect("enrolment made it");
    let gateway = Gateway::for_site(config, folder, key).expect("the address is good");
    gateway.next_offer(Duration::from_secs(1), &[], &[]).await
}

#[tokio::test]
async fn announced_certificate_is_accepted() {
    let old = start(true).await;
    let new = start(true).await;
    let certificates = [old.certificate.expect("it has one"), new.certificate.expect("it has one")];
    announce(&old, &certificates);
    let (_dir, folder, config) = moved_site(&old, &new).await;
    let before = crate::config::Config {
        server: ServerEndpoint::new(&old.address, config.server.certificate().map(hex::encode).as_deref())
            .expect("it is on loopback"),
        ..config.clone()
    };
    let key = SiteKey::load(&folder.key()).expect("enrolment made it");
    let gateway = Gateway::for_site(&before, &folder, key).expect("the address is good");
    let pins = gateway.pins().await.expect("it answers").expect("a key can announce others");
    assert_eq!(pins.certificates.len(), 2);
    // The stored announcement suffices: the server at the new address has no valid signature now.
    new.state.lock().expect("nobody panicked").stale = true;
    assert!(matches!(next_offer(&folder, &config).await, Ok(ServerOffer::Nothing)));
}

#[tokio::test]
async fn unknown_certificate_is_confirmed_by_the_servers_key() {
    let old = start(true).await;
    let new = start(true).await;
    let (_dir, folder, config) = moved_site(&old, &new).await;
    announce(&new, &[new.certificate.expect("it has one")]);
    assert!(matches!(next_offer(&folder, &config).await, Ok(ServerOffer::Nothing)));
    assert!(folder.pins().exists(), "it is kept");
    // The next process knows it without a question.
    new.state.lock().expect("nobody panicked").stale = true;
    assert!(matches!(next_offer(&folder, &config).await, Ok(ServerOffer::Nothing)));
    // The certificate of the enrolment is no longer accepted.
    let back =
        ServerEndpoint::new(&old.address, config.server.certificate().map(hex::encode).as_deref()).expect("loopback");
    old.state.lock().expect("nobody panicked").stale = true;
    let result = next_offer(&folder, &crate::config::Config { server: back, ..config }).await;
    assert!(matches!(result, Err(GatewayError::Unreachable(_))), "{result:?}");
}

#[tokio::test]
async fn server_in_the_middle_receives_nothing() {
    let old = start(true).await;
    for lie in ["another's key", "an old answer", "the real server's answer"] {
        let between = start(true).await;
        let (_dir, folder, config) = moved_site(&old, &between).await;
        let own = between.certificate.expect("it has one");
        match lie {
            "another's key" => {
                announce(&between, &[own]);
                between.state.lock().expect("nobody panicked").impostor =
                    Some(ed25519_dalek::SigningKey::from_bytes(&[66; 32]));
            }
            "an old answer" => {
                announce(&between, &[own]);
                between.state.lock().expect("nobody panicked").stale = true;
            }
            // A relayed genuine answer names the real server's certificate.
            _ => announce(&between, &[old.certificate.expect("it has one")]),
        }
        let result = next_offer(&folder, &config).await;
        assert!(matches!(result, Err(GatewayError::Unreachable(_))), "{lie}: {result:?}");
        assert_eq!(between.state.lock().expect("nobody panicked").sessions, 0, "{lie}: nothing was sent");
        assert!(!folder.pins().exists() || lie == "the real server's answer", "{lie}");
    }
}

#[tokio::test]
async fn site_registers_its_next_key_and_signs_in_with_it() {
    let server = start(false).await;
    let dir = tempfile::tempdir().expect("a temporary folder");
    let folder = Folder::new(dir.path());
    let config = enroll(&folder, &token(&server, None)).await.expect("the token is good");
    let store = crate::site::store::Store::create(&folder.ledger()).expect("enrolment made it");
    let change = crate::site::rotation::prepare(&folder, &store, WORKER, (crate::fixture::clock())()).expect("idle");
    for _ in 0..2 {
        super::rotate_key(&config, &folder, &change).await.expect("it is accepted, and accepted again");
    }
    crate::site::rotation::finish(&folder, &store, &change).expect("it was accepted");
    assert!(matches!(next_offer(&folder, &config).await, Ok(ServerOffer::Nothing)));
    assert_eq!(server.state.lock().expect("nobody panicked").rotations, 2);
}

#[tokio::test(start_paused = true)]
async fn calls_and_transfers_have_a_time_limit() {
    let instant = Duration::from_millis(1);
    for (time, is_in_time) in [(CALL.saturating_sub(instant), true), (CALL + instant, false)] {
        let call = async {
            tokio::time::sleep(time).await;
            Ok::<_, tonic::Status>(())
        };
        assert_eq!(call_within(CALL, call).await.is_ok(), is_in_time, "a call of {time:?}");
    }
    for (time, is_in_time) in [(TRANSFER.saturating_sub(instant), true), (TRANSFER + instant, false)] {
        let transfer = async {
            tokio::time::sleep(time).await;
            Ok(())
        };
        assert_eq!(transfer_within_limit(transfer).await.is_ok(), is_in_time, "a transfer of {time:?}");
    }
}
