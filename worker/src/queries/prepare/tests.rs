#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use undertone_privacy::PrivacyUnit;

use super::*;
use crate::fault::{self, Accident, Plan};
use crate::queries::dataset::fixture::{options, prepared};
use crate::queries::dataset::user::KEY;
use crate::queries::dataset::{KEY_FILE, Row};
use crate::queries::log::{Columns, Reading};
use crate::queries::normalize::Normalization;
use crate::speech::dataset::{META_FILE, REPORT_FILE};
use crate::speech::progress::Silent;

fn rows(folder: &Path, subset: Subset) -> Vec<Row> {
    Reader::open(folder).unwrap().rows(subset).map(Result::unwrap).collect()
}

/// A log of 40 rows of all kinds, some of them bad.
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
type Made = (Meta, serde_json::Value, BTreeMap<&'static str, Vec<Row>>);

/// What is at the output, but for how often it took.
fn made(options: &Options) -> Made {
    let meta = read_meta(&options.output).unwrap();
    let mut report: serde_json::Value =
        serde_json::from_slice(&std::fs::read(options.output.join(REPORT_FILE)).unwrap()).unwrap();
    report["resumed"] = 0.into();
    let rows =
        [("train", Subset::Train), ("test", Subset::Test)].map(|(name, subset)| (name, rows(&options.output, subset)));
    (meta, report, rows.into())
}

/// A preparation with small strides, and what it makes if nothing happens to it.
fn undisturbed(dir: &Path) -> (Options, Made) {
    let mut options = options(dir, "ward", &log());
    // Two logs, so that it also breaks between them.
    let second = dir.join("second.csv");
    std::fs::write(&second, log().replace("uery", "uestion").replace("l3", "l9")).unwrap();
    options.inputs.push(second);
    options.stride = 20;
    let quiet = Options { output: dir.join("quiet"), ..options.clone() };
    prepare(&quiet, &Silent).unwrap();
    let whole = made(&quiet);
    assert!(whole.0.parts.len() > 3 && whole.0.labels.len() > 4, "{:?}", whole.0.parts);
    (options, whole)
}

fn beside(options: &Options) -> usize {
    let name = format!(".{}", options.output.file_name().unwrap().to_str().unwrap());
    let files = std::fs::read_dir(options.output.parent().unwrap()).unwrap();
    files.filter(|file| file.as_ref().unwrap().file_name().to_str().unwrap().starts_with(&name)).count()
}

/// At every place where something reaches the disk: the process dies there, or the disk fails; then the command is given
/// again, with another fresh key and another date.
#[test]
fn cut_off_anywhere_it_goes_on_to_the_same_dataset() {
    let dir = tempfile::tempdir().unwrap();
    let (options, whole) = undisturbed(dir.path());
    let again = Options { key: [8; KEY], ..options.clone() };
    for accident in [Accident::Death, Accident::Disk] {
        let (mut place, mut cut) = (0, true);
        while cut {
            place += 1;
            fault::plan(Some(Plan { accident, after: place }));
            let ended = std::panic::catch_unwind(AssertUnwindSafe(|| prepare(&options, &Silent)));
            cut = fault::plan(None).is_none();
            assert_eq!(cut, !matches!(ended, Ok(Ok(_))), "{accident:?} at {place}");
            if options.output.exists() {
                // It had its name already.
                assert!(matches!(
                    prepare(&again, &Silent).unwrap_err(),
                    PrepareError::Dataset(DatasetError::Exists(_))
                ));
            } else {
                let report = prepare(&again, &Silent).unwrap();
                assert!(report.resumed <= report.rows && (report.resumed > 0 || place < 8), "{accident:?} at {place}");
                assert_eq!(beside(&options), 0, "{accident:?} at {place}");
            }
            // The key is drawn at the third place: whoever is cut off before begins with another.
            if std::fs::read_to_string(options.output.join(KEY_FILE)).unwrap().starts_with("07") {
                assert_eq!(made(&options), whole, "{accident:?} at {place}");
            } else {
                assert!(place < 8, "{accident:?} at {place}");
            }
            std::fs::remove_dir_all(&options.output).unwrap();
        }
        assert!(place > 20, "{accident:?}: only {place} places");
    }
}

/// Dies when it is told for the n-th time that rows were read.
struct Mortal(AtomicU64);

impl Progress for Mortal {
    fn start(&self, _what: &str, _total: u64) {}
    fn advance(&self, _steps: u64) {
        if self.0.fetch_sub(1, Ordering::Relaxed) == 1 {
            std::panic::resume_unwind(Box::new("cut off"));
        }
    }
    fn finish(&self) {}
}

/// Also in the middle of a part, and more than once.
#[test]
fn cut_off_again_and_again_it_loses_no_more_than_a_stride_each_time() {
    let dir = tempfile::tempdir().unwrap();
    let line = |n: u64| format!("query {},s{}\n", n % 400, n / 5);
    let rows = 9 * TELL;
    let text: String = std::iter::once("text,session\n".to_owned()).chain((0..rows).map(line)).collect();
    let mut options = options(dir.path(), "ward", &text);
    options.stride = 2 * TELL;
    let quiet = Options { output: dir.path().join("quiet"), ..options.clone() };
    prepare(&quiet, &Silent).unwrap();
    let mut cuts = 0;
    let report = loop {
        // Told are the start, every TELL rows, and the end: it comes to a stride or two before it dies.
        let run = || prepare(&options, &Mortal(AtomicU64::new(5)));
        match std::panic::catch_unwind(AssertUnwindSafe(run)) {
            Ok(done) => break done.unwrap(),
            Err(_) => cuts += 1,
        }
        assert!(cuts < 20);
    };
    assert!(cuts >= 2, "{cuts}");
    assert!(report.resumed.is_multiple_of(options.stride) || report.resumed == rows, "{}", report.resumed);
    assert!(report.resumed >= rows - 5 * TELL);
    assert_eq!(made(&options), made(&quiet));
}

#[test]
fn what_belongs_to_other_options_or_another_log_is_not_gone_on_with() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(dir.path(), "ward", &log());
    options.stride = 7;
    let cut = |options: &Options| {
        fault::plan(Some(Plan { accident: Accident::Death, after: 12 }));
        assert!(std::panic::catch_unwind(AssertUnwindSafe(|| prepare(options, &Silent))).is_err());
    };
    cut(&options);
    let other = Options { normalization: Normalization::NONE, ..options.clone() };
    let report = prepare(&other, &Silent).unwrap();
    assert_eq!((report.resumed, report.changed), (0, 0));
    std::fs::remove_dir_all(&options.output).unwrap();
    cut(&options);
    std::fs::write(&options.inputs[0], log() + "one more,s1,1,a,train\n").unwrap();
    let report = prepare(&options, &Silent).unwrap();
    assert_eq!((report.resumed, report.rows), (0, 41));
    std::fs::remove_dir_all(&options.output).unwrap();
    // A part that is not what it was.
    cut(&options);
    let part = dir.path().join(".ward.preparing/dataset/rows/000000.parquet");
    std::fs::write(&part, "x").unwrap();
    assert_eq!(prepare(&options, &Silent).unwrap().resumed, 0);
}

