//! Worker daemons in the server's view.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::id::{OrganizationId, WorkerId};
use crate::job::diagnosis::Diagnosis;
use crate::retirement::Retirement;

/// A worker at a site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Worker {
    /// Id.
    pub id: WorkerId,
    /// Its organization.
    pub organization: OrganizationId,
    /// Name given at enrolment.
    pub name: String,
    /// Ed25519 public key of the site, hex.
    pub public_key: String,
    /// The software version that it last reported.
    pub version: String,
    /// The job kinds that it can run.
    pub kinds: Vec<String>,
    /// The last contact; absent before the first connection.
    #[serde(default, with = "time::serde::rfc3339::option")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub last_seen_at: Option<OffsetDateTime>,
    /// Whether its last contact is less than a minute old.
    pub online: bool,
    /// Its defects that the server can detect, with their remedies.
    #[serde(default)]
    pub diagnoses: Vec<Diagnosis>,
    /// The changes of the site's key, oldest first; empty if it still has the key with which it enrolled.
    #[serde(default)]
    pub key_changes: Vec<KeyChanged>,
    /// The retirement in force, if there is one. A retired worker has no access.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retirement: Option<Retirement>,
    /// The retired worker whose datasets it took over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<WorkerId>,
    /// The return of its receipts since the server was last restored from an older copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reconciliation: Option<ReconciliationState>,
    /// The write-off in force, if there is one. A site is written off until it returns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_off: Option<WriteOff>,
}

/// The return of a worker's receipts to a restored server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReconciliationState {
    /// When the server was restored.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub restored_at: OffsetDateTime,
    /// Returned receipts.
    pub receipts: u64,
    /// When the server had all of them. Absent until then; the worker's datasets take part in no new job meanwhile.
    #[serde(default, with = "time::serde::rfc3339::option")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub finished_at: Option<OffsetDateTime>,
}

/// The write-off of a worker whose site does not return.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WriteOff {
    /// The time.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub at: OffsetDateTime,
    /// The stated reason.
    pub reason: String,
}

/// A change of a site's key. Both keys have signed it, so only the site can have made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct KeyChanged {
    /// Its number at this site, from 1.
    pub number: u32,
    /// The Ed25519 public key before the change, hex.
    pub old: String,
    /// The Ed25519 public key after the change, hex.
    pub new: String,
    /// The number of receipts that the earlier keys have signed.
    pub receipts: u64,
    /// When it was made, by the site's clock. Both keys have signed this time.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub at: OffsetDateTime,
}

/// The response to a request for an enrolment token. The token is shown once: `undertone-worker enroll <token>`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Enrolment {
    /// The token: `ute1.` and base64url of a JSON document, which the worker reads.
    pub token: String,
    /// When it expires.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub expires_at: OffsetDateTime,
}

/// The content of an enrolment token: base64url (no padding) of its JSON, with the prefix `ute1.`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnrolmentToken {
    /// The gRPC address: `https://host:port`, or `http://` on loopback only.
    pub server: String,
    /// SHA-256 of the server's TLS certificate (DER), hex; the worker trusts this certificate and no other. `None` on
    /// loopback without TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
    /// The server's first Ed25519 public key, hex: it signs manifests, or has introduced the root of the keys that do.
    pub server_key: String,
    /// The root's public key, hex, once its certificates are in force: the new site then accepts nothing from the first
    /// key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_root: Option<String>,
    /// The one-time secret, hex.
    pub secret: String,
}

/// A new worker to be enrolled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewEnrolment {
    /// Name of the worker: 1 to 100 characters.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 100))]
    pub name: String,
}
