#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use undertone_privacy::PrivacyUnit;

use super::*;
use crate::dataset::fixture::{options, prepared};
use crate::dataset::user::KEY;
use crate::dataset::{KEY_FILE, Row};
use crate::log::{ColumnMap, ReadOptions};
use undertone_worker_site::dataset_meta::{META_FILE, REPORT_FILE};
use undertone_worker_site::fault::{self, FailureKind, FailurePlan};
use undertone_worker_site::normalize::TextNormalization;
use undertone_worker_site::progress::SilentProgress;

fn rows(folder: &Path, subset: Subset) -> Vec<Row> {
    Reader::open(folder).unwrap().rows(subset).map(Result::unwrap).collect()
}

/// Returns a log of 40 rows of all kinds, some of them bad.
fn log() -> String {
    let mut text = "text,session,count,intent,split\n".to_owned();
    for n in 0..40 {
        let row = match n % 10 {
            3 => format!("Query {n},,1,a,train\n"),
            6 => format!("query {n},s{n}\n"),
            8 => format!(" ,s{n},1,b,train\n"),
            _ => format!(
                "Query  {},s{},{},l{},{}\n",
                n % 7,
                n / 4,
                n % 3 + 1,
                n % 5,
                if n % 4 == 0 { "test" } else { "train" }
            ),
        };
        text.push_str(&row);
    }
    text
}

