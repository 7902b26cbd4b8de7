//! Checks of a whole configuration: reports every problem at once, each with its line and remedy, instead of the first.
//!
//! An unknown key is also refused when the worker starts: a misspelt limit without any effect is worse than a worker
//! that does not start. To add a key: its line in [`KEYS`].

use std::fs;
use std::path::{Path, PathBuf};

use toml::Value;
use undertone_configuration::{ConfigText, KnownKeys, UnknownKey};

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
    ("", "proxy", false, "http:// or https://host:port of a proxy to the server; absent for none"),
    ("", "proxy_ca", false, "file (PEM) of the certificates that authenticate an https proxy; absent for the system's"),
    ("", "server_key", true, "Ed25519 key with which the server signs, hex"),
    ("", "worker", true, "this worker's id"),
    ("", "worker_name", true, "its name"),
    ("", "organization", true, "its organization's id"),
    ("", "organization_name", true, "its organization's name"),
    ("", "concurrent_runs", false, "number of concurrent jobs, 1 to 256"),
    ("", "rotate_key_days", false, "days after which the worker replaces the site's key, 30 to 3650; 0 for never"),
    ("", "anchor", false, "file on another disk with the number of the ledger's newest receipt; absent for none"),
    ("compute", "device", false, "cpu, cuda[:n] or wgpu[:n]"),
    ("compute", "threads", false, "CPU threads; 0 for one for each processor"),
    ("queries", "engine", false, "embedded or cluster"),
    ("queries", "scheduler", false, "df://host:port of a cluster"),
    ("queries", "shared", false, "folder that every executor has under this path"),
    ("queries", "private_network", false, "whether the cluster's network is the site's own"),
    ("queries", "memory_mib", false, "memory for counting, at least 32 MiB"),
    ("queries", "spill_mib", false, "disk for counting, at least 1 MiB"),
    ("queries", "tasks", false, "number of tasks into which a cluster divides the work; 0 for 16"),
    ("transcription", "recognizer", false, "table: the site's own recognizer (kind pocketsphinx, server or model)"),
    (
        "transcription",
        "speech",
        false,
        "table: the source of spoken dummies (kind espeak, flite, command, http or recorded)",
    ),
    ("transcription", "voice", false, "table: a voice converter (kind command or url)"),
    ("transcription", "dummies", false, "table: corpus, a public text"),
    ("transcription", "vocabulary", false, "table: baseline, document frequencies for vocabularies of public data"),
    (
        "transcription",
        "sensitive",
        false,
        "table: list, patterns, doubtful, least_confidence, language: words that never leave",
    ),
    ("transcription", "providers", false, "tables: the cloud recognizers, each with name, protocol, url and key"),
    ("programs", "variables", false, "environment variables of the worker that engines and recognizers also receive"),
    ("programs", "folders", false, "additional folders that they can read"),
    ("programs", "writable", false, "folders that they can write, such as a cache of models"),
    ("programs", "network", false, "whether they can open network connections"),
];

/// The tables with keys of their own.
const TABLES: [&str; 4] = ["compute", "queries", "transcription", "programs"];

/// One problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigMistake {
    /// The line, from 1; `None` when the problem concerns the whole file.
    pub line: Option<usize>,
    /// The key with its table; empty without a key.
    pub key: String,
    /// The problem and the remedy.
    pub problem: String,
}

/// The result of a check.
#[derive(Debug)]
pub struct ConfigReport {
    /// All problems, in the order of the lines.
    pub mistakes: Vec<ConfigMistake>,
    /// Every key in force. Empty when the file has problems.
    pub keys: Vec<EffectiveKey>,
}

/// A key of the configuration, with its value in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectiveKey {
    /// The name, with its table.
    pub name: String,
    /// The value as TOML, or `none`.
    pub value: String,
    /// Whether the file sets it.
    pub is_set: bool,
    /// The meaning.
    pub meaning: &'static str,
}

