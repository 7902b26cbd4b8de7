//! TLS to exactly one certificate: the one whose fingerprint the enrolment token named.
//!
//! Names, issuers and dates prove nothing more about a certificate that is known to the byte, so they are not looked at.
//! The handshake's signature is: it proves that the other side holds the certificate's key and did not just copy it.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

use super::fingerprint;

/// A verifier that believes one certificate.
#[derive(Debug)]
pub(super) struct Pin {
    pinned: [u8; 32],
    algorithms: WebPkiSupportedAlgorithms,
}

impl Pin {
    /// The verifier for the certificate with this SHA-256.
    pub(super) fn verifier(pinned: [u8; 32]) -> Arc<dyn ServerCertVerifier> {
        Arc::new(Self { pinned, algorithms: ring::default_provider().signature_verification_algorithms })
    }
}

impl ServerCertVerifier for Pin {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if fingerprint(end_entity) == self.pinned {
            Ok(ServerCertVerified::assertion())
        } else {
            tracing::error!(
                certificate.sha256 = hex::encode(fingerprint(end_entity)),
                certificate.pinned = hex::encode(self.pinned),
                "the server shows another certificate than the one this site enrolled with"
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
