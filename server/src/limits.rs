//! The table of limits in `OPERATION.md`, row by row, as the constants have it. What a limit does at its value and one beyond is tested
//! where it is kept; here a constant that changes without the table is found, and so is a row that nobody knows.
//!
//! To add a limit: its constant, its test there, a row in the table, a line here.

use undertone_api::approval_key::MOST_OWN_APPROVAL_KEYS;
use undertone_api::job::transcription;
use undertone_api::page::PageQuery;
use undertone_api::signed::MOST_APPROVAL_BYTES;
use undertone_proto::CHUNK;

use crate::exchange::{artifact, upload};
use crate::service::notification::credential;
use crate::service::{challenge, invitation, lease, model, offer, question, reset, round, worker};
use crate::{auth, backup, ctx, db, grpc, rest, tls};

const OPERATION: &str = include_str!("../OPERATION.md");

/// What is limited, and how.
fn rows() -> Vec<(&'static str, String)> {
    let kib = |bytes: usize| format!("{} KiB", bytes >> 10);
    let mib = |bytes: usize| format!("{} MiB", bytes >> 20);
    let gib = |bytes: u64| format!("{} GiB", bytes >> 30);
    let seconds = |time: std::time::Duration| format!("{} s", time.as_secs());
    let hours = |time: time::Duration| format!("{} h", time.whole_hours());
    let vector = format!("pieces of {}, {} pieces more than it needs", kib(CHUNK), upload::SPARE_SEGMENTS);
    vec![
        ("body of a request; a form of the dashboard", mib(rest::LARGEST_BODY)),
        (
            "import of answers",
            format!("{}, {} rows", mib(rest::LARGEST_IMPORT), grouped(question::MOST_IMPORTED as u64)),
        ),
        ("time until an answer begins (REST)", seconds(rest::LONGEST)),
        ("requests of a session or key; of an address", "`rates.by_caller`, `rates.by_address` a minute".to_owned()),
        (
            "calls of gRPC of a session or key; of an address; of a worker that has signed in",
            "`rates.by_caller`, `rates.by_address`, `rates.by_worker` a minute".to_owned(),
        ),
        ("page of a list", format!("{} items", PageQuery::MAX)),
        ("streams of events: of a member", ctx::MOST_STREAMS.to_string()),
        ("wait of a worker for work, a mean, a file or pools", format!("{} s", offer::LONGEST_WAIT)),
        ("message of gRPC", mib(grpc::LARGEST_MESSAGE)),
        (
            "connection of a worker that is silent",
            format!("{}, and {} to answer", seconds(grpc::KEEPALIVE), seconds(grpc::KEEPALIVE)),
        ),
        ("handshake of TLS", format!("{}; {} under way", seconds(tls::HANDSHAKE), tls::UNDER_WAY)),
        ("vector", format!("what the job's model says; {vector}")),
        (
            "vectors on their way in",
            format!(
                "{} in memory, {} of each, {} long once it is {}; {} unpacked at a time",
                mib(upload::ROOM),
                mib(upload::MOST_HELD),
                seconds(upload::LONGEST_HELD),
                kib(upload::SEGMENT),
                upload::UNPACKED_AT_A_TIME
            ),
        ),
        ("unfinished upload", hours(upload::EXPIRY)),
        ("file of a job", format!("{}; {} files", gib(artifact::MAX_SIZE), grouped(artifact::MAX_FILES))),
        (
            "job of transcription: recognizers; words of a vocabulary; characters of one; dummies to be expected",
            format!(
                "{}; {}; {}; {}",
                transcription::MOST_PROVIDERS,
                grouped(transcription::vocabulary::MOST_WORDS as u64),
                transcription::vocabulary::LONGEST_WORD,
                grouped(transcription::MOST_DUMMIES as u64)
            ),
        ),
        (
            "signed approval; approval keys of a member",
            format!("{} KiB; {}", MOST_APPROVAL_BYTES >> 10, MOST_OWN_APPROVAL_KEYS),
        ),
        ("announcements of credentials to a site, in an answer", credential::MOST_NOTICES.to_string()),
        ("lease", format!("{} s without a word", lease::SECONDS)),
        (
            "session of a worker; its challenge",
            format!(
                "{}, and no longer than its key; {} minute, once, and {} answers in it",
                hours(grpc::SESSION),
                challenge::PATIENCE.whole_minutes(),
                challenge::MOST
            ),
        ),
        ("session of a member; access token", "`session_days`; `access_minutes`".to_owned()),
        (
            "enrolment token; invitation; reset link",
            format!(
                "{}; {} days; {}",
                hours(worker::TOKEN_LIFETIME),
                invitation::LIFETIME.whole_days(),
                hours(reset::LIFETIME)
            ),
        ),
        (
            "writing transaction",
            format!(
                "one at a time, on PostgreSQL {} beside it, {} for its turn, {} tries",
                db::BESIDE,
                seconds(db::PATIENCE),
                db::TRIES
            ),
        ),
        (
            "connections of a server to PostgreSQL",
            format!("1 that writes, {} beside it, {} that read", db::BESIDE, db::READERS),
        ),
        ("passwords hashed at a time", format!("{}, of {} MiB each", auth::AT_A_TIME, auth::MEMORY_KIB >> 10)),
        ("passphrase of a backup", format!("at least {} characters", backup::SHORTEST_PASSPHRASE)),
    ]
}

/// A number with a comma before each three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The table's rows: what is limited, and how.
fn documented() -> Vec<(&'static str, &'static str)> {
    let (_, table) = OPERATION.split_once("## Limits\n").expect("there is such a section");
    let table = table.split("\n## ").next().unwrap_or_default();
    let cells = |line: &'static str| {
        let mut cells = line.trim_matches('|').split('|').map(str::trim);
        Some((cells.next()?, cells.next()?))
    };
    table.lines().filter(|line| line.starts_with('|')).skip(2).filter_map(cells).collect()
}

#[test]
fn every_limit_stands_in_the_table_as_it_is() {
    let (known, told) = (rows(), documented());
    assert!(told.len() > 20, "{} rows", told.len());
    for (what, limit) in &known {
        let row = told.iter().find(|(of, _)| of == what);
        assert_eq!(row.map(|(_, limit)| *limit), Some(limit.as_str()), "{what}");
    }
}

/// Another row is another limit: it gets a line above, so that its constant and the table cannot part.
#[test]
fn no_row_of_the_table_is_unknown() {
    let known = rows();
    for (what, _) in documented() {
        assert!(known.iter().any(|(of, _)| *of == what), "`{what}` is in OPERATION.md and not in limits.rs");
    }
}

#[test]
fn every_wait_of_a_worker_is_as_long() {
    assert_eq!(model::LONGEST_WAIT, offer::LONGEST_WAIT);
    assert_eq!(question::LONGEST_WAIT, offer::LONGEST_WAIT);
    assert_eq!(round::LONGEST_WAIT, offer::LONGEST_WAIT);
}
