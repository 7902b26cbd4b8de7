//! The certificate of both faces: the operator's own, or one made at first start and pinned by the workers.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;

use rcgen::{CertificateParams, DnType, KeyPair};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use sha2::{Digest as _, Sha256};

use crate::config::Config;
use crate::keys::write_secret;

/// A certificate chain and its key.
#[derive(Clone)]
pub struct TlsIdentity {
    /// The chain, PEM.
    pub certificate: String,
    /// The private key, PEM.
    pub key: String,
    /// SHA-256 of the first certificate (DER), hex: what workers pin.
    pub fingerprint: String,
}

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read or written.
    #[error("{path} cannot be used: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A name cannot stand in a certificate.
    #[error("no certificate can be made: check tls.names")]
    Make(#[from] rcgen::Error),
    /// The file holds no certificate.
    #[error("{0} holds no certificate in PEM form")]
    Empty(PathBuf),
}

impl TlsIdentity {
    /// The certificate in force; `None` when the server does not speak TLS itself. A generated one is kept in the data
    /// folder for good, because workers pin it.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn of(config: &Config) -> Result<Option<Self>, TlsError> {
        if !config.speaks_tls() {
            return Ok(None);
        }
        let generated = (config.data_dir.join("certificate.pem"), config.data_dir.join("certificate.key"));
        let (certificate, key) = match (&config.tls.certificate, &config.tls.key) {
            (Some(certificate), Some(key)) => (certificate.clone(), key.clone()),
            _ => generated.clone(),
        };
        if certificate == generated.0 && !certificate.exists() {
            let (chain, secret) = make(config)?;
            write_secret(&key, secret.as_bytes()).map_err(|source| TlsError::File { path: key.clone(), source })?;
            write_secret(&certificate, chain.as_bytes())
                .map_err(|source| TlsError::File { path: certificate.clone(), source })?;
        }
        let read = |path: &PathBuf| {
            std::fs::read_to_string(path).map_err(|source| TlsError::File { path: path.clone(), source })
        };
        let (chain, key) = (read(&certificate)?, read(&key)?);
        let first = CertificateDer::from_pem_slice(chain.as_bytes()).map_err(|_| TlsError::Empty(certificate))?;
        Ok(Some(Self { certificate: chain, key, fingerprint: hex::encode(Sha256::digest(&first)) }))
    }
}

fn make(config: &Config) -> Result<(String, String), TlsError> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    for address in [config.http.ip(), config.grpc.ip()] {
        if !address.is_unspecified() {
            names.push(address.to_string());
        }
    }
    for url in [&config.public_url, &config.public_grpc].into_iter().flatten() {
        names.extend(host(url));
    }
    names.extend(config.tls.names.iter().cloned());
    names.sort();
    names.dedup();
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, "Undertone server");
    // Workers pin the certificate itself, so it does not run out; browsers ask the person either way.
    params.not_after = rcgen::date_time_ymd(2099, 1, 1);
    let key = KeyPair::generate()?;
    Ok((params.self_signed(&key)?.pem(), key.serialize_pem()))
}

/// The host of an address such as `https://[::1]:8421/`.
fn host(url: &str) -> Option<String> {
    let uri: http::Uri = url.parse().ok()?;
    let host = uri.host()?.trim_start_matches('[').trim_end_matches(']');
    Some(host.parse::<IpAddr>().map_or_else(|_| host.to_owned(), |address| address.to_string()))
}

#[cfg(test)]
mod tests {
    use super::TlsIdentity;
    use crate::config::{Config, TlsMode};

    #[test]
    fn a_generated_certificate_stays_the_same() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let mut config = Config { data_dir: dir.path().to_owned(), ..Config::default() };
        config.tls.mode = TlsMode::On;
        config.public_url = Some("https://undertone.example.org".to_owned());
        let first = TlsIdentity::of(&config).expect("made").expect("there is one");
        let second = TlsIdentity::of(&config).expect("read").expect("there is one");
        assert_eq!(first.fingerprint, second.fingerprint);
        assert_eq!(first.fingerprint.len(), 64);
    }

    #[test]
    fn there_is_none_on_loopback() {
        assert!(TlsIdentity::of(&Config::default()).expect("nothing to make").is_none());
    }
}
