//! A ledger in a file: everything needed to check it line by line, without the server and its database.
//!
//! One JSON object a line, in this order: [`BundleLine::Bundle`] first; the sites' keys and the jobs' manifests; then the
//! log, leaf by leaf, each commit followed by its [`BundleLine::Receipt`] and each leaf that a head ends with by its
//! [`BundleLine::Head`]; then the server's claims about the result (accounts and reservations); [`BundleLine::End`] last, so that a
//! truncated file is not a bundle. Rows that the reader may not see are present by their hash, so that every reader has
//! the whole tree.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use undertone_privacy::ledger::{Balance, Cost};
use uuid::Uuid;

use crate::id::{ConsortiumId, OrganizationId, WorkerId};
use crate::signed::{KeyRotation, Signed};

/// The format name in a bundle.
pub const FORMAT: &str = "undertone-ledger";
/// The version of the format that this code writes and reads.
pub const VERSION: u32 = 1;

/// The scope of a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Scope))]
#[serde(rename_all = "snake_case")]
pub enum BundleScope {
    /// All data that the server keeps: no leaf is withheld.
    Whole,
    /// The accounts of a consortium's organizations that the reader may read, and the manifests of its jobs.
    Consortium(ConsortiumId),
}

/// A line of a bundle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Line))]
#[serde(tag = "line", rename_all = "snake_case", deny_unknown_fields)]
pub enum BundleLine {
    /// The header.
    Bundle {
        /// `undertone-ledger`.
        format: String,
        /// The version of the format: 1.
        version: u32,
        /// Ed25519 public key of the server, hex. It signs manifests, heads and countersignatures. Compare it with the
        /// key in a site's configuration; a bundle cannot prove its own key.
        server_key: String,
        /// Version of the code that prices events at the server.
        evaluator: String,
        /// The scope.
        scope: BundleScope,
        /// When it was written.
        #[serde(with = "time::serde::rfc3339")]
        #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
        exported_at: OffsetDateTime,
    },
    /// A site's key.
    Worker {
        /// The worker.
        worker: WorkerId,
        /// The worker's organization.
        organization: OrganizationId,
        /// Its Ed25519 public key, hex: signs receipts.
        public_key: String,
        /// The changes that led to this key, oldest first. Receipts from before a change are signed by the earlier key.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        rotations: Vec<KeyRotation>,
    },
    /// A permission to run a job: a signed `Manifest`.
    Manifest {
        /// The document.
        manifest: Signed,
    },
    /// A leaf of the log.
    Leaf {
        /// Its position, from 0.
        position: u64,
        /// The text that is hashed: the leaf as JSON.
        content: String,
    },
    /// A leaf that the reader may not see.
    Withheld {
        /// Its position, from 0.
        position: u64,
        /// Its leaf hash, hex.
        hash: String,
    },
    /// The receipt of the commit before it.
    Receipt {
        /// A signed `Receipt`.
        receipt: Signed,
        /// A signed `Countersignature`.
        countersignature: Signed,
    },
    /// The audit entry whose leaf is the line before it.
    Audit {
        /// 32 random bytes, hex.
        salt: String,
        /// The entry's text that is hashed: JSON without blanks and without the actor's name.
        content: String,
    },
    /// The statement whose leaf is the line before it.
    Restoration {
        /// A signed `Restoration`.
        statement: Signed,
    },
    /// A signed head over all leaves before it.
    Head {
        /// The document.
        head: Signed,
    },
    /// The server's claim about the sum of an account's rows.
    Account {
        /// The account.
        account: Uuid,
        /// The spent and reserved loss, in units of 2⁻⁶⁴ nat at every order.
        #[cfg_attr(feature = "openapi", schema(value_type = Object))]
        balance: Box<Balance>,
        /// Releases that left in the clear.
        in_the_clear: u64,
        /// Number of its rows.
        entries: u64,
        /// Hash of the last of them, hex.
        head: String,
    },
    /// The server's claim about the sum of a reservation's rows.
    Reservation {
        /// The account.
        account: Uuid,
        /// The job.
        job: Uuid,
        /// The dataset in the job.
        dataset: Uuid,
        /// The release, as JSON text.
        event: String,
        /// The cost of each release on the account's orders.
        #[cfg_attr(feature = "openapi", schema(value_type = Object))]
        per_release: Box<Cost>,
        /// The number of reserved releases.
        releases: u64,
        /// The number of paid releases.
        committed: u64,
        /// Whether the remainder was returned.
        settled: bool,
    },
    /// The end.
    End {
        /// Lines before this one.
        lines: u64,
        /// SHA-256 of their bytes with their line ends, hex.
        digest: String,
    },
}
