//! A verification whose input and findings are texts: for the page of the dashboard.

use serde::Serialize;
use undertone_api::signed::{self, CertificateFile, SignedError};

use crate::{PointFinding, TrustedInputs, Verification, VerificationPoint};

/// The reason why nothing can be checked.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The file is not a certificate.
    #[error("this is not a certificate file: {0}")]
    Form(#[from] serde_json::Error),
    /// The server's key is invalid.
    #[error("the server's key: {0}; expected 64 hex digits")]
    Key(#[from] SignedError),
}

/// A verification from the text of a file.
pub struct TextCheck(Verification);

/// The finding of one point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FindingLine {
    /// The point's name.
    pub point: &'static str,
    /// `passed`, `failed` or `unchecked`.
    pub state: &'static str,
    /// The checked value, the reason, or the defects.
    pub texts: Vec<String>,
}

impl TextCheck {
    /// Returns the verification of the file with the content `file`. `server_key` may be empty; `site_keys` has keys
    /// between spaces or line breaks; `model` is the size and digest of the model at hand.
    ///
    /// # Errors
    /// [`CheckError`] when the file is no certificate, or the server's key no key.
    pub fn new(
        file: &str,
        server_key: &str,
        site_keys: &str,
        model: Option<(u64, String)>,
    ) -> Result<Self, CheckError> {
        let file: CertificateFile = serde_json::from_str(file)?;
        let server_key = match server_key.trim() {
            "" => None,
            key => Some(signed::public_key(key)?),
        };
        let site_keys = site_keys.split_whitespace().map(str::to_lowercase).collect();
        Ok(Self(Verification::new(file, TrustedInputs { server_key, site_keys, model })))
    }
}

impl Iterator for TextCheck {
    type Item = FindingLine;

    fn next(&mut self) -> Option<FindingLine> {
        self.0.next().map(FindingLine::from)
    }
}

impl From<(VerificationPoint, PointFinding)> for FindingLine {
    fn from((point, finding): (VerificationPoint, PointFinding)) -> Self {
        let (state, texts) = match finding {
            PointFinding::Holds(summary) => ("passed", vec![summary]),
            PointFinding::Unchecked(reason) => ("unchecked", vec![reason]),
            PointFinding::Fails(defects) => ("failed", defects),
        };
        Self { point: point.name(), state, texts }
    }
}

#[cfg(test)]
mod tests {
    use super::{CheckError, FindingLine, TextCheck};

    const EMPTY: &str =
        r#"{"payload":"{}","signature":"","evidence":{"manifest":{"payload":"","signature":""},"receipts":[]}}"#;

    #[test]
    fn malformed_input_is_refused() {
        assert!(matches!(TextCheck::new("{}", "", "", None), Err(CheckError::Form(_))));
        assert!(matches!(TextCheck::new(EMPTY, "c0ffee", "", None), Err(CheckError::Key(_))));
    }

    #[test]
    fn unreadable_certificate_fails_at_its_signature_alone() {
        let lines: Vec<FindingLine> = TextCheck::new(EMPTY, " ", "", None).expect("a file").collect();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert_eq!((lines[0].point, lines[0].state), ("signature", "failed"));
        assert!(lines[0].texts[0].contains("cannot be read"), "{lines:?}");
    }
}
