//! The table of limits in `OPERATION.md`, row by row, from the constants. The module of each limit tests it at its
//! value and one beyond. The tests here find a constant that differs from the table, and a row without a constant.
//!
//! To add a limit: its constant, its test in its module, a row in the table, a line here.

use std::net::Ipv6Addr;

use undertone_api::approval_key::MOST_OWN_APPROVAL_KEYS;
use undertone_api::id::MemberId;
use undertone_api::job::dp_sgd::FALSE_REFUSAL;
use undertone_api::job::transcription;
use undertone_api::log::witness::{MOST_RECEIPTS, MOST_RESTORATIONS};
use undertone_api::page::PageQuery;
use undertone_api::passkey::MOST_PASSKEYS;
use undertone_api::retirement::LONGEST_REASON;
use undertone_api::signed::{MOST_APPROVAL_BYTES, server_keys};
use undertone_privacy::ledger::{MOST_CERTIFIED_MU, MOST_CERTIFIED_STEPS};
use undertone_proto::CHUNK;
use undertone_proto::question::MAX_SIZE;
use uuid::Uuid;

use crate::connections::{open_files, turn};
use crate::{backup, connections, grpc, rest};
use undertone_server_core::auth::Door;
use undertone_server_core::exchange::{annotate, artifact, spool, upload};
use undertone_server_core::service::notification::credential;
use undertone_server_core::service::{
    audit_log, challenge, dataset, delivery, invitation, lease, ledger, model, offer, question, reset, restoration,
    round, site_key, worker,
};
use undertone_server_core::{auth, compute, ctx, db, keys};

const OPERATION: &str = include_str!("../OPERATION.md");

