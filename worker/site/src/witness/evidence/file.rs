//! Verifies an exported file on any machine, from its content and the keys that its reader already knows. It needs no
//! site, no database and no network.
//!
//! A receipt is verified with the key that the site had when it signed it. The file contains the changes of that key,
//! each signed by the old key and the new, and each with the last receipt of the old one.

use std::path::Path;

use ed25519_dalek::VerifyingKey;
use undertone_api::signed::{Receipt, RotationError, SignedError, SiteKeys, public_key};

use super::{EvidenceError, EvidenceExport, EvidenceSummary, FORMAT, examine};
use crate::ledger::rows::no_receipt;

/// The largest accepted size, bytes: some hundred thousand receipts with their proofs.
const LARGEST: u64 = 1 << 30;

/// Keys that the reader knows from elsewhere; without a key, the one in the file is used.
#[derive(Debug, Clone, Copy, Default)]
pub struct KnownKeys {
    /// A present or former key of the site: from its enrolment, or from the server's bundle.
    pub site_key: Option<VerifyingKey>,
    /// The server's key, from a site's configuration.
    pub server_key: Option<VerifyingKey>,
}

/// The content of a verified file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedFile {
    /// The number of receipts.
    pub receipts: u64,
    /// Digest of the last receipt; empty without one.
    pub last: String,
    /// The number of changes of the site's key.
    pub changes: usize,
    /// The site's present key, hex.
    pub site_key: String,
    /// The server's key in the verification, hex.
    pub server_key: String,
    /// The verified commitments of the server.
    pub attested: EvidenceSummary,
    /// The number of alarms raised at the site, and the number of uncleared ones.
    pub alarms: (usize, usize),
}

