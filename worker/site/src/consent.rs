//! Stewards' consent: the approval keys that this site pins, and the verification of stewards' signatures on manifests.
//!
//! Keys are pinned and removed only at the site's terminal. The server delivers approvals and cannot make one; its
//! statement that a steward approved is not consent. A verified approval is stored and stays valid while its key is
//! pinned.

use rusqlite::{OptionalExtension as _, params};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use undertone_api::id::{DatasetId, JobId};
use undertone_api::job::PartyTerms;
use undertone_api::signed::{ApprovalError, ApprovalKey, KeyFingerprint, MOST_APPROVAL_KEYS, SignedApproval};
use uuid::Uuid;

use super::store::{Store, StoreError};

/// The message when no key is pinned, with the remedy.
pub const NO_KEYS: &str = "this site verifies stewards' signatures and has pinned no approval key: pin one at this site with \
                           `undertone-worker approval-keys add`, or set `approval = \"server\"` in policy.toml to trust the \
                           server's word";
/// The message when the server's statement does not suffice, with the remedy.
pub const NO_SIGNATURE: &str = "the server says that a steward approved the job and brought no signature: have a steward \
                                approve it with a pinned key, approve it at this site with `undertone-worker approve`, or set \
                                `approval = \"server\"` in policy.toml to trust the server's word";

/// A pinned key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinnedKey {
    /// The key.
    pub key: ApprovalKey,
    /// The owner's label, chosen by the site's operator.
    pub label: String,
    /// The time of pinning (RFC 3339).
    pub at: String,
}

/// A change of a steward's credentials, as stated by the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialNotice {
    /// Id; later notices have greater ids.
    pub id: Uuid,
    /// The event, as a sentence.
    pub text: String,
    /// The time of the event.
    pub at: OffsetDateTime,
}

/// The longest stored text of a notice, in characters.
const LONGEST_NOTICE: usize = 500;
/// Most notices that a site keeps.
pub const MOST_NOTICES: u64 = 10_000;

/// The fate of a notice that the server brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoticeOutcome {
    /// It is new, and is kept.
    Kept,
    /// It was kept before.
    Known,
    /// The site keeps [`MOST_NOTICES`] already, and not this one.
    Full,
}

/// Returns the id of the newest stored notice; empty when there is none.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn last_notice(store: &Store) -> Result<String, StoreError> {
    let last: Option<String> = store.read(|db| {
        db.query_row("SELECT max(id) FROM credential_notice", [], |row| row.get(0))
            .map_err(StoreError::sqlite("read notices"))
    })?;
    Ok(last.unwrap_or_default())
}

/// Keeps a notice, up to [`MOST_NOTICES`] of them; its text is cut to 500 characters and loses what is no printable character.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn keep_notice(store: &Store, notice: &CredentialNotice, now: OffsetDateTime) -> Result<NoticeOutcome, StoreError> {
    keep_within(store, notice, now, MOST_NOTICES)
}

fn keep_within(
    store: &Store,
    notice: &CredentialNotice,
    now: OffsetDateTime,
    most: u64,
) -> Result<NoticeOutcome, StoreError> {
    let text: String = notice.text.chars().filter(|c| !c.is_control()).take(LONGEST_NOTICE).collect();
    let at = notice.at.format(&Rfc3339).map_err(StoreError::row)?;
    let now = now.format(&Rfc3339).map_err(StoreError::row)?;
    let id = notice.id.to_string();
    store.write(|tx| {
        let is_known: bool = tx
            .query_row("SELECT EXISTS (SELECT 1 FROM credential_notice WHERE id = ?1)", [&id], |row| row.get(0))
            .map_err(StoreError::sqlite("read notices"))?;
        if is_known {
            return Ok(NoticeOutcome::Known);
        }
        let count: i64 = tx
            .query_row("SELECT count(*) FROM credential_notice", [], |row| row.get(0))
            .map_err(StoreError::sqlite("count notices"))?;
        if count.unsigned_abs() >= most {
            return Ok(NoticeOutcome::Full);
        }
        tx.execute(
            "INSERT INTO credential_notice (id, text, at, seen_at) VALUES (?1, ?2, ?3, ?4)",
            params![id, text, at, now],
        )
        .map(|_| NoticeOutcome::Kept)
        .map_err(StoreError::sqlite("keep a notice"))
    })
}

