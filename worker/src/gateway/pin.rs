//! TLS to certificates that are known exactly: the one with the fingerprint in the enrolment token, and those that the
//! server announced after it.
//!
//! Names, issuers and dates prove nothing more about an exactly known certificate, so they are ignored. The handshake's
//! signature is verified: it proves that the other side holds the certificate's key and did not just copy it.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

use super::fingerprint;
use super::trust::CertificateTrust;

/// A verifier that accepts the certificates of a [`CertificateTrust`].
#[derive(Debug)]
pub(super) struct PinVerifier {
    /// The accepted certificates; `None` for any certificate, for one question with a signed answer.
    trust: Option<Arc<CertificateTrust>>,
    algorithms: WebPkiSupportedAlgorithms,
}

/// A verifier that accepts any certificate, for the request of a signed document only.
pub(super) struct AnyCertificate;

impl AnyCertificate {
    /// Returns the verifier.
    pub(super) fn verifier() -> Arc<dyn ServerCertVerifier> {
        Arc::new(PinVerifier { trust: None, algorithms: ring::default_provider().signature_verification_algorithms })
    }
}

impl PinVerifier {
    /// Returns the verifier for these certificates.
    pub(super) fn for_trust(trust: Arc<CertificateTrust>) -> Arc<dyn ServerCertVerifier> {
        Arc::new(Self { trust: Some(trust), algorithms: ring::default_provider().signature_verification_algorithms })
    }
}

impl ServerCertVerifier for PinVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let fingerprint = fingerprint(end_entity);
        if self.trust.as_ref().is_none_or(|trust| trust.accepts(&fingerprint)) {
            Ok(ServerCertVerified::assertion())
        } else {
            tracing::warn!(
                certificate.sha256 = hex::encode(fingerprint),
                "the server presents a certificate that this site does not know"
            );
            Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
