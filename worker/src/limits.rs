//! The table of limits in `OPERATION.md`, row by row, compared with the constants. Each limit is tested at its value
//! and one beyond in its own module. This test detects a constant that changes without the table, and an unknown row.
//!
//! To add a limit: its constant, its test there, a row in the table, a line here.

use undertone_api::job::transcription::ProviderProtocol;
use undertone_api::job::transcription::window::SOUND;
use undertone_api::signed::{MOST_APPROVAL_BYTES, MOST_APPROVAL_KEYS};
use undertone_privacy::ledger::{MOST_CERTIFIED_MU, MOST_CERTIFIED_STEPS};
use undertone_secure_aggregation::roster::{LEAST_SITES, MOST_SITES};
use undertone_worker_encoder as encoder;

use crate::config::check::{KEY_DAYS, MOST_RUNS};
use crate::config::queries::LEAST_MEMORY;
use crate::config::transcription;
use crate::queries::log::{LARGEST_COUNT, LONGEST_ROW};
use crate::run::transcription::sounds::EACH as KEPT;
use crate::run::transcription::{AT_ONCE, MOST_TEXT, PASSES, SAMPLE};
use crate::site::consent::MOST_NOTICES;
use crate::site::policy::{LONGEST_PERIOD, LONGEST_UNIT, SHORTEST_PERIOD, SHORTEST_UNIT};
use crate::site::{admission, peer_keys, store};
use crate::speech::transcribe::provider::{key, line, settings};
use crate::speech::transcribe::recognize::server::vosk;
use crate::speech::transcribe::{
    dummy, outbound, plan, private_host, recognize, sensitive, speak, vocabulary, voice, web,
};
use crate::speech::{audio, recordings};
use crate::{cli, daemon, gateway, tables};

const OPERATION: &str = include_str!("../OPERATION.md");