/// A description, a report, and the rows of each subset.
type PreparedDataset = (Meta, serde_json::Value, BTreeMap<&'static str, Vec<Row>>);

/// Reads the output, without the number of resumed rows.
fn read_output(options: &PrepareOptions) -> PreparedDataset {
    let meta = read_meta(&options.output).unwrap();
    let mut report: serde_json::Value =
        serde_json::from_slice(&std::fs::read(options.output.join(REPORT_FILE)).unwrap()).unwrap();
    report["resumed"] = 0.into();
    let rows =
        [("train", Subset::Train), ("test", Subset::Test)].map(|(name, subset)| (name, rows(&options.output, subset)));
    (meta, report, rows.into())
}

/// Returns a preparation with small strides, and its output without an interruption.
fn prepare_undisturbed(dir: &Path) -> (PrepareOptions, PreparedDataset) {
    let mut options = options(dir, "ward", &log());
    // Two logs, so that interruptions also fall between them.
    let second = dir.join("second.csv");
    std::fs::write(&second, log().replace("uery", "uestion").replace("l3", "l9")).unwrap();
    options.inputs.push(second);
    options.stride = 20;
    let quiet = PrepareOptions { output: dir.join("quiet"), ..options.clone() };
    prepare(&quiet, &SilentProgress).unwrap();
    let whole = read_output(&quiet);
    assert!(whole.0.parts.len() > 3 && whole.0.labels.len() > 4, "{:?}", whole.0.parts);
    (options, whole)
}

#[test]
fn declared_labels_have_their_stated_numbers_in_any_log() {
    let dir = tempfile::tempdir().unwrap();
    let found = options(dir.path(), "found", &log());
    prepare(&found, &SilentProgress).unwrap();
    let (meta, ..) = read_output(&found);
    assert!(!meta.has_declared_labels() && meta.units.is_empty(), "the order of the rows numbers them");
    let names: Vec<String> = meta.labels.iter().rev().take(2).cloned().chain(["absent".to_owned()]).collect();
    let declared = PrepareOptions { labels: names.clone(), ..options(dir.path(), "declared", &log()) };
    prepare(&declared, &SilentProgress).unwrap();
    let (own, ..) = read_output(&declared);
    assert!(own.has_declared_labels() && !own.units.is_empty() && own.labels == names, "{own:?}");
    let label = |meta: &Meta, row: &Row| row.label.map(|number| meta.labels[usize::from(number)].clone());
    let pairs = rows(&found.output, Subset::Train).into_iter().zip(rows(&declared.output, Subset::Train));
    let mut labelled = 0;
    for (with_all, with_some) in pairs {
        assert_eq!(with_all.text, with_some.text);
        let expected = label(&meta, &with_all).filter(|name| names.contains(name));
        assert_eq!(label(&own, &with_some), expected);
        labelled += u32::from(expected.is_some());
    }
    assert!(labelled > 0);
    for wrong in
        [vec!["a".to_owned(), "a".to_owned()], vec![" a".to_owned()], vec!["a".repeat(61)], vec![String::new()]]
    {
        let options = PrepareOptions { labels: wrong, ..options(dir.path(), "wrong", &log()) };
        let error = prepare(&options, &SilentProgress).unwrap_err().to_string();
        assert!(error.starts_with("--labels: "), "{error}");
    }
}

fn count_siblings(options: &PrepareOptions) -> usize {
    let name = format!(".{}", options.output.file_name().unwrap().to_str().unwrap());
    let files = std::fs::read_dir(options.output.parent().unwrap()).unwrap();
    files.filter(|file| file.as_ref().unwrap().file_name().to_str().unwrap().starts_with(&name)).count()
}

/// Interrupts at every place where data reach the disk: the process dies or the disk fails. Then the command runs again,
/// with another fresh key and another date.
#[test]
fn interrupted_preparation_gives_the_same_dataset() {
    let dir = tempfile::tempdir().unwrap();
    let (options, whole) = prepare_undisturbed(dir.path());
    let again = PrepareOptions { key: [8; KEY], ..options.clone() };
    for accident in [FailureKind::Crash, FailureKind::Disk] {
        let (mut place, mut is_interrupted) = (0, true);
        while is_interrupted {
            place += 1;
            fault::plan(Some(FailurePlan { accident, after: place }));
            let ended = std::panic::catch_unwind(AssertUnwindSafe(|| prepare(&options, &SilentProgress)));
            is_interrupted = fault::plan(None).is_none();
            assert_eq!(is_interrupted, !matches!(ended, Ok(Ok(_))), "{accident:?} at {place}");
            if options.output.exists() {
                // It had its name already.
                assert!(matches!(
                    prepare(&again, &SilentProgress).unwrap_err(),
                    PrepareError::Dataset(DatasetError::Exists(_))
                ));
            } else {
                let report = prepare(&again, &SilentProgress).unwrap();
                assert!(report.resumed <= report.rows && (report.resumed > 0 || place < 8), "{accident:?} at {place}");
                assert_eq!(count_siblings(&options), 0, "{accident:?} at {place}");
            }
            // The key is drawn at the third place: a run that is interrupted earlier is followed by a run with another
            // key.
            if std::fs::read_to_string(options.output.join(KEY_FILE)).unwrap().starts_with("07") {
                assert_eq!(read_output(&options), whole, "{accident:?} at {place}");
            } else {
                assert!(place < 8, "{accident:?} at {place}");
            }
            std::fs::remove_dir_all(&options.output).unwrap();
        }
        assert!(place > 20, "{accident:?}: only {place} places");
    }
}

/// Dies at the n-th progress update.
struct DyingProgress(AtomicU64);

impl ProgressReporter for DyingProgress {
    fn start(&self, _what: &str, _total: u64) {}
    fn advance(&self, _steps: u64) {
        if self.0.fetch_sub(1, Ordering::Relaxed) == 1 {
            std::panic::resume_unwind(Box::new("cut off"));
        }
    }
    fn finish(&self) {}
}

/// Interrupts in the middle of a part, and more than once.
#[test]
fn each_interruption_loses_at_most_a_stride() {
    let dir = tempfile::tempdir().unwrap();
    let line = |n: u64| format!("query {},s{}\n", n % 400, n / 5);
    let rows = 9 * TELL;
    let text: String = std::iter::once("text,session\n".to_owned()).chain((0..rows).map(line)).collect();
    let mut options = options(dir.path(), "ward", &text);
    options.stride = 2 * TELL;
    let quiet = PrepareOptions { output: dir.path().join("quiet"), ..options.clone() };
    prepare(&quiet, &SilentProgress).unwrap();
    let mut cuts = 0;
    let report = loop {
        // Updates occur at the start, every `TELL` rows, and at the end: the run reads one or two strides before it
        // dies.
        let run = || prepare(&options, &DyingProgress(AtomicU64::new(5)));
        match std::panic::catch_unwind(AssertUnwindSafe(run)) {
            Ok(done) => break done.unwrap(),
            Err(_) => cuts += 1,
        }
        assert!(cuts < 20);
    };
    assert!(cuts >= 2, "{cuts}");
    assert!(report.resumed.is_multiple_of(options.stride) || report.resumed == rows, "{}", report.resumed);
    assert!(report.resumed >= rows - 5 * TELL);
    assert_eq!(read_output(&options), read_output(&quiet));
}

#[test]
fn changed_options_or_log_restart_the_preparation() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(dir.path(), "ward", &log());
    options.stride = 7;
    let interrupt = |options: &PrepareOptions| {
        fault::plan(Some(FailurePlan { accident: FailureKind::Crash, after: 12 }));
        assert!(std::panic::catch_unwind(AssertUnwindSafe(|| prepare(options, &SilentProgress))).is_err());
    };
    interrupt(&options);
    let other = PrepareOptions { normalization: TextNormalization::NONE, ..options.clone() };
    let report = prepare(&other, &SilentProgress).unwrap();
    assert_eq!((report.resumed, report.changed), (0, 0));
    std::fs::remove_dir_all(&options.output).unwrap();
    interrupt(&options);
    std::fs::write(&options.inputs[0], log() + "one more,s1,1,a,train\n").unwrap();
    let report = prepare(&options, &SilentProgress).unwrap();
    assert_eq!((report.resumed, report.rows), (0, 41));
    std::fs::remove_dir_all(&options.output).unwrap();
    // A part that changed since it was written.
    interrupt(&options);
    let part = dir.path().join(".ward.preparing/dataset/rows/000000.parquet");
    std::fs::write(&part, "x").unwrap();
    assert_eq!(prepare(&options, &SilentProgress).unwrap().resumed, 0);
}

