#![expect(clippy::unwrap_used, reason = "memory has room, and what a test writes can be read")]

use std::sync::Arc;

use futures::TryStreamExt as _;
use object_store::ObjectStoreExt as _;
use object_store::memory::InMemory;
use object_store::path::Path;
use time::{Duration, OffsetDateTime};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use undertone_api::id::OrganizationId;
use undertone_api::job::dp_sgd::Precision;
use undertone_proto::vector::{VectorError, VectorForm, write};
use uuid::Uuid;

use super::{
    EXPIRY, LONGEST_HELD, MOST_HELD, ROOM_OF_ORGANIZATION, ResumableUpload, SEGMENT, SPARE_SEGMENTS, UNPACKING,
    UploadForm, UploadPlace,
};
use crate::exchange::object::{ObjectError, Store, digest};
use crate::fairness::{FairQueue, QueueLimits, QueueTimings, WorkOwner};

/// No memory: these tests concern stored segments.
static NONE: Semaphore = Semaphore::const_new(0);

const NOW: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;

fn store() -> Store {
    Arc::new(InMemory::new())
}

/// Returns a queue with this number of turns for unpacking.
fn turns(at_a_time: usize) -> FairQueue {
    FairQueue::new(QueueLimits { at_a_time, ..UNPACKING }, QueueTimings::default())
}

fn folder() -> Path {
    Path::from("uploads/job/private/1/party")
}

/// Returns values that fill some segments, and their bytes in the wire format.
fn vector() -> (Vec<f32>, Vec<u8>, VectorForm) {
    let numbers: Vec<f32> = (0..SEGMENT).map(|n| ((n * n) as f32 * 0.618).sin()).collect();
    let bytes = write(&numbers, Precision::F32, || 0).unwrap();
    assert!(bytes.len() > 2 * SEGMENT && bytes.len() < 4 * numbers.len());
    let form = VectorForm::new(Precision::F32, numbers.len() as u64).unwrap();
    (numbers, bytes, form)
}

async fn attempt(store: &Store, bytes: &[u8], offset: u64, now: OffsetDateTime) -> Option<ResumableUpload> {
    attempt_in(&NONE, store, bytes, offset, now).await
}

async fn attempt_in(
    left: &'static Semaphore,
    store: &Store,
    bytes: &[u8],
    offset: u64,
    now: OffsetDateTime,
) -> Option<ResumableUpload> {
    let place = UploadPlace::new(folder(), &digest(bytes));
    ResumableUpload::resume_in(left, store, place, bytes.len() as u64, offset, now).await.unwrap()
}

async fn received(store: &Store, bytes: &[u8], now: OffsetDateTime) -> u64 {
    UploadPlace::new(folder(), &digest(bytes)).received(store, now).await.unwrap()
}

async fn numbers(store: &Store) -> Vec<f32> {
    let bytes = store.get(&Path::from("to")).await.unwrap().bytes().await.unwrap();
    bytes.as_chunks::<4>().0.iter().map(|number| f32::from_le_bytes(*number)).collect()
}

async fn objects(store: &Store) -> usize {
    store.list(None).try_collect::<Vec<_>>().await.unwrap().len()
}

#[tokio::test]
async fn an_upload_goes_on_where_it_broke_off_and_comes_out_whole() {
    let (store, (expected, bytes, form)) = (store(), vector());
    let mut at = 0;
    // Interrupted within a segment, at the end of one, and within the next without a notice (its rest is lost).
    for (upto, told, kept) in [
        (SEGMENT / 2, true, SEGMENT / 2),
        (SEGMENT / 2 + SEGMENT, true, SEGMENT / 2 + SEGMENT),
        (2 * SEGMENT, false, SEGMENT / 2 + SEGMENT),
    ] {
        let mut upload = attempt(&store, &bytes, at as u64, NOW).await.unwrap();
        for piece in bytes[at..upto].chunks(10_007) {
            upload.write(piece).await.unwrap();
        }
        if told {
            upload.keep().await.unwrap();
        }
        drop(upload);
        assert_eq!(received(&store, &bytes, NOW).await, kept as u64);
        at = kept;
    }
    let mut last = attempt(&store, &bytes, at as u64, NOW).await.unwrap();
    last.write(&bytes[at..]).await.unwrap();
    last.finish(&turns(8), form, &Path::from("to")).await.unwrap();
    assert!(numbers(&store).await == expected);
}