/// Returns the limited quantities and their limits.
fn worker_limits() -> Vec<(&'static str, String)> {
    let seconds = |time: std::time::Duration| format!("{} s", time.as_secs());
    let keep_alive = seconds(gateway::KEEP_ALIVE);
    let connection = [gateway::CONNECT, gateway::CALL, gateway::TRANSFER].map(seconds).join("; ");
    let words = [sensitive::MOST_LISTED, sensitive::MOST_PATTERNS, vocabulary::MOST_WORDS];
    vec![
        (
            "certificate of a job on an account with the filter `gaussian`; its composed steps",
            format!("a μ of about {MOST_CERTIFIED_MU}; {}", group_digits(MOST_CERTIFIED_STEPS)),
        ),
        ("jobs that run at a time", format!("`concurrent_runs`, 1 to {MOST_RUNS}")),
        ("approval keys that are pinned", MOST_APPROVAL_KEYS.to_string()),
        ("signed approval", format!("{} KiB", MOST_APPROVAL_BYTES >> 10)),
        (
            "days of the site's key",
            format!("`rotate_key_days`, {} to {}, or 0 for never", KEY_DAYS.start(), KEY_DAYS.end()),
        ),
        ("memory for counting query logs", format!("`queries.memory_mib`, at least {LEAST_MEMORY} MiB")),
        ("connection to the server; a call; a vector or file on its way", connection),
        ("connection to the server that is silent", format!("{keep_alive}, and {keep_alive} to answer")),
        ("message of gRPC", format!("{} MiB", gateway::MESSAGE >> 20)),
        ("vector, file or pools from the server", format!("{} GiB", gateway::MOST_TAKEN >> 30)),
        ("pause between attempts", seconds(gateway::LONGEST_PAUSE)),
        ("faults of the server's own in one call", gateway::FAULTS.to_string()),
        (
            "receipts that the ledger lacks and a server shows; together; in the evidence of an alarm",
            format!(
                "{}; {} MiB; {}",
                group_digits(daemon::MOST_SHOWN as u64),
                daemon::MOST_SHOWN_BYTES >> 20,
                daemon::MOST_EVIDENCE
            ),
        ),
        ("changes of stewards' credentials that are kept", group_digits(MOST_NOTICES)),
        ("proposals that a call to the server names", group_digits(daemon::MOST_KNOWN as u64)),
        ("events of a job's log that wait for the server", daemon::MOST_WAITING.to_string()),
        (
            "period of a release clock",
            format!("{} s to {} s", SHORTEST_PERIOD.as_secs_f64(), group_digits(LONGEST_PERIOD.as_secs())),
        ),
        (
            "public length of a unit",
            format!("{} s to {} s", SHORTEST_UNIT.as_secs_f64(), group_digits(LONGEST_UNIT.as_secs())),
        ),
        ("runs that stop with the worker", seconds(daemon::SHUTDOWN)),
        ("clocks of server and site", format!("{} h apart", admission::CLOCKS.whole_hours())),
        ("wait for another process at the ledger", seconds(store::PATIENCE)),
        ("row of a query log; its count", format!("{} MiB; 1 to {}", LONGEST_ROW >> 20, group_digits(LARGEST_COUNT))),
        ("line of private CSV", "its quotes close on it".to_owned()),
        (
            "row of CSV of a table; id of its unit; rows of a unit",
            format!(
                "{} MiB; {} bytes; {}",
                tables::source::LONGEST_ROW >> 20,
                group_digits(tables::value::LONGEST_UNIT as u64),
                group_digits(tables::add::MOST_UNIT_ROWS)
            ),
        ),
        ("encoded rows of a table", format!("{} GiB", (tables::sort::MOST_RUNS * tables::sort::SORT_MEMORY) >> 30)),
        (
            "threads that sum a table; its units",
            format!(
                "one for each processor, at most {}; {}",
                tables::sums::MOST_THREADS,
                group_digits(tables::sums::MOST_UNITS)
            ),
        ),
        (
            "query of a table in PostgreSQL; its condition",
            format!("{} KiB each", tables::source::postgres::error::LONGEST_QUERY >> 10),
        ),
        (
            "graph of an encoder or an evaluation; numbers of an encoded row; vocabulary",
            format!(
                "{} GiB; 1 to {}; {} MiB",
                encoder::MOST_GRAPH_BYTES >> 30,
                encoder::MOST_WIDTH,
                encoder::tokens::MOST_VOCABULARY_BYTES >> 20
            ),
        ),
        (
            "tokens of a text; encoded sound; encoded picture",
            format!(
                "{} to {}; {} s; {} MiB and {} pixels",
                encoder::specification::TOKENS.start(),
                group_digits(u64::from(*encoder::specification::TOKENS.end())),
                encoder::specification::MOST_SECONDS,
                encoder::picture::MOST_PICTURE_BYTES >> 20,
                group_digits(encoder::picture::MOST_PIXELS)
            ),
        ),
        ("label of an utterance", "below the declared number of classes".to_owned()),
        ("recording of a dataset", format!("{} s unless told", audio::LONGEST)),
        ("sensitive words; patterns; words of a vocabulary", words.map(|most| group_digits(most as u64)).join("; ")),
        ("passphrase of a backup", format!("at least {} characters; none with `--unsealed`", cli::SHORTEST_PASSPHRASE)),
    ]
}

