//! Every option of `data prepare` on private data: with and without each unit, the rows of all others are
//! bit-identical. More exactly, the rows of the whole are those without the unit and those of the unit alone. The
//! registered facts of the dataset differ in sizes only.
//!
//! The options are those of clap: one without an entry in [`speech::CASES`] or [`queries::CASES`] fails the test. All
//! data are made here.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::Args;
use undertone_api::dataset::{DatasetRegistration, SizeClass};
use undertone_api::id::LineageId;
use undertone_privacy::PrivacyUnit;

use super::super::prepare::PrepareCommand;
use super::data_at;
use crate::site::datasets::scan;
use crate::site::folder::Folder;
use crate::site::policy::{Policy, TEMPLATE};
use crate::site::store::Store;

mod queries;
mod speech;

/// The expectation for an option.
enum OptionCase {
    /// Private data may be prepared with each of these arguments.
    Tried(&'static [&'static str]),
    /// Private data are refused with these arguments, and the message names this remedy.
    Refused(&'static str, &'static str),
}

use OptionCase::{Refused, Tried};

/// Options of both recordings and query logs.
const SHARED: [&str; 6] = ["continues", "hold-out", "name", "output", "replace", "visibility"];
/// Options that require a dataset made at its own site.
const OF_A_SITE: [&str; 3] = ["--continues", "--replace", "--visibility"];

/// A unit, with the folders of the data without it and of its data alone.
struct NeighbourData {
    unit: PrivacyUnit,
    name: String,
    without: PathBuf,
    alone: PathBuf,
}

/// A function that names the unit of a sample.
type UnitName<S> = fn(&S) -> String;

/// The data of a site, with their neighbours.
struct NeighbourSet {
    whole: PathBuf,
    neighbours: Vec<NeighbourData>,
}

impl NeighbourSet {
    /// Writes `samples` below `dir`, whole and for each unit; `unit_of` names the unit of a sample, if it has one.
    fn new<S>(dir: &Path, samples: &[S], units: &[(PrivacyUnit, UnitName<S>)], write: fn(&Path, &[&S])) -> Self {
        let whole = dir.join("whole");
        write(&whole, &samples.iter().collect::<Vec<_>>());
        let mut neighbours = Vec::new();
        for (unit, unit_of) in units {
            let names: BTreeSet<String> = samples.iter().map(unit_of).collect();
            for name in names {
                let (of_unit, others): (Vec<&S>, Vec<&S>) = samples.iter().partition(|sample| unit_of(sample) == name);
                let number = neighbours.len();
                let without = dir.join(format!("without-{number}"));
                let alone = dir.join(format!("alone-{number}"));
                write(&without, &others);
                write(&alone, &of_unit);
                neighbours.push(NeighbourData { unit: *unit, name, without, alone });
            }
        }
        Self { whole, neighbours }
    }
}

/// The result of a preparation.
#[derive(Debug, Clone, PartialEq)]
struct PreparedRows<R> {
    rows: Vec<R>,
    units: Vec<PrivacyUnit>,
}

/// A kind of data with its neighbours.
trait DataKind: Sync {
    /// A row, compared bit by bit.
    type Row: Ord + Clone + std::fmt::Debug + Send;

    /// Returns the whole command for a variant; `{}` stands for the folder.
    fn command(&self, arguments: &str) -> String;

    /// Reads the dataset in a folder.
    fn read(&self, dataset: &Path) -> PreparedRows<Self::Row>;

    /// Returns whether a row belongs to the unit, for options that name a unit missing from a neighbour.
    fn is_of(&self, row: &Self::Row, unit: PrivacyUnit, name: &str) -> bool;
}

/// Returns the site of a variant. Each variant has its own, because the same data have one lineage at a site.
fn site_folder(folder: &Path, name: &str) -> PathBuf {
    folder.join("sites").join(name)
}