#[test]
fn bad_rows_are_counted_by_reason_and_a_few_are_shown_at_the_site_only() {
    let dir = tempfile::tempdir().unwrap();
    // As often as a row may say, and below once more than that.
    let mut text = "text,session,count,intent\ngood one,s1,1000000000,a\n".to_owned();
    text.extend((0..50).map(|n| format!("secret {n},,1,a\n")));
    text.push_str(
        "half a row,s1\n \u{feff} ,s1,1,a\nzero,s1,0,a\nminus,s1,-1,a\nplus,s1,+1,a\nmuch,s1,1000000001,a\nhuge,s1,1,",
    );
    text.push_str(&"x".repeat(61));
    text.extend(["\n", &"y".repeat(2001), ",s1,1,a\n"]);
    let report = prepare(&options(dir.path(), "ward", &text), &Silent).unwrap();
    let count = |reason| report.malformed.get(&reason).map(|malformed| malformed.rows);
    assert_eq!((report.rows, report.train.rows, report.malformed_rows()), (59, 1, 58));
    for (reason, rows) in [
        (Reason::User, 50),
        (Reason::Fields, 1),
        (Reason::Empty, 1),
        (Reason::Count, 4),
        (Reason::Label, 1),
        (Reason::Long, 1),
    ] {
        assert_eq!(count(reason), Some(rows), "{reason}");
    }
    let shown = &report.malformed[&Reason::User].sample;
    assert_eq!(shown.len(), 10);
    assert!(shown.iter().all(|sample| sample.excerpt == format!("secret {}", sample.line - 3)), "{shown:?}");
    assert!(shown.iter().any(|sample| sample.line > 30), "not only the first: {shown:?}");
    assert!(report.malformed[&Reason::Count].sample.iter().any(|sample| sample.excerpt == "-1" && sample.line == 56));
    let file = std::fs::read_to_string(dir.path().join("ward").join(REPORT_FILE)).unwrap();
    let meta = std::fs::read_to_string(dir.path().join("ward").join(META_FILE)).unwrap();
    assert!(file.contains("secret ") && !meta.contains("secret"), "{meta}");
    assert!(!report.to_string().contains("secret"), "a terminal shows counts only");
    assert!(report.to_string().contains("50 rows without a user"));
}

