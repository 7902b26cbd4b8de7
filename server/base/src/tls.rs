//! The certificate of both listeners: the operator's own, or one generated at first start. Workers pin it. A generated
//! certificate is therefore replaced only after the workers were notified of the next one, and operators can name the
//! successor of their own.
//!
//! [`ServedCertificate`] provides the certificate to connections. It reads the files again every minute and at SIGHUP, and keeps
//! the current certificate if they are unusable. Open connections are unaffected. `generated` manages the files of a
//! generated certificate.

mod generated;
mod inspect;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;

use crate::config::Config;

pub use inspect::{CertificateView, inspect};

/// A certificate chain and its key.
#[derive(Clone)]
pub struct TlsIdentity {
    /// The chain, PEM.
    pub certificate: String,
    /// The private key, PEM.
    pub key: String,
    /// SHA-256 of the first certificate (DER), hex, which workers pin.
    pub fingerprint: String,
}

/// The successor of the current certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextIdentity {
    /// SHA-256 of the first certificate (DER), hex, which workers pin from then on.
    pub fingerprint: String,
    /// The time of the replacement; `None` if the operator replaces the certificate manually.
    pub from: Option<OffsetDateTime>,
}

/// A reason why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read or written.
    #[error("{path} cannot be used: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A name is invalid in a certificate.
    #[error("no certificate can be made: check tls.names")]
    Make(#[from] rcgen::Error),
    /// The file contains no certificate.
    #[error("{0} holds no certificate in PEM form")]
    Empty(PathBuf),
    /// The key is invalid, or belongs to another certificate.
    #[error("{path} is not the key of the certificate: {source}")]
    Key {
        /// The key's file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: rustls::Error,
    },
}

impl TlsIdentity {
    /// Returns the current certificate; `None` if the server does not serve TLS itself. A generated one is created, and
    /// replaced by the next, when it is due.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn load(config: &Config, now: OffsetDateTime) -> Result<Option<Self>, TlsError> {
        if !config.speaks_tls() {
            return Ok(None);
        }
        let (certificate, key) = match own(config) {
            Some(own) => own,
            None => generated::keep(config, now)?,
        };
        let (chain, key) = (read(&certificate)?, read(&key)?);
        let fingerprint = fingerprint(&certificate, &chain)?;
        Ok(Some(Self { certificate: chain, key, fingerprint }))
    }

    fn to_certified_key(&self, config: &Config) -> Result<CertifiedKey, TlsError> {
        let (certificate, key) = own(config).unwrap_or_else(|| generated::files(config));
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(self.certificate.as_bytes()).collect();
        let chain = chain.map_err(|_| TlsError::Empty(certificate))?;
        let general = |error: rustls::pki_types::pem::Error| rustls::Error::General(error.to_string());
        let secret = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).map_err(general);
        let certified = secret.and_then(|secret| CertifiedKey::from_der(chain, secret, &default_provider()));
        certified.map_err(|source| TlsError::Key { path: key, source })
    }
}

/// Returns the successor of the current certificate, if it is known: sites are notified of it before it is used.
///
/// # Errors
/// [`TlsError`] if its file cannot be read.
pub fn next_identity(config: &Config) -> Result<Option<NextIdentity>, TlsError> {
    if !config.speaks_tls() {
        return Ok(None);
    }
    match (&config.tls.next_certificate, own(config)) {
        (Some(path), Some(_)) => Ok(Some(NextIdentity { fingerprint: fingerprint(path, &read(path)?)?, from: None })),
        (None, Some(_)) => Ok(None),
        (_, None) => generated::next(config),
    }
}

/// Returns the operator's own certificate and key.
fn own(config: &Config) -> Option<(PathBuf, PathBuf)> {
    Some((config.tls.certificate.clone()?, config.tls.key.clone()?))
}

fn read(path: &Path) -> Result<String, TlsError> {
    std::fs::read_to_string(path).map_err(|source| TlsError::File { path: path.to_owned(), source })
}

fn fingerprint(path: &Path, chain: &str) -> Result<String, TlsError> {
    let first = CertificateDer::from_pem_slice(chain.as_bytes()).map_err(|_| TlsError::Empty(path.to_owned()))?;
    Ok(hex::encode(Sha256::digest(&first)))
}

/// The certificate of new connections, which may change while the server runs.
#[derive(Clone)]
pub struct ServedCertificate(Arc<RwLock<CertificateState>>);

struct CertificateState {
    identity: Arc<TlsIdentity>,
    certified: Arc<CertifiedKey>,
    next: Option<NextIdentity>,
    rotates_at: Option<OffsetDateTime>,
}

impl CertificateState {
    fn read(config: &Config, now: OffsetDateTime) -> Result<Option<Self>, TlsError> {
        let Some(identity) = TlsIdentity::load(config, now)? else { return Ok(None) };
        let certified = Arc::new(identity.to_certified_key(config)?);
        let rotates_at = if own(config).is_some() { None } else { generated::rotates_at(config) };
        Ok(Some(Self { identity: Arc::new(identity), certified, next: next_identity(config)?, rotates_at }))
    }
}

impl std::fmt::Debug for ServedCertificate {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("ServedCertificate").field(&self.fingerprint()).finish()
    }
}

impl ServedCertificate {
    /// Reads the current certificate; `None` if the server does not serve TLS itself.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn begin(config: &Config, now: OffsetDateTime) -> Result<Option<Self>, TlsError> {
        Ok(CertificateState::read(config, now)?.map(|state| Self(Arc::new(RwLock::new(state)))))
    }

    fn read_state<T>(&self, read: impl FnOnce(&CertificateState) -> T) -> T {
        read(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the SHA-256 of the current certificate (DER), hex, which an enrolling worker pins.
    pub fn fingerprint(&self) -> String {
        self.read_state(|state| state.identity.fingerprint.clone())
    }

    /// Returns the successor, once it is known.
    pub fn next(&self) -> Option<NextIdentity> {
        self.read_state(|state| state.next.clone())
    }

    /// Returns the time at which a generated certificate is replaced.
    pub fn rotates_at(&self) -> Option<OffsetDateTime> {
        self.read_state(|state| state.rotates_at)
    }

    /// Reads the files again and uses the current ones; returns whether the certificate has changed. Unusable files
    /// change nothing.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn look_again(&self, config: &Config, now: OffsetDateTime) -> Result<bool, TlsError> {
        let Some(new) = CertificateState::read(config, now)? else { return Ok(false) };
        let mut state = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let other = state.identity.fingerprint != new.identity.fingerprint || state.identity.key != new.identity.key;
        *state = new;
        Ok(other)
    }

    /// Returns the TLS configuration for connections with these protocols.
    ///
    /// # Errors
    /// If the library supports no version of TLS.
    pub fn handshake(&self, protocols: &[&[u8]]) -> io::Result<Arc<ServerConfig>> {
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(self.clone()));
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(Arc::new(config))
    }
}

impl ResolvesServerCert for ServedCertificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.read_state(|state| Arc::clone(&state.certified)))
    }
}