/// Prepares the dataset `name` in a neighbour's folder, and reads it.
fn prepare<K: DataKind>(kind: &K, folder: &Path, name: &str, arguments: &str) -> Result<PreparedRows<K::Row>, String> {
    let site = site_folder(folder, name);
    let run = |name: &str, arguments: &str| {
        data_at(&site, folder, &format!("prepare --name {name} {}", kind.command(arguments)))
    };
    if !OF_A_SITE.iter().any(|option| arguments.contains(option)) {
        std::fs::create_dir_all(folder.join("elsewhere")).unwrap();
        let output = format!("elsewhere/{name}");
        let arguments = if arguments.contains("--output") {
            arguments.replace("{name}", &output)
        } else {
            format!("{arguments} --output {{}}/{output}")
        };
        run(name, &arguments)?;
        return Ok(kind.read(&folder.join(output)));
    }
    std::fs::create_dir_all(folder.join("sites")).unwrap();
    Folder::new(&site).create().unwrap();
    std::fs::write(Folder::new(&site).policy(), TEMPLATE).unwrap();
    if arguments.contains("--continues") {
        run("first", &arguments.replace("--continues first", ""))?;
    }
    if arguments.contains("--replace") {
        run(name, arguments)?;
    }
    run(name, arguments)?;
    Ok(kind.read(&site.join("data").join(name)))
}

/// Returns whether the message reports a missing unit by its name. A missing unit must not stop a preparation for any
/// other reason.
fn names_missing_unit(message: &str) -> bool {
    ["no speaker ", "no utterance ", "no subset "].iter().any(|beginning| message.starts_with(beginning))
}

/// Prepares one variant with every neighbour and compares them. Returns the number of compared neighbours.
fn compare<K: DataKind>(kind: &K, neighbours: &NeighbourSet, name: &str, arguments: &str) -> usize {
    let whole = prepare(kind, &neighbours.whole, name, arguments)
        .unwrap_or_else(|error| panic!("{arguments:?} is refused: {error}"));
    assert!(!whole.units.is_empty() && !whole.rows.is_empty(), "{arguments:?} claims no unit");
    let facts = declared_facts(&neighbours.whole, name);
    assert_eq!(facts.is_empty(), !OF_A_SITE.iter().any(|option| arguments.contains(option)));
    let mut compared = 0;
    for neighbour in neighbours.neighbours.iter().filter(|neighbour| whole.units.contains(&neighbour.unit)) {
        let NeighbourData { unit, name: removed, without, alone } = neighbour;
        let mut both = match prepare(kind, without, name, arguments) {
            Ok(without) => without,
            Err(error) if names_missing_unit(&error) => continue,
            // All usable rows belonged to the unit.
            Err(error) if error.starts_with("none of the ") => {
                PreparedRows { rows: Vec::new(), units: whole.units.clone() }
            }
            Err(error) => panic!("{arguments:?} without {unit:?} {removed}: {error}"),
        };
        assert_eq!(both.units, whole.units, "{arguments:?} without {unit:?} {removed}");
        match prepare(kind, alone, name, arguments) {
            Ok(alone) => both.rows.extend(alone.rows),
            Err(error) if names_missing_unit(&error) => {
                both.rows.extend(whole.rows.iter().filter(|row| kind.is_of(row, *unit, removed)).cloned());
            }
            // A unit without usable rows makes no dataset alone.
            Err(_) => {}
        }
        both.rows.sort();
        assert!(both == whole, "{arguments:?} without {unit:?} {removed}: rows of others changed");
        assert_eq!(declared_facts(without, name), facts, "{arguments:?} without {unit:?} {removed}");
        compared += 1;
    }
    compared
}

/// Returns the registrations of a variant's site, without the sizes that may differ; an empty list without a site.
fn declared_facts(folder: &Path, name: &str) -> Vec<DatasetRegistration> {
    let folder = Folder::new(site_folder(folder, name));
    if !folder.ledger().exists() {
        return Vec::new();
    }
    let store = Store::create(&folder.ledger()).unwrap();
    let (datasets, unusable) = scan(&folder, &store, &Policy::load(&folder.policy()).unwrap()).unwrap();
    assert!(unusable.is_empty(), "{unusable:?}");
    let strip_sizes = |registration: DatasetRegistration| DatasetRegistration {
        lineage: LineageId(uuid::Uuid::nil()),
        records: SizeClass(1),
        speakers: SizeClass(1),
        test_records: 0,
        users: registration.users.map(|_| SizeClass(1)),
        table: None,
        ..registration
    };
    datasets.iter().map(|local| strip_sizes(local.registration())).collect()
}

