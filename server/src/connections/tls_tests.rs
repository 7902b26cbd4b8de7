use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use time::macros::datetime;
use time::{Duration, OffsetDateTime};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::connections::{ConnectionLimits, ServedListener};
use undertone_server_core::config::{Config, TlsMode};
use undertone_server_core::metrics::{Limit, Metrics, Transactions};
use undertone_server_core::tls::{ServedCertificate, TlsIdentity, next_identity};

const START: OffsetDateTime = datetime!(2026-11-20 12:00 UTC);

fn speaking(dir: &std::path::Path) -> Config {
    let mut config = Config { data_dir: dir.to_owned(), ..Config::default() };
    config.tls.mode = TlsMode::On;
    config.tls.rotate_days = 100;
    config
}

fn serve_fingerprint(config: &Config, now: OffsetDateTime) -> String {
    TlsIdentity::load(config, now).expect("usable").expect("there is one").fingerprint
}

#[test]
fn a_generated_certificate_stays_the_same() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let mut config = speaking(dir.path());
    config.public_url = Some("https://undertone.example.org".to_owned());
    let first = serve_fingerprint(&config, START);
    assert_eq!(first, serve_fingerprint(&config, START + Duration::days(69)));
    assert_eq!(first.len(), 64);
    assert_eq!(next_identity(&config).expect("read"), None);
}

#[test]
fn loopback_listener_has_no_certificate() {
    assert!(TlsIdentity::load(&Config::default(), START).expect("nothing to make").is_none());
}

#[test]
fn next_certificate_is_announced_thirty_days_in_advance() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let config = speaking(dir.path());
    let first = serve_fingerprint(&config, START);
    assert_eq!(serve_fingerprint(&config, START + Duration::days(70)), first);
    let next = next_identity(&config).expect("read").expect("it is time to tell");
    assert_eq!(next.from, Some(START + Duration::days(100)));
    assert_ne!(next.fingerprint, first);
    assert_eq!(serve_fingerprint(&config, START + Duration::days(99)), first);
    assert_eq!(serve_fingerprint(&config, START + Duration::days(100)), next.fingerprint);
    assert_eq!(next_identity(&config).expect("read"), None);
    assert_eq!(
        serve_fingerprint(&config, START + Duration::days(169)),
        next.fingerprint,
        "its own time begins with its place"
    );
}

#[test]
fn late_server_announces_its_next_certificate_first() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let config = speaking(dir.path());
    let first = serve_fingerprint(&config, START);
    let late = START + Duration::days(1000);
    assert_eq!(serve_fingerprint(&config, late), first);
    let next = next_identity(&config).expect("read").expect("it is more than time to tell");
    assert_eq!(next.from, Some(late + Duration::days(30)));
    assert_eq!(serve_fingerprint(&config, late + Duration::days(29)), first);
    assert_eq!(serve_fingerprint(&config, late + Duration::days(30)), next.fingerprint);
}

#[test]
fn power_cut_during_rotation_leaves_a_matching_pair() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let config = speaking(dir.path());
    serve_fingerprint(&config, START);
    serve_fingerprint(&config, START + Duration::days(70));
    let next = next_identity(&config).expect("read").expect("made").fingerprint;
    // The first step was done, the others were not.
    std::fs::rename(dir.path().join("next-certificate.key"), dir.path().join("certificate.key")).expect("renamed");
    let identity =
        ServedCertificate::begin(&config, START + Duration::days(100)).expect("certificate and key belong together");
    assert_eq!(identity.expect("there is one").fingerprint(), next);
}

#[test]
fn operator_supplies_the_next_certificate() {
    let dir = tempfile::tempdir().expect("a folder");
    let other = tempfile::tempdir().expect("a folder");
    let mut config = speaking(dir.path());
    let following = speaking(other.path());
    serve_fingerprint(&config, START);
    let follows = serve_fingerprint(&following, START);
    config.tls.certificate = Some(dir.path().join("certificate.pem"));
    config.tls.key = Some(dir.path().join("certificate.key"));
    assert_eq!(next_identity(&config).expect("read"), None);
    config.tls.next_certificate = Some(other.path().join("certificate.pem"));
    let next = next_identity(&config).expect("read").expect("named");
    assert_eq!((next.fingerprint, next.from), (follows, None));
}

/// A TLS listener with these limits.
struct TlsListener {
    address: std::net::SocketAddr,
    metrics: Metrics,
    stop: CancellationToken,
}