/// Returns the limits of recordings and of their transcription.
fn transcription_limits() -> Vec<(&'static str, String)> {
    let seconds = |time: std::time::Duration| format!("{} s", time.as_secs());
    let mib = |bytes: usize| format!("{} MiB", bytes >> 20);
    let longest =
        ProviderProtocol::ALL.map(|protocol| format!("{} s (`{}`)", protocol.longest(), protocol.word())).join(", ");
    vec![
        (
            "recordings of a dataset; one of them; its reference; folders below `--input`",
            format!(
                "{}; {} h; {} MiB; {} deep",
                group_digits(recordings::MOST as u64),
                recordings::LONGEST / 3600.0,
                recordings::LARGEST_REFERENCE >> 20,
                recordings::DEEPEST
            ),
        ),
        (
            "the site's recognizer: pieces at a time; time of a piece; its sound; its start",
            format!(
                "1 to {}; 1 to {} s; {} s; {}",
                transcription::MOST_AT_ONCE,
                transcription::MOST_SECONDS,
                recognize::LONGEST,
                seconds(recognize::pocketsphinx::LOADING)
            ),
        ),
        (
            "keys of other sites that are pinned; a label",
            format!("{}; {} characters", group_digits(peer_keys::MOST_PINS as u64), peer_keys::MOST_LABEL),
        ),
        ("sites of a group", format!("{LEAST_SITES} to {MOST_SITES}")),
        (
            "factor of the language model of a trained model",
            format!("0 to {}", group_digits(transcription::MOST_LANGUAGE_WEIGHT as u64)),
        ),
        (
            "a voice converter's time of a piece; a speech engine's of a text",
            format!("1 to {} s; {}", voice::MOST_SECONDS, seconds(transcription::SPEAKING)),
        ),
        (
            "answer of a provider; of the site's recognizer; of a voice converter; of a speech engine",
            [line::LARGEST, recognize::server::LARGEST, voice::MOST_BYTES, speak::MOST_BYTES].map(mib).join("; "),
        ),
        (
            "words of a provider's answer; one of them",
            format!("{} and {} a second; {} bytes", line::FEWEST, line::DENSEST, line::LONGEST_WORD),
        ),
        (
            "message of a Vosk server; messages for one sound",
            format!("{}; {}", mib(vosk::MESSAGE), group_digits(vosk::MESSAGES as u64)),
        ),
        ("providers of a site", settings::MOST.to_string()),
        ("money that one transcription may cost outside", "`jobs.most_cost_per_job`; none without it".to_owned()),
        (
            "a provider's `concurrency`; `requests_per_minute`; `attempts`; `seconds`",
            [settings::MOST_AT_ONCE, settings::MOST_A_MINUTE, settings::MOST_ATTEMPTS, settings::MOST_SECONDS]
                .map(|most| format!("1 to {}", group_digits(most.into())))
                .join("; "),
        ),
        ("sound that a provider is sent", longest),
        ("key of a provider", format!("{} bytes", group_digits(key::LONGEST as u64))),
        (
            "connection to a provider; a name of the site's network looked up, and connected to",
            [web::CONNECT, private_host::PATIENCE].map(seconds).join("; "),
        ),
        (
            "pause before a provider is asked again; pause that it asks for",
            [line::LONGEST, line::ASKED].map(seconds).join("; "),
        ),
        ("sounds in a row without an answer of a provider", outbound::GIVE_UP.to_string()),
        (
            "sensitive word or pattern; a compiled pattern; a language's file",
            format!(
                "{} bytes; {}; {}",
                group_digits(sensitive::LONGEST as u64),
                mib(sensitive::LARGEST_PATTERN),
                mib(sensitive::language::LARGEST)
            ),
        ),
        ("list of sensitive words; document frequencies", format!("{0} MiB; {0} MiB", MOST_TEXT >> 20)),
        (
            "text that dummies are made of; words of a dummy; its sound; dummies spoken at a time",
            format!("{}; {}; {} s; {}", mib(dummy::corpus::MOST_BYTES), dummy::MOST_WORDS, SOUND, speak::MOST_AT_ONCE),
        ),
        (
            "times that a batch is gone through; pieces brought to the one voice at a time; dummies by which an engine is known",
            format!("{PASSES}; {AT_ONCE}; {SAMPLE}"),
        ),
        (
            "dummies to be expected of a job; providers of a plan",
            format!("{}; {}", group_digits(plan::MOST_DUMMIES as u64), plan::MOST_PROVIDERS),
        ),
        ("true pieces that are kept of a provider, and dummies", format!("{KEPT}; {KEPT}")),
    ]
}

/// Formats a number with a comma before each three digits.
fn group_digits(number: u64) -> String {
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

/// Returns the table's rows: the limited quantities and their limits.
fn documented_limits() -> Vec<(&'static str, &'static str)> {
    let (_, table) = OPERATION.split_once("## Limits\n").expect("there is such a section");
    let table = table.split("\n## ").next().unwrap_or_default();
    let cells = |line: &'static str| {
        let mut cells = line.trim_matches('|').split('|').map(str::trim);
        Some((cells.next()?, cells.next()?))
    };
    table.lines().filter(|line| line.starts_with('|')).skip(2).filter_map(cells).collect()
}

#[test]
fn documented_limits_are_the_constants() {
    let limits: Vec<_> = worker_limits().into_iter().chain(transcription_limits()).collect();
    let limits: Vec<_> = limits.iter().map(|(quantity, limit)| (*quantity, limit.as_str())).collect();
    assert_eq!(documented_limits(), limits);
}