/// Runs all cases of a kind on one thread per core.
fn try_cases<K: DataKind>(kind: &K, cases: &[(&'static str, OptionCase)], neighbours: &NeighbourSet) {
    let variants: Vec<(String, &str)> = cases
        .iter()
        .flat_map(|(option, case)| match case {
            Tried(variants) => variants.iter().map(move |arguments| (*option, *arguments)).collect(),
            Refused(..) => Vec::new(),
        })
        .enumerate()
        .map(|(number, (option, arguments))| (format!("{option}-{number}"), arguments))
        .collect();
    let next = AtomicUsize::new(0);
    let compared = std::thread::scope(|scope| {
        let work = || {
            let mut compared = 0;
            while let Some((name, arguments)) = variants.get(next.fetch_add(1, Ordering::Relaxed)) {
                compared += compare(kind, neighbours, name, arguments);
            }
            compared
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let join = |handle: std::thread::ScopedJoinHandle<'_, usize>| {
            handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        handles.into_iter().map(join).sum::<usize>()
    });
    assert!(compared > 3 * variants.len(), "{compared} neighbours of {} variants", variants.len());
    for (option, case) in cases {
        let Refused(arguments, remedy) = case else { continue };
        let error = prepare(kind, &neighbours.whole, "refused", arguments).unwrap_err();
        assert!(error.contains(&format!("--{option}")) && error.contains(remedy), "{option}: {error}");
        assert!(!neighbours.whole.join("elsewhere/refused").exists(), "{option} left something");
    }
}

/// Every option of clap has an entry, every entry an option, and every value of a fixed list is tried.
#[test]
fn every_option_of_prepare_has_a_case() {
    let command = PrepareCommand::augment_args(clap::Command::new("prepare"));
    let options: BTreeSet<&str> = command.get_arguments().filter_map(|argument| argument.get_long()).collect();
    let speech = speech::CASES;
    let queries = queries::CASES;
    let names = |cases: &[(&'static str, OptionCase)]| cases.iter().map(|(name, _)| *name).collect::<BTreeSet<_>>();
    let cases: BTreeSet<&str> = names(speech).union(&names(queries)).copied().collect();
    assert_eq!(options, cases, "each option of `data prepare` needs a case here");
    let both: Vec<&str> = names(speech).intersection(&names(queries)).copied().collect();
    assert_eq!(both, SHARED);
    for (option, case) in speech.iter().chain(queries) {
        let variants: Vec<&str> = match case {
            Tried(variants) => variants.to_vec(),
            Refused(arguments, remedy) => {
                assert!(!remedy.is_empty());
                vec![arguments]
            }
        };
        // Arguments in every command belong to the kind's own part of it.
        let always = ["input", "alignments", "name", "queries"].contains(option);
        assert!(always || variants.iter().all(|arguments| arguments.contains(&format!("--{option}"))), "{option}");
        let argument = command.get_arguments().find(|argument| argument.get_long() == Some(option)).unwrap();
        // Data prepared as public are not private.
        let values = argument.get_possible_values().into_iter().map(|value| value.get_name().to_owned());
        for value in values.filter(|value| !["public", "true", "false"].contains(&value.as_str())) {
            let is_tried = variants.iter().any(|arguments| arguments.contains(&format!("--{option} {value}")));
            assert!(is_tried, "--{option} {value} is not tried");
        }
    }
}

#[test]
fn speech_units_do_not_change_each_other() {
    let dir = tempfile::tempdir().unwrap();
    try_cases(&speech::SpeechData, speech::CASES, &speech::write_neighbours(dir.path()));
}

#[test]
fn query_units_do_not_change_each_other() {
    let dir = tempfile::tempdir().unwrap();
    try_cases(&queries::QueryData, queries::CASES, &queries::write_neighbours(dir.path()));
}
