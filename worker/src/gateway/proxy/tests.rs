use std::sync::{Arc, Mutex};

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::config::{ProxyServer, ServerEndpoint};
use crate::fixture::WORKER;
use crate::gateway::fake::start;
use crate::gateway::{Gateway, GatewayError};
use crate::site::folder::Folder;
use crate::site::keys::SiteKey;

/// Starts a proxy on loopback that records the head of each request and answers with `status`.
async fn proxy(status: &'static str) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound").to_string();
    let heads = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&heads);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(tunnel(client, status, Arc::clone(&record)));
        }
    });
    (address, heads)
}

/// As [`proxy`], in TLS; also returns its certificate (PEM).
async fn https_proxy() -> (String, Arc<Mutex<Vec<String>>>, String) {
    let own = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("a certificate");
    let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], key)
        .expect("the key of the certificate");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound").to_string();
    let heads = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&heads);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            let record = Arc::clone(&record);
            tokio::spawn(async move {
                if let Ok(client) = acceptor.accept(client).await {
                    tunnel(client, "200 OK", record).await;
                }
            });
        }
    });
    (address, heads, own.cert.pem())
}

async fn tunnel(client: impl AsyncRead + AsyncWrite + Unpin, status: &'static str, heads: Arc<Mutex<Vec<String>>>) {
    let mut client = BufReader::new(client);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if client.read_line(&mut head).await.is_ok_and(|read| read == 0) {
            return;
        }
    }
    let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
    heads.lock().expect("not poisoned").push(head);
    let answer = format!("HTTP/1.1 {status}\r\n\r\n");
    client.write_all(answer.as_bytes()).await.expect("the worker reads");
    if status.starts_with("200") {
        let mut server = TcpStream::connect(target).await.expect("the server listens");
        drop(copy_bidirectional(&mut client, &mut server).await);
    }
}

fn site_key() -> SiteKey {
    let dir = tempfile::tempdir().expect("a temporary folder");
    SiteKey::load_or_make(&Folder::new(dir.path()).key()).expect("the folder is writable")
}

async fn sign_in(proxy: &str, tls: bool) -> Result<(), GatewayError> {
    sign_in_by(ProxyServer::parse(proxy).expect("a proxy"), tls).await
}

async fn sign_in_by(proxy: ProxyServer, tls: bool) -> Result<(), GatewayError> {
    let server = start(tls).await;
    let certificate = server.certificate.map(hex::encode);
    let endpoint = ServerEndpoint::new(&server.address, certificate.as_deref()).expect("on loopback");
    let endpoint = endpoint.with_proxy(Some(proxy));
    let key = site_key();
    server.state.lock().expect("not poisoned").public_key = key.public_hex();
    let gateway = Gateway::new(&endpoint, WORKER, key)?;
    gateway.time().await.map(drop)
}

#[tokio::test]
async fn calls_travel_through_the_proxy() {
    for tls in [false, true] {
        let (address, heads) = proxy("200 OK").await;
        sign_in(&format!("http://ward:secret@{address}"), tls).await.expect("the server answers");
        let heads = heads.lock().expect("not poisoned").clone();
        assert_eq!(heads.len(), 1, "one connection: {heads:?}");
        assert!(heads[0].starts_with("CONNECT 127.0.0.1:"), "{heads:?}");
        assert!(heads[0].to_lowercase().contains("proxy-authorization: basic d2fyzdpzzwnyzxq="), "{heads:?}");
    }
}

#[tokio::test]
async fn refusal_of_the_proxy_is_reported() {
    let (address, heads) = proxy("407 Proxy Authentication Required").await;
    let error = sign_in(&format!("http://{address}"), false).await.expect_err("the proxy refuses");
    assert!(matches!(error, GatewayError::Unreachable(_)), "{error:?}");
    assert_eq!(heads.lock().expect("not poisoned").len(), 1);
}

#[tokio::test]
async fn https_proxy_is_recognized_by_the_configured_authority() {
    let (address, heads, certificate) = https_proxy().await;
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("proxy.pem");
    std::fs::write(&path, certificate).expect("the folder is writable");
    let proxy = || ProxyServer::parse(&format!("https://ward:secret@{address}")).expect("a proxy");
    for tls in [false, true] {
        let trusted = proxy().with_authorities(Some(path.clone())).expect("it has a certificate");
        sign_in_by(trusted, tls).await.expect("the server answers");
    }
    let requests = heads.lock().expect("not poisoned").clone();
    assert_eq!(requests.len(), 2, "one connection each: {requests:?}");
    assert!(requests[0].to_lowercase().contains("proxy-authorization: basic d2fyzdpzzwnyzxq="), "{requests:?}");
}

#[tokio::test]
async fn https_proxy_of_another_authority_gets_no_request() {
    let (address, heads, _) = https_proxy().await;
    let (.., other) = https_proxy().await;
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("other.pem");
    std::fs::write(&path, other).expect("the folder is writable");
    let proxy = ProxyServer::parse(&format!("https://ward:secret@{address}")).expect("a proxy");
    let proxy = proxy.with_authorities(Some(path)).expect("it has a certificate");
    let error = sign_in_by(proxy, true).await.expect_err("another certificate");
    assert!(matches!(error, GatewayError::Unreachable(_)), "{error:?}");
    assert_eq!(heads.lock().expect("not poisoned").len(), 0, "no credentials were sent");
}

#[tokio::test]
async fn file_without_certificates_is_named() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("empty.pem");
    std::fs::write(&path, "").expect("the folder is writable");
    let proxy = ProxyServer::parse("https://127.0.0.1:1").expect("a proxy");
    let proxy = proxy.with_authorities(Some(path)).expect("it has a certificate");
    let error = sign_in_by(proxy, true).await.expect_err("no certificate").to_string();
    assert!(error.contains("empty.pem"), "{error}");
}
