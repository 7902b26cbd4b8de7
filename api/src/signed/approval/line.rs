//! Public keys as text: one line, to be pasted at a site's terminal; and the parsing of a browser's new passkey.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::{ApprovalError, ApprovalKey, PasskeyAlgorithm};

/// The prefix of every such line.
const PREFIX: &str = "uak1.";
/// DER of a SubjectPublicKeyInfo up to the 65 bytes of an uncompressed point of P-256 (RFC 5480), hex.
const P256_PREFIX: &str = "3059301306072a8648ce3d020106082a8648ce3d030107034200";
/// DER of a SubjectPublicKeyInfo up to the 32 bytes of an Ed25519 key (RFC 8410), hex.
const ED25519_PREFIX: &str = "302a300506032b6570032100";
/// The longest accepted line, characters.
const LONGEST: usize = 4096;

impl ApprovalKey {
    /// Returns the key as one line of text.
    pub fn to_line(&self) -> String {
        format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default()))
    }

    /// Parses a key from a line of text, and checks that it can verify signatures.
    ///
    /// # Errors
    /// [`ApprovalError::Malformed`] if the line is not such a key.
    pub fn parse_line(line: &str) -> Result<Self, ApprovalError> {
        let malformed = || ApprovalError::Malformed("the key");
        let line = line.trim();
        let text = line.strip_prefix(PREFIX).filter(|_| line.len() <= LONGEST).ok_or_else(malformed)?;
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| malformed())?;
        let key: Self = serde_json::from_slice(&bytes).map_err(|_| malformed())?;
        key.check()?;
        Ok(key)
    }

    /// Parses a browser's public key of a new passkey (`getPublicKey()`, a SubjectPublicKeyInfo) with its COSE
    /// algorithm; `origin` is the origin of its creation.
    ///
    /// # Errors
    /// [`ApprovalError::Malformed`] for another algorithm, or a malformed part.
    pub fn from_browser(
        algorithm: i64,
        public_key_info: &str,
        credential: &str,
        origin: &str,
    ) -> Result<Self, ApprovalError> {
        let (algorithm, prefix) = match algorithm {
            -7 => (PasskeyAlgorithm::Es256, P256_PREFIX),
            -8 => (PasskeyAlgorithm::EdDsa, ED25519_PREFIX),
            _ => return Err(ApprovalError::Malformed("the passkey's algorithm")),
        };
        let info = public_key_info.to_ascii_lowercase();
        let public_key = info.strip_prefix(prefix).ok_or(ApprovalError::Malformed("the public key"))?.to_owned();
        let host = origin.split_once("://").map_or("", |(_, rest)| rest.split(':').next().unwrap_or_default());
        let key = Self::Passkey {
            algorithm,
            public_key,
            credential: credential.to_ascii_lowercase(),
            relying_party: host.to_owned(),
            origin: origin.to_owned(),
        };
        key.check()?;
        Ok(key)
    }
}
