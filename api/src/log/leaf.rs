//! The content of a leaf of the log: JSON in one form only, so that a hash has one meaning.
//!
//! Columns that are words or JSON at the server are kept here as the stored text, not as this version interprets it, so
//! that new programs can check an old log.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

/// The reason why a text is not accepted as a leaf.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LeafError {
    /// It is not a leaf that this version knows.
    #[error("the leaf is none that this version knows: {0}")]
    Unknown(String),
    /// It parses, but is not in the form that is hashed.
    #[error("the leaf is not in the one form that is hashed")]
    Form,
}

/// A leaf.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum LogLeaf {
    /// A row of an account's ledger.
    Entry(EntryRecord),
    /// The opening of an account.
    Account(AccountRecord),
    /// A steward's limit on an account.
    Limit(LimitRecord),
    /// A restoration of the server's database to an earlier state.
    Restoration(RestorationRecord),
    /// An event of a worker's key.
    WorkerKey(WorkerKeyRecord),
    /// An entry of an audit log.
    Audit(AuditRecord),
}

impl LogLeaf {
    /// Returns the text that is hashed.
    pub fn content(&self) -> String {
        match self {
            Self::Entry(entry) => entry.content(),
            Self::Account(account) => json(account),
            Self::Limit(limit) => json(limit),
            Self::Restoration(record) => json(record),
            Self::WorkerKey(record) => json(record),
            Self::Audit(record) => json(record),
        }
    }

    /// Parses a leaf from the text that is hashed.
    ///
    /// # Errors
    /// [`LeafError`] if it is not a leaf, or not written as [`LogLeaf::content`] writes it.
    pub fn parse(content: &str) -> Result<Self, LeafError> {
        let leaf: Self = serde_json::from_str(content).map_err(|error| LeafError::Unknown(error.to_string()))?;
        if leaf.content() == content { Ok(leaf) } else { Err(LeafError::Form) }
    }

    /// Returns the account of the leaf, if it concerns one.
    pub const fn account(&self) -> Option<Uuid> {
        match self {
            Self::Entry(entry) => Some(entry.account),
            Self::Account(account) => Some(account.account),
            Self::Limit(limit) => Some(limit.account),
            Self::Restoration(_) | Self::WorkerKey(_) | Self::Audit(_) => None,
        }
    }
}

/// A row of an account's ledger: reserve, commit or settle. Rows of one account form a chain of their own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EntryRecord {
    /// Hash of the row before it in the account, hex; SHA-256 of nothing for the first.
    pub previous: String,
    /// The account.
    pub account: Uuid,
    /// Position in the account's ledger, from 1.
    pub sequence: i64,
    /// `reserve`, `commit` or `settle`.
    pub kind: String,
    /// The job that caused it.
    pub job: Uuid,
    /// The dataset in that job.
    pub dataset: Uuid,
    /// The series of a commit.
    pub series: Option<String>,
    /// The round of a commit, from 1.
    pub round: Option<i32>,
    /// The attempt at the round, from 1.
    pub attempt: Option<i32>,
    /// The release with exact parameters: an `Event` as JSON.
    pub event: String,
    /// The number of such releases.
    pub count: i64,
    /// Version of the code that priced it.
    pub evaluator: String,
    /// Digest of the receipt of a commit, hex.
    pub receipt: Option<String>,
    /// The certificate of a reservation on an account with the Gaussian filter: a `JobCertificate` as JSON. Rows without one
    /// have no such field, and the hash of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
    /// Time of the row, milliseconds since 1970 UTC.
    pub at_unix_milliseconds: i64,
}

impl EntryRecord {
    /// Returns the text that is hashed, by the account's chain and by the log: these fields in this order forever.
    pub fn content(&self) -> String {
        json(self)
    }

    /// Returns the hash by which the next row of the account refers to this one: SHA-256 of the content, hex.
    pub fn hash(&self) -> String {
        hex::encode(Sha256::digest(self.content().as_bytes()))
    }
}

/// The tag of the kind of leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
enum AccountMark {
    #[default]
    #[serde(rename = "account")]
    Account,
}

/// The opening of an account. Its purpose never changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccountRecord {
    record: AccountMark,
    /// The account.
    pub account: Uuid,
    /// The party.
    pub organization: Uuid,
    /// The lineage of its dataset.
    pub lineage: Uuid,
    /// The protected unit.
    pub unit: String,
    /// The adjacency.
    pub adjacency: String,
    /// The observer.
    pub observer: String,
    /// Time of the opening, milliseconds since 1970 UTC.
    pub at_unix_milliseconds: i64,
}

