//! The limits of exports, each at its value and one beyond.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use tempfile::TempDir;
use undertone_api::id::{MemberId, OrganizationId};
use undertone_api::problem::Code;
use uuid::Uuid;

use super::{MOST_OF_ORGANIZATION, PIECE, SpoolCaller, SpoolLimits, SpoolReader, SpoolSlots};
use crate::metrics::{Limit, Metrics, Transactions};

const ONE: SpoolCaller = caller(1, 1);
const OTHER: SpoolCaller = caller(2, 2);

const fn caller(member: u128, organization: u128) -> SpoolCaller {
    let organization = Some(OrganizationId(Uuid::from_u128(organization)));
    SpoolCaller { member: MemberId(Uuid::from_u128(member)), organization }
}

/// Returns a folder, and slots with limits that a test changes.
fn slots(change: impl FnOnce(&mut SpoolLimits)) -> (TempDir, Arc<SpoolSlots>, Metrics) {
    let mut limits = SpoolLimits { wait: Duration::from_millis(50), ..SpoolLimits::default() };
    change(&mut limits);
    let metrics = Metrics::new(Transactions::default());
    (tempfile::tempdir().expect("a folder"), SpoolSlots::new(limits, metrics.clone()), metrics)
}

async fn read(reader: SpoolReader) -> std::io::Result<Vec<u8>> {
    reader.into_stream().map_ok(|piece| piece.to_vec()).try_concat().await
}

fn numbers(length: usize) -> Vec<u8> {
    (0..length).map(|number| (number % 251) as u8).collect()
}

#[tokio::test]
async fn export_is_read_as_it_was_written() {
    let (dir, slots, _) = slots(|_| ());
    for length in [0, 1, PIECE, 3 * PIECE + 7] {
        let (mut writer, reader) = slots.begin(ONE, dir.path()).await.expect("room");
        let bytes = numbers(length);
        for piece in bytes.chunks(1000) {
            writer.write(piece).await.expect("written");
        }
        writer.finish().await.expect("whole");
        assert!(read(reader).await.expect("read") == bytes, "{length}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).expect("a folder").count(), 0, "no file has a name");
}

#[tokio::test]
async fn reader_goes_on_while_the_writer_does() {
    let (dir, slots, _) = slots(|_| ());
    let (mut writer, reader) = slots.begin(ONE, dir.path()).await.expect("room");
    let mut stream = reader.into_stream();
    writer.write(&numbers(PIECE)).await.expect("written");
    let first = stream.next().await.expect("a piece").expect("read");
    assert_eq!(first.len(), PIECE, "before it is whole");
    drop(writer);
    assert!(stream.next().await.expect("an end").is_err(), "it never became whole");
}

#[tokio::test]
async fn unread_export_frees_its_turn_and_keeps_its_place() {
    let (dir, slots, metrics) = slots(|limits| (limits.written, limits.held) = (1, 2));
    let (writer, unread) = slots.begin(ONE, dir.path()).await.expect("room");
    let waiting = slots.begin(OTHER, dir.path()).await.expect_err("one is written at a time").into_problem();
    assert_eq!((waiting.code, waiting.retry_after), (Code::Unavailable, Some(60)));
    writer.finish().await.expect("whole");
    let (writer, second) = slots.begin(OTHER, dir.path()).await.expect("the turn is free before it is read");
    writer.finish().await.expect("whole");
    assert_eq!(slots.begin(OTHER, dir.path()).await.expect_err("two are held").code(), Code::Unavailable);
    drop(unread);
    slots.begin(OTHER, dir.path()).await.expect("a place is free");
    assert_eq!(metrics.reached(Limit::Exports), 2);
    drop(second);
}

#[tokio::test]
async fn member_has_two_exports_and_no_more() {
    let (dir, slots, _) = slots(|_| ());
    let mut exports = Vec::new();
    for _ in 0..2 {
        let (writer, reader) = slots.begin(ONE, dir.path()).await.expect("room");
        writer.finish().await.expect("whole");
        exports.push(reader);
    }
    assert_eq!(slots.begin(ONE, dir.path()).await.expect_err("a third").code(), Code::RateLimited);
    slots.begin(OTHER, dir.path()).await.expect("another member");
    exports.pop();
    slots.begin(ONE, dir.path()).await.expect("room again");
}

#[tokio::test]
async fn organization_has_half_of_the_exports_and_no_more() {
    let (dir, slots, _) = slots(|limits| limits.written = 8);
    let mut exports = Vec::new();
    for member in 1..=MOST_OF_ORGANIZATION as u128 {
        exports.push(slots.begin(caller(member, 1), dir.path()).await.expect("room"));
    }
    let refused = slots.begin(caller(9, 1), dir.path()).await.expect_err("a fifth").into_problem();
    assert_eq!((refused.code, refused.retry_after), (Code::RateLimited, Some(60)));
    let without = SpoolCaller { organization: None, ..caller(10, 1) };
    for other in [caller(11, 2), without] {
        exports.push(slots.begin(other, dir.path()).await.expect("another organization has room"));
    }
    exports.remove(0);
    slots.begin(caller(9, 1), dir.path()).await.expect("room again");
}

#[tokio::test]
async fn export_over_its_size_fails_both_ends() {
    let (dir, slots, metrics) = slots(|limits| limits.bytes = PIECE as u64);
    let (mut writer, reader) = slots.begin(ONE, dir.path()).await.expect("room");
    writer.write(&numbers(PIECE)).await.expect("as large as it may be");
    assert_eq!(writer.write(&numbers(PIECE)).await.expect_err("larger").code(), Code::TooLarge);
    drop(writer);
    assert!(read(reader).await.is_err());
    assert_eq!(metrics.reached(Limit::ExportBytes), 1);
}

#[tokio::test]
async fn export_that_is_not_read_in_time_fails() {
    let (dir, slots, _) = slots(|limits| limits.read = Duration::from_millis(50));
    let (_writer, reader) = slots.begin(ONE, dir.path()).await.expect("room");
    assert_eq!(read(reader).await.expect_err("too late").kind(), std::io::ErrorKind::TimedOut);
}

#[tokio::test]
async fn writer_stops_when_the_client_is_gone() {
    let (dir, slots, _) = slots(|_| ());
    let (mut writer, reader) = slots.begin(ONE, dir.path()).await.expect("room");
    drop(reader);
    assert!(writer.write(&numbers(PIECE)).await.is_err());
}
