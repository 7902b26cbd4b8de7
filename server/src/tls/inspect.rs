//! A look at the certificate's files that makes and renames none.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use time::OffsetDateTime;

use super::{NextIdentity, TlsError, TlsIdentity, fingerprint, generated, next_identity, own, read};
use crate::config::Config;

/// The certificate that the server shows, as its files have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CertificateView {
    /// SHA-256 of the certificate (DER), hex.
    pub(crate) fingerprint: String,
    /// Whether the server made it.
    pub(crate) is_generated: bool,
    /// The time from which it holds.
    pub(crate) not_before: OffsetDateTime,
    /// The time until which it holds.
    pub(crate) not_after: OffsetDateTime,
    /// The certificate that follows, when it is known.
    pub(crate) next: Option<NextIdentity>,
    /// When a generated one is followed by the next.
    pub(crate) rotates_at: Option<OffsetDateTime>,
}

/// Reads the certificate in force with its key and the next one; `None` when the server has not made one yet, or does not speak TLS.
///
/// # Errors
/// [`TlsError`] when a file cannot be read, or certificate and key do not belong together.
pub(crate) fn inspect(config: &Config) -> Result<Option<CertificateView>, TlsError> {
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
    identity.certified(config)?;
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