/// Checks the configuration at `path`.
///
/// # Errors
/// [`ConfigError::Folder`] when it cannot be read.
pub fn check(path: &Path) -> Result<ConfigReport, ConfigError> {
    let content = fs::read_to_string(path).map_err(crate::site::folder::FolderError::io("read", path))?;
    let text = ConfigText::new(&content);
    let table: toml::Table = match content.parse() {
        Ok(table) => table,
        Err(error) => {
            let line = error.span().map(|span| text.line_at(span.start));
            let problem = format!("this is not valid TOML: {}", error.message());
            let mistakes = vec![ConfigMistake { line, key: String::new(), problem }];
            return Ok(ConfigReport { mistakes, keys: Vec::new() });
        }
    };
    let mut mistakes = Vec::new();
    check_names(text, &table, &mut mistakes);
    check_required(&table, &mut mistakes);
    check_ranges(text, &table, &mut mistakes);
    if mistakes.is_empty() {
        match Config::parse(&content, path) {
            Ok(config) => check_paths(text, &config.queries, &mut mistakes),
            Err(ConfigError::Toml { source, .. }) => {
                let line = source.span().map(|span| text.line_at(span.start));
                let key = line.map(|line| text.key_on(line)).unwrap_or_default();
                let meaning =
                    KEYS.iter().find(|(table, name, ..)| join_key(table, name) == key).map(|(.., meaning)| *meaning);
                let problem = match meaning {
                    Some(meaning) => format!("{} ({meaning})", source.message()),
                    None => source.message().to_owned(),
                };
                mistakes.push(ConfigMistake { line, key, problem });
            }
            Err(ConfigError::Field { field, problem }) => {
                mistakes.push(ConfigMistake { line: text.find_line(field), key: field.to_owned(), problem });
            }
            Err(other) => return Err(other),
        }
    }
    mistakes.sort_by_key(|mistake| mistake.line);
    let keys = if mistakes.is_empty() { list_effective_keys(&table) } else { Vec::new() };
    Ok(ConfigReport { mistakes, keys })
}

/// Reports unknown keys, each with the nearest known key.
fn check_names(text: ConfigText<'_>, table: &toml::Table, mistakes: &mut Vec<ConfigMistake>) {
    let known = KnownKeys::new(KEYS.iter().map(|(table, key, ..)| (join_key(table, key), false)));
    let names = table.iter().flat_map(|(name, value)| match value {
        Value::Table(inner) if TABLES.contains(&name.as_str()) => {
            inner.keys().map(|key| join_key(name, key)).collect::<Vec<_>>()
        }
        _ if TABLES.contains(&name.as_str()) => Vec::new(),
        _ => vec![name.clone()],
    });
    for UnknownKey { name: key, nearest } in names.filter_map(|name| known.check(&name).err()) {
        let problem = match nearest {
            Some(nearest) => format!("there is no such key: did you mean `{nearest}`?"),
            None => "there is no such key: remove it".to_owned(),
        };
        mistakes.push(ConfigMistake { line: text.find_line(&key), key, problem });
    }
}

/// Reports missing keys that enrolment writes.
fn check_required(table: &toml::Table, mistakes: &mut Vec<ConfigMistake>) {
    for (section, name, is_required, meaning) in KEYS {
        if is_required && section.is_empty() && !table.contains_key(name) {
            let problem =
                format!("the key is missing ({meaning}): enrolment writes it; restore the file from a backup");
            mistakes.push(ConfigMistake { line: None, key: name.to_owned(), problem });
        }
    }
}

/// Reports numbers outside their ranges.
fn check_ranges(text: ConfigText<'_>, table: &toml::Table, mistakes: &mut Vec<ConfigMistake>) {
    let mut refuse = |key: &str, problem: String| {
        mistakes.push(ConfigMistake { line: text.find_line(key), key: key.to_owned(), problem });
    };
    let number = |key: &str| table.get(key).and_then(Value::as_integer);
    if let Some(runs) = number("concurrent_runs").filter(|runs| !(1..=MOST_RUNS).contains(runs)) {
        refuse("concurrent_runs", format!("must be 1 to {MOST_RUNS}, not {runs}"));
    }
    if let Some(days) = number("rotate_key_days").filter(|days| *days != 0 && !KEY_DAYS.contains(days)) {
        refuse(
            "rotate_key_days",
            format!("must be {} to {} days, or 0 for never, not {days}", KEY_DAYS.start(), KEY_DAYS.end()),
        );
    }
}

