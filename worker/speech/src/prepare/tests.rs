#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;

use undertone_privacy::PrivacyUnit;

use super::*;
use crate::dataset::{Meta, REPORT_FILE};
use crate::features::{Deltas, Normalization};
use undertone_worker_site::progress::SilentProgress;
use undertone_worker_site::testing::fixture;

mod forced;
mod users;

fn quietly(options: &PrepareOptions) -> Result<PrepareReport, PrepareError> {
    prepare(options, &SilentProgress)
}

const fn plain(normalization: Normalization) -> Treatment {
    Treatment { normalization, deltas: Deltas::None }
}

/// A corpus in a temporary folder: `site/<subset>/<speaker>/1/<id>.wav` and `labels.jsonl`.
struct TestCorpus {
    dir: tempfile::TempDir,
    labels: String,
}

impl TestCorpus {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("site")).unwrap();
        Self { dir, labels: String::new() }
    }

    /// Returns four speakers of two subsets, with three utterances each, of labels 0 to 11.
    fn with_four_speakers() -> Self {
        let mut corpus = Self::new();
        for (s, (subset, speaker)) in
            [("a", "anna"), ("a", "ben"), ("a", "cleo"), ("b", "dora")].into_iter().enumerate()
        {
            for u in 0..3 {
                corpus.record(subset, speaker, &format!("{speaker}-{u}"), 16_000, 0.5);
                corpus.label(&format!("{speaker}-{u}"), &[(3 * s + u, 20), (0, 30)]);
            }
        }
        corpus
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn place(&self, subset: &str, speaker: &str, id: &str) -> PathBuf {
        let folder = self.path("site").join(subset).join(speaker).join("1");
        fs::create_dir_all(&folder).unwrap();
        folder.join(format!("{id}.wav"))
    }

    /// Writes a tone whose pitch follows from the id.
    fn record(&self, subset: &str, speaker: &str, id: &str, rate: u32, seconds: f64) {
        let spec = hound::WavSpec {
            channels: 1,
            sample_rate: rate,
            bits_per_sample: 16,
            sample_format: hound::SampleFormat::Int,
        };
        let mut wav = hound::WavWriter::create(self.place(subset, speaker, id), spec).unwrap();
        let pitch = 200.0 + 10.0 * f64::from(id.bytes().map(u32::from).sum::<u32>() % 40);
        for i in 0..(f64::from(rate) * seconds) as usize {
            let sample = (pitch * i as f64 / f64::from(rate) * std::f64::consts::TAU).sin();
            wav.write_sample((sample * 10_000.0) as i16).unwrap();
        }
        wav.finalize().unwrap();
    }

    fn label(&mut self, id: &str, runs: &[(usize, usize)]) {
        let frames: usize = runs.iter().map(|run| run.1).sum();
        self.labels += &serde_json::json!({ "u": id, "frames": frames, "runs": runs }).to_string();
        self.labels += "\n";
    }

    /// Returns options for public data, so that every option may be used.
    fn options(&self, name: &str) -> PrepareOptions {
        fs::write(self.path("labels.jsonl"), &self.labels).unwrap();
        let options = PrepareOptions::new(&self.path("site"), &self.path("labels.jsonl"), &self.path(name), name);
        PrepareOptions { visibility: Visibility::Public, ..options }
    }

    /// Returns all names in the folder except the corpus itself.
    fn leftovers(&self) -> Vec<String> {
        let names =
            fs::read_dir(self.dir.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name != "site" && name != "labels.jsonl").collect()
    }
}

fn ids(dataset: &Dataset) -> Vec<&str> {
    (0..dataset.len()).map(|i| dataset.utterance(i).id).collect()
}