#[tokio::test]
async fn what_comes_in_one_attempt_is_stored_once_where_there_is_room() {
    static SOME: Semaphore = Semaphore::const_new(1 << 10);
    let (store, (expected, bytes, form)) = (store(), vector());
    let mut upload = attempt_in(&SOME, &store, &bytes, 0, NOW).await.unwrap();
    upload.write(&bytes).await.unwrap();
    assert_eq!(SOME.available_permits(), (1 << 10) - bytes.len().div_ceil(1 << 10), "KiB, and no more than it needs");
    assert_eq!(objects(&store).await, 0);

    // No memory is left for a second upload of this size.
    let mut other = attempt_in(&SOME, &store, &bytes, 0, NOW).await.unwrap();
    other.write(&bytes[..SEGMENT]).await.unwrap();
    assert_eq!(objects(&store).await, 1, "a segment");
    drop(other);
    UploadPlace::new(folder(), &digest(&bytes)).forget(&store).await.unwrap();

    upload.finish(&turns(8), form, &Path::from("to")).await.unwrap();
    assert_eq!((objects(&store).await, SOME.available_permits()), (1, 1 << 10), "the vector");
    assert!(numbers(&store).await == expected);
}

#[tokio::test]
async fn stalled_upload_holds_no_room() {
    static MUCH: Semaphore = Semaphore::const_new(1 << 20);
    let (store, bytes) = (store(), vec![7; MOST_HELD]);
    let mut upload = attempt_in(&MUCH, &store, &bytes, 0, NOW).await.unwrap();
    upload.write(&bytes[..SEGMENT - 1]).await.unwrap();
    assert_eq!(MUCH.available_permits(), 1 << 20, "less than a segment has come");
    upload.write(&bytes[SEGMENT - 1..SEGMENT]).await.unwrap();
    assert_eq!(MUCH.available_permits(), (1 << 20) - (MOST_HELD >> 10));
    upload.keep().await.unwrap();
    assert_eq!(MUCH.available_permits(), 1 << 20, "what is stored needs none");
}

#[tokio::test]
async fn no_more_of_a_vector_than_its_share_is_in_memory() {
    static MUCH: Semaphore = Semaphore::const_new(1 << 20);
    let (store, bytes) = (store(), vec![7; MOST_HELD + 9]);
    let mut upload = attempt_in(&MUCH, &store, &bytes, 0, NOW).await.unwrap();
    upload.write(&bytes[..MOST_HELD - 1]).await.unwrap();
    assert_eq!(MUCH.available_permits(), (1 << 20) - (MOST_HELD >> 10));
    assert_eq!(received(&store, &bytes, NOW).await, 0);
    upload.write(&bytes[MOST_HELD - 1..]).await.unwrap();
    assert_eq!(received(&store, &bytes, NOW).await, MOST_HELD as u64);
}

#[tokio::test]
async fn interrupted_upload_resumes_at_the_exact_byte() {
    static MUCH: Semaphore = Semaphore::const_new(1 << 20);
    let (store, (expected, bytes, form)) = (store(), vector());
    let before = Instant::now();
    let mut upload = attempt_in(&MUCH, &store, &bytes, 0, NOW).await.unwrap();
    assert_eq!(upload.due(), None, "nothing is there");
    upload.write(&bytes[..SEGMENT + 5]).await.unwrap();
    let due = upload.due().unwrap();
    assert!(due >= before + LONGEST_HELD && due <= Instant::now() + LONGEST_HELD);
    upload.keep().await.unwrap();
    assert_eq!((upload.due(), received(&store, &bytes, NOW).await), (None, SEGMENT as u64 + 5));
    drop(upload);

    // Stored bytes and bytes in memory, with an overlap.
    let mut last = attempt_in(&MUCH, &store, &bytes, SEGMENT as u64 + 5, NOW).await.unwrap();
    last.write(&bytes[SEGMENT + 5..]).await.unwrap();
    let mut other = attempt_in(&MUCH, &store, &bytes, SEGMENT as u64 + 5, NOW).await.unwrap();
    other.write(&bytes[SEGMENT + 5..][..100]).await.unwrap();
    other.keep().await.unwrap();
    last.finish(&turns(8), form, &Path::from("to")).await.unwrap();
    assert!(numbers(&store).await == expected);
}