impl AccountRecord {
    /// Makes the leaf of an account.
    pub fn new(
        [account, organization, lineage]: [Uuid; 3],
        [unit, adjacency, observer]: [&str; 3],
        at_unix_milliseconds: i64,
    ) -> Self {
        Self {
            record: AccountMark::Account,
            account,
            organization,
            lineage,
            unit: unit.to_owned(),
            adjacency: adjacency.to_owned(),
            observer: observer.to_owned(),
            at_unix_milliseconds,
        }
    }
}

/// The tag of the kind of leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
enum LimitMark {
    #[default]
    #[serde(rename = "limit")]
    Limit,
}

/// A steward's limit on an account.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitRecord {
    record: LimitMark,
    /// The decision's id.
    pub budget: Uuid,
    /// The account.
    pub account: Uuid,
    /// ε for life.
    pub epsilon: f64,
    /// δ for life.
    pub delta: f64,
    /// The limits that follow at every order: a `Budget` as JSON.
    pub limits: String,
    /// The member who set it.
    pub set_by: Uuid,
    /// Time of the decision, milliseconds since 1970 UTC.
    pub at_unix_milliseconds: i64,
}

impl LimitRecord {
    /// Makes the leaf of a decision on a limit.
    pub fn new(
        [budget, account, set_by]: [Uuid; 3],
        [epsilon, delta]: [f64; 2],
        limits: &str,
        at_unix_milliseconds: i64,
    ) -> Self {
        let limits = limits.to_owned();
        Self { record: LimitMark::Limit, budget, account, epsilon, delta, limits, set_by, at_unix_milliseconds }
    }
}

/// Names the kind of leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
enum RestorationMark {
    #[default]
    #[serde(rename = "restoration")]
    Restoration,
}

/// A restoration of the server's database to the leaves before this one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RestorationRecord {
    record: RestorationMark,
    /// Digest of the payload of the signed [`crate::signed::Restoration`], hex.
    pub statement: String,
}

impl RestorationRecord {
    /// Creates the leaf of a statement with this digest.
    pub const fn new(statement: String) -> Self {
        Self { record: RestorationMark::Restoration, statement }
    }
}

/// Names the kind of leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
enum WorkerKeyMark {
    #[default]
    #[serde(rename = "worker_key")]
    WorkerKey,
}

/// An event in the life of a worker's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyEvent {
    /// The worker enrolled with the key.
    Enrolled,
    /// The key follows the worker's key until then.
    Rotated,
    /// The worker with the key was retired: the key can no longer sign in.
    Retired,
    /// The retired worker was restored with the key.
    Restored,
    /// The retired worker with the key was replaced by another worker.
    Replaced,
}

impl KeyEvent {
    /// Returns whether the key may sign after the event.
    pub const fn is_active(self) -> bool {
        matches!(self, Self::Enrolled | Self::Rotated | Self::Restored)
    }
}

/// An event of a worker's key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerKeyRecord {
    record: WorkerKeyMark,
    /// The worker.
    pub worker: Uuid,
    /// Its organization.
    pub organization: Uuid,
    /// Position in the worker's events, from 1.
    pub number: i64,
    /// The event.
    pub event: KeyEvent,
    /// The Ed25519 public key of the event, hex.
    pub public_key: String,
    /// Time of the event, milliseconds since 1970 UTC.
    pub at_unix_milliseconds: i64,
}

impl WorkerKeyRecord {
    /// Creates the leaf of an event of a worker's key.
    pub const fn new(
        [worker, organization]: [Uuid; 2],
        number: i64,
        event: KeyEvent,
        public_key: String,
        at_unix_milliseconds: i64,
    ) -> Self {
        let record = WorkerKeyMark::WorkerKey;
        Self { record, worker, organization, number, event, public_key, at_unix_milliseconds }
    }
}

/// Names the kind of leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
enum AuditMark {
    #[default]
    #[serde(rename = "audit")]
    Audit,
}

/// An entry of an audit log, by a salted digest: the entry can be erased without a trace of its content in the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditRecord {
    record: AuditMark,
    /// `server`, `consortium` or `organization`.
    pub place: String,
    /// The place's id; nil for the server.
    pub place_id: Uuid,
    /// The entry's number in the place's log, from 1.
    pub number: i64,
    /// [`AuditRecord::commit`] of the entry, hex.
    pub digest: String,
}