#[test]
fn a_corpus_becomes_a_dataset() {
    let corpus = TestCorpus::with_four_speakers();
    let report = quietly(&corpus.options("all")).unwrap();
    let dataset = Dataset::open(&corpus.path("all")).unwrap();
    assert_eq!((report.found, report.chosen, report.kept), (12, 12, 12));
    assert_eq!((report.speakers, report.classes, report.frames), (4, 12, 12 * 48));
    assert_eq!(dataset.len(), 12);
    let utterance = dataset.utterance(4);
    assert_eq!((utterance.id, dataset.speaker_name(utterance.speaker)), ("ben-1", Some("ben")));
    assert_eq!((utterance.frames(), utterance.features.len()), (48, 48 * mfcc::COEFFICIENTS));
    assert_eq!((utterance.labels[0], utterance.labels[19], utterance.labels[20]), (4, 4, 0));
    assert_eq!((report.surplus_labels, report.unlabelled_frames), (12 * 2, 0));
    assert!(report.problems.is_empty());
}

#[test]
fn phones_become_the_classes_of_a_map_that_others_can_use() {
    let corpus = TestCorpus::with_four_speakers();
    let ctm = corpus.path("phones.ctm");
    let of = |(speaker, u): (&str, usize)| format!("{speaker}-{u} 1 0.00 0.30 AA\n{speaker}-{u} 1 0.30 0.18 T\n");
    let speakers = ["anna", "ben", "cleo", "dora"].into_iter();
    let text = speakers.flat_map(|speaker| (0..3).map(move |u| (speaker, u))).map(of).collect::<Vec<_>>().concat();
    fs::write(&ctm, text).unwrap();
    let tying = |tying| PrepareOptions {
        alignments: ctm.clone(),
        reading: LabelOptions { step: 1, phones: Some(tying) },
        ..corpus.options("public")
    };
    let report = quietly(&tying(align::PhoneTying::Least(u64::MAX))).unwrap();
    // AA and T in three states each, and the class of the rest.
    assert_eq!((report.kept, report.classes), (12, 7));
    let map = align::PhoneMap::read(&corpus.path("public").join(PHONES_FILE)).unwrap();
    let others = PrepareOptions {
        output: corpus.path("other"),
        speakers: SpeakerChoice::Named(vec!["ben".to_owned()]),
        ..tying(align::PhoneTying::Map(map))
    };
    assert_eq!(quietly(&others).unwrap().classes, 7);
    let (ours, theirs) =
        (Dataset::open(&corpus.path("public")).unwrap(), Dataset::open(&corpus.path("other")).unwrap());
    let labels = |dataset: &Dataset| {
        let at = (0..dataset.len()).find(|i| dataset.utterance(*i).id == "ben-1").unwrap();
        dataset.utterance(at).labels.to_vec()
    };
    assert_eq!(labels(&ours), labels(&theirs));
}

#[test]
fn the_saved_report_is_the_one_returned() {
    let corpus = TestCorpus::with_four_speakers();
    let report = quietly(&corpus.options("all")).unwrap();
    let saved: serde_json::Value =
        serde_json::from_slice(&fs::read(corpus.path("all").join(REPORT_FILE)).unwrap()).unwrap();
    assert_eq!(saved, report.to_json());
    assert_eq!(saved["digest"], Dataset::open(&corpus.path("all")).unwrap().meta().digest);
}

#[test]
fn digest_does_not_depend_on_threads() {
    let corpus = TestCorpus::with_four_speakers();
    let one = quietly(&PrepareOptions { created: "2026".to_owned(), ..corpus.options("one") }).unwrap();
    let three = quietly(&PrepareOptions { threads: 3, ..corpus.options("three") }).unwrap();
    assert_eq!(one.digest, three.digest);
    let unnormalized =
        quietly(&PrepareOptions { treatment: plain(Normalization::None), ..corpus.options("mean") }).unwrap();
    assert_ne!(one.digest, unnormalized.digest);
}

#[test]
fn a_subtracted_mean_is_gone_from_every_utterance() {
    let corpus = TestCorpus::with_four_speakers();
    quietly(&corpus.options("all")).unwrap();
    let dataset = Dataset::open(&corpus.path("all")).unwrap();
    for i in 0..dataset.len() {
        let sum: f32 = dataset.utterance(i).features.iter().step_by(mfcc::COEFFICIENTS).sum();
        assert!(sum.abs() < 1e-2, "utterance {i} has a mean of {sum}");
    }
}