/// Reports missing folders.
fn check_paths(text: ConfigText<'_>, queries: &Queries, mistakes: &mut Vec<ConfigMistake>) {
    if let (EngineKind::Cluster, Some(shared)) = (queries.engine, &queries.shared)
        && !shared.is_dir()
    {
        let problem = format!("{} is not a folder: mount the shared folder at this path", shared.display());
        let key = "queries.shared".to_owned();
        mistakes.push(ConfigMistake { line: text.find_line(&key), key, problem });
    }
}

/// Returns every key with its value in force: that of the file, or the built-in one.
fn list_effective_keys(table: &toml::Table) -> Vec<EffectiveKey> {
    let defaults = default_table();
    let look_up = |table: &toml::Table, section: &str, name: &str| -> Option<String> {
        let inner = if section.is_empty() { Some(table) } else { table.get(section).and_then(Value::as_table) };
        inner.and_then(|inner| inner.get(name)).map(ToString::to_string)
    };
    let effective_key = |(section, name, _, meaning): (&str, &str, bool, &'static str)| {
        let value = look_up(table, section, name);
        let value = if name == "proxy" { value.map(|text| without_credentials(&text)) } else { value };
        let is_set = value.is_some();
        let value = value.or_else(|| look_up(&defaults, section, name)).unwrap_or_else(|| "none".to_owned());
        EffectiveKey { name: join_key(section, name), value, is_set, meaning }
    };
    KEYS.into_iter().map(effective_key).collect()
}

/// Returns a proxy's address as TOML, without user and password.
fn without_credentials(proxy: &str) -> String {
    let server = ProxyServer::parse(proxy.trim_matches('"'));
    server.map_or_else(|_| "\"********\"".to_owned(), |proxy| format!("\"{}\"", proxy.address()))
}

/// Returns the path of the ledger's anchor, if it lies outside of the folder of the configuration at `config`.
///
/// # Errors
/// [`ConfigError::Field`] for a relative path, or one inside of the site's folder.
pub(super) fn check_anchor_path(anchor: &Path, config: &Path) -> Result<PathBuf, ConfigError> {
    let site = config.parent().unwrap_or(Path::new("."));
    let site = site.canonicalize().unwrap_or_else(|_| site.to_owned());
    let folder = anchor.parent().map(|folder| folder.canonicalize().unwrap_or_else(|_| folder.to_owned()));
    if anchor.is_relative() || folder.is_none_or(|folder| folder.starts_with(&site)) {
        let problem = format!("{}: must be the absolute path of a file outside of the site's folder", anchor.display());
        return Err(field("anchor", problem));
    }
    Ok(anchor.to_owned())
}