#[test]
fn the_same_query_in_other_spellings_is_one_and_what_was_done_is_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let text = "text\nCafe\u{301}  NOW\ncaf\u{e9} now\n caf\u{c9}\u{a0}now\n";
    let reader = prepared(dir.path(), "ward", text);
    let texts: Vec<String> = reader.rows(Subset::Train).map(|row| row.unwrap().text).collect();
    assert_eq!(texts, ["caf\u{e9} now"; 3]);
    assert_eq!((reader.meta().train.texts, reader.meta().normalization), (1, Normalization::default()));
    assert!(reader.meta().unicode.contains("forms"));
    assert_eq!((reader.meta().units.as_slice(), reader.meta().has_users()), ([PrivacyUnit::Record].as_slice(), false));
    assert!(!dir.path().join("ward").join(KEY_FILE).exists(), "no users, no key");
}

#[test]
fn subsets_go_where_they_are_named_for_and_others_are_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let text = "text,split\na,train\nb,test\nc,oos\nd,\n";
    let mut options = options(dir.path(), "ward", text);
    let texts = |options: &Options, subset| {
        let texts = rows(&options.output, subset).into_iter().map(|row| row.text);
        texts.collect::<String>()
    };
    prepare(&options, &Silent).unwrap();
    assert_eq!((texts(&options, Subset::Train), texts(&options, Subset::Test)), ("acd".to_owned(), "b".to_owned()));
    options.train = vec!["train".to_owned(), "oos".to_owned()];
    options.replace = true;
    let report = prepare(&options, &Silent).unwrap();
    assert_eq!((texts(&options, Subset::Train), texts(&options, Subset::Test)), ("ac".to_owned(), "b".to_owned()));
    assert_eq!(report.outside, 1);
    assert!(report.to_string().contains("1 rows of other subsets"));
}

#[test]
fn whole_users_are_held_out_and_more_rows_never_move_one() {
    let dir = tempfile::tempdir().unwrap();
    let text =
        |rows: u32| (0..rows).fold("text,session\n".to_owned(), |text, n| text + &format!("q{},s{}\n", n % 50, n % 97));
    let held = |name: &str, rows_: u32| {
        let mut options = options(dir.path(), name, &text(rows_));
        options.hold_out = 0.3;
        prepare(&options, &Silent).unwrap();
        let users = |subset| rows(&options.output, subset).into_iter().map(|row| row.user.unwrap());
        let (train, test): (std::collections::BTreeSet<u128>, std::collections::BTreeSet<u128>) =
            (users(Subset::Train).collect(), users(Subset::Test).collect());
        assert!(train.is_disjoint(&test) && train.len() + test.len() == 97);
        assert!((10..50).contains(&test.len()), "{}", test.len());
        test
    };
    assert_eq!(held("few", 97), held("many", 970));
    // Without users, whole queries.
    let mut by_text = options(dir.path(), "texts", &text(970).replace("session", "other"));
    by_text.hold_out = 0.3;
    prepare(&by_text, &Silent).unwrap();
    let texts = |subset| {
        rows(&by_text.output, subset).into_iter().map(|row| row.text).collect::<std::collections::BTreeSet<_>>()
    };
    let (train, test) = (texts(Subset::Train), texts(Subset::Test));
    assert!(train.is_disjoint(&test) && train.len() + test.len() == 50 && test.len() > 5);
}