#[test]
fn speaker_mean_is_subtracted_and_mixes_records() {
    let corpus = TestCorpus::with_four_speakers();
    quietly(&PrepareOptions { treatment: plain(Normalization::Speaker), hold_out: 0.4, ..corpus.options("all") })
        .unwrap();
    quietly(&PrepareOptions { treatment: plain(Normalization::None), hold_out: 0.4, ..corpus.options("bare") })
        .unwrap();
    let (dataset, bare) = (Dataset::open(&corpus.path("all")).unwrap(), Dataset::open(&corpus.path("bare")).unwrap());
    let sum = |i: usize| dataset.utterance(i).features.iter().step_by(mfcc::COEFFICIENTS).sum::<f32>();
    for speaker in 0..4 {
        let own: f32 = (3 * speaker..3 * speaker + 3).map(sum).sum();
        assert!(own.abs() < 1e-2, "speaker {speaker} has a mean of {own}");
    }
    assert!((0..12).any(|i| sum(i).abs() > 1.0), "utterances of one speaker differ, or this shows nothing");
    // One number is subtracted from all recordings of a speaker.
    let shift = |i: usize| bare.utterance(i).features[0] - dataset.utterance(i).features[0];
    assert!((shift(0) - shift(2)).abs() < 1e-3 && (shift(0) - shift(3)).abs() > 1e-3);
    assert_eq!(dataset.meta().units, [PrivacyUnit::Speaker]);
    let refused = dataset.units(PrivacyUnit::Record, Split::Train).unwrap_err().to_string();
    assert!(refused.contains("`all`") && refused.contains("--normalize utterance"), "{refused}");
    assert_eq!(
        dataset.units(PrivacyUnit::Speaker, Split::Train).unwrap(),
        bare.groups(PrivacyUnit::Speaker, Split::Train)
    );
    assert!(bare.units(PrivacyUnit::Record, Split::Train).is_ok());
}

/// The content of another recording changes nothing: with utterance means, of any recording; with speaker means, of
/// another speaker's.
#[test]
fn features_depend_on_nothing_outside_their_unit() {
    let features = |normalization, other: &str, seconds: f64| {
        let corpus = TestCorpus::with_four_speakers();
        corpus.record("a", other, &format!("{other}-1"), 16_000, seconds);
        let treatment = Treatment { normalization, deltas: Deltas::Second };
        quietly(&PrepareOptions { treatment, tolerance: 50, ..corpus.options("all") }).unwrap();
        let dataset = Dataset::open(&corpus.path("all")).unwrap();
        assert_eq!(dataset.meta().inputs, 39);
        dataset.utterance(0).features.to_vec()
    };
    let before = features(Normalization::Utterance, "anna", 0.5);
    assert_eq!(features(Normalization::Utterance, "anna", 0.3), before);
    assert_eq!(features(Normalization::Utterance, "ben", 0.3), before);
    let before = features(Normalization::Speaker, "ben", 0.5);
    assert_eq!(features(Normalization::Speaker, "ben", 0.3), before);
    assert_ne!(features(Normalization::Speaker, "anna", 0.3), before, "or the mean is not the speaker's");
}

