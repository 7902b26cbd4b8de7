//! The running server: on a free port of loopback, until it is dropped.

use std::sync::{Arc, Mutex};

use sha2::{Digest, Sha256};
use tokio_stream::wrappers::TcpListenerStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Identity, Server, ServerTlsConfig};
use undertone_proto::v1::worker_gateway_server::WorkerGatewayServer;

use super::{FakeGateway, FakeState};

/// A running server; stops when dropped.
pub(crate) struct FakeServer {
    pub(crate) address: String,
    /// SHA-256 of its certificate, if it has one.
    pub(crate) certificate: Option<[u8; 32]>,
    pub(crate) state: Arc<Mutex<FakeState>>,
    stop: CancellationToken,
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

pub(crate) async fn start(tls: bool) -> FakeServer {
    let fake = FakeGateway::default();
    let state = Arc::clone(&fake.0);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
    let port = listener.local_addr().expect("it is bound").port();
    let stop = CancellationToken::new();
    let mut server = Server::builder();
    let mut certificate = None;
    if tls {
        let own = rcgen::generate_simple_self_signed(vec!["server.example".to_owned()]).expect("a certificate");
        certificate = Some(Sha256::digest(own.cert.der()).into());
        let identity = Identity::from_pem(own.cert.pem(), own.signing_key.serialize_pem());
        server = server.tls_config(ServerTlsConfig::new().identity(identity)).expect("the certificate is good");
    }
    let service = server
        // It accepts messages of any size, so that the worker's own bound is tested.
        .add_service(WorkerGatewayServer::new(fake).max_decoding_message_size(usize::MAX))
        .serve_with_incoming_shutdown(TcpListenerStream::new(listener), stop.clone().cancelled_owned());
    tokio::spawn(service);
    let scheme = if tls { "https" } else { "http" };
    FakeServer { address: format!("{scheme}://127.0.0.1:{port}"), certificate, state, stop }
}