/// Returns the notices that arrived since `since`, newest first, each with the day of its arrival.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn notices_since(store: &Store, since: OffsetDateTime) -> Result<Vec<(String, String)>, StoreError> {
    let since = since.format(&Rfc3339).map_err(StoreError::row)?;
    store.read(|db| {
        db.prepare("SELECT substr(seen_at, 1, 10), text FROM credential_notice WHERE seen_at >= ?1 ORDER BY id DESC")
            .and_then(|mut statement| statement.query_map([since], |row| Ok((row.get(0)?, row.get(1)?)))?.collect())
            .map_err(StoreError::sqlite("read notices"))
    })
}

/// Reasons why a key cannot be pinned.
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    /// The key is invalid.
    #[error(transparent)]
    Key(#[from] ApprovalError),
    /// The limit is reached.
    #[error("this site pins {MOST_APPROVAL_KEYS} approval keys already: remove one first")]
    TooMany,
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The state of a steward's consent to a manifest.
#[derive(Debug, Clone, PartialEq)]
pub enum StewardConsent {
    /// A steward signed the approval with this pinned key, and with this answer to the manifest's open terms.
    Given(KeyFingerprint, PartyTerms),
    /// There is no signature to verify, or no key to verify it with.
    Missing(&'static str),
    /// The server delivered an invalid approval of this manifest.
    Invalid(String),
}

/// Returns the pinned keys, oldest first.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn pinned_keys(store: &Store) -> Result<Vec<PinnedKey>, StoreError> {
    let sql = "SELECT key, label, at FROM approval_key WHERE pinned AND id IN
        (SELECT max(id) FROM approval_key GROUP BY fingerprint) ORDER BY id";
    let rows: Vec<[String; 3]> = store.read(|db| {
        db.prepare(sql)
            .and_then(|mut statement| {
                let rows = statement.query_map([], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]))?;
                rows.collect()
            })
            .map_err(StoreError::sqlite("read approval keys"))
    })?;
    rows.into_iter()
        .map(|[key, label, at]| Ok(PinnedKey { key: serde_json::from_str(&key).map_err(StoreError::row)?, label, at }))
        .collect()
}

/// Pins a key; returns false when it is pinned already.
///
/// # Errors
/// [`PinError`] when the key is invalid, too many are pinned, or the database fails.
pub fn pin_key(store: &Store, key: &ApprovalKey, label: &str, at: OffsetDateTime) -> Result<bool, PinError> {
    key.check()?;
    let pinned = pinned_keys(store)?;
    if pinned.iter().any(|pinned| pinned.key == *key) {
        return Ok(false);
    }
    if pinned.len() >= MOST_APPROVAL_KEYS {
        return Err(PinError::TooMany);
    }
    note_key(store, key, label, true, at)?;
    Ok(true)
}

/// Removes the key with this fingerprint; returns `None` when it is not pinned.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn remove_key(store: &Store, fingerprint: &str, at: OffsetDateTime) -> Result<Option<PinnedKey>, StoreError> {
    let key = pinned_keys(store)?.into_iter().find(|pinned| pinned.key.fingerprint().as_str() == fingerprint);
    if let Some(pinned) = &key {
        note_key(store, &pinned.key, &pinned.label, false, at)?;
    }
    Ok(key)
}

fn note_key(store: &Store, key: &ApprovalKey, label: &str, pinned: bool, at: OffsetDateTime) -> Result<(), StoreError> {
    let text = serde_json::to_string(key).map_err(StoreError::row)?;
    let at = at.format(&Rfc3339).map_err(StoreError::row)?;
    store.write(|tx| {
        tx.execute(
            "INSERT INTO approval_key (fingerprint, pinned, key, label, at) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![key.fingerprint().as_str(), pinned, text, label, at],
        )
        .map(|_| ())
        .map_err(StoreError::sqlite("note an approval key"))
    })
}

