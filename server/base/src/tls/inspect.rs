//! Reads the certificate's files without creating or renaming any.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use time::OffsetDateTime;

use super::{NextIdentity, TlsError, TlsIdentity, fingerprint, generated, next_identity, own, read};
use crate::config::Config;

/// The server's certificate, from its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateView {
    /// SHA-256 of the certificate (DER), hex.
    pub fingerprint: String,
    /// Whether the server generated it.
    pub is_generated: bool,
    /// The start of its validity.
    pub not_before: OffsetDateTime,
    /// The end of its validity.
    pub not_after: OffsetDateTime,
    /// The next certificate, if it is known.
    pub next: Option<NextIdentity>,
    /// The time at which a generated one is replaced.
    pub rotates_at: Option<OffsetDateTime>,
}

/// Reads the current certificate with its key and the next one; `None` if the server has not generated one yet, or does
/// not serve TLS.
///
/// # Errors
/// [`TlsError`] if a file cannot be read, or certificate and key do not match.
pub fn inspect(config: &Config) -> Result<Option<CertificateView>, TlsError> {
    if !config.speaks_tls() {
        return Ok(None);
    }
    let is_generated = own(config).is_none();
    let (certificate, key) = own(config).unwrap_or_else(|| generated::files(config));
    if is_generated && !certificate.exists() {
        return Ok(None);
    }
    let (chain, key) = (read(&certificate)?, read(&key)?);
    let identity = TlsIdentity { fingerprint: fingerprint(&certificate, &chain)?, certificate: chain, key };
    identity.to_certified_key(config)?;
    let unreadable = || TlsError::Empty(certificate.clone());
    let first = CertificateDer::from_pem_slice(identity.certificate.as_bytes()).map_err(|_| unreadable())?;
    let (_, parsed) = x509_parser::parse_x509_certificate(&first).map_err(|_| unreadable())?;
    Ok(Some(CertificateView {
        fingerprint: identity.fingerprint,
        is_generated,
        not_before: parsed.validity().not_before.to_datetime(),
        not_after: parsed.validity().not_after.to_datetime(),
        next: next_identity(config)?,
        rotates_at: if is_generated { generated::rotates_at(config) } else { None },
    }))
}
