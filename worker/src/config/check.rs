//! Checks of a whole configuration: reports every problem at once, each with its line and remedy, instead of the first.
//!
//! An unknown key is also refused when the worker starts: a misspelt limit without any effect is worse than a worker
//! that does not start. To add a key: its line in [`KEYS`].

use std::fs;
use std::path::{Path, PathBuf};

use toml::Value;

use super::queries::{EngineKind, Queries};
use super::{Config, ConfigError, ProxyServer, field};

/// The highest number of jobs that may run at a time.
pub const MOST_RUNS: i64 = 256;
/// The lifetimes of a key in days, except for "never".
pub const KEY_DAYS: std::ops::RangeInclusive<i64> = 30..=3650;

/// Every key: its table, its name, whether enrolment always writes it, and its meaning.
pub const KEYS: [(&str, &str, bool, &str); 32] = [
    ("", "server", true, "address of the server's gateway for workers"),
    ("", "certificate", false, "SHA-256 of the certificate at enrolment, hex; absent on loopback without TLS"),
    (
        "",
        "proxy",
        false,
        "http:// or https://host:port of a proxy by which the worker reaches the server; absent for none",
    ),
    (
        "",
        "proxy_ca",
        false,
        "file (PEM) of the certificates that an https proxy is recognized by; absent for the system's",
    ),
    ("", "server_key", true, "Ed25519 key with which the server signs, hex"),
    ("", "worker", true, "this worker's id"),
    ("", "worker_name", true, "its name"),
    ("", "organization", true, "its organization's id"),
    ("", "organization_name", true, "its organization's name"),
    ("", "concurrent_runs", false, "jobs that run at a time, 1 to 256"),
    ("", "rotate_key_days", false, "days after which the site's key is followed by another, 30 to 3650; 0 for never"),
    ("", "anchor", false, "file on another disk that holds the number of the ledger's newest receipt; absent for none"),
    ("compute", "device", false, "cpu, cuda[:n] or wgpu[:n]"),
    ("compute", "threads", false, "threads of the CPU; 0 for one for each processor"),
    ("queries", "engine", false, "embedded or cluster"),
    ("queries", "scheduler", false, "df://host:port of a cluster"),
    ("queries", "shared", false, "folder that every executor sees under this path"),
    ("queries", "private_network", false, "whether the cluster's network is the site's own"),
    ("queries", "memory_mib", false, "memory for counting, at least 32 MiB"),
    ("queries", "spill_mib", false, "disk for counting, at least 1 MiB"),
    ("queries", "tasks", false, "parts into which a cluster divides the work; 0 for 16"),
    ("transcription", "recognizer", false, "table: who hears recordings at the site (kind pocketsphinx or server)"),
    ("transcription", "speech", false, "table: who speaks the dummies (kind espeak, flite, command, http or recorded)"),
    ("transcription", "voice", false, "table: a converter of voices (kind command or url)"),
    ("transcription", "dummies", false, "table: corpus, a text that anybody may have"),
    ("transcription", "vocabulary", false, "table: baseline, document frequencies for vocabularies of public data"),
    (
        "transcription",
        "sensitive",
        false,
        "table: list, patterns, doubtful, least_confidence, language: what never leaves",
    ),
    (
        "transcription",
        "providers",
        false,
        "tables: the cloud recognizers, each with name, protocol, url and its key's place",
    ),
    ("programs", "variables", false, "variables of the worker's environment that engines and recognizers get as well"),
    ("programs", "folders", false, "folders that they may read besides the system's and their own"),
    ("programs", "writable", false, "folders that they may write, such as a cache of models"),
    ("programs", "network", false, "whether they may open connections"),
];

/// One problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The line, from 1; `None` when the problem concerns the whole file.
    pub line: Option<usize>,
    /// The key with its table; empty without a key.
    pub key: String,
    /// The problem and the remedy.
    pub problem: String,
}

