use super::{OutboxError, ReleaseOutbox, ReleaseProgress, StoredRelease, refer};
use crate::store::{Store, StoreError};
use crate::testing::{JOB, OURS};

fn outbox() -> (tempfile::TempDir, Store, ReleaseOutbox) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let store = Store::create(&dir.path().join("ledger.db")).expect("the folder is writable");
    let outbox = ReleaseOutbox::new(JOB, OURS, &dir.path().join("work"));
    (dir, store, outbox)
}

/// Stores a release of public data and its reference.
fn keep(outbox: &ReleaseOutbox, store: &Store, bytes: &[u8]) -> StoredRelease {
    let release = outbox.store("private", 1, bytes, 1).expect("the disk has room");
    assert!(store.write(|tx| refer(tx, &release, None)).expect("it is open"));
    release
}

fn state(outbox: &ReleaseOutbox, store: &Store) -> ReleaseProgress {
    outbox.state(store, "private", 1).expect("it is open")
}

/// Writes a receipt of the round, with the fields that the outbox reads.
fn receipt(store: &Store, sequence: u32) {
    let payload = format!("{{\"job\":\"{JOB}\",\"dataset\":\"{OURS}\",\"series\":\"private\",\"round\":1}}");
    let written = store.write(|tx| {
        let row = (sequence, payload.as_str(), format!("digest {sequence}"));
        tx.execute("INSERT INTO receipt (sequence, payload, signature, digest) VALUES (?1, ?2, '', ?3)", row)
            .map_err(StoreError::sqlite("write a receipt"))
    });
    assert_eq!(written.expect("it is open"), 1);
}

#[test]
fn stored_release_is_sent_again_bit_for_bit_once_referred_to() {
    let (_dir, store, outbox) = outbox();
    let bits: Vec<u8> = [1.5_f32, -0.0, f32::MIN_POSITIVE].iter().flat_map(|value| value.to_le_bytes()).collect();
    assert_eq!(state(&outbox, &store), ReleaseProgress::Nothing);
    let release = outbox.store("private", 1, &bits, 3).expect("the disk has room");
    assert_eq!(state(&outbox, &store), ReleaseProgress::Unpaid(release.clone()));
    assert!(matches!(outbox.parcel(&store, "private", 1), Err(OutboxError::Missing { .. })), "nothing pays for it");
    assert!(store.write(|tx| refer(tx, &release, None)).expect("it is open"));
    assert_eq!(state(&outbox, &store), ReleaseProgress::Stored);
    let parcel = outbox.parcel(&store, "private", 1).expect("it is kept");
    assert_eq!((parcel.bytes, parcel.length, parcel.receipt), (bits, 3, None));
    outbox.mark_accepted(&store, "private", 1, &[]).expect("it is open");
    assert_eq!(state(&outbox, &store), ReleaseProgress::Accepted);
}

#[test]
fn damaged_release_is_never_sent() {
    let (_dir, store, outbox) = outbox();
    keep(&outbox, &store, &[1, 2, 3, 4]);
    std::fs::write(outbox.file("private", 1), [0, 0, 0, 0]).expect("it is there");
    assert_eq!(state(&outbox, &store), ReleaseProgress::Gone);
    assert!(matches!(outbox.parcel(&store, "private", 1), Err(OutboxError::Damaged(_))));
    std::fs::remove_file(outbox.file("private", 1)).expect("it is there");
    assert_eq!(state(&outbox, &store), ReleaseProgress::Gone);
}

#[test]
fn file_that_no_row_refers_to_is_not_nothing() {
    let (_dir, store, outbox) = outbox();
    std::fs::create_dir_all(&outbox.folder).expect("the folder is writable");
    // The file of an older worker, which paid first: with an older copy of the ledger, the release may have left.
    std::fs::write(outbox.file("private", 1), [1, 2, 3, 4]).expect("the folder is writable");
    assert_eq!(state(&outbox, &store), ReleaseProgress::Lost);
}

#[test]
fn receipt_without_a_reference_is_lost() {
    let (_dir, store, outbox) = outbox();
    let release = outbox.store("private", 1, &[1, 2, 3, 4], 1).expect("the disk has room");
    receipt(&store, 1);
    assert_eq!(state(&outbox, &store), ReleaseProgress::Lost);
    receipt(&store, 2);
    assert!(!store.write(|tx| refer(tx, &release, Some(2))).expect("it is open"), "nothing is paid a second time");
}

#[test]
fn accepted_release_is_never_replaced() {
    let (_dir, store, outbox) = outbox();
    keep(&outbox, &store, &[1, 2, 3, 4]);
    outbox.mark_accepted(&store, "private", 1, &[]).expect("it is open");
    let other = outbox.store("private", 1, &[5, 6, 7, 8], 1).expect("the disk has room");
    assert!(!store.write(|tx| refer(tx, &other, None)).expect("it is open"));
    assert_eq!(state(&outbox, &store), ReleaseProgress::Accepted);
}

#[test]
fn uncountersigned_release_is_never_sent() {
    let (_dir, store, outbox) = outbox();
    let release = outbox.store("private", 1, &[1, 2, 3, 4], 1).expect("the disk has room");
    receipt(&store, 1);
    assert!(store.write(|tx| refer(tx, &release, Some(1))).expect("it is open"));
    assert_eq!(state(&outbox, &store), ReleaseProgress::Stored);
    assert!(matches!(outbox.parcel(&store, "private", 1), Err(OutboxError::NotCountersigned { .. })));
}

#[test]
fn cleared_outbox_leaves_no_file() {
    let (dir, store, outbox) = outbox();
    keep(&outbox, &store, &[1, 2, 3, 4]);
    outbox.clear().expect("it is ours");
    outbox.clear().expect("nothing to remove is fine");
    assert!(!dir.path().join("work/outbox").exists());
}