/// Returns the built-in values.
fn default_table() -> toml::Table {
    let mut table = toml::Table::new();
    table.insert("concurrent_runs".to_owned(), Value::Integer(super::default_runs() as i64));
    table.insert("rotate_key_days".to_owned(), Value::Integer(i64::from(super::default_key_days())));
    let compute = toml::Value::try_from(crate::dp::device::Compute::default());
    let queries = toml::Value::try_from(Queries::default());
    let transcription = toml::Value::try_from(super::transcription::TranscriptionSettings::default());
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

fn join_key(table: &str, key: &str) -> String {
    if table.is_empty() { key.to_owned() } else { format!("{table}.{key}") }
}

#[cfg(test)]
mod tests {
    use super::{KEY_DAYS, KEYS, MOST_RUNS, check, list_effective_keys};
    use crate::config::queries::LEAST_MEMORY;
    use crate::site::folder::Folder;

    fn valid_config() -> String {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let folder = Folder::new(dir.path());
        crate::fixture::config().store(&folder).expect("the folder is writable");
        std::fs::read_to_string(folder.config()).expect("it is there")
    }

    fn mistakes(text: &str) -> Vec<(Option<usize>, String, String)> {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("config.toml");
        std::fs::write(&path, text).expect("the folder is writable");
        let report = check(&path).expect("it can be read");
        report.mistakes.into_iter().map(|mistake| (mistake.line, mistake.key, mistake.problem)).collect()
    }

    #[test]
    fn enrolment_writes_a_valid_config_of_known_keys() {
        let text = valid_config();
        assert_eq!(mistakes(&text), []);
        let table: toml::Table = text.parse().expect("TOML");
        let keys = list_effective_keys(&table);
        assert_eq!(keys.len(), KEYS.len());
        assert!(keys.iter().any(|key| key.name == "rotate_key_days" && key.value == "365" && key.is_set));
        assert!(keys.iter().any(|key| key.name == "certificate" && key.value == "none" && !key.is_set));
        // Every key that is ever written is in the table.
        let written = table.iter().flat_map(|(name, value)| match value {
            toml::Value::Table(inner) => inner.keys().map(|key| (name.clone(), key.clone())).collect(),
            _ => vec![(String::new(), name.clone())],
        });
        for (section, name) in written {
            assert!(KEYS.iter().any(|(table, key, ..)| *table == section && *key == name), "{section}.{name}");
        }
    }

    #[test]
    fn all_mistakes_are_reported_with_line_and_remedy() {
        let text = valid_config().replace("concurrent_runs = 4", "concurrent_runs = 0\nconcurent_runs = 4")
            + "\n[querries]\nmemory_mib = 1\n";
        let problems = mistakes(&text);
        let line = |key: &str| text.lines().position(|line| line.contains(key)).map(|line| line + 1);
        assert_eq!(problems.len(), 3, "{problems:?}");
        assert_eq!(problems[0].0, line("concurrent_runs = 0"));
        assert!(problems[0].2.contains("1 to 256"), "{problems:?}");
        assert!(problems[1].1 == "concurent_runs" && problems[1].2.contains("`concurrent_runs`"), "{problems:?}");
        assert_eq!((problems[2].0, problems[2].1.as_str()), (line("[querries]"), "querries"));
    }

    #[test]
    fn numbers_beyond_their_range_are_mistakes() {
        let good = valid_config();
        for (line, key, valid, invalid) in [
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
            let mistakes_with = |value: i64| mistakes(&good.replace(line, &format!("{name} = {value}")));
            for value in valid {
                assert_eq!(mistakes_with(value), [], "{name} = {value}");
            }
            for value in invalid {
                assert!(mistakes_with(value).iter().any(|(_, name, _)| name == key), "{name} = {value}");
            }
        }
    }

    #[test]
    fn credentials_of_a_proxy_are_not_shown() {
        let text =
            valid_config().replace("concurrent_runs = 4", "concurrent_runs = 4\nproxy = \"http://ward:secret@p:3128\"");
        let table: toml::Table = toml::from_str(&text).expect("TOML");
        let keys = list_effective_keys(&table);
        let proxy = keys.into_iter().find(|key| key.name == "proxy").expect("a known key");
        assert_eq!(proxy.value, "\"http://p:3128\"");
    }

    #[test]
    fn each_kind_of_mistake_is_reported() {
        let good = valid_config();
        for (from, to, expected_key, words) in [
            ("rotate_key_days = 365", "rotate_key_days = 3", "rotate_key_days", "30 to 3650"),
            ("memory_mib = 512", "memory_mib = 1", "queries.memory_mib", "at least 32"),
            ("device = \"cpu\"", "device = \"tpu\"", "compute.device", "no device"),
            ("threads = 0", "threads = \"all\"", "compute.threads", "(CPU threads; 0 for"),
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
            ("[compute]", "[compute", "", "not valid TOML"),
        ] {
            assert!(good.contains(from), "{from}\n{good}");
            let problems = mistakes(&good.replace(from, to));
            assert!(
                problems.iter().any(|(_, key, problem)| key == expected_key && problem.contains(words)),
                "{to}: {problems:?}"
            );
        }
        let cluster = good.replace(
            "engine = \"embedded\"",
            "engine = \"cluster\"\nscheduler = \"df://127.0.0.1:1\"\nshared = \"/nowhere\"",
        );
        assert!(mistakes(&cluster).iter().any(|(line, key, _)| key == "queries.shared" && line.is_some()));
    }
}
