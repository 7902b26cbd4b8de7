use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use crate::config::{ProxyServer, Server};
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
    let recorded = Arc::clone(&heads);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(tunnel(client, status, Arc::clone(&recorded)));
        }
    });
    (address, heads)
}

async fn tunnel(client: TcpStream, status: &'static str, heads: Arc<Mutex<Vec<String>>>) {
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
    let server = start(tls).await;
    let certificate = server.certificate.map(hex::encode);
    let way = Server::new(&server.address, certificate.as_deref()).expect("on loopback");
    let way = way.with_proxy(Some(ProxyServer::parse(proxy).expect("a proxy")));
    let key = site_key();
    server.state.lock().expect("not poisoned").public_key = key.public_hex();
    let gateway = Gateway::new(&way, WORKER, key).expect("an address");
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
    let refused = sign_in(&format!("http://{address}"), false).await.expect_err("the proxy refuses");
    assert!(matches!(refused, GatewayError::Unreachable(_)), "{refused:?}");
    assert_eq!(heads.lock().expect("not poisoned").len(), 1);
}