impl TlsListener {
    fn new(shown: &ServedCertificate, limits: ConnectionLimits) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("set");
        let address = listener.local_addr().expect("an address");
        let stop = CancellationToken::new();
        let tls = Some(shown.handshake(&[b"h2"]).expect("TLS"));
        let served = ServedListener { name: "test", listener, tls, router: axum::Router::new(), limits };
        let metrics = Metrics::new(Transactions::default());
        tokio::spawn(served.serve(metrics.clone(), stop.clone(), std::time::Duration::ZERO));
        Self { address, metrics, stop }
    }
}

/// Returns whether a handshake succeeds for a client that trusts this certificate only.
async fn gets(address: std::net::SocketAddr, trusted: &str) -> bool {
    let connection = TcpStream::connect(address).await.expect("connected");
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trusted.as_bytes()).expect("a certificate")).expect("added");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().expect("versions");
    let client = client.with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from("localhost").expect("a name");
    tokio_rustls::TlsConnector::from(Arc::new(client)).connect(name, connection).await.is_ok()
}

#[tokio::test]
async fn replaced_certificate_is_served_without_a_restart() {
    let dir = tempfile::tempdir().expect("a folder");
    let other = tempfile::tempdir().expect("a folder");
    // Clients verify certificates by the real clock.
    let now = undertone_server_core::ctx::Clock::system().now();
    let mut config = speaking(dir.path());
    let following = speaking(other.path());
    let first = TlsIdentity::load(&config, now).expect("made").expect("there is one").certificate;
    let second = TlsIdentity::load(&following, now).expect("made").expect("there is one").certificate;
    config.tls.certificate = Some(dir.path().join("certificate.pem"));
    config.tls.key = Some(dir.path().join("certificate.key"));
    let identity = ServedCertificate::begin(&config, now).expect("usable").expect("there is one");
    let limits = ConnectionLimits::new(config.connections, false, true);
    let TlsListener { address, stop, .. } = TlsListener::new(&identity, limits);

    assert!(gets(address, &first).await);
    std::fs::copy(other.path().join("certificate.pem"), dir.path().join("certificate.pem")).expect("copied");
    assert!(identity.look_again(&config, now).is_err(), "the key is still the old one's");
    assert!(gets(address, &first).await, "and so the old one stays");
    std::fs::copy(other.path().join("certificate.key"), dir.path().join("certificate.key")).expect("copied");
    assert!(identity.look_again(&config, now).expect("usable"));
    assert!(gets(address, &second).await && !gets(address, &first).await);
    assert!(!identity.look_again(&config, now).expect("usable"), "nothing has changed since");
    stop.cancel();
}

/// The beginning of a ClientHello with a record of 512 bytes.
const HELLO: [u8; 11] = [22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3];

/// Sends the beginning of a handshake, then, if `is_slow`, single bytes at intervals, until the peer closes. Returns
/// the time until the close.
async fn time_to_close(address: std::net::SocketAddr, opening: &[u8], is_slow: bool) -> std::time::Duration {
    let (mut reader, mut writer) = TcpStream::connect(address).await.expect("connected").into_split();
    let connected = Instant::now();
    writer.write_all(opening).await.expect("sent");
    let trickle = async {
        while is_slow && writer.write_all(&[0]).await.is_ok() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        std::future::pending::<()>().await;
    };
    let mut rest = Vec::new();
    tokio::select! {
        // A reset counts as a close.
        _ = reader.read_to_end(&mut rest) => connected.elapsed(),
        () = trickle => unreachable!("it is pending"),
    }
}

#[tokio::test]
async fn handshake_that_does_not_end_is_closed_in_time() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let now = undertone_server_core::ctx::Clock::system().now();
    let config = speaking(dir.path());
    let identity = ServedCertificate::begin(&config, now).expect("usable").expect("there is one");
    let trusted = TlsIdentity::load(&config, now).expect("read").expect("there is one").certificate;
    let handshake = std::time::Duration::from_millis(500);
    let long = std::time::Duration::from_secs(30);
    let limits = ConnectionLimits {
        handshake,
        first_request: long,
        idle: long,
        ..ConnectionLimits::new(config.connections, false, true)
    };
    let server = TlsListener::new(&identity, limits);
    for (count, (opening, is_slow)) in
        [(&b""[..], false), (&HELLO[..3], false), (&HELLO[..], false), (&HELLO[..], true)].into_iter().enumerate()
    {
        let closed = tokio::time::timeout(long, time_to_close(server.address, opening, is_slow)).await;
        let closed = closed.expect("it is closed");
        assert!(closed >= handshake / 2 && closed < long / 2, "{opening:?}: {closed:?}");
        assert_eq!(server.metrics.reached(Limit::Handshake), count as u64 + 1);
    }
    assert!(gets(server.address, &trusted).await, "others are served");
    assert_eq!(server.metrics.reached(Limit::Handshake), 4);
    server.stop.cancel();
}