#[test]
fn bad_rows_are_counted_with_few_local_examples() {
    let dir = tempfile::tempdir().unwrap();
    // The greatest count of a row, and values beyond it.
    let mut text = "text,session,count,intent\ngood one,s1,1000000000,a\n".to_owned();
    text.extend((0..50).map(|n| format!("secret {n},,1,a\n")));
    text.push_str(
        "half a row,s1\n \u{feff} ,s1,1,a\nzero,s1,0,a\nminus,s1,-1,a\nplus,s1,+1,a\nmuch,s1,1000000001,a\nhuge,s1,1,",
    );
    text.push_str(&"x".repeat(61));
    text.extend(["\n", &"y".repeat(2001), ",s1,1,a\n"]);
    let report = prepare(&options(dir.path(), "ward", &text), &SilentProgress).unwrap();
    let count = |reason| report.malformed.get(&reason).map(|malformed| malformed.rows);
    assert_eq!((report.rows, report.train.rows, report.malformed_rows()), (59, 1, 58));
    for (reason, rows) in [
        (RejectReason::User, 50),
        (RejectReason::Fields, 1),
        (RejectReason::Empty, 1),
        (RejectReason::Count, 4),
        (RejectReason::Label, 1),
        (RejectReason::Long, 1),
    ] {
        assert_eq!(count(reason), Some(rows), "{reason}");
    }
    let examples = &report.malformed[&RejectReason::User].sample;
    assert_eq!(examples.len(), 10);
    assert!(examples.iter().all(|sample| sample.excerpt == format!("secret {}", sample.line - 3)), "{examples:?}");
    assert!(examples.iter().any(|sample| sample.line > 30), "not only the first: {examples:?}");
    assert!(
        report.malformed[&RejectReason::Count].sample.iter().any(|sample| sample.excerpt == "-1" && sample.line == 56)
    );
    let file = std::fs::read_to_string(dir.path().join("ward").join(REPORT_FILE)).unwrap();
    let meta = std::fs::read_to_string(dir.path().join("ward").join(META_FILE)).unwrap();
    assert!(file.contains("secret ") && !meta.contains("secret"), "{meta}");
    assert!(!report.to_string().contains("secret"), "a terminal shows counts only");
    assert!(report.to_string().contains("50 rows without a user"));
}

