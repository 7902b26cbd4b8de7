//! Honest callers who come anew: who is there already would not notice that no other can come.

use std::time::{Duration, Instant};

use reqwest::Client;
use serde_json::json;
use support::stage::{PASSWORD, TestResult};

use super::super::record::RequestRecord;

/// The kind of request of an honest sign-in.
pub(super) const SIGN_IN: &str = "sign-in";
/// Time between two new connections.
const EVERY: Duration = Duration::from_millis(250);
/// Time between two sign-ins: far within what an address and an account may do.
const EVERY_SIGN_IN: Duration = Duration::from_secs(2);
/// How long an answer on a new connection may take.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a sign-in may take, which computes a hash.
const SIGN_IN_PATIENCE: Duration = Duration::from_secs(5);

/// Opens an honest connection again and again.
pub(super) async fn connect_again_and_again(health: String, record: RequestRecord) {
    loop {
        let _ = record.request("new connection", connect(&health)).await;
        tokio::time::sleep(EVERY).await;
    }
}

/// Signs a member in again and again, each time over a new connection.
pub(super) async fn sign_in_again_and_again(sessions: String, email: String, record: RequestRecord) {
    loop {
        let _ = record.request(SIGN_IN, sign_in(&sessions, &email, SIGN_IN_PATIENCE)).await;
        tokio::time::sleep(EVERY_SIGN_IN).await;
    }
}

/// Signs a member in, and returns the access token.
///
/// # Errors
/// When the server does not answer in time, or refuses.
pub(super) async fn sign_in(sessions: &str, email: &str, patience: Duration) -> TestResult<String> {
    let client = Client::builder().pool_max_idle_per_host(0).timeout(patience).build()?;
    let body = json!({ "email": email, "password": PASSWORD });
    let answer = client.post(sessions).json(&body).send().await?.error_for_status()?;
    let session: serde_json::Value = answer.json().await?;
    let token = session["access_token"].as_str().ok_or("a session has an access token")?;
    Ok(token.to_owned())
}

/// Returns the time from now until the first answer on a new connection has arrived: an upper bound of the recovery,
/// which includes the pause before that connection and its own duration. `None` when no attempt that begins within
/// `most` succeeds.
pub(super) async fn recovery(health: &str, most: Duration) -> Option<Duration> {
    let began = Instant::now();
    while began.elapsed() < most {
        if connect(health).await.is_ok() {
            return Some(began.elapsed());
        }
        tokio::time::sleep(EVERY).await;
    }
    None
}

async fn connect(health: &str) -> Result<(), reqwest::Error> {
    let client = Client::builder().pool_max_idle_per_host(0).timeout(PATIENCE).build()?;
    client.get(health).send().await?.error_for_status().map(drop)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::recovery;

    const ANSWER: Duration = Duration::from_millis(200);

    #[tokio::test]
    async fn recovery_includes_the_answer() {
        // reqwest needs a process-wide TLS provider; a second installation fails harmlessly.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("loopback has a free port");
        let address = listener.local_addr().expect("it is bound");
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = [0; 1024];
                let _ = stream.read(&mut request).await;
                tokio::time::sleep(ANSWER).await;
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
                // A caller that has gone fails the test below.
                let _ = stream.write_all(answer).await;
            }
        });
        let recovered = recovery(&format!("http://{address}/"), Duration::from_secs(10)).await;
        assert!(recovered.is_some_and(|time| time >= ANSWER), "{recovered:?}");
    }
}