impl AuditRecord {
    /// Creates the leaf of an entry.
    pub fn new(place: &str, place_id: Uuid, number: i64, digest: &str) -> Self {
        Self { record: AuditMark::Audit, place: place.to_owned(), place_id, number, digest: digest.to_owned() }
    }

    /// Returns SHA-256(salt ‖ content), hex, where `content` is [`crate::audit_log::AuditEntry::content`].
    pub fn commit(salt: &[u8], content: &str) -> String {
        hex::encode(Sha256::new_with_prefix(salt).chain_update(content.as_bytes()).finalize())
    }
}

/// Serializes a leaf. Plain strings and numbers always have a JSON form; the hash of the empty text would verify
/// nowhere.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::{
        AccountRecord, AuditRecord, EntryRecord, KeyEvent, LeafError, LimitRecord, LogLeaf, RestorationRecord,
        WorkerKeyRecord,
    };

    fn entry() -> EntryRecord {
        EntryRecord {
            previous: "00".repeat(32),
            account: Uuid::nil(),
            sequence: 1,
            kind: "commit".to_owned(),
            job: Uuid::nil(),
            dataset: Uuid::nil(),
            series: Some("private".to_owned()),
            round: Some(1),
            attempt: Some(1),
            event: r#"{"event":"non_private"}"#.to_owned(),
            count: 1,
            evaluator: "rdp-1".to_owned(),
            receipt: None,
            certificate: None,
            at_unix_milliseconds: 0,
        }
    }

    #[test]
    fn leaves_survive_parsing() {
        let leaves = [
            LogLeaf::Entry(entry()),
            LogLeaf::Account(AccountRecord::new([Uuid::nil(); 3], ["record", "add_remove", "insider"], 7)),
            LogLeaf::Limit(LimitRecord::new([Uuid::nil(); 3], [0.1 + 0.2, 1e-6], "{}", 7)),
            LogLeaf::Restoration(RestorationRecord::new("00".repeat(32))),
            LogLeaf::WorkerKey(WorkerKeyRecord::new([Uuid::nil(); 2], 2, KeyEvent::Rotated, "ab".repeat(32), 7)),
            LogLeaf::Audit(AuditRecord::new("server", Uuid::nil(), 1, &AuditRecord::commit(&[1; 32], "entry"))),
        ];
        for leaf in leaves {
            assert_eq!(LogLeaf::parse(&leaf.content()), Ok(leaf));
        }
    }

    #[test]
    fn entry_without_a_certificate_keeps_its_bytes() {
        let before = format!(
            r#"{{"previous":"{}","account":"{nil}","sequence":1,"kind":"commit","job":"{nil}","dataset":"{nil}","series":"private","round":1,"attempt":1,"event":"{{\"event\":\"non_private\"}}","count":1,"evaluator":"rdp-1","receipt":null,"at_unix_milliseconds":0}}"#,
            "00".repeat(32),
            nil = Uuid::nil(),
        );
        assert_eq!(entry().content(), before);
        assert_eq!(entry().hash(), "0fef1c65cf18daafbe3f02ff540009096467c9711fe1039c65ba83a87470516d");
        let certified = EntryRecord { certificate: Some(r#"{"covers":9}"#.to_owned()), ..entry() };
        assert_eq!(LogLeaf::parse(&certified.content()), Ok(LogLeaf::Entry(certified.clone())));
        assert_ne!(certified.hash(), entry().hash());
        assert!(certified.content().ends_with(r#""certificate":"{\"covers\":9}","at_unix_milliseconds":0}"#));
    }

    #[test]
    fn commitment_with_another_salt_or_content_differs() {
        let commitment = AuditRecord::commit(&[1; 32], "entry");
        assert_ne!(commitment, AuditRecord::commit(&[2; 32], "entry"));
        assert_ne!(commitment, AuditRecord::commit(&[1; 32], "entrY"));
    }

    #[test]
    fn the_same_words_in_another_form_are_no_leaf() {
        let content = LogLeaf::Entry(entry()).content();
        assert_eq!(LogLeaf::parse(&content.replacen("\"sequence\":1", "\"sequence\": 1", 1)), Err(LeafError::Form));
        let mut more = content.clone();
        more.insert_str(1, "\"also\":1,");
        assert!(matches!(LogLeaf::parse(&more), Err(LeafError::Unknown(_))));
        let (head, tail) = content.split_at(content.len() - 1);
        assert!(LogLeaf::parse(&format!("{head},\"count\":0{tail}")).is_err(), "a field told twice");
    }
}
