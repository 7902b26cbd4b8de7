//! The accepted certificates, and the server's announcements of others: by its signature, over an unpredictable
//! challenge.
//!
//! While its certificate is known the server is asked from time to time, so that the next certificate is known before
//! it is used. A site that was offline for longer meets an unknown one: for this one question, a connection is made
//! without a check of the certificate. Only random bytes are sent there, and only the server's signature is accepted.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use ed25519_dalek::VerifyingKey;
use tonic::transport::{ClientTlsConfig, Endpoint};
use undertone_api::signed::{CertificatePins, Signed};
use undertone_proto::v1;
use undertone_proto::v1::worker_gateway_client::WorkerGatewayClient;

use super::{CALL, CONNECT, GatewayError, pin, proxy, within};
use crate::config::Server;
use crate::site::clock;
use crate::site::folder::Folder;
use crate::site::pins::{self, PinsError};
use crate::site::server_trust::ServerTrust;

/// The accepted certificates. Shared by all connections to one server.
#[derive(Debug)]
pub(super) struct Trust {
    believed: RwLock<Vec<[u8; 32]>>,
    /// An unknown certificate was shown since the last question.
    refused: AtomicBool,
    /// The keys that may announce others, and the folder for announcements.
    authority: Option<(ServerTrust, Option<Folder>)>,
}

impl Trust {
    /// Makes the trust in one fixed certificate.
    pub(super) fn fixed(certificate: [u8; 32]) -> Arc<Self> {
        Arc::new(Self { believed: RwLock::new(vec![certificate]), refused: AtomicBool::new(false), authority: None })
    }

    /// Makes the trust in the certificate of `server`, and in those that `keys` announce after it; they are stored in
    /// `folder` if there is one.
    ///
    /// # Errors
    /// [`PinsError`] when the stored announcement is invalid.
    pub(super) fn renewed(
        server: &Server,
        keys: &ServerTrust,
        folder: Option<&Folder>,
    ) -> Result<Arc<Self>, PinsError> {
        let kept = folder.map(|folder| pins::load(folder, keys.first())).transpose()?.flatten();
        let kept = kept.map(|pins| pins::fingerprints(&pins)).filter(|pins| !pins.is_empty());
        let believed = kept.unwrap_or_else(|| server.certificate().into_iter().collect());
        Ok(Arc::new(Self {
            believed: RwLock::new(believed),
            refused: AtomicBool::new(false),
            authority: Some((keys.clone(), folder.cloned())),
        }))
    }

    /// Returns whether this certificate is accepted; records a rejection.
    pub(super) fn believes(&self, certificate: &[u8; 32]) -> bool {
        let believed = self.believed.read().unwrap_or_else(PoisonError::into_inner).contains(certificate);
        if !believed {
            self.refused.store(true, Ordering::SeqCst);
        }
        believed
    }

    /// Returns whether another certificate was shown since the last call, and a key could confirm it.
    pub(super) fn may_be_renewed(&self) -> bool {
        self.refused.swap(false, Ordering::SeqCst) && self.authority.is_some()
    }

    /// Accepts the server's announcement: its signature must be valid and answer `challenge`.
    fn take(&self, signed: &Signed, challenge: &str) -> Result<CertificatePins, GatewayError> {
        let wrong = |problem: &str| GatewayError::Protocol(format!("the server's certificates: {problem}"));
        let Some((key, folder)) = &self.authority else { return Err(wrong("nobody may say others here")) };
        let said: CertificatePins = signed.open(key).map_err(|error| wrong(&error.to_string()))?;
        if said.challenge != challenge {
            return Err(wrong("it is the answer to another question"));
        }
        let fingerprints = pins::fingerprints(&said);
        let mut believed = self.believed.write().unwrap_or_else(PoisonError::into_inner);
        if !fingerprints.is_empty() && *believed != fingerprints {
            if let Some(folder) = folder {
                pins::keep(folder, signed).map_err(|error| wrong(&error.to_string()))?;
            }
            let named: Vec<String> = fingerprints.iter().map(hex::encode).collect();
            tracing::info!(certificates = ?named, "the server has said by which certificates it is recognized from now on");
            *believed = fingerprints;
        }
        Ok(said)
    }
}

/// Returns the server's keys as the site in `folder` has seen them.
pub(super) fn server_keys(folder: &Folder, first: &VerifyingKey) -> Result<ServerTrust, GatewayError> {
    ServerTrust::load(folder, first).map_err(|error| GatewayError::Address(error.to_string()))
}

/// Asks for the server's certificates, and accepts those that it has signed.
pub(super) async fn ask(
    mut client: WorkerGatewayClient<tonic::transport::Channel>,
    trust: &Trust,
) -> Result<CertificatePins, GatewayError> {
    let challenge = hex::encode(
        clock::entropy::<32>().map_err(|_| GatewayError::Protocol("there is no randomness to ask with".to_owned()))?,
    );
    let asked = v1::PinsRequest { challenge: challenge.clone() };
    let reply = within(CALL, client.pins(asked)).await?.into_inner();
    let signed = reply.pins.ok_or_else(|| GatewayError::Protocol("certificates without a signature".to_owned()))?;
    trust.take(&signed.into(), &challenge)
}

/// Asks like [`ask`], without a check of the certificate at the server's address: for a site that was offline while the
/// certificate changed.
pub(super) async fn ask_anybody(server: &Server, trust: &Trust) -> Result<CertificatePins, GatewayError> {
    let address = |error: tonic::transport::Error| GatewayError::Address(error.to_string());
    let endpoint = Endpoint::from_shared(server.address().to_owned()).map_err(address)?.connect_timeout(CONNECT);
    let endpoint =
        endpoint.tls_config_with_verifier(ClientTlsConfig::new(), pin::Anybody::verifier()).map_err(address)?;
    ask(WorkerGatewayClient::new(proxy::connect_lazy(&endpoint, server)?), trust).await
}
