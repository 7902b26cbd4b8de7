//! `undertone-server certificate verify`: checks a certificate's file on any machine, without a database or a network.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use undertone_api::signed::{self, CertificateFile, SignedError};
use undertone_certificate::{CertificateVerdict, ModelDigest, TrustedInputs, Verification};

/// The options of `certificate verify`.
#[derive(Debug, clap::Args)]
pub struct CertificateOptions {
    /// The downloaded certificate file.
    pub file: PathBuf,
    /// The model file that the certificate must describe.
    #[arg(long, value_name = "FILE")]
    pub model: Option<PathBuf>,
    /// The server's public key in hex, as pinned by a worker. By default, the key in the certificate is used, which is a weaker
    /// check.
    #[arg(long, value_name = "HEX")]
    pub server_key: Option<String>,
    /// A site's public key in hex; may be repeated. If set, every site must have one of these keys.
    #[arg(long, value_name = "HEX")]
    pub site_key: Vec<String>,
}

/// The reason why nothing could be checked.
#[derive(Debug, thiserror::Error)]
pub enum CertificateCommandError {
    /// A file cannot be read.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The file is not a certificate.
    #[error("{path} is not a certificate file: {source}")]
    Form {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
    /// A key is invalid.
    #[error("--server-key: {0}; expected 64 hex digits")]
    Key(#[from] SignedError),
}

/// Checks a file.
///
/// # Errors
/// [`CertificateCommandError`] when there is nothing to check; failed checks are in the verdict.
pub fn run(options: &CertificateOptions) -> Result<CertificateVerdict, CertificateCommandError> {
    let in_file = |source| CertificateCommandError::File { path: options.file.clone(), source };
    let text = std::fs::read_to_string(&options.file).map_err(in_file)?;
    let file: CertificateFile = serde_json::from_str(&text)
        .map_err(|source| CertificateCommandError::Form { path: options.file.clone(), source })?;
    let expected = TrustedInputs {
        server_key: options.server_key.as_deref().map(signed::public_key).transpose()?,
        site_keys: options.site_key.iter().map(|key| key.to_lowercase()).collect(),
        model: options.model.as_deref().map(digest).transpose()?,
    };
    Ok(Verification::new(file, expected).collect())
}

/// Returns the size and SHA-256 of a file, which may be larger than the memory.
pub(crate) fn digest(path: &Path) -> Result<(u64, String), CertificateCommandError> {
    let in_file = |source| CertificateCommandError::File { path: path.to_owned(), source };
    let mut file = File::open(path).map_err(in_file)?;
    let mut digest = ModelDigest::default();
    io::copy(&mut file, &mut digest).map_err(in_file)?;
    Ok(digest.finish())
}

#[cfg(test)]
mod tests {
    use super::{CertificateCommandError, CertificateOptions, digest, run};

    fn options(file: &std::path::Path) -> CertificateOptions {
        CertificateOptions { file: file.to_owned(), model: None, server_key: None, site_key: Vec::new() }
    }

    #[test]
    fn malformed_certificate_file_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("certificate.json");
        assert!(matches!(run(&options(&path)), Err(CertificateCommandError::File { .. })));
        std::fs::write(&path, "{\"payload\": \"{}\"}").expect("written");
        assert!(matches!(run(&options(&path)), Err(CertificateCommandError::Form { .. })));
        let empty =
            r#"{"payload":"{}","signature":"","evidence":{"manifest":{"payload":"","signature":""},"receipts":[]}}"#;
        std::fs::write(&path, empty).expect("written");
        assert!(!run(&options(&path)).expect("a file").holds());
        let keyed = CertificateOptions { server_key: Some("key".to_owned()), ..options(&path) };
        assert!(matches!(run(&keyed), Err(CertificateCommandError::Key(_))));
    }

    #[test]
    fn a_model_is_known_by_all_its_bytes() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("model");
        std::fs::write(&path, vec![7; 100_000]).expect("written");
        let (size, first) = digest(&path).expect("read");
        std::fs::write(&path, [vec![7; 99_999], vec![8]].concat()).expect("written");
        assert_eq!(size, 100_000);
        assert_ne!(digest(&path).expect("read"), (size, first));
    }
}
