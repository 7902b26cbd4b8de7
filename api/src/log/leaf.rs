//! What a leaf of the log says: JSON in one form only, so that a hash names one meaning.
//!
//! Columns that are words or JSON at the server stand here as the text that is stored, not as what this version of the
//! programs makes of it: an old log is checked by new programs.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

/// Why a text is not believed to be a leaf.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LeafError {
    /// It is no leaf that this version knows.
    #[error("the leaf is none that this version knows: {0}")]
    Unknown(String),
    /// It says something, but in another form than the one that is hashed.
    #[error("the leaf is not in the one form that is hashed")]
    Form,
}

/// A leaf.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Leaf {
    /// A row of an account's ledger.
    Entry(Entry),
    /// An account began.
    Account(Account),
    /// A steward set an account's limit.
    Limit(Limit),
}

impl Leaf {
    /// The text that is hashed.
    pub fn content(&self) -> String {
        match self {
            Self::Entry(entry) => entry.content(),
            Self::Account(account) => json(account),
            Self::Limit(limit) => json(limit),
        }
    }

    /// Reads a leaf from the text that is hashed.
    ///
    /// # Errors
    /// [`LeafError`] when it is none, or not written as [`Leaf::content`] writes it.
    pub fn parse(content: &str) -> Result<Self, LeafError> {
        let leaf: Self = serde_json::from_str(content).map_err(|error| LeafError::Unknown(error.to_string()))?;
        if leaf.content() == content { Ok(leaf) } else { Err(LeafError::Form) }
    }

    /// The account it is about.
    pub const fn account(&self) -> Uuid {
        match self {
            Self::Entry(entry) => entry.account,
            Self::Account(account) => account.account,
            Self::Limit(limit) => limit.account,
        }
    }
}

/// A row of an account's ledger: reserve, commit or settle. Rows of one account form a chain of their own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
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
    /// How many such releases.
    pub count: i64,
    /// Version of the code that priced it.
    pub evaluator: String,
    /// Digest of the receipt of a commit, hex.
    pub receipt: Option<String>,
    /// When, in milliseconds since 1970 UTC.
    pub at_unix_milliseconds: i64,
}

impl Entry {
    /// The text that is hashed, by the account's chain and by the log: these fields in this order for ever.
    pub fn content(&self) -> String {
        json(self)
    }

    /// The hash by which the next row of the account names this one: SHA-256 of the content, hex.
    pub fn hash(&self) -> String {
        hex::encode(Sha256::digest(self.content().as_bytes()))
    }
}

/// Says which kind of leaf it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
enum AccountMark {
    #[default]
    #[serde(rename = "account")]
    Account,
}

/// An account began: what it is kept for never changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Account {
    record: AccountMark,
    /// The account.
    pub account: Uuid,
    /// The party.
    pub organization: Uuid,
    /// The line of versions of its dataset.
    pub lineage: Uuid,
    /// Who is protected.
    pub unit: String,
    /// Against which change.
    pub adjacency: String,
    /// Against whom.
    pub observer: String,
    /// When, in milliseconds since 1970 UTC.
    pub at_unix_milliseconds: i64,
}

impl Account {
    /// A leaf for an account.
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

/// Says which kind of leaf it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
enum LimitMark {
    #[default]
    #[serde(rename = "limit")]
    Limit,
}

/// A steward set an account's limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
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
    /// When, in milliseconds since 1970 UTC.
    pub at_unix_milliseconds: i64,
}

impl Limit {
    /// A leaf for a decision on a limit.
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

/// Plain strings and numbers always have a JSON form; without one the hash of nothing would verify nowhere.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::{Account, Entry, Leaf, LeafError, Limit};

    fn entry() -> Entry {
        Entry {
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
            at_unix_milliseconds: 0,
        }
    }

    #[test]
    fn every_leaf_is_read_back_as_what_it_is() {
        let leaves = [
            Leaf::Entry(entry()),
            Leaf::Account(Account::new([Uuid::nil(); 3], ["record", "add_remove", "insider"], 7)),
            Leaf::Limit(Limit::new([Uuid::nil(); 3], [0.1 + 0.2, 1e-6], "{}", 7)),
        ];
        for leaf in leaves {
            assert_eq!(Leaf::parse(&leaf.content()), Ok(leaf));
        }
    }

    #[test]
    fn the_same_words_in_another_form_are_no_leaf() {
        let content = Leaf::Entry(entry()).content();
        assert_eq!(Leaf::parse(&content.replacen("\"sequence\":1", "\"sequence\": 1", 1)), Err(LeafError::Form));
        let mut more = content.clone();
        more.insert_str(1, "\"also\":1,");
        assert!(matches!(Leaf::parse(&more), Err(LeafError::Unknown(_))));
        let (head, tail) = content.split_at(content.len() - 1);
        assert!(Leaf::parse(&format!("{head},\"count\":0{tail}")).is_err(), "a field told twice");
    }
}
