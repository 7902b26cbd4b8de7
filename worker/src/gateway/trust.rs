//! The accepted certificates: those that are known, and those that the server's signed announcements name.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use ed25519_dalek::VerifyingKey;
use undertone_api::signed::{CertificatePins, Signed};

use super::error::GatewayError;
use crate::config::ServerEndpoint;
use crate::site::folder::Folder;
use crate::site::pins::{self, PinsError};
use crate::site::server_trust::ServerTrust;

/// The accepted certificates. Shared by all connections to one server.
#[derive(Debug)]
pub(super) struct CertificateTrust {
    accepted: RwLock<Vec<[u8; 32]>>,
    /// An unknown certificate was presented since the last question.
    was_rejected: AtomicBool,
    /// The keys that may announce others, and the folder for announcements.
    authority: Option<(ServerTrust, Option<Folder>)>,
}

impl CertificateTrust {
    /// Makes the trust in one fixed certificate.
    pub(super) fn with_certificate(certificate: [u8; 32]) -> Arc<Self> {
        let accepted = RwLock::new(vec![certificate]);
        Arc::new(Self { accepted, was_rejected: AtomicBool::new(false), authority: None })
    }

    /// Makes the trust in the certificate of `server`, and in those that `keys` announce after it; they are stored in
    /// `folder` if there is one.
    ///
    /// # Errors
    /// [`PinsError`] when the stored announcement is invalid.
    pub(super) fn with_announcements(
        server: &ServerEndpoint,
        keys: &ServerTrust,
        folder: Option<&Folder>,
    ) -> Result<Arc<Self>, PinsError> {
        let stored = folder.map(|folder| pins::load(folder, keys.first())).transpose()?.flatten();
        let stored = stored.map(|pins| pins::fingerprints(&pins)).filter(|pins| !pins.is_empty());
        let accepted = stored.unwrap_or_else(|| server.certificate().into_iter().collect());
        Ok(Arc::new(Self {
            accepted: RwLock::new(accepted),
            was_rejected: AtomicBool::new(false),
            authority: Some((keys.clone(), folder.cloned())),
        }))
    }

    /// Returns whether this certificate is accepted; records a rejection.
    pub(super) fn accepts(&self, certificate: &[u8; 32]) -> bool {
        let is_accepted = self.accepted.read().unwrap_or_else(PoisonError::into_inner).contains(certificate);
        if !is_accepted {
            self.was_rejected.store(true, Ordering::SeqCst);
        }
        is_accepted
    }

    /// Returns whether another certificate was shown since the last call, and a key could confirm it.
    pub(super) fn may_be_renewed(&self) -> bool {
        self.was_rejected.swap(false, Ordering::SeqCst) && self.authority.is_some()
    }

    /// Accepts the server's announcement: its signature must be valid and answer `challenge`.
    pub(super) fn accept_announcement(
        &self,
        signed: &Signed,
        challenge: &str,
    ) -> Result<CertificatePins, GatewayError> {
        let wrong = |problem: &str| GatewayError::Protocol(format!("the server's certificates: {problem}"));
        let Some((key, folder)) = &self.authority else { return Err(wrong("no key can announce others here")) };
        let pins: CertificatePins = signed.open(key).map_err(|error| wrong(&error.to_string()))?;
        if pins.challenge != challenge {
            return Err(wrong("the answer belongs to another question"));
        }
        let fingerprints = pins::fingerprints(&pins);
        let mut accepted = self.accepted.write().unwrap_or_else(PoisonError::into_inner);
        if !fingerprints.is_empty() && *accepted != fingerprints {
            if let Some(folder) = folder {
                pins::keep(folder, signed).map_err(|error| wrong(&error.to_string()))?;
            }
            let certificates: Vec<String> = fingerprints.iter().map(hex::encode).collect();
            tracing::info!(?certificates, "the server has announced its accepted certificates");
            *accepted = fingerprints;
        }
        Ok(pins)
    }
}

/// Returns the server's keys as the site in `folder` has seen them.
pub(super) fn server_keys(folder: &Folder, first: &VerifyingKey) -> Result<ServerTrust, GatewayError> {
    ServerTrust::load(folder, first).map_err(|error| GatewayError::Address(error.to_string()))
}