#[tokio::test]
async fn attempts_may_overlap_in_any_way() {
    let (store, (expected, bytes, form)) = (store(), vector());
    for (from, upto) in [(0, SEGMENT + 9), (0, 77), (77, SEGMENT), (9, 10)] {
        if let Some(mut upload) = attempt(&store, &bytes, from as u64, NOW + Duration::seconds(upto as i64)).await {
            upload.write(&bytes[from..upto]).await.unwrap();
            upload.keep().await.unwrap();
        }
    }
    let at = received(&store, &bytes, NOW).await as usize;
    assert_eq!(at, SEGMENT + 9, "the longest way");
    let mut last = attempt(&store, &bytes, at as u64, NOW).await.unwrap();
    last.write(&bytes[at..]).await.unwrap();
    last.finish(&turns(8), form, &Path::from("to")).await.unwrap();
    assert!(numbers(&store).await == expected);
}

#[tokio::test]
async fn overlapping_pieces_of_two_attempts_are_joined() {
    static MUCH: Semaphore = Semaphore::const_new(1 << 20);
    let (store, (expected, bytes, form)) = (store(), vector());
    let [start, short, long, upto] = [1000, 50_000, 150_000, 300_000];
    let mut first = attempt_in(&MUCH, &store, &bytes, 0, NOW).await.unwrap();
    first.write(&bytes[..start]).await.unwrap();
    first.keep().await.unwrap();
    // The bytes that the first attempt has in memory at the query are stored after the other attempt has continued.
    first.write(&bytes[start..start + long]).await.unwrap();
    let mut last = attempt_in(&MUCH, &store, &bytes, start as u64, NOW + Duration::SECOND).await.unwrap();
    for piece in [start..start + short, start + short..upto] {
        last.write(&bytes[piece]).await.unwrap();
        last.keep().await.unwrap();
    }
    first.keep().await.unwrap();
    assert_eq!((objects(&store).await, received(&store, &bytes, NOW).await), (4, upto as u64));
    last.write(&bytes[upto..]).await.unwrap();
    last.finish(&turns(8), form, &Path::from("to")).await.unwrap();
    assert!(numbers(&store).await == expected);
}

#[tokio::test]
async fn segments_of_a_forgotten_attempt_are_lost() {
    let (store, (expected, bytes, form)) = (store(), vector());
    let mut first = attempt(&store, &bytes, 0, NOW).await.unwrap();
    first.write(&bytes[..SEGMENT]).await.unwrap();
    let mut last = attempt(&store, &bytes, SEGMENT as u64, NOW).await.unwrap();
    UploadPlace::new(folder(), &digest(&bytes)).forget(&store).await.unwrap();
    last.write(&bytes[SEGMENT..]).await.unwrap();
    assert!(matches!(last.finish(&turns(8), form, &Path::from("to")).await, Err(ObjectError::Lost)));
    assert!(store.head(&Path::from("to")).await.is_err());

    assert_eq!(received(&store, &bytes, NOW).await, 0);
    let mut again = attempt(&store, &bytes, 0, NOW).await.unwrap();
    again.write(&bytes).await.unwrap();
    again.finish(&turns(8), form, &Path::from("to")).await.unwrap();
    assert!(numbers(&store).await == expected);
}

#[tokio::test]
async fn slow_sender_makes_no_smaller_segments() {
    static MUCH: Semaphore = Semaphore::const_new(1 << 20);
    let (store, (expected, bytes, form)) = (store(), vector());
    let mut upload = attempt_in(&MUCH, &store, &bytes, 0, NOW).await.unwrap();
    // So slow that all due bytes are stored before more arrive.
    for piece in bytes.chunks(1009) {
        upload.write(piece).await.unwrap();
        if upload.due().is_some() {
            upload.keep().await.unwrap();
        }
    }
    let pieces = objects(&store).await;
    assert!((1..=bytes.len() / SEGMENT).contains(&pieces), "{pieces} of {} bytes", bytes.len());
    upload.finish(&turns(8), form, &Path::from("to")).await.unwrap();
    assert!(numbers(&store).await == expected);
}