#[test]
fn unusable_recordings_are_named_and_the_rest_is_kept() {
    let mut corpus = TestCorpus::with_four_speakers();
    corpus.record("a", "anna", "anna-unlabelled", 16_000, 0.5);
    corpus.record("a", "anna", "anna-mismatch", 16_000, 0.5);
    corpus.label("anna-mismatch", &[(1, 61)]);
    corpus.record("a", "anna", "anna-short", 16_000, 0.02);
    corpus.label("anna-short", &[(1, 2)]);
    fs::write(corpus.place("a", "anna", "anna-broken"), b"RIFF\x24\0\0\0WAVEfmt ").unwrap();
    corpus.label("anna-broken", &[(1, 50)]);
    fs::write(corpus.place("a", "anna", "anna-empty"), b"").unwrap();
    corpus.label("anna-empty", &[(1, 50)]);
    corpus.record("a", "anna", "anna-slow", 8_000, 0.5);
    corpus.label("anna-slow", &[(1, 50)]);
    corpus.record("b", "dora", "anna-0", 16_000, 0.5);
    fs::copy(corpus.place("a", "anna", "anna-0"), corpus.path("site").join("stray.wav")).unwrap();
    corpus.labels += "no json\n";
    let report = quietly(&corpus.options("all")).unwrap();
    assert_eq!((report.found, report.chosen, report.kept), (20, 18, 13));
    assert_eq!(report.resampled.into_iter().collect::<Vec<_>>(), [(8_000, 1)]);
    assert_eq!((report.bad_lines.len(), report.bad_lines[0].line), (1, 18));
    let problems: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
    for (name, reason) in [
        ("anna-unlabelled", "no labels"),
        ("anna-mismatch", "61 labels for 48 feature frames"),
        ("anna-short", "shorter than one frame"),
        ("a/anna/1/anna-broken.wav", "broken"),
        ("a/anna/1/anna-empty.wav", "empty"),
        ("b/dora/1/anna-0.wav", "another recording"),
        ("stray.wav", "not in <speaker>/<chapter>/"),
    ] {
        let about = problems.iter().filter(|problem| problem.starts_with(name) && problem.contains(reason)).count();
        assert_eq!(about, 1, "{name} is not named once in {problems:?}");
    }
    assert_eq!(problems.len(), 7);
    let whole = quietly(&PrepareOptions { longest: 0.4, ..corpus.options("none") }).unwrap_err().to_string();
    assert!(whole.contains("nothing was written") && whole.contains("16 broken or unreadable"), "{whole}");
    assert_eq!(corpus.leftovers(), ["all"]);
}

#[test]
fn a_folder_of_nothing_is_an_error_and_leaves_nothing() {
    let mut corpus = TestCorpus::new();
    corpus.label("a", &[(1, 50)]);
    let error = quietly(&corpus.options("none")).unwrap_err();
    assert!(matches!(error, PrepareError::Scan(ScanError::Empty(_))), "{error}");
    fs::write(corpus.path("site/notes.wav"), "x").unwrap();
    let error = quietly(&corpus.options("none")).unwrap_err();
    assert!(matches!(error, PrepareError::Scan(ScanError::Misplaced { count: 1, .. })), "{error}");
    fs::write(corpus.place("a", "anna", "b"), "x").unwrap();
    let error = quietly(&corpus.options("none")).unwrap_err();
    assert!(matches!(error, PrepareError::Nothing { found: 1, .. }), "{error}");
    assert!(error.to_string().contains("b: no labels"), "{error}");
    let missing = PrepareOptions { input: corpus.path("gone"), ..corpus.options("none") };
    assert!(matches!(quietly(&missing).unwrap_err(), PrepareError::Scan(ScanError::Io { .. })));
    assert!(corpus.leftovers().is_empty());
}