/// Returns the subject and the value of each limit.
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
        ("time until an answer begins (REST, pages, forms), its body's arrival included", seconds(rest::LONGEST)),
        ("requests of a session or key; of an address", "`rates.by_caller`, `rates.by_address` a minute".to_owned()),
        (
            "calls of gRPC of a session or key; of an address; of a worker that has signed in",
            "`rates.by_caller`, `rates.by_address`, `rates.by_worker` a minute".to_owned(),
        ),
        ("writes of the workers of an organization", "`rates.by_organization` a minute".to_owned()),
        ("page of a list", format!("{} items", PageQuery::MAX)),
        (
            "streams of events and watches: of a member; of an organization; from an address; in all",
            format!(
                "{}; {}; {}; {}",
                ctx::MOST_STREAMS,
                grouped(ctx::MOST_STREAMS_OF_ORGANIZATION.into()),
                ctx::MOST_STREAMS_OF_ADDRESS,
                grouped(ctx::MOST_STREAMS_IN_ALL.into())
            ),
        ),
        ("watched jobs and consortia that are looked at at a time", ctx::LOOKS_AT_A_TIME.to_string()),
        ("wait of a worker for work, a mean, a file or pools", format!("{} s", offer::LONGEST_WAIT)),
        (
            "message of gRPC: of a recognized caller; of a stranger",
            format!("{}; {}", mib(grpc::LARGEST_MESSAGE), kib(grpc::LARGEST_OF_STRANGER)),
        ),
        (
            "time of a message of gRPC on its way, while the server waits for it",
            format!("{}, and 1 s for each {}", seconds(grpc::MESSAGE_TIME), kib(grpc::MESSAGE_RATE)),
        ),
        (
            "messages of gRPC under way: of recognized callers, of one; of strangers, of one address",
            format!(
                "{}, {}; {}, {}",
                mib(grpc::RECOGNIZED_BYTES.0),
                mib(grpc::RECOGNIZED_BYTES.1),
                mib(grpc::STRANGER_BYTES.0),
                mib(grpc::STRANGER_BYTES.1)
            ),
        ),
        (
            "connections of a listener; from one address (IPv6: /64)",
            "`connections.most`; `connections.by_address`".to_owned(),
        ),
        (
            "connections of a listener that wait to be accepted",
            format!("{}, or what the system allows", grouped(connections::BACKLOG.into())),
        ),
        (
            "files of the process",
            format!("the most that the system allows; {} are not for connections", open_files::RESERVED_FILES),
        ),
        ("handshake of TLS", seconds(connections::HANDSHAKE)),
        ("head of the first request of a connection, with the preface of HTTP/2", seconds(connections::FIRST_REQUEST)),
        (
            "head of a request: over HTTP/1; over HTTP/2",
            format!("{}; {}", kib(connections::LARGEST_BUFFER), kib(connections::LARGEST_HEAD as usize)),
        ),
        ("requests at a time over one HTTP/2 connection", connections::MOST_STREAMS.to_string()),
        (
            "requests that begin at a time at a listener, for each processor; longest turn; requests that wait for theirs, of one connection or network; for how long",
            format!(
                "{}; {} ms; {}, {}; {}",
                connections::TURNS_OF_PROCESSOR,
                connections::LONGEST_TURN.as_millis(),
                grouped(connections::MOST_WAITING.0 as u64),
                grouped(connections::MOST_WAITING.1 as u64),
                seconds(turn::PATIENCE)
            ),
        ),
        (
            "connection without a request, until the head of the next; of a caller who was never recognized",
            format!("{}; {}", seconds(connections::IDLE), seconds(connections::STRANGER_AGE)),
        ),
        (
            "HTTP/2 connection that is silent",
            format!("{}, and {} to answer", seconds(connections::KEEPALIVE), seconds(connections::KEEPALIVE)),
        ),
        ("answer that its client does not read", seconds(connections::UNREAD)),
        (
            "bodies of requests under way: of recognized callers, of one address; of strangers, of one address",
            format!(
                "{}, {}; {}, {}",
                mib(connections::RECOGNIZED_BYTES.0),
                mib(connections::RECOGNIZED_BYTES.1),
                mib(connections::STRANGER_BYTES.0),
                mib(connections::STRANGER_BYTES.1)
            ),
        ),
        (
            "export of a ledger: bytes; written at a time; held for clients that read, of one organization, of one member; time to be read",
            format!(
                "{}; {}, {} for a turn; {}, {}, {}; {} s",
                gib(spool::LARGEST),
                spool::MOST_WRITTEN,
                seconds(spool::LONGEST_WAIT),
                spool::MOST_HELD,
                spool::MOST_OF_ORGANIZATION,
                spool::MOST_OF_MEMBER,
                grouped(spool::LONGEST_READ.as_secs())
            ),
        ),
        (
            "wrong attempts in 15 minutes: of an e-mail; of a code, in a day; from an address; from an IPv6 /48",
            [
                Door::Email(String::new()),
                Door::Code(MemberId(Uuid::nil())),
                Door::DailyCodes(MemberId(Uuid::nil())),
                Door::Address(Ipv6Addr::LOCALHOST.into()),
                Door::Prefix(Ipv6Addr::LOCALHOST.into()),
            ]
            .map(|door| door.most().to_string())
            .join("; ")
            .replacen("; 20", ", 20", 1),
        ),
        ("vector", format!("what the job's model says; {vector}")),
        (
            "L2 norm of a vector with noise",
            format!("what clip, noise, batch and steps of its job allow, but for a chance of {FALSE_REFUSAL:e}"),
        ),
        (
            "vectors on their way in",
            format!(
                "{} in memory, {} of an organization's, {} of each, {} long once it is {}; {} unpacked at a time",
                mib(upload::ROOM),
                mib(upload::ROOM_OF_ORGANIZATION),
                mib(upload::MOST_HELD),
                seconds(upload::LONGEST_HELD),
                kib(upload::SEGMENT),
                upload::UNPACKED_AT_A_TIME
            ),
        ),
        (
            "vectors that wait to be unpacked; of one organization; how long",
            format!(
                "{}; {}; {}",
                upload::UNPACKING_WAITS.0,
                upload::UNPACKING_WAITS.1,
                seconds(upload::UNPACKING.patience)
            ),
        ),
        (
            "pools of questions that are read at a time; that wait; of one organization; how long",
            format!(
                "{}, of {} each; {}; {}; {}",
                annotate::READ_AT_A_TIME,
                mib(MAX_SIZE as usize),
                annotate::READING_WAITS.0,
                annotate::READING_WAITS.1,
                seconds(annotate::READING.patience)
            ),
        ),
        ("unfinished upload", hours(upload::EXPIRY)),
        ("file of a job", format!("{}; {} files", gib(artifact::MAX_SIZE), grouped(artifact::MAX_FILES))),
        (
            "files of a job; of all jobs that an organization leads",
            "`store.job_gib`; `store.organization_gib`".to_owned(),
        ),
        ("files of a job that was refused, failed or cancelled", "`store.unfinished_days`".to_owned()),
        ("datasets of a worker", grouped(dataset::MOST_DATASETS)),
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
        (
            "passkeys of a member; challenge of a passkey",
            format!("{MOST_PASSKEYS}; {} minutes, once", auth::passkey::LIFETIME.whole_minutes()),
        ),
        (
            "security notices that wait for e-mail or webhook; attempts at one",
            format!("{}; {}", grouped(delivery::MOST_WAITING), delivery::MOST_ATTEMPTS),
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
        (
            "session of a member; access token",
            "`session_days` without use, `session_most_days` in all; `access_minutes`".to_owned(),
        ),
        (
            "proof of identity for making credentials and changing access",
            format!("{} minutes", auth::FRESH.whole_minutes()),
        ),
        ("reason of a retirement, a write-off or a restoration", format!("{LONGEST_REASON} characters")),
        (
            "audit entries; workers with their keys, that get their leaves in one transaction",
            format!("{}; {}", audit_log::AT_ONCE, site_key::AT_ONCE),
        ),
        (
            "receipts, and jobs, that a site gives back at a time; restorations in one answer to a site",
            format!("{MOST_RECEIPTS}, {}; {MOST_RESTORATIONS}", restoration::MOST_PARTS),
        ),
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
                "one at a time, on PostgreSQL {} beside it, {} for its turn, there with that of other servers, {} tries",
                db::CONCURRENT_WRITERS,
                seconds(db::PATIENCE),
                db::TRIES
            ),
        ),
        (
            "writing transactions that wait; of one organization",
            format!("{}; {}", grouped(db::MOST_WAITING.0 as u64), db::MOST_WAITING.1),
        ),
        (
            "calls with receipts that one transaction counts; receipts of each; calls that wait, of one organization; for how long",
            format!(
                "{}; {}; {}, {}; {}",
                ctx::MOST_GROUP_WORKERS,
                ctx::MOST_GROUP_RECEIPTS,
                grouped(ctx::MOST_WAITING_CALLS.0 as u64),
                ctx::MOST_WAITING_CALLS.1,
                seconds(db::PATIENCE)
            ),
        ),
        (
            "connections of a server to PostgreSQL",
            format!("1 that writes, {} beside it, {} that read", db::CONCURRENT_WRITERS, db::READERS),
        ),
        (
            "computations of privacy loss: at a time; that wait, of one organization; for a turn; results of each kind that are kept",
            format!(
                "{}; {}, {}; {}; {}",
                compute::AT_A_TIME,
                compute::MOST_WAITING.0,
                compute::MOST_WAITING.1,
                seconds(compute::PATIENCE),
                grouped(compute::MOST_KEPT as u64)
            ),
        ),
        (
            "certificate of a job on an account with the filter `gaussian`; its composed steps; at a time for questions",
            format!("a μ of about {MOST_CERTIFIED_MU}; {}; {}", grouped(MOST_CERTIFIED_STEPS), ledger::MOST_QUESTIONS),
        ),
        (
            "passwords hashed at a time, on eight or more processors; that wait; of sign-ins from one address (IPv6: /64)",
            format!(
                "{}, of {} MiB each; {}; {}",
                auth::AT_A_TIME,
                auth::MEMORY_KIB >> 10,
                auth::MOST_WAITING,
                auth::MOST_OF_NETWORK
            ),
        ),
        ("certified keys of a server", keys::online::MOST_ONLINE_KEYS.to_string()),
        ("certificate of a key with its introduction, in a signature", kib(server_keys::MOST_CHAIN_BYTES)),
        ("keys in one file of keys", keys::ring::MOST_KEYS.to_string()),
        ("passphrase of a backup", format!("at least {} characters", backup::SHORTEST_PASSPHRASE)),
    ]
}

