//! A certificate with its evidence: everything needed to check it on another machine, without the server.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::super::Signed;

/// A certificate as a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CertificateFile {
    /// The certificate as JSON, byte for byte as the server signed it.
    pub payload: String,
    /// The server's Ed25519 signature over `undertone/certificate/1`, a zero byte and the payload, hex.
    pub signature: String,
    /// The evidence.
    pub evidence: CertificateEvidence,
}

impl CertificateFile {
    /// Returns the certificate with its signature.
    pub fn signed(&self) -> Signed {
        Signed { payload: self.payload.clone(), signature: self.signature.clone() }
    }
}

/// The evidence for a certificate. Each part is signed by its author, and the certificate names its digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Evidence))]
#[serde(deny_unknown_fields)]
pub struct CertificateEvidence {
    /// The manifest that the sites received, signed by the server.
    pub manifest: Signed,
    /// The receipts of the sites, each signed by its site: party by party in the certificate's order, each party's
    /// oldest first.
    pub receipts: Vec<ProvenReceipt>,
}

/// A receipt with the server's confirmation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Proven))]
#[serde(deny_unknown_fields)]
pub struct ProvenReceipt {
    /// The receipt, signed by its site.
    pub receipt: Signed,
    /// The place of its charge in the server's log; absent from a server without a log.
    #[serde(default)]
    pub logged: Option<LoggedReceipt>,
}

/// A receipt's place in the server's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Logged))]
#[serde(deny_unknown_fields)]
pub struct LoggedReceipt {
    /// The server's confirmation that it accepted the receipt, with its place: a signed `Countersignature`.
    pub countersignature: Signed,
    /// The leaf at this place: the ledger entry as the text that is hashed.
    pub leaf: String,
    /// The proof that the leaf is there under the certificate's head: the sibling hashes on the way to the root (RFC
    /// 9162, section 2.1.3), from the leaf up, hex.
    pub inclusion: Vec<String>,
}

/// An audit that a job requested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AuditAsked {
    /// The site's measurements, signed by it: an `AuditStatement`. Null if none has arrived.
    pub statement: Option<Signed>,
}

/// Computes the digest of a list of digests, as [`super::ChainPiece::list`] defines it.
pub(super) fn list<'a>(digests: impl IntoIterator<Item = &'a str>) -> String {
    let mut hash = Sha256::new();
    for digest in digests {
        hash.update(digest.as_bytes());
        hash.update(b"\n");
    }
    hex::encode(hash.finalize())
}

impl super::ChainPiece {
    /// Makes the piece of these receipts, each by number and digest, oldest first.
    pub fn from_receipts(receipts: &[(u64, String)]) -> Self {
        Self {
            count: receipts.len() as u64,
            first: receipts.first().map(|(sequence, _)| *sequence),
            last: receipts.last().map(|(sequence, _)| *sequence),
            head: receipts.last().map(|(_, digest)| digest.clone()),
            list: list(receipts.iter().map(|(_, digest)| digest.as_str())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ChainPiece;

    #[test]
    fn chain_piece_digest_depends_on_order() {
        let piece = |digests: &[&str]| {
            let receipts: Vec<_> = (1..).zip(digests).map(|(at, digest)| (at, (*digest).to_owned())).collect();
            ChainPiece::from_receipts(&receipts)
        };
        assert_eq!(piece(&[]).list, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_ne!(piece(&["aa", "bb"]).list, piece(&["bb", "aa"]).list);
        assert_ne!(piece(&["aa", "bb"]).list, piece(&["aabb"]).list);
        assert_eq!((piece(&["aa", "bb"]).last, piece(&["aa", "bb"]).head.as_deref()), (Some(2), Some("bb")));
    }
}