#[test]
fn speakers_are_chosen_by_subset_name_and_range() {
    let corpus = TestCorpus::with_four_speakers();
    let of = |name: &str, subsets: &[&str], speakers: SpeakerChoice, take: UtteranceChoice| {
        let subsets = subsets.iter().map(|subset| (*subset).to_owned()).collect();
        quietly(&PrepareOptions { subsets, speakers, take, ..corpus.options(name) }).map(|_| {
            let dataset = Dataset::open(&corpus.path(name)).unwrap();
            ids(&dataset).join(" ")
        })
    };
    let by_name = |names: &[&str]| SpeakerChoice::Named(names.iter().map(|name| (*name).to_owned()).collect());
    assert_eq!(of("s1", &["b"], SpeakerChoice::All, UtteranceChoice::All).unwrap(), "dora-0 dora-1 dora-2");
    assert_eq!(of("s2", &["a"], SpeakerChoice::Range(1..3), UtteranceChoice::First(1)).unwrap(), "ben-0 cleo-0");
    assert_eq!(of("s3", &[], by_name(&["dora", "anna"]), UtteranceChoice::Skip(2)).unwrap(), "anna-2 dora-2");
    let refused =
        |name: &str, subsets: &[&str], speakers, take| of(name, subsets, speakers, take).unwrap_err().to_string();
    assert!(refused("x", &["c"], SpeakerChoice::All, UtteranceChoice::All).contains("no subset c: there is a, b"));
    assert!(refused("x", &["a"], by_name(&["dora"]), UtteranceChoice::All).contains("no speaker dora among the 3"));
    assert!(
        refused("x", &["a"], SpeakerChoice::Range(2..4), UtteranceChoice::All)
            .contains("2..4: the chosen subsets have 3")
    );
    assert!(refused("x", &["a"], SpeakerChoice::Range(2..2), UtteranceChoice::All).contains("2..2"));
    assert!(refused("x", &[], SpeakerChoice::All, UtteranceChoice::Skip(3)).contains("--skip 3"));
    assert!(!corpus.path("x").exists());
}

#[test]
fn first_and_skip_share_nothing_and_miss_nothing() {
    let corpus = TestCorpus::with_four_speakers();
    quietly(&PrepareOptions { take: UtteranceChoice::First(2), ..corpus.options("first") }).unwrap();
    quietly(&PrepareOptions { take: UtteranceChoice::Skip(2), ..corpus.options("rest") }).unwrap();
    quietly(&corpus.options("all")).unwrap();
    let open = |name: &str| Dataset::open(&corpus.path(name)).unwrap();
    let (first, rest, all) = (open("first"), open("rest"), open("all"));
    let mut both = [ids(&first), ids(&rest)].concat();
    both.sort_unstable();
    assert_eq!(both, ids(&all));
}

#[test]
fn hold_out_is_stable_when_recordings_are_added() {
    let mut corpus = TestCorpus::with_four_speakers();
    let test = |corpus: &TestCorpus, name: &str, hold_out: f64| {
        quietly(&PrepareOptions { hold_out, ..corpus.options(name) }).unwrap();
        let dataset = Dataset::open(&corpus.path(name)).unwrap();
        let test = dataset.split(Split::Test).into_iter().map(|i| dataset.utterance(i).id.to_owned());
        (test.collect::<Vec<String>>(), dataset.meta().clone())
    };
    let (before, meta) = test(&corpus, "before", 0.4);
    assert!((1..12).contains(&before.len()), "{before:?}");
    assert_eq!((meta.test.utterances, meta.train.utterances), (before.len(), 12 - before.len()));
    for u in 3..9 {
        corpus.record("a", "anna", &format!("anna-{u}"), 16_000, 0.5);
        corpus.label(&format!("anna-{u}"), &[(1, 50)]);
    }
    let (after, _) = test(&corpus, "after", 0.4);
    let original: Vec<String> =
        after.into_iter().filter(|id| !id.starts_with("anna") || id.as_str() < "anna-3").collect();
    assert_eq!(original, before);
    let whole = |(test, meta): (Vec<String>, Meta)| (test.len(), meta.train.utterances);
    assert_eq!(whole(test(&corpus, "none", 0.0)), (0, 18));
    assert_eq!(whole(test(&corpus, "every", 1.0)), (18, 0));
    let refused = quietly(&PrepareOptions { hold_out: 1.5, ..corpus.options("x") }).unwrap_err();
    assert!(matches!(refused, PrepareError::HoldOut(_)));
    let share = (0..20_000).filter(|i| split(&format!("u{i}"), 0.1) == Split::Test).count();
    assert!((1_850..2_150).contains(&share), "a tenth of 20000 is {share}");
}