#[test]
fn normalized_spellings_are_one_recorded_query() {
    let dir = tempfile::tempdir().unwrap();
    let text = "text\nCafe\u{301}  NOW\ncaf\u{e9} now\n caf\u{c9}\u{a0}now\n";
    let reader = prepared(dir.path(), "ward", text);
    let texts: Vec<String> = reader.rows(Subset::Train).map(|row| row.unwrap().text).collect();
    assert_eq!(texts, ["caf\u{e9} now"; 3]);
    assert_eq!((reader.meta().train.texts, reader.meta().normalization), (1, TextNormalization::default()));
    assert!(reader.meta().unicode.contains("forms"));
    assert_eq!((reader.meta().units.as_slice(), reader.meta().has_users()), ([PrivacyUnit::Record].as_slice(), false));
    assert!(!dir.path().join("ward").join(KEY_FILE).exists(), "no users, no key");
}

#[test]
fn subsets_follow_their_names_and_others_are_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let text = "text,split\na,train\nb,test\nc,oos\nd,\n";
    let mut options = options(dir.path(), "ward", text);
    let texts = |options: &PrepareOptions, subset| {
        let texts = rows(&options.output, subset).into_iter().map(|row| row.text);
        texts.collect::<String>()
    };
    prepare(&options, &SilentProgress).unwrap();
    assert_eq!((texts(&options, Subset::Train), texts(&options, Subset::Test)), ("acd".to_owned(), "b".to_owned()));
    options.train = vec!["train".to_owned(), "oos".to_owned()];
    options.replace = true;
    let report = prepare(&options, &SilentProgress).unwrap();
    assert_eq!((texts(&options, Subset::Train), texts(&options, Subset::Test)), ("ac".to_owned(), "b".to_owned()));
    assert_eq!(report.outside, 1);
    assert!(report.to_string().contains("1 rows of other subsets"));
}

#[test]
fn hold_out_is_by_user_and_stable() {
    let dir = tempfile::tempdir().unwrap();
    let text =
        |rows: u32| (0..rows).fold("text,session\n".to_owned(), |text, n| text + &format!("q{},s{}\n", n % 50, n % 97));
    let held_out_users = |name: &str, rows_: u32| {
        let mut options = options(dir.path(), name, &text(rows_));
        options.hold_out = 0.3;
        prepare(&options, &SilentProgress).unwrap();
        let users = |subset| rows(&options.output, subset).into_iter().map(|row| row.user.unwrap());
        let train: std::collections::BTreeSet<u128> = users(Subset::Train).collect();
        let test: std::collections::BTreeSet<u128> = users(Subset::Test).collect();
        assert!(train.is_disjoint(&test) && train.len() + test.len() == 97);
        assert!((10..50).contains(&test.len()), "{}", test.len());
        test
    };
    assert_eq!(held_out_users("few", 97), held_out_users("many", 970));
    // Without users, whole queries are held out.
    let mut by_text = options(dir.path(), "texts", &text(970).replace("session", "other"));
    by_text.hold_out = 0.3;
    prepare(&by_text, &SilentProgress).unwrap();
    let texts = |subset| {
        rows(&by_text.output, subset).into_iter().map(|row| row.text).collect::<std::collections::BTreeSet<_>>()
    };
    let train = texts(Subset::Train);
    let test = texts(Subset::Test);
    assert!(train.is_disjoint(&test) && train.len() + test.len() == 50 && test.len() > 5);
}

