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

use super::fake::{Running, start};
use super::{CALL, Download, Gateway, GatewayError, Offer, TRANSFER, within, within_transfer};
use crate::cli::{EnrollError, enroll};
use crate::config::{ConfigError, Server};
use crate::fixture::{LEAD, OURS, WORKER, server_key};
use crate::site::folder::Folder;
use crate::site::keys::SiteKey;
use crate::site::outbox::StoredVector;
use crate::site::policy::Policy;

fn token(server: &Running, certificate: Option<[u8; 32]>) -> String {
    let token = EnrolmentToken {
        server: server.address.clone(),
        certificate: certificate.map(hex::encode),
        server_key: hex::encode(server_key().verifying_key().to_bytes()),
        server_root: None,
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

fn parcel() -> StoredVector {
    use sha2::{Digest, Sha256};
    let bytes: Vec<u8> = (0..300_000_u32).flat_map(|value| (value as f32).to_le_bytes()).collect();
    StoredVector { digest: hex::encode(Sha256::digest(&bytes)), length: bytes.len() as u64 / 4, bytes, receipt: None }
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
    // The certificate of one server, the key of another: an observer of the handshake has the certificate only.
    let (seen, own) = (["a.example"], ["b.example"]);
    let seen = rcgen::generate_simple_self_signed(seen.map(str::to_owned)).expect("a certificate");
    let own = rcgen::generate_simple_self_signed(own.map(str::to_owned)).expect("a certificate");
    let key = rustls::pki_types::PrivateKeyDer::try_from(own.signing_key.serialize_der()).expect("a key");
    let chain = vec![seen.cert.der().clone()];
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let signer = provider.key_provider.load_private_key(key).expect("a key");
    let copied = rustls::sign::CertifiedKey::new(chain, signer);
    let verifier = super::pin::Pin::verifier(super::trust::Trust::fixed(super::fingerprint(seen.cert.der())));
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
    let fresh = Download::default;
    let average =
        async |download: &Download| gateway.average("lease", "private", 1, Precision::F32, wait, download).await;
    assert_eq!(average(&fresh()).await.expect("it answers"), None);
    assert!(!gateway.submit("lease", "private", 1, &sent, &[]).await.expect("it is taken").repeated);
    assert!(gateway.submit("lease", "private", 1, &sent, &[]).await.expect("it is taken again").repeated);
    let got = average(&fresh()).await.expect("it answers").expect("it is there");
    let bits: Vec<u8> = got.mean.iter().flat_map(|value| value.to_le_bytes()).collect();
    assert_eq!((bits, got.contributors), (sent.bytes.clone(), 1));
    server.state.lock().expect("nobody panicked").lies = true;
    assert!(matches!(average(&fresh()).await, Err(GatewayError::Protocol(_))));
}

#[tokio::test]
async fn what_broke_off_goes_on_where_it_was_in_both_directions() {
    let server = start(true).await;
    let (_dir, gateway) = gateway(&server).await;
    let (sent, wait) = (parcel(), Duration::from_secs(1));
    let state = || server.state.lock().expect("nobody panicked");
    state().cuts = 2;
    for _ in 0..2 {
        let cut = gateway.submit("lease", "private", 1, &sent, &[]).await.expect_err("the connection breaks");
        assert!(cut.is_transient(), "{cut}");
    }
    gateway.submit("lease", "private", 1, &sent, &[]).await.expect("the third time all comes");
    assert_eq!(state().carried, sent.bytes.len(), "no byte went twice");

    let download = Download::default();
    let average = || gateway.average("lease", "private", 1, Precision::F32, wait, &download);
    (state().cuts, state().carried) = (2, 0);
    for _ in 0..2 {
        assert!(average().await.expect_err("the connection breaks").is_transient());
    }
    let got = average().await.expect("it answers").expect("it is there");
    assert_eq!(got.mean.len() as u64, sent.length);
    assert_eq!(state().carried, sent.bytes.len(), "no byte came twice");
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

#[tokio::test]
async fn pools_come_each_by_its_digest_and_go_on_where_they_broke_off() {
    let server = start(true).await;
    let (_dir, gateway) = gateway(&server).await;
    let state = || server.state.lock().expect("nobody panicked");
    let (wait, download) = (Duration::from_secs(1), Download::default());
    assert_eq!(gateway.asked("lease", wait, &download).await.expect("it answers"), None);
    let pools = vec![(LEAD, vec![1, 2, 3]), (OURS, (0..200).collect::<Vec<u8>>())];
    state().pools.clone_from(&pools);
    state().cuts = 1;
    assert!(gateway.asked("lease", wait, &download).await.expect_err("the connection breaks").is_transient());
    let got = gateway.asked("lease", wait, &download).await.expect("it answers").expect("they are there");
    assert_eq!((got.pools, state().carried), (pools, 203), "no byte came twice");
    state().lies = true;
    let lie = gateway.asked("lease", wait, &Download::default()).await;
    assert!(matches!(lie, Err(GatewayError::Protocol(_))), "{lie:?}");
}

#[tokio::test]
async fn a_choice_arrives_in_its_order_and_answers_come_when_the_round_is_closed() {
    let server = start(true).await;
    let (_dir, gateway) = gateway(&server).await;
    let state = || server.state.lock().expect("nobody panicked");
    let (one, two) = (QuestionId(Uuid::from_u128(1)), QuestionId(Uuid::from_u128(2)));
    gateway.choose("lease", 1, &[(two, 0.9), (one, 0.1)]).await.expect("it is taken");
    let told: Vec<_> =
        state().chosen[0].chosen.iter().map(|chosen| (chosen.question.clone(), chosen.uncertainty)).collect();
    assert_eq!(told, [(two.to_string(), 0.9), (one.to_string(), 0.1)]);
    let wait = Duration::from_secs(1);
    assert_eq!(gateway.answers("lease", 1, wait).await.expect("it answers"), None);
    let answer = AnswerLine { question: one, annotator: 3, answer: Answer::Unsure };
    state().answers.insert(1, vec![answer.clone()]);
    assert_eq!(gateway.answers("lease", 1, wait).await.expect("it answers"), Some(vec![answer]));
    state().lies = true;
    assert!(matches!(gateway.answers("lease", 1, wait).await, Err(GatewayError::Protocol(_))));
}

fn announce(server: &Running, certificates: &[[u8; 32]]) {
    let pinned =
        |sha256: &[u8; 32]| undertone_api::signed::PinnedCertificate { sha256: hex::encode(sha256), until: None };
    server.state.lock().expect("nobody panicked").announced = certificates.iter().map(pinned).collect();
}

/// Makes the site that enrolled at `old`; its server has moved to the address of `new`, with another certificate.
async fn moved(old: &Running, new: &Running) -> (tempfile::TempDir, Folder, crate::config::Config) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let folder = Folder::new(dir.path());
    let mut config = enroll(&folder, &token(old, old.certificate)).await.expect("the token is good");
    let pinned = old.certificate.map(hex::encode);
    config.server = Server::new(&new.address, pinned.as_deref()).expect("it is on loopback");
    let key = SiteKey::load(&folder.key()).expect("enrolment made it").public_hex();
    new.state.lock().expect("nobody panicked").public_key = key;
    (dir, folder, config)
}

async fn offer(folder: &Folder, config: &crate::config::Config) -> Result<Offer, GatewayError> {
    let key = SiteKey::load(&folder.key()).expect("enrolment made it");
    let gateway = Gateway::of(config, folder, key).expect("the address is good");
    gateway.next_offer(Duration::from_secs(1), &[], &[]).await
}

#[tokio::test]
async fn a_site_that_was_told_of_the_next_certificate_goes_on_when_it_is_shown() {
    let (old, new) = (start(true).await, start(true).await);
    let certificates = [old.certificate.expect("it has one"), new.certificate.expect("it has one")];
    announce(&old, &certificates);
    let (_dir, folder, config) = moved(&old, &new).await;
    let before = crate::config::Config {
        server: Server::new(&old.address, config.server.certificate().map(hex::encode).as_deref())
            .expect("it is on loopback"),
        ..config.clone()
    };
    let key = SiteKey::load(&folder.key()).expect("enrolment made it");
    let gateway = Gateway::of(&before, &folder, key).expect("the address is good");
    let said = gateway.pins().await.expect("it answers").expect("somebody may say others");
    assert_eq!(said.certificates.len(), 2);
    // The stored announcement suffices: the server at the new address has no valid signature now.
    new.state.lock().expect("nobody panicked").stale = true;
    assert!(matches!(offer(&folder, &config).await, Ok(Offer::Nothing)));
}

#[tokio::test]
async fn a_site_that_was_away_asks_the_servers_key_whether_the_certificate_is_good() {
    let (old, new) = (start(true).await, start(true).await);
    let (_dir, folder, config) = moved(&old, &new).await;
    announce(&new, &[new.certificate.expect("it has one")]);
    assert!(matches!(offer(&folder, &config).await, Ok(Offer::Nothing)));
    assert!(folder.pins().exists(), "it is kept");
    // The next process knows it without a question.
    new.state.lock().expect("nobody panicked").stale = true;
    assert!(matches!(offer(&folder, &config).await, Ok(Offer::Nothing)));
    // The certificate of the enrolment is no longer accepted.
    let back = Server::new(&old.address, config.server.certificate().map(hex::encode).as_deref()).expect("loopback");
    old.state.lock().expect("nobody panicked").stale = true;
    let refused = offer(&folder, &crate::config::Config { server: back, ..config }).await;
    assert!(matches!(refused, Err(GatewayError::Unreachable(_))), "{refused:?}");
}

#[tokio::test]
async fn whoever_stands_in_between_is_told_nothing() {
    let old = start(true).await;
    for lie in ["another's key", "an old answer", "the real server's answer"] {
        let between = start(true).await;
        let (_dir, folder, config) = moved(&old, &between).await;
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
        let refused = offer(&folder, &config).await;
        assert!(matches!(refused, Err(GatewayError::Unreachable(_))), "{lie}: {refused:?}");
        assert_eq!(between.state.lock().expect("nobody panicked").sessions, 0, "{lie}: nothing was told");
        assert!(!folder.pins().exists() || lie == "the real server's answer", "{lie}");
    }
}

#[tokio::test]
async fn a_site_tells_of_its_next_key_and_signs_in_with_it() {
    let server = start(false).await;
    let dir = tempfile::tempdir().expect("a temporary folder");
    let folder = Folder::new(dir.path());
    let config = enroll(&folder, &token(&server, None)).await.expect("the token is good");
    let store = crate::site::store::Store::create(&folder.ledger()).expect("enrolment made it");
    let change = crate::site::rotation::prepare(&folder, &store, WORKER, (crate::fixture::clock())()).expect("idle");
    for _ in 0..2 {
        super::rotate_key(&config, &folder, &change).await.expect("it is taken, and taken again");
    }
    crate::site::rotation::finish(&folder, &store, &change).expect("it was taken");
    assert!(matches!(offer(&folder, &config).await, Ok(Offer::Nothing)));
    assert_eq!(server.state.lock().expect("nobody panicked").rotations, 2);
}

#[tokio::test(start_paused = true)]
async fn a_call_and_a_transfer_have_their_time_and_no_more() {
    let instant = Duration::from_millis(1);
    for (time, in_time) in [(CALL.saturating_sub(instant), true), (CALL + instant, false)] {
        let call = async {
            tokio::time::sleep(time).await;
            Ok::<_, tonic::Status>(())
        };
        assert_eq!(within(CALL, call).await.is_ok(), in_time, "a call of {time:?}");
    }
    for (time, in_time) in [(TRANSFER.saturating_sub(instant), true), (TRANSFER + instant, false)] {
        let transfer = async {
            tokio::time::sleep(time).await;
            Ok(())
        };
        assert_eq!(within_transfer(transfer).await.is_ok(), in_time, "a transfer of {time:?}");
    }
}