/// Reasons why a file fails verification.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file cannot be read.
    #[error("the file cannot be read: {0}")]
    Read(#[from] std::io::Error),
    /// The file has another format.
    #[error("this is no file that `undertone-worker ledger export` wrote: {0}")]
    Form(String),
    /// The file belongs to another site or server.
    #[error("the {whose}'s key in it is not the one that was given: this is of another {whose}")]
    Stranger {
        /// The owner of the key: `site` or `server`.
        whose: &'static str,
    },
    /// A key is invalid.
    #[error("a key in it is none")]
    Key(#[from] SignedError),
    /// The changes of the site's key are invalid.
    #[error("the chain of the site's keys does not hold")]
    Keys(#[from] RotationError),
    /// A receipt is invalid.
    #[error("receipt {number} {problem}")]
    Receipt {
        /// The receipt's number.
        number: u64,
        /// The problem.
        problem: String,
    },
    /// The server's documents are invalid.
    #[error(transparent)]
    Evidence(#[from] EvidenceError),
}

/// Reads a file and verifies it.
///
/// # Errors
/// [`FileError`] with the first defect.
pub fn read(path: &Path, known: KnownKeys) -> Result<VerifiedFile, FileError> {
    let size = std::fs::metadata(path)?.len();
    if size > LARGEST {
        return Err(FileError::Form(format!("it has {size} bytes, and {LARGEST} are the most that are read")));
    }
    verify(&std::fs::read_to_string(path)?, known)
}

/// Verifies an export: the chain of the site's keys, every receipt with the key of its time, the chain of receipts, and
/// the server's signatures for them.
///
/// # Errors
/// [`FileError`] with the first defect.
pub fn verify(text: &str, known: KnownKeys) -> Result<VerifiedFile, FileError> {
    let export: EvidenceExport = serde_json::from_str(text).map_err(|error| FileError::Form(error.to_string()))?;
    if export.format != FORMAT {
        return Err(FileError::Form(format!("its format is `{}`, not `{FORMAT}`", export.format)));
    }
    let (site_key, server_key) = (public_key(&export.site_key)?, public_key(&export.server_key)?);
    if known.server_key.is_some_and(|known| known != server_key) {
        return Err(FileError::Stranger { whose: "server" });
    }
    let keys = SiteKeys::leading_to(site_key, &export.rotations)?;
    let changes =
        export.rotations.iter().map(undertone_api::signed::KeyRotation::open).collect::<Result<Vec<_>, _>>()?;
    if let Some(known) = known.site_key {
        let key = hex::encode(known.as_bytes());
        if export.site_key != key && changes.iter().all(|change| change.old != key) {
            return Err(FileError::Stranger { whose: "site" });
        }
    }
    let (mut previous, mut worker) = (no_receipt(), changes.first().map(|change| change.worker));
    let mut changed = changes.iter().peekable();
    for (signed, number) in export.receipts.iter().zip(1_u64..) {
        let wrong = |problem: &str| FileError::Receipt { number, problem: problem.to_owned() };
        while let Some(change) = changed.next_if(|change| change.receipts < number) {
            if change.last != previous {
                return Err(wrong("does not follow the one that the change of the site's key names"));
            }
        }
        let receipt: Receipt =
            signed.open(keys.key_of_receipt(number)).map_err(|error| wrong(&format!("does not hold: {error}")))?;
        if receipt.sequence != number || receipt.previous != previous {
            return Err(wrong("does not follow the one before it"));
        }
        if *worker.get_or_insert(receipt.worker) != receipt.worker {
            return Err(wrong("is of another worker"));
        }
        previous = signed.digest();
    }
    let receipts = export.receipts.len() as u64;
    if let Some(change) = changed.find(|change| change.receipts > receipts || change.last != previous) {
        let problem = "is missing, or another: a change of the site's key names it".to_owned();
        return Err(FileError::Receipt { number: change.receipts, problem });
    }
    let EvidenceExport { epoch, heads, countersignatures, proofs, alarms, .. } = &export;
    let attested = examine(*epoch, &export.receipts, heads, countersignatures, proofs, &server_key)?;
    Ok(VerifiedFile {
        receipts,
        last: if receipts == 0 { String::new() } else { previous },
        changes: changes.len(),
        site_key: export.site_key.clone(),
        server_key: export.server_key.clone(),
        attested,
        alarms: (alarms.len(), alarms.iter().filter(|alarm| alarm.cleared.is_none()).count()),
    })
}

#[cfg(test)]
mod tests {
    use time::OffsetDateTime;
    use undertone_api::dataset::Visibility;
    use undertone_api::signed::{KeyRotation, public_key};
    use undertone_privacy::Event;

    use super::{EvidenceExport, FileError, KnownKeys, LARGEST, read, verify};
    use crate::folder::Folder;
    use crate::keys::SiteKey;
    use crate::rotation::{finish, prepare};
    use crate::store::Store;
    use crate::testing::{WORKER, gaussian, ledger_at, release_context, server_key, stored_release};

    struct EvidenceSite {
        _dir: tempfile::TempDir,
        folder: Folder,
        store: Store,
    }

    impl EvidenceSite {
        fn new() -> Self {
            let dir = tempfile::tempdir().expect("a temporary folder");
            let folder = Folder::new(dir.path());
            SiteKey::load_or_make(&folder.key()).expect("the folder is writable");
            let store = Store::create(&folder.ledger()).expect("the folder is writable");
            Self { _dir: dir, folder, store }
        }

        fn release(&self, rounds: std::ops::Range<u32>) {
            let (ledger, job) = (ledger_at(&self.folder), release_context(gaussian(4.0), 10));
            for round in rounds {
                ledger
                    .publish(&job, Visibility::Open, &Event::NonPrivate, &stored_release(&job, "open", round))
                    .expect("the data are open");
            }
        }

        fn rotate(&self) -> KeyRotation {
            let rotation =
                prepare(&self.folder, &self.store, WORKER, OffsetDateTime::UNIX_EPOCH).expect("nothing runs");
            finish(&self.folder, &self.store, &rotation).expect("the server has taken it");
            rotation
        }

        fn public(&self) -> String {
            SiteKey::load(&self.folder.key()).expect("there is one").public_hex()
        }

        fn export(&self) -> String {
            let (key, server) = (self.public(), server_key().verifying_key());
            self.store.read(|db| super::super::export(db, &key, &server)).expect("it is open")
        }
    }

    /// Sets up a site that signed two receipts with its first key, none with its second, and two with its third.
    fn rotated() -> (EvidenceSite, [String; 3]) {
        let site = EvidenceSite::new();
        let first = site.public();
        site.release(1..3);
        site.rotate();
        let second = site.public();
        site.rotate();
        site.release(3..5);
        let third = site.public();
        (site, [first, second, third])
    }

    fn changed(text: &str, change: impl FnOnce(&mut EvidenceExport)) -> String {
        let mut export: EvidenceExport = serde_json::from_str(text).expect("it was exported");
        change(&mut export);
        serde_json::to_string(&export).expect("it has a JSON form")
    }

    #[test]
    fn receipts_of_every_key_verify_from_the_file_alone() {
        let (site, keys) = rotated();
        let text = site.export();
        let file = verify(&text, KnownKeys::default()).expect("every receipt has the key of its time");
        assert_eq!((file.receipts, file.changes, &file.site_key), (4, 2, &keys[2]));
        // Every one of its keys identifies the site.
        for key in &keys {
            let site_key = Some(public_key(key).expect("a key"));
            verify(&text, KnownKeys { site_key, server_key: Some(server_key().verifying_key()) }).expect("it is known");
        }
        let stranger = Some(server_key().verifying_key());
        let refused = verify(&text, KnownKeys { site_key: stranger, server_key: None });
        assert!(matches!(refused, Err(FileError::Stranger { whose: "site" })), "{refused:?}");
        let refused =
            verify(&text, KnownKeys { site_key: None, server_key: Some(public_key(&keys[0]).expect("a key")) });
        assert!(matches!(refused, Err(FileError::Stranger { whose: "server" })), "{refused:?}");
    }

    #[test]
    fn older_receipts_need_the_chain_of_keys() {
        let (site, keys) = rotated();
        let text = site.export();
        let without = changed(&text, |export| export.rotations.clear());
        let refused = verify(&without, KnownKeys::default());
        assert!(matches!(refused, Err(FileError::Receipt { number: 1, .. })), "{refused:?}");
        let part = changed(&text, |export| drop(export.rotations.remove(0)));
        assert!(matches!(verify(&part, KnownKeys::default()), Err(FileError::Keys(_))));
        let older = changed(&text, |export| export.site_key.clone_from(&keys[0]));
        assert!(matches!(verify(&older, KnownKeys::default()), Err(FileError::Keys(_))), "they lead elsewhere");
        let other = EvidenceSite::new();
        let foreign = other.rotate();
        let mixed = changed(&text, |export| export.rotations[1] = foreign);
        assert!(matches!(verify(&mixed, KnownKeys::default()), Err(FileError::Keys(_))));
    }

    #[test]
    fn truncated_moved_or_changed_receipts_are_reported() {
        let (site, _) = rotated();
        let text = site.export();
        let number = |change: &dyn Fn(&mut EvidenceExport)| match verify(&changed(&text, change), KnownKeys::default())
        {
            Err(FileError::Receipt { number, .. }) => number,
            other => panic!("{other:?}"),
        };
        // A change names the last receipt before it, so a missing receipt is detected even at the end.
        assert_eq!(number(&|export| export.receipts.truncate(1)), 2);
        assert_eq!(number(&|export| drop(export.receipts.remove(0))), 1);
        assert_eq!(number(&|export| export.receipts.swap(2, 3)), 3);
        assert_eq!(number(&|export| export.receipts[1].payload.push(' ')), 2);
        assert!(matches!(verify("{}", KnownKeys::default()), Err(FileError::Form(_))));
        let later = changed(&text, |export| export.format = "undertone/site-evidence/2".to_owned());
        assert!(matches!(verify(&later, KnownKeys::default()), Err(FileError::Form(_))));
    }

    #[test]
    fn file_that_is_too_large_is_not_read() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("large.json");
        let file = std::fs::File::create(&path).expect("the folder is writable");
        // The file has no content, only a length.
        file.set_len(LARGEST + 1).expect("the folder is writable");
        let refused = read(&path, KnownKeys::default());
        assert!(matches!(&refused, Err(FileError::Form(why)) if why.contains("the most")), "{refused:?}");
    }
}