#[test]
fn replacement_needs_the_flag_and_the_same_users() {
    let dir = tempfile::tempdir().unwrap();
    let first = options(dir.path(), "ward", "text,session\na,s1\n");
    prepare(&first, &SilentProgress).unwrap();
    assert!(prepare(&first, &SilentProgress).unwrap_err().to_string().contains("--replace"));
    let mut again = options(dir.path(), "ward", "text,user\nb,s1\n");
    again.replace = true;
    let refused = prepare(&again, &SilentProgress).unwrap_err().to_string();
    assert!(refused.contains("--user-column session"), "{refused}");
    let mut same = options(dir.path(), "ward", "text,session\nb,s1\n");
    same.replace = true;
    let whole = prepare(&same, &SilentProgress).unwrap();
    assert_eq!((rows(&same.output, Subset::Train)[0].text.as_str(), count_siblings(&same)), ("b", 0));
    assert_eq!(read_meta(&same.output).unwrap().digest, whole.digest);
    // At every place of the replacement, one of the two datasets exists when the next preparation begins.
    for place in 1.. {
        fault::plan(Some(FailurePlan { accident: FailureKind::Crash, after: place }));
        let ended = std::panic::catch_unwind(AssertUnwindSafe(|| prepare(&same, &SilentProgress)));
        fault::plan(None);
        if ended.is_ok() {
            break;
        }
        let plain = PrepareOptions { replace: false, ..same.clone() };
        assert!(plain.output.exists() || WorkFolder::open(&plain.output).is_ok());
        assert!(
            matches!(prepare(&plain, &SilentProgress).unwrap_err(), PrepareError::Dataset(DatasetError::Exists(_))),
            "{place}"
        );
        Reader::open(&plain.output).unwrap();
    }
    // Only datasets are replaced.
    let other = PrepareOptions { output: dir.path().join("mine"), ..same.clone() };
    std::fs::create_dir(&other.output).unwrap();
    assert!(prepare(&other, &SilentProgress).unwrap_err().to_string().contains("meta.json"));
}

#[test]
fn concurrent_preparation_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path(), "ward", &log());
    let lock_holder = WorkFolder::open(&options.output).unwrap();
    assert!(matches!(prepare(&options, &SilentProgress), Err(PrepareError::Busy(_))));
    drop(lock_holder);
    prepare(&options, &SilentProgress).unwrap();
}

#[test]
fn invalid_options_are_refused_and_leave_no_files() {
    let dir = tempfile::tempdir().unwrap();
    let good = options(dir.path(), "ward", &log());
    let refused = |change: &dyn Fn(&mut PrepareOptions)| {
        let mut options = good.clone();
        change(&mut options);
        prepare(&options, &SilentProgress).unwrap_err().to_string()
    };
    assert!(refused(&|options| options.inputs.clear()).contains("--queries"));
    assert!(refused(&|options| options.hold_out = 1.5).contains("--hold-out"));
    assert!(refused(&|options| options.longest = 0).contains("--longest-query"));
    assert!(refused(&|options| options.test.clear()).contains("--test-subset"));
    assert!(refused(&|options| options.reading.columns.subset = None).contains("--subset-column"));
    assert!(refused(&|options| options.train.clone_from(&options.test)).contains("--train-subset"));
    assert!(refused(&|options| options.reading.columns = ColumnMap::text("query")).contains("--subset-column"));
    let none = |options: &mut PrepareOptions| {
        options.test.clear();
        options.reading.columns = ColumnMap { count: Some("intent".to_owned()), ..ColumnMap::text("text") };
    };
    let nothing = refused(&none);
    assert!(nothing.contains("none of the 40 rows") && nothing.contains("with a count"), "{nothing}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "only the log is there");
}

/// Needs the intents (`UNDERTONE_DATA`); passes without them.
#[test]
fn real_log_becomes_a_dataset_with_its_counts() {
    let Some(log) = undertone_worker_site::testing::fixture::data("intents/sgd_turns.csv") else { return };
    let dir = tempfile::tempdir().unwrap();
    let name = |name: &str| Some(name.to_owned());
    let columns = ColumnMap { user: name("session"), label: name("intent"), ..ColumnMap::text("text") };
    let options = PrepareOptions::new(vec![log], ReadOptions::new(columns), &dir.path().join("sgd"), "sgd", [3; KEY]);
    let report = prepare(&options, &SilentProgress).unwrap();
    assert_eq!((report.rows, report.malformed_rows(), report.labels.len()), (156_125, 0, 65));
    // Known exactly from the data: 17,193 sessions and 108,896 texts.
    for (found, exact) in [(report.train.users, 17_193), (report.train.texts, 108_896)] {
        let off = (found as f64 / f64::from(exact) - 1.0).abs();
        assert!(off < 0.03, "{found} of {exact}");
    }
    let reader = Reader::open(&options.output).unwrap();
    let mut texts = std::collections::HashSet::new();
    let mut users = std::collections::HashSet::new();
    for row in reader.rows(Subset::Train) {
        let row = row.unwrap();
        texts.insert(row.text);
        users.insert(row.user.unwrap());
    }
    assert_eq!((texts.len(), users.len()), (108_896, 17_193));
}