#[test]
fn a_dataset_makes_room_for_another_only_when_asked_and_only_for_the_same_users() {
    let dir = tempfile::tempdir().unwrap();
    let first = options(dir.path(), "ward", "text,session\na,s1\n");
    prepare(&first, &Silent).unwrap();
    assert!(prepare(&first, &Silent).unwrap_err().to_string().contains("--replace"));
    let mut again = options(dir.path(), "ward", "text,user\nb,s1\n");
    again.replace = true;
    let refused = prepare(&again, &Silent).unwrap_err().to_string();
    assert!(refused.contains("--user-column session"), "{refused}");
    let mut same = options(dir.path(), "ward", "text,session\nb,s1\n");
    same.replace = true;
    let whole = prepare(&same, &Silent).unwrap();
    assert_eq!((rows(&same.output, Subset::Train)[0].text.as_str(), beside(&same)), ("b", 0));
    assert_eq!(read_meta(&same.output).unwrap().digest, whole.digest);
    // At every place of the replacement, one of the two is there when the next preparation begins.
    for place in 1.. {
        fault::plan(Some(Plan { accident: Accident::Death, after: place }));
        let ended = std::panic::catch_unwind(AssertUnwindSafe(|| prepare(&same, &Silent)));
        fault::plan(None);
        if ended.is_ok() {
            break;
        }
        let plain = Options { replace: false, ..same.clone() };
        assert!(plain.output.exists() || Work::open(&plain.output).is_ok());
        assert!(
            matches!(prepare(&plain, &Silent).unwrap_err(), PrepareError::Dataset(DatasetError::Exists(_))),
            "{place}"
        );
        Reader::open(&plain.output).unwrap();
    }
    // Nothing but a dataset is ever replaced.
    let other = Options { output: dir.path().join("mine"), ..same.clone() };
    std::fs::create_dir(&other.output).unwrap();
    assert!(prepare(&other, &Silent).unwrap_err().to_string().contains("meta.json"));
}

#[test]
fn two_do_not_prepare_the_same_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path(), "ward", &log());
    let held = Work::open(&options.output).unwrap();
    assert!(matches!(prepare(&options, &Silent), Err(PrepareError::Busy(_))));
    drop(held);
    prepare(&options, &Silent).unwrap();
}

#[test]
fn options_that_cannot_be_are_refused_by_name_and_leave_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let good = options(dir.path(), "ward", &log());
    let refused = |change: &dyn Fn(&mut Options)| {
        let mut options = good.clone();
        change(&mut options);
        prepare(&options, &Silent).unwrap_err().to_string()
    };
    assert!(refused(&|options| options.inputs.clear()).contains("--queries"));
    assert!(refused(&|options| options.hold_out = 1.5).contains("--hold-out"));
    assert!(refused(&|options| options.longest = 0).contains("--longest-query"));
    assert!(refused(&|options| options.test.clear()).contains("--test-subset"));
    assert!(refused(&|options| options.reading.columns.subset = None).contains("--subset-column"));
    assert!(refused(&|options| options.train.clone_from(&options.test)).contains("--train-subset"));
    assert!(refused(&|options| options.reading.columns = Columns::text("query")).contains("--subset-column"));
    let none = |options: &mut Options| {
        options.test.clear();
        options.reading.columns = Columns { count: Some("intent".to_owned()), ..Columns::text("text") };
    };
    let nothing = refused(&none);
    assert!(nothing.contains("none of the 40 rows") && nothing.contains("with a count"), "{nothing}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "only the log is there");
}

/// Needs the intents (`UNDERTONE_DATA`); passes without them.
#[test]
fn a_log_of_156125_turns_becomes_a_dataset_with_its_sessions_and_labels() {
    let Some(log) = crate::speech::fixture::data("intents/sgd_turns.csv") else { return };
    let dir = tempfile::tempdir().unwrap();
    let name = |name: &str| Some(name.to_owned());
    let columns = Columns { user: name("session"), label: name("intent"), ..Columns::text("text") };
    let options = Options::new(vec![log], Reading::new(columns), &dir.path().join("sgd"), "sgd", [3; KEY]);
    let report = prepare(&options, &Silent).unwrap();
    assert_eq!((report.rows, report.malformed_rows(), report.labels.len()), (156_125, 0, 65));
    // Known exactly from the data: 17,193 sessions and 108,896 texts.
    for (found, exact) in [(report.train.users, 17_193), (report.train.texts, 108_896)] {
        let off = (found as f64 / f64::from(exact) - 1.0).abs();
        assert!(off < 0.03, "{found} of {exact}");
    }
    let reader = Reader::open(&options.output).unwrap();
    let (mut texts, mut users) = (std::collections::HashSet::new(), std::collections::HashSet::new());
    for row in reader.rows(Subset::Train) {
        let row = row.unwrap();
        texts.insert(row.text);
        users.insert(row.user.unwrap());
    }
    assert_eq!((texts.len(), users.len()), (108_896, 17_193));
}