#[tokio::test(start_paused = true)]
async fn a_vector_is_unpacked_when_its_turn_comes() {
    let turns = turns(1);
    let (store, (expected, bytes, form)) = (store(), vector());
    let mut upload = attempt(&store, &bytes, 0, NOW).await.unwrap();
    upload.write(&bytes).await.unwrap();
    let to = Path::from("to");
    let turn = turns.acquire(WorkOwner::System).await.unwrap();
    let mut finishing = std::pin::pin!(upload.finish(&turns, form, &to));
    // This clock advances only while no other task runs.
    assert!(tokio::time::timeout(LONGEST_HELD, finishing.as_mut()).await.is_err(), "all turns are taken");
    drop(turn);
    finishing.await.unwrap();
    drop(turns.acquire(WorkOwner::System).await.unwrap());
    assert!(numbers(&store).await == expected);
}

#[tokio::test(start_paused = true)]
async fn vector_without_a_turn_is_kept() {
    let turns = turns(1);
    let (store, (expected, bytes, form)) = (store(), vector());
    let mut upload = attempt(&store, &bytes, 0, NOW).await.unwrap();
    upload.write(&bytes).await.unwrap();
    let turn = turns.acquire(WorkOwner::System).await.unwrap();
    let late = upload.finish(&turns, form, &Path::from("to")).await;
    assert!(matches!(late, Err(ObjectError::Turn(_))), "{late:?}");
    assert_eq!(received(&store, &bytes, NOW).await, bytes.len() as u64);
    drop(turn);
    let again = attempt(&store, &bytes, bytes.len() as u64, NOW).await.unwrap();
    again.finish(&turns, form, &Path::from("to")).await.unwrap();
    assert!(numbers(&store).await == expected);
}

#[tokio::test]
async fn organization_has_its_share_of_the_room() {
    static MUCH: Semaphore = Semaphore::const_new(1 << 20);
    let (store, bytes) = (store(), vec![7; MOST_HELD]);
    let begin = async || {
        let mut upload = attempt_in(&MUCH, &store, &bytes, 0, NOW).await.unwrap();
        upload.write(&bytes[..SEGMENT]).await.unwrap();
        upload
    };
    let of = |number| WorkOwner::Organization(OrganizationId(Uuid::from_u128(number)));
    let mut greedy = Vec::new();
    for _ in 0..ROOM_OF_ORGANIZATION / MOST_HELD {
        greedy.push(of(1).scope(begin()).await);
    }
    assert!(greedy.iter().all(|upload| upload.room.is_some()));
    let mut beyond = of(1).scope(begin()).await;
    assert!(beyond.room.is_none(), "it is stored in pieces");
    assert!(of(2).scope(begin()).await.room.is_some(), "another organization has its own");
    greedy.pop();
    beyond.write(&bytes[SEGMENT..2 * SEGMENT]).await.unwrap();
    assert!(beyond.room.is_some(), "what ends makes room");
}

#[tokio::test]
async fn nobody_goes_on_beyond_what_is_here() {
    let (store, (_, bytes, _)) = (store(), vector());
    assert!(attempt(&store, &bytes, 1, NOW).await.is_none());
}

#[tokio::test]
async fn what_nobody_goes_on_with_is_forgotten_in_time() {
    let (store, (_, bytes, _)) = (store(), vector());
    let mut upload = attempt(&store, &bytes, 0, NOW).await.unwrap();
    upload.write(&bytes[..SEGMENT]).await.unwrap();
    assert_eq!(received(&store, &bytes, NOW + EXPIRY).await, SEGMENT as u64);
    assert_eq!(received(&store, &bytes, NOW + EXPIRY + Duration::SECOND).await, 0);
    assert_eq!(objects(&store).await, 0);
}

#[tokio::test]
async fn contributor_has_one_upload_a_round_of_bounded_segments() {
    let (store, (_, bytes, _)) = (store(), vector());
    let mut first = attempt(&store, &bytes, 0, NOW).await.unwrap();
    first.write(&bytes[..SEGMENT]).await.unwrap();
    let mut other = attempt(&store, &bytes[1..], 0, NOW).await.unwrap();
    other.write(&bytes[1..2]).await.unwrap();
    other.keep().await.unwrap();
    assert_eq!((received(&store, &bytes, NOW).await, objects(&store).await), (0, 1));

    let most = (bytes.len() as u64 - 1).div_ceil(SEGMENT as u64) + SPARE_SEGMENTS;
    for at in 1..=most {
        let mut upload = attempt(&store, &bytes[1..], at, NOW).await.unwrap();
        upload.write(&bytes[1 + at as usize..][..1]).await.unwrap();
        upload.keep().await.unwrap();
    }
    assert!(attempt(&store, &bytes[1..], most, NOW).await.is_none(), "in too many pieces: from the start");
    assert_eq!(objects(&store).await, 0);
}

