//! A steward's approval of a job for one dataset, signed with a key that the dataset's site pins.
//!
//! The server forwards approvals and cannot make one: it holds none of the private keys, and a site pins public keys at
//! its own terminal. The signature covers the statement's domain, a zero byte and the statement's JSON ([`super`]). An
//! Ed25519 key at a steward's terminal signs these bytes. A passkey signs their SHA-256, as the challenge of a WebAuthn
//! assertion.
//!
//! To add another kind of key: a variant of [`ApprovalKey`] and of [`ApprovalProof`], and its arm in `verify`.

#[cfg(not(target_arch = "wasm32"))]
mod line;
#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests;
#[cfg(not(target_arch = "wasm32"))]
mod verify;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::webauthn::PasskeyAlgorithm;
use super::{Document, Signed, SignedError, message};
use crate::id::{DatasetId, JobId};
use crate::job::PartyTerms;

/// The most keys that a site pins.
pub const MOST_APPROVAL_KEYS: usize = 16;
/// The most bytes of a signed approval's JSON.
pub const MOST_APPROVAL_BYTES: usize = 16 * 1024;

/// A steward's decision on a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum StewardDecision {
    /// The job may run on the dataset.
    Approve,
    /// The job may not run on the dataset.
    Refuse,
}

/// The statement that a steward signs: one decision about one manifest for one dataset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalStatement {
    /// SHA-256 of the manifest's payload, hex.
    pub manifest: String,
    /// The job.
    pub job: JobId,
    /// The dataset.
    pub dataset: DatasetId,
    /// Whether it may run.
    pub decision: StewardDecision,
    /// The answer to the open terms of the proposal, with an approval; an omitted term keeps the proposal's value.
    #[serde(default, skip_serializing_if = "PartyTerms::is_empty")]
    pub terms: PartyTerms,
}

impl Document for ApprovalStatement {
    const DOMAIN: &'static str = "undertone/approval/1";
}

impl ApprovalStatement {
    /// States that the manifest with the digest `manifest` may run on `dataset`.
    pub fn approve(manifest: &str, job: JobId, dataset: DatasetId) -> Self {
        let terms = PartyTerms::default();
        Self { manifest: manifest.to_owned(), job, dataset, decision: StewardDecision::Approve, terms }
    }

    /// Adds the answer to the open terms of the proposal.
    #[must_use]
    pub fn with_terms(self, terms: PartyTerms) -> Self {
        Self { terms, ..self }
    }
}

/// The public half of a key with which a steward approves jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum ApprovalKey {
    /// A key file at the steward's terminal.
    Ed25519 {
        /// The public key, hex.
        public_key: String,
    },
    /// A passkey, used in a browser at one origin.
    Passkey {
        /// Its algorithm.
        algorithm: PasskeyAlgorithm,
        /// The public key, hex: the uncompressed point (65 bytes) of ES256, the 32 bytes of EdDSA.
        public_key: String,
        /// Its id at the authenticator, hex.
        credential: String,
        /// The WebAuthn relying party: the host of the dashboard.
        relying_party: String,
        /// The origin of the dashboard: `https://undertone.example.org`.
        origin: String,
    },
}

/// A short name of a key, for comparison by people: 128 bits of SHA-256 in eight groups of four hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct KeyFingerprint(String);

impl KeyFingerprint {
    /// Returns the fingerprint as stored text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Restores a fingerprint from stored text.
    pub fn from_stored(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl std::fmt::Display for KeyFingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl ApprovalKey {
    /// Returns the key's fingerprint. It covers all data that decide which signatures are accepted; for a passkey also
    /// the origin, the relying party and the credential.
    pub fn fingerprint(&self) -> KeyFingerprint {
        let text = serde_json::to_string(self).unwrap_or_default();
        let digest = Sha256::digest([b"undertone/approval-key/1\0", text.as_bytes()].concat());
        let groups: Vec<String> = digest[..16].chunks(2).map(hex::encode).collect();
        KeyFingerprint(groups.join("-"))
    }

    /// Returns the kind of key for display.
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Ed25519 { .. } => "key file",
            Self::Passkey { .. } => "passkey",
        }
    }
}

