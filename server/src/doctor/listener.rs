//! A running server, checked through its interfaces: readiness, its certificate, the workers' address and `/metrics`.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use undertone_api::problem::Problem;

use super::PATIENCE;
use super::report::Examination;
use undertone_server_core::config::Config;
use undertone_server_core::tls;

/// The largest accepted response, bytes: 4 MiB.
const LARGEST: u64 = 4 << 20;
/// A metric of every server that the alert rules support.
const METRIC: &str = "undertone_process_open_files";

/// Checks the listeners of a server that runs with this configuration on this machine.
pub(super) async fn check(config: &Config, report: &mut Examination) {
    if config.http.port() == 0 {
        return report.pass("server", "it uses a random port: not checked");
    }
    let address = near(config.http);
    match fetch(address, "/health/ready", config.speaks_tls()).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            return report.warn("server", format!("no server listens at {address}"), "start it");
        }
        Err(error) => {
            let remedy = "check its log; `curl -v` shows more";
            return report.fail("server", format!("{address} does not answer: {error}"), remedy);
        }
        Ok(reply) => {
            judge_readiness(&reply, report);
            judge_certificate(&reply, config, report);
        }
    }
    if config.grpc.port() != 0 {
        check_workers_address(near(config.grpc), report).await;
    }
    check_metrics(config, report).await;
}

fn judge_readiness(reply: &HttpReply, report: &mut Examination) {
    match reply.status {
        204 => report.pass("server", "it is ready"),
        status => {
            let problem: Option<Problem> = serde_json::from_str(&reply.body).ok();
            let reason = problem.map_or_else(|| format!("it answers {status}"), |problem| problem.detail);
            report.fail("server", format!("it is not ready: {reason}"), "check its log for the cause");
        }
    }
}

/// Compares the server's certificate with its files.
fn judge_certificate(reply: &HttpReply, config: &Config, report: &mut Examination) {
    let (Some(shown), Ok(Some(view))) = (&reply.fingerprint, tls::inspect(config)) else { return };
    if *shown == view.fingerprint {
        report.pass("certificate", "the server presents the certificate of its files");
    } else {
        let remedy = "wait a minute, in which the server reads its files again, or send it SIGHUP";
        report.warn("certificate", "the server presents another certificate than its files contain", remedy);
    }
}

async fn check_workers_address(address: SocketAddr, report: &mut Examination) {
    match timeout(PATIENCE, TcpStream::connect(address)).await {
        Ok(Ok(_)) => report.pass("workers", format!("{address} takes connections")),
        Ok(Err(error)) => report.fail("workers", format!("{address}: {error}"), "check the server's log"),
        Err(_) => report.fail("workers", format!("{address} does not answer in time"), "check the server's log"),
    }
}

async fn check_metrics(config: &Config, report: &mut Examination) {
    const CHECK: &str = "metrics";
    let Some(address) = config.metrics else {
        let remedy =
            "set `metrics` to an address that only Prometheus reaches, and load the alert rules of the package";
        return report.warn(CHECK, "`metrics` is not set: no alert rule sees this server", remedy);
    };
    if address.port() == 0 {
        return report.pass(CHECK, "it uses a random port: not checked");
    }
    let remedy = "check the server's log and `metrics`";
    match fetch(near(address), "/metrics", false).await {
        Ok(reply) if reply.status == 200 && reply.body.contains(METRIC) => {
            report.pass(CHECK, format!("{address} reports the metrics of the alert rules"));
        }
        Ok(reply) => {
            report.fail(CHECK, format!("{address} answers {} without {METRIC}", reply.status), remedy);
        }
        Err(error) => report.fail(CHECK, format!("{address} does not answer: {error}"), remedy),
    }
}

/// Returns the address by which this machine reaches its own listener.
fn near(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// A response over HTTP/1.1.
struct HttpReply {
    status: u16,
    body: String,
    /// SHA-256 of the server's certificate, hex.
    fingerprint: Option<String>,
}

/// Sends one GET request and reads the response.
async fn fetch(address: SocketAddr, path: &str, with_tls: bool) -> io::Result<HttpReply> {
    let exchanged = async {
        let stream = TcpStream::connect(address).await?;
        if !with_tls {
            return exchange(stream, path, None).await;
        }
        let stream = TlsConnector::from(Arc::new(client()?)).connect(name()?, stream).await?;
        let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
        let fingerprint = certificate.map(|first| hex::encode(Sha256::digest(first)));
        exchange(stream, path, fingerprint).await
    };
    timeout(PATIENCE, exchanged).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

async fn exchange(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    path: &str,
    fingerprint: Option<String>,
) -> io::Result<HttpReply> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut bytes = Vec::new();
    match stream.take(LARGEST).read_to_end(&mut bytes).await {
        // A peer that closes without a TLS close_notify: the response is complete.
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(error),
        _ => {}
    }
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").ok_or(io::ErrorKind::InvalidData)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
    Ok(HttpReply { status, body: body.to_owned(), fingerprint })
}

fn name() -> io::Result<ServerName<'static>> {
    ServerName::try_from("localhost").map_err(io::Error::other)
}

/// Returns a client that accepts any certificate; the certificate is compared with the files afterwards. It sends no
/// secrets.
fn client() -> io::Result<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let algorithms = provider.signature_verification_algorithms;
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(io::Error::other)?.dangerous();
    Ok(builder.with_custom_certificate_verifier(Arc::new(AnyCertificate { algorithms })).with_no_client_auth())
}

/// A verifier that accepts any certificate whose key signs the handshake.
#[derive(Debug)]
struct AnyCertificate {
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