/// Formats a number with a comma before each group of three digits.
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

/// Returns the subject and the value of each row of the table.
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
    let limits = rows();
    let documented = documented();
    assert!(documented.len() > 20, "{} rows", documented.len());
    for (what, limit) in &limits {
        let row = documented.iter().find(|(of, _)| of == what);
        assert_eq!(row.map(|(_, limit)| *limit), Some(limit.as_str()), "{what}");
    }
}

/// A new row is a new limit: it needs a line above, so that its constant and the table cannot diverge.
#[test]
fn no_row_of_the_table_is_unknown() {
    let limits = rows();
    for (what, _) in documented() {
        assert!(limits.iter().any(|(of, _)| *of == what), "`{what}` is in OPERATION.md and not in limits.rs");
    }
}

/// The reasons of a restoration and of a retirement have separate constants.
#[test]
fn every_stated_reason_is_as_long() {
    assert_eq!(restoration::LONGEST_REASON, LONGEST_REASON);
}

#[test]
fn every_wait_of_a_worker_is_as_long() {
    assert_eq!(model::LONGEST_WAIT, offer::LONGEST_WAIT);
    assert_eq!(question::LONGEST_WAIT, offer::LONGEST_WAIT);
    assert_eq!(round::LONGEST_WAIT, offer::LONGEST_WAIT);
}