#[tokio::test]
async fn vector_unlike_its_announcement_is_deleted() {
    let (store, (_, mut bytes, form)) = (store(), vector());
    let announced = digest(&bytes);
    bytes[SEGMENT + 5] ^= 1;
    let place = UploadPlace::new(folder(), &announced);
    let mut upload = ResumableUpload::resume(&store, place, bytes.len() as u64, 0, NOW).await.unwrap().unwrap();
    upload.write(&bytes).await.unwrap();
    assert!(matches!(upload.finish(&turns(8), form, &Path::from("to")).await, Err(ObjectError::Digest)));
    assert_eq!(objects(&store).await, 0, "neither the vector nor its segments");

    let mut short = attempt(&store, &bytes, 0, NOW).await.unwrap();
    short.write(&bytes[..100]).await.unwrap();
    assert!(matches!(
        short.finish(&turns(8), form, &Path::from("to")).await,
        Err(ObjectError::Size { received: 100, .. })
    ));
    assert_eq!(received(&store, &bytes, NOW).await, 100, "a cut connection may look like an end");

    let mut long = attempt(&store, &bytes[..50], 0, NOW).await.unwrap();
    assert!(matches!(long.write(&bytes[..51]).await, Err(ObjectError::Size { announced: 50, received: 51 })));
}

#[tokio::test]
async fn a_bomb_is_refused_and_forgotten() {
    let (store, (_, bytes, _)) = (store(), vector());
    // A complete packed vector, announced with fewer values, as its size would permit.
    let form = VectorForm::new(Precision::F32, bytes.len() as u64 / 4 + 1).unwrap();
    let mut upload = attempt(&store, &bytes, 0, NOW).await.unwrap();
    upload.write(&bytes).await.unwrap();
    let refused = upload.finish(&turns(8), form, &Path::from("to")).await;
    assert!(matches!(refused, Err(ObjectError::Vector(VectorError::TooLong { .. }))), "{refused:?}");
    assert_eq!(objects(&store).await, 0);
}

#[tokio::test]
async fn a_number_that_is_not_finite_is_named_and_nothing_is_stored() {
    let store = store();
    let bytes: Vec<u8> = [1.0, 2.0, f32::NAN].iter().flat_map(|number: &f32| number.to_le_bytes()).collect();
    let mut upload = attempt(&store, &bytes, 0, NOW).await.unwrap();
    upload.write(&bytes).await.unwrap();
    let refused = upload.finish(&turns(8), VectorForm::new(Precision::F32, 3).unwrap(), &Path::from("to")).await;
    assert!(matches!(refused, Err(ObjectError::Vector(VectorError::NotFinite { index: 2 }))));
    assert_eq!(objects(&store).await, 0);
}

#[tokio::test]
async fn masked_vector_is_stored_as_it_came() {
    let store = store();
    let bytes: Vec<u8> = (0..SEGMENT + 7).map(|n| (n * n) as u8).collect();
    let form = UploadForm::Masked(bytes.len() as u64);
    let mut first = attempt(&store, &bytes, 0, NOW).await.unwrap();
    first.write(&bytes[..SEGMENT]).await.unwrap();
    first.keep().await.unwrap();
    let mut last = attempt(&store, &bytes, SEGMENT as u64, NOW).await.unwrap();
    last.write(&bytes[SEGMENT..]).await.unwrap();
    last.finish(&turns(8), form, &Path::from("to")).await.unwrap();
    assert!(store.get(&Path::from("to")).await.unwrap().bytes().await.unwrap() == bytes);
    for size in [bytes.len() as u64 - 1, bytes.len() as u64 + 1] {
        let mut other = attempt(&store, &bytes, 0, NOW).await.unwrap();
        other.write(&bytes).await.unwrap();
        let refused = other.finish(&turns(8), UploadForm::Masked(size), &Path::from("other")).await;
        assert!(matches!(refused, Err(ObjectError::Vector(_))), "{size}: {refused:?}");
    }
}