#[test]
fn a_label_outside_the_declared_classes_leaves_its_row_out() {
    let corpus = TestCorpus::with_four_speakers();
    let declared = |classes, name: &str| PrepareOptions {
        classes: ClassOption::Count(classes),
        visibility: Visibility::Private,
        ..corpus.options(name)
    };
    let report = quietly(&declared(7, "few")).unwrap();
    // Five utterances have labels 7 to 11.
    assert_eq!((report.kept, report.classes, report.problems.len()), (7, 7, 5));
    let problems: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
    assert!(problems.contains(&"cleo-1: label 7 is none of the classes".to_owned()), "{problems:?}");
    let table = report.to_string();
    assert!(table.contains("5 with a label that is none") && table.contains("--classes 12 keeps all"), "{table}");
    let report = quietly(&declared(9_096, "many")).unwrap();
    assert_eq!((report.kept, report.classes), (12, 9_096));
    let error = quietly(&declared(0, "x")).unwrap_err();
    assert!(matches!(error, PrepareError::Classes(0)));
    assert_eq!(corpus.leftovers().len(), 2);
}

#[test]
fn rare_labels_share_a_class_and_the_map_can_be_handed_on() {
    let corpus = TestCorpus::with_four_speakers();
    let public = PrepareOptions {
        subsets: vec!["b".to_owned()],
        classes: ClassOption::Frequent(21),
        ..corpus.options("public")
    };
    let report = quietly(&public).unwrap();
    assert_eq!(report.classes, 2, "label 0 has 90 frames, 9 to 11 have 20 each");
    let map = ClassMap::read(&corpus.path("public").join(CLASSES_FILE)).unwrap();
    assert_eq!((map.class(0), map.class(9), map.class(700)), (Some(0), Some(1), Some(1)));
    let private =
        PrepareOptions { classes: ClassOption::Map(map), visibility: Visibility::Private, ..corpus.options("private") };
    quietly(&private).unwrap();
    let dataset = Dataset::open(&corpus.path("private")).unwrap();
    assert_eq!(dataset.meta().classes, 2);
    let labels = dataset.utterance(5).labels;
    assert_eq!((labels[0], labels[47]), (1, 0));
}

#[test]
fn invalid_class_map_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("classes.json");
    assert!(matches!(ClassMap::read(&path), Err(ClassMapError::Io { .. })));
    for text in
        ["{}", r#"{"identity": 0}"#, r#"{"frequent": [2, 1]}"#, r#"{"frequent": [1, 1]}"#, r#"{"frequent": [70000]}"#]
    {
        fs::write(&path, text).unwrap();
        assert!(matches!(ClassMap::read(&path), Err(ClassMapError::Invalid { .. })), "{text}");
    }
}

/// Needs the speech data (`UNDERTONE_DATA`); passes without it.
#[test]
fn real_speech_is_prepared() {
    let Some((input, speech)) = fixture::data("speech_tiny").zip(fixture::data("speech")) else { return };
    let dir = tempfile::tempdir().unwrap();
    let labels = speech.join("alignments/pocketsphinx-en-us-senones.jsonl");
    let options = PrepareOptions {
        subsets: vec!["an4-train".to_owned()],
        classes: ClassOption::Count(5_126),
        threads: 2,
        ..PrepareOptions::new(&input, &labels, &dir.path().join("an4"), "an4")
    };
    let report = prepare(&options, &SilentProgress).unwrap();
    assert_eq!((report.kept, report.speakers, report.problems.len()), (29, 6, 0));
    let dataset = Dataset::open(&dir.path().join("an4")).unwrap();
    assert_eq!(dataset.meta().classes, 5_126);
    // The aligner has one frame more than whole 25 ms windows fit, in every file of whole centiseconds.
    assert!(report.surplus_labels >= 29 && report.surplus_labels <= 3 * 29, "{}", report.surplus_labels);
    assert_eq!(report.unlabelled_frames, 0);
}