/// The signature of an approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum ApprovalProof {
    /// A signature by a key file.
    Ed25519 {
        /// Ed25519 over domain, a zero byte and payload, hex.
        signature: String,
    },
    /// A signature by a passkey: a WebAuthn assertion whose challenge is SHA-256 of domain, a zero byte and payload.
    Passkey {
        /// The credential's id, hex.
        credential: String,
        /// `clientDataJSON`, as text.
        client_data: String,
        /// `authenticatorData`, hex.
        authenticator_data: String,
        /// The assertion's signature, hex: DER of ES256, the 64 bytes of EdDSA.
        signature: String,
    },
}

/// A statement with a steward's signature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SignedApproval {
    /// The statement as JSON, byte for byte as it was signed.
    pub payload: String,
    /// The signature.
    pub proof: ApprovalProof,
}

impl From<Signed> for SignedApproval {
    fn from(signed: Signed) -> Self {
        Self { payload: signed.payload, proof: ApprovalProof::Ed25519 { signature: signed.signature } }
    }
}

impl SignedApproval {
    /// Signs a statement with the key of a key file.
    ///
    /// # Errors
    /// [`SignedError::Payload`] if the statement has no JSON form.
    pub fn sign<D: Document>(document: &D, key: &ed25519_dalek::SigningKey) -> Result<Self, SignedError> {
        Signed::new(document, key).map(Into::into)
    }
}

/// Returns the challenge that a passkey signs for the statement with this JSON.
pub fn passkey_challenge<D: Document>(payload: &str) -> [u8; 32] {
    Sha256::digest(message::<D>(payload)).into()
}

/// The reason why an approval is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApprovalError {
    /// A part of the key, or of the approval, is not well formed.
    #[error("{0} is not well formed")]
    Malformed(&'static str),
    /// No pinned key made the signature.
    #[error("it is signed by none of the keys that this site pins")]
    UnknownKey,
    /// The signature does not belong to the statement.
    #[error("its signature does not hold")]
    Forged,
    /// The passkey signed other data, or at another origin.
    #[error("its passkey assertion is not acceptable: {0}")]
    Assertion(&'static str),
    /// The payload is not the expected statement.
    #[error("the signed payload is not the expected statement: {0}")]
    Payload(String),
    /// The steward signed for another manifest.
    #[error("it is for another manifest")]
    OtherManifest,
    /// The steward signed for another job or dataset.
    #[error("it is for another dataset or job")]
    OtherDataset,
    /// The steward signed a refusal.
    #[error("the steward signed a refusal")]
    Refusal,
}

/// The approval that a job needs before it may run at a site, as the site reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ApprovalRule {
    /// An automatic approval by the site's policy.
    Automatic,
    /// A steward's approval, with a signature by a key that the site pins.
    Steward,
    /// A steward's approval, as the server reports it.
    Server,
    /// An approval at the site's terminal.
    Manual,
}

impl ApprovalRule {
    /// Returns the basis of an approval in words.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Automatic => "approved by the site's own policy",
            Self::Steward => "approved with a steward's signature, which the site verifies",
            Self::Server => "approved by the server's word: the site verifies no signature",
            Self::Manual => "approved at the site's terminal",
        }
    }
}

/// The basis of the consent to a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum Consent {
    /// A steward's signature, which the site verifies with a key that it pins.
    Signed {
        /// The key's fingerprint.
        key: KeyFingerprint,
    },
    /// The server's report; the site verifies no signature.
    ServerWord,
    /// The site itself: its policy, or an approval at its terminal.
    Site,
}

impl Consent {
    /// Returns the basis of the consent in a few words.
    pub const fn short(&self) -> &'static str {
        match self {
            Self::Signed { .. } => "signed",
            Self::ServerWord => "by the server's word",
            Self::Site => "at the site",
        }
    }

    /// Returns the basis of the consent in words.
    pub fn words(&self) -> String {
        match self {
            Self::Signed { key } => format!("signed by a steward; the site verifies it with the key {key}"),
            Self::ServerWord => "approved by the server's word: the site verified no signature of a steward".to_owned(),
            Self::Site => "approved by the site itself".to_owned(),
        }
    }
}

/// How a site approves jobs on a dataset: its rule, and the keys that it pins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SiteApproval {
    /// The required approval.
    pub rule: ApprovalRule,
    /// The keys that the site pins; at most 16.
    #[serde(default)]
    pub keys: Vec<ApprovalKey>,
}