/// Decides whether a steward approved exactly this manifest for this dataset, by a stored approval or by the one in
/// `brought`. A valid approval in `brought` is stored.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn judge(
    store: &Store,
    manifest: &str,
    job: JobId,
    dataset: DatasetId,
    brought: Option<&SignedApproval>,
    now: OffsetDateTime,
) -> Result<StewardConsent, StoreError> {
    let keys: Vec<ApprovalKey> = pinned_keys(store)?.into_iter().map(|pinned| pinned.key).collect();
    if keys.is_empty() {
        return Ok(StewardConsent::Missing(NO_KEYS));
    }
    for kept in stored_approvals(store, manifest, job, dataset)? {
        if let Ok((key, terms)) = kept.approves(manifest, job, dataset, &keys) {
            return Ok(StewardConsent::Given(key, terms));
        }
    }
    let Some(brought) = brought else { return Ok(StewardConsent::Missing(NO_SIGNATURE)) };
    match brought.approves(manifest, job, dataset, &keys) {
        Ok((key, terms)) => {
            keep_approval(store, manifest, job, dataset, brought, &key, now)?;
            Ok(StewardConsent::Given(key, terms))
        }
        Err(problem) => {
            Ok(StewardConsent::Invalid(format!("the approval that the server brought is not valid: {problem}")))
        }
    }
}

/// Returns the key with which a steward approved this manifest, if an approval of it is stored.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn approved_with(
    store: &Store,
    manifest: &str,
    job: JobId,
    dataset: DatasetId,
) -> Result<Option<KeyFingerprint>, StoreError> {
    let sql = "SELECT fingerprint FROM steward_approval WHERE job = ?1 AND dataset = ?2 AND manifest = ?3 ORDER BY at LIMIT 1";
    let row: Option<String> = store.read(|db| {
        db.query_row(sql, params![job.to_string(), dataset.to_string(), manifest], |row| row.get(0))
            .optional()
            .map_err(StoreError::sqlite("read an approval"))
    })?;
    Ok(row.map(|text| KeyFingerprint::from_stored(&text)))
}

fn stored_approvals(
    store: &Store,
    manifest: &str,
    job: JobId,
    dataset: DatasetId,
) -> Result<Vec<SignedApproval>, StoreError> {
    let sql = "SELECT approval FROM steward_approval WHERE job = ?1 AND dataset = ?2 AND manifest = ?3";
    let rows: Vec<String> = store.read(|db| {
        db.prepare(sql)
            .and_then(|mut statement| {
                let parameters = params![job.to_string(), dataset.to_string(), manifest];
                statement.query_map(parameters, |row| row.get(0))?.collect()
            })
            .map_err(StoreError::sqlite("read approvals"))
    })?;
    rows.iter().map(|text| serde_json::from_str(text).map_err(StoreError::row)).collect()
}