/// The result of a check.
#[derive(Debug)]
pub struct Checked {
    /// All problems, in the order of the lines.
    pub mistakes: Vec<Mistake>,
    /// Every key in force: name, value, whether the file sets it, meaning. Empty when the file has problems.
    pub keys: Vec<(String, String, bool, &'static str)>,
}

/// Checks the configuration at `path`.
///
/// # Errors
/// [`ConfigError::Folder`] when it cannot be read.
pub fn check(path: &Path) -> Result<Checked, ConfigError> {
    let text = fs::read_to_string(path).map_err(crate::site::folder::FolderError::io("read", path))?;
    let table: toml::Table = match text.parse() {
        Ok(table) => table,
        Err(error) => {
            let line = error.span().map(|span| line_of(&text, span.start));
            let problem = format!("this is no TOML: {}", error.message());
            return Ok(Checked { mistakes: vec![Mistake { line, key: String::new(), problem }], keys: Vec::new() });
        }
    };
    let mut mistakes = Vec::new();
    unknown(&text, &table, &mut mistakes);
    missing(&table, &mut mistakes);
    ranges(&text, &table, &mut mistakes);
    if mistakes.is_empty() {
        match Config::parse(&text, path) {
            Ok(config) => paths(&text, &config.queries, &mut mistakes),
            Err(ConfigError::Toml { source, .. }) => {
                let line = source.span().map(|span| line_of(&text, span.start));
                let key = line.map(|line| key_on(&text, line)).unwrap_or_default();
                let meaning = KEYS.iter().find(|(of, name, ..)| joined(of, name) == key).map(|(.., meaning)| *meaning);
                let problem = match meaning {
                    Some(meaning) => format!("{} ({meaning})", source.message()),
                    None => source.message().to_owned(),
                };
                mistakes.push(Mistake { line, key, problem });
            }
            Err(ConfigError::Field { field, problem }) => {
                mistakes.push(Mistake { line: find(&text, field), key: field.to_owned(), problem });
            }
            Err(other) => return Err(other),
        }
    }
    mistakes.sort_by_key(|mistake| mistake.line);
    let keys = if mistakes.is_empty() { in_force(&table) } else { Vec::new() };
    Ok(Checked { mistakes, keys })
}

/// Reports unknown keys, each with the nearest known key.
fn unknown(text: &str, table: &toml::Table, mistakes: &mut Vec<Mistake>) {
    let known = |of: &str, name: &str| KEYS.iter().any(|(table, key, ..)| *table == of && *key == name);
    let tables = ["compute", "queries", "transcription", "programs"];
    let mut report = |of: &str, name: &str| {
        let full = joined(of, name);
        let near = nearest(&full);
        let problem = match near {
            Some(near) => format!("there is no such key: did you mean `{near}`?"),
            None => "there is no such key: remove it".to_owned(),
        };
        mistakes.push(Mistake { line: find(text, &full), key: full, problem });
    };
    for (name, value) in table {
        match value {
            Value::Table(inner) if tables.contains(&name.as_str()) => {
                inner.keys().filter(|key| !known(name, key)).for_each(|key| report(name, key));
            }
            _ if known("", name) || tables.contains(&name.as_str()) => {}
            _ => report("", name),
        }
    }
}

/// Returns the known key nearest to `name`, if one is near.
fn nearest(name: &str) -> Option<String> {
    let all = KEYS.iter().map(|(table, key, ..)| joined(table, key));
    let near = all.map(|key| (distance(name, &key), key)).min();
    near.filter(|(distance, key)| *distance <= 2 + key.len() / 4).map(|(_, key)| key)
}

/// Returns the number of letters to change, add or remove (Levenshtein distance).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut before = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = before + usize::from(x != *y);
            before = row[j + 1];
            row[j + 1] = changed.min(before + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

fn missing(table: &toml::Table, mistakes: &mut Vec<Mistake>) {
    for (of, name, required, meaning) in KEYS {
        if required && of.is_empty() && !table.contains_key(name) {
            let problem = format!("it is missing ({meaning}): enrolment wrote it; restore the file from a backup");
            mistakes.push(Mistake { line: None, key: name.to_owned(), problem });
        }
    }
}

/// Reports numbers outside their ranges.
fn ranges(text: &str, table: &toml::Table, mistakes: &mut Vec<Mistake>) {
    let mut refuse = |key: &str, problem: String| {
        mistakes.push(Mistake { line: find(text, key), key: key.to_owned(), problem });
    };
    let number = |key: &str| table.get(key).and_then(Value::as_integer);
    if let Some(runs) = number("concurrent_runs").filter(|runs| !(1..=MOST_RUNS).contains(runs)) {
        refuse("concurrent_runs", format!("1 to {MOST_RUNS}, not {runs}"));
    }
    if let Some(days) = number("rotate_key_days").filter(|days| *days != 0 && !KEY_DAYS.contains(days)) {
        refuse(
            "rotate_key_days",
            format!("{} to {} days, or 0 for never, not {days}", KEY_DAYS.start(), KEY_DAYS.end()),
        );
    }
}

/// Reports missing folders.
fn paths(text: &str, queries: &Queries, mistakes: &mut Vec<Mistake>) {
    if let (EngineKind::Cluster, Some(shared)) = (queries.engine, &queries.shared)
        && !shared.is_dir()
    {
        let problem = format!("{} is no folder: mount it at this path", shared.display());
        mistakes.push(Mistake { line: find(text, "queries.shared"), key: "queries.shared".to_owned(), problem });
    }
}

fn in_force(table: &toml::Table) -> Vec<(String, String, bool, &'static str)> {
    let defaults = defaults();
    let look = |table: &toml::Table, of: &str, name: &str| -> Option<String> {
        let inner = if of.is_empty() { Some(table) } else { table.get(of).and_then(Value::as_table) };
        inner.and_then(|inner| inner.get(name)).map(ToString::to_string)
    };
    let row = |(of, name, _, meaning): (&str, &str, bool, &'static str)| {
        let said = look(table, of, name);
        let said = if name == "proxy" { said.map(|text| without_credentials(&text)) } else { said };
        let value = said.clone().or_else(|| look(&defaults, of, name)).unwrap_or_else(|| "none".to_owned());
        (joined(of, name), value, said.is_some(), meaning)
    };
    KEYS.into_iter().map(row).collect()
}

/// Returns a proxy's address as TOML, without user and password.
fn without_credentials(proxy: &str) -> String {
    let parsed = ProxyServer::parse(proxy.trim_matches('"'));
    parsed.map_or_else(|_| "\"********\"".to_owned(), |proxy| format!("\"{}\"", proxy.address()))
}

/// Returns the path of the ledger's anchor, if it lies outside of the folder of the configuration at `config`.
///
/// # Errors
/// [`ConfigError::Field`] for a relative path, or one inside of the site's folder.
pub(super) fn outside(anchor: &Path, config: &Path) -> Result<PathBuf, ConfigError> {
    let site = config.parent().unwrap_or(Path::new("."));
    let site = site.canonicalize().unwrap_or_else(|_| site.to_owned());
    let folder = anchor.parent().map(|folder| folder.canonicalize().unwrap_or_else(|_| folder.to_owned()));
    if anchor.is_relative() || folder.is_none_or(|folder| folder.starts_with(&site)) {
        let problem = format!("{}: name a file outside of the site's folder, by its whole path", anchor.display());
        return Err(field("anchor", problem));
    }
    Ok(anchor.to_owned())
}

/// Returns the built-in values.
fn defaults() -> toml::Table {
    let mut table = toml::Table::new();
    table.insert("concurrent_runs".to_owned(), Value::Integer(super::four() as i64));
    table.insert("rotate_key_days".to_owned(), Value::Integer(i64::from(super::year())));
    let compute = toml::Value::try_from(crate::dp::device::Compute::default());
    let queries = toml::Value::try_from(Queries::default());
    let transcription = toml::Value::try_from(super::transcription::Transcription::default());
    let programs = toml::Value::try_from(crate::speech::sandbox::Programs::default());
    for (name, value) in
        [("compute", compute), ("queries", queries), ("transcription", transcription), ("programs", programs)]
    {
        if let Ok(value) = value {
            table.insert(name.to_owned(), value);
        }
    }
    table
}

fn joined(table: &str, key: &str) -> String {
    if table.is_empty() { key.to_owned() } else { format!("{table}.{key}") }
}

/// Returns the line on which a key is set.
fn find(text: &str, key: &str) -> Option<usize> {
    let (table, name) = key.split_once('.').unwrap_or(("", key));
    let mut within = String::new();
    for (line, number) in text.lines().zip(1..) {
        let line = line.trim();
        if line.starts_with('[') {
            head(line).clone_into(&mut within);
            if within == key || (table.is_empty() && within == name) {
                return Some(number);
            }
        } else if let Some((left, _)) = line.split_once('=') {
            let left = left.trim().trim_matches('"');
            if (within == table && left == name) || (within.is_empty() && left == key) {
                return Some(number);
            }
        }
    }
    None
}

/// Returns the name of the table that begins on a line.
fn head(line: &str) -> &str {
    line.split('#').next().unwrap_or_default().trim().trim_matches(['[', ']']).trim()
}

/// Returns the key that is set on a line, with its table; empty if there is none.
fn key_on(text: &str, number: usize) -> String {
    let lines: Vec<&str> = text.lines().take(number).map(str::trim).collect();
    let within = lines.iter().rev().find(|line| line.starts_with('[')).map_or("", |line| head(line));
    let set = lines.last().and_then(|line| line.split_once('='));
    set.map(|(left, _)| joined(within, left.trim().trim_matches('"'))).unwrap_or_default()
}

fn line_of(text: &str, position: usize) -> usize {
    text.bytes().take(position).filter(|byte| *byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::{KEY_DAYS, KEYS, MOST_RUNS, check, in_force};
    use crate::config::queries::LEAST_MEMORY;
    use crate::site::folder::Folder;

    fn good() -> String {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let folder = Folder::new(dir.path());
        crate::fixture::config().store(&folder).expect("the folder is writable");
        std::fs::read_to_string(folder.config()).expect("it is there")
    }

    fn mistakes(text: &str) -> Vec<(Option<usize>, String, String)> {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("config.toml");
        std::fs::write(&path, text).expect("the folder is writable");
        let found = check(&path).expect("it can be read").mistakes;
        found.into_iter().map(|mistake| (mistake.line, mistake.key, mistake.problem)).collect()
    }

    #[test]
    fn what_enrolment_writes_is_right_and_names_known_keys_only() {
        let text = good();
        assert_eq!(mistakes(&text), []);
        let table: toml::Table = text.parse().expect("TOML");
        let shown = in_force(&table);
        assert_eq!(shown.len(), KEYS.len());
        assert!(shown.iter().any(|(key, value, said, _)| key == "rotate_key_days" && value == "365" && *said));
        assert!(shown.iter().any(|(key, value, said, _)| key == "certificate" && value == "none" && !said));
        // Every key that is ever written is in the table.
        let written = table.iter().flat_map(|(name, value)| match value {
            toml::Value::Table(inner) => inner.keys().map(|key| (name.clone(), key.clone())).collect(),
            _ => vec![(String::new(), name.clone())],
        });
        for (of, name) in written {
            assert!(KEYS.iter().any(|(table, key, ..)| *table == of && *key == name), "{of}.{name}");
        }
    }

    #[test]
    fn every_mistake_is_told_at_once_with_its_line_and_remedy() {
        let text = good().replace("concurrent_runs = 4", "concurrent_runs = 0\nconcurent_runs = 4")
            + "\n[querries]\nmemory_mib = 1\n";
        let found = mistakes(&text);
        let line = |key: &str| text.lines().position(|line| line.contains(key)).map(|line| line + 1);
        assert_eq!(found.len(), 3, "{found:?}");
        assert_eq!(found[0].0, line("concurrent_runs = 0"));
        assert!(found[0].2.contains("1 to 256"), "{found:?}");
        assert!(found[1].1 == "concurent_runs" && found[1].2.contains("`concurrent_runs`"), "{found:?}");
        assert_eq!((found[2].0, found[2].1.as_str()), (line("[querries]"), "querries"));
    }

    #[test]
    fn a_number_may_be_at_the_end_of_its_range_and_not_one_beyond() {
        let good = good();
        for (line, key, within, beyond) in [
            ("concurrent_runs = 4", "concurrent_runs", [1, MOST_RUNS], [0, MOST_RUNS + 1]),
            (
                "rotate_key_days = 365",
                "rotate_key_days",
                [*KEY_DAYS.start(), *KEY_DAYS.end()],
                [KEY_DAYS.start() - 1, KEY_DAYS.end() + 1],
            ),
            ("memory_mib = 512", "queries.memory_mib", [32, i64::from(LEAST_MEMORY)], [31, 0]),
            ("spill_mib = 102400", "queries.spill_mib", [1, 2], [0, 0]),
        ] {
            assert!(good.contains(line), "{line}\n{good}");
            let name = line.split(' ').next().unwrap_or_default();
            let told = |value: i64| mistakes(&good.replace(line, &format!("{name} = {value}")));
            for value in within {
                assert_eq!(told(value), [], "{name} = {value}");
            }
            for value in beyond {
                assert!(told(value).iter().any(|(_, of, _)| of == key), "{name} = {value}");
            }
        }
    }

    #[test]
    fn credentials_of_a_proxy_are_not_shown() {
        let text = good().replace("concurrent_runs = 4", "concurrent_runs = 4\nproxy = \"http://ward:secret@p:3128\"");
        let table: toml::Table = toml::from_str(&text).expect("TOML");
        let shown = in_force(&table).into_iter().find(|(key, ..)| key == "proxy").expect("a key of ours");
        assert_eq!(shown.1, "\"http://p:3128\"");
    }

    #[test]
    fn each_kind_of_mistake_is_found() {
        let good = good();
        for (from, to, named, words) in [
            ("rotate_key_days = 365", "rotate_key_days = 3", "rotate_key_days", "30 to 3650"),
            ("memory_mib = 512", "memory_mib = 1", "queries.memory_mib", "at least 32"),
            ("device = \"cpu\"", "device = \"tpu\"", "compute.device", "no device"),
            ("threads = 0", "threads = \"all\"", "compute.threads", "(threads of the CPU; 0 for"),
            ("worker = \"", "worker = \"not-an-id-", "worker", "(this worker's id)"),
            ("threads = 0", "treads = 0", "compute.treads", "compute.threads"),
            ("server = \"http://127.0.0.1:8421\"", "server = \"http://elsewhere:8421\"", "server", "use https"),
            ("server_key = \"", "server_key = \"zz", "server_key", "Ed25519"),
            ("worker_name = \"north\"\n", "", "worker_name", "missing"),
            (
                "rotate_key_days = 365",
                "rotate_key_days = 365\nanchor = \"anchor\"",
                "anchor",
                "outside of the site's folder",
            ),
            (
                "rotate_key_days = 365",
                "rotate_key_days = 365\nproxy = \"socks5://p\"",
                "proxy",
                "write http://host:port",
            ),
            ("rotate_key_days = 365", "rotate_key_days = 365\nproxy_ca = \"/ca.pem\"", "proxy_ca", "no proxy"),
            ("[compute]", "[compute", "", "no TOML"),
        ] {
            assert!(good.contains(from), "{from}\n{good}");
            let found = mistakes(&good.replace(from, to));
            assert!(found.iter().any(|(_, key, problem)| key == named && problem.contains(words)), "{to}: {found:?}");
        }
        let cluster = good.replace(
            "engine = \"embedded\"",
            "engine = \"cluster\"\nscheduler = \"df://127.0.0.1:1\"\nshared = \"/nowhere\"",
        );
        assert!(mistakes(&cluster).iter().any(|(line, key, _)| key == "queries.shared" && line.is_some()));
    }
}