fn keep_approval(
    store: &Store,
    manifest: &str,
    job: JobId,
    dataset: DatasetId,
    approval: &SignedApproval,
    key: &KeyFingerprint,
    now: OffsetDateTime,
) -> Result<(), StoreError> {
    let text = serde_json::to_string(approval).map_err(StoreError::row)?;
    let at = now.format(&Rfc3339).map_err(StoreError::row)?;
    store.write(|tx| {
        tx.execute(
            "INSERT INTO steward_approval (job, dataset, manifest, fingerprint, approval, at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING",
            params![job.to_string(), dataset.to_string(), manifest, key.as_str(), text, at],
        )
        .map(|_| ())
        .map_err(StoreError::sqlite("keep an approval"))
    })
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::SigningKey;
    use time::OffsetDateTime;
    use undertone_api::job::PartyTerms;
    use undertone_api::signed::{ApprovalKey, ApprovalStatement, MOST_APPROVAL_KEYS, SignedApproval};

    use super::{
        CredentialNotice, NO_KEYS, NO_SIGNATURE, NoticeOutcome, PinError, StewardConsent, approved_with, judge,
        keep_notice, keep_within, last_notice, notices_since, pin_key, pinned_keys, remove_key,
    };
    use crate::store::Store;
    use crate::testing::{JOB, OURS};

    const AT: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;

    fn store() -> (tempfile::TempDir, Store) {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let store = Store::create(&dir.path().join("ledger.db")).expect("the folder is writable");
        (dir, store)
    }

    fn key(seed: u8) -> (SigningKey, ApprovalKey) {
        let key = SigningKey::from_bytes(&[seed; 32]);
        let public_key = hex::encode(key.verifying_key().to_bytes());
        (key, ApprovalKey::Ed25519 { public_key })
    }

    fn approval(seed: u8, manifest: &str) -> SignedApproval {
        SignedApproval::sign(&ApprovalStatement::approve(manifest, JOB, OURS), &key(seed).0)
            .expect("it has a JSON form")
    }

    fn consent(store: &Store, brought: Option<&SignedApproval>) -> StewardConsent {
        judge(store, "aa", JOB, OURS, brought, AT).expect("it is open")
    }

    #[test]
    fn without_a_pinned_key_no_signature_is_consent() {
        let (_dir, store) = store();
        assert_eq!(consent(&store, Some(&approval(1, "aa"))), StewardConsent::Missing(NO_KEYS));
        assert!(NO_KEYS.contains("approval-keys add") && NO_KEYS.contains("approval = \"server\""), "both remedies");
    }

    #[test]
    fn verified_approval_is_kept_while_its_key_is_pinned() {
        let (_dir, store) = store();
        let public = key(1).1;
        assert!(pin_key(&store, &public, "Ada", AT).expect("it is a key"));
        assert!(!pin_key(&store, &public, "Ada", AT).expect("it is a key"), "once");
        assert_eq!(consent(&store, None), StewardConsent::Missing(NO_SIGNATURE));
        assert!(matches!(consent(&store, Some(&approval(2, "aa"))), StewardConsent::Invalid(_)));
        assert!(matches!(consent(&store, Some(&approval(1, "bb"))), StewardConsent::Invalid(_)));
        let expected = StewardConsent::Given(public.fingerprint(), PartyTerms::default());
        assert_eq!(consent(&store, Some(&approval(1, "aa"))), expected);
        assert_eq!(approved_with(&store, "aa", JOB, OURS).expect("it is open"), Some(public.fingerprint()));
        // The server delivers another approval, or none, the next time.
        assert_eq!(
            (consent(&store, None), consent(&store, Some(&approval(2, "aa")))),
            (expected.clone(), expected.clone())
        );
        let removed = remove_key(&store, public.fingerprint().as_str(), AT).expect("it is open");
        assert_eq!(removed.map(|removed| removed.label), Some("Ada".to_owned()));
        assert_eq!(consent(&store, None), StewardConsent::Missing(NO_KEYS));
        assert_eq!(remove_key(&store, public.fingerprint().as_str(), AT).expect("it is open"), None);
        assert!(pin_key(&store, &public, "Ada", AT).expect("it is a key"), "it may be pinned again");
        assert_eq!(consent(&store, None), expected);
    }

    #[test]
    fn notice_is_kept_once_and_without_control_characters() {
        let (_dir, store) = store();
        let text = format!("The password of Ada\n\u{1b}[2J was reset. {}", "x".repeat(600));
        let notice = CredentialNotice { id: uuid::Uuid::from_u128(1), text, at: AT };
        assert_eq!(keep_notice(&store, &notice, AT).expect("it is open"), NoticeOutcome::Kept);
        assert_eq!(keep_notice(&store, &notice, AT).expect("it is open"), NoticeOutcome::Known);
        assert_eq!(last_notice(&store).expect("it is open"), notice.id.to_string());
        let notices = notices_since(&store, AT).expect("it is open");
        assert!(
            notices.len() == 1 && notices[0].1.len() == 500 && !notices[0].1.contains(char::is_control),
            "{notices:?}"
        );
    }

    #[test]
    fn notices_beyond_the_limit_are_not_kept() {
        let (_dir, store) = store();
        let notice = |id| CredentialNotice { id: uuid::Uuid::from_u128(id), text: "reset".to_owned(), at: AT };
        let outcomes = [1, 2, 3, 2].map(|id| keep_within(&store, &notice(id), AT, 2).expect("it is open"));
        let expected = [NoticeOutcome::Kept, NoticeOutcome::Kept, NoticeOutcome::Full, NoticeOutcome::Known];
        assert_eq!(outcomes, expected);
        assert_eq!(notices_since(&store, AT).expect("it is open").len(), 2);
    }

    #[test]
    fn site_pins_no_more_than_sixteen_keys() {
        let (_dir, store) = store();
        for seed in 0..MOST_APPROVAL_KEYS {
            assert!(pin_key(&store, &key(seed as u8 + 1).1, "", AT).expect("there is room"));
        }
        assert!(matches!(pin_key(&store, &key(99).1, "", AT), Err(PinError::TooMany)));
        assert_eq!(pinned_keys(&store).expect("it is open").len(), 16);
    }
}
